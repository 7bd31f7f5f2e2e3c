"""The composition root: from settings to a running server. Picks the engine, starts the broker and the front ends."""

from __future__ import annotations

import asyncio
import base64
import ctypes
import gc
import importlib
import ipaddress
import logging
import resource
import signal
import sys
import uuid
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from headrace.amqp.listener import AmqpListener
from headrace.broker import Broker
from headrace.broker.settings import Settings
from headrace.clock import SystemClock
from headrace.dataclass import dataclass
from headrace.disk.real import RealDisk
from headrace.expressions.later import Later
from headrace.http.listener import HttpListener
from headrace.kafka.listener import KafkaListener
from headrace.kinesis.listener import KinesisListener
from headrace.log.embedded import CleanerSettings, EmbeddedLog
from headrace.loop_watch import LoopWatch

if TYPE_CHECKING:
    from headrace.broker.routes.ports import Makers
    from headrace.broker.spans import Spans
    from headrace.log.embedded.archive.archive import ArchiveOptions
    from headrace.otlp.exporter import Exporter

logger = logging.getLogger("headrace")

DEFAULT_DURABILITY = "fsync"
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
_KEPT_BYTES = 16 * 1024 * 1024
DEFAULT_HTTP = ("127.0.0.1", 8080)
DEFAULT_AMQP = ("127.0.0.1", 5672)
DEFAULT_KINESIS = ("127.0.0.1", 4567)
CLUSTER_TABLE = "__headrace_cluster"


