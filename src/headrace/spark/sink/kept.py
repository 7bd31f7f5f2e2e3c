"""What a Python worker keeps from one task to the next: connections for sending, and where allowed a whole sender.

Spark gives a worker one task at a time. Everything is kept by process id, so that a forked process begins with nothing.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from headrace.client.kafka.sending import Sender, new_producer_id
from headrace.spark.connections import cluster

if TYPE_CHECKING:
    from headrace.client.kafka.cluster import Cluster
    from headrace.client.kafka.sending import Links
    from headrace.spark.connections import Endpoint
    from headrace.spark.sink.settings import WriteSettings

METADATA_MAX_AGE_S = 300.0  # metadata.max.age.ms of Kafka's clients: new partitions are seen after that long at most

_looked: dict[tuple[int, Endpoint], float] = {}
_links: dict[tuple[int, Endpoint], Links] = {}
_senders: dict[tuple[int, WriteSettings], Sender] = {}


def servers_of(settings: WriteSettings) -> Cluster:
    """For a task, which sits out a server that is not there at the moment."""
    servers = cluster(settings.endpoint)
    servers.insist()
    key, now = (os.getpid(), settings.endpoint), time.monotonic()
    if now - _looked.setdefault(key, now) > METADATA_MAX_AGE_S:
        servers.forget()
        _looked[key] = now
    return servers


def links(endpoint: Endpoint) -> Links:
    return _links.setdefault((os.getpid(), endpoint), {})


def idempotent_sender(settings: WriteSettings) -> Sender:
    """One that nobody else uses. `give_back` when everything is flushed; one that failed is not given back."""
    kept = _senders.pop((os.getpid(), settings), None)
    if kept is not None:
        return kept
    servers = cluster(settings.endpoint)
    return Sender(
        servers,
        new_producer_id(servers),
        compression=settings.compression,
        level=settings.level,
        timeout_s=settings.delivery_timeout_s,
    )


def give_back(settings: WriteSettings, sender: Sender) -> None:
    _senders[os.getpid(), settings] = sender
