"""Feeds as ends of a route: what people write, what is stored, what is shown, and what is refused."""

from __future__ import annotations

import pytest

from headrace.broker.routes.definition import RouteDefinition
from headrace.broker.routes.ends.multicast import HIDDEN, FeedSource, FeedTarget
from headrace.broker.routes.errors import InvalidRoute

PLACE = {"type": "udp", "group": "239.255.0.1", "port": 5007}


def test_what_is_not_said_stays_on_this_machine() -> None:
    assert FeedTarget.of(PLACE) == FeedTarget("239.255.0.1", 5007)
    assert FeedTarget.of(PLACE).json() == {
        **PLACE, "feed": None, "interface": None, "ttl": 1, "loopback": True, "mtu": 1400, "bytes_per_s": 0,
        "heartbeat_ms": 1000, "secret": None,
    }  # fmt: skip
    assert FeedSource.of(PLACE).json() == {
        **PLACE, "feed": None, "interface": None, "sender": None, "reorder_ms": 20, "window": 1024, "secret": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    "end",
    [
        FeedTarget("ff15::7", 1, "prices", "eth0", 0, False, 65_507, 10**9, 20, "a shared secret"),
        FeedSource("239.255.0.1", 65_535, "prices", "127.0.0.1", "10.0.0.7", 0.5, 1, "a shared secret"),
    ],
)
def test_what_is_stored_is_read_back_and_the_secret_is_not_shown(end: FeedTarget | FeedSource) -> None:
    assert type(end).of(end.json()) == end
    assert end.shown() == {**end.json(), "secret": HIDDEN}
    assert "a shared secret" not in end.label


def test_a_secret_stays_when_a_route_is_put_back_as_it_was_shown() -> None:
    before = FeedTarget("239.255.0.1", 5007, secret="a shared secret")
    assert FeedTarget.of(before.shown()).completed(before) == before
    assert FeedTarget.of(PLACE).completed(before).secret is None
    with pytest.raises(InvalidRoute, match="there is none yet"):
        FeedTarget.of(before.shown()).completed(None)
    with pytest.raises(InvalidRoute, match="there is none yet"):
        FeedSource.of({**PLACE, "secret": HIDDEN}).completed(FeedSource("239.255.0.1", 5007))


def test_labels_name_the_group_and_the_feed() -> None:
    assert FeedTarget("ff15::7", 5007).label == "udp://[ff15::7]:5007"
    assert FeedSource("239.255.0.1", 5007, "prices").label == "udp://239.255.0.1:5007 feed prices"


@pytest.mark.parametrize(
    ("member", "value", "words"),
    [
        ("group", "10.0.0.1", "destination.group must be a multicast address"),
        ("group", "localhost", "destination.group must be a multicast address"),
        ("group", "ff02::1%eth0", "destination.group must be a multicast address"),
        ("group", 7, "destination.group must be a text"),
        ("port", 0, "destination.port must be a whole number from 1 to 65535"),
        ("port", True, "destination.port must be a whole number from 1 to 65535"),
        ("ttl", 256, "destination.ttl must be a whole number from 0 to 255"),
        ("mtu", 255, "destination.mtu must be a whole number from 256 to 65507"),
        ("mtu", 65_508, "destination.mtu must be a whole number from 256 to 65507"),
        ("heartbeat_ms", 1, "destination.heartbeat_ms must be a whole number from 20 to 60000"),
        ("bytes_per_s", -1, "destination.bytes_per_s must be a whole number"),
        ("secret", "short", "destination.secret has fewer than 8 characters"),
        ("feed", "x" * 250, "destination.feed has more than 249 bytes"),
        ("interfaces", "eth0", "destination.interfaces is not known"),
    ],
)
def test_what_makes_no_sense_is_refused_with_words(member: str, value: object, words: str) -> None:
    with pytest.raises(InvalidRoute, match=words):
        FeedTarget.of({**PLACE, member: value})


@pytest.mark.parametrize("sender", ["nobody", "239.255.0.2", "fe80::1", "fe80::1%eth0"])
def test_a_sender_is_the_address_of_a_machine(sender: str) -> None:
    with pytest.raises(InvalidRoute, match=r"source\.sender must be an address of one machine"):
        FeedSource.of({**PLACE, "sender": sender})


def test_routes_have_them_at_either_end() -> None:
    out = RouteDefinition.of("out", {"topic": "prices", "destination": PLACE})
    assert isinstance(out.target, FeedTarget)
    assert RouteDefinition.of("out", out.json()) == out
    into = RouteDefinition.of("in", {"source": PLACE, "destination": {"type": "topic", "topic": "prices"}})
    assert isinstance(into.source, FeedSource)
    assert into.inbound
