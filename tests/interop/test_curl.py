"""Headrace over HTTP with curl, as people type it: publishing, reading, and pipes of lines both ways."""

from __future__ import annotations

import json
import shutil
import subprocess
import uuid
from typing import Any

import pytest

from headrace.testing import HeadraceServer, wait_until

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed"),
]


@pytest.fixture
def url(headrace_shared_server: HeadraceServer) -> str:
    return f"{headrace_shared_server.http}/v1/topics/curl-{uuid.uuid4().hex[:8]}/events"


def curl(*arguments: str, data: bytes | None = None) -> bytes:
    done = subprocess.run(["curl", "-sS", "--max-time", "30", *arguments], input=data, capture_output=True, timeout=40)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def values(url: str) -> list[object]:
    return [event["value"] for event in json.loads(curl(f"{url}?limit=10000"))["events"]]


def test_one_event_and_many(url: str) -> None:
    one = json.loads(curl("--json", '{"key": "account-7", "value": {"amount": 5}}', url))
    assert (one["offset"], curl(f"{url}?from={one['offset']}&partition={one['partition']}") != b"") == (0, True)
    many = json.loads(curl("--json", '[{"key": "a", "value": 1}, {"key": "a", "value": 2}]', url))
    assert [each["offset"] for each in many["events"]][1] == many["events"][0]["offset"] + 1
    assert sorted(map(str, values(url))) == ["1", "2", "{'amount': 5}"]


def test_any_body_is_a_value(url: str) -> None:
    curl("-d", "hello", url)  # what curl calls application/x-www-form-urlencoded
    content = bytes(range(256)) * 100
    stored = json.loads(curl("--data-binary", "@-", "-H", "Content-Type: image/png", f"{url}?key=picture", data=content))
    place = f"{url.removesuffix('/events')}/partitions/{stored['partition']}/events/{stored['offset']}"
    assert curl("-H", "Accept: application/octet-stream", place) == content


def test_http2_is_spoken_too(url: str) -> None:
    version = curl(
        "--http2-prior-knowledge", "-o", "/dev/null", "-w", "%{http_version} %{http_code}", "--json", '{"value": 1}', url
    )
    assert version == b"2 200"


def test_lines_go_in_through_a_pipe_and_come_out_through_one(url: str) -> None:
    lines = b"".join(b'{"key": "k%d", "value": %d}\n' % (n % 7, n) for n in range(20_000))
    answer = json.loads(curl("-X", "POST", "-T", "-", "-H", "Content-Type: application/x-ndjson", url, data=lines))
    assert answer["count"] == 20_000
    out = curl("-N", "-H", "Accept: application/x-ndjson", url).splitlines()
    assert sorted(json.loads(line)["value"] for line in out) == list(range(20_000))


def test_a_topic_is_copied_with_two_curls(url: str) -> None:
    curl("--json", json.dumps([{"key": f"k{n}", "value": n, "headers": {"n": str(n)}} for n in range(1000)]), url)
    copy = url.replace("/curl-", "/copy-")
    curl("--json", '{"events": []}', copy)
    command = (
        f"curl -sS -H 'Accept: application/x-ndjson' '{url}' | "
        f"curl -sS -X POST -T - -H 'Content-Type: application/x-ndjson' '{copy}'"
    )
    done = subprocess.run(["sh", "-c", command], capture_output=True, timeout=40, check=True)
    assert json.loads(done.stdout)["count"] == 1000

    def events(where: str) -> list[Any]:
        return json.loads(curl(f"{where}?limit=10000"))["events"]

    assert events(copy) == events(url)


def test_following_shows_what_comes(url: str) -> None:
    curl("--json", '{"value": "first"}', url)
    command = ["curl", "-sSN", "-H", "Accept: application/x-ndjson", f"{url}?follow=true"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as following:
        assert following.stdout is not None
        assert json.loads(following.stdout.readline())["value"] == "first"
        for n in range(5):
            curl("--json", json.dumps({"value": n}), url)
            assert json.loads(following.stdout.readline())["value"] == n
        following.terminate()


def test_a_long_poll_is_answered_when_something_comes(url: str) -> None:
    curl("--json", '{"value": "first"}', url)
    position = json.loads(curl(url))["next"]
    with subprocess.Popen(["curl", "-sS", f"{url}?position={position}&wait_s=30"], stdout=subprocess.PIPE) as waiting:
        curl("--json", '{"value": "second"}', url)
        out, _ = waiting.communicate(timeout=30)
    assert [event["value"] for event in json.loads(out)["events"]] == ["second"]


def test_a_request_is_sent_again_without_harm(url: str) -> None:
    again = ("-H", "Idempotency-Key: 8e03978e-40d5-43dd-bc93-6894a57f9324", "--json", '{"value": "once"}', url)
    assert curl(*again) == curl(*again)
    assert values(url) == ["once"]


def test_what_is_wrong_is_told_in_problem_json(url: str) -> None:
    said = curl("-w", "\n%{http_code} %{content_type}", "--json", '{"vaule": 1}', url).decode()
    body, _, last = said.rpartition("\n")
    assert last == "400 application/problem+json"
    assert json.loads(body)["code"] == "invalid_event"
    bad = curl("-X", "POST", "-T", "-", "-H", "Content-Type: application/x-ndjson", url, data=b'{"value": 1}\nnonsense\n')
    assert (json.loads(bad)["line"], json.loads(bad)["stored"]["count"]) == (2, 1)
    wait_until(lambda: values(url) == [1])
