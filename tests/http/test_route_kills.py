"""A server that is killed again and again while a route filters and copies a topic: nothing is lost, and order is kept."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

from headrace.client.routes import RoutesClient
from headrace.testing import HeadraceServer, wait_until

EVENTS = 3_000
KILLS = 3


def asked(server: HeadraceServer, path: str, body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{server.http}{path}", data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.loads(answer.read())


def values(server: HeadraceServer, topic: str) -> list[int]:
    found: list[int] = []
    offset = 0
    while True:
        events = asked(server, f"/v1/topics/{topic}/events?partition=0&from={offset}&limit=1000")["events"]
        if not events:
            return found
        found += [event["value"] for event in events]
        offset = events[-1]["offset"] + 1


def test_a_killed_server_goes_on_with_its_routes_and_leaves_nothing_out(headrace_server: HeadraceServer) -> None:
    server = headrace_server
    for start in range(0, EVENTS, 500):
        events = [{"key": "k", "value": number, "partition": 0} for number in range(start, start + 500)]
        asked(server, "/v1/topics/numbers/events", {"events": events})
    with RoutesClient(server.http) as routes:
        routes.put("even", topic="numbers", destination={"type": "topic", "topic": "even"}, filter="value % 2 == 0")
    for kill in range(KILLS):
        wait_until(lambda: asked(server, "/v1/routes/even")["delivered"] > 0, timeout_s=30, what="a delivery")
        if kill == 1:
            asked(server, "/v1/routes/even/replay", {"from": 10, "to": 20})
        server.crash()
        server.restart()
        asked(server, "/v1/topics/numbers/events", {"events": [{"key": "k", "value": EVENTS + 2 * kill, "partition": 0}]})

    def done() -> bool:
        route = asked(server, "/v1/routes/even")
        return bool(route["lag"] == 0 and route["replay"] is None)

    wait_until(done, timeout_s=60, what="the rest")
    found = values(server, "even")
    assert list(dict.fromkeys(found)) == [*range(0, EVENTS, 2), *(EVENTS + 2 * kill for kill in range(KILLS))]
    assert all(found.count(number) >= 2 for number in range(10, 20, 2))
