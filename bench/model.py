"""What a benchmark is made of: the modes a server runs in, the cases, their rows, and what was measured.

A case is run against each of its modes in turn, round after round. Its `measure` gives one number for each row; the
median over the rounds is what the table shows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from statistics import median
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from bench.rig import Rig

Measured = dict[str, float]
Protocol = Literal["kafka", "amqp"]


class Mode(Enum):
    """A server and what its acknowledgement promises."""

    HEADRACE = "Headrace, fsync"
    HEADRACE_FLUSH = "Headrace, flush"
    HEADRACE_PURE = "Headrace, pure Python"
    HEADRACE_AWAKE = "Headrace, staying awake"
    KAFKA = "Kafka"
    KAFKA_SYNCED = "Kafka, flush.messages=1"
    RABBITMQ = "RabbitMQ"
    RABBITMQ_QUORUM = "RabbitMQ, quorum queues"

    @property
    def is_kafka(self) -> bool:
        return self in (Mode.KAFKA, Mode.KAFKA_SYNCED)

    @property
    def is_rabbitmq(self) -> bool:
        return self in (Mode.RABBITMQ, Mode.RABBITMQ_QUORUM)


@dataclass(frozen=True, slots=True)
class Effort:
    """How long and how much: the full run, or a quick look."""

    seconds: float = 5.0  # of each timed load
    warm_seconds: float = 8.0  # of load before the first of them, so that the JVM has compiled its hot paths
    scale: float = 1.0  # of record counts

    def count(self, full: int) -> int:
        return max(1000, int(full * self.scale))


QUICK = Effort(seconds=1.0, warm_seconds=1.0, scale=0.05)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. The aims are bounds in the direction of `better`: on ours / theirs, or on ours alone."""

    key: str
    label: str
    unit: str
    better: Literal["more", "less"] = "more"
    aim_ratio: float | None = None
    aim_value: float | None = None


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    title: str
    about: str  # what is compared, and what an acknowledgement promises on each side
    rows: tuple[Row, ...]
    measure: Callable[[Rig], Measured]
    ours: Mode
    theirs: Mode | None = None
    also: Mode | None = None  # shown beside, for comparison
    serve: bool = True  # False: the case starts its servers itself
    protocol: Protocol = "kafka"  # that the servers are reached by
    most_rounds: int | None = None  # where a round takes long and hardly varies

    @property
    def modes(self) -> tuple[Mode, ...]:
        """In the order of a round: ours, theirs, and what is shown beside."""
        return tuple(mode for mode in (self.ours, self.theirs, self.also) if mode is not None)


@dataclass(slots=True)
class Outcome:
    """Everything measured in a case: mode, row key, one value for each round. `skipped` says why a mode has none; `others`
    is the share of the machine that was taken by something else in each run."""

    values: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    others: list[float] = field(default_factory=list)

    def add(self, mode: Mode, measured: Measured) -> None:
        of_mode = self.values.setdefault(mode.value, {})
        for key, value in measured.items():
            of_mode.setdefault(key, []).append(value)

    def median(self, mode: Mode | None, key: str) -> float | None:
        if mode is None:
            return None
        values = self.values.get(mode.value, {}).get(key)
        return median(values) if values else None
