"""Webhooks to a receiver that is offline, comes late, and dies in the middle; and it misses nothing.

    pip install standardwebhooks
    python webhook_sender.py

It starts a server of its own, on loopback, and webhook_receiver.py beside it. Orders go to a topic; a route sends each of them
to the receiver's URL, signed. While nobody listens there the events wait in the topic, and what was tried is tried again, less
and less often, for three days unless told otherwise. So unlike with a feed or a socket, a consumer that is offline loses
nothing, as long as it comes back before `max_attempts` and `retry_for_s` are used up; after that the events are in the topic
of dead letters.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import Any

from headrace.testing import HeadraceServer, wait_until

ORDERS = 30
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def ask(url: str, method: str = "GET", body: object = None) -> Any:
    """As JSON, over HTTP."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    request.add_header("Authorization", "Basic Z3Vlc3Q6Z3Vlc3Q=")  # guest:guest
    with urllib.request.urlopen(request) as answer:
        return json.loads(answer.read() or b"null")


def send_orders_to(http: str, url: str) -> None:
    """The route from the topic to the URL. Secrets are made up if none are given; `GET …/secret` shows them."""
    destination = {
        "type": "webhook",
        "url": url,
        "secrets": [SECRET],
        "order": "key",  # orders of one customer one after the other
        "first_pause_s": 0.1,  # for this example; without it the first retry comes after 5 s, the last after a day
        "longest_pause_s": 0.5,
    }
    ask(f"{http}/v1/routes/orders-out", "PUT", {"topic": "orders", "destination": destination})


def publish(http: str, numbers: range) -> None:
    events = [{"key": f"customer-{number % 5}", "value": {"order": number}} for number in numbers]
    ask(f"{http}/v1/topics/orders/events", "POST", {"events": events})


def receiver(port: int, inbox: Path, output: Path) -> subprocess.Popen[bytes]:
    program = Path(__file__).with_name("webhook_receiver.py")
    command = [sys.executable, str(program), "--port", str(port), "--secret", SECRET, "--inbox", str(inbox)]
    with output.open("ab") as file:
        return subprocess.Popen(command, stdout=file, stderr=subprocess.DEVNULL)


def main() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = Path(tempfile.mkdtemp())
    inbox, output = folder / "inbox.sqlite", folder / "received"
    output.touch()

    def received() -> list[int]:
        return [json.loads(line)["order"] for line in output.read_text().splitlines()]

    # Without this nothing would be sent to an address that is not public: URLs come from outside, and must not lead inside.
    with HeadraceServer(settings={"headrace.webhooks.allow": f"127.0.0.1:{port}"}) as server:
        publish(server.http, range(ORDERS // 3))
        send_orders_to(server.http, f"http://127.0.0.1:{port}/orders")
        attempts = f"{server.http}/v1/routes/orders-out/attempts"
        wait_until(lambda: ask(f"{attempts}?status=failed")["attempts"], what="an attempt to fail")
        print(f"offline: {len(received())} received,", ask(attempts)["attempts"][-1]["error"])

        process = receiver(port, inbox, output)
        wait_until(lambda: len(received()) >= ORDERS // 3, timeout_s=60, what="the receiver to catch up")
        print(f"online: {len(received())} received")

        process.kill()
        process.wait()
        publish(server.http, range(ORDERS // 3, ORDERS))
        process = receiver(port, inbox, output)
        wait_until(lambda: len(received()) >= ORDERS, timeout_s=60, what="the receiver to catch up again")
        process.kill()
        process.wait()
        print(f"killed and started again: {len(received())} received, {len(set(received()))} of {ORDERS} orders")
        delivered = ask(f"{attempts}?status=delivered&limit=1")["attempts"][0]
        print(f"the last attempt: {delivered['result']}, {delivered['status']}, attempt {delivered['attempt']} of that event")


if __name__ == "__main__":
    main()
