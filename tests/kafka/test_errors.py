"""The table from what the log and topics refuse to Kafka's error codes."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.broker import topic_errors
from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.errors import CODES, code_of, text_of
from headrace.log import errors


def every(kind: type[errors.LogError]) -> Iterator[type[errors.LogError]]:
    for below in kind.__subclasses__():
        yield below
        yield from every(below)


def test_everything_that_can_be_refused_has_a_code() -> None:
    named = {kind for module in (errors, topic_errors) for kind in vars(module).values() if isinstance(kind, type)}
    missing = {kind for kind in every(errors.LogError) if kind in named} - set(CODES)
    assert not missing


def test_a_kind_without_a_row_has_the_code_of_what_it_is_a_kind_of() -> None:
    class DiskMelted(errors.StorageError):
        pass

    assert code_of(DiskMelted("hot")) is ErrorCode.KAFKA_STORAGE_ERROR
    assert text_of(DiskMelted("hot")) == "hot"
    assert text_of(DiskMelted()) == ErrorCode.KAFKA_STORAGE_ERROR.message
