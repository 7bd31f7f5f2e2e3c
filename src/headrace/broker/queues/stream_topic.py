"""The topic that a stream queue is: its name, and the stream's arguments as settings of the topic and back.

    x-max-age                          retention.ms       whole segments are dropped, as in RabbitMQ; -1 (never) if not given
    x-max-length-bytes                 retention.bytes    -1 (no limit) if not given
    x-stream-max-segment-size-bytes    segment.bytes      between Kafka's limits, 1 MiB and 2 GiB - 1; 500 MB if not given

The first two can also come from a policy, `max-age` and `max-length-bytes`. A stream that is declared where a topic of its name
exists becomes that topic, which stays as it is: arguments that it does not have are refused.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.broker.exchanges.values import printed, type_name
from headrace.broker.queues.definition import QueueDefinition
from headrace.broker.queues.errors import precondition_failed
from headrace.broker.queues.settings import QueueSettings
from headrace.broker.queues.stream_arguments import interval_ms
from headrace.broker.topic_errors import PolicyViolation
from headrace.broker.topics import HIDDEN_PREFIX, NewTopic, Topics, check_name
from headrace.log.errors import InvalidConfig, InvalidName, InvalidPartitions, TopicExists
from headrace.log.port import Topic

MAX_AGE = "x-max-age"
MAX_LENGTH_BYTES = "x-max-length-bytes"
SEGMENT_BYTES = "x-stream-max-segment-size-bytes"
FILTER_BYTES = "x-stream-filter-size-bytes"

_ARGUMENTS = {"retention.ms": MAX_AGE, "retention.bytes": MAX_LENGTH_BYTES, "segment.bytes": SEGMENT_BYTES}

DEFAULT_VHOST = "/"
_SMALLEST_SEGMENT, _DEFAULT_SEGMENT, _LARGEST_SEGMENT = 1024 * 1024, 500_000_000, 2_147_483_647
_LARGEST_DECLARED_SEGMENT = 3_000_000_000
_LARGEST_MESSAGE = 256 * 1024 * 1024


def topic_name(vhost: str, name: str) -> str:
    """The name of a stream's topic; raises AmqpRefusal for one that no topic may have."""
    found = name if vhost == DEFAULT_VHOST else f"{vhost}.{name}"
    wrong = f"invalid name for stream queue '{name}' in vhost '{vhost}'"
    try:
        check_name(found)
    except InvalidName as error:
        raise precondition_failed(f"{wrong}: {error}") from None
    if found.startswith(HIDDEN_PREFIX):
        raise precondition_failed(f"{wrong}: names that begin with '{HIDDEN_PREFIX}' are the server's own")
    return found


def topic_config(arguments: Mapping[str, object], settings: QueueSettings) -> dict[str, str]:
    """The settings of a new stream's topic, whose limits may also come from a policy. The arguments must have been checked."""
    config = {
        "cleanup.policy": "delete",
        "segment.bytes": str(_DEFAULT_SEGMENT),
        "max.message.bytes": str(_LARGEST_MESSAGE),
    }
    return config | _wanted(arguments) | limits(settings)


def limits(settings: QueueSettings) -> dict[str, str]:
    """What arguments and policies say together."""
    return {
        "retention.ms": str(-1 if settings.max_age_ms is None else settings.max_age_ms),
        "retention.bytes": str(-1 if settings.max_length_bytes is None else settings.max_length_bytes),
    }


def stream_arguments(config: Mapping[str, str]) -> dict[str, object]:
    """The arguments of a stream with the settings of a topic: what is shown of a topic that was not made as a stream."""
    arguments: dict[str, object] = {"x-queue-type": "stream"}
    age_ms = int(config.get("retention.ms", -1))
    if age_ms > 0:
        arguments[MAX_AGE] = f"{max(1, age_ms // 1000)}s"
    size = int(config.get("retention.bytes", -1))
    if size >= 0:
        arguments[MAX_LENGTH_BYTES] = size
    if "segment.bytes" in config:
        arguments[SEGMENT_BYTES] = int(config["segment.bytes"])
    return arguments


def open_topic(topics: Topics, definition: QueueDefinition, settings: QueueSettings, *, restored: bool) -> Topic:
    """The stream's topic, made if there is none. There at once, durable after `Log.synced`. Raises AmqpRefusal. A stream that
    is `restored` takes its topic as it is: somebody may have altered it since."""
    name, vhost, arguments = definition.name, definition.vhost, definition.arguments
    found = topic_name(vhost, name)
    if topics.is_internal(found):
        raise precondition_failed(f"invalid name for stream queue '{name}' in vhost '{vhost}': the topic is the server's own")
    if not restored:
        _check_sizes(arguments)
    topic = topics.get(found)
    if topic is not None:
        if restored:
            return topic
        _check_same(topics, topic, vhost, name, arguments)
        return topic
    try:
        return topics.define(NewTopic(found, partitions=1, config=topic_config(arguments, settings)))
    except (InvalidName, InvalidConfig, InvalidPartitions, PolicyViolation, TopicExists) as error:
        raise precondition_failed(f"cannot declare stream queue '{name}' in vhost '{vhost}': {error}") from None


def _wanted(arguments: Mapping[str, object]) -> dict[str, str]:
    """The settings that the arguments speak of."""
    config: dict[str, str] = {}
    age = arguments.get(MAX_AGE)
    age_ms = interval_ms(age) if isinstance(age, str) else None
    if age_ms is not None:
        config["retention.ms"] = str(age_ms)
    size = arguments.get(MAX_LENGTH_BYTES)
    if isinstance(size, int):
        config["retention.bytes"] = str(int(size))
    segment = arguments.get(SEGMENT_BYTES)
    if isinstance(segment, int):
        config["segment.bytes"] = str(min(max(int(segment), _SMALLEST_SEGMENT), _LARGEST_SEGMENT))
    return config


def _check_sizes(arguments: Mapping[str, object]) -> None:
    segment, bloom = arguments.get(SEGMENT_BYTES), arguments.get(FILTER_BYTES)
    if isinstance(segment, int) and segment > _LARGEST_DECLARED_SEGMENT:
        raise precondition_failed(f"Exceeded max value for {SEGMENT_BYTES}")
    if isinstance(bloom, int) and not 16 <= bloom <= 255:  # it has no effect here: filters are exact
        raise precondition_failed(f"Invalid value for {FILTER_BYTES}")


def _check_same(topics: Topics, topic: Topic, vhost: str, name: str, arguments: Mapping[str, object]) -> None:
    wanted = _wanted(arguments)
    if not wanted:
        return
    current = {entry.name: entry.value for entry in topics.config(topic.name)}
    shown = stream_arguments({setting: current[setting] or "-1" for setting in _ARGUMENTS})
    for setting, argument in _ARGUMENTS.items():
        if setting in wanted and wanted[setting] != current[setting]:
            raise precondition_failed(
                f"inequivalent arg '{argument}' for queue '{name}' in vhost '{vhost}': "
                + _difference(arguments[argument], shown.get(argument))
            )


def _difference(wanted: object, is_now: object) -> str:
    received = wanted if isinstance(wanted, str) else printed(wanted)
    if is_now is None:
        return f"received the value '{received}' of type '{type_name(wanted)}' but current is none"
    return f"received '{received}' but current is '{is_now}'"
