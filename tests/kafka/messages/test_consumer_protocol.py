"""What consumers tell each other, against bytes that Apache Kafka's own client wrote."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.kafka.codec.wire import MalformedMessage
from headrace.kafka.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    from_bytes,
    to_bytes,
)

SUBSCRIPTION = ConsumerProtocolSubscription(
    topics=["a", "b"],
    user_data=b"\x09",
    owned_partitions=[TopicPartition(topic="a", partitions=[0])],
    generation_id=4,
    rack_id="rack",
)
SUBSCRIPTION_WIRE = "00030000000200016100016200000001090000000100016100000001000000000000000400047261636b"
ASSIGNMENT = ConsumerProtocolAssignment(assigned_partitions=[TopicPartition(topic="a", partitions=[0, 2])])
ASSIGNMENT_WIRE = "000300000001000161000000020000000000000002ffffffff"


def test_a_subscription() -> None:
    assert to_bytes(SUBSCRIPTION).hex() == SUBSCRIPTION_WIRE
    assert from_bytes(ConsumerProtocolSubscription, bytes.fromhex(SUBSCRIPTION_WIRE)) == SUBSCRIPTION


def test_an_assignment() -> None:
    assert to_bytes(ASSIGNMENT).hex() == ASSIGNMENT_WIRE
    assert from_bytes(ConsumerProtocolAssignment, bytes.fromhex(ASSIGNMENT_WIRE)) == ASSIGNMENT


def test_an_older_version_leaves_out_what_it_does_not_have() -> None:
    found = from_bytes(ConsumerProtocolSubscription, to_bytes(SUBSCRIPTION, version=0))
    assert found == ConsumerProtocolSubscription(topics=["a", "b"], user_data=b"\x09")


def test_a_newer_version_is_read_as_the_newest_known() -> None:
    newer = bytes.fromhex("0009" + SUBSCRIPTION_WIRE[4:]) + b"something new"
    assert from_bytes(ConsumerProtocolSubscription, newer) == SUBSCRIPTION


@pytest.mark.parametrize("wire", [b"", b"\x00", b"\xff\xff", b"\x00\x00\x7f\xff\xff\xff"])
def test_bytes_that_are_no_subscription(wire: bytes) -> None:
    with pytest.raises(MalformedMessage):
        from_bytes(ConsumerProtocolSubscription, wire)


@given(st.binary(max_size=60))
def test_random_bytes_are_an_assignment_or_malformed(wire: bytes) -> None:
    try:
        from_bytes(ConsumerProtocolAssignment, wire)
    except MalformedMessage:
        pass
