"""The client against endpoints that hang, flood and lie: it ends in time, and reads no more than it must."""

from __future__ import annotations

import asyncio
import gzip

import pytest
from tests.webhooks.outbound.conftest import OK, PUBLIC, Names, Watched, endpoint, local, request_of

from headrace.webhooks.outbound import Answer, Outbound, TimedOut, Unreachable, check_header, check_url
from headrace.webhooks.outbound import client as client_module
from headrace.webhooks.outbound.exchange import MAX_HEAD_BYTES

pytestmark = pytest.mark.usefixtures("loops")


def run(coroutine):
    async def within():
        async with asyncio.timeout(30):
            return await coroutine

    return asyncio.run(within())


async def post(port: int, body: bytes = b"{}", *, timeout_s: float = 10, client: Outbound | None = None, **options) -> Answer:
    client = client or local()
    try:
        return await client.post(check_url(f"http://127.0.0.1:{port}/hook?a=1"), [], body, timeout_s=timeout_s, **options)
    finally:
        client.close()


def answered_by(serve, **options) -> Answer:
    async def whole() -> Answer:
        async with endpoint(serve) as port:
            return await post(port, **options)

    return run(whole())


def test_a_request_is_what_it_says_and_nothing_else():
    async def whole():
        requests = []

        async def serve(reader, writer):
            while True:
                requests.append(await request_of(reader))
                writer.write(OK)

        async with endpoint(serve) as port:
            client = local()
            url = check_url(f"http://localhost:{port}/hook?a=%20b")
            headers = [(b"content-type", b"application/json"), (b"webhook-id", b"msg_1")]
            answer = await client.post(url, headers, b'{"a": 1}', timeout_s=10)
            client.close()
        assert answer == Answer(200, [(b"content-length", b"2")], b"ok", "127.0.0.1")
        lines = requests[0][0].decode().split("\r\n")
        assert lines == [
            "POST /hook?a=%20b HTTP/1.1",
            f"Host: localhost:{port}",
            "Content-Length: 8",
            "content-type: application/json",
            "webhook-id: msg_1",
            "",
            "",
        ]
        assert requests[0][1] == b'{"a": 1}'

    run(whole())


def test_a_body_of_many_megabytes_arrives():
    async def whole():
        size = 8 * 1024 * 1024

        async def serve(reader, writer):
            _, body = await request_of(reader)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%d" % (len(str(len(body))), len(body)))

        async with endpoint(serve) as port:
            assert (await post(port, b"x" * size)).body_start == b"%d" % size

    run(whole())


def test_an_answer_to_half_of_a_request_counts():
    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too large\r\nContent-Length: 0\r\n\r\n")
        await asyncio.sleep(20)  # and reads no more

    assert answered_by(serve, body=b"x" * 50_000_000).status == 413


@pytest.mark.parametrize("status", [200, 204, 304, 400, 410, 429, 500, 503, 599, 999])
def test_every_status_is_an_answer(status):
    assert answered_by(b"HTTP/1.1 %d x\r\nContent-Length: 0\r\n\r\n" % status).status == status


def test_the_body_of_an_answer_is_kept_as_it_came():
    packed = gzip.compress(b"a" * 100_000)
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed)
    assert answered_by(head + packed).body_start == packed


def test_chunks_are_put_together():
    answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nTrailer: x\r\n\r\n"
    assert answered_by(answer).body_start == b"abcde"


# --- answers that have no end


def test_of_a_body_without_end_the_beginning_is_kept():
    async def serve(reader, writer):
        await request_of(reader)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            writer.write(b"x" * 65536)
            await writer.drain()

    assert answered_by(serve, max_response_bytes=1000) == Answer(200, [], b"x" * 1000, "127.0.0.1")


def test_of_a_body_that_drips_what_came_in_time_is_kept(monkeypatch):
    monkeypatch.setattr(client_module, "BODY_WITHIN_S", 0.2)

    async def serve(reader, writer):
        await request_of(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.01)

    answer = answered_by(serve)
    assert answer.status == 200
    assert 0 < len(answer.body_start) < 1000
    assert set(answer.body_start) == {ord("x")}


