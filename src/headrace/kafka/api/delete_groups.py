"""DeleteGroups, versions 0 to 2 (KIP-229): groups without members go, with their offsets. Answered when that is durable.

NON_EMPTY_GROUP while there are members, GROUP_ID_NOT_FOUND when there is no such group. 1: throttle time · 2: flexible
"""

from __future__ import annotations

from headrace.kafka.call import Call
from headrace.kafka.group_errors import code_of
from headrace.kafka.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


async def handle(call: Call, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    group_ids = list(dict.fromkeys(request.groups_names))
    answers = await call.broker.groups.delete_groups(group_ids)
    return DeleteGroupsResponse(
        results=[
            DeletableGroupResult(group_id=group_id, error_code=code_of(answer))
            for group_id, answer in zip(group_ids, answers, strict=True)
        ]
    )
