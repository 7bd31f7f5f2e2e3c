"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and ListConfigResources. Codes and texts are those that Apache Kafka
4.3.1 gave on one node to the same requests, unless a test says otherwise."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.broker.client_metrics import CLIENT_METRICS_CONFIGS
from headrace.broker.group_config_defs import GROUP_CONFIGS
from headrace.broker.setting_defs import SETTINGS
from headrace.kafka.codec.errors import ErrorCode as E
from headrace.kafka.messages import alter_configs, incremental_alter_configs
from headrace.kafka.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from headrace.kafka.messages.list_config_resources import ListConfigResourcesRequest
from headrace.log.errors import DiskFull

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
DEFAULT = 5  # as a source

Changes = list[tuple[str, int, str | None]]


def describe(
    api: Any, kind: int, name: str, keys: list[str] | None = None, version: int = 4, **options: bool
) -> DescribeConfigsResult:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
    [result] = api(DescribeConfigsRequest(resources=[resource], **options), version).results
    assert (result.resource_type, result.resource_name) == (kind, name)
    found: DescribeConfigsResult = result
    return found


def increment(
    api: Any, kind: int, name: str, changes: Changes, *, validate_only: bool = False, version: int = 1
) -> tuple[int, str | None]:
    resource = incremental_alter_configs.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            incremental_alter_configs.AlterableConfig(name=key, config_operation=operation, value=text)
            for key, operation, text in changes
        ],
    )
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    [result] = api(request, version).responses
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result.error_code, result.error_message


def replace(
    api: Any,
    kind: int,
    name: str,
    changes: list[tuple[str, str | None]],
    *,
    validate_only: bool = False,
    version: int = 2,
) -> tuple[int, str | None]:
    resource = alter_configs.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[alter_configs.AlterableConfig(name=key, value=text) for key, text in changes],
    )
    [result] = api(alter_configs.AlterConfigsRequest(resources=[resource], validate_only=validate_only), version).responses
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result.error_code, result.error_message