def test_of_a_body_in_pieces_of_one_byte_few_are_read():
    answer = answered_by(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 20_000)
    assert answer == Answer(200, [(b"transfer-encoding", b"chunked")], b"x" * 256, "127.0.0.1")


@pytest.mark.parametrize(
    "flood",
    [
        b"HTTP/1.1 100 Continue\r\n\r\n" * 100_000,
        b"HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n" * 100_000,
        b"HTTP/1.1 200 OK\r\n" + b"".join(b"x-%d: y\r\n" % number for number in range(100_000)) + b"\r\n",
        b"HTTP/1.1 200 OK\r\nx: " + b"y" * 1_000_000,
        b"H" * 1_000_000,
        b"\x00" * 1_000_000,
        b"\r\n" * 500_000,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nabc",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n" + b"x" * 1000,
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"\x16\x03\x01\x02\x00\x01",
    ],
    ids=lambda flood: repr(flood[:40]),
)
def test_what_is_no_answer_is_an_error_after_few_bytes(flood):
    async def serve(reader, writer):
        await request_of(reader)
        writer.write(flood)
        await writer.drain()

    with pytest.raises(Unreachable) as caught:
        answered_by(serve)
    assert caught.value.kind in ("protocol", "closed")


def test_a_head_may_be_as_long_as_the_bound():
    filling = b"x" * (MAX_HEAD_BYTES - 2000)
    answer = answered_by(b"HTTP/1.1 200 OK\r\nX-Filling: " + filling + b"\r\nContent-Length: 0\r\n\r\n")
    assert dict(answer.headers)[b"x-filling"] == filling


# --- time


@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 ", b"HTTP/1.1 200 OK\r\nx: y\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"])
def test_an_endpoint_that_hangs_is_given_up_when_the_time_is_up(sent):
    async def serve(reader, writer):
        writer.write(sent)
        await asyncio.sleep(20)

    with pytest.raises(TimedOut, match=r"within 0\.1 s.*waiting for the answer of 127\.0\.0\.1"):
        answered_by(serve, timeout_s=0.1)


def test_a_head_that_drips_is_given_up_when_the_time_is_up():
    async def serve(reader, writer):
        writer.write(b"HTTP/1.1 200 OK\r\n")
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.01)

    with pytest.raises(TimedOut):
        answered_by(serve, timeout_s=0.3)


def test_an_endpoint_that_does_not_read_is_given_up_when_the_time_is_up():
    async def serve(reader, writer):
        await asyncio.sleep(20)

    with pytest.raises(TimedOut):
        answered_by(serve, timeout_s=0.2, body=b"x" * 50_000_000)


def test_a_name_that_nobody_answers_for_is_given_up_when_the_time_is_up():
    async def silent(name):
        await asyncio.sleep(20)
        return []

    async def whole():
        client = Outbound(resolver=silent)
        await client.post(check_url("http://silent.example/"), [], b"", timeout_s=0.1)

    with pytest.raises(TimedOut, match=r"resolving silent\.example"):
        run(whole())


def test_tls_that_never_begins_is_given_up_when_the_time_is_up():
    async def serve(reader, writer):
        await asyncio.sleep(20)

    async def whole():
        async with endpoint(serve) as port:
            client = local()
            await client.post(check_url(f"https://127.0.0.1:{port}/"), [], b"", timeout_s=1)

    with pytest.raises(TimedOut, match="connecting to"):
        run(whole())


# --- connections


def test_connections_are_used_again_until_somebody_ends_them():
    async def whole():
        connections = 0

        async def serve(reader, writer):
            nonlocal connections
            connections += 1
            for _ in range(3):
                await request_of(reader)
                writer.write(OK)

        async with endpoint(serve) as port:
            client = local()
            url = check_url(f"http://127.0.0.1:{port}/")
            for _ in range(9):
                assert (await client.post(url, [], b"", timeout_s=10)).status == 200
            assert connections == 3
            client.close()

    run(whole())


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        OK + b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged",  # an answer to a request that nobody made yet
    ],
)
def test_a_connection_that_said_too_much_or_its_end_is_not_used_again(answer):
    async def whole():
        connections = 0

        async def serve(reader, writer):
            nonlocal connections
            connections += 1
            await request_of(reader)
            writer.write(answer)
            await reader.read()

        async with endpoint(serve) as port:
            client = local()
            url = check_url(f"http://127.0.0.1:{port}/")
            for _ in range(3):
                assert (await client.post(url, [], b"", timeout_s=10)).body_start == b"ok"
            assert (connections, client.idle) == (3, 0)

    run(whole())


