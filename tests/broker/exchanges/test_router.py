"""The way of a message through several exchanges, and bindings as clients see them."""

from __future__ import annotations

import pytest
from tests.broker.exchanges.conftest import Host, NamedQueue

from headrace.broker.exchanges import Exchange, check_exchange, router
from headrace.broker.exchanges.binding import properties_key
from headrace.broker.queues.errors import AmqpRefusal
from headrace.record.amqp.tables import Int32


def test_the_default_exchange_knows_every_queue_by_its_name(host: Host) -> None:
    host.queue("a")
    assert host.route("", "a") == ["a"]
    assert host.route("", "b") == []
    host.queue("b")
    assert [queue.name for queue in host.router.route_all("", ["a", "c", "b", "a"])] == ["a", "b"]


def test_an_exchange_that_is_not_there_routes_nowhere(host: Host) -> None:
    host.queue("k")
    assert host.route("nowhere", "k") == []
    assert host.router.route_all("nowhere", ["k", "l"]) == ()


def test_a_queue_gets_a_message_once_however_many_bindings_match(host: Host) -> None:
    host.exchange("t", "topic")
    host.exchange("f", "fanout")
    for key in ("a.*", "#", "a.b"):
        host.bind("t", "q", key)
    host.bind("t", "f", "a.#")
    host.bind("f", "q")
    host.bind("f", "r")
    assert host.route("t", "a.b") == ["q", "r"]


def test_the_same_binding_twice_is_one(host: Host) -> None:
    host.exchange("d")
    assert host.bind("d", "q", "k", a=1, b=2)
    assert not host.bind("d", "q", "k", b=2, a=1)
    assert host.bind("d", "q", "k", a=Int32(1), b=2)  # another type is another binding
    assert host.bind("d", "q", "k")
    assert host.unbind("d", "q", "k", a=1, b=2)
    assert not host.unbind("d", "q", "k", a=1, b=2)
    assert host.route("d", "k") == ["q"]
    assert host.unbind("d", "q", "k")
    assert host.unbind("d", "q", "k", a=Int32(1), b=2)
    assert host.route("d", "k") == []


def test_a_queue_and_an_exchange_of_the_same_name_are_two_destinations(host: Host) -> None:
    source, other = host.exchange("d"), host.exchange("same", "fanout")
    queue = NamedQueue("same")
    assert host.router.bind(source, queue, "k")
    assert host.router.bind(source, other, "k")
    host.bind("same", "behind")
    assert host.route("d", "k") == ["behind", "same"]


def test_exchanges_bound_in_a_circle_are_visited_once(host: Host) -> None:
    for name in "abc":
        host.exchange(name, "fanout")
    for source, target in ("ab", "bc", "ca", "aa"):
        host.bind(source, target)
    host.bind("c", "q")
    assert host.route("a") == host.route("b") == host.route("c") == ["q"]
    host.bind("b", "r")
    assert host.route("a") == host.route("b") == host.route("c") == ["q", "r"]


def test_what_nothing_matches_goes_to_the_alternate_exchange(host: Host) -> None:
    host.exchange("d", alternate_exchange="spare")
    host.bind("d", "q", "k")
    assert host.route("d", "other") == []  # a missing one is no error
    host.exchange("spare", alternate_exchange="last")
    host.exchange("last", "fanout")
    host.bind("last", "lost")
    assert host.route("d", "other") == ["lost"]
    assert host.route("d", "k") == ["q"]
    host.bind("spare", "found", "other")
    assert host.route("d", "other") == ["found"]
    host.router.remove(host.exchanges["spare"])
    assert host.route("d", "other") == []


def test_alternate_exchanges_in_a_circle_end(host: Host) -> None:
    host.exchange("a", alternate_exchange="b")
    host.exchange("b", alternate_exchange="a")
    assert host.route("a", "k") == []


def test_the_default_exchange_is_no_alternate(host: Host) -> None:
    host.exchange("d", alternate_exchange="")
    host.queue("k")
    assert host.route("d", "k") == []


def test_an_exchange_that_matched_counts_as_a_match_even_if_it_leads_nowhere(host: Host) -> None:
    host.exchange("d", alternate_exchange="spare")
    host.exchange("dead-end", "fanout")
    host.exchange("spare", "fanout")
    host.bind("spare", "q")
    host.bind("d", "dead-end", "k")
    assert host.route("d", "k") == []


def test_a_policy_sets_the_alternate_unless_the_argument_has(host: Host) -> None:
    plain = host.exchange("plain")
    own = host.exchange("own", alternate_exchange="x")
    for name in "xy":
        host.exchange(name, "fanout")
        host.bind(name, f"{name}-queue")
    assert host.route("plain", "k") == []
    host.router.set_alternate(plain, "y")
    host.router.set_alternate(own, "y")
    assert host.route("plain", "k") == ["y-queue"]
    assert host.route("own", "k") == ["x-queue"]
    host.router.set_alternate(plain, None)
    assert host.route("plain", "k") == []


