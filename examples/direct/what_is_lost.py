"""What is lost while a consumer is offline, and which option makes it durable.

    python what_is_lost.py

Thirty events are sent. The consumer is there for the first ten, away for the next ten, and back for the last ten. It starts a
server of its own on loopback, for the ways that need one, and prints one line for each way:

    zmq pub/sub                  no server: what is published while nobody is subscribed is gone
    topic -> zmq pub             the same sockets, but the events come from a topic: gone as well, and yet the consumer knows
                                 which ones by their offsets, and can read them in the topic
    topic -> zmq push            "socket": "push" instead of "pub": what nobody takes waits in the topic
    zmq push -> topic -> push    the same for whoever sends: its events are durable before anybody pulls them
"""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import headrace
from headrace import Event
from headrace.client.kafka import Cluster, Producer, Reader, TopicPartition
from headrace.client.kafka.topics import create_topic
from headrace.testing import HeadraceServer, free_port, wait_until

EVENTS = [Event.of(f"event {number}", key=number) for number in range(30)]
BEFORE, AWAY, AFTER = EVENTS[:10], EVENTS[10:20], EVENTS[20:]
HOST = "tcp://127.0.0.1"
NOTICED_S = 1.0  # what is pushed before ZeroMQ has noticed that the puller is gone, goes with it


class Consumer:
    """Collects what comes, by a subscriber or a puller that is made anew each time it comes online."""

    def __init__(self, open_it: Callable[[], object]) -> None:
        self.events: list[Event] = []
        self.offsets: list[int] = []
        self._open = open_it

    @contextmanager
    def online(self, until: Event) -> Iterator[None]:
        """Comes online, lets the others do what they do, and stays until this event has come."""
        with self._open() as socket:  # type: ignore[attr-defined]
            yield
            while not self.events or self.events[-1].key != until.key:
                received = socket.receive(timeout_s=30)
                assert received is not None, f"nothing came, and {until.key!r} should have"
                if received.event.value != b"hello":
                    self.events.append(received.event)
                    if received.offset is not None:
                        self.offsets.append(received.offset)


def brokerless() -> str:
    with (
        headrace.connect(f"zmq+{HOST}:0") as sending,
        sending.publisher() as publisher,
        headrace.connect(publisher.address) as channel,
    ):

        def send(events: list[Event]) -> None:
            for event in events:
                publisher.send(event, "events")

        consumer = Consumer(channel.subscriber)
        with consumer.online(until=BEFORE[-1]):
            publisher.wait_for_subscribers()  # or the first ones would be lost as well
            send(BEFORE)
        wait_until(lambda: publisher.subscriptions == 0)
        send(AWAY)
        with consumer.online(until=AFTER[-1]):
            publisher.wait_for_subscribers()
            send(AFTER)
    return summary(consumer)


def topic_to_pub(server: HeadraceServer) -> str:
    topic, address = new_topic(server, "prices"), f"{HOST}:{free_port()}"
    route(server, "prices-out", {"topic": topic, "destination": {"type": "zmq", "address": address, "socket": "pub"}})
    with headrace.connect(f"zmq+{address}") as channel:
        consumer = Consumer(lambda: subscribed(server, channel, topic))
        with consumer.online(until=BEFORE[-1]):
            publish(server, topic, BEFORE)
        publish(server, topic, AWAY)
        delivered(server, "prices-out")
        with consumer.online(until=AFTER[-1]):
            publish(server, topic, AFTER)
    missed = [event for offset, event in in_topic(server, topic) if offset not in consumer.offsets]
    return f"{summary(consumer)}; {len(missed)} found in the topic"


def topic_to_push(server: HeadraceServer) -> str:
    topic, address = new_topic(server, "work"), f"{HOST}:{free_port()}"
    route(server, "work-out", {"topic": topic, "destination": {"type": "zmq", "address": address, "socket": "push"}})
    return take_all(address, lambda events: publish(server, topic, events))


def push_to_push(server: HeadraceServer) -> str:
    topic, inbound, outbound = new_topic(server, "orders"), f"{HOST}:{free_port()}", f"{HOST}:{free_port()}"
    source = {"type": "zmq", "address": inbound, "socket": "pull"}
    route(server, "orders-in", {"source": source, "destination": {"type": "topic", "topic": topic}})
    route(server, "orders-out", {"topic": topic, "destination": {"type": "zmq", "address": outbound, "socket": "push"}})
    with headrace.connect(f"zmq+{inbound}") as sending, sending.pusher() as pusher:

        def push(events: list[Event]) -> None:
            for event in events:
                pusher.send(event)

        return take_all(outbound, push)


def take_all(address: str, send: Callable[[list[Event]], None]) -> str:
    with headrace.connect(f"zmq+{address}") as channel:
        consumer = Consumer(lambda: channel.puller(bind=False))
        with consumer.online(until=BEFORE[-1]):
            send(BEFORE)
        time.sleep(NOTICED_S)
        send(AWAY)
        with consumer.online(until=AFTER[-1]):
            send(AFTER)
    return summary(consumer)


def summary(consumer: Consumer) -> str:
    got = {event.key for event in consumer.events}
    lost = [event for event in EVENTS if event.key not in got]
    return f"{len(got)} of {len(EVENTS)} received, {len(lost)} lost"


# --- the server


def new_topic(server: HeadraceServer, name: str) -> str:
    create_topic(Cluster(server.kafka), name, partitions=1)
    return name


def route(server: HeadraceServer, name: str, definition: dict[str, object]) -> None:
    ask(server, "PUT", f"/v1/routes/{name}", definition)


def ask(server: HeadraceServer, method: str, path: str, body: object = None) -> dict[str, object]:
    request = urllib.request.Request(server.http + path, method=method)
    request.add_header("Authorization", "Basic Z3Vlc3Q6Z3Vlc3Q=")  # guest:guest
    request.add_header("Content-Type", "application/json")
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(request, data=data) as answer:
        found: dict[str, object] = json.load(answer)
    return found


def publish(server: HeadraceServer, topic: str, events: list[Event]) -> None:
    producer = Producer(Cluster(server.kafka))
    for event in events:
        producer.send(topic, event)
    producer.flush()


def in_topic(server: HeadraceServer, topic: str) -> list[tuple[int, Event]]:
    """What it holds, without the hellos."""
    reader = Reader(Cluster(server.kafka), {TopicPartition(topic, 0): 0})
    found: list[tuple[int, Event]] = []
    while len(found) < len(EVENTS):
        found += [(one.offset, Event(one.key, one.value)) for one in reader.poll() if one.value != b"hello"]
    return found


def delivered(server: HeadraceServer, name: str) -> None:
    wait_until(lambda: ask(server, "GET", f"/v1/routes/{name}")["lag"] == 0)


def subscribed(server: HeadraceServer, channel: object, topic: str) -> object:
    """A subscriber whose subscription has arrived: it is greeted until it hears it."""
    subscriber = channel.subscriber(topic)  # type: ignore[attr-defined]

    def heard() -> bool:
        publish(server, topic, [Event.of("hello")])
        return subscriber.receive(timeout_s=0.1) is not None

    wait_until(heard)
    return subscriber


def main() -> None:
    print(f"zmq pub/sub                 {brokerless()}")
    with HeadraceServer() as server:
        print(f"topic -> zmq pub            {topic_to_pub(server)}")
        print(f"topic -> zmq push           {topic_to_push(server)}")
        print(f"zmq push -> topic -> push   {push_to_push(server)}")


if __name__ == "__main__":
    main()