def test_an_idle_connection_that_is_spoken_to_is_closed():
    async def whole():
        closed = asyncio.Event()

        async def serve(reader, writer):
            await request_of(reader)
            writer.write(OK)
            await writer.drain()
            await asyncio.sleep(0.05)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged")
            try:
                await reader.read()
            finally:
                closed.set()

        async with endpoint(serve) as port:
            client = local()
            await client.post(check_url(f"http://127.0.0.1:{port}/"), [], b"", timeout_s=10)
            assert client.idle == 1
            await closed.wait()
            assert client.idle == 0

    run(whole())


def test_no_more_connections_are_kept_than_may_be():
    async def whole():
        async with endpoint() as first, endpoint() as second, endpoint() as third:
            client = local(max_idle=2)
            for port in (first, second, third, first):
                await client.post(check_url(f"http://127.0.0.1:{port}/"), [], b"", timeout_s=10)
            assert client.idle == 2
            client.close()
            assert client.idle == 0

    run(whole())


def test_one_host_has_no_more_connections_than_may_be():
    async def whole():
        at_once, most = 0, 0
        full, release = asyncio.Event(), asyncio.Event()

        async def serve(reader, writer):
            nonlocal at_once, most
            await request_of(reader)
            at_once += 1
            most = max(most, at_once)
            if at_once == 3:
                full.set()
            await release.wait()
            at_once -= 1
            writer.write(OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))

        async with endpoint(serve) as port, endpoint() as other:
            client = local(max_per_host=3, max_connections=3)
            url = check_url(f"http://127.0.0.1:{port}/")
            many = [asyncio.ensure_future(client.post(url, [], b"", timeout_s=20)) for _ in range(10)]
            await full.wait()
            # and another host is not in the same queue
            assert (await client.post(check_url(f"http://127.0.0.1:{other}/"), [], b"", timeout_s=10)).status == 200
            release.set()
            assert [answer.status for answer in await asyncio.gather(*many)] == [200] * 10
            assert most == 3
            client.close()

    run(whole())


def test_a_port_where_nobody_listens_is_an_error_of_the_connection():
    async def whole():
        async with endpoint() as port:
            pass
        await post(port)

    with pytest.raises(Unreachable, match="refused") as caught:
        run(whole())
    assert caught.value.kind == "connect"


def test_a_connection_that_ends_without_an_answer_is_an_error():
    async def serve(reader, writer):
        await request_of(reader)
        writer.transport.abort()

    with pytest.raises(Unreachable) as caught:
        answered_by(serve)
    assert caught.value.kind == "closed"


def test_the_next_address_is_tried_when_one_can_not_be_reached():
    class Half(Watched):
        async def connect(self, address, port, tls):
            if str(address) == "1.1.1.1":
                self.connected.append((str(address), port, None))
                raise Unreachable("no route")
            return await super().connect(address, port, tls)

    async def whole():
        async with endpoint() as port:
            network = Half(port)
            client = Outbound(resolver=Names().set("two.example", f"1.1.1.1 {PUBLIC}"), network=network)
            answer = await client.post(check_url("http://two.example/"), [], b"", timeout_s=10)
            client.close()
            assert answer.address == PUBLIC
            assert [address for address, _, _ in network.connected] == ["1.1.1.1", PUBLIC]

    run(whole())


# --- headers


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (b"Host", b"inside"),
        (b"content-length", b"1"),
        (b"Transfer-Encoding", b"chunked"),
        (b"Connection", b"upgrade"),
        (b"x y", b"z"),
        (b"", b"z"),
        (b"x:", b"z"),
        (b"x", b"a\r\nHost: b"),
        (b"x", b"a\nb"),
        (b"x", b"\x00"),
        (b"x", b" a"),
    ],
)
def test_a_header_that_no_route_may_set_is_refused(name, value):
    with pytest.raises(ValueError, match="header"):
        check_header(name, value)