def test_copies_are_routed_with_the_message_and_the_alternate_only_if_none_matched(host: Host) -> None:
    host.exchange("d", alternate_exchange="spare")
    host.exchange("spare", "fanout")
    host.bind("spare", "lost")
    host.bind("d", "b", "kb")
    host.bind("d", "c", "kc")

    def routed(*keys: str) -> set[str]:
        return {queue.name for queue in host.router.route_all("d", keys)}

    assert routed("ka", "kb", "kc") == {"b", "c"}
    assert routed("ka", "kb") == {"b"}
    assert routed("ka", "kx") == {"lost"}


def test_a_hash_takes_the_key_of_the_message_not_those_of_its_copies(host: Host) -> None:
    host.exchange("h", "x-consistent-hash")
    for queue in "abcd":
        host.bind("h", queue, "1")
    for number in range(20):
        assert host.router.route_all("h", [f"k{number}", "x", "y"]) == host.router.route("h", f"k{number}")


def test_headers_are_not_decoded_where_they_do_not_count(host: Host) -> None:
    host.exchange("t", "topic")
    host.bind("t", "q", "#")
    assert host.router.route("t", "k", lambda: pytest.fail("asked for headers"))
    host.exchange("h", "headers")
    host.bind("h", "other", a=1)
    host.bind("t", "h", "with.headers")
    assert host.router.route("t", "k", lambda: pytest.fail("asked for headers"))
    assert host.route("t", "with.headers", a=1) == ["other", "q"]
    assert host.route("t", "with.headers", a=2) == ["q"]


def test_a_delayed_exchange_routes_as_the_type_behind_it(host: Host) -> None:
    host.exchange("later", "x-delayed-message", x_delayed_type="topic")
    host.bind("later", "q", "a.*")
    assert host.route("later", "a.b") == ["q"]
    assert host.route("later", "b") == []


@pytest.mark.parametrize(
    ("kind", "arguments", "code", "text"),
    [
        ("nonsense", {}, 406, "unknown exchange type 'nonsense'"),
        ("x-delayed-message", {}, 406, "Invalid argument, 'x-delayed-type' must be an existing exchange type"),
        ("x-delayed-message", {"x-delayed-type": "nonsense"}, 406, "unknown exchange type 'nonsense'"),
        (
            "x-delayed-message",
            {"x-delayed-type": "x-delayed-message"},
            406,
            "Invalid argument, 'x-delayed-message' can't be used for 'x-delayed-type'",
        ),
    ],
)
def test_types_that_are_not_there_are_refused(kind: str, arguments: dict[str, object], code: int, text: str) -> None:
    with pytest.raises(AmqpRefusal) as refusal:
        check_exchange(kind, arguments)
    assert (refusal.value.code, refusal.value.text) == (code, text)


def test_bindings_are_listed_by_source_by_destination_and_all(host: Host) -> None:
    source, other = host.exchange("d"), host.exchange("f", "fanout")
    host.bind("d", "q", "k", a=1)
    host.bind("d", "f", "k")
    host.bind("f", "q")
    queue = host.queue("q")
    assert [
        (b.destination_kind, b.destination.name, b.routing_key, b.arguments) for b in host.router.bindings_from(source)
    ] == [
        ("queue", "q", "k", {"a": 1}),
        ("exchange", "f", "k", {}),
    ]
    assert [b.source.name for b in host.router.bindings_to(queue)] == ["d", "f"]
    assert [b.source.name for b in host.router.bindings_to(other)] == ["d"]
    found = host.router.binding(source, queue, "k", {"a": 1})
    assert found is not None
    assert found in host.router.bindings_to(queue)
    assert host.router.binding(source, queue, "k") is None
    assert len(list(host.router.bindings())) == 3


def test_a_queue_that_goes_takes_its_bindings_along(host: Host) -> None:
    host.exchange("d")
    host.exchange("f", "fanout")
    host.bind("d", "q", "k")
    host.bind("d", "q", "l")
    host.bind("f", "q")
    host.bind("f", "r")
    assert host.route("d", "k") == ["q"]
    assert host.route("f") == ["q", "r"]
    assert len(host.router.forget(host.queue("q"))) == 3
    assert host.route("d", "k") == []
    assert host.route("f") == ["r"]
    assert host.router.forget(host.queue("q")) == []
    assert not host.router.bindings_to(host.queue("q"))


