"""Quotas over a real socket with a clock that stands still: what a client gets through is counted against virtual time, so a
client that ignores throttle_time_ms is seen to be slowed all the same."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

from headrace.broker import Broker
from headrace.broker.quotas import CLIENT_ID, IP, Alteration, Entity
from headrace.broker.settings import Settings
from headrace.clock import SystemClock
from headrace.disk.real import RealDisk
from headrace.kafka.codec.headers import RequestHeader, decode_response_header, encode_request_header
from headrace.kafka.codec.schema import Request, decode, encode_into
from headrace.kafka.listener import KafkaListener
from headrace.kafka.messages import response_class
from headrace.kafka.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from headrace.kafka.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.kafka.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headrace.kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headrace.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic
from headrace.kafka.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headrace.log.embedded import EmbeddedLog
from headrace.record.batch import encode_batch
from headrace.record.event import Event
from headrace.testing.clock import SimulatedClock

THROTTLING_QUOTA_EXCEEDED = 89


class Link:
    """A client that sends as fast as the socket takes it, and never pauses by itself."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, client_id: str | None) -> None:
        self._reader, self._writer, self._client_id = reader, writer, client_id

    def send(self, request: Request, version: int) -> None:
        header = RequestHeader(request.api_key, version, 1, self._client_id)
        body = encode_request_header(header, flexible=version >= (request.flexible or 1000))
        encode_into(body, request, version)
        self._writer.write(len(body).to_bytes(4, "big") + bytes(body))

    async def receive(self, request: Request, version: int):  # type: ignore[no-untyped-def]
        size = int.from_bytes(await self._reader.readexactly(4), "big")
        body = await self._reader.readexactly(size)
        _, position = decode_response_header(body, flexible=version >= (request.flexible or 1000))
        return decode(response_class(request.api_key), version, body, position)

    async def ask(self, request: Request, version: int):  # type: ignore[no-untyped-def]
        self.send(request, version)
        return await asyncio.wait_for(self.receive(request, version), 20)

    async def silent(self) -> bool:
        """Nothing comes, although the server has been around its loop many times."""
        for _ in range(15):
            await asyncio.sleep(0.001)
        return not self._reader._buffer  # type: ignore[attr-defined]

    @property
    def closed(self) -> bool:
        return self._reader.at_eof()

    async def end(self) -> None:
        with contextlib.suppress(ConnectionResetError):
            assert not await self._reader.read()

    def close(self) -> None:
        self._writer.close()


class Bench:
    def __init__(self, folder: Path) -> None:
        self.clock = SimulatedClock()
        self.log = EmbeddedLog.open(RealDisk(folder), SystemClock(), defaults={}, folder=str(folder))
        self.broker = Broker(self.log, self.clock, Settings(), "cluster")
        self.listener = KafkaListener(self.broker)
        self.links: list[Link] = []

    async def quota(self, parts: dict[str, str | None], **values: float | None) -> None:
        results = await self.broker.quotas.alter([Alteration(Entity.of(parts), tuple(values.items()))])
        assert set(results.values()) == {None}

    async def connect(self, client_id: str | None = "app") -> Link:
        link = Link(*await asyncio.open_connection(*self.listener.advertised), client_id)
        self.links.append(link)
        return link


def on_a_bench(scenario: Callable[[Bench], Awaitable[None]]) -> None:
    async def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            bench = Bench(Path(folder))
            try:
                await bench.broker.start()
                await bench.listener.start("127.0.0.1", 0)
                await bench.log.create_topic("t", 2)
                await scenario(bench)
            finally:
                for link in bench.links:
                    link.close()
                await bench.listener.stop()
                bench.broker.close()
                await bench.log.close()

    asyncio.run(run())


def produce(size: int, acks: int = 1) -> ProduceRequest:
    batch = encode_batch([Event(None, b"v" * size, timestamp_ms=1_700_000_000_000)])
    data = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=bytes(batch))])
    return ProduceRequest(acks=acks, timeout_ms=5000, topic_data=[data])


def fetch(offset: int = 0, max_bytes: int = 10**6, session: tuple[int, int] = (0, -1)) -> FetchRequest:
    part = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes, current_leader_epoch=-1)
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=max_bytes,
        session_id=session[0],
        session_epoch=session[1],
        topics=[FetchTopic(topic="t", partitions=[part])],
    )