class TestDescribe:
    @pytest.mark.parametrize("version", range(1, 5))
    def test_every_version_shows_a_topic(self, api: Any, version: int) -> None:
        api.log.add("one", retention_ms=" 5 ")
        result = describe(api, TOPIC, "one", ["retention.ms"], version, include_synonyms=True, include_documentation=True)
        [shown] = result.configs
        assert shown.config_type == (5 if version >= 3 else 0)
        assert bool(shown.documentation) == (version >= 3)
        shown.config_type, shown.documentation = 5, None
        assert shown == DescribeConfigsResourceResult(
            name="retention.ms",
            value="5",
            config_source=1,
            synonyms=[DescribeConfigsSynonym(name="retention.ms", value="5", source=1)],
            config_type=5,
            documentation=None,
        )

    def test_no_keys_mean_all_and_unknown_ones_nothing(self, api: Any) -> None:
        api.log.add("one")
        assert len(describe(api, TOPIC, "one").configs) == 34
        assert len(describe(api, TOPIC, "one", []).configs) == 34
        assert describe(api, TOPIC, "one", ["nope"]).configs == []

    def test_synonyms_and_documentation_only_when_asked(self, api: Any) -> None:
        api.log.add("one")
        for shown in describe(api, TOPIC, "one").configs:
            assert shown.synonyms == []
            assert shown.documentation is None

    def test_many_resources_at_once_each_get_their_own(self, api: Any) -> None:
        for number in range(1500):  # more different settings than the broker remembers descriptions of
            api.log.add(f"t{number}", retention_ms=str(number))
        resources = [
            DescribeConfigsResource(resource_type=TOPIC, resource_name=f"t{number}", configuration_keys=keys)
            for keys in (["retention.ms"], ["flush.ms", "retention.ms"])
            for number in range(1500)
        ]
        resources.insert(0, DescribeConfigsResource(resource_type=BROKER, resource_name="0", configuration_keys=["node.id"]))
        server, *results = api(DescribeConfigsRequest(resources=resources)).results
        assert [shown.name for shown in server.configs] == ["node.id"]
        for position, result in enumerate(results):
            assert result.configs[-1].value == str(position % 1500)
            assert len(result.configs) == 1 + position // 1500

    def test_the_server(self, api: Any) -> None:
        api.configure({"log.retention.hours": "5", "node.id": "0"})
        result = describe(api, BROKER, "0", include_synonyms=True)
        assert {shown.name for shown in result.configs} == set(SETTINGS)
        shown = {config.name: config for config in result.configs}
        assert (shown["node.id"].value, shown["node.id"].read_only, shown["node.id"].config_source) == ("0", True, 4)
        assert shown["log.retention.hours"].synonyms == [
            DescribeConfigsSynonym(name="log.retention.hours", value="5", source=4),
            DescribeConfigsSynonym(name="log.retention.hours", value="168", source=5),
        ]

    @pytest.mark.parametrize(
        ("kind", "name", "code", "text"),
        [
            (TOPIC, "nope", E.UNKNOWN_TOPIC_OR_PARTITION, ""),
            (TOPIC, "__headrace_topics", E.UNKNOWN_TOPIC_OR_PARTITION, ""),
            (
                TOPIC,
                "a b",
                E.INVALID_TOPIC_EXCEPTION,
                "Topic name is invalid: 'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'",
            ),
            (TOPIC, "", E.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: the empty string is not allowed"),
            (BROKER, "1", E.INVALID_REQUEST, "Unexpected broker id, expected 0 or empty string, but received 1"),
            (BROKER, "x", E.INVALID_REQUEST, "Broker id must be an integer, but it is: x"),
            (LOGGER, "", E.INVALID_REQUEST, "Broker id must not be empty"),
            (LOGGER, "1", E.INVALID_REQUEST, "Unexpected broker id, expected 0 but received 1"),
            (GROUP, "", E.INVALID_REQUEST, "Group name must not be empty"),
            (METRICS, "", E.INVALID_REQUEST, "Client metrics subscription name must not be empty"),
            (77, "x", E.INVALID_REQUEST, "Unsupported resource type: 77"),
        ],
    )
    def test_what_can_not_be_shown(self, api: Any, kind: int, name: str, code: E, text: str) -> None:
        result = describe(api, kind, name)
        assert (result.error_code, result.error_message, result.configs) == (code, text, [])

    def test_groups_and_client_metrics_have_the_defaults_before_anything_is_set(self, api: Any) -> None:
        for kind, known in ((GROUP, GROUP_CONFIGS), (METRICS, CLIENT_METRICS_CONFIGS)):
            result = describe(api, kind, "x")
            assert result.error_code == E.NONE
            assert {entry.name: entry.config_source for entry in result.configs} == dict.fromkeys(known, DEFAULT)

    def test_a_group_shows_what_was_set_and_what_would_hold_without_it(self, api: Any) -> None:
        api.configure({"group.consumer.session.timeout.ms": "46000"})
        increment(api, GROUP, "g", [("consumer.session.timeout.ms", SET, "50000")])
        entry = next(
            one for one in describe(api, GROUP, "g", include_synonyms=True).configs if one.name == "consumer.session.timeout.ms"
        )
        assert (entry.value, entry.config_source, entry.read_only) == ("50000", 8, False)
        assert [(one.name, one.value, one.source) for one in entry.synonyms] == [
            ("consumer.session.timeout.ms", "50000", 8),
            ("group.consumer.session.timeout.ms", "46000", 4),
            ("group.consumer.session.timeout.ms", "45000", DEFAULT),
        ]


class TestAlterTopics:
    @pytest.mark.parametrize("version", range(2))
    def test_every_version_sets_one_and_leaves_the_others(self, api: Any, version: int) -> None:
        topic = api.log.add("one", retention_ms="5", flush_ms="9")
        changes: Changes = [("retention.bytes", SET, "7"), ("retention.ms", DELETE, None), ("nope", DELETE, None)]
        assert increment(api, TOPIC, "one", changes, version=version) == (E.NONE, None)
        assert topic.config == {"flush.ms": "9", "retention.bytes": "7"}

    @pytest.mark.parametrize("version", range(3))
    def test_the_old_api_replaces_all(self, api: Any, version: int) -> None:
        topic = api.log.add("one", retention_ms="5", flush_ms="9")
        assert replace(api, TOPIC, "one", [("retention.bytes", "7")], version=version) == (E.NONE, None)
        assert topic.config == {"retention.bytes": "7"}

    def test_lists_grow_and_shrink(self, api: Any) -> None:
        topic = api.log.add("one")
        increment(api, TOPIC, "one", [("cleanup.policy", APPEND, "compact")])
        assert topic.config == {"cleanup.policy": "delete,compact"}
        increment(api, TOPIC, "one", [("cleanup.policy", APPEND, "compact")])
        assert topic.config == {"cleanup.policy": "delete,compact"}
        increment(api, TOPIC, "one", [("cleanup.policy", SUBTRACT, "delete")])
        assert topic.config == {"cleanup.policy": "compact"}
        increment(api, TOPIC, "one", [("cleanup.policy", SUBTRACT, "compact,delete")])
        assert topic.config == {"cleanup.policy": ""}

    @pytest.mark.parametrize(
        ("changes", "code", "text"),
        [
            (
                [("retention.ms", SET, "x")],
                E.INVALID_CONFIG,
                "Invalid value x for configuration retention.ms: Not a number of type LONG",
            ),
            ([("retention.ms", SET, None)], E.INVALID_REQUEST, "Null value not supported for : retention.ms"),
            ([("nope", SET, "1")], E.INVALID_CONFIG, "Unknown topic config name: nope"),
            ([("", SET, "1")], E.INVALID_CONFIG, "Unknown topic config name: "),
            (
                [("retention.ms", APPEND, "5")],
                E.INVALID_CONFIG,
                "Can't APPEND to key retention.ms because its type is not LIST.",
            ),
            ([("nope", SUBTRACT, "5")], E.INVALID_CONFIG, "Can't SUBTRACT to key nope because its type is not LIST."),
            (
                [("cleanup.policy", APPEND, "zz")],
                E.INVALID_CONFIG,
                "Invalid value zz for configuration cleanup.policy: String must be one of: compact, delete",
            ),
            ([("cleanup.policy", APPEND, None)], E.INVALID_REQUEST, "Null value not supported for : cleanup.policy"),
            (
                [("retention.ms", SET, "5"), ("retention.ms", SET, "6")],
                E.INVALID_REQUEST,
                "Error due to duplicate config keys",
            ),
            ([("retention.ms", 9, "5")], E.INVALID_REQUEST, "Unknown operations type 9"),  # Kafka: UNKNOWN_SERVER_ERROR
        ],
    )
    def test_one_mistake_and_nothing_changes(self, api: Any, changes: Changes, code: E, text: str) -> None:
        topic = api.log.add("one", flush_ms="9")
        assert increment(api, TOPIC, "one", [("retention.bytes", SET, "7"), *changes]) == (code, text)
        assert topic.config == {"flush.ms": "9"}

    @pytest.mark.parametrize(
        ("name", "text", "code", "why"),
        [
            ("nope", "5", E.UNKNOWN_TOPIC_OR_PARTITION, "The topic 'nope' does not exist."),
            ("nope", "x", E.INVALID_CONFIG, "Invalid value x for configuration retention.ms: Not a number of type LONG"),
            ("", "5", E.INVALID_REQUEST, "Default topic resources are not allowed."),
            (
                "a b",
                "5",
                E.INVALID_TOPIC_EXCEPTION,
                "Topic name is invalid: 'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'",
            ),
        ],
    )
    def test_topics_that_are_not_there(self, api: Any, name: str, text: str, code: E, why: str) -> None:
        assert increment(api, TOPIC, name, [("retention.ms", SET, text)]) == (code, why)
        assert replace(api, TOPIC, name, [("retention.ms", text)]) == (code, why)

    def test_only_checking_changes_nothing(self, api: Any) -> None:
        topic = api.log.add("one")
        assert increment(api, TOPIC, "one", [("retention.ms", SET, "5")], validate_only=True) == (E.NONE, None)
        assert replace(api, TOPIC, "one", [("retention.ms", "5")], validate_only=True) == (E.NONE, None)
        assert topic.config == {}

    def test_a_resource_named_twice_is_refused(self, api: Any) -> None:
        api.log.add("one")
        resource = incremental_alter_configs.AlterConfigsResource(resource_type=TOPIC, resource_name="one")
        answer = api(incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource, resource]))
        assert [(result.error_code, result.error_message) for result in answer.responses] == [
            (E.INVALID_REQUEST, "Each resource must appear at most once.")
        ] * 2

    def test_the_servers_own_topics_stay_as_they_are(self, api: Any) -> None:
        api.log.add("__consumer_offsets", internal=True)
        code, _ = increment(api, TOPIC, "__consumer_offsets", [("cleanup.policy", SET, "delete")])
        assert code == E.INVALID_TOPIC_EXCEPTION
        code, _ = increment(api, TOPIC, "__headrace_topics", [("cleanup.policy", SET, "delete")])
        assert code == E.UNKNOWN_TOPIC_OR_PARTITION

    def test_a_full_disk_is_told(self, api: Any) -> None:
        api.log.add("one")
        api.log.refuses = DiskFull("no room left")
        assert increment(api, TOPIC, "one", [("retention.ms", SET, "5")]) == (E.KAFKA_STORAGE_ERROR, "no room left")


