"""A campaign against both twins: long runs with a byte changed here and there, scanned, stored and delivered alike.

Every ordinary run repeats the same short slice; `--soak` draws a new seed for a long one, and `--seed` repeats that.
"""

from __future__ import annotations

import random
from types import ModuleType
from typing import Any

import pytest
from tests.record.amqp.wire import HEARTBEAT, PERSISTENT, ack, frame, message_id, messages_of, publish, text

from headrace.record.amqp.events import PUBLISH, FrameError

Twins = tuple[ModuleType, ModuleType]
FIRST = 61


class Campaign:
    def __init__(self, seed: int, twins: Twins) -> None:
        self.choose = random.Random(seed)
        self.twins = twins

    def properties(self) -> bytes:
        some = self.choose.randbytes
        kinds = (
            PERSISTENT,
            PERSISTENT,
            message_id(some(self.choose.randrange(5))),
            b"\x18\x00\x02\x05",
            some(self.choose.randrange(2, 12)),
            b"\x90\x80" + text(b"ct") + b"\x02" + text(some(3)),
        )
        return self.choose.choice(kinds)

    def piece(self) -> bytes:
        """Messages, acks or a frame as a client may send them."""
        choose = self.choose
        channel, kind = choose.randrange(1, 3), choose.randrange(8)
        if kind < 5:
            body = choose.randbytes(choose.choice([0, 1, 10, 100, 300]))
            key = choose.choice([b"q", b"", b"k" * 255])
            return publish(channel, body, self.properties(), choose.choice([7, 50, 1000]), key=key) * choose.choice(
                [1, 1, 3, 70]
            )
        if kind == 5:
            return b"".join(ack(channel, tag, choose.choice([0, 0, 0, 1])) for tag in range(choose.randrange(5)))
        return HEARTBEAT if kind == 6 else frame(choose.randrange(10), channel, choose.randbytes(choose.randrange(20)))

    def damaged(self, original: bytes | bytearray, start: int = 0) -> bytes:
        data, choose = bytearray(original), self.choose
        for _ in range(choose.choice([0, 1, 1, 2, 5])):
            if len(data) <= start:
                break
            position, kind = choose.randrange(start, len(data)), choose.randrange(5)
            if kind < 2:
                data[position] = choose.choice([0, 1, 2, 3, 0x7F, 0x80, 0xFF, 0xCE, choose.randrange(256)])
            elif kind == 2:
                data[position : position + 4] = choose.choice([b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", bytes(4)])
            elif kind == 3:
                del data[position : position + choose.randrange(1, 9)]
            else:
                del data[position:]
        return bytes(data)

    def both(self, name: str, *args: Any) -> Any:
        """What both make of it."""
        ours, theirs = (outcome(module, name, *args) for module in self.twins)
        assert ours == theirs, name
        return ours

    def round(self) -> None:
        choose = self.choose
        data = self.damaged(b"".join(self.piece() for _ in range(choose.randrange(1, 8))))
        for event in self.both("scan", data, 0, choose.choice([0, 0, 60, 4096]))[0]:
            if event[0] == PUBLISH:
                messages_of(event)
                batch = self.both("run_batch", event[4], event[5], 7)[1]
                count = choose.choice([event[5], 1, event[5] + 1])
                frame_max = choose.choice([0, 9, 20, 4096])
                self.both("deliver", self.damaged(batch, FIRST), FIRST, count, b"tag", 5, False, 1, frame_max)
                self.both("split_batches", self.damaged(batch))


def outcome(module: ModuleType, name: str, *args: Any) -> tuple[list[Any], Any]:
    """The events, and what was returned or raised."""
    out: list[Any] = []
    try:
        return out, getattr(module, name)(*args, *((out,) if name == "scan" else ()))
    except FrameError as error:
        return out, (error.code, error.text)
    except ValueError:
        return out, ValueError


@pytest.mark.timeout(900)
def test_both_twins_agree_on_whatever_is_damaged(twins: Twins, request: pytest.FixtureRequest) -> None:
    soak, seed = request.config.getoption("--soak"), request.config.getoption("--seed")
    if seed is None:
        seed = random.SystemRandom().randrange(2**32) if soak else 4
    print(f"--seed {seed}")  # noqa: T201
    campaign = Campaign(seed, twins)
    for _ in range(60_000 if soak else 1_000):
        campaign.round()
