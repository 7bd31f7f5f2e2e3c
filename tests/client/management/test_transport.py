"""The management client against servers that answer badly, or not at all."""

from __future__ import annotations

import base64
import socket
import threading
from collections.abc import Callable

import pytest

from headrace.client.management import Management, ManagementError, NotFound, Refused, Unsupported
from headrace.client.management.errors import BadAddress, LoginFailed, NotManagement, TimedOut, Unreachable


class Scripted:
    """A server that answers the requests of each connection with bytes from a list, then closes it."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self._script: list[list[bytes]] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def answers(self, *connections: list[bytes]) -> Scripted:
        self._script = list(connections)
        self._thread.start()
        return self

    def _serve(self) -> None:
        for answers in self._script:
            connection, _ = self._listening.accept()
            with connection:
                for answer in answers:
                    self.requests.append(self._request(connection))
                    connection.sendall(answer)
        self._listening.close()

    def _request(self, connection: socket.socket) -> str:
        data = b""
        while b"\r\n\r\n" not in data:
            data += connection.recv(65536)
        head, _, body = data.partition(b"\r\n\r\n")
        for line in head.split(b"\r\n"):
            if line.lower().startswith(b"content-length:"):
                while len(body) < int(line.split(b":")[1]):
                    body += connection.recv(65536)
        return (head + b"\r\n\r\n" + body).decode()


def http(status: int, body: str = "") -> bytes:
    return f"HTTP/1.1 {status} X\r\nContent-Length: {len(body.encode())}\r\n\r\n{body}".encode()


@pytest.fixture
def scripted() -> Callable[..., Scripted]:
    return lambda *connections: Scripted().answers(*connections)


def test_nothing_listening_says_what_to_start() -> None:
    with pytest.raises(Unreachable, match=r"nothing listens at http://127\.0\.0\.1:1: start 'headrace serve'"):
        Management("127.0.0.1:1").vhosts()


@pytest.mark.parametrize("url", ["ftp://host", "http://", "http://host:port", "http://host:0", "http://[::1", ""])
def test_an_address_that_is_none_is_named(url: str) -> None:
    with pytest.raises(BadAddress, match="is no address of an HTTP server"):
        Management(url)


def test_a_server_of_another_protocol_is_recognised(scripted: Callable[..., Scripted]) -> None:
    with pytest.raises(NotManagement, match="does not speak HTTP"):
        Management(scripted([b"AMQP\x00\x00\x09\x01"]).url).vhosts()


def test_a_web_server_without_the_api_is_recognised(scripted: Callable[..., Scripted]) -> None:
    for status in (200, 404):
        with pytest.raises(NotManagement, match="has no management API"):
            Management(scripted([http(status, "<html>hello</html>")]).url).vhosts()


def test_no_answer_in_time_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        api = Management(f"127.0.0.1:{silent.getsockname()[1]}", timeout_s=0.05)
        with pytest.raises(TimedOut, match=r"within 0\.05 s"):
            api.vhosts()


def test_an_answer_cut_short_is_an_error(scripted: Callable[..., Scripted]) -> None:
    with pytest.raises(ManagementError):
        Management(scripted([b"HTTP/1.1 200 X\r\nContent-Length: 100\r\n\r\n["]).url).vhosts()


def test_a_wrong_password_is_told_from_a_thing_one_may_not_do(scripted: Callable[..., Scripted]) -> None:
    login, refused = (
        '{"error":"not_authorized","reason":"Login failed"}',
        '{"error":"not_authorised","reason":"Access refused."}',
    )
    api = Management(scripted([http(401, login), http(401, refused)]).url, user="me")
    with pytest.raises(LoginFailed, match="does not take user 'me'"):
        api.vhosts()
    with pytest.raises(Refused, match=r"exchange 'amq\.topic': Access refused$") as caught:
        api.delete_exchange("/", "amq.topic")
    assert caught.value.code == "not_authorised"


def test_a_reason_becomes_one_line_of_plain_text(scripted: Callable[..., Scripted]) -> None:
    reason = r'{"error":"bad_request","reason":"Validation failed\n\n[{&lt;&lt;\"x\"&gt;&gt;,1}]\n"}'
    with pytest.raises(Refused, match=r"^[^:]*: \[\{<<\"x\">>,1\}\]$"):
        Management(scripted([http(400, reason)]).url).purge_queue("/", "q")


def test_names_are_quoted_and_the_login_is_sent(scripted: Callable[..., Scripted]) -> None:
    server = scripted([http(204)])
    Management(server.url.replace("http://", "http://me:p%40ss@") + "/rabbit/").purge_queue("/", "a b/é")
    head = server.requests[0].splitlines()
    assert head[0] == "DELETE /rabbit/api/queues/%2F/a%20b%2F%C3%A9/contents HTTP/1.1"
    assert f"Authorization: Basic {base64.b64encode(b'me:p@ss').decode()}" in head


def test_a_kept_connection_that_was_closed_is_opened_again(scripted: Callable[..., Scripted]) -> None:
    server = scripted([http(200, "[]")], [http(200, "[]")])
    api = Management(server.url)
    assert api.vhosts() == []
    assert api.vhosts() == []
    assert len(server.requests) == 2


def test_what_might_be_done_twice_is_not_sent_again(scripted: Callable[..., Scripted]) -> None:
    server = scripted([http(200, "[]")], [http(200, '{"routed": true}')])
    api = Management(server.url)
    api.vhosts()
    with pytest.raises(ManagementError, match="the connection to"):
        api.publish("/", "", "q", b"x")


def test_calls_that_only_headrace_has_are_recognised_as_such(scripted: Callable[..., Scripted]) -> None:
    not_found = '{"error":"Object Not Found","reason":"Not Found"}'
    for answer in (http(400), http(405), http(404, not_found), http(404)):
        api = Management(scripted([answer, http(200, '{"name":"q"}')]).url)
        with pytest.raises(Unsupported, match="peek into queue 'q': this server has no such call"):
            api.peek_messages("/", "q", count=1)
    api = Management(scripted([http(404, not_found), http(404, not_found)]).url)
    with pytest.raises(NotFound, match="queue 'q' does not exist"):
        api.move_messages("/", "q", count=1, queue="r")
    refused = Management(scripted([http(400, '{"error":"bad_request","reason":"not for streams"}')]).url)
    with pytest.raises(Refused, match="not for streams"):
        refused.retry_dead("/", "q", count=1)


def test_a_rabbitmq_that_has_not_counted_yet_has_no_counts(scripted: Callable[..., Scripted]) -> None:
    queue = Management(scripted([http(200, '{"name":"q","vhost":"/","type":"quorum","arguments":[]}')]).url).queue("/", "q")
    assert (queue.ready, queue.messages, queue.consumers, queue.arguments) == (None, None, None, {})