class TestAlterServer:
    def test_a_dynamic_setting_holds_at_once_and_after_a_restart(self, api: Any) -> None:
        api.log.add("one")
        assert increment(api, BROKER, "", [("log.retention.ms", SET, "5")]) == (E.NONE, None)
        assert increment(api, BROKER, "0", [("message.max.bytes", SET, "2000")]) == (E.NONE, None)
        for _ in range(2):
            assert api.settings.get_int("log.retention.ms") == 5
            assert [(shown.name, shown.value) for shown in describe(api, BROKER, "").configs] == [("log.retention.ms", "5")]
            [shown] = describe(api, BROKER, "0", ["message.max.bytes"], include_synonyms=True).configs
            assert (shown.value, shown.config_source) == ("2000", 2)
            [inherited] = describe(api, TOPIC, "one", ["retention.ms"]).configs
            assert (inherited.value, inherited.config_source) == ("5", 3)
            api.configure({"message.max.bytes": "9"})
        assert increment(api, BROKER, "0", [("message.max.bytes", DELETE, None)]) == (E.NONE, None)
        assert api.settings.get_int("message.max.bytes") == 9

    @pytest.mark.parametrize(
        ("changes", "code", "text"),
        [
            (
                [("log.retention.hours", SET, "5")],
                E.INVALID_REQUEST,
                "Cannot update these configs dynamically: [log.retention.hours]",
            ),
            (
                [("log.cleaner.threads", SET, "x")],
                E.INVALID_REQUEST,
                "Invalid value x for configuration log.cleaner.threads: Not a number of type INT",
            ),
            (
                [("message.max.bytes", SET, "-4")],
                E.INVALID_REQUEST,
                "Invalid value -4 for configuration message.max.bytes: Value must be at least 0",
            ),
            ([("log.retention.ms", 9, "2")], E.INVALID_REQUEST, "Unknown operations type 9"),
            ([("log.retention.ms", SET, None)], E.INVALID_REQUEST, "Null value not supported for : log.retention.ms"),
            (
                [("log.retention.ms", APPEND, "5")],
                E.INVALID_CONFIG,
                "Config value append is not allowed for config key: log.retention.ms",
            ),
            # Kafka takes any name here
            (
                [("log.retentoin.ms", SET, "2")],
                E.INVALID_REQUEST,
                "Unknown server setting 'log.retentoin.ms': did you mean log.retention.ms?",
            ),
        ],
    )
    def test_one_mistake_and_nothing_changes(self, api: Any, changes: Changes, code: E, text: str) -> None:
        for name in ("", "0"):
            assert increment(api, BROKER, name, [("log.cleaner.backoff.ms", SET, "7"), *changes]) == (code, text)
        assert api.settings.get_int("log.cleaner.backoff.ms") == 15_000

    def test_deleting_what_is_not_set_is_no_mistake(self, api: Any) -> None:
        assert increment(api, BROKER, "0", [("num.partitions", DELETE, None)]) == (E.NONE, None)

    def test_lists_of_the_server(self, api: Any) -> None:
        assert increment(api, BROKER, "0", [("log.cleanup.policy", APPEND, "compact")]) == (E.NONE, None)
        assert api.settings.get_list("log.cleanup.policy") == ("delete", "compact")

    def test_only_checking_changes_nothing(self, api: Any) -> None:
        for name in ("", "0"):
            assert increment(api, BROKER, name, [("log.retention.ms", SET, "5")], validate_only=True) == (E.NONE, None)
        assert api.settings.get_optional_int("log.retention.ms") is None

    def test_the_old_api_replaces_all(self, api: Any) -> None:
        increment(api, BROKER, "0", [("log.retention.ms", SET, "5")])
        assert replace(api, BROKER, "0", [("log.roll.ms", "6")]) == (E.NONE, None)
        assert api.settings.dynamic_node == {"log.roll.ms": "6"}
        assert replace(api, BROKER, "0", [("num.partitions", "5")]) == (
            E.INVALID_REQUEST,
            "Cannot update these configs dynamically: [num.partitions]",
        )

    def test_another_broker_is_none_of_ours(self, api: Any) -> None:
        assert increment(api, BROKER, "1", []) == (E.INVALID_REQUEST, "Unexpected broker id, expected 0, but received 1")
        assert increment(api, BROKER, "x", []) == (E.INVALID_REQUEST, "Node id must be an integer, but it is: x")

    def test_other_resources(self, api: Any) -> None:
        assert increment(api, 77, "x", []) == (E.INVALID_REQUEST, "Unknown resource type 77")
        assert replace(api, LOGGER, "0", []) == (E.INVALID_REQUEST, "Unknown resource type 8")
        assert increment(api, GROUP, "g", [("nope", SET, "1")]) == (E.INVALID_CONFIG, "Unknown group config name: nope")
        assert increment(api, GROUP, "", []) == (E.INVALID_REQUEST, "Default group resources are not allowed.")
        assert increment(api, METRICS, "", []) == (E.INVALID_REQUEST, "Subscription name can't be empty")
        unknown = (E.INVALID_REQUEST, "Unknown client metrics configuration: nope")
        assert increment(api, METRICS, "m", [("nope", SET, "1")]) == unknown

    def test_groups_and_client_metrics_are_set_added_to_and_replaced(self, api: Any) -> None:
        assert increment(api, METRICS, "m", [("metrics", SET, "a."), ("interval.ms", SET, "500")]) == (E.NONE, None)
        assert increment(api, METRICS, "m", [("metrics", APPEND, "b.")]) == (E.NONE, None)
        assert api.client_metrics.subscriptions()[0].metrics == ("a.", "b.")
        assert replace(api, METRICS, "m", [("metrics", "c.")]) == (E.NONE, None)
        assert api.client_metrics.subscriptions()[0].interval_ms == 300_000
        assert increment(api, GROUP, "g", [("share.delivery.count.limit", SET, "7")], validate_only=True) == (E.NONE, None)
        assert api.group_configs.get("g", "share.delivery.count.limit") == 5
        refused = (E.INVALID_CONFIG, "Can't APPEND to key share.delivery.count.limit because its type is not LIST.")
        assert increment(api, GROUP, "g", [("share.delivery.count.limit", APPEND, "7")]) == refused


