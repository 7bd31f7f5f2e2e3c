"""What tests of traces share: a trace, requests, records as Kafka clients read them, and a collector of spans."""

from __future__ import annotations

import base64
import http.client
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from headrace.testing import HeadraceServer, wait_until

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
PARENT_ID = "b7ad6b7169203331"
PARENT = f"00-{TRACE_ID}-{PARENT_ID}-01"
UNSAMPLED = f"00-{TRACE_ID}-{PARENT_ID}-00"
OTHER = f"00-{TRACE_ID}-00f067aa0ba902b7-01"
STATE = "congo=t61rcWkgMzE"
TRACE = {"traceparent": PARENT, "tracestate": STATE}
KEPT = [("traceparent", PARENT.encode()), ("tracestate", STATE.encode())]
JSON = {"content-type": "application/json"}


def ask(
    server: HeadraceServer, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
) -> tuple[int, dict[str, str], bytes]:
    host, port = server.http.removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=20)
    login = {"Authorization": "Basic " + base64.b64encode(b"guest:guest").decode()}
    connection.request(method, path, body, {**login, **(headers or {})})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    assert answer.status < 300, content
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}, content


def publish(server: HeadraceServer, topic: str, body: bytes, kind: str, **headers: str) -> dict[str, Any]:
    given = {"content-type": kind, **{name.replace("_", "-"): value for name, value in headers.items()}}
    return dict(json.loads(ask(server, "POST", f"/v1/topics/{topic}/events", body, given)[2]))


def put_route(server: HeadraceServer, name: str, **definition: Any) -> None:
    ask(server, "PUT", f"/v1/routes/{name}", json.dumps(definition).encode(), JSON)


def kafka_headers(server: HeadraceServer, topic: str, count: int) -> list[list[tuple[str, bytes]]]:
    consumer = Consumer({"bootstrap.servers": server.kafka, "group.id": "trace", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[list[tuple[str, bytes]]] = []

    def read() -> bool:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            found.append(list(message.headers() or []))
        return len(found) >= count

    wait_until(read, timeout_s=20, what=f"{count} records")
    consumer.close()
    return found


def trace_in(headers: list[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
    return [header for header in headers if header[0] in TRACE]


# --- somebody who is called


@dataclass
class Receiver:
    """An HTTP server that keeps what comes: heads in lower case, and bodies. `answers` are the next ones, then 200."""

    url: str = ""
    came: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    answers: list[tuple[int, dict[str, str]]] = field(default_factory=list)


@contextmanager
def receiver(port: int = 0) -> Iterator[Receiver]:
    found = Receiver()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            status, headers = found.answers.pop(0) if found.answers else (200, {})
            found.came.append(({name.lower(): value for name, value in self.headers.items()} | {":path": self.path}, body))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    found.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()


# --- spans, as a collector gets them


def spans_in(collector: Receiver) -> list[dict[str, Any]]:
    """All that came so far, with their attributes as a dictionary."""
    resources = [resource for _, body in list(collector.came) for resource in json.loads(body)["resourceSpans"]]
    spans = [span for resource in resources for scope in resource["scopeSpans"] for span in scope["spans"]]
    return [{**span, "attributes": {one["key"]: _plain(one["value"]) for one in span["attributes"]}} for span in spans]


def wait_for_spans(collector: Receiver, wanted: Callable[[dict[str, Any]], bool], count: int) -> list[dict[str, Any]]:
    wait_until(lambda: len([span for span in spans_in(collector) if wanted(span)]) >= count, timeout_s=20, what="spans")
    found = [span for span in spans_in(collector) if wanted(span)]
    assert len(found) == count
    return found


def _plain(value: dict[str, Any]) -> Any:
    ((kind, content),) = value.items()
    return int(content) if kind == "intValue" else content
