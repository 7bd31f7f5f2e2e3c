"""Who is connected, by any protocol, over HTTP: the list, one of them, and its end."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, urlsplit

import boto3
import pika
import pytest
from confluent_kafka.admin import AdminClient
from tests.http.v1.asking import V1, assert_problem
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from headrace.testing import HeadraceServer, wait_until


@pytest.fixture(scope="module")
def server() -> Iterator[HeadraceServer]:
    with HeadraceServer() as started:
        yield started


@pytest.fixture
def v1(server: HeadraceServer) -> V1:
    return V1(server)


def listed(v1: V1, **query: str) -> list[dict[str, Any]]:
    asked = "&".join(f"{name}={quote(value)}" for name, value in query.items())
    found: list[dict[str, Any]] = v1.get(f"/v1/connections?{asked}")["connections"]
    return found


@contextmanager
def kafka(server: HeadraceServer, client_id: str) -> Iterator[socket.socket]:
    """A connection that has asked for Metadata version 0 under this name."""
    host, _, port = server.kafka.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=10) as opened:
        name = client_id.encode()
        request = b"\0\x03\0\0\0\0\0\x01" + len(name).to_bytes(2, "big") + name + b"\0\0\0\0"
        opened.sendall(len(request).to_bytes(4, "big") + request)
        assert opened.recv(4)
        yield opened


@contextmanager
def amqp(server: HeadraceServer, name: str) -> Iterator[pika.BlockingConnection]:
    parameters = pika.URLParameters(server.amqp)
    parameters.client_properties = {"connection_name": name}
    connection = pika.BlockingConnection(parameters)
    try:
        yield connection
    finally:
        if connection.is_open:
            connection.close()


def silent(v1: V1) -> socket.socket:
    """A connection of HTTP that has asked for something, and says nothing more."""
    connection = v1.connect()
    connection.request("GET", "/health")
    assert connection.getresponse().read()
    assert connection.sock is not None
    return connection.sock


def test_a_client_of_each_protocol_is_listed_with_what_is_known_about_it(server: HeadraceServer, v1: V1) -> None:
    kinesis = boto3.client(
        "kinesis", endpoint_url=server.listeners["kinesis"], region_name="us-east-1", aws_access_key_id="111122223333",
        aws_secret_access_key="s",
    )  # fmt: skip
    kinesis.list_streams()
    url = server.http.replace("http", "ws") + "/v1/socket"
    before_ms = time.time() * 1000
    with kafka(server, "reader-7") as raw, amqp(server, "billing") as connection, connect(url, user_agent_header="page/1"):
        connection.channel()
        found = {each["protocol"]: each for each in listed(v1)}
        assert sorted(found) == ["amqp", "http", "kafka", "kinesis", "websocket"]
        mine = "{}:{}".format(*raw.getsockname())
        of_kafka = found["kafka"]
        assert (of_kafka["id"], of_kafka["peer"], of_kafka["client_id"]) == (f"kafka:{mine}", mine, "reader-7")
        assert of_kafka["received_bytes"] == 4 + 18 + 4  # the kernel's count
        assert of_kafka["sent_bytes"] > 20
        assert (of_kafka["state"], of_kafka["user"], of_kafka["channels"]) == ("running", "", None)
        assert of_kafka["requests"] == 1
        of_amqp = found["amqp"]
        assert (of_amqp["client_id"], of_amqp["user"], of_amqp["vhost"], of_amqp["channels"]) == ("billing", "guest", "/", 1)
        assert of_amqp["client"].startswith("Pika Python Client Library")
        assert (found["kinesis"]["user"], found["kinesis"]["state"]) == ("111122223333", "idle")
        assert found["kinesis"]["client"].startswith("Boto3/")
        assert (found["websocket"]["client"], found["websocket"]["user"]) == ("page/1", "guest")
        assert (found["http"]["requests"], found["http"]["version"], found["http"]["user"]) == (1, "HTTP/1.1", "guest")
        assert all(before_ms - 5000 < each["since_ms"] <= time.time() * 1000 + 1000 for each in found.values())
        answer = v1.get("/v1/connections?protocol=kafka")
        assert [each["id"] for each in answer["connections"]] == [f"kafka:{mine}"]
        assert answer["protocols"]["amqp"] == 1, "counted whatever was asked for"
        assert v1.get("/v1/connections/" + quote(f"kafka:{mine}", safe=""))["client_id"] == "reader-7"


def test_requests_of_kafka_are_counted_one_by_one(server: HeadraceServer, v1: V1) -> None:
    with kafka(server, "counted") as raw:
        request = b"\0\x03\0\0\0\0\0\x01" + b"\0\x07counted" + b"\0\0\0\0"
        framed = len(request).to_bytes(4, "big") + request
        raw.sendall(framed * 3 + framed[:10])
        wait_until(lambda: listed(v1, text="counted")[0]["requests"] == 4)
        raw.sendall(framed[10:])
        wait_until(lambda: listed(v1, text="counted")[0]["requests"] == 5)


def test_channels_are_shown_with_their_connection(server: HeadraceServer, v1: V1) -> None:
    with amqp(server, "with channels") as connection:
        first, second = connection.channel(), connection.channel(7)
        first.confirm_delivery()
        first.queue_declare("shown-channels", exclusive=True)
        for number in range(3):
            first.basic_publish("", "shown-channels", str(number).encode())
        second.basic_qos(prefetch_count=2)
        got: list[bytes] = []
        second.basic_consume("shown-channels", lambda *delivery: got.append(delivery[3]))
        wait_until(lambda: (connection.process_data_events(0.05), len(got) == 2)[1], timeout_s=30)
        second.basic_ack(1)
        wait_until(lambda: (connection.process_data_events(0.05), len(got) == 3)[1], timeout_s=30)
        (found,) = listed(v1, text="with channels")
        assert "channel_list" not in found
        one = v1.get("/v1/connections/" + quote(found["id"], safe=""))
        assert one["channels"] == 2
        assert one["channel_list"] == [
            {"number": 1, "mode": "confirms", "consumers": 0, "prefetch": 0, "global_prefetch": 0, "unacked": 0,
             "unconfirmed": 0, "published": 3, "delivered": 0, "acknowledged": 0},
            {"number": 7, "mode": "", "consumers": 1, "prefetch": 2, "global_prefetch": 0, "unacked": 2,
             "unconfirmed": 0, "published": 0, "delivered": 3, "acknowledged": 1},
        ]  # fmt: skip
        (with_channels,) = listed(v1, text="with channels", channels="true")
        assert with_channels["channel_list"] == one["channel_list"]


def test_connections_are_found_by_text_and_by_pattern_and_come_in_parts(server: HeadraceServer, v1: V1) -> None:
    with kafka(server, "zebra-1"), kafka(server, "zebra-2"), kafka(server, "lion"):
        assert sorted(each["client_id"] for each in listed(v1, text="ZEBRA")) == ["zebra-1", "zebra-2"]
        first = v1.get("/v1/connections?pattern=kafka:*&limit=2")
        rest = v1.get(f"/v1/connections?pattern=kafka:*&limit=2&after={quote(first['next'])}")
        ids = [each["id"] for each in first["connections"] + rest["connections"]]
        assert (len(ids), ids, rest["next"]) == (3, sorted(ids), None)


def test_a_closed_client_of_each_protocol_sees_its_end(server: HeadraceServer, v1: V1) -> None:
    url = server.http.replace("http", "ws") + "/v1/socket"
    with kafka(server, "k") as raw, amqp(server, "a") as connection, connect(url) as socket_, silent(v1) as idle:
        for protocol in ("kafka", "amqp", "websocket"):
            (found,) = listed(v1, protocol=protocol)
            path = "/v1/connections/" + quote(found["id"], safe="")
            assert v1.ask("DELETE", path, headers={"X-Reason": "enough"}).status == 204
        (found,) = [each for each in listed(v1, protocol="http") if each["peer"] == "{}:{}".format(*idle.getsockname())]
        assert v1.ask("DELETE", "/v1/connections/" + quote(found["id"], safe="")).status == 204
        raw.settimeout(10)
        while raw.recv(65536):
            pass
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="enough"):
            connection.process_data_events(time_limit=10)
        with pytest.raises(ConnectionClosed) as closed:
            socket_.recv(timeout=10)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1008
        idle.settimeout(10)
        with pytest.raises(ConnectionResetError):
            idle.recv(1)
    wait_until(lambda: not listed(v1, protocol="kafka"))
    assert_problem(v1.ask("DELETE", path), 404, "unknown_connection")


def test_who_does_not_monitor_sees_and_closes_their_own(server: HeadraceServer, v1: V1) -> None:
    for name, tags in (("mona", "monitoring"), ("carl", "management")):
        assert v1.ask("PUT", f"/api/users/{name}", {"password": "x", "tags": tags}, user="guest:guest").status in (201, 204)
        rights = {"configure": ".*", "write": ".*", "read": ".*"}
        v1.ask("PUT", f"/api/permissions/%2F/{name}", rights, user="guest:guest")
    with amqp(server, "of guest"), kafka(server, "nobody's"):
        seen = v1.ask("GET", "/v1/connections", user="carl:x").body["connections"]
        assert [each["user"] for each in seen] == ["carl"]
        (other,) = v1.ask("GET", "/v1/connections?protocol=amqp", user="mona:x").body["connections"]
        path = "/v1/connections/" + quote(other["id"], safe="")
        assert_problem(v1.ask("DELETE", path, user="mona:x"), 403, "forbidden")
        assert_problem(v1.ask("DELETE", path, user="carl:x"), 404, "unknown_connection")
        assert len(listed(v1, protocol="amqp")) == 1


def test_a_protocol_that_is_none_is_refused(v1: V1) -> None:
    assert_problem(v1.ask("GET", "/v1/connections?protocol=smtp"), 400, "invalid_parameter", "kafka")
    assert_problem(v1.ask("GET", "/v1/connections/kafka:1.2.3.4:5"), 404, "unknown_connection")


def test_what_a_client_says_of_itself_is_shown_as_it_is_and_cut(server: HeadraceServer, v1: V1) -> None:
    address = urlsplit(server.http)
    with socket.create_connection((address.hostname, address.port)) as opened:
        agent = b"<script>" + b"x" * 4000
        opened.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nUser-Agent: %b\r\n\r\n" % agent)
        assert opened.recv(1000).startswith(b"HTTP/1.1 200")
        (found,) = listed(v1, text="<script>")
        assert found["client"] == agent[:200].decode()


def test_librdkafka_tells_its_name(server: HeadraceServer, v1: V1) -> None:
    client = AdminClient({"bootstrap.servers": server.kafka, "client.id": "tester"})
    client.list_topics(timeout=10)

    def there() -> bool:
        return any("rdkafka" in each["client"] and each["client_id"] == "tester" for each in listed(v1, protocol="kafka"))

    wait_until(there)  # of its connections the last one may have said nothing yet
