"""Many messages in one call: the compiled way and pyzmq's own do the same."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import zmq

from headrace.testing import wait_until
from headrace.zeromq import pure, twin

Socket = zmq.Socket[bytes]

WAYS = [pytest.param(pure, id="pure"), pytest.param(twin, id="compiled" if twin.COMPILED else "pure again")]


@pytest.fixture
def pair() -> Iterator[Callable[..., tuple[Socket, Socket]]]:
    context = zmq.Context()

    def made(high_water_mark: int = 1000) -> tuple[Socket, Socket]:
        push, pull = context.socket(zmq.PUSH), context.socket(zmq.PULL)
        push.sndhwm = pull.rcvhwm = high_water_mark
        push.connect(f"tcp://127.0.0.1:{pull.bind_to_random_port('tcp://127.0.0.1')}")
        return push, pull

    yield made
    context.destroy(linger=0)


def slices(way: Any, pull: Socket, count: int, most: int, most_bytes: int = 1 << 20) -> list[Any]:
    got: list[Any] = []

    def enough() -> bool:
        got.append(way.receive(pull, most, most_bytes, 3))
        return sum(len(one[0]) for one in got) >= count

    wait_until(enough)
    return [one for one in got if one[0]]


@pytest.mark.parametrize("way", WAYS)
def test_messages_come_as_they_were_sent(way: Any, pair: Any) -> None:
    push, pull = pair()
    sent = [(b"one",), (b"",), (b"t", b"v"), (b"t", b"v" * 300, b"m"), (b"", b"", b""), (b"x",) * 9, (b"last",)]
    assert way.send(push, sent, 0) == len(sent)
    found = [message for one in slices(way, pull, len(sent), 100) for message in one[0]]
    assert found == [b"one", b"", [b"t", b"v"], [b"t", b"v" * 300, b"m"], [b"", b"", b""], [b"x"] * 4, b"last"]
    assert way.receive(pull, 100, 100, 3) == ([], True, {})


@pytest.mark.parametrize("way", WAYS)
def test_a_slice_has_a_bound(way: Any, pair: Any) -> None:
    push, pull = pair()
    assert way.send(push, [(b"x" * 10, b"y")] * 10, 3) == 10
    wait_until(lambda: pull.poll(100))
    assert all(len(one[0]) <= 2 for one in slices(way, pull, 7, 2))
    assert way.send(push, [(b"x" * 10,)] * 10, 0) == 10
    assert all(len(one[0]) <= 3 for one in slices(way, pull, 10, 100, 21))


@pytest.mark.parametrize("way", WAYS)
def test_bytes_are_counted_for_each_connection_with_their_framing(way: Any, pair: Any) -> None:
    push, pull = pair()
    way.send(push, [(b"x" * 10,), (b"x" * 255,), (b"x" * 256, b"y")], 0)
    taken: dict[int, int] = {}
    for _, _, part in slices(way, pull, 3, 100):
        for descriptor, size in part.items():
            taken[descriptor] = taken.get(descriptor, 0) + size
    assert list(taken.values()) == [12 + 257 + 265 + 3]
    assert next(iter(taken)) > 2


@pytest.mark.parametrize("way", WAYS)
def test_what_is_not_taken_is_told(way: Any, pair: Any) -> None:
    context = zmq.Context()
    alone = context.socket(zmq.PUSH)
    alone.bind_to_random_port("tcp://127.0.0.1")
    assert way.send(alone, [(b"t", b"v")] * 3, 1) == 1
    context.destroy(linger=0)
    push, pull = pair(high_water_mark=5)
    messages = [(b"t", b"v" * 1_000_000)] * 1000
    done = 0

    def stuck() -> bool:
        nonlocal done
        before, done = done, way.send(push, messages, done)
        return before == done > 0

    wait_until(stuck)
    assert 5 <= done < 1000
    assert [message for one in slices(way, pull, done, 10) for message in one[0]] == [[b"t", b"v" * 1_000_000]] * done


@pytest.mark.skipif(bool(os.environ.get("HEADRACE_PURE")), reason="pure Python was asked for")
def test_the_compiled_way_is_used_where_it_was_built() -> None:
    pytest.importorskip("headrace._zeromq")
    assert twin.COMPILED
