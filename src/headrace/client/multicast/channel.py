"""A channel: the URL of a feed, from which publishers and subscribers are made.

udp://239.255.0.1:5007?feed=prices&interface=eth0&ttl=4
udp://[ff15::7]:5007
"""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlsplit

from headrace.client.multicast.options import Options, feed_name
from headrace.client.multicast.publisher import Publisher
from headrace.client.multicast.subscriber import Subscriber
from headrace.multicast.feed.sockets import Group


def connect(url: str, **options: Any) -> Channel:
    """Raises ValueError for a URL or options that make no sense. Nothing is opened yet."""
    return Channel(url, **options)


class Channel:
    """What is made from it is closed with it."""

    def __init__(self, url: str, **options: Any) -> None:
        parts = urlsplit(url)
        try:
            port = parts.port
        except ValueError:
            port = None
        if parts.scheme != "udp" or not parts.hostname or port is None or parts.path not in ("", "/") or parts.username:
            raise ValueError(f"{url[:200]!r} is not like udp://239.255.0.1:5007?feed=prices")
        self._address = (parts.hostname, port)
        self._given = {**dict(parse_qsl(parts.query, keep_blank_values=True)), **options}
        self.options = Options.of(self._given)
        self._group(self.options)
        self._made: list[Publisher | Subscriber] = []

    def publisher(self, **options: Any) -> Publisher:
        """Sends to the group. Raises ValueError, or OSError if there is no such interface."""
        chosen = Options.of({**self._given, **options})
        publisher = Publisher(self._group(chosen), chosen)
        self._keep(publisher)
        return publisher

    def subscriber(self, *feeds: str, **options: Any) -> Subscriber:
        """Listens to these feeds of the group, or to the one of the URL. Raises ValueError, or OSError if the group can't be
        joined; with `start` also ClientError, if the log can't be read."""
        chosen = Options.of({**self._given, **options})
        subscriber = Subscriber(self._group(chosen), [feed_name(feed) for feed in feeds] or [chosen.feed], chosen)
        self._keep(subscriber)
        return subscriber

    def close(self) -> None:
        for made in self._made:
            made.close()
        self._made.clear()

    def __enter__(self) -> Channel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _group(self, options: Options) -> Group:
        return Group(*self._address, options.interface)

    def _keep(self, made: Publisher | Subscriber) -> None:
        self._made = [other for other in self._made if not other.closed]
        self._made.append(made)
