"""The settings of a topic, under the names, types, defaults and rules of Apache Kafka 4.3.

`TOPIC_CONFIGS` describes each of them. What was set for a topic is a mapping of texts (its overrides); where a topic
sets nothing, the server's setting with the same meaning applies (its synonyms, first match wins: `log.retention.ms`,
then `log.retention.minutes`, then `log.retention.hours`), and then the default. `resolve` puts the three together into
a `TopicConfig`, which the engine reads as plain attributes.

One setting is our own: `durability`, what an acknowledgement promises.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from headrace.dataclass import dataclass
from headrace.log.config_types import (
    MAX_LONG,
    ConfigDef,
    ConfigType,
    Validator,
    Value,
    at_least,
    between,
    invalid_value,
    list_of,
    one_of,
    unique,
)
from headrace.log.errors import InvalidConfig
from headrace.log.port import Durability

_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS
_COPIES_OF = re.compile(r"\*|[0-9]+:[0-9]+")


def _same(number: int) -> int:
    return number


def _never_if_negative(scale: int) -> Callable[[int], int]:
    return lambda number: -1 if number < 0 else number * scale


@dataclass(frozen=True, slots=True)
class Synonym:
    """A server setting that gives a topic setting its default, in the topic setting's unit after `convert`."""

    name: str
    convert: Callable[[int], int] = _same


@dataclass(frozen=True, slots=True)
class TopicConfigDef(ConfigDef):
    synonyms: tuple[Synonym, ...] = ()
    hidden: bool = False  # accepted, but not shown by DescribeConfigs


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """The values in force for one topic. A field is named as its setting is, with `_` for `.`."""

    cleanup_policy: frozenset[str]
    compression_gzip_level: int
    compression_lz4_level: int
    compression_type: str
    compression_zstd_level: int
    delete_retention_ms: int
    durability: Durability
    file_delete_delay_ms: int
    flush_messages: int
    flush_ms: int
    follower_replication_throttled_replicas: tuple[str, ...]
    index_interval_bytes: int
    leader_replication_throttled_replicas: tuple[str, ...]
    local_retention_bytes: int
    local_retention_ms: int
    max_compaction_lag_ms: int
    max_message_bytes: int
    message_timestamp_after_max_ms: int
    message_timestamp_before_max_ms: int
    message_timestamp_type: str  # "CreateTime" or "LogAppendTime"
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    min_insync_replicas: int
    preallocate: bool
    remote_log_copy_disable: bool
    remote_log_delete_on_disable: bool
    remote_storage_enable: bool
    retention_bytes: int
    retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    segment_jitter_ms: int
    segment_ms: int
    unclean_leader_election_enable: bool
    # read at every append, so they are fields and not computed
    compact: bool
    delete: bool
    log_append_time: bool

    @property
    def max_segment_ms(self) -> int:
        """The age at which a segment rolls: a compacted topic must roll in time for max.compaction.lag.ms (KIP-354)."""
        if self.compact and self.max_compaction_lag_ms > 0:
            return min(self.max_compaction_lag_ms, self.segment_ms)
        return self.segment_ms


def _throttled(name: str, value: Value) -> None:
    assert isinstance(value, tuple)
    if value != ("*",) and not all(_COPIES_OF.fullmatch(item) and item != "*" for item in value):
        raise invalid_value(
            name,
            f"[{', '.join(value)}]",
            f"{name} must be the literal '*' or a list of replicas in the following format: "
            "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
        )


def _gzip_level(name: str, value: Value) -> None:
    assert isinstance(value, int)
    if value != -1 and not 1 <= value <= 9:
        raise invalid_value(name, value, "Value must be between 1 and 9 or equal to -1")


_BOOLEAN, _STRING, _INT = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT
_LONG, _DOUBLE, _LIST = ConfigType.LONG, ConfigType.DOUBLE, ConfigType.LIST

COMPRESSION_TYPES = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")


def _def(
    name: str,
    kind: ConfigType,
    default: Value,
    validator: Validator | None,
    synonyms: str | tuple[Synonym, ...] | None,
    doc: str,
    *,
    hidden: bool = False,
) -> TopicConfigDef:
    if isinstance(synonyms, str):
        synonyms = (Synonym(synonyms),)
    return TopicConfigDef(name, kind, default, doc, validator, synonyms or (), hidden)


