"""What Kafka keeps in its internal topics, against bytes that Apache Kafka 4.3.1 wrote."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.kafka.codec.schema import decode, encode
from headrace.kafka.codec.wire import MalformedMessage
from headrace.kafka.messages.control_records import ControlRecordKey, ControlType, EndTxnMarker
from headrace.kafka.messages.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from headrace.kafka.messages.logged import (
    LoggedKey,
    LoggedValue,
    key_from_bytes,
    key_to_bytes,
    record_type,
    value_from_bytes,
    value_to_bytes,
)
from headrace.kafka.messages.transaction_records import PartitionsSchema, TransactionLogKey, TransactionLogValue

KEYS = [
    (OffsetCommitKey(group="g", topic="t", partition=7), "000100016700017400000007"),
    (GroupMetadataKey(group="g"), "0002000167"),
    (TransactionLogKey(transactional_id="tx"), "000000027478"),
]


def offset(**more: object) -> OffsetCommitValue:
    return OffsetCommitValue(offset=42, metadata="m", commit_timestamp=1000, **more)  # type: ignore[arg-type]


def group(timestamp: int = -1, rebalance_timeout: int = -1, instance: str | None = None) -> GroupMetadataValue:
    member = MemberMetadata(
        member_id="m-1",
        group_instance_id=instance,
        client_id="c",
        client_host="/127.0.0.1",
        rebalance_timeout=rebalance_timeout,
        session_timeout=45,
        subscription=b"\x01\x02",
        assignment=b"\x03",
    )
    return GroupMetadataValue(
        protocol_type="consumer",
        generation=3,
        protocol="range",
        leader=None,
        current_state_timestamp=timestamp,
        members=[member],
    )


def transaction(**more: int) -> TransactionLogValue:
    return TransactionLogValue(
        producer_id=11,
        producer_epoch=2,
        transaction_timeout_ms=60000,
        transaction_status=1,
        transaction_partitions=[PartitionsSchema(topic="t", partition_ids=[0, 1])],
        transaction_last_update_timestamp_ms=5,
        transaction_start_timestamp_ms=4,
        **more,
    )


VALUES = [
    (0, offset(), "0000000000000000002a00016d00000000000003e8"),
    (1, offset(expire_timestamp=2000), "0001000000000000002a00016d00000000000003e800000000000007d0"),
    (2, offset(), "0002000000000000002a00016d00000000000003e8"),
    (3, offset(leader_epoch=5), "0003000000000000002a0000000500016d00000000000003e8"),
    (
        4,
        offset(leader_epoch=5, topic_id=UUID(int=(1 << 64) | 2)),
        "0004000000000000002a00000005026d00000000000003e801001000000000000000010000000000000002",
    ),
    (
        0,
        group(),
        "00000008636f6e73756d657200000003000572616e6765ffff0000000100036d2d31000163000a2f3132372e302e302e31"
        "0000002d0000000201020000000103",
    ),
    (
        1,
        group(rebalance_timeout=300),
        "00010008636f6e73756d657200000003000572616e6765ffff0000000100036d2d31000163000a2f3132372e302e302e31"
        "0000012c0000002d0000000201020000000103",
    ),
    (
        2,
        group(9, 300),
        "00020008636f6e73756d657200000003000572616e6765ffff00000000000000090000000100036d2d31000163000a2f31"
        "32372e302e302e310000012c0000002d0000000201020000000103",
    ),
    (
        3,
        group(9, 300, "i"),
        "00030008636f6e73756d657200000003000572616e6765ffff00000000000000090000000100036d2d3100016900016300"
        "0a2f3132372e302e302e310000012c0000002d0000000201020000000103",
    ),
    (
        4,
        group(9, 300, "i"),
        "000409636f6e73756d6572000000030672616e676500000000000000000902046d2d31026902630b2f3132372e302e302e"
        "310000012c0000002d03010202030000",
    ),
    (
        0,
        transaction(),
        "0000000000000000000b00020000ea60010000000100017400000002000000000000000100000000000000050000000000000004",
    ),
    (
        1,
        transaction(previous_producer_id=10, next_producer_id=12, next_producer_epoch=0, client_transaction_version=2),
        "0001000000000000000b00020000ea60010202740300000000000000010000000000000000050000000000000004"
        "040008000000000000000a0108000000000000000c0202000203020000",
    ),
]


@pytest.mark.parametrize(("key", "wire"), KEYS)
def test_keys(key: LoggedKey, wire: str) -> None:
    assert key_to_bytes(key).hex() == wire
    assert record_type(bytes.fromhex(wire)) == key.record_type
    assert key_from_bytes(type(key), bytes.fromhex(wire)) == key


@pytest.mark.parametrize(("version", "value", "wire"), VALUES)
def test_values(version: int, value: LoggedValue, wire: str) -> None:
    assert value_to_bytes(value, version).hex() == wire
    assert value_from_bytes(type(value), bytes.fromhex(wire)) == value


def test_the_end_of_a_transaction() -> None:
    marker = EndTxnMarker(coordinator_epoch=6)
    assert encode(marker, 0).hex() == "000000000006"
    assert decode(EndTxnMarker, 0, bytes.fromhex("000000000006")) == marker
    assert encode(ControlRecordKey(type=ControlType.COMMIT), 0).hex() == "00000001"


def test_a_key_of_another_type_is_refused() -> None:
    with pytest.raises(MalformedMessage, match="type 2"):
        key_from_bytes(OffsetCommitKey, bytes.fromhex("0002000167"))


@pytest.mark.parametrize("wire", ["", "00", "0005", "ffff", "0004"])
def test_a_value_of_an_unknown_version_or_without_one_is_refused(wire: str) -> None:
    with pytest.raises(MalformedMessage):
        value_from_bytes(OffsetCommitValue, bytes.fromhex(wire))


@given(st.binary(max_size=60))
def test_random_bytes_are_a_record_or_malformed(wire: bytes) -> None:
    for cls in (OffsetCommitKey, GroupMetadataKey, TransactionLogKey):
        try:
            key_from_bytes(cls, wire)
        except MalformedMessage:
            pass
    for value_class in (OffsetCommitValue, GroupMetadataValue, TransactionLogValue):
        try:
            value_from_bytes(value_class, wire)
        except MalformedMessage:
            pass
