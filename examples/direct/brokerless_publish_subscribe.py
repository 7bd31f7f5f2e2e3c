"""Publish and subscribe between Python programs, with no server in between: ZeroMQ, and the same Event as everywhere.

    python brokerless_publish_subscribe.py            all of it, in four processes
    python brokerless_publish_subscribe.py publish     or each part in a terminal of its own, in whatever order
    python brokerless_publish_subscribe.py subscribe prices.

It shows the three patterns: prices are published to whoever is subscribed (PUB/SUB), each subscriber pushes what it has counted
to one place (PUSH/PULL), and anybody can ask the publisher for the last price (REQ/REP).
"""

from __future__ import annotations

import multiprocessing
import random
import sys
import threading

import headrace
from headrace import Event, Received

PRICES = "zmq+tcp://127.0.0.1:9556"
COUNTS = "zmq+tcp://127.0.0.1:9557"
ASK = "zmq+tcp://127.0.0.1:9558"
SUBSCRIBERS = ("prices.", "prices.ACME", "news.")
EVENTS = 1000


def publish(subscriptions: int = 1) -> None:
    """Binds, waits until somebody listens, and publishes. What was sent before would be lost: that is how PUB/SUB is."""
    last: dict[str, float] = {"ACME": 100.0, "HDRC": 120.0}

    def answer(request: Received) -> Event:
        return Event.of({"price": last[request.event.text()]})

    with headrace.connect(ASK) as asked, headrace.connect(PRICES) as channel:
        replier = asked.replier()
        threading.Thread(target=replier.serve, args=(answer,), daemon=True).start()
        publisher = channel.publisher(high_water_mark=10_000)
        publisher.wait_for_subscribers(subscriptions)
        chance = random.Random(1)
        for number in range(EVENTS):
            symbol = chance.choice(list(last))
            last[symbol] = round(last[symbol] + chance.gauss(0, 0.1), 2)
            publisher.send(Event.of({"price": last[symbol]}, key=symbol, headers={"number": str(number)}), f"prices.{symbol}")
        publisher.send(Event.of("markets closed"), "news.markets")
        for topic in ("prices.ACME.end", "news.end"):
            publisher.send(Event.of("end"), topic)
        with headrace.connect(COUNTS) as results:
            results.pusher().send(Event.of(last_price("ACME"), key="ACME is at"))
            results.pusher().send(Event.of(last_price("NONE"), key="NONE is at"))


def last_price(symbol: str) -> object:
    """Asks the publisher. Waits for an answer, tries again if it must, and gives up in the end."""
    with headrace.connect(ASK) as channel, channel.requester() as requester:
        try:
            return requester.request(Event.of(symbol), timeout_s=2, attempts=3).json()
        except Exception as error:
            return f"no price: {error}"


def subscribe(prefix: str) -> None:
    """Connects, whether somebody publishes already or not, and pushes how much came."""
    count = 0
    with headrace.connect(PRICES, high_water_mark=10_000) as channel:
        for received in channel.subscriber(prefix):
            if received.topic.endswith(".end"):
                break
            count += 1
    with headrace.connect(COUNTS) as results:  # closing it waits until the result is sent
        results.pusher().send(Event.of(count, key=prefix))


def main() -> None:
    processes = [multiprocessing.Process(target=subscribe, args=(prefix,)) for prefix in SUBSCRIBERS]
    processes.append(multiprocessing.Process(target=publish, args=(len(SUBSCRIBERS),)))
    with headrace.connect(COUNTS) as results:
        puller = results.puller()
        for process in processes:
            process.start()
        for _ in range(len(SUBSCRIBERS) + 2):
            received = puller.receive(timeout_s=60)
            assert received is not None, "somebody is missing"
            key = (received.event.key or b"").decode()
            print(f"{key}: {received.event.text()}")
    for process in processes:
        process.join()


if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")  # ZeroMQ does not survive a fork
    match sys.argv[1:]:
        case []:
            main()
        case ["publish"]:
            publish()
        case ["subscribe", prefix]:
            subscribe(prefix)
        case _:
            sys.exit(__doc__)
