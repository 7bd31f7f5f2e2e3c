"""Topic settings. Texts and limits were read off Apache Kafka 4.3.1, asked for the same mistakes."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.log.errors import InvalidConfig
from headrace.log.port import Durability
from headrace.log.topic_config import TOPIC_CONFIGS, TopicConfig, inherited, resolve, validate

KAFKA_DEFAULTS = {
    "cleanup.policy": ("delete",),
    "compression.gzip.level": -1,
    "compression.lz4.level": 9,
    "compression.type": "producer",
    "compression.zstd.level": 3,
    "delete.retention.ms": 86_400_000,
    "file.delete.delay.ms": 60_000,
    "flush.messages": 2**63 - 1,
    "flush.ms": 2**63 - 1,
    "follower.replication.throttled.replicas": (),
    "index.interval.bytes": 4096,
    "internal.segment.bytes": None,
    "leader.replication.throttled.replicas": (),
    "local.retention.bytes": -2,
    "local.retention.ms": -2,
    "max.compaction.lag.ms": 2**63 - 1,
    "max.message.bytes": 1_048_588,
    "message.timestamp.after.max.ms": 3_600_000,
    "message.timestamp.before.max.ms": 2**63 - 1,
    "message.timestamp.type": "CreateTime",
    "min.cleanable.dirty.ratio": 0.5,
    "min.compaction.lag.ms": 0,
    "min.insync.replicas": 1,
    "preallocate": False,
    "remote.log.copy.disable": False,
    "remote.log.delete.on.disable": False,
    "remote.storage.enable": False,
    "retention.bytes": -1,
    "retention.ms": 604_800_000,
    "segment.bytes": 1_073_741_824,
    "segment.index.bytes": 10_485_760,
    "segment.jitter.ms": 0,
    "segment.ms": 604_800_000,
    "unclean.leader.election.enable": False,
}


def test_names_and_defaults_are_those_of_kafka_and_durability_is_ours() -> None:
    ours = {name: definition.default for name, definition in TOPIC_CONFIGS.items()}
    assert ours.pop("durability") == "fsync"
    assert ours == KAFKA_DEFAULTS


def test_every_setting_is_explained() -> None:
    assert all(definition.doc.endswith(".") for definition in TOPIC_CONFIGS.values())


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("cleanup.policy", "x", "Invalid value x for configuration cleanup.policy: String must be one of: compact, delete"),
        ("cleanup.policy", "delete,", "Configuration 'cleanup.policy' values must not be empty."),
        (
            "compression.type",
            "none",
            "Invalid value none for configuration compression.type: String must be one of: "
            "uncompressed, zstd, lz4, snappy, gzip, producer",
        ),
        ("retention.ms", "abc", "Invalid value abc for configuration retention.ms: Not a number of type LONG"),
        ("retention.ms", "-2", "Invalid value -2 for configuration retention.ms: Value must be at least -1"),
        ("retention.ms", "1_000", "Invalid value 1_000 for configuration retention.ms: Not a number of type LONG"),
        (
            "retention.ms",
            "99999999999999999999",
            "Invalid value 99999999999999999999 for configuration retention.ms: Not a number of type LONG",
        ),
        ("retention.ms", "", "Invalid value  for configuration retention.ms: Not a number of type LONG"),
        ("segment.bytes", "5", "Invalid value 5 for configuration segment.bytes: Value must be at least 1048576"),
        ("segment.bytes", "3000000000", "Invalid value 3000000000 for configuration segment.bytes: Not a number of type INT"),
        ("preallocate", "yes", "Invalid value yes for configuration preallocate: Expected value to be either true or false"),
        (
            "min.cleanable.dirty.ratio",
            "1.5",
            "Invalid value 1.5 for configuration min.cleanable.dirty.ratio: Value must be no more than 1",
        ),
        (
            "compression.gzip.level",
            "0",
            "Invalid value 0 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1",
        ),
        (
            "compression.lz4.level",
            "20",
            "Invalid value 20 for configuration compression.lz4.level: Value must be no more than 17",
        ),
        (
            "message.timestamp.type",
            "createtime",
            "Invalid value createtime for configuration message.timestamp.type: "
            "String must be one of: CreateTime, LogAppendTime",
        ),
        (
            "leader.replication.throttled.replicas",
            "x",
            "Invalid value [x] for configuration leader.replication.throttled.replicas: "
            "leader.replication.throttled.replicas must be the literal '*' or a list of replicas in the following format: "
            "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
        ),
        ("nope", "1", "Unknown topic config name: nope"),
        ("message.format.version", "2.8", "Unknown topic config name: message.format.version"),
        (
            "remote.storage.enable",
            "true",
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage.",
        ),
        (
            "durability",
            "paper",
            "Invalid value paper for configuration durability: String must be one of: fsync, flush, memory",
        ),
    ],
)
def test_a_mistake_is_told_in_kafkas_words(name: str, text: str, why: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        validate({name: text}, {})
    assert str(caught.value) == why


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("cleanup.policy", ""),
        ("cleanup.policy", "delete,delete"),
        ("cleanup.policy", "compact , delete"),
        ("retention.ms", " 5 "),
        ("retention.ms", "+5"),
        ("retention.bytes", "-9"),
        ("preallocate", "TRUE"),
        ("min.cleanable.dirty.ratio", "0.5d"),
        ("min.cleanable.dirty.ratio", "1e-1"),
        ("leader.replication.throttled.replicas", "*"),
        ("leader.replication.throttled.replicas", "0:0,1:0"),
        ("leader.replication.throttled.replicas", ""),
        ("internal.segment.bytes", "1000"),
        ("min.insync.replicas", "3"),
    ],
)
def test_what_kafka_takes_is_taken(name: str, text: str) -> None:
    validate({name: text}, {})


def test_a_compaction_lag_range_that_is_empty_is_refused() -> None:
    with pytest.raises(InvalidConfig) as caught:
        validate({"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "4"}, {})
    assert str(caught.value) == "conflict topic config setting min.compaction.lag.ms (5) > max.compaction.lag.ms (4)"


def test_a_topic_goes_before_the_server_and_the_server_before_the_default() -> None:
    server = {"log.retention.hours": "2", "num.partitions": "7"}
    assert resolve({}, {}).retention_ms == 604_800_000
    assert resolve({}, server).retention_ms == 7_200_000
    assert resolve({"retention.ms": "5"}, server).retention_ms == 5


@pytest.mark.parametrize(
    ("server", "retention_ms"),
    [
        ({"log.retention.hours": "1", "log.retention.minutes": "2", "log.retention.ms": "3"}, 3),
        ({"log.retention.hours": "1", "log.retention.minutes": "2"}, 120_000),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.ms": "-7"}, -1),
    ],
)
def test_the_finer_unit_of_a_servers_retention_wins(server: dict[str, str], retention_ms: int) -> None:
    assert resolve({}, server).retention_ms == retention_ms


def test_segment_age_and_flush_interval_have_fallbacks_too() -> None:
    assert resolve({}, {"log.roll.hours": "2", "log.roll.jitter.hours": "1"}).segment_ms == 7_200_000
    assert resolve({}, {"log.roll.hours": "2", "log.roll.ms": "9"}).segment_ms == 9
    assert resolve({}, {"log.flush.scheduler.interval.ms": "8"}).flush_ms == 8
    assert inherited(TOPIC_CONFIGS["flush.ms"], {"log.flush.interval.ms": "7", "log.flush.scheduler.interval.ms": "8"}) == (
        7,
        "log.flush.interval.ms",
    )


def test_the_policy_is_also_there_as_plain_booleans() -> None:
    both = resolve({"cleanup.policy": "compact, delete"}, {})
    assert (both.compact, both.delete) == (True, True)
    neither = resolve({"cleanup.policy": ""}, {})
    assert (neither.compact, neither.delete, neither.cleanup_policy) == (False, False, frozenset())


def test_a_compacted_topic_rolls_in_time_for_its_longest_lag() -> None:
    assert resolve({"max.compaction.lag.ms": "5"}, {}).max_segment_ms == 604_800_000
    assert resolve({"max.compaction.lag.ms": "5", "cleanup.policy": "compact"}, {}).max_segment_ms == 5


def test_small_segments_are_for_tests_by_their_internal_name() -> None:
    assert resolve({"internal.segment.bytes": "1000"}, {}).segment_bytes == 1000


def test_durability_comes_from_topic_or_server() -> None:
    assert resolve({}, {}).durability is Durability.FSYNC
    assert resolve({}, {"durability": "flush"}).durability is Durability.FLUSH
    assert resolve({"durability": "memory"}, {"durability": "flush"}).durability is Durability.MEMORY


def test_equal_settings_share_one_object() -> None:
    assert resolve({"retention.ms": "5"}, {"num.partitions": "1"}) is resolve({"retention.ms": "5"}, {"num.partitions": "2"})


def test_a_setting_that_a_later_version_dropped_does_not_stop_the_log() -> None:
    assert resolve({"once.upon.a.time": "1"}, {}) == resolve({}, {})


def test_every_setting_but_the_internal_one_is_an_attribute() -> None:
    fields = {field.name for field in dataclasses.fields(TopicConfig)}
    assert {name.replace(".", "_") for name in TOPIC_CONFIGS if name != "internal.segment.bytes"} <= fields


@given(st.dictionaries(st.sampled_from(sorted(TOPIC_CONFIGS)), st.text(max_size=40), max_size=4))
def test_any_text_is_taken_or_refused_and_nothing_else_happens(overrides: dict[str, str]) -> None:
    try:
        validate(overrides, {})
    except InvalidConfig as error:
        assert str(error)  # noqa: PT017
    else:
        assert isinstance(resolve(overrides, {}), TopicConfig)