class TestLoggers:
    @pytest.fixture
    def noisy(self) -> Iterator[logging.Logger]:
        logger = logging.getLogger("headrace.test.noisy")
        logger.setLevel(logging.NOTSET)
        yield logger
        logger.setLevel(logging.NOTSET)

    def test_a_level_can_be_read_set_and_given_back(self, api: Any, noisy: logging.Logger) -> None:
        assert increment(api, LOGGER, "0", [(noisy.name, SET, "DEBUG")]) == (E.NONE, None)
        assert noisy.level == logging.DEBUG
        [shown] = describe(api, LOGGER, "0", [noisy.name]).configs
        assert (shown.value, shown.config_source, shown.read_only) == ("DEBUG", 6, False)
        assert increment(api, LOGGER, "0", [(noisy.name, DELETE, None)]) == (E.NONE, None)
        assert noisy.level == logging.NOTSET

    def test_only_checking_sets_nothing(self, api: Any, noisy: logging.Logger) -> None:
        assert increment(api, LOGGER, "0", [(noisy.name, SET, "ERROR")], validate_only=True) == (E.NONE, None)
        assert noisy.level == logging.NOTSET

    @pytest.mark.parametrize(
        ("name", "change", "code", "text"),
        [
            (
                "0",
                ("root", SET, "ZZ"),
                E.INVALID_CONFIG,
                "Cannot set the log level of root to ZZ as it is not a supported log level. "
                "Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN",
            ),
            ("0", ("nope.logger", SET, "INFO"), E.INVALID_CONFIG, "Logger nope.logger does not exist!"),
            ("", ("root", SET, "INFO"), E.INVALID_REQUEST, "Node id must be an integer, but it is: "),
            ("1", ("root", SET, "INFO"), E.INVALID_REQUEST, "Unexpected node id. Expected 0, but received 1"),
            (
                "0",
                ("root", DELETE, None),
                E.INVALID_REQUEST,
                "Removing the log level of the root logger is not allowed",
            ),
            (
                "0",
                ("root", APPEND, "INFO"),
                E.INVALID_REQUEST,
                "APPEND operation is not allowed for the BROKER_LOGGER resource",
            ),
        ],
    )
    def test_mistakes(self, api: Any, name: str, change: tuple[str, int, str | None], code: E, text: str) -> None:
        level = logging.getLogger().level
        assert increment(api, LOGGER, name, [change]) == (code, text)
        assert logging.getLogger().level == level


