"""The servers that are compared: Headrace and a real Apache Kafka 4.3.1, each as one process on loopback.

    with start_kafka(folder, overrides={"log.flush.interval.messages": 1}) as server:
        ... server.bootstrap, server.pid, server.cpu_seconds(), server.rss_bytes() ...

Kafka runs as its own start script would run it: KRaft with broker and controller in one process, the script's heap and
garbage-collector flags, and the settings of its packaged `server.properties`. Its jars come through Maven, once, into
`$HEADRACE_CACHE` (default `~/.cache/headrace`); `$KAFKA_LIBS` names a folder that already holds them.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

KAFKA_VERSION = "4.3.1"
HERE = Path(__file__).resolve().parent
CLOCK_TICKS_PER_S = os.sysconf("SC_CLK_TCK")

# bin/kafka-server-start.sh and bin/kafka-run-class.sh
STOCK_JVM = (
    "-Xmx1G",
    "-Xms1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
SMALL_JVM = ("-Xmx256m", "-Xms64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")

LOG4J = """Configuration:
  status: error
  Appenders: {Console: {name: C, target: SYSTEM_OUT, PatternLayout: {pattern: "[%d] %p %m (%c)%n"}}}
  Loggers: {Root: {level: WARN, AppenderRef: [{ref: C}]}}
"""


class PeerError(Exception):
    """A server could not be prepared or started; the message says why."""


@dataclass(slots=True)
class Server:
    """A running server. Leaving its context stops it; it is never left behind."""

    name: str
    host: str
    port: int
    process: subprocess.Popen[bytes]
    folder: Path
    output: Path
    spawned_at: float  # time.perf_counter()
    amqp_port: int = field(default=0, kw_only=True)  # 0: it does not speak AMQP
    http_port: int = field(default=0, kw_only=True)  # 0: it does not speak HTTP

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int:
        return self.process.pid

    def cpu_seconds(self) -> float:
        """User and system time of the whole process so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(") ", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS_PER_S

    def rss_bytes(self) -> int:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise PeerError(f"{self.name} ended: see {self.output}")

    def open_files(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def stop(self, deadline_s: float = 30) -> None:
        """Asks it to end, and kills it if it does not."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(deadline_s)
            except subprocess.TimeoutExpired:
                self.kill()
        if self.process.stdout is not None:
            self.process.stdout.close()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()


# --- Headrace ---


def headrace_command(folder: Path, *, durability: str, host: str, port: int, arguments: Sequence[str] = ()) -> list[str]:
    serve = [sys.executable, "-m", "headrace", "serve", "--data", str(folder), "--kafka", f"{host}:{port}"]
    return [*serve, "--durability", durability, "--json", "--no-console", *arguments]


def start_headrace(
    folder: Path,
    *,
    durability: str = "fsync",
    port: int = 0,
    arguments: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    wait: bool = True,
    deadline_s: float = 30,
) -> Server:
    """Starts Headrace on `folder` (kept between starts). Without `wait` the port must be given, and nothing says when
    it is ready."""
    host = "127.0.0.1"
    folder.mkdir(parents=True, exist_ok=True)
    output = folder.with_name(folder.name + ".log")
    command = headrace_command(folder, durability=durability, host=host, port=port, arguments=arguments)
    with output.open("ab") as log:
        spawned_at = time.perf_counter()
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE if wait else log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            env=dict(os.environ) | dict(environment or {}),
            start_new_session=True,
        )
    server = Server("Headrace", host, port, process, folder, output, spawned_at)
    if wait:
        try:
            said = _ready_line(server, deadline_s)
            server.port = _port_in(said["kafka"])
            server.amqp_port = _port_in(said["amqp"]) if said.get("amqp") else 0
            server.http_port = _port_in(said["http"]) if said.get("http") else 0
        except BaseException:
            server.stop()
            raise
    return server


def _port_in(address: object) -> int:
    """Of HOST:PORT, or of a URL that ends with it."""
    return int(str(address).rstrip("/").rsplit(":", 1)[1])


def _ready_line(server: Server, deadline_s: float) -> dict[str, object]:
    stream = server.process.stdout
    assert stream is not None
    os.set_blocking(stream.fileno(), False)
    end, seen = time.monotonic() + deadline_s, b""
    while time.monotonic() < end:
        seen += stream.read() or b""
        for line in seen.splitlines(keepends=True):
            with contextlib.suppress(json.JSONDecodeError):
                said = json.loads(line)
                if isinstance(said, dict) and said.get("ready"):
                    return said
        if server.process.poll() is not None:
            raise PeerError(f"Headrace ended with {server.process.returncode}: see {server.output}")
        time.sleep(0.005)
    raise PeerError(f"Headrace was not ready after {deadline_s:.0f} s: see {server.output}")


# --- Apache Kafka ---


def kafka_libs() -> Path:
    """The folder with Kafka's jars, fetched through Maven the first time."""
    if named := os.environ.get("KAFKA_LIBS"):
        return Path(named)
    return fetched_jars(HERE / "kafka-pom.xml", f"kafka-{KAFKA_VERSION}", "KAFKA_LIBS")


def fetched_jars(pom: Path, name: str, instead: str) -> Path:
    """The folder `name` in the cache with everything a pom depends on, fetched through Maven the first time. `instead` is the
    variable that names a folder to use in its place."""
    cache = Path(os.environ.get("HEADRACE_CACHE", Path.home() / ".cache" / "headrace"))
    libs = cache / name
    if libs.is_dir():
        return libs
    if shutil.which("mvn") is None:
        raise PeerError(f"Maven is needed once to fetch {name}; or set {instead} to a folder with its jars")
    print(f"fetching {name} into {libs} ...", file=sys.stderr)
    partial = cache / f".{name}.{os.getpid()}"
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={partial}", "-DincludeScope=runtime"]
    done = subprocess.run(["mvn", "-q", "-B", "-f", str(pom), *goal], capture_output=True, text=True)
    if done.returncode:
        shutil.rmtree(partial, ignore_errors=True)
        raise PeerError(f"Maven could not fetch {name}: {(done.stdout + done.stderr).strip()[-500:]}")
    with contextlib.suppress(OSError):  # another process may have been quicker
        partial.rename(libs)
    shutil.rmtree(partial, ignore_errors=True)
    return libs


def kafka_java(main: str, *arguments: str, jvm: Sequence[str] = ()) -> list[str]:
    """The command line of one of Kafka's own programs."""
    if shutil.which("java") is None:
        raise PeerError("Java 17 or newer is needed to run Apache Kafka")
    return ["java", *jvm, "-cp", f"{kafka_libs()}/*", main, *arguments]


def kafka_settings(folder: Path, host: str, port: int, controller_port: int) -> dict[str, object]:
    """The packaged config/server.properties, on loopback and in `folder`."""
    return {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@{host}:{controller_port}",
        "listeners": f"PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller_port}",
        "inter.broker.listener.name": "PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "num.network.threads": 3,
        "num.io.threads": 8,
        "socket.send.buffer.bytes": 102400,
        "socket.receive.buffer.bytes": 102400,
        "socket.request.max.bytes": 104857600,
        "log.dirs": folder / "data",
        "num.partitions": 1,
        "num.recovery.threads.per.data.dir": 2,
        "offsets.topic.replication.factor": 1,
        "share.coordinator.state.topic.replication.factor": 1,
        "share.coordinator.state.topic.min.isr": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "log.retention.hours": 168,
        "log.segment.bytes": 1073741824,
        "log.retention.check.interval.ms": 300000,
    }


def start_kafka(
    folder: Path,
    *,
    port: int = 0,
    overrides: Mapping[str, object] | None = None,
    jvm: Sequence[str] = STOCK_JVM,
    wait: bool = True,
    deadline_s: float = 120,
) -> Server:
    """Starts Kafka on `folder` (kept between starts, formatted the first time). It is ready when it answers."""
    host = "127.0.0.1"
    folder.mkdir(parents=True, exist_ok=True)
    properties, log4j, output = folder / "server.properties", folder / "log4j2.yaml", folder / "output.log"
    port = port or free_port()
    settings = kafka_settings(folder, host, port, free_port()) | dict(overrides or {})
    properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    log4j.write_text(LOG4J)
    logging = f"-Dlog4j2.configurationFile={log4j}"
    if not (folder / "data" / "meta.properties").exists():
        _format_storage(properties, logging)
    command = kafka_java("kafka.Kafka", str(properties), jvm=[*jvm, logging])
    with output.open("ab") as log:
        spawned_at = time.perf_counter()
        process = subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True
        )
    server = Server("Kafka", host, port, process, folder, output, spawned_at)
    if wait:
        try:
            _wait_for_answer(server, deadline_s)
        except BaseException:
            server.stop()
            raise
    return server


def _format_storage(properties: Path, logging: str) -> None:
    cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "a")
    command = kafka_java(
        "kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(properties), jvm=[*SMALL_JVM, logging]
    )
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise PeerError(f"kafka-storage format failed: {(done.stdout + done.stderr).strip()[-500:]}")


