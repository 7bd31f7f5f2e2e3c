"""A whole server: what it must not connect to is refused and recorded, and never connected to; what the operator allows is."""

from __future__ import annotations

import base64
import json
import select
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from headrace import Event
from headrace.client.kafka import Cluster, Producer
from headrace.client.kafka.topics import create_topic
from headrace.testing import HeadraceServer, wait_until


def ask(server: HeadraceServer, method: str, path: str, body: object = None) -> tuple[int, Any]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{server.http}/v1{path}", data, method=method)
    request.add_header("Authorization", "Basic " + base64.b64encode(b"guest:guest").decode())
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def publish(server: HeadraceServer) -> None:
    cluster = Cluster(server.kafka)
    create_topic(cluster, "orders", partitions=1)
    producer = Producer(cluster)
    producer.send("orders", Event(None, b"{}"))
    producer.flush()


def put(server: HeadraceServer, route: str, url: str, **more: object) -> tuple[int, Any]:
    destination = {"type": "webhook", "url": url, "first_pause_s": 0.05, "longest_pause_s": 0.1, **more}
    return ask(server, "PUT", f"/routes/{route}", {"topic": "orders", "destination": destination})


def attempts(server: HeadraceServer, route: str) -> list[dict[str, Any]]:
    return ask(server, "GET", f"/routes/{route}/attempts")[1]["attempts"]


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    """On loopback, where nobody may come."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


def test_a_service_on_this_machine_can_not_be_reached_by_any_name_it_has(headrace_factory, listening):
    server = headrace_factory()
    port = listening.getsockname()[1]
    hosts = [
        "127.0.0.1",
        "localhost",
        "127.0.0.2",
        "0.0.0.0",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "foo.localhost",
    ]
    publish(server)
    for number, host in enumerate(hosts):
        status, answer = put(server, f"r{number}", f"http://{host}:{port}/")
        assert status == 201, answer
    for number, host in enumerate(hosts):
        first = wait_until(lambda number=number: attempts(server, f"r{number}"), what=f"an attempt at {host}")[-1]
        assert (first["kind"], first["status"], first["address"]) == ("refused", None, None)
        assert "headrace.webhooks.allow" in first["error"]
    assert select.select([listening], [], [], 0) == ([], [], [])  # nobody has tried to connect


@pytest.mark.parametrize("host", ["2130706433", "0x7f.1", "0177.0.0.1", "127.1", "169.254.169.254", "metadata.google.internal"])
def test_what_can_never_be_called_is_no_destination(headrace_shared_server, host):
    status, answer = put(headrace_shared_server, "never", f"http://{host}/latest/meta-data/")
    assert (status, answer["code"]) == (400, "invalid")
    assert answer["detail"].startswith("destination.url: ")


def test_what_the_operator_allows_is_reached_and_its_redirects_are_not(headrace_factory, listening):
    inside = f"http://127.0.0.1:{listening.getsockname()[1]}/"

    class Redirecting(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(307)
            self.send_header("location", inside)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Redirecting) as endpoint:
        threading.Thread(target=endpoint.serve_forever, daemon=True).start()
        port = endpoint.server_port
        server = headrace_factory(headrace_webhooks_allow=f"127.0.0.1:{port}")
        publish(server)
        put(server, "out", f"http://127.0.0.1:{port}/")
        first = wait_until(lambda: attempts(server, "out"), what="an attempt")[-1]
        assert (first["status"], first["address"], first["result"]) == (307, "127.0.0.1", "failed")
        put(server, "in", inside)
        assert wait_until(lambda: attempts(server, "in"), what="an attempt")[-1]["kind"] == "refused"
        endpoint.shutdown()
    assert select.select([listening], [], [], 0) == ([], [], [])
