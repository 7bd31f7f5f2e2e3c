"""The examples of publish–subscribe without a broker, and of what is lost while a consumer is offline, do what they say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples" / "direct"


def said_by(example: str) -> list[str]:
    done = subprocess.run([sys.executable, EXAMPLES / example], capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_every_subscriber_gets_what_it_asked_for() -> None:
    said = dict(line.split(": ", 1) for line in said_by("brokerless_publish_subscribe.py"))
    assert said["prices."] == "1000"
    assert said["news."] == "1"
    assert 400 < int(said["prices.ACME"]) < 600
    assert said["ACME is at"].startswith('{"price":')
    assert said["NONE is at"] == "no price: KeyError: 'NONE'"


def test_what_is_lost_while_a_consumer_is_offline() -> None:
    said = dict(line.split("  ", 1) for line in said_by("what_is_lost.py"))
    said = {way: result.strip() for way, result in said.items()}
    assert said["zmq pub/sub"] == "20 of 30 received, 10 lost"
    assert said["topic -> zmq pub"] == "20 of 30 received, 10 lost; 10 found in the topic"
    assert said["topic -> zmq push"] == "30 of 30 received, 0 lost"
    assert said["zmq push -> topic -> push"] == "30 of 30 received, 0 lost"


def test_what_is_lost_over_http_and_udp() -> None:
    said = {line[:28].strip(): line[28:] for line in said_by("what_is_lost_over_http_and_udp.py")}
    assert said == {
        "udp feed": "20 of 30 received, 10 lost",
        "topic -> udp, recover": "30 of 30 received, 0 lost",
        "server-sent events": "20 of 30 received, 10 lost",
        "the same, Last-Event-ID": "30 of 30 received, 0 lost",
        "webhook, one attempt": "20 of 30 received, 10 lost; 10 in the dead-letter topic",
        "webhook": "30 of 30 received, 0 lost",
    }
