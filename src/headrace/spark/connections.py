"""Connections to brokers, kept as long as the Python process: `cluster(endpoint)` or `cluster(options)`.

Spark uses a Python worker for one task after the other, and keeps one process on the driver for as long as a streaming query
runs; both find their connections open. A process has one `Cluster` for each endpoint and never shares it with a process that
was forked from it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.client.kafka.address import BadAddress, parse_addresses
from headrace.client.kafka.security import NO_SECURITY, Security
from headrace.spark.options import BadOption, Options
from headrace.spark.security import read_security

if TYPE_CHECKING:
    from headrace.client.kafka.cluster import Cluster

DEFAULT_SERVERS = "127.0.0.1:9092"
DEFAULT_TIMEOUT_S = 60.0  # default.api.timeout.ms of Kafka's clients
CLIENT_ID = "headrace-spark"

_clusters: dict[tuple[int, Endpoint], Cluster] = {}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the brokers are and how one talks to them."""

    servers: str
    timeout_s: float = DEFAULT_TIMEOUT_S
    client_id: str = CLIENT_ID
    security: Security = NO_SECURITY


def read_endpoint(options: Options) -> Endpoint:
    long, short = options.text("kafka.bootstrap.servers"), options.text("bootstrap")
    if long is not None and short is not None and long != short:
        raise BadOption("options kafka.bootstrap.servers and bootstrap mean the same: give one of them")
    servers = long or short or DEFAULT_SERVERS
    try:
        parse_addresses(servers)
    except BadAddress as error:
        raise BadOption(f"option kafka.bootstrap.servers: {error}") from None
    return Endpoint(
        servers=servers,
        timeout_s=options.duration_s("kafka.default.api.timeout.ms", DEFAULT_TIMEOUT_S),
        client_id=options.text("kafka.client.id") or CLIENT_ID,
        security=read_security(options),
    )


def cluster(given: Endpoint | Mapping[str, str]) -> Cluster:
    """The cluster that the options name. Whether the other options make sense is not looked at."""
    from headrace.client.kafka.cluster import Cluster

    endpoint = given if isinstance(given, Endpoint) else read_endpoint(Options(given))
    key = os.getpid(), endpoint
    if key not in _clusters:
        _clusters[key] = Cluster(
            endpoint.servers, timeout_s=endpoint.timeout_s, security=endpoint.security, client_id=endpoint.client_id
        )
    return _clusters[key]
