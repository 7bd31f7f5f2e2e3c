"""What a user may do: RabbitMQ's three regular expressions for each virtual host, and its words when they do not match."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.amqp.in_process import InProcess
from tests.amqp.wire import Wire

from headrace.amqp.arguments import Method
from headrace.amqp.methods import (
    BasicConsume,
    BasicGet,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    QueueBind,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueuePurge,
)
from headrace.broker.vhosts.users import Permissions, TopicPermissions, User
from headrace.testing import wait_until


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcess]:
    folder: Path = tmp_path_factory.mktemp("data")
    server = InProcess(folder)
    server.call(lambda: put(server, "some", Permissions("^mine", "^(mine|amq.default)", "^mine")))
    guest = Wire(server.url)
    guest.log_in()
    guest.open()
    guest.call(1, QueueDeclare("other"), QueueDeclareOk)
    guest.close()
    yield server
    server.close()


def put(server: InProcess, name: str, permissions: Permissions | None, topics: tuple[TopicPermissions, ...] = ()) -> None:
    vhosts = server.broker.vhosts
    allowed = {} if permissions is None else {"/": permissions}
    vhosts.put_user(User(name, vhosts.users.hashed("secret"), permissions=allowed, topic_permissions={"/": topics}))


@pytest.fixture
def connect(server: InProcess) -> Iterator[Callable[[str], Wire]]:
    opened: list[Wire] = []

    def make(user: str) -> Wire:
        wire = Wire(server.url)
        opened.append(wire)
        wire.log_in(user=user, password="secret")
        wire.open()
        return wire

    yield make
    for wire in opened:
        wire.close()


@pytest.mark.parametrize(
    ("method", "what"),
    [
        (QueueDeclare("other"), "configure access to queue 'other'"),
        (QueueDelete("other"), "configure access to queue 'other'"),
        (QueuePurge("other"), "read access to queue 'other'"),
        (QueueBind("other", "mine", ""), "write access to queue 'other'"),
        (QueueBind("mine", "amq.fanout", ""), "read access to exchange 'amq.fanout'"),
        (BasicGet("other"), "read access to queue 'other'"),
        (BasicConsume("other"), "read access to queue 'other'"),
        (ExchangeDeclare("other", "fanout"), "configure access to exchange 'other'"),
        (ExchangeDelete("other"), "configure access to exchange 'other'"),
        (ExchangeBind("amq.direct", "mine", ""), "write access to exchange 'amq.direct'"),
        (QueueDeclare("mine2", arguments={"x-dead-letter-exchange": "amq.fanout"}), "write access to exchange 'amq.fanout'"),
    ],
)
def test_what_is_not_allowed_closes_the_channel(connect: Callable[[str], Wire], method: Method, what: str) -> None:
    wire = connect("some")
    wire.call(1, QueueDeclare("mine"), QueueDeclareOk)
    wire.send(1, method)
    assert wire.closed_channel() == (403, f"ACCESS_REFUSED - {what} in vhost '/' refused for user 'some'", *method.ids)


def test_rights_are_for_the_name_that_the_server_gives(connect: Callable[[str], Wire], server: InProcess) -> None:
    server.call(lambda: put(server, "nameless", Permissions("^amq[.]gen-", "", "")))
    declared = connect("nameless").call(1, QueueDeclare("", exclusive=True), QueueDeclareOk)
    assert declared.queue.startswith("amq.gen-")
    wire = connect("some")
    wire.send(1, QueueDeclare(""))
    code, text = wire.closed_channel()[:2]
    assert code == 403
    assert text.startswith("ACCESS_REFUSED - configure access to queue 'amq.gen-")


@pytest.mark.parametrize(
    ("method", "text"),
    [
        (QueueDeclare("amq.mine"), "queue name 'amq.mine' contains reserved prefix 'amq.*'"),
        (ExchangeDelete("amq.fanout"), "deletion of system exchange 'amq.fanout' in vhost '/' not allowed"),
        (ExchangeDelete(""), "operation not permitted on the default exchange"),
    ],
)
def test_what_nobody_may_do_is_the_reason_before_the_missing_right_is(
    connect: Callable[[str], Wire], method: Method, text: str
) -> None:
    wire = connect("some")
    wire.send(1, method)
    assert wire.closed_channel() == (403, f"ACCESS_REFUSED - {text}", *method.ids)


@pytest.mark.parametrize(
    "method",
    [QueueDelete("closed\n"), QueuePurge("clo\rsed"), QueueBind("c\nlosed", "amq.fanout", ""), ExchangeDelete("closed\n")],
)
def test_line_ends_that_names_lose_open_nothing(connect: Callable[[str], Wire], server: InProcess, method: Method) -> None:
    all_but_one = r"^(?!closed\Z)"
    server.call(lambda: put(server, "kept-out", Permissions(all_but_one, all_but_one, all_but_one)))
    wire = connect("kept-out")
    wire.send(1, method)
    code, text = wire.closed_channel()[:2]
    assert code == 403
    assert " access to " in text
    assert "'closed'" in text


def test_what_is_there_already_is_declared_again_without_the_rights_to_where_its_dead_letters_go(
    connect: Callable[[str], Wire], server: InProcess
) -> None:
    queue = QueueDeclare("mine-dying", arguments={"x-dead-letter-exchange": "amq.fanout"})
    exchange = ExchangeDeclare("mine-passing-on", "fanout", arguments={"alternate-exchange": "amq.fanout"})
    guest = Wire(server.url)
    guest.log_in()
    guest.open()
    guest.call(1, queue, QueueDeclareOk)
    guest.call(1, exchange, ExchangeDeclareOk)
    wire = connect("some")
    wire.call(1, queue, QueueDeclareOk)
    wire.call(1, exchange, ExchangeDeclareOk)
    guest.close()


def test_an_alternate_exchange_needs_the_right_to_write_to_it(connect: Callable[[str], Wire]) -> None:
    wire = connect("some")
    wire.send(1, ExchangeDeclare("mine-new", "fanout", arguments={"alternate-exchange": "amq.fanout"}))
    text = "ACCESS_REFUSED - write access to exchange 'amq.fanout' in vhost '/' refused for user 'some'"
    assert wire.closed_channel() == (403, text, 40, 10)


def test_publishing_needs_the_right_to_write(connect: Callable[[str], Wire], server: InProcess) -> None:
    wire = connect("some")
    wire.call(1, QueueDeclare("mine"), QueueDeclareOk)
    wire.publish(1, "mine", b"by the default exchange")
    wire.publish(1, "mine", b"x", exchange="amq.topic")
    text = "ACCESS_REFUSED - write access to exchange 'amq.topic' in vhost '/' refused for user 'some'"
    assert wire.closed_channel() == (403, text, 60, 40)


def test_a_topic_may_be_forbidden_though_its_exchange_is_not(connect: Callable[[str], Wire], server: InProcess) -> None:
    server.call(lambda: put(server, "topical", Permissions(), (TopicPermissions("amq.topic", "^a[.]", "^a[.]"),)))
    wire = connect("topical")
    wire.publish(1, "a.b", b"x", exchange="amq.topic")
    wire.publish(1, "b.b", b"x", exchange="amq.topic")
    text = "write access to topic 'b.b' in exchange topic 'amq.topic' in vhost '/' refused for user 'topical'"
    assert wire.closed_channel()[:2] == (403, f"ACCESS_REFUSED - {text}")


def test_a_virtual_host_may_be_closed_to_a_user(server: InProcess) -> None:
    server.call(lambda: put(server, "outsider", None))
    wire = Wire(server.url)
    with pytest.raises(AssertionError, match="access to vhost '/' refused for user 'outsider'"):
        wire.log_in(user="outsider", password="secret")
    wire.close()


def test_a_virtual_host_takes_as_many_connections_as_its_limit_says(server: InProcess) -> None:
    vhosts = server.broker.vhosts
    user = User("narrow", vhosts.users.hashed("secret"), permissions={"narrow": Permissions()})
    server.call(lambda: (vhosts.create("narrow"), vhosts.put_user(user)))
    server.call(lambda: vhosts.put_parameter("vhost-limits", "narrow", "limits", {"max-connections": 1}))
    first, second = Wire(server.url), Wire(server.url)
    first.log_in(user="narrow", password="secret", vhost="narrow")
    text = r"access to vhost 'narrow' refused for user 'narrow': connection limit \(1\) is reached"
    with pytest.raises(AssertionError, match=text):
        second.log_in(user="narrow", password="secret", vhost="narrow")
    first.close()
    second.close()


def test_rights_that_are_taken_away_are_gone_for_open_connections(connect: Callable[[str], Wire], server: InProcess) -> None:
    server.call(lambda: put(server, "fading", Permissions()))
    wire = connect("fading")
    wire.publish(1, "nowhere", b"x")
    server.call(lambda: put(server, "fading", Permissions(write="^$")))
    fading = [connection for connection in server.listener.connections if connection.user.name == "fading"]
    wait_until(lambda: all(connection.user.permissions["/"].write == "^$" for connection in fading))
    wire.publish(1, "nowhere", b"x")
    assert wire.closed_channel()[0] == 403


def test_a_right_that_is_given_is_there_at_once(connect: Callable[[str], Wire], server: InProcess) -> None:
    server.call(lambda: put(server, "rising", Permissions(configure="^$")))
    wire = connect("rising")
    server.call(lambda: put(server, "rising", Permissions()))
    wire.call(1, QueueDeclare("risen", exclusive=True), QueueDeclareOk)


def test_a_deleted_user_is_disconnected(connect: Callable[[str], Wire], server: InProcess) -> None:
    server.call(lambda: put(server, "gone", Permissions()))
    wire = connect("gone")
    server.call(lambda: server.broker.vhosts.delete_user("gone"))
    assert wire.closed()[:2] == (320, "CONNECTION_FORCED - user 'gone' is deleted")


def test_a_deleted_virtual_host_disconnects_its_clients(server: InProcess) -> None:
    vhosts = server.broker.vhosts
    user = User("v", vhosts.users.hashed("secret"), permissions={"v": Permissions()})
    server.call(lambda: (vhosts.create("v"), vhosts.put_user(user)))
    wire = Wire(server.url)
    wire.log_in(user="v", password="secret", vhost="v")
    server.call(lambda: vhosts.delete("v"))
    assert wire.closed()[:2] == (320, "CONNECTION_FORCED - vhost 'v' is deleted")
    wire.close()
