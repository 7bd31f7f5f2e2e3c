"""/metrics over a real socket: what Prometheus reads, and that others are served while it is written."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from prometheus_client.parser import text_string_to_metric_families

from headrace.broker import Broker
from headrace.broker.settings import Settings
from headrace.clock import SystemClock
from headrace.disk.real import RealDisk
from headrace.http import collecting
from headrace.kafka.listener import KafkaListener
from headrace.log.embedded import EmbeddedLog
from headrace.short_turns import ShortTurns
from headrace.testing import wait_until


def get(server: Any, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(server.http + path, timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(text: str, name: str, **labels: str) -> float | None:
    wanted = set(labels.items())
    found = [number for (which, given), number in samples(text).items() if which == name and wanted <= set(given)]
    assert len(found) <= 1, (name, labels)
    return found[0] if found else None


@pytest.fixture
def used(headrace_server: Any) -> tuple[Any, str]:
    """A server with a topic of 10 records, of which a group has read 4."""
    address = {"bootstrap.servers": headrace_server.kafka}
    admin = AdminClient(address)
    admin.create_topics([NewTopic("orders", 2, 1)])["orders"].result(15)
    producer = Producer(address)
    for number in range(10):
        producer.produce("orders", f"{number}", partition=1)
    assert producer.flush(15) == 0
    consumer = Consumer({**address, "group.id": "billing", "enable.auto.commit": False})
    consumer.assign([TopicPartition("orders", 1, 0)])
    wait_until(lambda: consumer.poll(0.1) is not None, what="a record")
    consumer.commit(offsets=[TopicPartition("orders", 1, 4)], asynchronous=False)
    consumer.close()
    return headrace_server, "orders"


def test_requests_are_timed_by_protocol_and_kind(used: tuple[Any, str]) -> None:
    server, _ = used
    _, text = get(server, "/metrics")
    for api in ("Produce", "Fetch", "Metadata", "OffsetCommit", "CreateTopics"):
        count = value(text, "headrace_request_seconds_count", protocol="kafka", api=api)
        assert count is not None, api
        assert count >= 1
        assert value(text, "headrace_request_seconds_bucket", protocol="kafka", api=api, le="+Inf") == count


def test_connections_of_the_web_server_are_counted(used: tuple[Any, str]) -> None:
    server, _ = used
    _, text = get(server, "/metrics")
    assert (value(text, "headrace_connections", protocol="http") or 0) >= 1
    assert (value(text, "headrace_connections_total", protocol="http") or 0) >= 1
    assert value(text, "headrace_connections_refused_total", protocol="http") == 0


def test_how_late_the_event_loop_comes_is_told(used: tuple[Any, str]) -> None:
    server, _ = used
    wait_until(lambda: value(get(server, "/metrics")[1], "headrace_event_loop_delay_seconds_count") or 0 > 0, what="a look")


def test_lag_offsets_sizes_and_traffic_are_told(used: tuple[Any, str]) -> None:
    server, topic = used
    status, text = get(server, "/metrics")
    assert status == 200
    assert value(text, "headrace_group_lag", group="billing", topic=topic, partition="1") == 6
    assert value(text, "headrace_group_committed_offset", group="billing", topic=topic, partition="1") == 4
    assert value(text, "headrace_group_members", group="billing", type="classic", state="Empty") == 0
    assert value(text, "headrace_partition_high_watermark", topic=topic, partition="1") == 10
    assert value(text, "headrace_partition_end_offset", topic=topic, partition="0") == 0
    size = value(text, "headrace_partition_size_bytes", topic=topic, partition="1")
    assert size
    assert value(text, "headrace_topic_bytes_in_total", topic=topic, protocol="kafka") == size
    assert (value(text, "headrace_topic_bytes_out_total", topic=topic, protocol="kafka") or 0) >= size
    assert (value(text, "headrace_connections_total", protocol="kafka") or 0) >= 2
    assert value(text, "headrace_writes_refused") == 0
    assert (value(text, "headrace_sync_seconds_count") or 0) > 0
    assert (value(text, "headrace_disk_usable_bytes") or 0) > 0
    assert (value(text, "process_resident_memory_bytes") or 0) > 0
    assert "__headrace_" not in text  # our own tables are nobody's business


def test_what_a_deleted_topic_left_is_gone(used: tuple[Any, str]) -> None:
    server, topic = used
    admin = AdminClient({"bootstrap.servers": server.kafka})
    admin.delete_topics([topic])[topic].result(15)
    wait_until(lambda: topic not in get(server, "/metrics")[1], what="the topic to be forgotten")


def test_health_readiness_and_nothing_else(headrace_server: Any) -> None:
    assert get(headrace_server, "/health") == (200, '{"status":"ok"}')
    assert get(headrace_server, "/ready") == (200, '{"status":"ready"}')
    assert get(headrace_server, "/healthz") == (200, '{"status":"ok"}')
    assert get(headrace_server, "/readyz") == (200, '{"status":"ready"}')
    assert get(headrace_server, "/nothing")[0] == 404


def test_a_server_stops_cleanly_with_an_open_http_connection(headrace_server: Any) -> None:
    host, port = headrace_server.http.removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=20)
    connection.request("GET", "/health")
    assert connection.getresponse().read()
    headrace_server.stop()
    connection.close()


def serve(folder: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "headrace", "serve", "--data", str(folder), "--kafka", "127.0.0.1:0", "--json", *arguments]


def test_a_taken_default_port_gives_way_and_one_that_was_asked_for_does_not(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections of before may still be ending there
        with contextlib.suppress(OSError):
            taken.bind(("127.0.0.1", 8080))
            taken.listen()
        with subprocess.Popen(serve(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as running:
            assert running.stdout is not None
            address = json.loads(running.stdout.readline())["http"]
            asked = subprocess.run(serve(tmp_path / "b", "--http", address.removeprefix("http://")), capture_output=True)
            running.terminate()
    assert not address.endswith(":8080")
    assert (asked.returncode, b"already in use" in asked.stderr) == (2, True)


def test_an_address_that_others_can_reach_is_refused(tmp_path: Path) -> None:
    asked = subprocess.run(serve(tmp_path, "--http", "0.0.0.0:0"), capture_output=True)
    assert (asked.returncode, b"no authentication" in asked.stderr) == (2, True)


def test_gathering_lets_others_run() -> None:
    async def scenario() -> None:
        with tempfile.TemporaryDirectory() as folder:
            log = EmbeddedLog.open(RealDisk(Path(folder)), SystemClock(), defaults={}, folder=folder)
            broker = Broker(log, SystemClock(), Settings(), "cluster")
            await broker.start()
            KafkaListener(broker)
            await log.create_topic("wide", 50)
            turns = 0

            async def others() -> None:
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0)

            running = asyncio.create_task(others())
            families = await collecting.collect(broker, ShortTurns(0.0))
            running.cancel()
            assert turns >= 50
            assert any(family.name == "headrace_partition_size_bytes" and len(family.samples) >= 50 for family in families)
            broker.close()
            await log.close()

    asyncio.run(scenario())


def test_bytes_that_are_no_http_harm_nobody(headrace_server: Any) -> None:
    host, port = headrace_server.http.removeprefix("http://").split(":")
    half = socket.create_connection((host, int(port)), timeout=20)
    half.sendall(b"GET /metrics HTTP/1.1\r\nx: ")  # and nothing more
    for nonsense in (b"\0" * 1000, b"\x16\x03\x01\x02\x00", b"GET / HTTP/9.9\r\n\r\n", b"a: " * 100_000):
        with (
            socket.create_connection((host, int(port)), timeout=20) as link,
            contextlib.suppress(OSError),
        ):  # it may be closed by now
            link.sendall(nonsense)
            link.shutdown(socket.SHUT_WR)
            while link.recv(65536):
                pass
    assert get(headrace_server, "/health")[0] == 200
    half.close()
