"""HTTP/2 with prior knowledge as RFC 9113 has it, with the `h2` library as the client."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from tests.web.http2_client import PREFACE, Http2Client
from tests.web.serving import Noted, Serving, echo, endless, serving

from headrace.testing import wait_until
from headrace.web.exchange import Exchange
from headrace.web.limits import Limits


@pytest.fixture(scope="module")
def echoing() -> Iterator[Serving]:
    with serving(echo) as made:
        yield made


def test_requests_on_one_connection(echoing: Serving) -> None:
    with Http2Client(echoing) as client:
        assert client.ask(b"GET", b"/a?b") == (200, b"GET ")
        assert client.ask(b"POST", b"/a", b"hello") == (200, b"POST hello")
        assert client.heads[1][b"x-target"] == b"/a?b"
        assert client.heads[3][b"content-length"] == b"10"
        assert client.heads[3][b"date"].endswith(b" GMT")
        assert client.settings[3] == 128


def test_the_preface_may_come_byte_by_byte(echoing: Serving) -> None:
    with echoing.connect() as connection:
        for byte in PREFACE + bytes.fromhex("000000040000000000"):
            connection.send(bytes((byte,)))
        assert connection.recv(9)[3] == 4  # SETTINGS


def test_an_exchange_looks_like_one_of_http_1() -> None:
    noted = Noted()
    with serving(noted) as made, Http2Client(made) as client:
        client.head(b"GET", b"/x?y", (b"x-a", b"b"), (b"cookie", b"a=b"), (b"cookie", b"c=d"))
        wait_until(lambda: noted.exchanges)
        exchange = noted.exchanges[0]
        assert (exchange.method, exchange.target, exchange.http2) == (b"GET", b"/x?y", True)
        assert exchange.headers == [(b"host", b"h"), (b"x-a", b"b"), (b"cookie", b"a=b; c=d")]
        assert exchange.peer == client.socket.getsockname()
        assert exchange.local == ("127.0.0.1", made.port)


def test_many_streams_at_once_are_answered_in_any_order() -> None:
    noted = Noted()
    with serving(noted) as made, Http2Client(made) as client:
        streams = [client.head(b"GET", b"/%d" % number) for number in range(100)]
        wait_until(lambda: len(noted.exchanges) == 100)
        made.call(lambda: [each.respond(200, [], each.target) for each in reversed(noted.exchanges)])
        assert [client.wait(stream)[1] for stream in streams] == [b"/%d" % number for number in range(100)]


def test_large_bodies_go_both_ways_through_the_windows(echoing: Serving) -> None:
    body = bytes(range(256)) * (16 * 1024)
    with Http2Client(echoing) as client:
        assert client.ask(b"POST", b"/", body) == (200, b"POST " + body)


def test_head_204_and_304_have_no_body(echoing: Serving) -> None:
    with Http2Client(echoing) as client:
        assert client.ask(b"HEAD", b"/") == (200, b"")
        assert client.heads[1][b"content-length"] == b"5"
    for status in (204, 304):
        with serving(lambda exchange, said=status: exchange.respond(said, [], b"no")) as made, Http2Client(made) as client:
            assert client.ask(b"GET", b"/") == (status, b"")


def test_a_streamed_answer_goes_out_as_it_is_written() -> None:
    noted = Noted()
    with serving(noted) as made, Http2Client(made) as client:
        stream = client.head()
        wait_until(lambda: noted.exchanges)
        exchange = noted.exchanges[0]
        made.call(lambda: exchange.start(200, [(b"content-type", b"text/plain"), (b"connection", b"close")]))
        while stream not in client.heads:
            client.step()
        assert b"connection" not in client.heads[stream]
        for piece in (b"one", b"two"):
            made.call(lambda said=piece: exchange.write(said))
            while not client.bodies[stream].endswith(piece):
                client.step()
        made.call(exchange.end)
        assert client.wait(stream) == (200, b"onetwo")


def test_trailers_of_a_request_end_its_body(echoing: Serving) -> None:
    with Http2Client(echoing) as client:
        stream = client.head(b"POST", b"/", end=False)
        client.body(stream, b"abc", end=False)
        client.h2.send_headers(stream, [(b"x-sum", b"1")], end_stream=True)
        client.flush()
        assert client.wait(stream) == (200, b"POST abc")


def test_expect_100_continue(echoing: Serving) -> None:
    with Http2Client(echoing) as client:
        stream = client.head(b"POST", b"/", (b"expect", b"100-continue"), (b"content-length", b"3"), end=False)
        while not client.interim:
            client.step()
        client.body(stream, b"abc")
        assert (client.interim, client.wait(stream)) == ([100], (200, b"POST abc"))


def test_padding_counts_for_the_windows_and_not_for_the_body(echoing: Serving) -> None:
    with Http2Client(echoing) as client:
        stream = client.head(b"POST", b"/", (b"content-length", b"300000"), end=False)
        for number in range(3000):
            while client.h2.local_flow_control_window(stream) < 500:
                client.step()
            client.h2.send_data(stream, b"x" * 100, pad_length=255, end_stream=number == 2999)
            client.flush()
        assert client.wait(stream) == (200, b"POST " + b"x" * 300_000)


def test_ping_is_answered(echoing: Serving) -> None:
    with Http2Client(echoing) as client:
        client.h2.ping(b"12345678")
        client.flush()
        while not client.pings:
            client.step()
        assert client.pings == [b"12345678"]


def test_a_body_is_credited_only_as_the_handler_takes_it() -> None:
    noted = Noted()
    limits = Limits(window_bytes=100_000)
    with serving(noted, limits) as made, Http2Client(made) as client:
        stream = client.head(b"POST", b"/", end=False)
        while client.h2.local_flow_control_window(stream) == 65535:
            client.step()
        client.body(stream, b"x" * 100_000, end=False)
        assert client.h2.local_flow_control_window(stream) == 0
        wait_until(lambda: noted.exchanges and noted.exchanges[0]._body_bytes == 100_000)
        exchange = noted.exchanges[0]

        async def take() -> int:
            return len(await exchange.receive())

        assert made.run(take()) == 100_000
        while not client.h2.local_flow_control_window(stream):
            client.step()
        assert client.h2.local_flow_control_window(stream) == 100_000
        client.body(stream, b"y", end=True)
        assert made.run(take()) == 1
        assert made.run(take()) == 0
        made.call(lambda: exchange.respond(200, [], b"ok"))
        assert client.wait(stream) == (200, b"ok")


def test_windows_of_bodies_that_nobody_took_come_back_to_the_connection() -> None:
    limits = Limits(window_bytes=65_535, connection_window_bytes=200_000)
    with serving(lambda exchange: exchange.respond(200, [], b"early"), limits) as made, Http2Client(made) as client:
        for _ in range(20):  # ten times what the window of the connection has
            stream = client.head(b"POST", b"/", end=False)
            while stream not in client.ended and stream not in client.resets:
                room = min(client.h2.local_flow_control_window(stream), 16384)
                if not room:
                    client.step()
                    continue
                client.h2.send_data(stream, b"x" * room)
                client.flush()
                client.step()
            assert client.bodies[stream] == b"early"
            assert client.until_reset(stream) == 0  # NO_ERROR: the rest is not wanted


def test_a_stream_whose_window_stays_shut_waits_and_is_reset_and_others_go_on() -> None:
    noted = Noted()
    waiting = endless(noted, 10_000)

    def handler(exchange: Exchange) -> None:
        if exchange.target == b"/endless":
            waiting(exchange)
        else:
            echo(exchange)

    limits = Limits(stalled_s=0.3, unsent_bytes=50_000)
    with serving(handler, limits) as made, Http2Client(made, auto_credit=False) as client:
        client.h2.increment_flow_control_window(10_000_000)
        client.flush()
        stream = client.head(b"GET", b"/endless")
        wait_until(lambda: noted.exchanges and noted.exchanges[0].full)
        assert noted.exchanges[0].unsent <= 60_000  # type: ignore[attr-defined]
        assert client.ask(b"GET", b"/other") == (200, b"GET ")
        assert client.until_reset(stream) == 8
        assert len(client.bodies[stream]) == 65_535
        wait_until(lambda: noted.gone)
        assert client.ask(b"GET", b"/other") == (200, b"GET ")


def test_writing_without_waiting_beyond_the_hard_bound_resets_the_stream() -> None:
    noted = Noted()

    def handler(exchange: Exchange) -> None:
        noted(exchange)
        exchange.start(200, [])
        for _ in range(100):
            exchange.write(b"x" * 100_000)

    with serving(handler, Limits(unsent_most_bytes=1_000_000)) as made, Http2Client(made) as client:
        assert client.until_reset(client.head()) == 8
        wait_until(lambda: noted.gone)
        assert noted.exchanges[0].gone


def test_a_peer_that_does_not_read_at_all_is_cut() -> None:
    noted = Noted()
    with serving(endless(noted, 10_000), Limits(stalled_s=0.3)) as made, Http2Client(made) as client:
        client.h2.increment_flow_control_window(2**30)
        client.h2.update_settings({4: 2**30})
        client.flush()
        client.head()
        wait_until(lambda: noted.gone)
        wait_until(lambda: made.server.open_connections == 0)


def test_a_window_that_shrinks_below_nothing_stops_the_stream_until_it_is_open_again() -> None:
    noted = Noted()
    with serving(noted) as made, Http2Client(made, auto_credit=False) as client:
        stream = client.head()
        wait_until(lambda: noted.exchanges)
        made.call(lambda: noted.exchanges[0].start(200, []))
        made.call(lambda: noted.exchanges[0].write(b"x" * 60_000))
        while len(client.bodies[stream]) < 60_000:
            client.step()
        client.h2.update_settings({4: 10})
        client.flush()
        client.h2.ping(b"settings")
        client.flush()
        while not client.pings:
            client.step()
        made.call(lambda: noted.exchanges[0].write(b"y" * 10))
        made.call(lambda: noted.exchanges[0].end())
        client.h2.acknowledge_received_data(60_000, stream)
        client.flush()
        assert client.wait(stream) == (200, b"x" * 60_000 + b"y" * 10)


def test_a_reset_tells_the_handler() -> None:
    noted = Noted()
    with serving(noted) as made, Http2Client(made) as client:
        stream = client.head()
        wait_until(lambda: noted.exchanges)
        client.h2.reset_stream(stream, 8)
        client.flush()
        wait_until(lambda: noted.gone)
        made.call(lambda: noted.exchanges[0].respond(200, [], b"late"))
        other = client.head()
        wait_until(lambda: len(noted.exchanges) == 2)
        made.call(lambda: noted.exchanges[1].respond(200, [], b"fine"))
        assert client.wait(other) == (200, b"fine")


def test_a_peer_that_goes_takes_all_its_streams_along() -> None:
    noted = Noted()
    with serving(noted) as made:
        with Http2Client(made) as client:
            for _ in range(3):
                client.head()
            wait_until(lambda: len(noted.exchanges) == 3)
        wait_until(lambda: len(noted.gone) == 3)


def test_cut_resets_the_stream_alone() -> None:
    noted = Noted()
    with serving(noted) as made, Http2Client(made) as client:
        first, second = client.head(), client.head()
        wait_until(lambda: len(noted.exchanges) == 2)
        made.call(noted.exchanges[0].cut)
        assert client.until_reset(first) == 8
        made.call(lambda: noted.exchanges[1].respond(200, [], b"fine"))
        assert client.wait(second) == (200, b"fine")
        assert noted.gone == []


def test_a_handler_that_raises_is_answered_500_and_the_connection_goes_on() -> None:
    def handler(exchange: Exchange) -> None:
        if exchange.target == b"/bad":
            raise ValueError("no")
        echo(exchange)

    with serving(handler) as made, Http2Client(made) as client:
        assert client.ask(b"GET", b"/bad") == (500, b"")
        assert client.ask(b"GET", b"/good") == (200, b"GET ")


def test_streams_beyond_the_bound_are_refused_and_may_be_tried_again() -> None:
    noted = Noted()
    with serving(noted, Limits(streams=2)) as made, Http2Client(made) as client:
        client.h2.remote_settings.max_concurrent_streams = 100
        streams = [client.head() for _ in range(3)]
        assert client.until_reset(streams[2]) == 7
        made.call(lambda: [each.respond(200, [], b"ok") for each in noted.exchanges])
        assert [client.wait(stream) for stream in streams[:2]] == [(200, b"ok")] * 2


def test_stop_says_goaway_and_lets_streams_end() -> None:
    noted = Noted()
    with serving(noted) as made, Http2Client(made) as client, Http2Client(made) as idle:
        stream = client.head()
        wait_until(lambda: noted.exchanges)
        stopping = threading.Thread(target=made.stop)
        stopping.start()
        assert idle.until_closed() == 0
        while client.goaway is None:
            client.socket.settimeout(10)
            data = client.socket.recv(65536)
            for event in client.h2.receive_data(data):
                client._happened(event)
        assert client.goaway.last_stream_id == stream
        made.call(lambda: noted.exchanges[0].respond(200, [], b"bye"))
        rest = b""
        while piece := client.socket.recv(65536):
            rest += piece
        assert rest.endswith(b"bye")
        stopping.join(10)


def test_an_idle_connection_is_told_and_closed() -> None:
    with serving(echo, Limits(idle_s=0.1)) as made, Http2Client(made) as client:
        assert client.ask(b"GET", b"/") == (200, b"GET ")
        assert client.until_closed() == 0


def test_a_peer_that_is_silent_while_it_waits_is_pinged_and_cut_if_it_does_not_answer() -> None:
    noted = Noted()
    with serving(noted, Limits(head_s=0.2, stalled_s=1.5)) as made:
        with Http2Client(made) as client:
            client.head()
            wait_until(lambda: noted.exchanges)
            for _ in range(6):
                client.step()  # which answers the PINGs
            assert made.server.open_connections == 1
            wait_until(lambda: noted.gone)
        assert made.server.open_connections == 0