def test_an_exchange_that_goes_takes_bindings_from_and_to_it_along(host: Host) -> None:
    for name in "abc":
        host.exchange(name, "fanout")
    host.bind("a", "b")
    host.bind("b", "b")
    host.bind("b", "c")
    host.bind("b", "q")
    host.bind("c", "q")
    assert host.route("a") == ["q"]
    assert len(host.router.remove(host.exchanges["b"])) == 4
    assert host.route("a") == []
    assert [(b.source.name, b.destination.name) for b in host.router.bindings()] == [("c", "q")]
    host.router.add(Exchange("b", "fanout"))
    assert host.route("b") == []


def test_an_auto_delete_exchange_is_unused_after_its_last_binding_and_not_before_its_first(host: Host) -> None:
    host.exchange("first", "fanout", auto_delete=True)
    host.exchange("second", "fanout", auto_delete=True)
    host.exchange("third", "fanout")
    assert host.router.take_unused() == []
    host.bind("first", "second")
    host.bind("second", "q")
    host.bind("third", "q")
    host.unbind("second", "q")
    host.bind("second", "q")
    assert host.router.take_unused() == []  # it is in use again
    host.router.forget(host.queue("q"))
    assert [exchange.name for exchange in host.router.take_unused()] == ["second"]
    host.router.remove(host.exchanges["second"])
    assert [exchange.name for exchange in host.router.take_unused()] == ["first"]
    host.router.remove(host.exchanges["first"])
    assert host.router.take_unused() == []


def test_which_exchanges_need_every_message_by_itself(host: Host) -> None:
    host.exchange("t", "topic")
    host.exchange("f", "fanout")
    assert not host.router.sees_each_message("t")
    assert not host.router.sees_each_message("nowhere")
    host.exchange("r", "x-random")
    host.bind("f", "r")
    assert not host.router.sees_each_message("t")
    host.bind("t", "f", "#")
    assert host.router.sees_each_message("t")
    host.unbind("f", "r")
    assert not host.router.sees_each_message("t")
    host.router.set_alternate(host.exchanges["t"], "r")
    assert host.router.sees_each_message("t")


@pytest.mark.parametrize(
    ("key", "expected"),
    [("", "~"), ("a", "a"), ("a b", "a+b"), ("a.*.#", "a.%2A.%23"), ("a/b", "a%2Fb"), ("a~b", "a%7Eb"), ("é", "%C3%A9")],
)
def test_bindings_are_named_as_in_rabbitmqs_management(key: str, expected: str) -> None:
    assert properties_key(key, {}) == expected


def test_arguments_add_a_hash_to_the_name_of_a_binding() -> None:
    name = properties_key("k", {"a": 1, "b": "x"})
    assert name.startswith("k~")
    assert len(name) == len("k~4gSN_A")
    assert name == properties_key("k", {"b": "x", "a": 1})
    assert name != properties_key("k", {"b": "x", "a": 2})
    assert properties_key("", {"a": 1}).startswith("~")


def test_a_fanout_to_many_queues_answers_with_the_same_tuple(host: Host) -> None:
    host.exchange("f", "fanout")
    for number in range(1_000):
        host.bind("f", f"q{number}")
    first = host.router.route("f", "a")
    assert len(first) == 1_000
    assert host.router.route("f", "b") is first
    host.bind("f", "one more")
    assert len(host.router.route("f", "b")) == 1_001


def test_what_is_remembered_has_a_bound(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(router, "MAX_REMEMBERED", 100)
    host.exchange("t", "topic")
    host.exchange("d", "direct")
    host.bind("t", "d", "*")
    host.bind("d", "q", "5")
    for number in range(1_000):
        assert host.route("t", str(number)) == (["q"] if number == 5 else [])
        assert host.router._remembered == len(host.router._routes["t"].by_key) <= 100
    assert host.route("t", "5") == ["q"]


def test_long_answers_have_a_bound_of_their_own(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(router, "MAX_REMEMBERED_DESTINATIONS", 1_000)
    host.exchange("t", "topic")
    for number in range(100):
        host.bind("t", f"q{number}", "#")
    for number in range(100):
        assert len(host.route("t", str(number))) == 100
        assert host.router._remembered_destinations <= 1_000


def test_exchanges_that_come_and_go_leave_no_trace(host: Host) -> None:
    host.exchange("stays", "fanout")
    host.bind("stays", "q")
    for number in range(100):
        host.exchange(f"e{number}", alternate_exchange=f"missing{number}")
        host.bind(f"e{number}", "stays", "k")
        assert host.route(f"e{number}", "k") == ["q"]
        assert host.route(f"e{number}", "l") == []
    for number in range(100):
        host.router.remove(host.exchanges[f"e{number}"])
    assert not host.router._visited_for
    assert host.router._remembered == host.router._remembered_destinations == 0
    assert len(host.router._to) == 1
