"""A stock feed over UDP multicast, with receivers that lose datagrams, and one option that makes up for it.

    python stock_feed.py

It starts a server of its own, on loopback, and needs nothing else. Ticks go to a topic; a route sends the topic to a multicast
group; a bad network loses one datagram in twenty on its way to the receivers. There are three of them:

    plain    takes what comes. It knows exactly which ticks it has missed, and that is all it can do
    whole    has recover="host:port": what was lost is fetched back from the topic, in order, while the feed goes on
    late     comes when it is all over. Without the topic it would have missed everything; start="earliest" reads it from there

So what a consumer loses while it is offline, or while its network is bad, is up to one option.
"""

from __future__ import annotations

import json
import random
import socket
import threading
import urllib.request
from collections.abc import Iterator

import headrace
from headrace import Event
from headrace.client.kafka import Cluster, Producer
from headrace.client.multicast import Subscriber
from headrace.testing import HeadraceServer

TICKS = 20_000
LOSS = 0.05
SYMBOLS = {"HDRC": 120.0, "KFKA": 88.5, "RBBT": 41.2, "ZMQ": 17.9}
EXCHANGE, FLOOR = ("239.255.10.1", 15_501), ("239.255.10.2", 15_502)  # before the bad network, and behind it
FEED = f"udp://{FLOOR[0]}:{FLOOR[1]}?feed=ticks"


def ticks(count: int, seed: int = 1) -> Iterator[Event]:
    """Prices that wander about."""
    chance, prices = random.Random(seed), dict(SYMBOLS)
    for number in range(count):
        symbol = chance.choice(list(prices))
        prices[symbol] = round(max(0.01, prices[symbol] + chance.gauss(0, 0.05)), 2)
        yield Event.of({"number": number, "symbol": symbol, "price": prices[symbol]}, key=symbol)


def send_topic_as_feed(http: str) -> None:
    """The route from the topic to the group."""
    destination = {"type": "udp", "group": EXCHANGE[0], "port": EXCHANGE[1], "mtu": 512, "bytes_per_s": 4_000_000}
    definition = {"topic": "ticks", "destination": destination}
    request = urllib.request.Request(f"{http}/v1/routes/ticks", method="PUT", data=json.dumps(definition).encode())
    request.add_header("Content-Type", "application/json")
    request.add_header("Authorization", "Basic Z3Vlc3Q6Z3Vlc3Q=")  # guest:guest
    urllib.request.urlopen(request).close()


def lose_some(stop: threading.Event) -> None:
    """The bad network: passes on what the exchange sends, but for one datagram in twenty. With plain sockets."""
    chance, loopback = random.Random(2), socket.inet_aton("127.0.0.1")
    taking, giving = socket.socket(type=socket.SOCK_DGRAM), socket.socket(type=socket.SOCK_DGRAM)
    taking.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    taking.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * 1024 * 1024)
    taking.bind(EXCHANGE)
    taking.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(EXCHANGE[0]) + loopback)
    taking.settimeout(0.1)
    giving.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, loopback)
    with taking, giving:
        while not stop.is_set():
            try:
                datagram = taking.recv(65_536)
            except TimeoutError:
                continue
            if chance.random() >= LOSS:
                giving.sendto(datagram, FLOOR)


def take(subscriber: Subscriber, count: int) -> dict[str, float]:
    """The last price of each symbol, after all ticks were received or given up."""
    prices: dict[str, float] = {}
    while subscriber.counts.events + subscriber.counts.lost < count:
        for received in subscriber.receive_many(timeout_s=1.0):
            tick = received.event.json()
            assert isinstance(tick, dict)
            prices[tick["symbol"]] = tick["price"]
    return prices


def main() -> None:
    stop = threading.Event()
    with HeadraceServer() as server, headrace.connect(FEED) as feed:
        network = threading.Thread(target=lose_some, args=(stop,))
        network.start()
        cluster = Cluster(server.kafka)
        cluster.topics(["ticks"], create=True)
        plain, whole = feed.subscriber(), feed.subscriber(recover=server.kafka, start="earliest")
        send_topic_as_feed(server.http)
        while not plain.counts.heartbeats:  # the feed can be heard
            plain.receive(timeout_s=0.1)

        def trade() -> None:
            producer = Producer(cluster)
            for tick in ticks(TICKS):
                producer.send("ticks", tick, 0)
            producer.flush()

        trading = threading.Thread(target=trade)
        trading.start()
        taken: dict[str, dict[str, float]] = {}
        others = threading.Thread(target=lambda: taken.update(plain=take(plain, TICKS)))
        others.start()
        taken["whole"] = take(whole, TICKS)
        others.join()
        trading.join()

        late = feed.subscriber(recover=server.kafka, start="earliest")
        taken["late"] = take(late, TICKS)
        for name, subscriber in (("plain", plain), ("whole", whole), ("late", late)):
            counts = subscriber.counts
            print(
                f"{name:6} {counts.events} of {TICKS} ticks, {counts.lost} missing in {len(subscriber.gaps)} gaps, "
                f"{counts.recovered} fetched back"
            )
        same = taken["whole"] == taken["late"]
        print("prices of whole and late are", "the same" if same else "NOT THE SAME")
        stop.set()
        network.join()
        cluster.close()


if __name__ == "__main__":
    main()
