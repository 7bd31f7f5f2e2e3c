from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest
import zmq.auth

import headrace
from headrace import Event
from headrace.client.zeromq import KeyPair
from headrace.client.zeromq.errors import TimedOut

ANY = "zmq+tcp://127.0.0.1:0"


@pytest.mark.parametrize(
    "url",
    ["zmq+tcp://", "zmq+tcp://127.0.0.1", "zmq+tcp://:5", "zmq+tcp://127.0.0.1:x", "zmq+tcp://127.0.0.1:99999", "zmq+ipc://"],
)
def test_a_url_without_an_address_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="zmq"):
        headrace.connect(url)


@pytest.mark.parametrize("options", [{"high_water_mark": 0}, {"max_message_bytes": 0}, {"linger_s": -1}, {"allowed_keys": []}])
def test_options_that_make_no_sense_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"high_water_mark|allowed_keys"):
        headrace.connect(ANY, **options)
    with headrace.connect(ANY) as channel, pytest.raises(TypeError, match="no option of a socket"):
        channel.puller(colour="red")


def test_an_address_that_is_taken_is_an_oserror() -> None:
    with headrace.connect(ANY) as channel:
        puller = channel.puller()
        with headrace.connect(puller.address) as other, pytest.raises(OSError, match="in use"):
            other.puller()


def test_a_longer_message_than_allowed_is_not_taken() -> None:
    with headrace.connect(ANY, max_message_bytes=1000) as one:
        puller = one.puller()
        with headrace.connect(puller.address, linger_s=0) as other:
            pusher = other.pusher()
            pusher.send(Event.of("x" * 1001))
            assert puller.receive(0.3) is None
            pusher.send(Event.of("x" * 1000), timeout_s=10)
            received = puller.receive(10)
            assert received is not None
            assert len(received.event.value or b"") == 1000


def test_no_threads_or_descriptors_are_left_behind() -> None:
    code = """
import os, threading, headrace
from headrace import Event
def one():
    with headrace.connect("zmq+tcp://127.0.0.1:0") as channel:
        puller = channel.puller()
        with headrace.connect(puller.address) as other:
            other.pusher().send(Event.of("x"))
            assert puller.receive(10)
one()
before = len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))
for _ in range(20):
    one()
after = len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))
assert after[0] <= before[0] and after[1] <= before[1] + 1, (before, after)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


# --- CURVE


def gets_through(*, server: dict[str, object], client: dict[str, object]) -> bool:
    with headrace.connect(ANY, linger_s=0, **server) as one:
        puller = one.puller()
        with headrace.connect(puller.address, linger_s=0, **client) as other:
            pusher = other.pusher()
            pusher.send(Event.of("hello"))
            return puller.receive(0.7) is not None


def test_with_curve_only_those_who_know_the_key_get_through(tmp_path: Path) -> None:
    server, friend, stranger = KeyPair.new(), KeyPair.new(), KeyPair.new()
    public, _ = friend.write(tmp_path, "friend")
    only_friends = {"keys": server, "allowed_keys": [public]}
    assert gets_through(server={"keys": server}, client={"server_key": server.public})
    assert gets_through(server=only_friends, client={"server_key": server.public, "keys": tmp_path / "friend.key_secret"})
    assert not gets_through(server=only_friends, client={"server_key": server.public, "keys": stranger})
    assert not gets_through(server=only_friends, client={"server_key": server.public})
    assert not gets_through(server={"keys": server}, client={"server_key": stranger.public})
    assert not gets_through(server={"keys": server}, client={})
    assert not gets_through(server={}, client={"server_key": server.public})


def test_key_files_are_those_of_pyzmq_and_their_secrets_are_private(tmp_path: Path) -> None:
    pair = KeyPair.new()
    public, secret = pair.write(tmp_path, "mine")
    assert zmq.auth.load_certificate(public) == (pair.public.encode(), None)
    assert zmq.auth.load_certificate(secret) == (pair.public.encode(), pair.secret.encode())
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert KeyPair.read(secret) == pair
    assert pair.secret not in repr(pair)
    with pytest.raises(FileExistsError):
        pair.write(tmp_path, "mine")
    _, theirs = zmq.auth.create_certificates(tmp_path, "theirs")
    assert KeyPair.read(theirs).public
    with pytest.raises(ValueError, match="no pair"):
        KeyPair.read(public)
    (tmp_path / "junk").write_text('public-key = "short"')
    with pytest.raises(ValueError, match="no key of CURVE"):
        headrace.connect(ANY, server_key=str(tmp_path / "junk"))


def test_a_pusher_whose_key_is_refused_times_out() -> None:
    server, stranger = KeyPair.new(), KeyPair.new()
    with headrace.connect(ANY, keys=server, allowed_keys=[]) as one:
        puller = one.puller()
        with headrace.connect(puller.address, server_key=server.public, keys=stranger, linger_s=0, high_water_mark=1) as other:
            pusher = other.pusher()
            pusher.send(Event.of("queued"))
            with pytest.raises(TimedOut):
                pusher.send(Event.of("one too many"), timeout_s=0.3)
        assert puller.receive(0) is None
