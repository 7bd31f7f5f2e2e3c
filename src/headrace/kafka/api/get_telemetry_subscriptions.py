"""GetTelemetrySubscriptions, version 0: which of its metrics a client is to push, and how often (KIP-714).

By the CLIENT_METRICS resources that match the client. As in Kafka without a receiver plugin, ApiVersions doesn't mention
this API as long as there are none.
"""

from __future__ import annotations

from headrace.broker.telemetry import ACCEPTED_COMPRESSION_TYPES
from headrace.kafka.call import Call
from headrace.kafka.errors import code_of
from headrace.kafka.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from headrace.log.errors import LogError


def handle(call: Call, request: GetTelemetrySubscriptionsRequest) -> GetTelemetrySubscriptionsResponse:
    telemetry = call.broker.telemetry
    try:
        instance = telemetry.ask(request.client_instance_id, call.client)
    except LogError as error:
        return GetTelemetrySubscriptionsResponse(error_code=code_of(error))
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance.instance_id,
        subscription_id=instance.subscription_id,
        accepted_compression_types=list(ACCEPTED_COMPRESSION_TYPES),
        push_interval_ms=instance.interval_ms,
        telemetry_max_bytes=telemetry.max_bytes,
        delta_temporality=True,
        requested_metrics=list(instance.metrics),
    )
