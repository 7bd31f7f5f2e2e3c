"""Messages as records: the run that is written, each message read again, and how a record looks to everyone else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.record import CorruptBatch, decode_records, encode_records
from headrace.record.amqp.message import Message, encode_run, read_message, read_messages

messages = st.builds(
    Message,
    exchange=st.text(max_size=20),
    routing_key=st.text(max_size=20),
    properties=st.binary(min_size=2, max_size=40),
    body=st.binary(max_size=300),
)


@given(st.lists(messages, max_size=8), st.binary(max_size=70))
def test_a_run_is_read_again_message_by_message(run: list[Message], before: bytes) -> None:
    data = before + encode_run(run)
    assert read_messages(data, len(before), len(run)) == run
    position = len(before)
    for message in run:
        read, position = read_message(memoryview(data), position)
        assert read == message
    assert position == len(data)


def test_a_message_is_a_record_that_others_understand() -> None:
    records = encode_run([Message("logs", "a.b", b"\x10\0\2", b"hello"), Message("", "q", b"\0\0", b"")])
    assert decode_records(records, 2) == [
        (0, 0, b"a.b", b"hello", (("amqp.exchange", b"logs"), ("amqp.properties", b"\x10\0\2"))),
        (1, 0, b"q", b"", (("amqp.exchange", b""), ("amqp.properties", b"\0\0"))),
    ]


def test_names_that_are_not_utf8_survive() -> None:
    message = Message("e\udcff", "k\udcfe", b"\0\0", b"")
    records = encode_run([message])
    assert read_message(records, 0)[0] == message
    assert decode_records(records, 1)[0][2] == b"k\xfe"


def test_a_record_that_is_no_message_of_ours_reads_as_one_without_exchange_and_properties() -> None:
    records = encode_records([(0, 5, None, None, (("other", None),))])
    assert read_message(records, 0) == (Message("", "", b"\0\0", b""), len(records))


@given(st.lists(messages, min_size=1, max_size=2), st.data())
def test_a_record_that_was_cut_is_corrupt(run: list[Message], data: st.DataObject) -> None:
    records = encode_run(run[:1])
    with pytest.raises(CorruptBatch):
        read_message(records[: data.draw(st.integers(0, len(records) - 1))], 0)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_message_or_corrupt(data: bytes) -> None:
    try:
        _, end = read_message(data, 0)
    except CorruptBatch:
        return
    assert 0 < end <= len(data)