class Refused(Exception):
    """The server will not start like this; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """What the operator asked for."""

    data: Path
    kafka: tuple[str, int] = ("127.0.0.1", 9092)
    durability: str = DEFAULT_DURABILITY
    settings: Mapping[str, str] = field(default_factory=dict)
    http: tuple[str, int] | None = None  # None: DEFAULT_HTTP, or another port when that one is taken
    amqp: tuple[str, int] | None = None  # None: DEFAULT_AMQP, or another port when that one is taken
    kinesis: tuple[str, int] | None = None  # None: DEFAULT_KINESIS, or another port when that one is taken


class Server:
    def __init__(self, options: ServerOptions) -> None:
        self.options = options
        self.kafka_address = ("", 0)
        self._log: EmbeddedLog | None = None
        self._listener: KafkaListener | None = None
        self._http: HttpListener | None = None
        self._amqp: AmqpListener | None = None
        self._kinesis: KinesisListener | None = None
        self._broker: Broker | None = None
        self._loop_watch: LoopWatch | None = None
        self._exporter: Exporter | None = None

    async def start(self) -> dict[str, Any]:
        """Recovers the folder and opens every listener; returns the ready line."""
        refuse_public_bind(self.options.kafka[0])
        refuse_public_bind((self.options.http or DEFAULT_HTTP)[0])
        refuse_public_bind((self.options.amqp or DEFAULT_AMQP)[0])
        refuse_public_bind((self.options.kinesis or DEFAULT_KINESIS)[0])
        given = dict(self.options.settings)
        if self.options.durability != DEFAULT_DURABILITY:
            given["durability"] = self.options.durability
        if "headrace.archive.url" in given:
            given.setdefault("remote.log.storage.system.enable", "true")
        settings = Settings.from_mapping(given)
        if settings.without_effect:
            logger.warning("these settings have no effect here: %s", ", ".join(settings.without_effect))
        clock = SystemClock()
        log = self._log = EmbeddedLog.open(
            RealDisk(self.options.data),
            clock,
            defaults=settings.topic_defaults,
            folder=str(self.options.data.resolve()),
            max_open_files=_open_files_for_segments(),
            retention_interval_s=settings.get_int("log.retention.check.interval.ms") / 1000,
            producer_expiration_ms=settings.get_int("producer.id.expiration.ms"),
            archive=_archive(settings),
            cleaner=_cleaner(settings),
        )
        try:
            cluster_id = await _cluster_id(log)
            spans = self._begin_spans(settings, clock, cluster_id)
            broker = self._broker = Broker(log, clock, settings, cluster_id, evaluator=Later(4), visitors=Later(2), spans=spans)
            settings.subscribe(lambda: log.set_defaults(settings.topic_defaults))
            settings.subscribe(lambda: log.compaction.configure(_cleaner(settings)))
            _register_ends(broker.routes.makers)
            await broker.start()
            self._loop_watch = LoopWatch(broker.loop_delay)
            http_address = self._start_http(broker)
            amqp_address = await self._start_amqp(broker)
            kinesis_address = self._start_kinesis(broker)
            self._listener = KafkaListener(broker)
            self.kafka_address = await self._listener.start(*self.options.kafka)
            broker.clients.listeners["kafka"] = self.kafka_address
            listeners = "PLAINTEXT://{}:{}".format(*self.kafka_address)
            settings.facts.update(
                {"advertised.listeners": listeners, "listeners": listeners, "log.dirs": str(self.options.data.resolve())}
            )
        except BaseException:
            if self._http is not None:
                await self._http.stop()
            if self._amqp is not None:
                await self._amqp.stop()
            if self._kinesis is not None:
                await self._kinesis.stop()
            if self._exporter is not None:
                await self._exporter.stop()
            await log.close()
            raise
        return {
            "ready": True,
            "kafka": "{}:{}".format(*self.kafka_address),
            "amqp": amqp_address,
            "kinesis": kinesis_address,
            "http": http_address,
        }

    def _begin_spans(self, settings: Settings, clock: SystemClock, cluster_id: str) -> Spans | None:
        if not settings.get_optional_str("headrace.tracing.endpoint"):
            return None
        from headrace.broker.spans import Spans  # a server without a collector does not load them
        from headrace.otlp.exporter import begin_exporting

        spans = Spans(settings)
        try:
            self._exporter = begin_exporting(spans, settings, clock, cluster_id)
        except ValueError as error:
            raise Refused(str(error)) from None
        return spans

    def _start_http(self, broker: Broker) -> str:
        listener = self._http = HttpListener(broker)
        wanted = self.options.http or DEFAULT_HTTP
        try:
            host, port = listener.start(*wanted)
        except OSError as error:
            if self.options.http is not None:
                raise Refused("{}:{}: {}".format(*wanted, error.strerror or error)) from error
            host, port = listener.start(wanted[0], 0)
            logger.warning("port %d is taken: HTTP listens on %s:%d instead; choose one with --http", wanted[1], host, port)
        broker.clients.listeners["http"] = (host, port)
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    async def _start_amqp(self, broker: Broker) -> str:
        listener = self._amqp = AmqpListener(broker)
        wanted = self.options.amqp or DEFAULT_AMQP
        try:
            host, port = await listener.start(*wanted)
        except OSError as error:
            if self.options.amqp is not None:
                raise Refused("{}:{}: {}".format(*wanted, error.strerror or error)) from error
            host, port = await listener.start(wanted[0], 0)
            logger.warning("port %d is taken: AMQP listens on %s:%d instead; choose one with --amqp", wanted[1], host, port)
        broker.clients.listeners["amqp"] = (host, port)
        return f"amqp://guest:guest@[{host}]:{port}/" if ":" in host else f"amqp://guest:guest@{host}:{port}/"

    def _start_kinesis(self, broker: Broker) -> str:
        listener = self._kinesis = KinesisListener(broker)
        wanted = self.options.kinesis or DEFAULT_KINESIS
        try:
            host, port = listener.start(*wanted)
        except OSError as error:
            if self.options.kinesis is not None:
                raise Refused("{}:{}: {}".format(*wanted, error.strerror or error)) from error
            host, port = listener.start(wanted[0], 0)
            logger.warning(
                "port %d is taken: Kinesis listens on %s:%d instead; choose one with --kinesis", wanted[1], host, port
            )
        broker.clients.listeners["kinesis"] = (host, port)
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    async def stop(self) -> None:
        """Answers what can be answered, makes everything durable and leaves the folder clean."""
        if self._loop_watch is not None:
            self._loop_watch.stop()
        if self._amqp is not None:
            await self._amqp.stop()
        if self._kinesis is not None:
            await self._kinesis.stop()
        if self._http is not None:
            await self._http.stop()
        if self._listener is not None:
            await self._listener.stop()
        if self._broker is not None:
            await self._broker.routes.stop()
            self._broker.close()
        if self._exporter is not None:
            await self._exporter.stop()
        if self._log is not None:
            await self._log.close()


def _open_files_for_segments() -> int:
    """As many descriptors as the system gives, less what connections may need; a few thousand are enough for anybody."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 65_536 if hard == resource.RLIM_INFINITY else min(hard, 65_536)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return min(4096, wanted // 2)