async def drain(link: Link, request: Request, version: int) -> list[int]:
    """The throttle times of the answers that are there, until none comes."""
    waits = []
    while not await link.silent():
        waits.append((await link.receive(request, version)).throttle_time_ms)
    return waits


def test_a_producer_that_ignores_its_throttle_time_gets_no_more_through_than_its_quota() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.quota({CLIENT_ID: "app"}, producer_byte_rate=1000)
        link = await bench.connect()
        request = produce(1000)
        for _ in range(40):  # in one go, and not a word about pauses
            link.send(request, 9)
        waits = await drain(link, request, 9)
        assert len(waits) == 10  # ten seconds' worth at once, and the request that was above
        assert waits[-1] > 0
        assert set(waits[:-1]) == {0}
        partition = bench.log.partition("t", 0)
        assert partition is not None
        for _ in range(12):
            bench.clock.advance(5)
            await drain(link, request, 9)
            assert partition.size_bytes <= 1000 * (bench.clock.monotonic() + 11) + 2000
        assert partition.end_offset == 40  # slowed, and nothing was lost
        assert bench.broker.quotas.throttled["producer_byte_rate"].times > 0

    on_a_bench(scenario)


def test_other_clients_go_on_and_acks_0_is_slowed_too() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.quota({CLIENT_ID: "app"}, producer_byte_rate=100)
        link, other = await bench.connect(), await bench.connect("other")
        for _ in range(20):
            link.send(produce(1000, acks=0), 9)
        link.send(MetadataRequest(topics=[]), 9)
        assert await link.silent()
        assert (await other.ask(produce(10_000), 9)).throttle_time_ms == 0
        await bench.quota({CLIENT_ID: "app"}, producer_byte_rate=None)
        assert not bench.broker.quotas.enforced
        assert await link.silent()  # what it owes, it owes
        bench.clock.advance(1000)
        assert (await link.receive(MetadataRequest(), 9)).throttle_time_ms == 0

    on_a_bench(scenario)


def test_a_consumer_above_its_quota_gets_nothing_now_and_everything_in_time() -> None:
    async def scenario(bench: Bench) -> None:
        producer = await bench.connect("producer")
        for _ in range(40):
            await producer.ask(produce(1000, acks=-1), 9)
        await bench.quota({CLIENT_ID: "app"}, consumer_byte_rate=1000)
        link = await bench.connect()
        read = offset = throttled = 0
        link.send(fetch(offset, max_bytes=3000), 4)
        while offset < 40:
            answer = await asyncio.wait_for(link.receive(fetch(), 4), 20)
            records = answer.responses[0].partitions[0].records if answer.responses else b""
            read += len(records)
            offset += records.count(b"v" * 1000)
            assert read <= 1000 * (bench.clock.monotonic() + 10) + 1000
            link.send(fetch(offset, max_bytes=3000), 4)
            if answer.throttle_time_ms:
                throttled += 1
                assert not records
                assert await link.silent()
                bench.clock.advance(answer.throttle_time_ms / 1000)
        assert throttled > 2

    on_a_bench(scenario)


def test_a_batch_larger_than_the_whole_window_is_paid_for_instead_of_never_sent() -> None:
    async def scenario(bench: Bench) -> None:
        await (await bench.connect("producer")).ask(produce(100_000, acks=-1), 9)
        await bench.quota({CLIENT_ID: "app"}, consumer_byte_rate=1000)
        link = await bench.connect()
        answer = await link.ask(fetch(), 4)
        assert len(answer.responses[0].partitions[0].records) > 100_000
        assert answer.throttle_time_ms >= 90_000
        link.send(fetch(), 4)
        bench.clock.advance(89)
        assert await link.silent()

    on_a_bench(scenario)


