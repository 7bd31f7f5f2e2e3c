"""The rows of `__transaction_state` are Kafka's: the schemas that clients use read what we write."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.broker.row_fields import MalformedRow
from headrace.broker.transactions.records import decode_key, decode_value, encode_key, encode_value
from headrace.broker.transactions.transaction import State, Transaction
from headrace.kafka.messages.logged import key_from_bytes, value_from_bytes, value_to_bytes
from headrace.kafka.messages.transaction_records import PartitionsSchema, TransactionLogKey, TransactionLogValue

TRANSACTIONS = st.builds(
    Transaction,
    st.text(max_size=20),
    producer_id=st.integers(0, 1 << 62),
    epoch=st.integers(-1, 32_767),
    timeout_ms=st.integers(0, 1 << 30),
    state=st.sampled_from(State),
    partitions=st.frozensets(st.tuples(st.sampled_from(("a", "topic", "ü")), st.integers(0, 300)), max_size=5),
    started_ms=st.integers(-1, 1 << 50),
    updated_ms=st.integers(-1, 1 << 50),
    client_version=st.sampled_from((0, 2)),
    previous_producer_id=st.integers(-1, 1 << 62),
)


@given(TRANSACTIONS)
def test_what_is_written_is_read_again(transaction):
    assert decode_key(encode_key(transaction.transactional_id)) == transaction.transactional_id
    assert decode_value(transaction.transactional_id, encode_value(transaction)) == transaction


@given(TRANSACTIONS)
def test_kafkas_own_schema_reads_it(transaction):
    key = key_from_bytes(TransactionLogKey, encode_key(transaction.transactional_id))
    value = value_from_bytes(TransactionLogValue, encode_value(transaction))
    assert key.transactional_id == transaction.transactional_id
    assert (value.producer_id, value.producer_epoch) == (transaction.producer_id, transaction.epoch)
    assert list(State)[value.transaction_status] is transaction.state
    found = {(topic.topic, index) for topic in value.transaction_partitions or () for index in topic.partition_ids}
    assert found == transaction.partitions
    assert value.client_transaction_version == transaction.client_version
    assert value.previous_producer_id == transaction.previous_producer_id


@pytest.mark.parametrize("version", [0, 1])
def test_what_kafka_writes_is_read(version):
    value = TransactionLogValue(
        producer_id=7,
        producer_epoch=3,
        transaction_timeout_ms=1000,
        transaction_status=1,
        transaction_partitions=[PartitionsSchema(topic="t", partition_ids=[0, 4])],
        transaction_last_update_timestamp_ms=5,
        transaction_start_timestamp_ms=4,
    )
    found = decode_value("tx", value_to_bytes(value, version))
    assert found == Transaction("tx", 7, 3, 1000, State.ONGOING, frozenset((("t", 0), ("t", 4))), 4, 5)


@given(st.binary(max_size=80))
def test_any_bytes_are_a_row_or_malformed(content):
    for read in (decode_key, lambda row: decode_value("tx", row)):
        try:
            read(content)
        except MalformedRow:
            pass
