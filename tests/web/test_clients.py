"""Clients that people use: httpx for both protocols, Python's own, and curl."""

from __future__ import annotations

import asyncio
import hashlib
import http.client
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.web.serving import Serving, echo, serving

from headrace.web.exchange import Exchange

BODY = bytes(range(256)) * 8192  # 2 MiB


def handler(exchange: Exchange) -> None:
    if exchange.target == b"/stream":
        asyncio.get_running_loop().create_task(stream(exchange))
    else:
        echo(exchange)


async def stream(exchange: Exchange) -> None:
    """Answers with the digest of the body and then 4 MB, both piece by piece."""
    digest = hashlib.sha256()
    while piece := await exchange.receive():
        digest.update(piece)
    exchange.start(200, [(b"content-type", b"application/octet-stream")])
    exchange.write(digest.hexdigest().encode())
    for _ in range(400):
        exchange.write(b"x" * 10_000)
        await exchange.drained()
    exchange.end()


@pytest.fixture(scope="module")
def made() -> Iterator[Serving]:
    with serving(handler) as running:
        yield running


@pytest.mark.parametrize("http2", [False, True])
def test_httpx(made: Serving, http2: bool) -> None:
    with httpx.Client(base_url=f"http://127.0.0.1:{made.port}", http1=not http2, http2=http2, trust_env=False) as client:
        for number in range(20):
            answer = client.post(f"/{number}", content=b"%d" % number)
            assert (answer.status_code, answer.content) == (200, b"POST %d" % number)
            assert answer.http_version == ("HTTP/2" if http2 else "HTTP/1.1")
        assert client.post("/large", content=BODY).content == b"POST " + BODY
        assert client.post("/chunks", content=(BODY[:100_000] for _ in range(5))).content == b"POST " + BODY[:100_000] * 5
        answer = client.post("/stream", content=BODY)
        assert answer.content == hashlib.sha256(BODY).hexdigest().encode() + b"x" * 4_000_000
        assert client.head("/").headers["content-length"] == "5"
        assert client.options("/").content == b"OPTIONS "


@pytest.mark.parametrize("http2", [False, True])
def test_httpx_with_many_requests_at_once(made: Serving, http2: bool) -> None:
    async def ask() -> list[bytes]:
        base_url = f"http://127.0.0.1:{made.port}"
        async with httpx.AsyncClient(base_url=base_url, http1=not http2, http2=http2, trust_env=False) as client:
            answers = await asyncio.gather(*(client.post("/", content=b"%d" % number) for number in range(200)))
        return [answer.content for answer in answers]

    assert asyncio.run(ask()) == [b"POST %d" % number for number in range(200)]


def test_http_client_of_python(made: Serving) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", made.port, timeout=10)
    for number in range(5):
        connection.request("PUT", f"/{number}", body=b"%d" % number, headers={"Expect": "100-continue"})
        assert connection.getresponse().read() == b"PUT %d" % number
    connection.request("POST", "/", body=iter([b"a", b"b"]), encode_chunked=True, headers={"Transfer-Encoding": "chunked"})
    assert connection.getresponse().read() == b"POST ab"
    connection.close()


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.parametrize("protocol", ["--http1.0", "--http1.1", "--http2", "--http2-prior-knowledge"])
def test_curl(made: Serving, protocol: str, tmp_path: Path) -> None:
    file = tmp_path / "body"
    file.write_bytes(BODY)
    assert 0 < made.port < 65536
    url = f"http://127.0.0.1:{made.port}"
    command = ["curl", "--noproxy", "*", "--max-time", "20", "-sS", protocol]
    for path, expected in (
        ("/echo", b"POST " + BODY),
        ("/stream", hashlib.sha256(BODY).hexdigest().encode() + b"x" * 4_000_000),
    ):
        said = subprocess.run([*command, f"{url}{path}", "--data-binary", f"@{file}"], capture_output=True, check=False)
        assert said.stdout == expected, said.stderr