_DEFS = (
    _def(
        "cleanup.policy", _LIST, ("delete",), list_of("compact", "delete", empty_allowed=True), "log.cleanup.policy",
        "What happens to old records: `delete` drops whole segments by age and size, `compact` keeps the newest record "
        "of each key, both do both, and an empty list keeps everything.",
    ),
    _def(
        "compression.gzip.level", _INT, -1, _gzip_level, "compression.gzip.level",
        "The level used when compression.type is gzip; -1 is the library's default.",
    ),
    _def(
        "compression.lz4.level", _INT, 9, between(1, 17), "compression.lz4.level",
        "The level used when compression.type is lz4.",
    ),
    _def(
        "compression.type", _STRING, "producer", one_of(*COMPRESSION_TYPES), "compression.type",
        "How stored batches are compressed; `producer` keeps what the producer chose.",
    ),
    _def(
        "compression.zstd.level", _INT, 3, between(-131072, 22), "compression.zstd.level",
        "The level used when compression.type is zstd.",
    ),
    _def(
        "delete.retention.ms", _LONG, _DAY_MS, at_least(0), "log.cleaner.delete.retention.ms",
        "How long a compacted topic keeps the mark of a deleted key, so that a reader from the start still sees it.",
    ),
    _def(
        "durability", _STRING, "fsync", one_of(*(kind.value for kind in Durability)), "durability",
        "What an acknowledgement promises: `fsync` survives power loss, `flush` survives the process, `memory` "
        "nothing.",
    ),
    _def(
        "file.delete.delay.ms", _LONG, 60_000, at_least(0), "log.segment.delete.delay.ms",
        "How long a deleted segment's file stays on disk.",
    ),
    _def(
        "flush.messages", _LONG, MAX_LONG, at_least(1), "log.flush.interval.messages",
        "Sync a partition to disk after this many records, whatever its durability.",
    ),
    _def(
        "flush.ms", _LONG, MAX_LONG, at_least(0),
        (Synonym("log.flush.interval.ms"), Synonym("log.flush.scheduler.interval.ms")),
        "Sync a partition to disk after this time, whatever its durability.",
    ),
    _def(
        "follower.replication.throttled.replicas", _LIST, (), _throttled, None,
        "Copies whose replication is throttled on the follower's side; without meaning on one node.",
    ),
    _def(
        "index.interval.bytes", _INT, 4096, at_least(0), "log.index.interval.bytes",
        "A sparse index gets one entry for about this many bytes of batches.",
    ),
    _def(
        "internal.segment.bytes", _INT, None, None, None,
        "The size of a segment without segment.bytes' lower limit; for tests.", hidden=True,
    ),
    _def(
        "leader.replication.throttled.replicas", _LIST, (), _throttled, None,
        "Copies whose replication is throttled on the leader's side; without meaning on one node.",
    ),
    _def(
        "local.retention.bytes", _LONG, -2, at_least(-2), "log.local.retention.bytes",
        "How much of a partition stays local once it is archived; -2 means retention.bytes.",
    ),
    _def(
        "local.retention.ms", _LONG, -2, at_least(-2), "log.local.retention.ms",
        "How long segments stay local once they are archived; -2 means retention.ms.",
    ),
    _def(
        "max.compaction.lag.ms", _LONG, MAX_LONG, at_least(1), "log.cleaner.max.compaction.lag.ms",
        "The longest time a record may stay out of compaction's reach.",
    ),
    _def(
        "max.message.bytes", _INT, 1_048_588, at_least(0), "message.max.bytes",
        "The largest record batch that is accepted, as it is stored (compressed if it is).",
    ),
    _def(
        "message.timestamp.after.max.ms", _LONG, _HOUR_MS, at_least(0), "log.message.timestamp.after.max.ms",
        "How far a record's timestamp may be ahead of the server's clock; for CreateTime.",
    ),
    _def(
        "message.timestamp.before.max.ms", _LONG, MAX_LONG, at_least(0), "log.message.timestamp.before.max.ms",
        "How far a record's timestamp may be behind the server's clock; for CreateTime.",
    ),
    _def(
        "message.timestamp.type", _STRING, "CreateTime", one_of("CreateTime", "LogAppendTime"),
        "log.message.timestamp.type",
        "Whether a record keeps its producer's time or gets the server's.",
    ),
    _def(
        "min.cleanable.dirty.ratio", _DOUBLE, 0.5, between(0, 1), "log.cleaner.min.cleanable.ratio",
        "The share of a compacted partition that must be uncompacted before compaction begins.",
    ),
    _def(
        "min.compaction.lag.ms", _LONG, 0, at_least(0), "log.cleaner.min.compaction.lag.ms",
        "The shortest time a record stays uncompacted.",
    ),
    _def(
        "min.insync.replicas", _INT, 1, at_least(1), "min.insync.replicas",
        "Copies in step that acks=all needs, where there are as many; one node has one, so it needs no other.",
    ),
    _def(
        "preallocate", _BOOLEAN, False, None, "log.preallocate",
        "Whether a new segment's file gets its full size at once.",
    ),
    _def(
        "remote.log.copy.disable", _BOOLEAN, False, None, None,
        "Whether a topic with an archive stops adding to it.",
    ),
    _def(
        "remote.log.delete.on.disable", _BOOLEAN, False, None, None,
        "Whether turning the archive off deletes what it holds.",
    ),
    _def(
        "remote.storage.enable", _BOOLEAN, False, None, None,
        "Whether old segments move to an archive.",
    ),
    _def(
        "retention.bytes", _LONG, -1, None, "log.retention.bytes",
        "The size above which a partition's oldest segments are deleted; -1 is no limit.",
    ),
    _def(
        "retention.ms", _LONG, 7 * _DAY_MS, at_least(-1),
        (
            Synonym("log.retention.ms", _never_if_negative(1)),
            Synonym("log.retention.minutes", _never_if_negative(60_000)),
            Synonym("log.retention.hours", _never_if_negative(_HOUR_MS)),
        ),
        "The age above which a partition's oldest segments are deleted; -1 is no limit.",
    ),
    _def(
        "segment.bytes", _INT, 1024 * 1024 * 1024, at_least(1024 * 1024), "log.segment.bytes",
        "The size at which a new segment begins; retention works by whole segments.",
    ),
    _def(
        "segment.index.bytes", _INT, 10 * 1024 * 1024, at_least(4), "log.index.size.max.bytes",
        "The largest index of a segment; a full index begins a new segment.",
    ),
    _def(
        "segment.jitter.ms", _LONG, 0, at_least(0),
        (Synonym("log.roll.jitter.ms"), Synonym("log.roll.jitter.hours", lambda hours: hours * _HOUR_MS)),
        "The most that a segment may roll early, by chance, so that not all roll together.",
    ),
    _def(
        "segment.ms", _LONG, 7 * _DAY_MS, at_least(1),
        (Synonym("log.roll.ms"), Synonym("log.roll.hours", lambda hours: hours * _HOUR_MS)),
        "The age at which a new segment begins, so that old records can be deleted.",
    ),
    _def(
        "unclean.leader.election.enable", _BOOLEAN, False, None, "unclean.leader.election.enable",
        "Whether a copy out of step may lead; without meaning on one node.",
    ),
)  # fmt: skip

