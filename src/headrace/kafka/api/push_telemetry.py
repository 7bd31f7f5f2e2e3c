"""PushTelemetry, version 0: a client hands in metrics of its own (KIP-714).

Checked as Kafka checks them (who, when, which subscription, compression, size), counted, and not kept.
"""

from __future__ import annotations

from headrace.broker.telemetry import Push
from headrace.kafka.call import Call
from headrace.kafka.errors import code_of
from headrace.kafka.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from headrace.log.errors import LogError


def handle(call: Call, request: PushTelemetryRequest) -> PushTelemetryResponse:
    push = Push(
        request.client_instance_id,
        request.subscription_id,
        request.terminating,
        request.compression_type,
        len(request.metrics),
    )
    try:
        call.broker.telemetry.push(push, call.client)
    except LogError as error:
        return PushTelemetryResponse(error_code=code_of(error))
    return PushTelemetryResponse()
