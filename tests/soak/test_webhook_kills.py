"""A receiver of webhooks misses nothing and is sent nothing that it can't verify: while it crashes, refuses, hangs and loses
its answers, while the server is killed, while secrets are rotated and the route is paused. What it gets twice is what it was
sent without its answer having been heard; when all is calm, nothing is.
"""

from __future__ import annotations

import base64
import json
import random
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from headrace import Event
from headrace.client.kafka import Cluster, Producer
from headrace.client.kafka.topics import create_topic
from headrace.testing import HeadraceServer, wait_until

pytestmark = [pytest.mark.soak, pytest.mark.timeout(7200)]

TOPIC = "orders"
ROUTE = "to-receiver"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
PARTITIONS = 3
PORTION = 150
PROGRESS_TIMEOUT_S = 90.0


class Endpoint:
    """The receiver as a process that can be killed and started again on the same port."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.mode("ok")
        self.secret(SECRET)
        (folder / "received").touch()
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        program = Path(__file__).with_name("webhook_receiver.py")
        command = [sys.executable, str(program), str(self.port), str(self.folder)]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None

    def mode(self, mode: str) -> None:
        self._write("mode", mode)

    def secret(self, secret: str) -> None:
        self._write("secret", secret)

    def _write(self, name: str, text: str) -> None:
        beside = self.folder / f"{name}.new"
        beside.write_text(text)
        beside.rename(self.folder / name)

    def received(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / "received").read_text().split("\n")[:-1]]

    def numbers(self) -> Counter[int]:
        return Counter(one["number"] for one in self.received() if one["verified"])


class Campaign:
    def __init__(self, server: HeadraceServer, endpoint: Endpoint, chance: random.Random) -> None:
        self.server = server
        self.endpoint = endpoint
        self.chance = chance
        self.published = 0
        self.secrets = 1

    # --- the server

    def ask(self, method: str, path: str, body: object = None) -> Any:
        request = urllib.request.Request(f"{self.server.http}/v1/routes/{ROUTE}{path}", method=method)
        request.add_header("Authorization", "Basic " + base64.b64encode(b"guest:guest").decode())
        data = None if body is None else json.dumps(body).encode()
        try:
            with urllib.request.urlopen(request, data, timeout=30) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read().decode()) from error

    def begin(self) -> None:
        create_topic(Cluster(self.server.kafka), TOPIC, partitions=PARTITIONS)
        self.put(SECRET)

    def put(self, secret: str) -> None:
        destination = {
            "type": "webhook",
            "url": f"http://127.0.0.1:{self.endpoint.port}/hook",
            "secrets": [secret],
            "timeout_s": 1.0,
            "max_attempts": 100,
            "first_pause_s": 0.05,
            "longest_pause_s": 0.5,
            "concurrency": 8,
        }
        self.ask("PUT", "", {"topic": TOPIC, "destination": destination})

    def publish(self, count: int = PORTION) -> None:
        producer = Producer(Cluster(self.server.kafka))
        for number in range(self.published, self.published + count):
            producer.send(TOPIC, Event.of({"number": number}, key=f"k{number % 17}"))
        producer.flush()
        self.published += count

    def soon(self, longest_s: float = 0.3) -> None:
        """Not to wait for anything: so that what follows meets any moment of a delivery."""
        time.sleep(self.chance.uniform(0, longest_s))

    def new_life(self) -> None:
        """The route begins again, and waits no longer because of what was."""
        self.ask("POST", "/pause")
        self.ask("POST", "/resume")

    def all_is_there(self) -> bool:
        return len(self.endpoint.numbers()) >= self.published and self.ask("GET", "")["lag"] == 0

    # --- what happens to them

    def server_is_killed(self) -> None:
        self.server.crash()
        self.server.restart()

    def endpoint_is_killed(self) -> None:
        self.endpoint.kill()
        self.soon(1.0)
        self.endpoint.start()

    def endpoint_fails(self) -> None:
        self.endpoint.mode(self.chance.choice(["error", "lose", "reset", "hang", "late"]))
        self.soon(1.0)
        if self.chance.random() < 0.3:
            self.server_is_killed()
            self.soon()
        self.endpoint.mode("ok")

    def secret_is_rotated(self) -> None:
        new = self.ask("POST", "/rotate-secret", {"keep_s": 3600})["secret"]
        if self.chance.random() < 0.5:
            self.server_is_killed()
        seen = len(self.endpoint.received())
        self.new_life()
        self.publish(20)
        wait_until(
            lambda: any(one["signatures"] > 1 for one in self.endpoint.received()[seen:]),
            timeout_s=PROGRESS_TIMEOUT_S, what="a delivery with both signatures",
        )  # fmt: skip
        self.endpoint.secret(new)  # from now on the receiver knows the old one no more
        self.put(new)
        self.secrets += 1

    def route_is_paused(self) -> None:
        self.ask("POST", "/pause")
        self.soon()
        self.ask("POST", "/resume")


def test_a_receiver_misses_nothing_and_is_sent_nothing_that_it_can_not_verify(headrace_factory, kills, chance, tmp_path):
    server = headrace_factory(headrace_webhooks_allow="127.0.0.1")
    endpoint = Endpoint(tmp_path)
    campaign = Campaign(server, endpoint, chance)
    happenings = [
        campaign.server_is_killed,
        campaign.endpoint_is_killed,
        campaign.endpoint_fails,
        campaign.secret_is_rotated,
        campaign.route_is_paused,
    ]
    try:
        campaign.begin()
        for round_number in range(kills):
            # each of them in the first rounds, whatever chance says
            first = happenings[2 * round_number : 2 * round_number + 2]
            for happens in [*first, *chance.choices(happenings, k=max(1, 3 - len(first)))]:
                campaign.publish()
                campaign.soon()
                happens()
            campaign.new_life()
            wait_until(campaign.all_is_there, timeout_s=PROGRESS_TIMEOUT_S, what=f"all {campaign.published} events")
        assert campaign.secrets > 1
        disturbed = endpoint.numbers()
        before_calm = campaign.published
        campaign.publish()
        wait_until(campaign.all_is_there, timeout_s=PROGRESS_TIMEOUT_S, what="what came when all was calm")
    finally:
        endpoint.kill()
    received = endpoint.received()
    assert [one for one in received if not one["verified"]] == []
    assert set(endpoint.numbers()) == set(range(campaign.published))
    assert set(disturbed) == set(range(before_calm))
    # an event has one id, however often it was sent, and an id is of one event
    ids = {(one["id"], one["number"]) for one in received}
    assert len(ids) == len({identity for identity, _ in ids}) == campaign.published
    calm = {number: times for number, times in endpoint.numbers().items() if number >= before_calm}
    assert calm == dict.fromkeys(range(before_calm, campaign.published), 1)