def _wait_for_answer(server: Server, deadline_s: float) -> None:
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        if server.process.poll() is not None:
            raise PeerError(f"{server.name} ended with {server.process.returncode}: see {server.output}")
        with contextlib.suppress(OSError):
            if _registered_brokers(server.host, server.port):
                return
        time.sleep(0.05)
    raise PeerError(f"{server.name} was not ready after {deadline_s:.0f} s: see {server.output}")


def _registered_brokers(host: str, port: int) -> int:
    """How many brokers a Metadata v1 request for no topics finds: none while KRaft has not let the broker in."""
    request = b"\x00\x03\x00\x01\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00"
    with socket.create_connection((host, port), 2) as link:
        link.sendall(len(request).to_bytes(4, "big") + request)
        answer = b""
        while len(answer) < 12:
            more = link.recv(4096)
            if not more:
                raise ConnectionError("closed before the answer")
            answer += more
    return int.from_bytes(answer[8:12], "big")


def free_port() -> int:
    """A port nobody listens on at this moment, and that the kernel gives to nobody who connects: who asks again and again
    whether a server is there yet would otherwise get that very port one day, be connected with himself, and keep the server
    from listening."""
    first_given = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    for port in random.sample(range(first_given // 2, first_given), 100):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise PeerError("no free port was found")
