"""A server killed with SIGKILL again and again, under confirmed persistent publishing and acking over AMQP.

- Every confirmed message is delivered, sooner or later; one that is rejected is delivered again from the queue of dead letters.
- A message that was delivered before comes back flagged as redelivered, and one whose ack had been written never comes back.
- Nothing is delivered that was never published, and what is delivered first comes in the order of publishing.
"""

from __future__ import annotations

import logging
import random
import threading
import time
import zlib
from collections import defaultdict
from collections.abc import Callable

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection
from pika.spec import Basic, BasicProperties

from headrace.testing import HeadraceServer, wait_until

pytestmark = [pytest.mark.soak, pytest.mark.timeout(7200)]

logging.getLogger("pika").setLevel(logging.CRITICAL)  # it need not tell of every connection that a kill ends

EXCHANGE = "campaign"
QUEUES: dict[str, dict[str, object]] = {
    "classic": {},
    "quorum": {"x-queue-type": "quorum", "x-delivery-limit": 1_000_000},
    "priority": {"x-max-priority": 4},
    "rejected": {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"},
}
DEAD = "dead"
PROGRESS_TIMEOUT_S = 60.0
ACK_WRITE_S = 0.5  # acks are written a few milliseconds after they come; this is long enough for any machine
IN_FLIGHT = 1_000
PREFETCH = 300


def connect(url: str) -> BlockingConnection:
    parameters = pika.URLParameters(url)
    parameters.socket_timeout = parameters.blocked_connection_timeout = 20
    return BlockingConnection(parameters)


def encode(number: int, padding: int) -> bytes:
    text = b"%d %s" % (number, b"x" * padding)
    return b"%08x %s" % (zlib.crc32(text), text)


def decode(body: bytes) -> int:
    """The number in a body, or an error if one bit of it has changed."""
    check, text = body.split(b" ", 1)
    assert int(check, 16) == zlib.crc32(text), body[:60]
    return int(text.split(b" ", 1)[0])


class Worker(threading.Thread):
    """Works on a connection until told to stop; when the server dies it makes a new one."""

    def __init__(self, url: str, chance: random.Random) -> None:
        super().__init__(daemon=True)
        self.problems: list[str] = []
        self.chance = chance
        self._url = url
        self._stop_now = threading.Event()

    def run(self) -> None:
        while not self._stop_now.is_set() and not self.problems:
            try:
                connection = connect(self._url)
            except (
                pika.exceptions.AMQPError,
                OSError,
                ValueError,
            ):  # a ValueError: pika's own, of a socket that was lost
                time.sleep(0.02)  # the server is down
                continue
            try:
                self.begin(connection)
                while not self._stop_now.is_set() and not self.problems:
                    self.work(connection)
                    connection.process_data_events(0.002)
                connection.close()
            except pika.exceptions.ConnectionClosedByBroker as closed:
                if closed.reply_code != 320:  # a server that was asked to stop
                    self.problems.append(str(closed))
            except pika.exceptions.ChannelClosedByBroker as closed:
                self.problems.append(str(closed))
            except (pika.exceptions.AMQPError, OSError):
                continue
            except Exception as failure:  # a failed check, or something that nobody thought of
                self.problems.append(repr(failure))

    def begin(self, connection: BlockingConnection) -> None:
        raise NotImplementedError

    def work(self, connection: BlockingConnection) -> None:
        """Something after each look at the socket."""

    def finish(self) -> None:
        self._stop_now.set()
        self.join(PROGRESS_TIMEOUT_S)


class Publisher(Worker):
    """Publishes 0, 1, 2, … to the queues in turn and notes what was confirmed. What a kill leaves open is never sent again."""

    def __init__(self, url: str, chance: random.Random) -> None:
        super().__init__(url, chance)
        self.sent = 0
        self.confirmed: set[int] = set()
        self.paused = threading.Event()
        self._open: dict[int, int] = {}  # delivery tag -> number

    def begin(self, connection: BlockingConnection) -> None:
        self._open = {}
        self._tag = 0
        self._channel = connection.channel()
        ready: list[object] = []
        self._channel._impl.confirm_delivery(self._confirm, ready.append)
        while not ready:
            connection.process_data_events(0.01)

    def work(self, connection: BlockingConnection) -> None:
        if self.paused.is_set():
            return
        for _ in range(min(self.chance.randrange(1, 60), IN_FLIGHT - len(self._open))):
            number, queue = self.sent, queue_of(self.sent)
            self.sent += 1
            self._tag += 1
            self._open[self._tag] = number
            properties = BasicProperties(delivery_mode=2, priority=number % 5, message_id=str(number))
            self._channel._impl.basic_publish(EXCHANGE, queue, encode(number, self.chance.randrange(300)), properties)

    def _confirm(self, frame: pika.frame.Method[Basic.Ack]) -> None:
        tag = frame.method.delivery_tag
        if not isinstance(frame.method, Basic.Ack):
            self.problems.append(f"message {self._open.get(tag)} was refused")
        tags = [tag] if not frame.method.multiple else [t for t in self._open if t <= tag]
        for settled in tags:
            self.confirmed.add(self._open.pop(settled))

    @property
    def idle(self) -> bool:
        return not self._open

    def __str__(self) -> str:
        return f"publisher: {self.sent} sent, {len(self.confirmed)} confirmed, {len(self._open)} open"


def queue_of(number: int) -> str:
    return list(QUEUES)[number % len(QUEUES)]


class Subscriber(Worker):
    """Takes what comes to one queue, acks most of it at random moments, gives some back, and checks every delivery."""

    def __init__(self, url: str, chance: random.Random, queue: str, sent: Callable[[], int]) -> None:
        super().__init__(url, chance)
        self.queue = queue
        self.home = "rejected" if queue == DEAD else queue  # where its messages were published to
        self.seen: dict[int, int] = defaultdict(int)
        self.acked: set[int] = set()
        self.rejected: set[int] = set()
        self.settled: set[int] = set()
        """Acked long enough ago that the ack is on the disk: these may never come back."""
        self._sent = sent
        self._highest = -1
        self._missing: set[int] = set()
        self._waiting: list[tuple[int, int]] = []  # (delivery tag, number)

    def begin(self, connection: BlockingConnection) -> None:
        self._waiting = []
        channel = connection.channel()
        channel.basic_qos(prefetch_count=PREFETCH)
        channel.basic_consume(self.queue, self._take)
        self._channel = channel

    def _take(self, _: BlockingChannel, method: Basic.Deliver, properties: BasicProperties, body: bytes) -> None:
        number = decode(body)
        where = f"{self.queue}: message {number}"
        assert number < self._sent(), f"{where} was never published"
        assert queue_of(number) == self.home, f"{where} in the wrong queue"
        assert method.routing_key == self.queue, f"{where} with the key {method.routing_key}"
        assert properties.message_id == str(number), f"{where} has the properties of another"
        if self.queue == DEAD:  # a letter may have been sent twice: written here, and its end there not yet
            assert properties.headers["x-death"][0]["queue"] == self.home, f"{where} died elsewhere"
        else:
            assert number not in self.settled, f"{where} came back though its ack had been written"
            if number in self.seen:
                assert method.redelivered, f"{where} came again without the flag"
            elif self.queue != "priority":
                assert number > self._highest, f"{where} came after {self._highest}"
                self._highest = number
        self.seen[number] += 1
        self.acked.discard(number)  # what was said before a kill does not count
        self.rejected.discard(number)
        self._waiting.append((method.delivery_tag, number))

    def work(self, connection: BlockingConnection) -> None:
        if not self._waiting:
            return
        way = self.chance.random()
        if way < (0.3 if self.queue == "rejected" else 0.6):  # the oldest few at once
            tag, _ = self._waiting[count := self.chance.randrange(len(self._waiting))]
            self.acked.update(number for _, number in self._waiting[: count + 1])
            self._channel.basic_ack(tag, multiple=True)  # noted before, since it may be sent and fail all the same
            del self._waiting[: count + 1]
        elif way < (0.6 if self.queue == "rejected" else 0.9):  # one from anywhere
            tag, number = self._waiting.pop(self.chance.randrange(len(self._waiting)))
            self.acked.add(number)
            self._channel.basic_ack(tag)
        elif self.queue == "rejected" and way < 0.98:
            tag, _ = self._waiting[count := self.chance.randrange(len(self._waiting))]
            self.rejected.update(number for _, number in self._waiting[: count + 1])
            self._channel.basic_nack(tag, multiple=True, requeue=False)
            del self._waiting[: count + 1]
        else:
            tag, _ = self._waiting.pop(self.chance.randrange(len(self._waiting)))
            self._channel.basic_nack(tag, requeue=True)

    @property
    def idle(self) -> bool:
        return not self._waiting

    def has_done(self, numbers: set[int]) -> bool:
        self._missing = numbers - self.acked - self.rejected
        return self.idle and not self._missing

    def __str__(self) -> str:
        missing = sorted(self._missing)
        unseen = sum(number not in self.seen for number in missing)
        held = f"{len(self._waiting)} unsettled" if self._waiting else "idle"
        return f"{self.queue}: {held}, {len(missing)} missing from {missing[:3]} to {missing[-3:]}, {unseen} of them never seen"


def declare(url: str) -> None:
    connection = connect(url)
    channel = connection.channel()
    channel.exchange_declare(EXCHANGE, "direct", durable=True)
    for queue, arguments in QUEUES.items():
        channel.queue_declare(queue, durable=True, arguments=arguments)
        channel.queue_bind(queue, EXCHANGE, queue)
    channel.queue_declare(DEAD, durable=True)
    connection.close()


def ready(url: str) -> dict[str, int]:
    connection = connect(url)
    channel = connection.channel()
    counts = {queue: channel.queue_declare(queue, passive=True).method.message_count for queue in (*QUEUES, DEAD)}
    connection.close()
    return counts


def campaign(url: str, crash: Callable[[], None], kills: int, chance: random.Random) -> None:
    declare(url)
    publisher = Publisher(url, random.Random(chance.randrange(2**32)))
    subscribers = {
        queue: Subscriber(url, random.Random(chance.randrange(2**32)), queue, lambda: publisher.sent)
        for queue in (*QUEUES, DEAD)
    }
    workers: list[Worker] = [publisher, *subscribers.values()]
    for worker in workers:
        worker.start()

    def problems() -> list[str]:
        return [problem for worker in workers for problem in worker.problems]

    def check() -> None:
        assert problems() == []

    def wait(condition: Callable[[], bool], what: str) -> None:
        try:
            wait_until(lambda: condition() or problems(), timeout_s=PROGRESS_TIMEOUT_S, what=what)
        except AssertionError as late:
            stories = [str(worker) for worker in workers]
            raise AssertionError(f"{late}; ready: {ready(url)}; {'; '.join(stories)}") from None
        check()

    def quiet() -> None:
        """Everything that was confirmed is delivered and acked, and those acks are on the disk."""
        publisher.paused.set()
        wait(lambda: publisher.idle, "the confirms")
        for queue in QUEUES:
            mine = {number for number in publisher.confirmed if queue_of(number) == queue}
            wait(lambda queue=queue, mine=mine: subscribers[queue].has_done(mine), f"{queue} to be read")
        wait(lambda: subscribers[DEAD].has_done(set(subscribers["rejected"].rejected)), "the dead letters")
        wait(lambda: not any(ready(url).values()), "empty queues")
        for subscriber in subscribers.values():
            wait(lambda subscriber=subscriber: subscriber.idle, f"the last acks of {subscriber.queue}")
        acked = {queue: set(subscriber.acked) for queue, subscriber in subscribers.items()}
        time.sleep(ACK_WRITE_S)  # not to wait for anything that can be seen: see ACK_WRITE_S
        for queue, subscriber in subscribers.items():
            subscriber.settled |= acked[queue] & subscriber.acked
        publisher.paused.clear()

    for kill in range(kills):
        goal = len(publisher.confirmed) + chance.randrange(1, 3000)
        wait(lambda goal=goal: len(publisher.confirmed) >= goal, f"progress before kill {kill}")
        if kill % 4 == 2:
            quiet()
        time.sleep(chance.uniform(0, 0.02))  # not to wait for anything: so that the kill meets any moment
        crash()
        check()
    goal = len(publisher.confirmed) + 500
    wait(lambda: len(publisher.confirmed) >= goal, "more after the last kill")
    quiet()
    publisher.paused.set()
    wait(lambda: publisher.idle, "the last confirms")
    publisher.finish()  # `quiet` would let it go on
    quiet()
    for worker in workers:
        worker.finish()
    check()
    assert publisher.confirmed <= {number for subscriber in subscribers.values() for number in subscriber.seen}
    crash()
    assert not any(ready(url).values())  # all acked, all written: nothing comes back


@pytest.mark.parametrize("durability", ["fsync", "flush"])  # both survive the death of the process
def test_every_confirmed_message_survives_a_killed_server(durability, headrace_factory, kills, chance):
    server: HeadraceServer = headrace_factory(
        durability=durability, settings={"log.segment.bytes": chance.choice([2**20, 2**24, 2**30])}
    )

    def crash() -> None:
        server.crash()
        server.restart()

    campaign(server.address("amqp"), crash, kills, chance)
