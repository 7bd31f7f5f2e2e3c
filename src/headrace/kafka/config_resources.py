"""What has settings that clients may read and alter, and the altering, which AlterConfigs and IncrementalAlterConfigs
share.

`alter` gets a function from what is set to what shall be set, so that both APIs differ in that function alone. All
settings of one resource change, or none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum

from headrace.broker.client_metrics import CLIENT_METRICS_CONFIGS
from headrace.broker.group_config_defs import GROUP_CONFIGS
from headrace.broker.loggers import ROOT, check_level, set_level
from headrace.broker.setting_defs import SETTINGS
from headrace.broker.settings import Settings
from headrace.broker.topic_errors import InvalidRequest
from headrace.broker.topics import AlterConfig
from headrace.dataclass import dataclass
from headrace.kafka.call import Call
from headrace.log.config_types import ConfigDef, ConfigType, render
from headrace.log.errors import InvalidConfig
from headrace.log.topic_config import TOPIC_CONFIGS


class ResourceType(IntEnum):
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Operation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class Change:
    name: str
    operation: int
    value: str | None


async def alter(call: Call, kind: int, name: str, change: AlterConfig, *, validate_only: bool) -> None:
    """Alters the settings of anything but loggers. Raises LogError."""
    if kind == ResourceType.TOPIC:
        await call.broker.topics.configure(name, change, validate_only=validate_only)
    elif kind == ResourceType.BROKER:
        await _alter_server(call, name, change, validate_only)
    elif kind == ResourceType.GROUP:
        await call.broker.group_configs.configure(name, change, validate_only=validate_only)
    elif kind == ResourceType.CLIENT_METRICS:
        await call.broker.client_metrics.configure(name, change, validate_only=validate_only)
    else:
        raise InvalidRequest(f"Unknown resource type {kind}")


async def _alter_server(call: Call, name: str, change: AlterConfig, validate_only: bool) -> None:
    if name:
        check_node(name, call.broker.node_id, f"Unexpected broker id, expected {call.broker.node_id}, but received")
    settings: Settings = call.broker.settings
    wanted = change(settings.dynamic_node if name else settings.dynamic_default)
    try:
        if not validate_only:
            await call.broker.topics.dynamic_settings.replace(wanted, for_all=not name)
        elif name:
            settings.check_dynamic(wanted, settings.dynamic_default)
        else:
            settings.check_dynamic(settings.dynamic_node, wanted)
    except InvalidConfig as error:
        raise InvalidRequest(str(error)) from error  # as in Kafka, where only topics answer INVALID_CONFIG


def check_node(name: str, node: int, unexpected: str) -> None:
    """Whether a resource's name is this node's number; raises InvalidRequest."""
    try:
        number = int(name) if len(name) < 12 else None
    except ValueError:
        number = None
    if number is None:
        raise InvalidRequest(f"Node id must be an integer, but it is: {name}")
    if number != node:
        raise InvalidRequest(f"{unexpected} {name}")


def check_changes(changes: Sequence[Change]) -> None:
    """What holds for every kind of resource; raises InvalidRequest."""
    if len({change.name for change in changes}) < len(changes):
        raise InvalidRequest("Error due to duplicate config keys")
    nulls = [change.name for change in changes if change.value is None and change.operation != Operation.DELETE]
    if nulls:
        raise InvalidRequest(f"Null value not supported for : {', '.join(nulls)}")


def replace_by(changes: Sequence[Change]) -> AlterConfig:
    """AlterConfigs: what is not mentioned goes."""
    return lambda before: {change.name: change.value for change in changes if change.value is not None}


def apply(kind: int, changes: Sequence[Change]) -> AlterConfig:
    """IncrementalAlterConfigs: what is not mentioned stays (KIP-339)."""

    def altered(before: dict[str, str]) -> dict[str, str]:
        after = dict(before)
        for change in changes:
            if change.operation == Operation.SET:
                after[change.name] = change.value or ""
            elif change.operation == Operation.DELETE:
                after.pop(change.name, None)
            elif change.operation in (Operation.APPEND, Operation.SUBTRACT):
                after[change.name] = _combined(kind, change, after.get(change.name))
            else:
                raise InvalidRequest(f"Unknown operations type {change.operation}")
        return after

    return lambda before: altered(dict(before))


_DEFINITIONS: Mapping[int, Mapping[str, ConfigDef]] = {
    ResourceType.TOPIC: TOPIC_CONFIGS,
    ResourceType.BROKER: SETTINGS,
    ResourceType.GROUP: GROUP_CONFIGS,
    ResourceType.CLIENT_METRICS: CLIENT_METRICS_CONFIGS,
}


def _combined(kind: int, change: Change, current: str | None) -> str:
    definition = _DEFINITIONS.get(kind, {}).get(change.name)
    if definition is None or definition.type is not ConfigType.LIST:
        operation = Operation(change.operation).name
        if kind == ResourceType.BROKER:
            raise InvalidConfig(f"Config value {operation.lower()} is not allowed for config key: {change.name}")
        raise InvalidConfig(f"Can't {operation} to key {change.name} because its type is not LIST.")
    if current is None:
        current = render(definition.default) or ""
    items = [item for item in current.split(",") if item]
    for item in (change.value or "").split(","):
        if change.operation == Operation.APPEND and item not in items:
            items.append(item)
        elif change.operation == Operation.SUBTRACT and item in items:
            items.remove(item)
    return ",".join(items)


def alter_loggers(call: Call, name: str, changes: Sequence[Change], *, validate_only: bool) -> None:
    """The levels of loggers (KIP-412): SET and DELETE only. Raises InvalidRequest, InvalidConfig."""
    check_node(name, call.broker.node_id, f"Unexpected node id. Expected {call.broker.node_id}, but received")
    for change in changes:
        if change.operation == Operation.DELETE and change.name == ROOT:
            raise InvalidRequest("Removing the log level of the root logger is not allowed")
        if change.operation not in (Operation.SET, Operation.DELETE):
            known = change.operation in (Operation.APPEND, Operation.SUBTRACT)
            operation = Operation(change.operation).name if known else f"Unknown ({change.operation})"
            raise InvalidRequest(f"{operation} operation is not allowed for the BROKER_LOGGER resource")
        check_level(change.name, change.value if change.operation == Operation.SET else None)
    if not validate_only:
        for change in changes:
            set_level(change.name, change.value if change.operation == Operation.SET else None)
