"""Every server setting there is, under Apache Kafka 4.3's own names, types, defaults and limits.

Three kinds:

    _EFFECTIVE   does here what it does in Kafka
    INERT        a Kafka setting about a mechanism that this server doesn't have (threads, replication, a controller).
                 It is accepted, checked and shown, so that an existing configuration can be used as it is, and the
                 server names the inert settings that were given when it starts
    REFUSED      must not be taken in silence: an operator who asks for TLS must not get plain text. The sentence says
                 what to do instead

The last two have a file of their own, `foreign_settings`.

`durability`, `max.partitions`, `headrace.*` and `kinesis.*` are our own. Two defaults differ from Kafka's:
`group.initial.rebalance.delay.ms` is 0, as in the configuration that Kafka ships for one node, and two segments are archived
at a time instead of ten (`remote.log.manager.copier.thread.pool.size`), because each takes some 30 MB of memory.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from headrace.broker.foreign_settings import INERT
from headrace.dataclass import dataclass
from headrace.log.config_types import (
    MAX_INT,
    MAX_LONG,
    ConfigDef,
    ConfigType,
    Validator,
    Value,
    at_least,
    between,
    invalid_value,
    list_of,
    one_of,
)
from headrace.log.errors import InvalidConfig
from headrace.log.topic_config import TOPIC_CONFIGS

_BOOLEAN, _STRING, _INT, _SHORT = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT, ConfigType.SHORT
_LONG, _DOUBLE, _LIST = ConfigType.LONG, ConfigType.DOUBLE, ConfigType.LIST
_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class SettingDef(ConfigDef):
    dynamic: bool = False  # may be changed while the server runs (IncrementalAlterConfigs on the broker)
    effective: bool = True


def _log(name: str, topic_config: str) -> SettingDef:
    """A default for topics: type, limits and explanation are the topic setting's."""
    definition = TOPIC_CONFIGS[topic_config]
    doc = f"The default of topics' {topic_config}. {definition.doc}"
    return SettingDef(name, definition.type, definition.default, doc, definition.validator, dynamic=True)


def _def(
    name: str,
    kind: ConfigType,
    default: Value,
    validator: Validator | None,
    doc: str,
    *,
    dynamic: bool = False,
) -> SettingDef:
    return SettingDef(name, kind, default, doc, validator, dynamic)


def _group(
    kind: str,
    name: str,
    default: int,
    lowest: int,
    limits: tuple[int, int],
    middle: int | None = None,
    highest: int | None = None,
) -> tuple[SettingDef, ...]:
    """A setting that groups of this kind may set too, and the two settings that limit what they set."""
    doc = f"of groups' {kind}.{name}."
    interval = name == "assignment.interval.ms"  # the one that Kafka lets be changed at run time
    return (
        _def(f"group.{kind}.{name}", _INT, default, between(lowest, highest), f"The default {doc}", dynamic=interval),
        _def(f"group.{kind}.min.{name}", _INT, limits[0], between(lowest, middle), f"The lowest value {doc}"),
        _def(f"group.{kind}.max.{name}", _INT, limits[1], between(middle or lowest, highest), f"The highest value {doc}"),
    )


def _matching(pattern: str, why: str) -> Validator:
    def check(name: str, value: Value) -> None:
        if not re.fullmatch(pattern, str(value), re.ASCII):
            raise invalid_value(name, value, why)

    return check


def _credentials(name: str, value: Value) -> None:
    """Says which one is wrong, and not what is in it: the secret must not end up in a log."""
    for number, given in enumerate(str(value).split(","), 1):
        if not re.fullmatch(r"\s*[^:\s]+:[^:\s]+(:[0-9]{12})?\s*", given, re.ASCII):
            raise InvalidConfig(f"Invalid value for configuration {name}: number {number} is not ACCESSKEY:SECRET[:ACCOUNT]")


def _fields(name: str, value: Value) -> None:
    """Says which one is wrong, and not what is in it."""
    for number, given in enumerate(str(value).split(","), 1):
        if not re.fullmatch(r"\s*[!#$%&'*+.^_`|~0-9A-Za-z-]+\s*=[\x21-\x2b\x2d-\x7e ]*", given, re.ASCII):
            raise InvalidConfig(f"Invalid value for configuration {name}: number {number} is not NAME=VALUE")


