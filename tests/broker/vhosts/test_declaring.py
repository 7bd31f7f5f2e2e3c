"""Refusals and answers that were taken from RabbitMQ 3.10.8, where it gave them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tests.broker.vhosts.conftest import Site

from headrace.record.amqp.tables import Int32

LOCKED = (
    "cannot obtain exclusive access to locked queue '{}' in vhost '/'. It could be originally declared on another connection "
    "or the exclusive property value does not match that of the original declaration."
)


def declare(site: Site, name: str = "q", **how: object) -> str:
    queue, _ = site.do(lambda: site.vhost.declare_queue(name, **how))  # type: ignore[arg-type]
    return queue.name


def i(value: int) -> Int32:
    """An integer as most clients send it."""
    return Int32(value)


def test_what_is_not_there_is_not_found(site: Site) -> None:
    missing = (404, "no queue 'nope' in vhost '/'")
    vhost = site.vhost
    assert site.refused(lambda: vhost.declare_queue("nope", passive=True)) == missing
    assert site.refused(lambda: vhost.purge_queue("nope")) == missing
    assert site.refused(lambda: vhost.queue("nope")) == missing
    assert site.refused(lambda: vhost.bind_queue("nope", "amq.direct", "k", {})) == missing
    assert site.refused(lambda: vhost.declare_queue("amq.x", passive=True)) == (404, "no queue 'amq.x' in vhost '/'")
    assert site.refused(lambda: vhost.declare_queue("", passive=True)) == (404, "no queue '' in vhost '/'")
    no_exchange = (404, "no exchange 'nox' in vhost '/'")
    assert site.refused(lambda: vhost.bind_queue("nope", "nox", "k", {})) == no_exchange
    assert site.refused(lambda: vhost.declare_exchange("nox", "", passive=True)) == no_exchange
    assert site.refused(lambda: vhost.bind_exchange("other", "nox", "k", {})) == no_exchange


def test_deleting_and_unbinding_what_is_not_there_succeeds(site: Site) -> None:
    declare(site)
    vhost = site.vhost
    assert site.do(lambda: vhost.delete_queue("nope")) == 0
    assert not site.do(lambda: vhost.delete_exchange("nope"))
    assert not site.do(lambda: vhost.unbind_queue("nope", "nox", "k", {}))
    assert not site.do(lambda: vhost.unbind_queue("q", "nox", "k", {}))
    assert not site.do(lambda: vhost.unbind_queue("q", "amq.direct", "k", {}))
    assert not site.do(lambda: vhost.unbind_exchange("amq.fanout", "amq.direct", "k", {}))


def test_the_default_exchange_is_nobodys(site: Site) -> None:
    refusal = (403, "operation not permitted on the default exchange")
    vhost = site.vhost
    for work in (
        lambda: vhost.bind_queue("q", "", "k", {}),
        lambda: vhost.unbind_queue("q", "", "k", {}),
        lambda: vhost.bind_exchange("", "amq.direct", "k", {}),
        lambda: vhost.unbind_exchange("amq.direct", "", "k", {}),
        lambda: vhost.declare_exchange("", "direct", passive=True),
        lambda: vhost.declare_exchange("", "direct", durable=True),
        lambda: vhost.delete_exchange(""),
    ):
        assert site.refused(work) == refusal


def test_names_of_the_server_are_reserved(site: Site) -> None:
    vhost = site.vhost
    text = "exchange name 'amq.x' contains reserved prefix 'amq.*'"
    assert site.refused(lambda: vhost.declare_exchange("amq.x", "direct")) == (403, text)
    text = "queue name 'amq.x' contains reserved prefix 'amq.*'"
    assert site.refused(lambda: vhost.declare_queue("amq.x")) == (403, text)
    for name in ("amq.direct", "amq.xxx"):
        text = f"deletion of system exchange '{name}' in vhost '/' not allowed"
        assert site.refused(lambda name=name: vhost.delete_exchange(name)) == (403, text)


def test_predeclared_exchanges_may_be_declared_as_they_are(site: Site) -> None:
    vhost = site.vhost
    kinds = {"direct": "direct", "fanout": "fanout", "topic": "topic", "headers": "headers", "match": "headers"}
    for name, kind in kinds.items():
        assert not site.do(lambda name=name, kind=kind: vhost.declare_exchange(f"amq.{name}", kind, durable=True))
    assert vhost.exchanges["amq.rabbitmq.trace"].internal
    text = "inequivalent arg 'type' for exchange 'amq.direct' in vhost '/': received 'fanout' but current is 'direct'"
    assert site.refused(lambda: vhost.declare_exchange("amq.direct", "fanout", durable=True)) == (406, text)
    text = "inequivalent arg 'durable' for exchange 'amq.direct' in vhost '/': received 'false' but current is 'true'"
    assert site.refused(lambda: vhost.declare_exchange("amq.direct", "direct")) == (406, text)


def test_an_unknown_exchange_type_closes_the_channel(site: Site) -> None:
    refusal = site.refused(lambda: site.vhost.declare_exchange("x", "nonsense"))
    assert refusal == (406, "unknown exchange type 'nonsense'")


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ({"kind": "topic"}, "'type' for X: received 'topic' but current is 'direct'"),
        ({"durable": True}, "'durable' for X: received 'true' but current is 'false'"),
        ({"auto_delete": True}, "'auto_delete' for X: received 'true' but current is 'false'"),
        ({"internal": True}, "'internal' for X: received 'true' but current is 'false'"),
        (
            {"arguments": {"alternate-exchange": "y"}},
            "'alternate-exchange' for X: received the value 'y' of type 'longstr' but current is none",
        ),
    ],
)
def test_an_exchange_declared_again_must_be_the_same(site: Site, how: Mapping[str, object], text: str) -> None:
    site.do(lambda: site.vhost.declare_exchange("x", "direct"))
    again = {"kind": "direct", **how}
    refusal = site.refused(lambda: site.vhost.declare_exchange("x", **again))  # type: ignore[arg-type]
    assert refusal == (406, "inequivalent arg " + text.replace("X", "exchange 'x' in vhost '/'"))


def test_arguments_of_an_exchange_that_mean_nothing_may_differ(site: Site) -> None:
    site.do(lambda: site.vhost.declare_exchange("x", "direct"))
    assert not site.do(lambda: site.vhost.declare_exchange("x", "direct", arguments={"zzz": "y"}))
    assert not site.do(lambda: site.vhost.declare_exchange("x", "topic", passive=True))
    text = "invalid type 'signedint' for arg 'alternate-exchange' in exchange 'y' in vhost '/'"
    assert site.refused(lambda: site.vhost.declare_exchange("y", "direct", arguments={"alternate-exchange": i(1)})) == (
        406,
        text,
    )


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ({"durable": True}, "'durable' for Q: received 'true' but current is 'false'"),
        ({"auto_delete": True}, "'auto_delete' for Q: received 'true' but current is 'false'"),
        (
            {"arguments": {"x-message-ttl": i(1)}},
            "'x-message-ttl' for Q: received the value '1' of type 'signedint' but current is none",
        ),
        (
            {"arguments": {"x-max-priority": i(1), "x-expires": 1000}},
            "'x-expires' for Q: received the value '1000' of type 'long' but current is none",
        ),
        (
            {"arguments": {"x-queue-type": "quorum"}},
            "'x-queue-type' for Q: received the value 'quorum' of type 'longstr' but current is none",
        ),
    ],
)
def test_a_queue_declared_again_must_be_the_same(site: Site, how: Mapping[str, object], text: str) -> None:
    declare(site)
    refusal = site.refused(lambda: site.vhost.declare_queue("q", **how))  # type: ignore[arg-type]
    assert refusal == (406, "inequivalent arg " + text.replace("Q", "queue 'q' in vhost '/'"))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"x-message-ttl": i(2000)}, "'x-message-ttl' for Q: received '2000' but current is '1000'"),
        ({}, "'x-message-ttl' for Q: received none but current is the value '1000' of type 'signedint'"),
        ({"x-message-ttl": "1000"}, "'x-message-ttl' for Q: received '1000' but current is '1000'"),
        (
            {"x-message-ttl": i(1000), "x-dead-letter-exchange": "e"},
            "'x-dead-letter-exchange' for Q: received 'e' but current is 'd'",
        ),
        (
            {"x-message-ttl": i(1000)},
            "'x-dead-letter-exchange' for Q: received none but current is the value 'd' of type 'longstr'",
        ),
    ],
)
def test_other_arguments_are_another_queue(site: Site, arguments: Mapping[str, object], text: str) -> None:
    declare(site, arguments={"x-message-ttl": i(1000), "x-dead-letter-exchange": "d"})
    refusal = site.refused(lambda: site.vhost.declare_queue("q", arguments=arguments))
    assert refusal == (406, "inequivalent arg " + text.replace("Q", "queue 'q' in vhost '/'"))


def test_widths_of_integers_and_unknown_arguments_may_differ(site: Site) -> None:
    declare(site, arguments={"x-message-ttl": i(1000)})
    declare(site, arguments={"x-message-ttl": 1000, "x-foo": 1, "x-queue-type": "classic", "x-delivery-limit": 1})


def test_server_named_queues(site: Site) -> None:
    first, second = declare(site, ""), declare(site, "")
    assert first != second
    assert first.startswith("amq.gen-")
    assert len(first) == len("amq.gen-") + 22
    for kind in ("quorum", "stream"):
        arguments = {"x-queue-type": kind}
        refusal = site.refused(lambda arguments=arguments: site.vhost.declare_queue("", durable=True, arguments=arguments))
        assert refusal == (406, f"Cannot declare a server-named queue for type rabbit_{kind}_queue")


def test_line_ends_are_no_part_of_names(site: Site) -> None:
    assert declare(site, "a\r\nb") == "ab"


@pytest.mark.parametrize("kind", ["quorum", "stream"])
def test_quorum_queues_and_streams_are_durable_and_shared(site: Site, kind: str) -> None:
    arguments = {"x-queue-type": kind}
    for how, name in (
        ({}, "non-durable"),
        ({"durable": True, "exclusive": True}, "exclusive-owner"),
        ({"durable": True, "auto_delete": True}, "auto-delete"),
        ({"exclusive": True, "auto_delete": True}, "auto-delete"),
    ):
        refusal = site.refused(lambda how=how: site.vhost.declare_queue("q", arguments=arguments, owner=site, **how))
        assert refusal == (406, f"invalid property '{name}' for queue 'q' in vhost '/'")


def test_the_default_queue_type_is_for_queues_that_can_be_of_it(site: Site) -> None:
    site.vhost.default_queue_type = "quorum"
    assert site.do(lambda: site.vhost.declare_queue("a", durable=True))[0].kind == "quorum"
    assert site.do(lambda: site.vhost.declare_queue("b"))[0].kind == "classic"
    assert (
        site.do(lambda: site.vhost.declare_queue("c", durable=True, arguments={"x-queue-type": "classic"}))[0].kind == "classic"
    )


def test_exclusive_queues_are_locked_for_others(site: Site) -> None:
    mine, other = object(), object()
    vhost = site.vhost
    declare(site, "ex", exclusive=True, owner=mine)
    site.do(lambda: vhost.bind_queue("ex", "amq.fanout", "bound", {}, mine))
    for work in (
        lambda: vhost.declare_queue("ex", passive=True, owner=other),
        lambda: vhost.declare_queue("ex", exclusive=True, owner=other),
        lambda: vhost.declare_queue("ex", owner=other),
        lambda: vhost.declare_queue("ex", owner=mine),
        lambda: vhost.delete_queue("ex", owner=other),
        lambda: vhost.purge_queue("ex", other),
        lambda: vhost.bind_queue("ex", "amq.fanout", "", {}, other),
        lambda: vhost.unbind_queue("ex", "amq.fanout", "bound", {}, other),
        lambda: vhost.queue("ex", other),
    ):
        assert site.refused(work) == (405, LOCKED.format("ex"))
    assert not site.do(lambda: vhost.unbind_queue("ex", "amq.fanout", "not bound", {}, other))
    declare(site, "ex", exclusive=True, durable=True, owner=mine)  # an exclusive queue is never durable
    declare(site, "q")
    assert site.refused(lambda: vhost.declare_queue("q", exclusive=True, owner=mine)) == (405, LOCKED.format("q"))


def test_exclusive_queues_go_with_their_connection(site: Site) -> None:
    mine = object()
    declare(site, "ex", exclusive=True, owner=mine)
    declare(site, "q")
    site.do(lambda: site.vhost.owner_gone(mine))
    assert list(site.vhost.queues) == ["q"]
    site.do(lambda: site.vhost.owner_gone(mine))


def test_deleting_only_if_unused_or_empty(site: Site) -> None:
    vhost = site.vhost
    declare(site)
    site.do(lambda: vhost.declare_exchange("x", "direct"))
    site.do(lambda: vhost.bind_queue("q", "x", "k", {}))
    assert site.refused(lambda: vhost.delete_exchange("x", if_unused=True)) == (406, "exchange 'x' in vhost '/' in use")
    site.publish("x", "k", b"a")
    assert site.refused(lambda: vhost.delete_queue("q", if_empty=True)) == (406, "queue 'q' in vhost '/' not empty")
    assert site.do(lambda: vhost.delete_queue("q", if_unused=True)) == 1
    site.do(lambda: vhost.delete_exchange("x", if_unused=True))
    declare(site, "qq", durable=True, arguments={"x-queue-type": "quorum"})
    code, text = site.refused(lambda: vhost.delete_queue("qq", if_empty=True))
    assert (code, text.split(". ")[0]) == (540, "cannot delete queue 'qq' in vhost '/'")


def test_an_exchange_that_others_are_bound_to_is_in_use_and_one_that_is_bound_is_not(site: Site) -> None:
    vhost = site.vhost
    for name in ("source", "destination"):
        site.do(lambda name=name: vhost.declare_exchange(name, "fanout"))
    site.do(lambda: vhost.bind_exchange("destination", "source", "", {}))
    assert site.refused(lambda: vhost.delete_exchange("source", if_unused=True))[0] == 406
    site.do(lambda: vhost.delete_exchange("destination", if_unused=True))
    site.do(lambda: vhost.delete_exchange("source", if_unused=True))
    assert vhost.bindings.count == 0


def test_auto_delete_exchanges_go_with_their_last_binding_one_after_the_other(site: Site) -> None:
    vhost = site.vhost
    declare(site)
    for name in ("a", "b"):
        site.do(lambda name=name: vhost.declare_exchange(name, "fanout", durable=True, auto_delete=True))
    site.do(lambda: vhost.bind_exchange("b", "a", "", {}))
    site.do(lambda: vhost.bind_queue("q", "b", "", {}))
    assert {"a", "b"} <= set(vhost.exchanges)
    site.do(lambda: vhost.delete_queue("q"))
    assert not {"a", "b"} & set(vhost.exchanges)
    site.crash()
    assert not {"a", "b"} & set(site.vhost.exchanges)
