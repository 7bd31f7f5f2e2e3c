from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
import zmq

import headrace
from headrace import Event, Received
from headrace.client.zeromq import NoReply, RequestFailed, ZeroMqError
from headrace.testing import free_port

if TYPE_CHECKING:
    from tests.client.zeromq.conftest import Start

ANY = "zmq+tcp://127.0.0.1:0"

SHOUT = """
with headrace.connect(sys.argv[1]) as channel:
    replier = channel.replier()
    print(replier.address)
    replier.serve(lambda received: Event.of(received.event.text().upper(), key=received.topic))
"""


def test_an_answer_comes_from_another_process(start: Start) -> None:
    address = start(SHOUT, ANY).stdout.readline().strip()  # type: ignore[union-attr]
    with headrace.connect(address) as channel, channel.requester() as requester:
        assert requester.request(Event.of("hello"), "t") == Event(b"t", b"HELLO")
        assert requester.request(Event.of("again")) == Event(b"", b"AGAIN")


def test_a_lost_replier_is_found_again_when_it_is_back(start: Start) -> None:
    address = f"zmq+tcp://127.0.0.1:{free_port()}"
    first = start(SHOUT, address)
    with headrace.connect(address) as channel, channel.requester() as requester:
        assert requester.request(Event.of("one"), timeout_s=20).text() == "ONE"
        first.kill()
        first.wait()
        with pytest.raises(NoReply, match=r"after 2 times 0\.1 s"):
            requester.request(Event.of("two"), timeout_s=0.1, attempts=2)
        start(SHOUT, address)
        assert requester.request(Event.of("three"), timeout_s=2, attempts=20).text() == "THREE"


def test_an_answer_that_comes_late_is_not_taken_for_the_next_one() -> None:
    with headrace.connect(ANY) as one:
        replier = one.replier()
        slow = threading.Event()

        def serve() -> None:
            received = replier.receive(20)
            slow.wait(20)
            replier.reply(Event.of("late: " + received.event.text()))
            received = replier.receive(20)
            replier.reply(Event.of("in time: " + received.event.text()))

        thread = threading.Thread(target=serve)
        thread.start()
        with headrace.connect(replier.address) as other:
            requester = other.requester()
            with pytest.raises(NoReply):
                requester.request(Event.of("one"), timeout_s=0.1, attempts=1)
            slow.set()
            assert requester.request(Event.of("two"), timeout_s=20, attempts=1).text() == "in time: two"
        thread.join(10)


def test_a_handler_that_fails_answers_so_and_the_next_request_is_served() -> None:
    with headrace.connect(ANY) as one:
        replier = one.replier()

        def half(received: Received) -> Event:
            return Event.of(str(int(received.event.text()) // 2))

        thread = threading.Thread(target=replier.serve, args=(half,))
        thread.start()
        with headrace.connect(replier.address) as other:
            requester = other.requester()
            with pytest.raises(RequestFailed, match="ValueError: invalid literal"):
                requester.request(Event.of("x"))
            assert requester.request(Event.of("8")).text() == "4"
        one.close()
        thread.join(10)
        assert not thread.is_alive()


def test_plain_programs_are_answered_in_the_form_they_asked_in() -> None:
    with headrace.connect(ANY) as channel:
        replier = channel.replier()
        context = zmq.Context()
        ask = context.socket(zmq.REQ)
        ask.connect(replier.address.removeprefix("zmq+"))
        for request, answer in [([b"1"], [b"one"]), ([b"t", b"1"], [b"", b"one"])]:
            ask.send_multipart(request)
            received = replier.receive(10)
            assert received is not None
            assert received.event == Event(value=b"1")
            replier.reply(Event(b"k", b"one"))
            assert ask.recv_multipart() == answer
        ask.send_multipart([b""] * 9)
        assert replier.receive(0.2) is None
        assert ask.poll(10_000)  # an answer all the same, or neither side could go on
        ask.recv_multipart()
        ask.send(b"2")
        assert replier.receive(10) is not None
        context.destroy(linger=0)


def test_requests_and_replies_take_turns() -> None:
    with headrace.connect(ANY) as channel:
        replier = channel.replier()
        with pytest.raises(ZeroMqError, match="no request"):
            replier.reply(Event())
        with headrace.connect(replier.address) as other:
            thread = threading.Thread(target=other.requester().request, args=(Event(),))
            thread.start()
            assert replier.receive(10) is not None
            with pytest.raises(ZeroMqError, match="not answered yet"):
                replier.receive(0)
            replier.reply(Event())
            thread.join(10)