class TestListConfigResources:
    @staticmethod
    def listed(api: Any, *kinds: int) -> list[tuple[str, int]]:
        answer = api(ListConfigResourcesRequest(resource_types=list(kinds)))
        assert answer.error_code == E.NONE
        return [(resource.resource_name, resource.resource_type) for resource in answer.config_resources]

    def test_kinds(self, api: Any) -> None:
        api.log.add("one")
        api.log.add("__headrace_topics", internal=True)
        assert self.listed(api) == [("one", TOPIC), ("0", BROKER), ("0", LOGGER)]
        assert self.listed(api, TOPIC) == [("one", TOPIC)]
        assert self.listed(api, BROKER) == [("0", BROKER)]
        assert self.listed(api, METRICS, GROUP) == []
        increment(api, GROUP, "g", [("share.delivery.count.limit", SET, "7")])
        increment(api, METRICS, "m", [("interval.ms", SET, "700")])
        assert self.listed(api, METRICS, GROUP) == [("m", METRICS), ("g", GROUP)]
        assert [one.resource_name for one in api(ListConfigResourcesRequest(), 0).config_resources] == ["m"]
        increment(api, GROUP, "g", [("share.delivery.count.limit", DELETE, None)])
        assert self.listed(api, GROUP) == []

    def test_version_0_knows_client_metrics_only(self, api: Any) -> None:
        api.log.add("one")
        assert api(ListConfigResourcesRequest(), 0).config_resources == []

    def test_an_unknown_kind(self, api: Any) -> None:
        assert api(ListConfigResourcesRequest(resource_types=[77])).error_code == E.UNSUPPORTED_VERSION