_EFFECTIVE = (
    # -- this node
    _def("node.id", _INT, 0, between(0, 0), "The number of this node, as clients see it; it is 0."),
    _def("broker.id", _INT, 0, between(-1, 0), "The old name of node.id."),
    _def("broker.rack", _STRING, None, None, "The rack or zone of this node, as clients see it."),
    _log("durability", "durability"),
    # -- topics
    _def("num.partitions", _INT, 1, at_least(1), "Partitions of a topic whose creator doesn't say."),
    _def("default.replication.factor", _INT, 1, between(1, 1), "Copies of a topic; one node has one."),
    _def("auto.create.topics.enable", _BOOLEAN, True, None, "Whether asking for a topic may create it."),
    _def("delete.topic.enable", _BOOLEAN, True, None, "Whether topics may be deleted."),
    _def("max.partitions", _INT, 100_000, at_least(1), "The most partitions of all topics together."),
    _def(
        "max.request.partition.size.limit", _INT, 2000, at_least(1),
        "The most partitions in one answer to DescribeTopicPartitions.",
    ),
    # -- defaults of topics
    _log("compression.gzip.level", "compression.gzip.level"),
    _log("compression.lz4.level", "compression.lz4.level"),
    _log("compression.type", "compression.type"),
    _log("compression.zstd.level", "compression.zstd.level"),
    _log("log.cleaner.delete.retention.ms", "delete.retention.ms"),
    _log("log.cleaner.max.compaction.lag.ms", "max.compaction.lag.ms"),
    _log("log.cleaner.min.cleanable.ratio", "min.cleanable.dirty.ratio"),
    _log("log.cleaner.min.compaction.lag.ms", "min.compaction.lag.ms"),
    _log("log.cleanup.policy", "cleanup.policy"),
    _log("log.flush.interval.messages", "flush.messages"),
    _def("log.flush.interval.ms", _LONG, None, None, "The default of topics' flush.ms.", dynamic=True),
    _def(
        "log.flush.scheduler.interval.ms", _LONG, MAX_LONG, None,
        "The default of topics' flush.ms where log.flush.interval.ms is not set.",
    ),
    _log("log.index.interval.bytes", "index.interval.bytes"),
    _log("log.index.size.max.bytes", "segment.index.bytes"),
    _log("log.local.retention.bytes", "local.retention.bytes"),
    _log("log.local.retention.ms", "local.retention.ms"),
    _log("log.message.timestamp.after.max.ms", "message.timestamp.after.max.ms"),
    _log("log.message.timestamp.before.max.ms", "message.timestamp.before.max.ms"),
    _log("log.message.timestamp.type", "message.timestamp.type"),
    _log("log.preallocate", "preallocate"),
    _log("log.retention.bytes", "retention.bytes"),
    _def("log.retention.hours", _INT, 168, None, "The default of topics' retention.ms, in hours."),
    _def("log.retention.minutes", _INT, None, None, "The same in minutes; goes before log.retention.hours."),
    _def("log.retention.ms", _LONG, None, None, "The same in ms; goes before both.", dynamic=True),
    _def("log.roll.hours", _INT, 168, at_least(1), "The default of topics' segment.ms, in hours."),
    _def("log.roll.ms", _LONG, None, at_least(1), "The same in ms; goes before log.roll.hours.", dynamic=True),
    _def("log.roll.jitter.hours", _INT, 0, at_least(0), "The default of topics' segment.jitter.ms, in hours."),
    _def(
        "log.roll.jitter.ms", _LONG, None, at_least(0),
        "The same in ms; goes before log.roll.jitter.hours.", dynamic=True,
    ),
    _log("log.segment.bytes", "segment.bytes"),
    _log("log.segment.delete.delay.ms", "file.delete.delay.ms"),
    _log("message.max.bytes", "max.message.bytes"),
    _log("min.insync.replicas", "min.insync.replicas"),
    _log("unclean.leader.election.enable", "unclean.leader.election.enable"),
    # -- compaction
    _def("log.cleaner.enable", _BOOLEAN, True, None, "Whether compacted topics are cleaned at all."),
    _def(
        "log.cleaner.backoff.ms", _LONG, 15_000, at_least(0),
        "How often the cleaner looks for work when there was none.", dynamic=True,
    ),
    _def(
        "headrace.cleaner.cpu.share", _DOUBLE, 0.5, between(0.01, 1),
        "The share of one core that the cleaner takes at most: after each step it rests as long as that asks for.",
        dynamic=True,
    ),
    _def(
        "log.cleaner.dedupe.buffer.size", _LONG, 134_217_728, at_least(4096),
        "Memory for the newest offset of each key while a partition is cleaned, 24 bytes each; when it is full, cleaning "
        "goes as far as it has come.", dynamic=True,
    ),
    _def(
        "log.cleaner.io.buffer.load.factor", _DOUBLE, 0.9, between(0.01, 1),
        "How full that memory may get; more makes each look-up slower.", dynamic=True,
    ),
    _def("log.cleaner.io.buffer.size", _INT, 524_288, at_least(0), "How much the cleaner reads at once.", dynamic=True),
    _def(
        "log.cleaner.io.max.bytes.per.second", _DOUBLE, 1.7976931348623157e308, at_least(1),
        "How much the cleaner reads and writes in a second at most.", dynamic=True,
    ),
    # -- retention
    _def("log.retention.check.interval.ms", _LONG, 300_000, at_least(1), "How often retention looks at segments."),
    # -- the archive (KIP-405)
    _def(
        "remote.log.storage.system.enable", _BOOLEAN, False, None,
        "Whether topics may have an archive; true as well where headrace.archive.url is given.",
    ),
    _def(
        "headrace.archive.url", _STRING, None, None,
        "Where archived segments go: file:///path, or s3://bucket/prefix. --archive is the same.",
    ),
    _def(
        "headrace.archive.options", _LIST, (), None,
        "What an S3-compatible store needs beside its URL: endpoint=https://host:9000,region=eu-1; not its credentials.",
    ),
    _def("headrace.archive.cache.bytes", _LONG, 67_108_864, at_least(8_388_608), "Memory for what is read from the archive."),
    _def("headrace.archive.timeout.ms", _INT, 10_000, at_least(100), "How long a reader waits for the archive to answer."),
    _def(
        "remote.fetch.max.wait.ms", _INT, 500, at_least(1),
        "How long one fetch waits for the archive (KIP-1018).", dynamic=True,
    ),
    _def("remote.log.manager.task.interval.ms", _LONG, 30_000, at_least(1), "How often segments to archive are looked for."),
    _def("remote.log.manager.copier.thread.pool.size", _INT, 2, at_least(1), "Segments that are copied at the same time."),
    _def(
        "remote.log.manager.copy.max.bytes.per.second", _LONG, MAX_LONG, at_least(1),
        "How fast all copies together go to the archive (KIP-956).", dynamic=True,
    ),
    _def("remote.log.reader.threads", _INT, 10, at_least(1), "Reads from the archive at the same time."),
    # -- the audit trail
    _def(
        "headrace.audit.enable", _BOOLEAN, False, None,
        "Whether administration is written down in the topic headrace.audit: who, when, what, and what came of it.",
        dynamic=True,
    ),
    # -- spans; where they go is not dynamic: whoever may change a topic must not be able to have the server call anybody
    _def(
        "headrace.tracing.endpoint", _STRING, None, _matching(r"https?://[^\s@#]+", "http://host:4318 is expected"),
        "A collector of OpenTelemetry that takes OTLP over HTTP: http://127.0.0.1:4318. Without one no spans are made.",
    ),
    _def(
        "headrace.tracing.headers", ConfigType.PASSWORD, None, _fields,
        "What the collector wants in the head of a request: name=value, with commas between; values are percent-encoded.",
    ),
    _def("headrace.tracing.ca.file", _STRING, None, None, "A file with certificates to trust beside those of the system."),
    _def("headrace.tracing.service.name", _STRING, "headrace", None, "What this server is called in traces."),
    _def(
        "headrace.tracing.sample.ratio", _DOUBLE, 0.0, between(0, 1),
        "The share of events that a trace is begun for if they come over HTTP, published or received, without one.",
        dynamic=True,
    ),
    # -- connections and requests
    _def("socket.request.max.bytes", _INT, 104_857_600, at_least(1), "The largest request that is read."),
    _def("connections.max.idle.ms", _LONG, 600_000, None, "A connection that says nothing this long is closed."),
    _def("max.connections", _INT, MAX_INT, at_least(0), "The most connections at once.", dynamic=True),
    _def("max.connections.per.ip", _INT, MAX_INT, at_least(0), "The most from one address.", dynamic=True),
    _def("fetch.max.bytes", _INT, 57_671_680, at_least(1024), "The most that one fetch returns."),
    _def(
        "max.incremental.fetch.session.cache.slots", _INT, 1000, at_least(0),
        "Fetch sessions that are remembered (KIP-227).",
    ),
    _def("telemetry.max.bytes", _INT, 1_048_576, at_least(1), "The most that a client may push of its metrics (KIP-714)."),
    # -- AMQP
    _def(
        "headrace.amqp.stay.awake.ms", _INT, 0, between(0, 60_000),
        "How long the server polls after the last bytes of an AMQP client in place of sleeping, which takes a processor.",
    ),
    # -- HTTP: what /v1 lets in
    _def(
        "headrace.http.hosts", _LIST, (), None,
        "Names by which browsers and programs may call this server, beside localhost and IP addresses.", dynamic=True,
    ),
    _def(
        "headrace.http.origins", _LIST, (), None,
        "Web pages of other origins that may use /v1: https://app.example.org,http://localhost:3000.", dynamic=True,
    ),
    _def("headrace.http.max.streams", _INT, 2000, at_least(0), "The most streams and long polls at once.", dynamic=True),
    _def("headrace.http.max.streams.per.host", _INT, 1000, at_least(0), "The most of those from one address.", dynamic=True),
    _def("headrace.http.heartbeat.ms", _INT, 15_000, at_least(100), "How long a stream says nothing at most.", dynamic=True),
    _def(
        "headrace.http.stalled.ms", _INT, 30_000, at_least(100),
        "After how long a peer that does not read what it is sent is cut off.",
    ),
    _def(
        "headrace.http.max.body.bytes", _INT, 4_194_304, at_least(1024),
        "The largest body of JSON, and the longest line of NDJSON, that is taken.", dynamic=True,
    ),
    _def(
        "headrace.http.body.memory.bytes", _LONG, 33_554_432, at_least(1_048_576),
        "How much of large bodies is held at once; further ones wait.", dynamic=True,
    ),
    _def("headrace.http.body.timeout.ms", _INT, 30_000, at_least(100), "How long a body may take to arrive.", dynamic=True),
    _def(
        "headrace.http.idempotency.window.ms", _LONG, 86_400_000, at_least(1000),
        "How long an Idempotency-Key is remembered.", dynamic=True,
    ),
    _def(
        "headrace.http.idempotency.max.keys", _INT, 100_000, at_least(1),
        "How many of these are remembered; beyond that the oldest is forgotten.", dynamic=True,
    ),
    # -- webhooks; not dynamic: whoever may change a topic must not be able to open the network
    _def(
        "headrace.webhooks.allow", _LIST, (), None,
        "Names, addresses and networks that webhooks may be sent to although they are not public: hooks.internal,10.0.0.0/8.",
    ),
    _def("headrace.webhooks.ca.file", _STRING, None, None, "Certificates of authorities to trust beside those of the system."),
    # -- Kinesis; who may call, and from where, is not dynamic: whoever may change a topic must not be able to open it
    _def(
        "kinesis.region", _STRING, "us-east-1", _matching(r"[a-z0-9-]{1,64}", "a name like eu-west-1 is expected"),
        "The region of requests that name none: those without a signature.",
    ),
    _def(
        "kinesis.account", _STRING, "123456789012", _matching(r"[0-9]{12}", "twelve digits are expected"),
        "The account of requests whose access key belongs to none: neither configured nor of twelve digits.",
    ),
    _def(
        "kinesis.credentials", ConfigType.PASSWORD, None, _credentials,
        "Who may call: ACCESSKEY:SECRET or ACCESSKEY:SECRET:ACCOUNT, with commas between; signatures are verified then. "
        "Without any, every signature is taken.",
    ),
    _def(
        "kinesis.enforce.limits", _BOOLEAN, False, None,
        "Whether shards have the limits that they have at Amazon: 1 MB and 1000 records in a second in, 2 MB and five calls "
        "out; and whether the rates of calls are limited as they are there.", dynamic=True,
    ),
    _def(
        "kinesis.iterator.expiry.ms", _LONG, 300_000, at_least(1000),
        "How long a shard iterator may be used.", dynamic=True,
    ),
    _def(
        "kinesis.on.demand.shards", _INT, 4, between(1, 10_000),
        "Shards of a new stream in on-demand mode.", dynamic=True,
    ),
    _def(
        "kinesis.shard.limit", _INT, 6000, at_least(1),
        "The most open shards of an account in one region.", dynamic=True,
    ),
    _def(
        "kinesis.subscription.ms", _LONG, 300_000, at_least(1000),
        "How long one SubscribeToShard lasts before the consumer has to subscribe again.", dynamic=True,
    ),
    # -- quotas
    _def("quota.window.num", _INT, 11, at_least(1), "Samples over which the rates of clients are measured."),
    _def("quota.window.size.seconds", _INT, 1, at_least(1), "The length of each of these."),
    _def("controller.quota.window.num", _INT, 11, at_least(1), "The same for controller_mutation_rate."),
    _def("controller.quota.window.size.seconds", _INT, 1, at_least(1), "The same for controller_mutation_rate."),
    # -- groups and their positions
    _def("group.initial.rebalance.delay.ms", _INT, 0, at_least(0), "How long a new group waits for more members."),
    _def("group.max.session.timeout.ms", _INT, 1_800_000, None, "The longest session timeout a member may ask for."),
    _def("group.min.session.timeout.ms", _INT, 100, None, "The shortest session timeout a member may ask for."),
    _def("group.max.size", _INT, MAX_INT, at_least(1), "The most members of a group."),
    _def("offset.metadata.max.bytes", _INT, 4096, None, "The longest note beside a committed offset."),
    _def("offsets.retention.minutes", _INT, 10_080, at_least(1), "How long an empty group's positions are kept."),
    _def("offsets.retention.check.interval.ms", _LONG, 600_000, at_least(1), "How often that is looked at."),
    # -- groups of the consumer protocol (KIP-848) and share groups (KIP-932): defaults and limits of what a group may set
    *_group("consumer", "heartbeat.interval.ms", 5000, 1, (5000, 15_000)),
    *_group("consumer", "session.timeout.ms", 45_000, 1, (45_000, 60_000)),
    *_group("consumer", "assignment.interval.ms", 1000, 0, (0, 15_000)),
    _def("group.consumer.max.size", _INT, MAX_INT, at_least(1), "The most members of a consumer group."),
    _def(
        "group.consumer.assignors", _LIST, ("uniform", "range"), list_of("uniform", "range"),
        "The assignors that members may ask for; the first is the default.",
    ),
    _def(
        "group.consumer.migration.policy", _STRING, "bidirectional",
        one_of("disabled", "downgrade", "upgrade", "bidirectional", case_sensitive=False),
        "Whether a group with members may change from the classic to the consumer protocol (upgrade) and back (downgrade).",
    ),
    _def(
        "group.coordinator.rebalance.protocols", _LIST, ("classic", "consumer", "streams"),
        list_of("classic", "consumer", "share", "streams"),
        "Without consumer there are no consumer groups. The others are always there, or never (streams).",
    ),
    *_group("share", "heartbeat.interval.ms", 5000, 1, (5000, 15_000)),
    *_group("share", "session.timeout.ms", 45_000, 1, (45_000, 60_000)),
    *_group("share", "assignment.interval.ms", 1000, 0, (0, 15_000)),
    *_group("share", "record.lock.duration.ms", 30_000, 1000, (15_000, 60_000), 30_000, 3_600_000),
    *_group("share", "delivery.count.limit", 5, 2, (2, 10), 5, 25),
    *_group("share", "partition.max.record.locks", 2000, 100, (100, 4000), 2000, 10_000),
    _def("group.share.max.size", _INT, 200, between(1, 1000), "The most members of a share group."),
    _def("group.share.max.share.sessions", _INT, 2000, at_least(1), "The most share sessions at once (KIP-932)."),
    # -- dead letters of share groups, named as KIP-1191 names them; Kafka 4.3 has none
    _def(
        "errors.deadletterqueue.auto.create.topics.enable", _BOOLEAN, True, None,
        "Whether a share group's dead-letter topic is created when it is first needed.", dynamic=True,
    ),
    _def(
        "errors.deadletterqueue.topic.name.prefix", _STRING, "dlq.", None,
        "What the names of dead-letter topics begin with.", dynamic=True,
    ),
    # -- idempotent producers
    _def(
        "producer.id.expiration.ms", _INT, 86_400_000, at_least(1),
        "How long a silent producer's sequence numbers are remembered.", dynamic=True,
    ),
    # -- transactions
    _def("transaction.max.timeout.ms", _INT, 900_000, at_least(1), "The longest timeout a transactional producer may ask for."),
    _def(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms", _INT, 10_000, at_least(1),
        "How often transactions that were open for too long are looked for.",
    ),
    _def("transactional.id.expiration.ms", _INT, 604_800_000, at_least(1), "How long an unused transactional id is kept."),
    _def(
        "transaction.remove.expired.transaction.cleanup.interval.ms", _INT, _HOUR_MS, at_least(1),
        "How often unused transactional ids are looked for.",
    ),
)  # fmt: skip


def _inert() -> tuple[SettingDef, ...]:
    found = []
    for why, rows in INERT.items():
        for marked, kind, default, low in rows:
            name = marked.removesuffix("*")
            doc = f"Accepted and without effect. {why}"
            validator = None if low is None else at_least(low)
            found.append(SettingDef(name, kind, default, doc, validator, marked.endswith("*"), effective=False))
    return tuple(found)


SETTINGS: Mapping[str, SettingDef] = MappingProxyType(
    {definition.name: definition for definition in sorted((*_EFFECTIVE, *_inert()), key=lambda found: found.name)}
)
