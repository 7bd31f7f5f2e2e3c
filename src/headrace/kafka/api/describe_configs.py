"""DescribeConfigs, versions 1 to 4: the settings of topics, groups, client metrics, the server and its loggers (KIP-133).

Each resource succeeds or fails by itself. A list of keys picks settings, null or empty means all; a key that doesn't
exist is left out. A group or a subscription of client metrics need not exist to be described: it has the defaults.

v1 sources and synonyms (KIP-226) · v3 types and documentation (KIP-569) · v4 flexible
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from headrace.broker.config_entries import ConfigEntry, server_default_entries, server_entries
from headrace.broker.loggers import levels
from headrace.broker.settings import Source
from headrace.broker.topic_errors import InvalidRequest
from headrace.broker.topics import check_name
from headrace.kafka.call import Call
from headrace.kafka.config_resources import ResourceType
from headrace.kafka.errors import code_of, text_of
from headrace.kafka.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from headrace.log.errors import LogError, UnknownTopic

Described: TypeAlias = list[DescribeConfigsResourceResult]
# (which entries, which keys) -> those entries, so that they live and their id stays theirs, and the result
Shared: TypeAlias = dict[tuple[int, frozenset[str] | None], tuple[tuple[ConfigEntry, ...], Described]]


def handle(call: Call, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    # a request may name thousands of topics, and most of them have the same settings: those share one list
    shared: Shared = {}
    return DescribeConfigsResponse(results=[_describe(call, request, resource, shared) for resource in request.resources])


def _describe(
    call: Call,
    request: DescribeConfigsRequest,
    resource: DescribeConfigsResource,
    shared: Shared,
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(resource_type=resource.resource_type, resource_name=resource.resource_name)
    names = frozenset(resource.configuration_keys) if resource.configuration_keys else None
    try:
        if resource.resource_type == ResourceType.BROKER_LOGGER:
            result.configs = _levels(call, resource.resource_name, names)
        else:
            entries = _entries(call, resource.resource_type, resource.resource_name)
            key = (id(entries), names)
            if key not in shared:
                shared[key] = entries, _described(request, entries, names)
            result.configs = shared[key][1]
    except UnknownTopic as error:
        result.error_code = code_of(error)
    except LogError as error:
        result.error_code, result.error_message = code_of(error), text_of(error)
    return result


def _entries(call: Call, kind: int, name: str) -> tuple[ConfigEntry, ...]:
    if kind == ResourceType.TOPIC:
        check_name(name)
        return call.broker.topics.config(name)
    if kind == ResourceType.BROKER:
        if not name:
            return tuple(server_default_entries(call.broker.settings))
        _check_broker(call, name, " or empty string,")
        return tuple(server_entries(call.broker.settings))
    if kind == ResourceType.GROUP:
        if not name:
            raise InvalidRequest("Group name must not be empty")
        return tuple(call.broker.group_configs.entries(name))
    if kind == ResourceType.CLIENT_METRICS:
        if not name:
            raise InvalidRequest("Client metrics subscription name must not be empty")
        return tuple(call.broker.client_metrics.entries(name))
    raise InvalidRequest(f"Unsupported resource type: {kind}")


def _check_broker(call: Call, name: str, or_what: str) -> None:
    try:
        number = int(name) if len(name) < 12 else None
    except ValueError:
        number = None
    if number is None:
        raise InvalidRequest(f"Broker id must be an integer, but it is: {name}")
    if number != call.broker.node_id:
        raise InvalidRequest(f"Unexpected broker id, expected {call.broker.node_id}{or_what} but received {name}")


def _described(request: DescribeConfigsRequest, entries: Iterable[ConfigEntry], names: frozenset[str] | None) -> Described:
    return [
        DescribeConfigsResourceResult(
            name=entry.name,
            value=None if entry.sensitive else entry.value,
            read_only=entry.read_only,
            config_source=entry.source,
            is_sensitive=entry.sensitive,
            synonyms=_synonyms(entry) if request.include_synonyms else [],
            config_type=entry.type,
            documentation=entry.doc if request.include_documentation else None,
        )
        for entry in entries
        if names is None or entry.name in names
    ]


def _synonyms(entry: ConfigEntry) -> list[DescribeConfigsSynonym]:
    return [
        DescribeConfigsSynonym(name=place.name, value=None if entry.sensitive else place.value, source=place.source)
        for place in entry.synonyms
    ]


def _levels(call: Call, name: str, names: frozenset[str] | None) -> Described:
    if not name:
        raise InvalidRequest("Broker id must not be empty")
    _check_broker(call, name, "")
    return [
        DescribeConfigsResourceResult(name=logger, value=level, config_source=Source.DYNAMIC_BROKER_LOGGER_CONFIG)
        for logger, level in levels().items()
        if names is None or logger in names
    ]
