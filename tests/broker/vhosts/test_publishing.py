from __future__ import annotations

from collections.abc import Mapping

import pytest
from tests.broker.vhosts.conftest import Site, run_of

from headrace.broker.queues.run import Run
from headrace.broker.vhosts.users import User
from headrace.record.amqp.message import Message
from headrace.record.amqp.properties import decode_properties, headers
from headrace.record.amqp.tables import Int32


def declare(site: Site, *names: str, **how: object) -> None:
    for name in names:
        site.do(lambda name=name: site.vhost.declare_queue(name, **how))  # type: ignore[arg-type,misc]


def bind(site: Site, queue: str, exchange: str, key: str = "", arguments: Mapping[str, object] | None = None) -> None:
    site.do(lambda: site.vhost.bind_queue(queue, exchange, key, arguments or {}))


def test_the_default_exchange_knows_every_queue_by_its_name(site: Site) -> None:
    declare(site, "q")
    published = site.publish("", "q", b"a", b"b")
    assert published.routed
    assert site.bodies("q") == [b"a", b"b"]
    assert not site.publish("", "other", b"a").routed


def test_publishing_is_durable_if_a_durable_queue_took_a_persistent_message(site: Site) -> None:
    declare(site, "lasting", durable=True)
    declare(site, "passing")
    declare(site, "quorum", durable=True, arguments={"x-queue-type": "quorum"})
    assert site.publish("", "lasting").durable
    assert not site.publish("", "lasting", delivery_mode=1).durable
    assert not site.publish("", "passing").durable
    assert site.publish("", "quorum", delivery_mode=1).durable  # a quorum queue keeps everything


def test_refusals_of_publishers(site: Site) -> None:
    site.do(lambda: site.vhost.declare_exchange("inner", "fanout", internal=True))
    vhost = site.vhost
    assert site.refused(lambda: vhost.publish(run_of("nox", "k"))) == (404, "no exchange 'nox' in vhost '/'")
    assert site.refused(lambda: vhost.publish(run_of("nox", "k", headers={"a": 1}))) == (404, "no exchange 'nox' in vhost '/'")
    text = "cannot publish to internal exchange 'inner' in vhost '/'"
    assert site.refused(lambda: vhost.publish(run_of("inner", "k"))) == (403, text)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("abc", "no_integer"),
        ("", "no_integer"),
        (" 1", "no_integer"),
        ("-1", "{value_negative,-1}"),
        ("1.5", '{leftover_string,".5"}'),
        ("99999999999999", "{value_too_large,99999999999999}"),
    ],
)
def test_expirations_that_make_no_sense_are_refused(site: Site, text: str, wrong: str) -> None:
    refusal = site.refused(lambda: site.vhost.publish(run_of("", "q", expiration=text)))
    assert refusal == (406, f"invalid expiration '{text}': {wrong}")


def test_nobody_publishes_under_anothers_name(site: Site) -> None:
    declare(site, "q")
    run = run_of("", "q", user_id="other")
    text = "user_id property set to 'other' but authenticated user was 'guest'"
    assert site.refused(lambda: site.vhost.publish(run, User("guest"))) == (406, text)
    assert site.do(lambda: site.vhost.publish(run, User("other"))).routed
    assert site.do(lambda: site.vhost.publish(run, User("guest", tags=("impersonator",)))).routed


def test_cc_and_bcc_are_further_keys_and_nobody_sees_bcc(site: Site) -> None:
    declare(site, "to", "cc", "bcc")
    site.publish("", "to", b"a", b"b", headers={"CC": ["cc", Int32(1)], "BCC": ["bcc", "cc"], "x": "y"})
    for queue in ("to", "cc", "bcc"):
        messages = site.messages(queue)
        assert [message.body for message in messages] == [b"a", b"b"]
        assert headers(messages[0].properties) == {"CC": ["cc", 1], "x": "y"}
        assert messages[0].routing_key == "to"


def test_cc_and_bcc_must_be_lists(site: Site) -> None:
    for name, value, kind in (("CC", "abc", "longstr"), ("BCC", Int32(1), "signedint")):
        refusal = site.refused(lambda name=name, value=value: site.vhost.publish(run_of("", "q", headers={name: value})))
        assert refusal == (406, f'invalid message: {{unacceptable_type_in_header,"{name}",{kind}}}')


def test_unrouted_messages_take_the_alternate_exchange(site: Site) -> None:
    declare(site, "q")
    site.do(lambda: site.vhost.declare_exchange("x", "direct", arguments={"alternate-exchange": "amq.fanout"}))
    assert not site.publish("x", "k", b"lost").routed
    bind(site, "q", "amq.fanout")
    assert site.publish("x", "k", b"kept").routed
    assert site.bodies("q") == [b"kept"]


