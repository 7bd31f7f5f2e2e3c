"""Topics as an administrator sees them: create, delete, grow, configure, trim, and how much room they take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from headrace.client.kafka.cluster import Cluster
from headrace.client.kafka.connection import Connection
from headrace.client.kafka.errors import check, only
from headrace.client.kafka.partitions import TopicPartition, ask_leaders, by_leader, by_topic
from headrace.kafka.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from headrace.kafka.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headrace.kafka.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from headrace.kafka.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from headrace.kafka.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from headrace.kafka.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from headrace.kafka.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

SERVER_DEFAULT = -1  # for partitions and replication factor: whatever the server's settings say (KIP-464)
_TOPIC = 2  # DescribeConfigs' resource type
_SET, _DELETE = 0, 1  # IncrementalAlterConfigs' operations


class ConfigSource(IntEnum):
    """Where the value of a setting comes from."""

    UNKNOWN = 0
    TOPIC = 1
    BROKER = 2
    CLUSTER = 3
    STATIC = 4
    DEFAULT = 5
    LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


@dataclass(frozen=True, slots=True)
class Config:
    name: str
    value: str | None
    source: int
    read_only: bool = False
    sensitive: bool = False


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """-1 where the server does not say (before Kafka 2.4)."""

    name: str
    partitions: int
    replication_factor: int


def create_topic(
    cluster: Cluster,
    name: str,
    *,
    partitions: int = SERVER_DEFAULT,
    replication_factor: int = SERVER_DEFAULT,
    configs: Mapping[str, str] | None = None,
    validate_only: bool = False,
) -> CreatedTopic:
    request = CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=name,
                num_partitions=partitions,
                replication_factor=replication_factor,
                configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
            )
        ],
        timeout_ms=_timeout_ms(cluster),
        validate_only=validate_only,
    )

    def ask() -> CreatedTopic:
        result = only(cluster.controller().call(request, CreateTopicsResponse, cluster.deadline()).topics)
        check(f"topic '{name}'", result.error_code, result.error_message)
        return CreatedTopic(name, result.num_partitions, result.replication_factor)

    return cluster.retry(ask)


def wait_until_led(cluster: Cluster, name: str) -> None:
    """A new topic is known a moment before its partitions have leaders."""
    cluster.retry(lambda: by_leader(cluster, [TopicPartition(name, one.index) for one in cluster.topic(name).partitions]))


def delete_topic(cluster: Cluster, name: str) -> None:
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], topic_names=[name], timeout_ms=_timeout_ms(cluster))

    def ask() -> None:
        result = only(cluster.controller().call(request, DeleteTopicsResponse, cluster.deadline()).responses)
        check(f"topic '{name}'", result.error_code, result.error_message)

    cluster.retry(ask)
    cluster.forget()


def set_partitions(cluster: Cluster, name: str, total: int, *, validate_only: bool = False) -> None:
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=name, count=total, assignments=None)],
        timeout_ms=_timeout_ms(cluster),
        validate_only=validate_only,
    )

    def ask() -> None:
        result = only(cluster.controller().call(request, CreatePartitionsResponse, cluster.deadline()).results)
        check(f"topic '{name}'", result.error_code, result.error_message)

    cluster.retry(ask)
    cluster.forget()


def topic_configs(cluster: Cluster, names: Iterable[str]) -> dict[str, list[Config]]:
    request = DescribeConfigsRequest(
        resources=[DescribeConfigsResource(resource_type=_TOPIC, resource_name=name, configuration_keys=None) for name in names]
    )
    answer = cluster.retry(lambda: cluster.any().call(request, DescribeConfigsResponse, cluster.deadline()))
    configs = {}
    for result in answer.results:
        check(f"topic '{result.resource_name}'", result.error_code, result.error_message)
        configs[result.resource_name] = [
            Config(one.name, one.value, one.config_source, one.read_only, one.is_sensitive) for one in result.configs
        ]
    return configs


def alter_configs(
    cluster: Cluster,
    name: str,
    *,
    changed: Mapping[str, str],
    removed: Iterable[str] = (),
    validate_only: bool = False,
) -> None:
    """Sets some settings of a topic and gives others back their default; those not named stay as they are (KIP-339)."""
    changes = [AlterableConfig(name=key, config_operation=_SET, value=value) for key, value in changed.items()]
    changes += [AlterableConfig(name=key, config_operation=_DELETE, value=None) for key in removed]
    request = IncrementalAlterConfigsRequest(
        resources=[AlterConfigsResource(resource_type=_TOPIC, resource_name=name, configs=changes)],
        validate_only=validate_only,
    )

    def ask() -> None:
        result = only(cluster.controller().call(request, IncrementalAlterConfigsResponse, cluster.deadline()).responses)
        check(f"topic '{name}'", result.error_code, result.error_message)

    cluster.retry(ask)


def delete_records(cluster: Cluster, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Forgets what is below an offset (-1: everything). Returns the new start offsets."""

    def ask(connection: Connection, wanted: list[TopicPartition], deadline: float) -> dict[TopicPartition, tuple[int, int]]:
        topics: dict[str, DeleteRecordsTopic] = {}
        for partition in wanted:
            topic = topics.setdefault(partition.topic, DeleteRecordsTopic(name=partition.topic))
            topic.partitions.append(DeleteRecordsPartition(partition_index=partition.partition, offset=before[partition]))
        request = DeleteRecordsRequest(topics=list(topics.values()), timeout_ms=_timeout_ms(cluster))
        answer = connection.call(request, DeleteRecordsResponse, deadline)
        return {
            TopicPartition(topic.name, one.partition_index): (one.error_code, one.low_watermark)
            for topic in answer.topics
            for one in topic.partitions
        }

    return ask_leaders(cluster, before, ask)


class PartitionSize(NamedTuple):
    """In bytes: on the leader's disk, in its archive, and not compacted yet, where it says so (Apache Kafka doesn't)."""

    local: int
    archived: int
    dirty: int = 0


def partition_sizes(cluster: Cluster, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, PartitionSize]:
    """A partition whose leader does not say is left out."""
    sizes: dict[TopicPartition, PartitionSize] = {}
    for leader, led in by_leader(cluster, partitions).items():
        request = DescribeLogDirsRequest(
            topics=[DescribableLogDirTopic(topic=topic, partitions=indexes) for topic, indexes in by_topic(led).items()]
        )
        answer = cluster.to(leader).call(request, DescribeLogDirsResponse, cluster.deadline())
        for log_dir in answer.results:
            for topic in log_dir.topics:
                for one in topic.partitions:
                    if not one.is_future_key:
                        size = PartitionSize(one.partition_size, one.archived_size, one.dirty_size)
                        sizes[TopicPartition(topic.name, one.partition_index)] = size
    return sizes


def _timeout_ms(cluster: Cluster) -> int:
    return int(cluster.timeout_s * 1000)
