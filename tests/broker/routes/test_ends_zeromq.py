"""What a ZeroMQ end of a route may be."""

from __future__ import annotations

import json

import pytest

from headrace.broker.routes.ends.zeromq import Curve, ZeroMqSource, ZeroMqTarget
from headrace.broker.routes.errors import InvalidRoute

HERE = "tcp://127.0.0.1:5556"
KEY, OTHER, THIRD = "a" * 40, "b" * 40, "0123456789.-:+=^!/*?&<>()[]{}@%$#ABCDEFG"
SERVER = {"public_key": KEY, "secret_key": OTHER, "allowed": [THIRD]}


def test_what_is_stored_reads_the_same() -> None:
    for target in (
        {"address": HERE},
        {"address": "ipc:///run/x", "socket": "push", "bind": False, "content": "bare", "high_water_mark": 5},
        {"address": "tcp://*:5556", "curve": SERVER, "slow_subscribers": "wait", "envelope": "{topic}/{key}"},
    ):
        made = ZeroMqTarget.of({"type": "zmq", **target})
        assert ZeroMqTarget.of(json.loads(json.dumps(made.json()))) == made
    for source in (
        {"address": HERE},
        {"address": HERE, "prefixes": ["a", "b"]},
        {"address": "tcp://[::1]:5", "socket": "sub", "bind": True, "envelope": "key", "max_message_bytes": 10},
        {"address": "tcp://prices.example.com:5556", "bind": False, "curve": {"server_key": KEY}},
    ):
        came = ZeroMqSource.of({"type": "zmq", **source})
        assert ZeroMqSource.of(json.loads(json.dumps(came.json()))) == came


def test_who_binds_unless_it_is_said() -> None:
    assert ZeroMqTarget.of({"address": HERE}).bind
    assert ZeroMqTarget.of({"address": HERE, "socket": "push"}).bind
    assert ZeroMqSource.of({"address": HERE}) == ZeroMqSource(HERE, True, "pull")
    assert ZeroMqSource.of({"address": HERE, "prefixes": ["p"]}) == ZeroMqSource(HERE, False, "sub", ("p",))


def test_secrets_are_not_shown_and_not_asked_for_twice() -> None:
    target = ZeroMqTarget.of({"address": HERE, "curve": SERVER})
    assert OTHER not in json.dumps(target.shown())
    back = ZeroMqTarget.of(target.shown())
    assert back.completed(target) == target
    with pytest.raises(InvalidRoute, match=r"destination\.curve\.secret_key must be given"):
        back.completed(None)
    changed = ZeroMqTarget.of({**target.shown(), "curve": {"public_key": THIRD}})
    with pytest.raises(InvalidRoute, match="secret_key must be given"):
        changed.completed(target)
    assert ZeroMqTarget.of({"address": HERE, "curve": {"server_key": KEY}}).completed(None).curve == Curve(server_key=KEY)


@pytest.mark.parametrize("host", ["0.0.0.0", "*", "[::]", "192.168.1.1", "[2001:db8::1]"])
def test_what_others_can_reach_is_bound_only_with_keys_that_are_allowed(host: str) -> None:
    where = f"tcp://{host}:5556"
    for curve in (None, {"server_key": KEY}, {**SERVER, "allowed": []}):
        with pytest.raises(InvalidRoute, match="can be reached from other machines"):
            ZeroMqTarget.of({"address": where, "curve": curve})
        with pytest.raises(InvalidRoute, match="can be reached from other machines"):
            ZeroMqSource.of({"address": where, "curve": curve})
    assert ZeroMqSource.of({"address": where, "curve": SERVER}).bind


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, "address must be a text"),
        ({"address": "127.0.0.1:5556"}, "must be like tcp://"),
        ({"address": "inproc://x"}, "must be like tcp://"),
        ({"address": "tcp://127.0.0.1"}, "must end with a port"),
        ({"address": "tcp://127.0.0.1:0"}, "must end with a port"),
        ({"address": "tcp://127.0.0.1:65536"}, "must end with a port"),
        ({"address": "tcp://127.0.0.1:²"}, "must end with a port"),
        ({"address": "tcp://::1:5556"}, "stands in brackets"),
        ({"address": "tcp://[127.0.0.1]:5556"}, "stands in brackets"),
        ({"address": "tcp://eth0:5556"}, "to bind takes an IP address"),
        ({"address": "tcp://a b:5556", "bind": False}, "must name a host"),
        ({"address": "tcp://127.0.0.1;x:5556", "bind": False}, "must name a host"),
        ({"address": "ipc://relative"}, "absolute path"),
        ({"address": "ipc:///" + "x" * 100}, "absolute path"),
        ({"address": HERE, "port": 1}, r"destination\.port is not known"),
        ({"address": HERE, "socket": "sub"}, r"destination\.socket must be one of: pub, push"),
        ({"address": HERE, "socket": "push", "slow_subscribers": "wait"}, "for a pub socket"),
        ({"address": HERE, "content": "json"}, "content must be one of"),
        ({"address": HERE, "high_water_mark": 0}, "from 1 to"),
        ({"address": HERE, "envelope": "{value}"}, "only {topic} and {key}"),
        ({"address": HERE, "envelope": "{topic"}, "only {topic} and {key}"),
        ({"address": HERE, "curve": "x"}, "curve must be an object"),
        ({"address": HERE, "curve": {}}, "server_key must be given"),
        ({"address": HERE, "curve": {"server_key": "short"}}, "40 characters of Z85"),
        ({"address": HERE, "curve": {"server_key": KEY, "secret_key": OTHER}}, "needs its"),
        ({"address": HERE, "curve": {"server_key": KEY, "allowed": [OTHER]}}, "says that this end is not"),
    ],
)
def test_a_target_that_makes_no_sense_is_refused(given: dict[str, object], why: str) -> None:
    with pytest.raises(InvalidRoute, match=why):
        ZeroMqTarget.of(given)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"address": HERE, "socket": "pub"}, r"source\.socket must be one of: pull, sub"),
        ({"address": HERE, "socket": "pull", "prefixes": ["a"]}, "for a sub socket"),
        ({"address": HERE, "prefixes": ["a"] * 101}, "at most 100"),
        ({"address": HERE, "envelope": "value"}, "envelope must be one of: header, key, drop"),
        ({"address": HERE, "max_message_bytes": 1 << 40}, "from 1 to"),
    ],
)
def test_a_source_that_makes_no_sense_is_refused(given: dict[str, object], why: str) -> None:
    with pytest.raises(InvalidRoute, match=why):
        ZeroMqSource.of(given)


def test_a_key_is_never_in_an_error() -> None:
    secret = "x" * 39 + "\n"
    with pytest.raises(InvalidRoute) as raised:
        ZeroMqTarget.of({"address": HERE, "curve": {"public_key": KEY, "secret_key": secret}})
    assert "xxx" not in str(raised.value)