class Requester:
    def __init__(self) -> None:
        self.replies: list[Message] = []

    def deliver_reply(self, message: Message) -> None:
        self.replies.append(message)


def test_direct_reply_to(site: Site) -> None:
    declare(site, "requests")
    request = run_of("", "requests", b"?", reply_to="amq.rabbitmq.reply-to")
    assert site.refused(lambda: site.vhost.publish(request)) == (406, "fast reply consumer does not exist")
    name, requester = "amq.rabbitmq.reply-to.token", Requester()
    site.vhost.reply_names[name] = requester
    site.do(lambda: site.vhost.publish(request, None, name))
    (received,) = site.messages("requests")
    assert decode_properties(received.properties).reply_to == name
    published = site.publish("", name, b"!")
    assert (published.routed, published.durable) == (True, False)
    assert [message.body for message in requester.replies] == [b"!"]
    del site.vhost.reply_names[name]
    assert not site.publish("", name, b"!").routed


def test_each_refused_message_of_a_run_is_named(site: Site) -> None:
    declare(site, "small", durable=True, arguments={"x-max-length": 2, "x-overflow": "reject-publish"})
    declare(site, "large", durable=True)
    for queue in ("small", "large"):
        bind(site, queue, "amq.fanout")
    published = site.publish("amq.fanout", "", b"1", b"2", b"3", b"4")
    assert (published.routed, published.rejected, published.durable) == (True, True, True)
    assert set(published.refused) == {2, 3}
    assert list(site.publish("amq.fanout", "", b"5").refused) == [0]
    assert site.bodies("small") == [b"1", b"2"]
    assert site.bodies("large") == [b"1", b"2", b"3", b"4", b"5"]


def test_messages_of_a_run_go_their_own_ways_where_each_is_seen(site: Site) -> None:
    site.do(lambda: site.vhost.declare_exchange("hash", "x-consistent-hash", arguments={"hash-property": "message_id"}))
    declare(site, "a", "b")
    for queue in ("a", "b"):
        bind(site, queue, "hash", "10")
    messages = [run_of("hash", "k", f"{number}".encode(), message_id=f"id {number}").messages()[0] for number in range(40)]
    assert site.do(lambda: site.vhost.publish(Run.of(messages))).routed
    found = [site.bodies(queue) for queue in ("a", "b")]
    assert all(found)
    assert sorted(int(body) for bodies in found for body in bodies) == list(range(40))


def test_delayed_messages_come_when_their_time_has(site: Site) -> None:
    declare(site, "q", durable=True)
    arguments = {"x-delayed-type": "direct"}
    site.do(lambda: site.vhost.declare_exchange("later", "x-delayed-message", durable=True, arguments=arguments))
    bind(site, "q", "later", "k")
    assert site.publish("later", "k", b"now").routed
    assert site.publish("later", "k", b"later", headers={"x-delay": Int32(5000)}).durable
    site.rig.advance(1)
    site.rig.settle()
    assert site.bodies("q") == [b"now"]
    site.crash()
    for _ in range(10):
        site.rig.advance(1)
        site.rig.settle()
    (message,) = site.messages("q")
    assert message.body == b"later"
    assert headers(message.properties)["x-delay"] == -5000


def test_the_broker_itself_is_never_refused(site: Site) -> None:
    declare(site, "q", "other")
    run = run_of("gone", "k", b"a")
    assert not site.do(lambda: site.vhost.republish(run, "gone")).routed
    assert not site.do(lambda: site.vhost.republish(run, "")).routed
    assert site.do(lambda: site.vhost.republish(run, "", ["q", "other"], skip=lambda name: name == "other")).routed
    assert (site.bodies("q"), site.bodies("other")) == ([b"a"], [])


def test_dead_letters_go_through_the_dead_letter_exchange(site: Site) -> None:
    declare(site, "dead")
    declare(site, "q", arguments={"x-max-length": 1, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    site.publish("", "q", b"1", b"2", b"3", message_id="same")
    site.rig.advance(0.01)
    messages = site.messages("dead")
    assert [message.body for message in messages] == [b"1", b"2"]
    assert messages[0].routing_key == "dead"
    deaths = headers(messages[0].properties)["x-death"]
    assert isinstance(deaths, list)
    assert [(death["queue"], death["reason"], death["routing-keys"]) for death in deaths] == [("q", "maxlen", ["q"])]


def test_dead_letters_that_go_in_circles_are_dropped(site: Site) -> None:
    declare(site, "q", arguments={"x-message-ttl": 10, "x-dead-letter-exchange": ""})
    site.publish("", "q", b"round")
    for _ in range(5):
        site.rig.advance(1)
        site.rig.settle()
    assert site.vhost.queues["q"].message_count == 0
