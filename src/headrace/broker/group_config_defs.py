"""Every setting a group can have, under Apache Kafka 4.3's own names, types, defaults and limits.

A group's setting has a server setting with the same meaning (its default, mostly `group.` in front of the name) and two
that limit it (`group.consumer.min.…`, `group.consumer.max.…`). Settings of streams groups are accepted, checked and
shown, and have no effect: there are no streams groups here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from headrace.dataclass import dataclass
from headrace.log.config_types import ConfigDef, ConfigType, Validator, Value, at_least, invalid_value, one_of

_INT, _STRING, _BOOLEAN = ConfigType.INT, ConfigType.STRING, ConfigType.BOOLEAN


@dataclass(frozen=True, slots=True)
class Limit:
    """A server setting that bounds a group's; the number holds where the server doesn't have the setting."""

    setting: str
    number: int


@dataclass(frozen=True, slots=True)
class GroupConfigDef(ConfigDef):
    synonym: str | None = None  # the server setting that gives the default
    low: Limit | None = None
    high: Limit | None = None
    limited_when_set_only: bool = False  # the server's own default need not keep the limits


_DURATION = re.compile(r"P(?!$)(\d{1,9}D)?(T(?=\d|\.)(\d{1,9}H)?(\d{1,9}M)?(\d{1,9}([.,]\d{0,9})?S)?)?", re.IGNORECASE)
_BY_DURATION = "by_duration:"


def _offset_reset(name: str, value: Value) -> None:
    assert isinstance(value, str)
    if value in ("earliest", "latest"):
        return
    if not value.startswith(_BY_DURATION) or not _DURATION.fullmatch(value[len(_BY_DURATION) :]):
        raise invalid_value(
            name,
            value,
            f"Invalid value `{value}` for configuration {name}. "
            "The value must be either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'.",
        )


def duration_ms(text: str) -> int:
    """How long the `by_duration:…` of share.auto.offset.reset is (ISO 8601, days to seconds)."""
    match = _DURATION.fullmatch(text.removeprefix(_BY_DURATION))
    assert match is not None
    days, _, hours, minutes, seconds, _ = match.groups()
    total_s = sum(
        int(part[:-1]) * unit_s for part, unit_s in ((days, 86_400), (hours, 3600), (minutes, 60)) if part is not None
    )
    fraction = float(seconds[:-1].replace(",", ".")) if seconds is not None else 0.0
    return total_s * 1000 + round(fraction * 1000)


def _bounded(
    name: str,
    default: int,
    lowest: int,
    limits: tuple[int | None, int],
    doc: str,
    *,
    when_set_only: bool = False,
) -> GroupConfigDef:
    kind, rest = name.split(".", 1)
    low = None if limits[0] is None else Limit(f"group.{kind}.min.{rest}", limits[0])
    high = Limit(f"group.{kind}.max.{rest.removeprefix('num.')}", limits[1])
    return GroupConfigDef(name, _INT, default, doc, at_least(lowest), f"group.{name}", low, high, when_set_only)


def _free(
    name: str, kind: ConfigType, default: Value, validator: Validator | None, doc: str, *, synonym: str | None = None
) -> GroupConfigDef:
    return GroupConfigDef(name, kind, default, doc, validator, synonym)


# in the order in which Kafka looks at the limits, so that of two mistakes the same one is named
_DEFINITIONS = (
    _bounded("consumer.heartbeat.interval.ms", 5000, 1, (5000, 15_000), "How often a member has to send a heartbeat."),
    _bounded("consumer.session.timeout.ms", 45_000, 1, (45_000, 60_000), "How long a silent member stays in the group."),
    _bounded(
        "consumer.assignment.interval.ms", 1000, 0, (0, 15_000),
        "The shortest time between two assignments.", when_set_only=True,
    ),
    _bounded("share.heartbeat.interval.ms", 5000, 1, (5000, 15_000), "How often a member has to send a heartbeat."),
    _bounded("share.session.timeout.ms", 45_000, 1, (45_000, 60_000), "How long a silent member stays in the group."),
    _bounded(
        "share.record.lock.duration.ms", 30_000, 1000, (15_000, 60_000),
        "How long a record that was acquired is kept for its acknowledgement.",
    ),
    _bounded("share.delivery.count.limit", 5, 2, (2, 10), "How often a record is delivered at most."),
    _bounded(
        "share.partition.max.record.locks", 2000, 100, (100, 4000),
        "How many records of a partition may be acquired at once.",
    ),
    _bounded(
        "share.assignment.interval.ms", 1000, 0, (0, 15_000),
        "The shortest time between two assignments.", when_set_only=True,
    ),
    _bounded("streams.heartbeat.interval.ms", 5000, 1, (5000, 15_000), "Without effect: there are no streams groups."),
    _bounded("streams.session.timeout.ms", 45_000, 1, (45_000, 60_000), "Without effect: there are no streams groups."),
    _bounded("streams.num.standby.replicas", 0, 0, (None, 2), "Without effect: there are no streams groups."),
    _bounded(
        "streams.assignment.interval.ms", 1000, 0, (0, 15_000),
        "Without effect: there are no streams groups.", when_set_only=True,
    ),
    _free(
        "streams.initial.rebalance.delay.ms", _INT, 3000, at_least(0),
        "Without effect: there are no streams groups.", synonym="group.streams.initial.rebalance.delay.ms",
    ),
    _free(
        "share.auto.offset.reset", _STRING, "latest", _offset_reset,
        "Where a share group begins: earliest, latest, or by_duration:PnDTnHnMn.nS before now.",
    ),
    _free(
        "share.isolation.level", _STRING, "read_uncommitted", one_of("read_committed", "read_uncommitted"),
        "Whether records of transactions are delivered before these are committed.",
    ),
    _free(
        "share.renew.acknowledge.enable", _BOOLEAN, True, None,
        "Whether members may renew the lock of a record (KIP-1222).",
    ),
    _free(
        "errors.deadletterqueue.topic.name", _STRING, "", None,
        "Where a share group's records go that are rejected or delivered too often (KIP-1191; Kafka 4.3 has no such).",
    ),
    _free(
        "errors.deadletterqueue.copy.record.enable", _BOOLEAN, True, None,
        "Whether dead letters have the record's key, value and headers, or only say where it is.",
    ),
)  # fmt: skip

CHECKED_IN_ORDER: tuple[GroupConfigDef, ...] = _DEFINITIONS
GROUP_CONFIGS: Mapping[str, GroupConfigDef] = MappingProxyType(
    {definition.name: definition for definition in sorted(_DEFINITIONS, key=lambda found: found.name)}
)

LONGER_THAN = (
    ("consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"),
    ("share.session.timeout.ms", "share.heartbeat.interval.ms"),
    ("streams.session.timeout.ms", "streams.heartbeat.interval.ms"),
)
"""Pairs of which the first must be longer than the second."""
