import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.client.kafka.address import Address
from headrace.client.kafka.connection import Connection
from headrace.client.kafka.errors import (
    ClientError,
    Disconnected,
    ProtocolViolation,
    TimedOut,
    Unreachable,
    Unsupported,
)
from headrace.kafka.messages.fetch import FetchRequest
from headrace.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse


def soon() -> float:
    return time.monotonic() + 10


def connect(broker: Any, timeout_s: float = 10) -> Connection:
    return Connection(Address("127.0.0.1", broker.port), timeout_s)


@contextmanager
def blurting(data: bytes) -> Iterator[Address]:
    """A server that sends the same bytes to everyone and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    link, _ = listener.accept()
                except OSError:
                    return
                with link:
                    link.recv(65536)
                    link.sendall(data)

        threading.Thread(target=serve, daemon=True).start()
        yield Address("127.0.0.1", listener.getsockname()[1])


def test_the_newest_version_that_both_sides_speak_is_used(make_broker: Callable[..., Any]) -> None:
    broker = make_broker(versions={18: (0, 4), 3: (0, 5), 1: (4, 99)})
    connection = connect(broker)
    assert connection.version_of(MetadataRequest) == 5
    assert connection.version_of(FetchRequest) == FetchRequest.versions[1]
    assert connection.version_of(FetchRequest, newest=12) == 12


@pytest.mark.parametrize("highest", [0, 1, 2, 3])
def test_an_old_server_that_refuses_our_apiversions_is_asked_in_its_own_version(
    make_broker: Callable[..., Any], highest: int
) -> None:
    broker = make_broker(versions={18: (0, highest), 3: (0, 1)})
    connection = connect(broker)
    assert connection.call(MetadataRequest(topics=[]), MetadataResponse, soon()).cluster_id is None  # v1 has none


def test_a_request_that_the_server_does_not_know_is_named_in_the_error(make_broker: Callable[..., Any]) -> None:
    connection = connect(make_broker(versions={18: (0, 4), 1: (90, 99)}))
    with pytest.raises(Unsupported, match="does not support Metadata"):
        connection.version_of(MetadataRequest)
    with pytest.raises(Unsupported, match="speaks Fetch in versions 90 to 99"):
        connection.version_of(FetchRequest)


def test_answers_are_matched_with_requests_that_overlap(broker: Any) -> None:
    connection = connect(broker)
    first = connection.send(MetadataRequest(topics=None), soon())
    second = connection.send(MetadataRequest(topics=[MetadataRequestTopic(name="nope")]), soon())
    assert [t.error_code for t in connection.receive(first, MetadataResponse, soon()).topics] == [0]
    assert [t.error_code for t in connection.receive(second, MetadataResponse, soon()).topics] == [3]


def test_nobody_listening_is_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(Unreachable, match="connection refused"):
        Connection(Address("127.0.0.1", port), 5)


def test_an_http_server_is_told_apart() -> None:
    with blurting(b"HTTP/1.1 400 Bad Request\r\n\r\n") as address, pytest.raises(ProtocolViolation, match="does not speak"):
        Connection(address, 5)


def test_a_server_that_hangs_up_in_the_middle_is_a_broken_connection(broker: Any, hang_up: Any) -> None:
    broker.on(MetadataRequest, lambda _: hang_up)
    connection = connect(broker)
    with pytest.raises(Disconnected, match="closed the connection during Metadata"):
        connection.call(MetadataRequest(), MetadataResponse, soon())
    assert connection.closed


def test_no_answer_in_time_closes_the_connection(broker: Any) -> None:
    broker.on(MetadataRequest, lambda _: None)
    connection = connect(broker)
    with pytest.raises(TimedOut, match="did not answer Metadata"):
        connection.call(MetadataRequest(), MetadataResponse, time.monotonic() + 0.05)
    assert connection.closed


def test_an_answer_to_something_else_is_refused(broker: Any) -> None:
    broker.on(MetadataRequest, lambda _: (8).to_bytes(4, "big") + (12345).to_bytes(4, "big") + bytes(4))
    with pytest.raises(ProtocolViolation, match="the answer to something else"):
        connect(broker).call(MetadataRequest(), MetadataResponse, soon())


def test_what_a_request_cannot_carry_is_an_error_before_anything_is_sent(broker: Any) -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="x" * 40_000)])
    with pytest.raises(ClientError, match="Metadata can't carry"):
        connect(broker).call(request, MetadataResponse, soon())


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200))
def test_whatever_a_server_answers_the_error_has_a_name(broker: Any, data: bytes) -> None:
    """Behind a right length and correlation id, so that the bytes reach the decoder."""

    def answer(_: MetadataRequest) -> bytes:
        body = (2).to_bytes(4, "big") + data
        return len(body).to_bytes(4, "big") + body

    broker.on(MetadataRequest, answer)
    connection = connect(broker)
    try:
        connection.call(MetadataRequest(topics=[]), MetadataResponse, soon())
    except ClientError:
        pass
    finally:
        connection.close()


@settings(max_examples=30, deadline=None)
@given(st.binary(min_size=1, max_size=100))
def test_whatever_bytes_come_first_the_error_has_a_name(data: bytes) -> None:
    with blurting(data) as address, pytest.raises(ClientError):
        Connection(address, 5)
