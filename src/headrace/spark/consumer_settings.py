"""Settings of Kafka's consumer, given as `kafka.NAME`: which are honoured, which do nothing here, which are refused.

A query that ran on Spark's Kafka connector should run here with the options it has, so what merely tunes a consumer that we do
not have is accepted and does nothing. What would change the result is honoured or refused.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.spark.options import BadOption, Options

# Why they do nothing: there is no consumer group, no poll loop, no buffer of a Java client.
WITHOUT_EFFECT = (
    "allow.auto.create.topics",
    "auto.commit.interval.ms",
    "auto.include.jmx.reporter",
    "check.crcs",
    "client.dns.lookup",
    "client.rack",
    "connections.max.idle.ms",
    "enable.metrics.push",
    "exclude.internal.topics",
    "fetch.max.bytes",
    "fetch.max.wait.ms",
    "fetch.min.bytes",
    "group.id",
    "group.instance.id",
    "group.protocol",
    "group.remote.assignor",
    "heartbeat.interval.ms",
    "internal.throw.on.fetch.stable.offset.unsupported",
    "max.partition.fetch.bytes",
    "max.poll.interval.ms",
    "max.poll.records",
    "metadata.max.age.ms",
    "metadata.recovery.rebootstrap.trigger.ms",
    "metadata.recovery.strategy",
    "metric.reporters",
    "metrics.num.samples",
    "metrics.recording.level",
    "metrics.sample.window.ms",
    "partition.assignment.strategy",
    "receive.buffer.bytes",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "request.timeout.ms",
    "retry.backoff.max.ms",
    "retry.backoff.ms",
    "send.buffer.bytes",
    "session.timeout.ms",
    "share.acknowledgement.mode",
    "share.acquire.mode",
    "socket.connection.setup.timeout.max.ms",
    "socket.connection.setup.timeout.ms",
)

REFUSED = {
    "auto.offset.reset": "startingOffsets says where a new query starts; a query that is resumed goes on where it was",
    "config.providers": "there is no Java client here that could load them",
    "enable.auto.commit": "offsets are kept in the checkpoint of the query",
    "interceptor.classes": "there is no Java consumer here that could load them",
    "key.deserializer": "keys are bytes; turn them into something else in the query, as in key.cast('string')",
    "value.deserializer": "values are bytes; turn them into something else in the query, as in value.cast('string')",
}


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    read_committed: bool


def read_consumer_settings(options: Options) -> ConsumerSettings:
    for name, reason in REFUSED.items():
        if options.given(f"kafka.{name}"):
            raise BadOption(f"option kafka.{name} is not supported: {reason}")
    for name in WITHOUT_EFFECT:
        options.text(f"kafka.{name}")
    isolation = options.choice("kafka.isolation.level", ("read_committed", "read_uncommitted"), "read_committed")
    return ConsumerSettings(read_committed=isolation == "read_committed")
