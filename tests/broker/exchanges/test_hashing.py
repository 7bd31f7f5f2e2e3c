"""The consistent hash exchange: fair shares, few moves, the same choice every time."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import pytest
from tests.broker.exchanges.conftest import Host

from headrace.broker.exchanges.hashing import check_weight
from headrace.broker.exchanges.kinds import check_exchange
from headrace.broker.queues.errors import AmqpRefusal

KEYS = [f"key {number}" for number in range(5_000)]


def placed(host: Host) -> dict[str, str]:
    return {key: host.route("h", key)[0] for key in KEYS}


def test_shares_follow_the_weights(host: Host) -> None:
    host.exchange("h", "x-consistent-hash")
    for queue, weight in {"a": "1", "b": "1", "c": "2", "d": "4"}.items():
        host.bind("h", queue, weight)
    shares = Counter(placed(host).values())
    for queue, weight in {"a": 1, "b": 1, "c": 2, "d": 4}.items():
        assert shares[queue] == pytest.approx(len(KEYS) * weight / 8, rel=0.2)


def test_a_queue_that_comes_or_goes_moves_only_what_it_wins_or_had(host: Host) -> None:
    host.exchange("h", "x-consistent-hash")
    for queue in "abcde":
        host.bind("h", queue, "10")
    before = placed(host)
    host.bind("h", "f", "10")
    after = placed(host)
    assert {after[key] for key in KEYS if after[key] != before[key]} == {"f"}
    host.unbind("h", "f", "10")
    assert placed(host) == before
    host.unbind("h", "c", "10")
    without_c = placed(host)
    assert {before[key] for key in KEYS if without_c[key] != before[key]} == {"c"}


def test_the_choice_does_not_depend_on_the_order_of_binding_or_the_process(host: Host) -> None:
    host.exchange("h", "x-consistent-hash")
    for queue in "dbca":
        host.bind("h", queue, "1")
    # Written down from another process: a change here would send the next message of a key to another queue.
    assert [host.route("h", f"key {number}")[0] for number in range(16)] == list("cbacdacbcaacddbd")


def test_a_second_binding_of_a_queue_counts_when_the_first_is_gone(host: Host) -> None:
    host.exchange("h", "x-consistent-hash")
    host.bind("h", "a", "1")
    host.bind("h", "b", "1")
    even = placed(host)
    host.bind("h", "a", "50")
    assert placed(host) == even
    host.unbind("h", "a", "1")
    assert Counter(placed(host).values())["a"] > 0.9 * len(KEYS)


def test_a_header_is_hashed_instead_of_the_key(host: Host) -> None:
    host.exchange("h", "x-consistent-hash", hash_header="customer")
    for queue in "abcd":
        host.bind("h", queue, "1")
    for customer in range(50):
        assert len({tuple(host.route("h", key, customer=customer)) for key in KEYS[:20]}) == 1
    assert len({tuple(host.route("h", "k", customer=customer)) for customer in range(50)}) == 4
    assert len(host.route("h", "k")) == 1  # without the header too it goes somewhere


@pytest.mark.parametrize("name", ["message_id", "correlation_id", "timestamp"])
def test_a_property_is_hashed_for_each_message(host: Host, name: str) -> None:
    host.exchange("h", "x-consistent-hash", hash_property=name)
    for queue in "abcd":
        host.bind("h", queue, "1")
    reached = set()
    for number in range(50):
        values = {"message_id": None, "correlation_id": None, "timestamp": None, name: number}
        reached.update(host.router.route("h", "k", dict, lambda values=values: SimpleNamespace(**values)))  # type: ignore[misc]
    assert len(reached) == 4
    assert host.router.sees_each_message("h")


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("abc", 'The binding key must be an integer: <<"abc">>'),
        ("", "The binding key must be an integer: <<>>"),
        ("0", "The binding key must be greater than 0"),
        ("-3", "The binding key must be greater than 0"),
        ("1.5", 'The binding key must be an integer: <<"1.5">>'),
        (" 1", 'The binding key must be an integer: <<" 1">>'),
        ("１", "The binding key must be an integer: <<239,188,145>>"),
        ('a"b\\', 'The binding key must be an integer: <<"a\\"b\\\\">>'),
        ("10001", "The binding key must not exceed 10000"),
        ("9" * 250, "The binding key must not exceed 10000"),
    ],
)
def test_a_key_that_is_no_weight_is_refused_in_rabbitmqs_words(host: Host, key: str, text: str) -> None:
    host.exchange("h", "x-consistent-hash")
    with pytest.raises(AmqpRefusal) as refusal:
        host.bind("h", "q", key)
    assert (refusal.value.code, refusal.value.text) == (406, text)
    assert host.route("h", "k") == []


@pytest.mark.parametrize("key", ["1", "+2", "007", "10000"])
def test_what_erlang_reads_as_an_integer_is_a_weight(key: str) -> None:
    check_weight(key, {})


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            {"hash-header": "a", "hash-property": "message_id"},
            "hash-header and hash-property are mutually exclusive",
        ),
        ({"hash-property": "app_id"}, "Unsupported property: app_id"),
        ({"hash-header": 5}, "invalid type 'long' for arg 'hash-header'"),
    ],
)
def test_arguments_that_make_no_hash_are_refused(arguments: dict[str, object], text: str) -> None:
    with pytest.raises(AmqpRefusal) as refusal:
        check_exchange("x-consistent-hash", arguments)
    assert (refusal.value.code, refusal.value.text) == (406, text)


def test_modulus_hash_always_takes_the_same_of_its_queues(host: Host) -> None:
    host.exchange("m", "x-modulus-hash")
    assert host.route("m", "k") == []
    for queue in "cab":
        host.bind("m", queue)
    first = [host.route("m", key) for key in KEYS[:100]]
    assert {name for names in first for name in names} == {"a", "b", "c"}
    assert all(len(names) == 1 for names in first)
    host.bind("m", "d")
    host.unbind("m", "d")
    assert [host.route("m", key) for key in KEYS[:100]] == first


def test_random_takes_one_of_its_queues_for_each_message(host: Host) -> None:
    host.exchange("r", "x-random")
    assert host.route("r") == []
    for queue in "abc":
        host.bind("r", queue)
    chosen = [host.route("r") for _ in range(100)]
    assert all(len(names) == 1 for names in chosen)
    assert {names[0] for names in chosen} == {"a", "b", "c"}
    assert host.router.sees_each_message("r")
