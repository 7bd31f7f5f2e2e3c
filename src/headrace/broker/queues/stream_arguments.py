"""What the consumer of a stream asks for: where to begin and which messages. The words and the refusals are RabbitMQ's."""

from __future__ import annotations

import re
from collections.abc import Mapping

from headrace.broker.exchanges.values import printed, type_name
from headrace.broker.queues.errors import not_implemented, precondition_failed
from headrace.dataclass import dataclass
from headrace.record.amqp.tables import Timestamp

OFFSET = "x-stream-offset"
FILTER = "x-stream-filter"
FILTER_VALUE = "x-stream-filter-value"
MATCH_UNFILTERED = "x-stream-match-unfiltered"
PARTITION = "x-stream-partition"  # ours: RabbitMQ's streams have no partitions

_KNOWN = frozenset({OFFSET, FILTER, MATCH_UNFILTERED, PARTITION})
_OTHERS = ("x-priority", "x-credit", "x-consumer-timeout")  # what consumers of other queues may ask for
_INTERVAL = re.compile(r"([0-9]{1,15})([YMDhms])")
_UNIT_MS = {"Y": 365 * 86_400_000, "M": 30 * 86_400_000, "D": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000}
MAX_FILTERS = 1024


@dataclass(frozen=True, slots=True)
class At:
    """An offset; one that does not exist any more stands for the first that does."""

    offset: int


@dataclass(frozen=True, slots=True)
class Since:
    timestamp_ms: int


First, Last, Next = "first", "last", "next"
Start = At | Since | str


@dataclass(frozen=True, slots=True)
class Filter:
    values: frozenset[str]
    unfiltered: bool  # messages without a filter value match, too

    def matches(self, value: str | None) -> bool:
        return self.unfiltered if value is None else value in self.values


def interval_ms(text: str) -> int | None:
    """`7D`, `1h`, `30s`: a number above zero and a unit; None for anything else."""
    match = _INTERVAL.fullmatch(text)
    length = int(match[1]) * _UNIT_MS[match[2]] if match else 0
    return length or None


def check_consumer(queue: str, no_ack: bool, prefetch: int, global_qos: bool) -> None:
    """Acknowledgements are how a reader of a stream asks for more: it must have a prefetch count and give them."""
    if prefetch == 0:
        raise precondition_failed(f"consumer prefetch count is not set for '{queue}'")
    if no_ack:
        raise not_implemented(f"automatic acknowledgement not supported by stream queues {queue}")
    if global_qos:
        raise not_implemented(f"{queue} does not support global qos")


def check_arguments(queue: str, arguments: Mapping[str, object]) -> None:
    for name in _OTHERS:
        if name in arguments:
            raise precondition_failed(f"invalid arg '{name}' for {queue} of queue type rabbit_stream_queue")


def refuse_stream_arguments(queue: str, kind: str, arguments: Mapping[str, object]) -> None:
    """On a queue of another type: whoever asks it to begin at an offset would not get what he expects."""
    for name in arguments:
        if name in _KNOWN:
            raise precondition_failed(f"invalid arg '{name}' for {queue} of queue type rabbit_{kind}_queue")


def start_of(queue: str, arguments: Mapping[str, object], now_ms: int) -> Start:
    """Where to begin."""
    value = arguments.get(OFFSET, Next)
    word = value.decode("ascii", "replace") if isinstance(value, bytes) else value
    if isinstance(word, str) and word in (First, Last, Next):
        return word
    if isinstance(value, Timestamp):
        return Since(int(value) * 1000)
    if isinstance(value, str):
        age_ms = interval_ms(value)
        if age_ms is not None:
            return Since(now_ms - age_ms)
    elif isinstance(value, int) and not isinstance(value, bool):
        return At(int(value))
    wrong = f"{{invalid_stream_offset_arg,{{{type_name(value)},{printed(value)}}}}}"
    raise precondition_failed(f"invalid arg '{OFFSET}' for {queue}: {wrong}")


def filter_of(arguments: Mapping[str, object]) -> Filter | None:
    """Which messages; None for all of them."""
    wanted = arguments.get(FILTER)
    if isinstance(wanted, str):
        values = frozenset({wanted})
    elif isinstance(wanted, list):
        values = frozenset(value for value in wanted[:MAX_FILTERS] if isinstance(value, str))
    else:
        return None
    return Filter(values, arguments.get(MATCH_UNFILTERED) is True)


def partition_of(queue: str, arguments: Mapping[str, object], count: int) -> int | None:
    """The one partition to read; None for all of them."""
    value = arguments.get(PARTITION)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < count:
        raise precondition_failed(f"invalid arg '{PARTITION}' for {queue}: there are {count} partitions, numbered from 0")
    return int(value)
