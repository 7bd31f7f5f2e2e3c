"""Which settings a topic with an archive may have: the rules and words of Apache Kafka 4.3 (KIP-405, KIP-950)."""

from __future__ import annotations

import pytest

from headrace.log.errors import InvalidConfig
from headrace.log.topic_config import validate

ON = {"remote.storage.enable": "true"}
OFF = {"remote.storage.enable": "false"}


@pytest.mark.parametrize(
    "config",
    [
        ON,
        ON | {"cleanup.policy": ""},
        ON | {"local.retention.ms": "1000"},
        ON | {"local.retention.bytes": "-1"},
        ON | {"retention.ms": "-1", "local.retention.ms": "-1"},
        ON | {"retention.bytes": "100", "local.retention.bytes": "100"},
        ON | {"remote.log.copy.disable": "true", "retention.bytes": "100", "local.retention.bytes": "100"},
        {"local.retention.ms": "-1"},  # without an archive it means nothing
    ],
)
def test_what_is_allowed(config: dict[str, str]) -> None:
    validate(config, {}, archive=True)


@pytest.mark.parametrize(
    ("config", "told"),
    [
        (ON | {"cleanup.policy": "compact"}, "only supports topics with cleanup.policy=delete"),
        (ON | {"cleanup.policy": "compact,delete"}, "only supports topics with cleanup.policy=delete"),
        (ON | {"durability": "memory"}, "durability=memory"),
        (
            ON | {"retention.bytes": "100", "local.retention.bytes": "101"},
            "Invalid value 101 for configuration local.retention.bytes: "
            "Value must not be more than retention.bytes property value: 100",
        ),
        (
            ON | {"local.retention.ms": "-1"},
            "Invalid value -1 for configuration local.retention.ms: "
            "Value must not be -1 as retention.ms value is set as 604800000.",
        ),
        (ON | {"remote.log.copy.disable": "true", "local.retention.ms": "5"}, "must be set to the identical value"),
        (ON | {"remote.log.copy.disable": "true", "local.retention.bytes": "5"}, "must be set to the identical value"),
    ],
)  # fmt: skip
def test_what_is_not(config: dict[str, str], told: str) -> None:
    with pytest.raises(InvalidConfig, match=told):
        validate(config, {}, archive=True)


def test_a_server_without_an_archive_takes_no_topic_with_one() -> None:
    with pytest.raises(InvalidConfig, match="Tiered Storage functionality is disabled"):
        validate(ON, {})


def test_an_archive_is_turned_off_only_together_with_what_it_holds() -> None:
    with pytest.raises(InvalidConfig, match="invalid to disable remote storage without deleting remote data"):
        validate(OFF, {}, archive=True, before=ON)
    with pytest.raises(InvalidConfig, match="invalid to disable remote storage"):
        validate({}, {}, archive=True, before=ON)
    validate(OFF | {"remote.log.delete.on.disable": "true"}, {}, archive=True, before=ON)
    validate(OFF, {}, archive=True, before=OFF)
    validate(ON | {"remote.log.copy.disable": "true"}, {}, archive=True, before=ON)
