"""FindCoordinator, versions 0 to 6: always this node, under the address that the client's listener advertises.

A key type that does not exist is INVALID_REQUEST. A share partition's key must read group:topicId:partition.

1: key type (transactions, KIP-98) and an error message · 3: flexible · 4: several keys (KIP-699) · 5: TRANSACTION_ABORTABLE
(KIP-890), never answered here · 6: share partitions (KIP-932)
"""

from __future__ import annotations

from base64 import urlsafe_b64decode

from headrace.kafka.call import Call
from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

GROUP, TRANSACTION, SHARE = 0, 1, 2

_NO_NODE = -1


def handle(call: Call, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    if call.version >= 4:
        found = [_find(call, request.key_type, key) for key in request.coordinator_keys]
        return FindCoordinatorResponse(coordinators=found)
    one = _find(call, request.key_type, request.key)
    return FindCoordinatorResponse(
        error_code=one.error_code,
        error_message=one.error_message or "NONE",  # Kafka's own words for no error, here and above
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )


def _find(call: Call, key_type: int, key: str) -> Coordinator:
    problem = _problem(call.version, key_type, key)
    if problem is not None:
        return Coordinator(
            key=key,
            node_id=_NO_NODE,
            host="",
            port=_NO_NODE,
            error_code=ErrorCode.INVALID_REQUEST,
            error_message=problem,
        )
    return Coordinator(
        key=key, node_id=call.broker.node_id, host=call.host, port=call.port, error_code=ErrorCode.NONE, error_message=""
    )


def _problem(version: int, key_type: int, key: str) -> str | None:
    if key_type in (GROUP, TRANSACTION):
        return None
    if key_type != SHARE:
        return f"There is no coordinator of type {key_type}."
    if version < 6:
        return "Share partitions have a coordinator from version 6 on."
    return None if _is_share_key(key) else "A share partition is named group:topicId:partition."


def _is_share_key(key: str) -> bool:
    # A group id may hold colons, the two other parts can't.
    group, _, rest = key.rpartition(":")[0].rpartition(":")
    partition = key.rpartition(":")[2]
    try:
        return bool(group) and len(urlsafe_b64decode(rest + "==")) == 16 and int(partition) >= 0
    except ValueError:
        return False