def _archive(settings: Settings) -> ArchiveOptions | None:
    if not settings.get_bool("remote.log.storage.system.enable"):
        return None
    url = settings.get_optional_str("headrace.archive.url")
    if not url:
        raise Refused("remote.log.storage.system.enable needs a place for the archive: give --archive URL")
    from headrace.log.embedded.archive.archive import ArchiveOptions  # a server without one does not load it
    from headrace.log.embedded.archive.pace import Pace
    from headrace.log.embedded.archive.store import open_store

    options = dict(option.partition("=")[::2] for option in settings.get_list("headrace.archive.options"))
    timeout_s = settings.get_int("headrace.archive.timeout.ms") / 1000
    pace = Pace()

    def set_pace() -> None:
        pace.bytes_per_s = settings.get_int("remote.log.manager.copy.max.bytes.per.second")

    set_pace()
    settings.subscribe(set_pace)
    return ArchiveOptions(
        open_store(url, options, timeout_s),
        cache_bytes=settings.get_int("headrace.archive.cache.bytes"),
        timeout_s=timeout_s,
        interval_s=settings.get_int("remote.log.manager.task.interval.ms") / 1000,
        readers=settings.get_int("remote.log.reader.threads"),
        copiers=settings.get_int("remote.log.manager.copier.thread.pool.size"),
        pace=pace,
    )


def refuse_public_bind(host: str) -> None:
    try:
        loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = host == "localhost"
    if not loopback:
        raise Refused(
            f"{host} can be reached from other machines, and this server has no authentication yet: "
            f"anybody there could read and delete everything. Bind to 127.0.0.1 and use a tunnel or a proxy that authenticates"
        )


def _cleaner(settings: Settings) -> CleanerSettings:
    return CleanerSettings(
        enable=settings.get_bool("log.cleaner.enable"),
        backoff_ms=settings.get_int("log.cleaner.backoff.ms"),
        dedupe_buffer_bytes=settings.get_int("log.cleaner.dedupe.buffer.size"),
        load_factor=settings.get_float("log.cleaner.io.buffer.load.factor"),
        io_buffer_bytes=settings.get_int("log.cleaner.io.buffer.size"),
        io_max_bytes_per_second=settings.get_float("log.cleaner.io.max.bytes.per.second"),
        cpu_share=settings.get_float("headrace.cleaner.cpu.share"),
    )


def _register_ends(makers: Makers) -> None:
    """Who works at the ends of routes that are outside the broker. Each is imported when the first such route begins."""

    def later(module: str, function: str) -> Callable[..., Any]:
        return lambda *given: getattr(importlib.import_module(module), function)(*given)

    makers.runs["webhook"] = later("headrace.webhooks.run", "make_run")
    makers.checks["webhook"] = later("headrace.webhooks.run", "check")
    makers.forget["webhook"] = later("headrace.webhooks.run", "forget")
    makers.senders["webhook"] = later("headrace.webhooks.desk", "make_sender")
    makers.intakes["webhook"] = later("headrace.webhooks.incoming", "make_intake")
    for kind, module in (("zmq", "headrace.zeromq.routes"), ("udp", "headrace.multicast.routes")):
        makers.destinations[kind] = later(module, "make_destination")
        makers.intakes[kind] = later(module, "make_intake")


async def _cluster_id(log: EmbeddedLog) -> str:
    """Made once for each data folder, in the form Kafka gives it: 16 bytes in URL-safe base 64."""
    table = await log.table(CLUSTER_TABLE)
    known = table.get(b"cluster.id")
    if known is None:
        known = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=")
        table.put({b"cluster.id": known})
        await log.synced()
    return known.decode()


def keep_freed_memory() -> None:
    """Has the C library keep the memory of large answers for the next ones. Given back to the system each time, it must be
    cleared page by page again, which costs more than to fill it. Bound: `_KEPT_BYTES` at the top of the heap."""
    try:
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_MMAP_THRESHOLD, _KEPT_BYTES // 2)
        libc.mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
    except (OSError, AttributeError):  # another C library, which has its own ways
        return


class Beside(Protocol):
    """What runs beside a server, as a process of its own: the console."""

    url: str

    def start(self, server_url: str) -> None: ...

    async def stop(self) -> None: ...


async def run_until_signal(server: Server, ready: Any, console: Beside | None = None) -> None:
    """Starts, calls `ready` with the ready line, and stops at SIGTERM or SIGINT."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    keep_freed_memory()
    line = await server.start()
    sys.setswitchinterval(0.0005)  # the commit thread must not wait long for its turn when a sync has returned
    gc.freeze()  # what start-up made stays: the collector need not walk it again and again, nor once before (it takes 25 ms)
    gc.set_threshold(20_000, 20, 20)  # requests make short-lived objects and no cycles
    gc.enable()
    if console is not None:
        line["console"] = console.url
    ready(line)
    if console is not None:
        console.start(line["http"])
    await stop.wait()
    if console is not None:
        await console.stop()
    await server.stop()