TOPIC_CONFIGS: Mapping[str, TopicConfigDef] = MappingProxyType({definition.name: definition for definition in _DEFS})

# every server setting that gives topics a default
SERVER_SYNONYMS: frozenset[str] = frozenset(synonym.name for definition in _DEFS for synonym in definition.synonyms)


def resolve(overrides: Mapping[str, str], defaults: Mapping[str, str]) -> TopicConfig:
    """The values in force for a topic that sets `overrides` on a server whose settings are `defaults` (server names;
    those that don't concern topics are ignored). Raises InvalidConfig. Equal arguments give the same object."""
    relevant = frozenset((name, defaults[name]) for name in SERVER_SYNONYMS if name in defaults)
    return _resolve(frozenset(overrides.items()), relevant)


def validate(
    overrides: Mapping[str, str], defaults: Mapping[str, str], *, archive: bool = False, before: Mapping[str, str] | None = None
) -> None:
    """Raises InvalidConfig unless a topic that had the overrides `before` may be given these; `archive` says whether the server
    has one."""
    for name in overrides:
        if name not in TOPIC_CONFIGS:
            raise InvalidConfig(f"Unknown topic config name: {name}")
    config = resolve(overrides, defaults)
    was_archived = (before or {}).get("remote.storage.enable", "").strip().lower() == "true"
    _validate_archive(config, archive, was_archived)


