"""Server settings. Names, types and defaults were read off Apache Kafka 4.3.1."""

from __future__ import annotations

import pytest

from headrace.broker.config_entries import server_default_entries, server_entries, topic_entries
from headrace.broker.foreign_settings import REFUSED
from headrace.broker.setting_defs import SETTINGS
from headrace.broker.settings import Given, Settings, Source
from headrace.log.errors import InvalidConfig
from headrace.log.topic_config import SERVER_SYNONYMS


def test_defaults() -> None:
    settings = Settings.from_mapping({})
    assert settings.get_int("num.partitions") == 1
    assert settings.get_bool("auto.create.topics.enable") is True
    assert settings.get_int("group.initial.rebalance.delay.ms") == 0
    assert settings.get_int("socket.request.max.bytes") == 104_857_600
    assert settings.get_str("durability") == "fsync"
    assert settings.get_float("log.cleaner.min.cleanable.ratio") == 0.5
    assert settings.get_optional_int("log.retention.ms") is None
    assert settings.get_optional_str("broker.rack") is None
    assert settings.get_list("log.cleanup.policy") == ("delete",)
    assert settings.explicit == {}


def test_every_default_passes_its_own_check() -> None:
    for name, definition in SETTINGS.items():
        settings = Settings()
        text = settings.text(name)
        if text is not None:
            assert definition.parse(text) == definition.default, name


def test_every_setting_that_gives_topics_a_default_can_be_set() -> None:
    assert set(SETTINGS) >= SERVER_SYNONYMS


def test_nothing_is_both_a_setting_and_refused() -> None:
    for refused in REFUSED:
        assert not [name for name in SETTINGS if name == refused or (refused.endswith(".") and name.startswith(refused))]


def test_what_the_operator_gives_wins_over_the_default() -> None:
    settings = Settings.from_mapping({"num.partitions": " 4 ", "log.retention.hours": "1"})
    assert settings.get_int("num.partitions") == 4
    assert settings.topic_defaults == {"log.retention.hours": "1"}


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"num.partition": "4"}, "Unknown server setting 'num.partition': did you mean num.partitions?"),
        ({"quux": "4"}, "Unknown server setting 'quux': see the list of settings in the documentation."),
        ({"num.partitions": "0"}, "Invalid value 0 for configuration num.partitions: Value must be at least 1"),
        ({"log.dirs": "/x"}, "The setting log.dirs can't be used here: give the data folder with --data DIR."),
        ({"ssl.keystore.location": "/x"}, "The setting ssl.keystore.location can't be used here: TLS is not supported yet."),
        (
            {"log.cleaner.min.compaction.lag.ms": "5", "log.cleaner.max.compaction.lag.ms": "4"},
            "conflict topic config setting min.compaction.lag.ms (5) > max.compaction.lag.ms (4)",
        ),
        (
            {"default.replication.factor": "3"},
            "Invalid value 3 for configuration default.replication.factor: Value must be no more than 1",
        ),
    ],
)
def test_a_wrong_setting_is_refused_in_one_sentence(given: dict[str, str], why: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        Settings.from_mapping(given)
    assert str(caught.value) == why


def test_a_very_long_name_is_not_repeated_whole() -> None:
    with pytest.raises(InvalidConfig) as caught:
        Settings.from_mapping({"x" * 100_000: "1"})
    assert len(str(caught.value)) < 300


def test_settings_without_effect_are_named() -> None:
    settings = Settings.from_mapping({"num.io.threads": "3", "num.partitions": "2"})
    assert settings.without_effect == ("num.io.threads",)


def test_the_node_is_number_0() -> None:
    assert Settings.from_mapping({"node.id": "0", "broker.id": "0"}).get_int("node.id") == 0
    for name in ("node.id", "broker.id"):
        with pytest.raises(InvalidConfig):
            Settings.from_mapping({name: "1"})


def test_a_dynamic_setting_of_this_node_goes_before_one_of_all_and_both_before_the_explicit_one() -> None:
    settings = Settings.from_mapping({"message.max.bytes": "1000"})
    defaults = settings.topic_defaults
    told: list[int] = []
    settings.subscribe(lambda: told.append(settings.get_int("message.max.bytes")))
    settings.set_dynamic({}, {"message.max.bytes": "2000"})
    settings.set_dynamic({"message.max.bytes": "3000"}, {"message.max.bytes": "2000"})
    assert told == [2000, 3000]
    assert defaults == {"message.max.bytes": "3000"}
    assert settings.places("message.max.bytes") == [
        Given("message.max.bytes", "3000", Source.DYNAMIC_BROKER_CONFIG),
        Given("message.max.bytes", "2000", Source.DYNAMIC_DEFAULT_BROKER_CONFIG),
        Given("message.max.bytes", "1000", Source.STATIC_BROKER_CONFIG),
        Given("message.max.bytes", "1048588", Source.DEFAULT_CONFIG),
    ]
    settings.set_dynamic({}, {})
    assert settings.get_int("message.max.bytes") == 1000


def test_a_setting_that_is_not_dynamic_stays_and_so_does_all_the_rest() -> None:
    settings = Settings()
    with pytest.raises(InvalidConfig) as caught:
        settings.set_dynamic({"num.partitions": "2", "log.retention.hours": "2", "message.max.bytes": "5"}, {})
    assert str(caught.value) == "Cannot update these configs dynamically: [log.retention.hours, num.partitions]"
    assert settings.get_int("message.max.bytes") == 1_048_588


def test_a_topic_shows_where_its_values_come_from() -> None:
    settings = Settings.from_mapping({"log.segment.bytes": "2000000", "log.retention.hours": "1"})
    entries = {entry.name: entry for entry in topic_entries({"retention.bytes": " 5 "}, settings)}
    assert "internal.segment.bytes" not in entries
    assert entries["retention.bytes"].value == "5"
    assert entries["retention.bytes"].synonyms == (
        Given("retention.bytes", "5", Source.DYNAMIC_TOPIC_CONFIG),
        Given("log.retention.bytes", "-1", Source.DEFAULT_CONFIG),
    )
    assert entries["segment.bytes"].source is Source.STATIC_BROKER_CONFIG
    assert entries["retention.ms"].value == "3600000"
    assert entries["retention.ms"].synonyms == (Given("log.retention.hours", "1", Source.STATIC_BROKER_CONFIG),)
    assert entries["segment.ms"].synonyms == ()
    assert entries["segment.ms"].source is Source.DEFAULT_CONFIG


def test_the_server_shows_all_its_settings_and_the_default_resource_only_what_was_set() -> None:
    settings = Settings.from_mapping({"node.id": "0"})
    shown = {entry.name: entry for entry in server_entries(settings)}
    assert set(shown) == set(SETTINGS)
    assert shown["node.id"].source is Source.STATIC_BROKER_CONFIG
    assert shown["num.partitions"].read_only
    assert not shown["log.retention.ms"].read_only
    assert shown["log.cleaner.io.max.bytes.per.second"].value == "1.7976931348623157E308"
    assert list(server_default_entries(settings)) == []
    settings.set_dynamic({}, {"log.retention.ms": "5"})
    assert [(entry.name, entry.value) for entry in server_default_entries(settings)] == [("log.retention.ms", "5")]
