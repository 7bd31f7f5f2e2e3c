from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
import zmq

import headrace
from headrace import Event, Received
from headrace.client.zeromq.errors import Closed, TimedOut
from headrace.testing import wait_until

if TYPE_CHECKING:
    from tests.client.zeromq.conftest import Start

ANY = "zmq+tcp://127.0.0.1:0"
WHOLE = Event(b"k", b"v", (("a", None), ("a", b"1")), 1_700_000_000_000)


def test_subscribers_in_other_processes_get_what_they_asked_for(start: Start) -> None:
    code = """
with headrace.connect(sys.argv[1]) as channel:
    for received in channel.subscriber(*sys.argv[2:]):
        print(received.topic, received.event.text())
        if received.topic == "end":
            break
"""
    with headrace.connect(ANY) as channel, channel.publisher() as publisher:
        first = start(code, publisher.address, "prices.", "end")
        second = start(code, publisher.address)
        publisher.wait_for_subscribers(3, timeout_s=20)
        for topic in ("prices.ACME", "news", "price", "prices.", "end"):
            publisher.send(Event.of(topic.upper()), topic)
        assert first.communicate(timeout=20)[0].split("\n")[:-1] == ["prices.ACME PRICES.ACME", "prices. PRICES.", "end END"]
        assert len(second.communicate(timeout=20)[0].splitlines()) == 5


@pytest.mark.parametrize("address", [ANY, "zmq+tcp://[::1]:0", "zmq+ipc://{}/socket"])
def test_an_event_arrives_whole(address: str, tmp_path: object) -> None:
    with headrace.connect(address.format(tmp_path)) as one:
        publisher = one.publisher()
        with headrace.connect(publisher.address) as other:
            subscriber = other.subscriber("t")
            publisher.wait_for_subscribers(timeout_s=10)
            publisher.send(WHOLE, "topic")
            publisher.send(Event(), "t")
            assert subscriber.receive(10) == Received(WHOLE, "topic")
            assert subscriber.receive(10) == Received(Event(), "t")
            assert subscriber.receive(0) is None


def test_a_subscriber_may_bind_and_a_publisher_connect() -> None:
    with headrace.connect(ANY, bind=True) as one:
        subscriber = one.subscriber()
        with headrace.connect(subscriber.address) as other:
            publisher = other.publisher(bind=False)
            # ZeroMQ tells of a subscription while the subscriber receives
            wait_until(lambda: subscriber.receive(0) or publisher.subscriptions == 1)
            publisher.send(WHOLE)
            assert subscriber.receive(10) == Received(WHOLE)


def test_subscriptions_come_and_go() -> None:
    with headrace.connect(ANY) as one:
        publisher = one.publisher()
        assert publisher.subscriptions == 0
        with pytest.raises(TimedOut, match="0 of 1"):
            publisher.wait_for_subscribers(timeout_s=0.01)
        with headrace.connect(publisher.address) as other:
            subscriber = other.subscriber("a", "b")
            publisher.wait_for_subscribers(2, timeout_s=10)
            subscriber.subscribe("c")
            publisher.wait_for_subscribers(3, timeout_s=10)
            subscriber.unsubscribe("a")
            wait_until(lambda: publisher.subscriptions == 2)
            publisher.send(Event(value=b"lost"), "a")
            publisher.send(Event(value=b"kept"), "c")
            assert subscriber.receive(10) == Received(Event(value=b"kept"), "c")
        wait_until(lambda: publisher.subscriptions == 0)


def test_what_a_slow_subscriber_does_not_read_is_dropped_and_the_publisher_goes_on() -> None:
    with headrace.connect(ANY, high_water_mark=10) as one:
        publisher = one.publisher()
        with headrace.connect(publisher.address, high_water_mark=10) as other:
            subscriber = other.subscriber()
            publisher.wait_for_subscribers(timeout_s=10)
            for number in range(3000):
                publisher.send(Event.of("x" * 10_000, key=number))
            first = subscriber.receive(10)
            assert first is not None
            assert first.event.key == b"0"
            got = 1
            while subscriber.receive(0.2) is not None:
                got += 1
            assert got < 3000


def test_closing_the_channel_ends_whoever_waits_in_another_thread() -> None:
    channel = headrace.connect(ANY)
    subscriber = channel.subscriber(bind=True)
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.extend(subscriber))
    thread.start()
    channel.close()
    thread.join(10)
    assert not thread.is_alive()
    with pytest.raises(Closed):
        subscriber.receive(0)


def test_messages_that_are_no_events_are_dropped_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    with headrace.connect(ANY) as channel:
        puller = channel.puller()
        context = zmq.Context()
        push = context.socket(zmq.PUSH)
        push.connect(puller.address.removeprefix("zmq+"))
        for _ in range(100):
            push.send_multipart([b"1", b"2", b"3", b"4"])
        push.send_multipart([b"topic", b"plain"])
        assert puller.receive(10) == Received(Event(value=b"plain"), "topic")
        assert puller.dropped == 100
        assert len(caplog.records) == 1
        context.destroy(linger=0)


def test_only_events_are_sent() -> None:
    with headrace.connect(ANY) as channel, channel.publisher() as publisher:
        with pytest.raises(TypeError, match="an Event is sent"):
            publisher.send("text")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="content"):
            channel.publisher(content="all")
