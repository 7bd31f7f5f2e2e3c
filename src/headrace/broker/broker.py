"""The broker: what every front end talks to."""

from __future__ import annotations

from headrace.broker.acls import Acls
from headrace.broker.groups import GroupCoordinator
from headrace.broker.producers import ProducerIds
from headrace.broker.settings import Settings
from headrace.broker.topics import Topics
from headrace.clock import Clock
from headrace.log.port import Log


class Broker:
    """Holds the parts together; each part has a file of its own."""

    node_id = 0

    def __init__(self, log: Log, clock: Clock, settings: Settings, cluster_id: str) -> None:
        self.log = log
        self.clock = clock
        self.settings = settings
        self.cluster_id = cluster_id
        self.topics = Topics(log, settings)
        self.groups = GroupCoordinator(log, clock, settings)
        self.producer_ids = ProducerIds(log)
        self.acls = Acls(log)

    async def start(self) -> None:
        self.topics.on_delete.append(lambda name: self.groups.forget_topics([name]))
        await self.topics.start()
        await self.groups.start()
        await self.producer_ids.start()
        await self.acls.start()

    def close(self) -> None:
        """Stops what runs by time."""
        self.groups.close()
