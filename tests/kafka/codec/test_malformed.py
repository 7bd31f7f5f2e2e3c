"""Hostile bytes: whatever arrives becomes a message or MalformedMessage, and never much memory."""

import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.kafka.codec.schema import Message, decode, encode
from headrace.kafka.codec.wire import MalformedMessage
from headrace.kafka.messages import MESSAGES, request_class, response_class
from headrace.kafka.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from headrace.kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headrace.kafka.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headrace.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic
from headrace.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

SAMPLES: list[Message] = [
    MetadataRequest(topics=[MetadataRequestTopic(name="orders"), MetadataRequestTopic(name="payments")]),
    JoinGroupRequest(group_id="g", protocols=[JoinGroupRequestProtocol(name="range", metadata=b"\x00\x01\x02")]),
    FetchRequest(topics=[FetchTopic(topic="t", partitions=[FetchPartition(partition=3, fetch_offset=9)])], rack_id="r"),
    OffsetCommitRequest(
        group_id="g",
        topics=[OffsetCommitRequestTopic(name="t", partitions=[OffsetCommitRequestPartition(committed_offset=4)])],
    ),
    CreateTopicsRequest(topics=[CreatableTopic(name="t", configs=[CreatableTopicConfig(name="a", value="b")])]),
]


def all_versions() -> Iterator[tuple[type[Message], int]]:
    for key, api in MESSAGES.items():
        for version in range(api.versions[0], api.versions[1] + 1):
            yield request_class(key), version
            yield response_class(key), version


ALL = list(all_versions())


def try_to_decode(cls: type[Message], version: int, wire: bytes) -> None:
    try:
        decode(cls, version, wire)
    except MalformedMessage:
        pass


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(which=st.sampled_from(ALL), wire=st.binary(max_size=300))
def test_random_bytes(which: tuple[type[Message], int], wire: bytes) -> None:
    try_to_decode(*which, wire)


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(sample=st.sampled_from(SAMPLES), data=st.data())
def test_a_message_with_some_bytes_changed(sample: Message, data: st.DataObject) -> None:
    first, last = type(sample).versions
    version = data.draw(st.integers(first, last))
    wire = encode(sample, version)
    for position in data.draw(st.lists(st.integers(0, len(wire) - 1), max_size=4)):
        wire[position] = data.draw(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF]))
    try_to_decode(type(sample), version, bytes(wire))


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: type(sample).__name__)
def test_a_message_cut_anywhere_is_malformed(sample: Message) -> None:
    first, last = type(sample).versions
    for version in range(first, last + 1):
        wire = bytes(encode(sample, version))
        for length in range(len(wire)):
            with pytest.raises(MalformedMessage):
                decode(type(sample), version, wire[:length])


def test_lengths_that_lie_cost_no_memory() -> None:
    """A thousand bytes of the patterns that mean a huge length, somewhere, in any version of any message."""
    patterns = [
        pattern * 1000
        for pattern in (b"\xff", b"\x7f", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07", b"\x00", b"\x01", b"\x02")
    ]
    for cls, version in ALL[:: max(1, len(ALL) // 200)]:
        try_to_decode(cls, version, b"")  # compiles the decoder
        for pattern in patterns:
            tracemalloc.start()
            try_to_decode(cls, version, pattern[:1000])
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert peak < 300_000, (cls, version, pattern[:5])


@pytest.mark.parametrize(
    ("version", "wire"),
    [
        (1, "7fffffff"),
        (1, "00000005 0001 61"),
        (9, "ffffffff07"),
        (9, "ffffffffff0f"),
        (9, "8080808080808001"),
    ],
)
def test_a_count_larger_than_the_message_is_malformed(version: int, wire: str) -> None:
    with pytest.raises(MalformedMessage):
        decode(MetadataRequest, version, bytes.fromhex(wire))
