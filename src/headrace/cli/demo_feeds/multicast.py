"""The bank's transactions as a feed over UDP multicast, on loopback: the route that sends it, and one who listens.

The listener fetches back from the topic what it misses. Its port is a free one; the route of an earlier demo is moved there.
"""

from __future__ import annotations

import socket

from headrace.cli.demo_feeds.background import Background
from headrace.client.multicast import connect
from headrace.client.routes import RoutesClient

ROUTE = "demo.transactions.feed"
TOPIC = "bank.transactions"
GROUP = "239.255.7.7"  # of the range that belongs to no one but who uses it
_LISTEN_S = 0.3


class TransactionsOverMulticast(Background):
    name = "transactions over UDP multicast"
    protocol = "multicast"

    def __init__(self, kafka: str, http: str) -> None:
        super().__init__()
        self._kafka = kafka
        self._server = http
        self._port = _free_port()

    def _work(self) -> None:
        url = f"udp://{GROUP}:{self._port}?feed={TOPIC}"
        with connect(url, recover=self._kafka, topic=TOPIC) as channel, channel.subscriber() as subscriber:
            with RoutesClient(self._server) as routes:
                routes.put(ROUTE, topic=TOPIC, destination={"type": "udp", "group": GROUP, "port": self._port, "feed": TOPIC})
            while not self.ended.is_set():
                self.count("heard", len(subscriber.receive_many(_LISTEN_S)))


def _free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
