"""ListGroups, versions 0 to 5: every group there is, by state and type if asked.

Filters don't care about case; a state or type that does not exist matches nothing.

1: throttle time · 3: flexible · 4: states, and a filter by them (KIP-518) · 5: types, and a filter by them (KIP-848)
"""

from __future__ import annotations

from headrace.kafka.call import Call
from headrace.kafka.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse


def handle(call: Call, request: ListGroupsRequest) -> ListGroupsResponse:
    return ListGroupsResponse(
        groups=[
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=group.state,
                group_type=group.kind.value,
            )
            for group in call.broker.groups.list_groups(request.states_filter, request.types_filter)
        ]
    )
