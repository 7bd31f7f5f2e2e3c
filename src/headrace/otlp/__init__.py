"""Spans on their way to a collector of OpenTelemetry: OTLP over HTTP, in JSON.

    encoding   spans as the body of a request
    exporter   batches, retries and what becomes of them

Imports `broker.spans` and the HTTP client of `webhooks.outbound`; imported by `server` when the operator names a collector.
"""
