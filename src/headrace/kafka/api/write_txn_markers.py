"""WriteTxnMarkers, versions 1 to 2: markers as an administrator has them written, to end a transaction that hangs (KIP-664,
`kafka-transactions.sh abort`). This server's own coordinator writes its markers itself.

A marker of an older epoch than the partition knows is INVALID_PRODUCER_EPOCH, and one of an older coordinator
TRANSACTION_COORDINATOR_FENCED. Answered when all of them are durable.

1: flexible · 2: the transactions' version; from 2 on a marker's epoch must be above the producer's
"""

from __future__ import annotations

from headrace.kafka.call import Call
from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.errors import code_of
from headrace.kafka.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from headrace.log.errors import LogError, StorageError
from headrace.record.control import EndTransactionMarker, encode_marker

_V2 = 2


async def handle(call: Call, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    results = [
        WritableTxnMarkerResult(
            producer_id=marker.producer_id,
            topics=[
                WritableTxnMarkerTopicResult(
                    name=topic.name,
                    partitions=[
                        WritableTxnMarkerPartitionResult(
                            partition_index=index, error_code=_write(call, marker, topic.name, index)
                        )
                        for index in topic.partition_indexes
                    ],
                )
                for topic in marker.topics
            ],
        )
        for marker in request.markers
    ]
    try:
        await call.broker.log.synced()
    except StorageError:
        for result in results:
            for topic in result.topics:
                for partition in topic.partitions:
                    partition.error_code = partition.error_code or ErrorCode.KAFKA_STORAGE_ERROR
    return WriteTxnMarkersResponse(markers=results)


def _write(call: Call, marker: WritableTxnMarker, topic: str, index: int) -> ErrorCode:
    partition = call.broker.log.partition(topic, index)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if call.broker.log.topics()[topic].internal:
        return ErrorCode.NONE  # offsets wait for their own coordinator, which is here
    if marker.producer_id < 0 or marker.producer_epoch < 0:
        return ErrorCode.INVALID_REQUEST
    if marker.transaction_version >= _V2:
        known = next((one for one in partition.active_producers() if one.producer_id == marker.producer_id), None)
        if known is not None and marker.producer_epoch <= known.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
    # An epoch of a coordinator that does not exist yet would fence the one that does.
    coordinator_epoch = min(marker.coordinator_epoch, call.broker.transactions.coordinator_epoch)
    batch = encode_marker(
        EndTransactionMarker(marker.transaction_result, coordinator_epoch),
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        now_ms=call.broker.clock.now_ms(),
    )
    try:
        partition.append_control(batch)
    except LogError as error:
        return code_of(error)
    return ErrorCode.NONE
