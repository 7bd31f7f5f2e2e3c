"""What the client makes of servers that are not there, close too early, are something else, or have had enough."""

from __future__ import annotations

import select
import socket
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.client.kinesis import transport
from headrace.client.kinesis.errors import BadAddress, NotFound, NotKinesis, Refused, TimedOut, Unreachable
from headrace.client.kinesis.signing import Credentials
from headrace.client.kinesis.transport import Transport
from headrace.testing import free_port, wait_until

ANY = Credentials("any", "thing")


@pytest.fixture
def client(scripted: Any) -> Iterator[Transport]:
    made = Transport(scripted.url, ANY, region="eu-west-1", timeout_s=5)
    yield made
    made.close()


@pytest.fixture
def call(client: Transport) -> Callable[..., Any]:
    return lambda operation="ListStreams", **given: client.call(operation, given, what="the streams")


def test_a_call_names_the_operation_and_is_signed_for_the_region(scripted: Any, call: Callable[..., Any]) -> None:
    scripted.will_answer({"StreamNames": ["a"]})
    assert call(Limit=1) == {"StreamNames": ["a"]}
    target, given, authorization = scripted.asked[0]
    assert (target, given) == ("Kinesis_20131202.ListStreams", {"Limit": 1})
    assert authorization.startswith("AWS4-HMAC-SHA256 Credential=any/")
    assert "/eu-west-1/kinesis/aws4_request, SignedHeaders=content-type;host;x-amz-date;x-amz-target, " in authorization


def test_an_operation_without_an_answer_is_an_empty_one(scripted: Any, call: Callable[..., Any]) -> None:
    scripted.answers.append((200, b"", False))
    assert call("CreateStream") == {}


def test_a_connection_that_was_closed_while_idle_is_opened_again_also_for_a_put(
    scripted: Any, client: Transport, call: Callable[..., Any]
) -> None:
    scripted.will_answer({"n": 1}, close=True)
    scripted.will_answer({"n": 2})
    scripted.will_answer({"n": 3})
    assert call("PutRecords") == {"n": 1}
    assert client._connection is not None
    held = client._connection.sock
    wait_until(lambda: bool(select.select([held], [], [], 0)[0]), what="the server's close")
    assert [call("PutRecords")["n"] for _ in range(2)] == [2, 3]
    assert (scripted.connections, len(scripted.asked)) == (2, 3)


def test_errors_have_awss_name_and_the_servers_words(scripted: Any, call: Callable[..., Any]) -> None:
    scripted.will_answer({"__type": "com.amazonaws.kinesis#ResourceNotFoundException", "message": "no such\nthing."}, 400)
    with pytest.raises(NotFound, match=r"^the streams: no such thing \(ResourceNotFoundException\)$") as caught:
        call()
    assert (caught.value.code, caught.value.status) == ("ResourceNotFoundException", 400)
    scripted.will_answer({"__type": "InvalidArgumentException"}, 400)
    with pytest.raises(Refused, match=r"^the streams: InvalidArgumentException \(InvalidArgumentException\)$"):
        call()


def test_what_the_server_cannot_take_now_is_tried_again(
    scripted: Any, call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(transport, "time", SimpleNamespace(sleep=pauses.append, monotonic=lambda: 0.0))
    for status, code in (
        (400, "ProvisionedThroughputExceededException"),
        (500, "InternalFailure"),
        (400, "ThrottlingException"),
    ):
        scripted.will_answer({"__type": code, "message": "later"}, status)
    scripted.will_answer({"Records": []})
    assert call("GetRecords") == {"Records": []}
    assert pauses == [0.1, 0.2, 0.4]


def test_too_many_calls_are_tried_again_and_too_many_things_are_not(
    scripted: Any, call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "time", SimpleNamespace(sleep=lambda seconds: None, monotonic=lambda: 0.0))
    scripted.will_answer({"__type": "LimitExceededException", "message": "Rate exceeded for stream s under account 1."}, 400)
    scripted.will_answer({})
    assert call("SplitShard") == {}
    scripted.will_answer({"__type": "LimitExceededException", "message": "You have 20 consumers."}, 400)
    with pytest.raises(Refused, match="20 consumers"):
        call("RegisterStreamConsumer")


def test_what_the_server_never_takes_ends_at_the_timeout(
    scripted: Any, call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr(transport, "time", SimpleNamespace(sleep=sleep, monotonic=lambda: now))
    for _ in range(20):
        scripted.will_answer({"__type": "ProvisionedThroughputExceededException", "message": "slow down"}, 400)
    with pytest.raises(Refused, match="slow down"):
        call("GetRecords")
    assert 0 < now <= 5


@pytest.mark.parametrize("answer", [b"<html>", b"[1]", b'"text"', b"{}", b"[" * 5000])
def test_something_else_that_answers_is_named_as_such(scripted: Any, call: Callable[..., Any], answer: bytes) -> None:
    scripted.answers.append((404, answer, False))
    with pytest.raises(NotKinesis, match="answered 404 and no AWS JSON"):
        call()


def test_an_answer_that_never_ends_is_cut_off(scripted: Any, call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "MAX_ANSWER_BYTES", 100)
    scripted.will_answer({"x": "y" * 200})
    with pytest.raises(NotKinesis, match="more than 100 bytes"):
        call()


def test_a_server_that_is_not_there_is_said_to_be_missing() -> None:
    with pytest.raises(Unreachable, match=r"nothing listens at http://127\.0\.0\.1:"):
        Transport(f"127.0.0.1:{free_port()}", ANY, region="r", timeout_s=5).call("ListStreams", {}, what="the streams")


def test_no_answer_in_time_is_said_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        client = Transport(f"127.0.0.1:{silent.getsockname()[1]}", ANY, region="r", timeout_s=0.1)
        with pytest.raises(TimedOut, match=r"within 0\.1 s; raise --timeout"):
            client.call("ListStreams", {}, what="the streams")
        client.close()


@pytest.mark.parametrize("url", ["", "http://", "ftp://127.0.0.1", "127.0.0.1:port", "http://127.0.0.1:0", "http://[::1"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(BadAddress):
        Transport(url, ANY, region="r", timeout_s=1)
