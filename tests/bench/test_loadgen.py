"""loadgen against a server that answers whatever the test wants, so that a wrong answer is seen to be refused."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import threading
import time
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench import frames, native
from headrace.kafka.codec.framing import FrameReader, frame
from headrace.kafka.codec.headers import decode_request_header, encode_response_header, skip_header_tags
from headrace.kafka.codec.schema import Response, decode, encode
from headrace.kafka.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from headrace.kafka.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from headrace.record.batch import encode_batch
from headrace.record.event import Event

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")

Answer = Callable[[bytes, int], tuple[int, Response]]  # request body, correlation id -> correlation id, response


class Server:
    """Answers each request with what `answer` makes of it."""

    def __init__(self, answer: Answer, version: int) -> None:
        self.answer, self.version = answer, version
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self.listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                link, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(link,), daemon=True).start()

    def _serve(self, link: socket.socket) -> None:
        reader = FrameReader()
        with link:
            while data := link.recv(65_536):
                for request in reader.feed(data):
                    header, position = decode_request_header(request)
                    body = request[skip_header_tags(request, position) :]
                    correlation, response = self.answer(body, header.correlation_id)
                    try:
                        link.sendall(frame(encode_response_header(correlation, flexible=True), encode(response, self.version)))
                    except OSError:
                        return


@pytest.fixture
def serve() -> Iterator[Callable[[Answer, int], Server]]:
    servers: list[Server] = []

    def start(answer: Answer, version: int) -> Server:
        servers.append(Server(answer, version))
        return servers[-1]

    yield start
    for server in servers:
        server.listener.close()


def run(tmp_path: Path, port: int, request: bytes, *arguments: object) -> subprocess.CompletedProcess[str]:
    path = tmp_path / "requests"
    path.write_bytes(request)
    command = [native.loadgen(), "--port", port, "--frames", path, *arguments]
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=30)


def produced(*errors: int) -> ProduceResponse:
    parts = [PartitionProduceResponse(index=index, error_code=error) for index, error in enumerate(errors)]
    return ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=parts)])


def fetched(base_offset: int, error: int = 0) -> FetchResponse:
    batch = encode_batch([Event(value=b"x"), Event(value=b"y")], base_offset=base_offset, now_ms=1)
    part = PartitionData(partition_index=0, error_code=error, records=bytes(batch))
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[part])])


Serve = Callable[[Answer, int], Server]
PRODUCE = frames.produce("t", frames.batch(1)).data
TO_TWO = frames.produce("t", frames.batch(1), partitions=[0, 1]).data


def test_every_request_is_answered_and_counted(tmp_path: Path, serve: Serve) -> None:
    server = serve(lambda body, correlation: (correlation, produced(0)), frames.PRODUCE_VERSION)
    done = run(tmp_path, server.port, PRODUCE, "--kind", "produce", "--requests", 500, "--connections", 3, "--window", 4)
    said = json.loads(done.stdout)
    assert said["requests"] == 500
    assert 0 < said["p50_us"] <= said["p99_us"] <= said["p999_us"]
    assert said["sent_bytes"] == 500 * len(PRODUCE)


def test_each_answer_can_be_written_down(tmp_path: Path, serve: Serve) -> None:
    server = serve(lambda body, correlation: (correlation, produced(0)), frames.PRODUCE_VERSION)
    before = time.monotonic_ns()
    done = run(tmp_path, server.port, PRODUCE, "--kind", "produce", "--requests", 50, "--answers", tmp_path / "answers")
    assert done.returncode == 0, done.stderr
    numbers = array("Q", (tmp_path / "answers").read_bytes())
    begun, took = numbers[::2], numbers[1::2]
    assert len(begun) == len(took) == 50
    assert all(before < when and when + long < time.monotonic_ns() for when, long in zip(begun, took, strict=True))
    assert max(took) == pytest.approx(json.loads(done.stdout)["max_us"] * 1e3, rel=0.1)


def test_a_produce_error_is_a_failure(tmp_path: Path, serve: Serve) -> None:
    server = serve(lambda body, correlation: (correlation, produced(0, 6)), frames.PRODUCE_VERSION)
    done = run(tmp_path, server.port, TO_TWO, "--kind", "produce", "--requests", 5, "--partitions", 2)
    assert done.returncode == 1
    assert "partition 1 was answered with error code 6" in done.stderr


def test_a_missing_partition_is_a_failure(tmp_path: Path, serve: Serve) -> None:
    server = serve(lambda body, correlation: (correlation, produced(0)), frames.PRODUCE_VERSION)
    done = run(tmp_path, server.port, TO_TWO, "--kind", "produce", "--requests", 5, "--partitions", 2)
    assert done.returncode == 1
    assert "1 of 2 partitions" in done.stderr


def test_a_wrong_correlation_id_is_a_failure(tmp_path: Path, serve: Serve) -> None:
    server = serve(lambda body, correlation: (correlation + 1, produced(0)), frames.PRODUCE_VERSION)
    done = run(tmp_path, server.port, PRODUCE, "--kind", "produce", "--requests", 5)
    assert done.returncode == 1
    assert "answer 1 came where 0 was due" in done.stderr


def test_fetch_offsets_step_and_start_again(tmp_path: Path, serve: Serve) -> None:
    asked: list[int] = []

    def answer(body: bytes, correlation: int) -> tuple[int, Response]:
        [topic] = decode(FetchRequest, frames.FETCH_VERSION, body).topics
        asked.append(topic.partitions[0].fetch_offset)
        return correlation, fetched(asked[-1] - 1)

    server = serve(answer, frames.FETCH_VERSION)
    request = frames.fetch("t", max_bytes=1000)
    stepping = ("--offset-at", request.offset_at, "--offset-step", 10, "--offset-end", 25)
    done = run(tmp_path, server.port, request.data, "--kind", "fetch", "--requests", 5, *stepping)
    assert done.returncode == 0, done.stderr
    assert asked == [0, 10, 20, 5, 15]


@pytest.mark.parametrize(
    ("response", "complaint"),
    [
        (fetched(0, error=1), "error code 1"),
        (fetched(7), "at offset 0 brought offsets 7 to 8"),
        (FetchResponse(error_code=70), "error code 70"),
    ],
)
def test_a_fetch_that_brings_something_else_is_a_failure(
    tmp_path: Path, serve: Serve, response: FetchResponse, complaint: str
) -> None:
    server = serve(lambda body, correlation: (correlation, response), frames.FETCH_VERSION)
    request = frames.fetch("t", max_bytes=1000)
    done = run(tmp_path, server.port, request.data, "--kind", "fetch", "--requests", 3, "--offset-at", request.offset_at)
    assert done.returncode == 1
    assert complaint in done.stderr


def test_with_a_rate_requests_are_due_at_their_moments(tmp_path: Path, serve: Serve) -> None:
    server = serve(lambda body, correlation: (correlation, produced(0)), frames.PRODUCE_VERSION)
    done = run(tmp_path, server.port, PRODUCE, "--kind", "produce", "--requests", 50, "--rate", 500, "--window", 100)
    said = json.loads(done.stdout)
    assert said["requests"] == 50
    assert said["seconds"] >= 49 / 500


def test_with_a_rate_what_has_to_wait_is_late_from_when_it_was_due(tmp_path: Path, serve: Serve) -> None:
    slow = [0.3]

    def answer(body: bytes, correlation: int) -> tuple[int, Response]:
        if slow:
            time.sleep(slow.pop())
        return correlation, produced(0)

    server = serve(answer, frames.PRODUCE_VERSION)
    done = run(tmp_path, server.port, PRODUCE, "--kind", "produce", "--requests", 100, "--rate", 1000)
    assert json.loads(done.stdout)["p50_us"] >= 200_000, "all were due in the first tenth of a second"
