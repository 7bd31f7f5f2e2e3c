"""Heartbeat, versions 0 to 4: a member of a classic group lives, and hears whether it must rejoin.

1: throttle time · 3: static members (KIP-345) · 4: flexible
"""

from __future__ import annotations

from headrace.broker.groups import GroupError
from headrace.kafka.call import Call
from headrace.kafka.group_errors import code_of
from headrace.kafka.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def handle(call: Call, request: HeartbeatRequest) -> HeartbeatResponse:
    try:
        call.broker.groups.heartbeat(request.group_id, request.member_id, request.group_instance_id, request.generation_id)
    except GroupError as error:
        return HeartbeatResponse(error_code=code_of(error))
    return HeartbeatResponse()
