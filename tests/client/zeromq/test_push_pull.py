from __future__ import annotations

import contextlib
import signal
import threading
from typing import TYPE_CHECKING

import pytest
import zmq

import headrace
from headrace import Event, Received
from headrace.client.zeromq.errors import TimedOut
from headrace.testing import free_port

if TYPE_CHECKING:
    from tests.client.zeromq.conftest import Start

ANY = "zmq+tcp://127.0.0.1:0"

PULL = """
with headrace.connect(sys.argv[1]) as channel:
    puller = channel.puller(bind=False)
    while (received := puller.receive(20)) and received.event.value != b"end":
        print(received.event.text())
"""


def test_work_is_shared_among_processes(start: Start) -> None:
    with headrace.connect(ANY) as channel:
        pusher = channel.pusher(bind=True, high_water_mark=1)
        workers = [start(PULL, pusher.address) for _ in range(2)]
        for number in range(2000):
            pusher.send(Event.of(str(number)), timeout_s=20)
        for _ in workers:
            pusher.send(Event.of("end"), timeout_s=20)
        outputs = [worker.communicate(timeout=60)[0].split() for worker in workers]
    assert sorted(map(int, [*outputs[0], *outputs[1]])) == list(range(2000))


def test_a_pusher_waits_until_somebody_pulls_and_says_so_if_nobody_does() -> None:
    with headrace.connect(ANY, linger_s=0) as channel:
        pusher = channel.pusher(bind=True)
        with pytest.raises(TimedOut, match=r"nobody took it within 0\.01 s"):
            pusher.send(Event.of("early"), timeout_s=0.01)
        with headrace.connect(pusher.address) as other:
            pullers = []
            threading.Timer(0.05, lambda: pullers.append(other.puller(bind=False))).start()
            pusher.send(Event.of("in time"), timeout_s=20)
            assert pullers[0].receive(10) == Received(Event(value=b"in time"))


def test_a_pusher_is_held_at_the_high_water_mark() -> None:
    with headrace.connect(ANY, high_water_mark=5, linger_s=0) as one:
        puller = one.puller()
        with headrace.connect(puller.address, high_water_mark=5, linger_s=0) as other:
            pusher = other.pusher()
            sent = 0
            with contextlib.suppress(TimedOut):
                while sent < 10_000:
                    pusher.send(Event.of("x" * 100_000, key=sent), timeout_s=0.5)
                    sent += 1
            assert sent < 1000
            for number in range(sent):
                received = puller.receive(10)
                assert received is not None
                assert received.event.key == b"%d" % number
            pusher.send(Event.of("again"), timeout_s=10)
            assert puller.receive(10) == Received(Event(value=b"again"))


def test_what_was_queued_goes_to_a_peer_that_comes_back(start: Start) -> None:
    """A puller is killed and another takes its address: the pusher goes on by itself."""
    code = """
with headrace.connect(sys.argv[1]) as channel:
    for received in channel.puller():
        print(received.event.text())
"""
    address = f"zmq+tcp://127.0.0.1:{free_port()}"
    with headrace.connect(address) as channel:
        pusher = channel.pusher()
        first = start(code, address)
        pusher.send(Event.of("one"))
        assert first.stdout is not None
        assert first.stdout.readline() == "one\n"
        first.kill()
        first.wait()
        second = start(code, address)
        pusher.send(Event.of("two"), timeout_s=20)
        pusher.send(Event.of("three"), timeout_s=20)
        assert second.stdout is not None
        lines = [second.stdout.readline()]
        if lines == ["two\n"]:  # it may have gone to the dead one's connection: PUSH knows no better
            lines.append(second.stdout.readline())
        assert lines[-1] == "three\n"


def test_closing_sends_what_is_queued_first() -> None:
    with headrace.connect(ANY) as one:
        puller = one.puller()
        with headrace.connect(puller.address) as other:
            pusher = other.pusher()
            for number in range(500):
                pusher.send(Event.of(str(number)))
        assert [puller.receive(10).event.text() for _ in range(500)] == [str(number) for number in range(500)]


def test_closing_does_not_hang_and_says_what_it_could_not_send(caplog: pytest.LogCaptureFixture) -> None:
    channel = headrace.connect(f"zmq+tcp://127.0.0.1:{free_port()}", linger_s=0.05)
    channel.pusher().send(Event.of("for nobody"))
    channel.close()
    assert "the rest is lost" in caplog.text
    channel.close()


def test_a_channel_that_nobody_closed_sends_what_is_queued_when_the_program_ends(start: Start) -> None:
    with headrace.connect(ANY) as channel:
        puller = channel.puller()
        start("headrace.connect(sys.argv[1]).pusher().send(Event.of('bye'))", puller.address)
        assert puller.receive(20) == Received(Event(value=b"bye"))


def test_plain_pyzmq_programs_take_part() -> None:
    context = zmq.Context()
    pull = context.socket(zmq.PULL)
    address = f"zmq+tcp://127.0.0.1:{pull.bind_to_random_port('tcp://127.0.0.1')}"
    event = Event(b"k", b"v")
    with headrace.connect(address) as channel:
        channel.pusher(content="value").send(event, "topic")
        assert pull.recv_multipart() == [b"topic", b"v"]
        channel.pusher(content="bare").send(event, "topic")
        assert pull.recv_multipart() == [b"v"]
    context.destroy(linger=0)


def test_ctrl_c_ends_whoever_waits(start: Start) -> None:
    code = """
with headrace.connect(sys.argv[1]) as channel:
    puller = channel.puller()
    try:
        print(puller.address)
        puller.receive()
    except KeyboardInterrupt:
        print("interrupted")
"""
    process = start(code, ANY)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("zmq+tcp://")
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "interrupted\n"
    assert process.wait(10) == 0


def test_a_forked_child_is_told_to_connect_by_itself(start: Start) -> None:
    code = """
import os
channel = headrace.connect(sys.argv[1])
puller = channel.puller()
if os.fork() == 0:
    try:
        channel.puller()
    except RuntimeError as error:
        print(error)
        sys.exit(0)
os.wait()
channel.close()
print("closed")
"""
    output, errors = start(code, ANY).communicate(timeout=20)
    assert output.splitlines() == ["ZeroMQ does not survive a fork: connect in the child, not before it", "closed"], errors