def test_a_fetch_session_goes_on_after_an_answer_that_was_held_back() -> None:
    async def scenario(bench: Bench) -> None:
        producer = await bench.connect("producer")
        await bench.quota({CLIENT_ID: "app"}, consumer_byte_rate=100)
        link = await bench.connect()
        first = await link.ask(fetch(session=(0, 0)), 7)
        assert first.session_id
        for _ in range(2):
            await producer.ask(produce(700, acks=-1), 9)
        step = fetch(session=(first.session_id, 1))
        assert (await link.ask(step, 7)).responses  # 700 of the 1,000 that may come at once
        held = await link.ask(fetch(1, session=(first.session_id, 2)), 7)
        assert (held.session_id, held.responses, held.error_code) == (first.session_id, [], 0)
        assert held.throttle_time_ms
        bench.clock.advance(60)
        assert (await link.ask(fetch(1, session=(first.session_id, 3)), 7)).responses

    on_a_bench(scenario)


def test_time_on_the_event_loop_is_limited_by_request_percentage() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.quota({CLIENT_ID: None}, request_percentage=0.0001)  # ten microseconds in ten seconds
        link = await bench.connect()
        answer = await link.ask(MetadataRequest(topics=None), 9)
        assert 0 < answer.throttle_time_ms <= 1000  # never longer than one window
        link.send(MetadataRequest(topics=[]), 9)
        assert await link.silent()
        bench.clock.advance(1)
        assert await asyncio.wait_for(link.receive(MetadataRequest(), 9), 20)
        nameless = await bench.connect(None)
        assert (await nameless.ask(MetadataRequest(topics=None), 9)).throttle_time_ms == 0

    on_a_bench(scenario)


def test_too_many_partitions_are_refused_to_new_clients_and_slow_down_old_ones() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.quota({CLIENT_ID: "app"}, controller_mutation_rate=1)
        link = await bench.connect()

        def create(name: str, partitions: int) -> CreateTopicsRequest:
            return CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)])

        burst = await link.ask(create("a", 30), 7)
        assert (burst.topics[0].error_code, burst.throttle_time_ms) == (0, 0)  # the bucket may be overdrawn once
        refused = await link.ask(create("b", 1), 7)
        assert refused.topics[0].error_code == THROTTLING_QUOTA_EXCEEDED
        assert refused.throttle_time_ms == 19_000
        bench.clock.advance(19)
        more = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="a", count=40, assignments=None)])
        assert (await link.ask(more, 3)).results[0].error_code == 0
        gone = DeleteTopicsRequest(topics=[DeleteTopicState(name="a")])
        assert (await link.ask(gone, 6)).responses[0].error_code == THROTTLING_QUOTA_EXCEEDED
        bench.clock.advance(10)
        old = await link.ask(create("c", 5), 5)  # before version 6 there was no such error
        assert (old.topics[0].error_code, old.throttle_time_ms) == (0, 5000)
        link.send(MetadataRequest(topics=[]), 9)
        assert await link.silent()

    on_a_bench(scenario)


def test_topics_made_by_asking_for_them_count_too() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.quota({CLIENT_ID: "app"}, controller_mutation_rate=1)
        link = await bench.connect()
        names = [MetadataRequestTopic(name=f"auto-{number}") for number in range(15)]
        assert (await link.ask(MetadataRequest(topics=names), 9)).throttle_time_ms == 4000  # 11 at once, one a second after

    on_a_bench(scenario)


def test_an_address_that_connects_too_often_is_left_hanging_and_then_closed() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.quota({IP: "127.0.0.1"}, connection_creation_rate=1)
        links = [await bench.connect() for _ in range(11)]
        for link in links[:10]:
            assert await link.ask(MetadataRequest(topics=[]), 9)
        links[10].send(MetadataRequest(topics=[]), 9)
        assert await links[10].silent()
        assert not links[10].closed
        bench.clock.advance(1)
        await asyncio.wait_for(links[10].end(), 20)

    on_a_bench(scenario)


def test_half_a_request_waits_through_the_pause() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.quota({CLIENT_ID: "app"}, producer_byte_rate=100)
        link = await bench.connect()
        request = produce(2000)
        link.send(request, 9)
        link.send(produce(300_000), 9)  # more than one read takes in
        assert (await link.receive(request, 9)).throttle_time_ms > 0
        assert await link.silent()
        bench.clock.advance(60)
        assert (await asyncio.wait_for(link.receive(request, 9), 20)).responses[0].partition_responses[0].error_code == 0

    on_a_bench(scenario)
