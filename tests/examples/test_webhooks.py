"""examples/direct/webhook_sender.py and webhook_receiver.py do what they say."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from datetime import UTC, datetime
from pathlib import Path

from standardwebhooks import Webhook

from headrace.testing import wait_until

EXAMPLES = Path(__file__).parents[2] / "examples" / "direct"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def test_a_receiver_that_is_offline_late_and_killed_misses_nothing() -> None:
    command = [sys.executable, EXAMPLES / "webhook_sender.py"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert re.fullmatch(r"offline: 0 received, no connection to 127\.0\.0\.1 port \d+: Connection refused", lines[0]), lines
    assert lines[1] == "online: 10 received"
    assert lines[2] == "killed and started again: 30 received, 30 of 30 orders"
    assert re.fullmatch(r"the last attempt: delivered, 204, attempt \d+ of that event", lines[3]), lines


def test_the_receiver_verifies_and_remembers(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, EXAMPLES / "webhook_receiver.py", "--port", str(port), "--secret", SECRET]
    with subprocess.Popen([*command, "--inbox", tmp_path / "inbox"], stdout=subprocess.PIPE, text=True) as process:
        try:
            wait_until(lambda: post(port, b"{}", "forged", secret="whsec_" + "A" * 32) == 401)
            assert post(port, b'{"order": 1}', "msg_1") == 204
            assert post(port, b'{"order": 1}', "msg_1") == 204
            assert post(port, b'{"order": 2}', "msg_2") == 204
        finally:
            process.kill()
        assert process.stdout is not None
        assert process.stdout.read().splitlines() == ['{"order": 1}', '{"order": 2}']


def post(port: int, body: bytes, identity: str, secret: str = SECRET) -> int | None:
    now = datetime.now(UTC)
    headers = {
        "webhook-id": identity,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(secret).sign(identity, now, body.decode()),
    }
    request = urllib.request.Request(f"http://127.0.0.1:{port}/", body, headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:  # not there yet
        return None
