"""`HeadraceServer`: what tests rely on when they start, crash and restart a server."""

from __future__ import annotations

import gc
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from headrace.testing import HeadraceServer, ServerFailed, wait_until

QUIET = {"log_level": 2}


def pretend(code: str, **options: object) -> HeadraceServer:
    """A HeadraceServer whose program is this code."""
    return HeadraceServer(command=[sys.executable, "-c", code], **options)  # type: ignore[arg-type]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1][0] != "Z"
    except FileNotFoundError:
        return False


def write(server: HeadraceServer, *values: bytes) -> None:
    producer = Producer({"bootstrap.servers": server.kafka, **QUIET})
    for value in values:
        producer.produce("t", value, partition=0)
    assert producer.flush(20) == 0


def read(server: HeadraceServer, count: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": server.kafka, "group.id": "g", **QUIET})
    consumer.assign([TopicPartition("t", 0, 0)])
    messages = consumer.consume(count, 20)
    consumer.close()
    return [message.value() for message in messages]


def test_it_is_ready_when_start_returns_and_clean_when_it_stops():
    server = HeadraceServer()
    server.start()
    host, port = server.kafka.split(":")
    socket.create_connection((host, int(port)), 5).close()
    assert server.ready_line["ready"] is True
    assert server.address("kafka") == server.kafka
    assert server.memory_bytes() > 0
    pid = server.pid
    server.stop()
    assert not server.running
    assert not is_alive(pid)
    assert server.data.exists()
    server.close()
    assert not server.data.exists()


def test_acknowledged_records_survive_a_crash_and_clients_reconnect_to_the_same_port(tmp_path):
    with HeadraceServer(tmp_path / "data") as server:
        address, pid = server.kafka, server.pid
        write(server, b"1", b"2")
        server.crash()
        assert not is_alive(pid)
        server.restart()
        assert server.kafka == address
        assert server.pid != pid
        write(server, b"3")
        assert read(server, 3) == [b"1", b"2", b"3"]


def test_restart_stops_a_running_server_first_and_takes_settings():
    with HeadraceServer(settings={"num.partitions": 2}) as server:
        assert partitions_of_a_new_topic(server, "one") == 2
        server.restart(num_partitions=5)
        assert partitions_of_a_new_topic(server, "two") == 5


def partitions_of_a_new_topic(server: HeadraceServer, topic: str) -> int:
    producer = Producer({"bootstrap.servers": server.kafka, **QUIET})
    producer.produce(topic, b"x")
    assert producer.flush(20) == 0
    return len(producer.list_topics(topic, 20).topics[topic].partitions)


def test_two_servers_on_one_folder_are_refused_with_the_reason(tmp_path):
    with HeadraceServer(tmp_path), pytest.raises(ServerFailed, match="before it was ready") as refused:
        HeadraceServer(tmp_path).start()
    assert str(tmp_path) in str(refused.value)


def test_a_port_that_somebody_else_took_is_named_in_the_failure():
    with HeadraceServer() as server:
        server.crash()
        host, port = server.kafka.split(":")
        with socket.create_server((host, int(port))), pytest.raises(ServerFailed, match="Address already in use"):
            server.restart()
        server.restart()


def test_a_relaxed_server_says_so():
    with HeadraceServer(durability="memory") as server:
        assert "memory" in server.log_text()


def test_a_server_that_ends_at_once_is_explained_by_its_own_words():
    with pytest.raises(ServerFailed, match="exit code 3 before it was ready") as failure:
        pretend("import sys; sys.exit(print('the disk is on fire', file=sys.stderr) or 3)").start()
    assert "the disk is on fire" in str(failure.value)


def test_a_server_that_never_gets_ready_is_killed():
    server = pretend("import time; time.sleep(600)", ready_timeout_s=0.3)
    with pytest.raises(ServerFailed, match=r"not ready after 0\.3 s"):
        server.start()
    assert not server.running


@pytest.mark.parametrize("line", ["hello", "[1]", '{"ready": false}'])
def test_a_server_that_says_something_else_is_not_ready(line):
    with pytest.raises(ServerFailed, match="in place of its ready line"):
        pretend(f"import time; print({line!r}, flush=True); time.sleep(600)").start()


READY = 'print(\'{"ready": true, "kafka": "127.0.0.1:1"}\', flush=True)'


def test_a_server_that_does_not_end_in_time_is_killed_and_told_on():
    code = f"import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); {READY}; time.sleep(600)"
    server = pretend(code, stop_timeout_s=0.3).start()
    pid = server.pid
    with pytest.raises(ServerFailed, match=r"did not end within 0\.3 s"):
        server.stop()
    assert not is_alive(pid)


def test_a_server_that_ended_by_itself_is_told_on():
    server = pretend(f"{READY}; raise SystemExit(0)").start()
    wait_until(lambda: not server.running, what="its end")
    with pytest.raises(ServerFailed, match="ended by itself with exit code 0"):
        server.stop()
    server.close()


def test_a_server_that_ends_badly_is_told_on():
    code = f"import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(9)); {READY}; time.sleep(600)"
    with pytest.raises(ServerFailed, match="exit code 9"):
        pretend(code).start().stop()


def test_every_listener_of_the_ready_line_has_its_address():
    line = '{"ready": true, "kafka": "127.0.0.1:1", "amqp": "amqp://127.0.0.1:2", "version": 3}'
    code = "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(0)); "
    with pretend(f"{code}print({line!r}, flush=True); time.sleep(600)") as server:
        assert server.listeners == {"kafka": "127.0.0.1:1", "amqp": "amqp://127.0.0.1:2"}
        with pytest.raises(KeyError, match="no listener 'mqtt'; there are: kafka, amqp"):
            server.address("mqtt")


def test_what_is_not_running_can_be_stopped_but_not_crashed():
    server = HeadraceServer()
    server.stop()
    with pytest.raises(ServerFailed, match="not running"):
        server.crash()
    with pytest.raises(ServerFailed, match="not running"):
        _ = server.pid
    server.close()


def test_a_forgotten_server_is_ended():
    server = HeadraceServer().start()
    pid, folder = server.pid, server.data.parent
    del server
    gc.collect()
    assert not is_alive(pid)
    assert not folder.exists()


def test_a_server_outlives_the_thread_that_started_it():
    servers: list[HeadraceServer] = []
    thread = threading.Thread(target=lambda: servers.append(HeadraceServer().start()))
    thread.start()
    thread.join()
    with servers[0] as server:
        write(server, b"1")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
def test_a_server_does_not_outlive_the_process_that_started_it(number, tmp_path):
    code = "from headrace.testing import HeadraceServer\ns = HeadraceServer().start()\nprint(s.pid, flush=True)\ninput()"
    parent = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "TMPDIR": str(tmp_path)},  # nobody is left to remove the server's folder
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert is_alive(pid)
    os.kill(parent.pid, number)
    parent.communicate()
    wait_until(lambda: not is_alive(pid), what="the server's end")


def test_wait_until_gives_the_result_or_says_what_it_waited_for():
    assert wait_until(lambda: 7) == 7
    with pytest.raises(AssertionError, match=r"waited 0.01 s for godot"):
        wait_until(lambda: None, timeout_s=0.01, what="godot")
