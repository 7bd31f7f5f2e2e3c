"""ListConfigResources, versions 0 to 1: the names of what has settings of its own (KIP-1142).

All topics, this broker and its loggers; of client metrics and groups those that have settings of their own.

v0 client metrics alone (KIP-714, as ListClientMetricsResources) · v1 all kinds, or those asked for
"""

from __future__ import annotations

from headrace.kafka.call import Call
from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.config_resources import ResourceType
from headrace.kafka.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

KINDS = (
    ResourceType.TOPIC,
    ResourceType.BROKER,
    ResourceType.BROKER_LOGGER,
    ResourceType.CLIENT_METRICS,
    ResourceType.GROUP,
)


def handle(call: Call, request: ListConfigResourcesRequest) -> ListConfigResourcesResponse:
    if call.version == 0:
        return ListConfigResourcesResponse(
            config_resources=[ConfigResource(resource_name=name) for name in call.broker.client_metrics.names()]
        )
    wanted = set(request.resource_types) or set(KINDS)
    if not wanted <= set(KINDS):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    names: list[tuple[ResourceType, str]] = []
    if ResourceType.TOPIC in wanted:
        names.extend((ResourceType.TOPIC, topic.name) for topic in call.broker.topics.all())
    names.extend(
        (kind, str(call.broker.node_id)) for kind in (ResourceType.BROKER, ResourceType.BROKER_LOGGER) if kind in wanted
    )
    if ResourceType.CLIENT_METRICS in wanted:
        names.extend((ResourceType.CLIENT_METRICS, name) for name in call.broker.client_metrics.names())
    if ResourceType.GROUP in wanted:
        names.extend((ResourceType.GROUP, group_id) for group_id in call.broker.group_configs.group_ids())
    return ListConfigResourcesResponse(
        config_resources=[ConfigResource(resource_name=name, resource_type=kind) for kind, name in names]
    )
