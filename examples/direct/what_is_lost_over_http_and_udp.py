"""What is lost while a consumer is offline, over HTTP and UDP, and which option makes it durable.

    python what_is_lost_over_http_and_udp.py

Thirty events are sent. The consumer is there for the first ten, away for the next ten, and back for the last ten. It starts a
server of its own on loopback and prints one line for each way:

    udp feed                     no server: what is sent while nobody listens is gone
    topic -> udp, recover        the feed comes from a topic, and the receiver says where that is (`recover=`) and where it was
                                 (`start=`): it reads the rest from the log, then goes on live
    server-sent events           whoever opens the stream at its end has missed what came before
    the same, Last-Event-ID      what a browser does by itself: it says what it saw last, and gets all that follows
    webhook, one attempt         nobody is there, and nobody tries again: the events are in the dead-letter topic
    webhook                      tried again until somebody is there; nothing is lost
"""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Callable
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import headrace
from headrace import Event
from headrace.testing import HeadraceServer, wait_until

EVENTS = [Event.of(f"event {number}", key=number) for number in range(30)]
BEFORE, AWAY, AFTER = EVENTS[:10], EVENTS[10:20], EVENTS[20:]
GROUP = "239.255.30.1"


def brokerless_feed() -> str:
    channel = headrace.connect(f"udp://{GROUP}:15571?feed=prices")
    got: list[bytes] = []
    with channel, channel.publisher() as publisher:
        for events, listens in ((BEFORE, True), (AWAY, False), (AFTER, True)):
            subscriber = channel.subscriber() if listens else None
            publisher.send_all(events)
            while subscriber is not None and got[-1:] != [events[-1].key]:
                got.append(subscriber.receive(timeout_s=30).event.key)
            if subscriber is not None:
                subscriber.close()
    return summary(got)


def recovered_feed(server: HeadraceServer) -> str:
    new_topic(server, "prices")
    put_route(server, "prices-out", {"topic": "prices", "destination": {"type": "udp", "group": GROUP, "port": 15572}})
    channel = headrace.connect(f"udp://{GROUP}:15572?feed=prices", recover=server.kafka)
    got: list[bytes] = []
    following = 0  # the offset behind what was received
    with channel:
        for events, listens in ((BEFORE, True), (AWAY, False), (AFTER, True)):
            publish(server, "prices", events)
            if listens:
                with channel.subscriber(start=following) as subscriber:
                    while got[-1:] != [events[-1].key]:
                        received = subscriber.receive(timeout_s=30)
                        got.append(received.event.key)
                        following = received.offset + 1
    return summary(got)


def server_sent_events(server: HeadraceServer, topic: str, *, remembers: bool) -> str:
    new_topic(server, topic)
    got: list[bytes] = []
    last_id = ""
    for events, listens in ((BEFORE, True), (AWAY, False), (AFTER, True)):
        if not listens:
            publish(server, topic, events)
            continue
        connection = HTTPConnection(server.http.removeprefix("http://"), timeout=30)
        connection.request(
            "GET", f"/v1/topics/{topic}/stream", headers={"Last-Event-ID": last_id} if remembers and last_id else {}
        )
        stream = connection.getresponse()
        lines = (line.decode().rstrip("\n") for line in stream)
        while not next(lines).startswith("id: "):
            pass  # a stream begins with where it stands
        publish(server, topic, events)
        while got[-1:] != [events[-1].key]:
            field, _, content = next(lines).partition(": ")
            if field == "id":
                last_id = content
            elif field == "data" and content.startswith("{"):
                got.append(json.loads(content)["key"].encode())
        connection.close()
    return summary(got)


class Endpoint:
    """Somebody's server, which is down for a while."""

    def __init__(self) -> None:
        self.got: list[bytes] = []
        self.online = True
        got, endpoint = self.got, self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["content-length"]))
                if endpoint.online:
                    got.append(self.headers["headrace-key"].encode())
                self.send_response(204 if endpoint.online else 503)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def webhook(server: HeadraceServer, name: str, options: dict[str, object]) -> str:
    new_topic(server, name)
    endpoint = Endpoint()
    destination = {"type": "webhook", "url": endpoint.url, "first_pause_s": 0.2, "longest_pause_s": 1, **options}
    put_route(server, f"{name}-hook", {"topic": name, "destination": destination})
    publish(server, name, BEFORE)
    wait_until(lambda: len(set(endpoint.got)) == len(BEFORE))
    endpoint.online = False
    publish(server, name, AWAY)
    if options:  # it gives up
        wait_until(lambda: in_dead_letters(server, f"{name}-hook") == len(AWAY), timeout_s=60)
    else:
        wait_until(lambda: failed_attempts(server, f"{name}-hook") > 0)
    endpoint.online = True
    publish(server, name, AFTER)
    expected = len(EVENTS) - (len(AWAY) if options else 0)
    wait_until(lambda: len(set(endpoint.got)) == expected, timeout_s=60)
    endpoint.close()
    dead = f"; {in_dead_letters(server, f'{name}-hook')} in the dead-letter topic" if options else ""
    return summary(endpoint.got) + dead


def summary(keys: list[bytes]) -> str:
    received = len(set(keys))
    return f"{received} of {len(EVENTS)} received, {len(EVENTS) - received} lost"


# --- the server


def ask(server: HeadraceServer, method: str, path: str, body: object = None) -> dict:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(server.http + path, data, {"Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def new_topic(server: HeadraceServer, name: str) -> None:
    ask(server, "POST", "/v1/topics", {"name": name, "partitions": 1})


def put_route(server: HeadraceServer, name: str, definition: dict[str, object]) -> None:
    ask(server, "PUT", f"/v1/routes/{name}", definition)


def publish(server: HeadraceServer, topic: str, events: list[Event]) -> None:
    ask(server, "POST", f"/v1/topics/{topic}/events", [{"key": event.key.decode(), "value": event.text()} for event in events])


def in_dead_letters(server: HeadraceServer, name: str) -> int:
    return ask(server, "GET", f"/v1/routes/{name}")["dead_lettered"]


def failed_attempts(server: HeadraceServer, name: str) -> int:
    return len(ask(server, "GET", f"/v1/routes/{name}/attempts?status=failed")["attempts"])


def main() -> None:
    ways: dict[str, Callable[[HeadraceServer], str]] = {
        "topic -> udp, recover": recovered_feed,
        "server-sent events": lambda server: server_sent_events(server, "news", remembers=False),
        "the same, Last-Event-ID": lambda server: server_sent_events(server, "alerts", remembers=True),
        "webhook, one attempt": lambda server: webhook(server, "once", {"max_attempts": 1}),
        "webhook": lambda server: webhook(server, "orders", {}),
    }
    print(f"{'udp feed':<28}{brokerless_feed()}")
    with HeadraceServer(settings={"headrace.webhooks.allow": "127.0.0.1"}) as server:
        for name, way in ways.items():
            print(f"{name:<28}{way(server)}")


if __name__ == "__main__":
    main()
