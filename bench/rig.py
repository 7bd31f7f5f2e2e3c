"""What a case works with: one running server, a scratch folder, and the load generators aimed at that server."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import frames, native
from bench.model import Effort, Mode, Protocol
from bench.peers import PeerError, Server, start_headrace, start_kafka
from bench.rabbitmq import start_rabbitmq

if TYPE_CHECKING:
    from collections.abc import Iterator

READY_DEADLINE_S = 30.0


class LoadError(Exception):
    """A load did not go as it must: the server answered wrongly, lost something, or was gone."""


@dataclass(frozen=True, slots=True)
class Load:
    """What a run of loadgen brought."""

    requests: int  # all that were answered, each without an error
    rate: float  # requests per second
    record_mb_per_s: float  # record batches fetched, in units of 1,000,000 bytes
    p50_us: float
    p99_us: float
    p999_us: float
    server_cpu_us: float  # of the server process, for each request
    client_cpu_share: float  # of one core


OPTIONS: Mapping[Mode, Sequence[str]] = {Mode.HEADRACE_AWAKE: ("--set", "headrace.amqp.stay.awake.ms=10")}


def start(
    mode: Mode,
    folder: Path,
    *,
    port: int = 0,
    wait: bool = True,
    overrides: Mapping[str, object] | None = None,
    arguments: Sequence[str] = (),
    protocol: Protocol = "kafka",
) -> Server:
    """Starts a server in `mode` on `folder`, which keeps its data between starts. `overrides` are for Kafka, `arguments` for
    Headrace; the port is that of `protocol`."""
    if mode.is_rabbitmq:
        return start_rabbitmq(folder, port=port, wait=wait)
    if not mode.is_kafka:
        server = start_headrace(
            folder,
            durability="flush" if mode is Mode.HEADRACE_FLUSH else "fsync",
            port=port if protocol == "kafka" else 0,
            wait=wait,
            arguments=[*arguments, *(["--amqp", f"127.0.0.1:{port}"] if protocol == "amqp" else []), *OPTIONS.get(mode, ())],
            environment={"HEADRACE_PURE": "1"} if mode is Mode.HEADRACE_PURE else {},
        )
        if not wait and protocol == "amqp":
            server.amqp_port = port
        return server
    settings = dict(overrides or {})
    if mode is Mode.KAFKA_SYNCED:
        settings["log.flush.interval.messages"] = 1
    return start_kafka(folder, port=port, wait=wait, overrides=settings)


class Rig:
    def __init__(self, mode: Mode, effort: Effort, folder: Path, protocol: Protocol = "kafka") -> None:
        self.mode = mode
        self.protocol: Protocol = protocol
        self.effort = effort
        self.folder = folder
        self._server: Server | None = None
        self._output: Path | None = None
        self._topics: dict[str, int] = {}

    @property
    def server(self) -> Server:
        assert self._server is not None, "the case says it starts its servers itself"
        return self._server

    @contextmanager
    def serving(self, *, port: int = 0, wait: bool = True, arguments: Sequence[str] = ()) -> Iterator[Server]:
        """Runs the server of this mode on this rig's folder."""
        folder = self.folder / "server"
        with start(self.mode, folder, port=port, wait=wait, arguments=arguments, protocol=self.protocol) as server:
            self._server = server
            self._output = server.output
            try:
                yield server
            finally:
                self._server = None

    def last_output(self, lines: int) -> list[str]:
        """The end of what the last server said, to go with a failure."""
        if self._output is None or not self._output.exists():
            return []
        return self._output.read_text(errors="replace").splitlines()[-lines:]

    # --- topics ---

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        """Creates a topic and waits until every partition of it answers."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

        new = NewTopic(name, num_partitions=partitions, replication_factor=1, config=dict(config or {}))
        admin = self.admin()
        try:
            admin.create_topics([new], request_timeout=60)[name].result()
        except KafkaException as error:
            raise LoadError(f"creating {name}: {error}") from error
        self._topics[name] = partitions
        end = time.monotonic() + READY_DEADLINE_S
        while True:
            try:
                self.end_offsets(name)
                return
            except LoadError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)

    def end_offsets(self, name: str) -> int:
        """The sum of the end offsets of a topic's partitions."""
        from confluent_kafka import KafkaException, TopicPartition
        from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

        latest: Any = OffsetSpec
        wanted = {TopicPartition(name, index): latest.latest() for index in range(self._topics[name])}
        try:
            admin = self.admin()
            found = admin.list_offsets(wanted, request_timeout=30)
            return sum(each.result().offset for each in found.values())
        except KafkaException as error:
            raise LoadError(f"offsets of {name}: {error}") from error

    def admin(self) -> Any:
        from confluent_kafka.admin import AdminClient

        return AdminClient({"bootstrap.servers": self.server.bootstrap, "log_level": 0})

    # --- raw requests ---

    def produce(
        self,
        topic: str,
        requests: Sequence[frames.ProduceFrame],
        *,
        connections: int = 1,
        window: int = 1,
        seconds: float | None = None,
        count: int | None = None,
        rate: float | None = None,
        answers: Path | None = None,
    ) -> Load:
        """Replays produce requests, then checks that the topic grew by exactly what was acknowledged. With a rate so many are
        due in a second, and their latency counts from when they were due; without, each answer begins the next. Each answer is
        written down in the file `answers`."""
        first = requests[0]
        before = self.end_offsets(topic)
        more = [] if rate is None else ["--rate", str(rate)]
        more += [] if answers is None else ["--answers", str(answers)]
        load = self._loadgen(
            [each.data for each in requests],
            ["--kind", "produce", "--partitions", str(first.partitions), *more],
            connections=connections,
            window=window,
            seconds=seconds,
            count=count,
        )
        self.wait_for_records(topic, before + load.requests * first.records)
        return load

    def wait_for_records(self, topic: str, count: int) -> None:
        """Waits until a topic holds exactly what was acknowledged. With acks=1 readers may see it a moment later: the high
        watermark follows the disk."""
        end = time.monotonic() + READY_DEADLINE_S
        while (there := self.end_offsets(topic)) != count:
            if there > count or time.monotonic() > end:
                raise LoadError(f"{topic} should have {count} records after what was acknowledged, but has {there}")
            time.sleep(0.02)

    def fetch(
        self,
        requests: Sequence[frames.FetchFrame],
        *,
        step: int,
        end: int,
        connections: int = 1,
        window: int = 1,
        seconds: float | None = None,
        min_bytes: int = 1,
    ) -> Load:
        """Replays fetches, each partition's moving `step` offsets on every time and starting again before `end`."""
        where = ["--offset-at", str(requests[0].offset_at), "--offset-step", str(step), "--offset-end", str(end)]
        return self._loadgen(
            [each.data for each in requests],
            ["--kind", "fetch", "--min-bytes", str(min_bytes), *where],
            connections=connections,
            window=window,
            seconds=seconds,
            count=None,
        )

    def _loadgen(
        self,
        requests: Sequence[bytes],
        arguments: Sequence[str],
        *,
        connections: int,
        window: int,
        seconds: float | None,
        count: int | None,
    ) -> Load:
        path = self.folder / "requests"
        path.write_bytes(b"".join(requests))
        command = [native.loadgen(), "--port", self.server.port, "--frames", path, *arguments]
        command += ["--connections", connections, "--window", window]
        if count is None:
            command += ["--seconds", self.effort.seconds if seconds is None else seconds]
        else:
            command += ["--seconds", 3600, "--requests", count]
        os.sync()  # what earlier loads left in the page cache is not this one's business
        cpu_before = self.server.cpu_seconds()
        said = run(command)
        cpu = self.server.cpu_seconds() - cpu_before
        took = max(said["seconds"], 1e-9)
        return Load(
            requests=int(said["requests"]),
            rate=said["requests"] / took,
            record_mb_per_s=said["record_bytes"] / took / 1e6,
            p50_us=said["p50_us"],
            p99_us=said["p99_us"],
            p999_us=said["p999_us"],
            server_cpu_us=cpu * 1e6 / max(1, said["requests"]),
            client_cpu_share=said["client_cpu_s"] / took,
        )

    def warm_up(self) -> None:
        """A load of every kind, so that what is measured afterwards meets a server whose hot paths have been compiled."""
        self.create_topic("warm")
        small, large = frames.batch(1), frames.batch_of(16_384)
        each = self.effort.warm_seconds / 4
        self.produce("warm", [frames.produce("warm", small)], connections=16, seconds=2 * each)
        self.produce("warm", [frames.produce("warm", large, acks=-1)], connections=4, seconds=each)
        end = self.end_offsets("warm")
        self.fetch([frames.fetch("warm", max_bytes=1 << 20)], step=1009, end=end, connections=4, seconds=each)

    # --- librdkafka ---

    def rdload(self, verb: str, topic: str, count: int, size: int, *settings: str) -> dict[str, Any]:
        os.sync()
        return run([native.rdload(), verb, self.server.bootstrap, topic, count, size, *settings])


def run(command: Sequence[object], *, deadline_s: float = 900) -> dict[str, Any]:
    """Runs a load generator that prints one JSON object."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=deadline_s)
    except subprocess.TimeoutExpired as error:
        raise LoadError(f"{Path(words[0]).name} was not done after {deadline_s:.0f} s") from error
    if done.returncode:
        raise LoadError(f"{done.stderr.strip()[-500:] or words[0]} (exit {done.returncode})")
    said = json.loads(done.stdout.splitlines()[-1])
    if not isinstance(said, dict):
        raise PeerError(f"{words[0]} printed no JSON object")
    return said
