"""ShareFetch, versions 1 and 2: a member of a share group acquires records, and acknowledges those it had.

Acknowledgements come first and are durable when the answer goes out. Then records are acquired for the member, each under a
lock of `share.record.lock.duration.ms`; with nothing to be had the request waits. The answer has whole batches and says which
of their records are the member's. A session (KIP-932) spares the member from naming its partitions in each request: epoch 0
begins one, -1 ends it and releases what is still held.

1: the first that is not a draft · 2: exactly as many records as asked (KIP-1206), renewing locks (KIP-1222)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

from headrace.broker.groups import GroupError
from headrace.broker.groups.errors import InvalidRequest
from headrace.broker.groups.share.fetching import Wish
from headrace.broker.groups.share.partition import Taken
from headrace.broker.groups.share.sessions import FINAL_EPOCH, FIRST_EPOCH, ShareSession, TopicPartition
from headrace.kafka.call import Call
from headrace.kafka.messages.share_fetch import (
    AcquiredRecords,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from headrace.kafka.share_acknowledgements import merged, sort_out
from headrace.kafka.share_errors import code_of, text_of

RECORD_LIMIT = 1  # share.acquire.mode=record_limit; 0 is batch_optimized


async def handle(call: Call, request: ShareFetchRequest) -> ShareFetchResponse:
    try:
        return await _answer(call, request)
    except GroupError as error:
        return ShareFetchResponse(error_code=code_of(error), error_message=text_of(error))


async def _answer(call: Call, request: ShareFetchRequest) -> ShareFetchResponse:
    group_id, member_id = check_names(request.group_id, request.member_id)
    _check_renewal(request)
    share = call.broker.share_groups
    epoch = request.share_session_epoch
    session = _session(call, request, group_id, member_id)
    given = (
        ((topic.topic_id, wanted.partition_index), wanted.acknowledgement_batches)
        for topic in request.topics
        for wanted in topic.partitions
    )
    taken, refused = sort_out(given, renewing=request.is_renew_ack, may_renew=share.may_renew(group_id))
    acknowledged = merged(refused, await share.fetching.acknowledge(group_id, member_id, taken))
    found: Mapping[TopicPartition, Taken | Exception] = {}
    if epoch == FINAL_EPOCH:
        share.sessions.end(group_id, member_id)
        await share.fetching.release(group_id, member_id)
    elif not request.is_renew_ack and session.open:
        wish = Wish(
            0 if acknowledged else request.max_wait_ms,  # whoever acknowledges wants to know soon
            request.min_bytes,
            _most_bytes(call, request),
            request.max_records if request.max_records > 0 else _SOME,
            request.share_acquire_mode == RECORD_LIMIT,
        )
        found = await share.fetching.fetch(session, wish)
        if call.ticket is not None:
            call.ticket.delivered(sum(len(answer.records) for answer in found.values() if isinstance(answer, Taken)))
    return ShareFetchResponse(
        acquisition_lock_timeout_ms=share.settings_of(group_id).lock_ms,
        responses=_responses(found, acknowledged),
    )


_SOME = 500  # for a client that does not say how many records it wants


def _most_bytes(call: Call, request: ShareFetchRequest) -> int:
    most = min(request.max_bytes, call.broker.settings.get_int("fetch.max.bytes"))
    return most if call.ticket is None else min(most, call.ticket.most_fetched)


def check_names(group_id: str | None, member_id: str | None) -> tuple[str, str]:
    if group_id is None:
        raise InvalidRequest("Invalid group id in the request.")
    if not member_id or len(member_id) > 36:
        raise InvalidRequest("Invalid member id in the request.")
    return group_id, member_id


def _check_renewal(request: ShareFetchRequest) -> None:
    """A request that renews fetches nothing (KIP-1222)."""
    if not request.is_renew_ack:
        return
    limits = {
        "max bytes": request.max_bytes,
        "min bytes": request.min_bytes,
        "max records": request.max_records,
        "max wait ms": request.max_wait_ms,
    }
    wrong = [name for name, value in limits.items() if value != 0]
    if wrong:
        raise InvalidRequest(f"With a renewal there is nothing to fetch: {', '.join(wrong)} must be 0.")


def _session(call: Call, request: ShareFetchRequest, group_id: str, member_id: str) -> ShareSession:
    sessions = call.broker.share_groups.sessions
    wanted = [(topic.topic_id, found.partition_index) for topic in request.topics for found in topic.partitions]
    if request.share_session_epoch == FINAL_EPOCH:
        return sessions.get(group_id, member_id)
    if request.share_session_epoch == FIRST_EPOCH:
        if any(found.acknowledgement_batches for topic in request.topics for found in topic.partitions):
            raise InvalidRequest("The first request of a share session has nothing to acknowledge.")
        return sessions.begin(group_id, member_id, wanted, call.on_close)
    forgotten = ((topic.topic_id, index) for topic in request.forgotten_topics_data for index in topic.partitions)
    return sessions.resume(group_id, member_id, request.share_session_epoch, wanted, forgotten)


def _responses(
    found: Mapping[TopicPartition, Taken | Exception], acknowledged: Mapping[TopicPartition, Exception | None]
) -> list[ShareFetchableTopicResponse]:
    by_topic: dict[UUID, list[PartitionData]] = {}
    for place in _in_order(found, acknowledged):
        data = PartitionData(partition_index=place[1])
        refused = acknowledged.get(place)
        if refused is not None:
            data.acknowledge_error_code, data.acknowledge_error_message = code_of(refused), text_of(refused)
        answer = found.get(place)
        if isinstance(answer, Taken):
            data.records = answer.records
            data.acquired_records = [
                AcquiredRecords(first_offset=piece.first, last_offset=piece.last, delivery_count=piece.count)
                for piece in answer.acquired
            ]
        elif answer is not None:
            data.error_code, data.error_message = code_of(answer), text_of(answer)
        by_topic.setdefault(place[0], []).append(data)
    return [ShareFetchableTopicResponse(topic_id=topic_id, partitions=parts) for topic_id, parts in by_topic.items()]


def _in_order(*places: Iterable[TopicPartition]) -> Iterable[TopicPartition]:
    return dict.fromkeys(place for some in places for place in some)