def _validate_archive(config: TopicConfig, archive: bool, was_archived: bool) -> None:
    """KIP-405, KIP-950."""
    if not config.remote_storage_enable:
        if was_archived and not config.remote_log_delete_on_disable:
            raise InvalidConfig(
                "It is invalid to disable remote storage without deleting remote data. If you want to keep the remote data and "
                "turn to read only, please set `remote.storage.enable=true,remote.log.copy.disable=true`. If you want to "
                "disable remote storage and delete all remote data, please set "
                "`remote.storage.enable=false,remote.log.delete.on.disable=true`."
            )
        return
    if not archive:
        raise InvalidConfig(
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage."
        )
    if config.compact:
        raise InvalidConfig(
            "Remote log storage only supports topics with cleanup.policy=delete or cleanup.policy being an empty list."
        )
    if config.durability is Durability.MEMORY:
        raise InvalidConfig("Remote log storage is for topics on disk, and this one has durability=memory.")
    for unit, whole, local in (
        ("bytes", config.retention_bytes, config.local_retention_bytes),
        ("ms", config.retention_ms, config.local_retention_ms),
    ):
        if local == -2:
            continue
        if config.remote_log_copy_disable and local != whole:
            raise InvalidConfig(
                f"When `remote.log.copy.disable` is set to true, the `local.retention.{unit}` and `retention.{unit}` must be "
                "set to the identical value because there will be no more logs copied to the remote storage."
            )
        if whole > -1 and local == -1:
            why = f"Value must not be -1 as retention.{unit} value is set as {whole}."
            raise invalid_value(f"local.retention.{unit}", local, why)
        if whole > -1 and local > whole:
            why = f"Value must not be more than retention.{unit} property value: {whole}"
            raise invalid_value(f"local.retention.{unit}", local, why)


def inherited(definition: TopicConfigDef, defaults: Mapping[str, str]) -> tuple[Value, str | None]:
    """What a topic that doesn't set this gets, and the server setting it comes from (None: the built-in default)."""
    for synonym in definition.synonyms:
        text = defaults.get(synonym.name)
        if text is not None:
            return _convert(definition, synonym, text), synonym.name
    return definition.default, None


def _convert(definition: TopicConfigDef, synonym: Synonym, text: str) -> Value:
    value = definition_of_synonym(definition, synonym).parse(text)
    return synonym.convert(value) if isinstance(value, int) and not isinstance(value, bool) else value


def definition_of_synonym(definition: TopicConfigDef, synonym: Synonym) -> ConfigDef:
    """The server setting behind a synonym: a setting in another unit is checked after it was converted."""
    validator = definition.validator if synonym.convert is _same else None
    return ConfigDef(synonym.name, definition.type, definition.default, definition.doc, validator)


@lru_cache(maxsize=1024)
def _resolve(overrides: frozenset[tuple[str, str]], server: frozenset[tuple[str, str]]) -> TopicConfig:
    given, defaults = dict(overrides), dict(server)
    values: dict[str, Any] = {}
    for name, definition in TOPIC_CONFIGS.items():
        text = given.get(name)
        values[name] = definition.parse(text) if text is not None else inherited(definition, defaults)[0]
    shortest, longest = values["min.compaction.lag.ms"], values["max.compaction.lag.ms"]
    if shortest > longest:
        raise InvalidConfig(
            f"conflict topic config setting min.compaction.lag.ms ({shortest}) > max.compaction.lag.ms ({longest})"
        )
    for name in ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas"):
        values[name] = unique(values[name])
    policy = frozenset(values["cleanup.policy"])
    values["cleanup.policy"] = policy
    values["durability"] = Durability(values["durability"])
    segment_bytes = values.pop("internal.segment.bytes")
    if segment_bytes is not None:
        values["segment.bytes"] = segment_bytes
    return TopicConfig(
        **{name.replace(".", "_"): value for name, value in values.items()},
        compact="compact" in policy,
        delete="delete" in policy,
        log_append_time=values["message.timestamp.type"] == "LogAppendTime",
    )


assert {field.name for field in fields(TopicConfig)} == {
    name.replace(".", "_") for name in TOPIC_CONFIGS if name != "internal.segment.bytes"
} | {"compact", "delete", "log_append_time"}
