"""The broker: what every front end talks to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.broker.acls import Acls
from headrace.broker.audit import Audit
from headrace.broker.client_metrics import ClientMetrics
from headrace.broker.clients import Clients
from headrace.broker.group_configs import GroupConfigs
from headrace.broker.groups import GroupCoordinator
from headrace.broker.groups.share.coordinator import ShareGroups
from headrace.broker.producers import ProducerIds
from headrace.broker.quotas import ClientQuotas
from headrace.broker.routes import Routes
from headrace.broker.settings import Settings
from headrace.broker.streams import TABLE as STREAMS
from headrace.broker.telemetry import Telemetry
from headrace.broker.topics import Topics
from headrace.broker.traffic import Traffic
from headrace.broker.transactions import TransactionCoordinator
from headrace.broker.vhosts.hosts import VirtualHosts
from headrace.clock import Clock
from headrace.expressions.expressions import Evaluator
from headrace.expressions.here import Here
from headrace.log.port import Log
from headrace.times import Times

if TYPE_CHECKING:
    from headrace.broker.spans import Spans
    from headrace.broker.streams.streams import Streams


class Broker:
    """Holds the parts together; each part has a file of its own."""

    node_id = 0

    def __init__(
        self,
        log: Log,
        clock: Clock,
        settings: Settings,
        cluster_id: str,
        *,
        evaluator: Evaluator | None = None,
        visitors: Evaluator | None = None,
        spans: Spans | None = None,
    ) -> None:
        self.log = log
        self.clock = clock
        self.settings = settings
        self.cluster_id = cluster_id
        self.spans = spans  # None unless the operator names a collector
        self.traffic: dict[str, Traffic] = {}  # by protocol
        self.loop_delay = Times()  # how late the event loop came to what was due
        self.clients = Clients(clock.now_ms())
        self.topics = Topics(log, settings)
        self.audit = Audit(clock, settings, self.topics)
        self._streams: Streams | None = None
        self.group_configs = GroupConfigs(log, settings)
        self.client_metrics = ClientMetrics(log)
        self.telemetry = Telemetry(self.client_metrics, clock, settings.get_int("telemetry.max.bytes"))
        self.groups = GroupCoordinator(log, clock, settings, configs=self.group_configs)
        self.share_groups = ShareGroups(log, clock, settings, self.group_configs, self.topics, self.groups)
        self.producer_ids = ProducerIds(log)
        self.transactions = TransactionCoordinator(log, clock, settings, self.producer_ids, self.groups.pending)
        self.acls = Acls(log)
        self.quotas = ClientQuotas(log, clock, settings)
        self.vhosts = VirtualHosts(log, clock, settings, self.topics)
        self.routes = Routes(
            log, clock, settings, self.topics, self.groups, self.vhosts, self.traffic, evaluator or Here(), visitors or Here(),
            spans,
        )  # fmt: skip

    @property
    def streams(self) -> Streams:
        """Made when it is first asked for, or when there are streams."""
        if self._streams is None:
            from headrace.broker.streams.streams import Streams

            self._streams = Streams(self.log, self.clock, self.settings, self.topics)
        return self._streams

    @property
    def stream_count(self) -> int:
        """Topics that were made, or changed, through Kinesis. Asking does not make `streams`."""
        return 0 if self._streams is None else self._streams.stored_count

    async def start(self) -> None:
        self.topics.on_delete.append(lambda name: self.groups.forget_topics([name]))
        self.topics.on_create.append(lambda name: self.groups.catalog.changed(created=True))
        self.topics.on_grow.append(lambda name: self.groups.catalog.changed())
        self.topics.on_delete.append(lambda name: self.share_groups.forget_topics([name]))
        await self.topics.start()
        self.audit.start()
        if STREAMS in self.log.topics():
            await self.streams.start()  # before anything is appended: closed shards are sealed
        await self.group_configs.start()
        await self.client_metrics.start()
        await self.groups.start()
        await self.share_groups.start()
        await self.producer_ids.start()
        await self.transactions.start()
        await self.acls.start()
        await self.quotas.start()
        await self.vhosts.start()
        await self.routes.start()

    def close(self) -> None:
        """Stops what runs by time."""
        self.audit.flush()
        self.routes.close()
        if self._streams is not None:
            self._streams.close()
        self.vhosts.close()
        self.share_groups.close()
        self.groups.close()
        self.transactions.close()
