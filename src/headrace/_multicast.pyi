"""The compiled twin has the functions of `headrace.multicast.feed.short_way`."""

from collections.abc import Mapping
from typing import TypeVar

from headrace.multicast.feed.datagrams import RawRecord
from headrace.multicast.feed.ordering import Stream

T = TypeVar("T")

def datagram_of_one(
    flags: int,
    feed: int,
    partition: int,
    session: int,
    previous: int,
    sequence: int,
    timestamp_ms: int,
    key: bytes | None,
    value: bytes | None,
    room: int,
) -> bytes | None: ...
def expected_event(data: memoryview, streams: Mapping[tuple[int, int], Stream]) -> tuple[Stream, RawRecord] | None: ...
def make(kind: type[T], *values: object) -> T: ...
