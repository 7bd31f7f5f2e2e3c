"""aio-pika: many tasks on one connection, and the robust connection that puts everything back after a fall."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
from collections.abc import Awaitable, Callable

import aio_pika
import pytest
from aio_pika import DeliveryMode, ExchangeType, Message
from aio_pika.abc import AbstractIncomingMessage
from aio_pika.exceptions import ChannelClosed, DeliveryError, QueueEmpty
from aio_pika.patterns import RPC

pytestmark = pytest.mark.interop


@pytest.fixture
def on_channel(broker):
    """Runs a coroutine function with a channel in confirm mode: `on_channel(scenario)`."""

    def run(scenario: Callable[[aio_pika.abc.AbstractChannel], Awaitable[None]]) -> None:
        async def main() -> None:
            async with asyncio.timeout(40), await aio_pika.connect(broker.url) as connection:
                await scenario(await connection.channel())

        asyncio.run(main())

    return run


def test_a_thousand_publishes_at_once_are_all_confirmed_and_read(on_channel):
    async def scenario(channel):
        queue = await channel.declare_queue("", exclusive=True, durable=True)
        messages = [Message(b"%d" % number, delivery_mode=DeliveryMode.PERSISTENT) for number in range(1000)]
        await asyncio.gather(*(channel.default_exchange.publish(message, queue.name) for message in messages))
        read = []
        async with queue.iterator() as incoming:
            async for message in incoming:
                async with message.process():
                    read.append(int(message.body))
                if len(read) == 1000:
                    break
        assert read == list(range(1000))
        assert (await channel.declare_queue(queue.name, passive=True)).declaration_result.message_count == 0

    on_channel(scenario)


def test_headers_of_every_type_arrive_as_they_were(on_channel):
    headers = {
        "bool": True,
        "int": 2**40,
        "negative": -5,
        "float": 0.125,  # pamqp sends it in four bytes
        "text": "ünïcode",
        "void": None,
        "time": datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC),
        "list": [1, 2.5, "three", {"four": [None]}],
        "table": {"a": {"b": 1}},
    }

    async def scenario(channel):
        queue = await channel.declare_queue("", exclusive=True)
        given = Message(b"x", headers=headers, timestamp=datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC), expiration=60)
        await channel.default_exchange.publish(given, queue.name)
        message = await queue.get(no_ack=True)
        assert {name: _plain(value) for name, value in message.headers.items()} == {
            name: _plain(value) for name, value in headers.items()
        }
        assert message.timestamp.replace(tzinfo=datetime.UTC) == given.timestamp.replace(tzinfo=datetime.UTC)
        assert (message.expiration, message.body) == (60, b"x")

    on_channel(scenario)


def _plain(value):
    """Times come back in UTC, with or without saying so."""
    return value.replace(tzinfo=None) if isinstance(value, datetime.datetime) else value


def test_returned_messages_are_errors_of_their_own_publish(on_channel):
    async def scenario(plain):
        channel = await plain._connection.channel(on_return_raises=True)
        queue = await channel.declare_queue("", exclusive=True)
        results = await asyncio.gather(
            *(
                channel.default_exchange.publish(Message(b"x"), queue.name if number % 2 else "nowhere-at-all")
                for number in range(10)
            ),
            return_exceptions=True,
        )
        returned = [number for number, result in enumerate(results) if isinstance(result, DeliveryError)]
        assert returned == [0, 2, 4, 6, 8]

    on_channel(scenario)


def test_topics_headers_and_bound_exchanges(on_channel, unique):
    async def scenario(channel):
        topic = await channel.declare_exchange(unique("topic"), ExchangeType.TOPIC, auto_delete=True)
        header = await channel.declare_exchange(unique("headers"), ExchangeType.HEADERS, auto_delete=True)
        queue = await channel.declare_queue("", exclusive=True)
        await header.bind(topic, "a.*")
        await queue.bind(header, arguments={"x-match": "any", "kind": "good"})
        for key, kind in (("a.1", "good"), ("a.2", "bad"), ("b.1", "good"), ("a.3", "good")):
            await topic.publish(Message(key.encode(), headers={"kind": kind}), key, mandatory=False)
        assert [(await queue.get(no_ack=True)).body for _ in range(2)] == [b"a.1", b"a.3"]
        with pytest.raises(QueueEmpty):
            await queue.get(no_ack=True)

    on_channel(scenario)


def test_prefetch_lets_a_free_consumer_work(broker, unique):
    async def main() -> None:
        async with asyncio.timeout(40), await aio_pika.connect(broker.url) as connection:
            counts = {"slow": 0, "quick": 0}
            gate, all_done = asyncio.Event(), asyncio.Event()

            def worker(name: str) -> Callable[[AbstractIncomingMessage], Awaitable[None]]:
                async def work(message: AbstractIncomingMessage) -> None:
                    if name == "slow":
                        await gate.wait()
                    await message.ack()
                    counts[name] += 1
                    if counts["quick"] == 19:
                        gate.set()
                    if sum(counts.values()) == 20:
                        all_done.set()

                return work

            channels = [await connection.channel() for _ in range(2)]
            queue = await channels[0].declare_queue(unique("work"), auto_delete=True)
            for name, channel in zip(counts, channels, strict=True):
                await channel.set_qos(prefetch_count=1)
                await (await channel.get_queue(queue.name)).consume(worker(name))
            for number in range(20):
                await channels[0].default_exchange.publish(Message(b"%d" % number), queue.name)
            await all_done.wait()
            assert counts == {"slow": 1, "quick": 19}

    asyncio.run(main())


def test_a_transaction_commits_or_not(broker):
    async def main() -> None:
        async with asyncio.timeout(40), await aio_pika.connect(broker.url) as connection:
            channel = await connection.channel(publisher_confirms=False)
            queue = await channel.declare_queue("", exclusive=True)
            with contextlib.suppress(ZeroDivisionError):
                async with channel.transaction():
                    await channel.default_exchange.publish(Message(b"rolled back"), queue.name)
                    raise ZeroDivisionError
            async with channel.transaction():
                await channel.default_exchange.publish(Message(b"committed"), queue.name)
            assert (await queue.get(no_ack=True)).body == b"committed"
            assert await queue.get(no_ack=True, fail=False) is None

    asyncio.run(main())


def test_a_closed_channel_tells_why(on_channel, unique):
    name = unique("nothing")

    async def scenario(channel):
        with pytest.raises(ChannelClosed, match=f"no queue '{name}' in vhost '/'"):
            await channel.declare_queue(name, passive=True)

    on_channel(scenario)


def test_remote_procedure_calls(broker, unique):
    name = unique("multiply")

    async def multiply(*, x: int, y: int) -> int:
        return x * y

    async def main() -> None:
        async with (
            asyncio.timeout(40),
            await aio_pika.connect(broker.url) as serving,
            await aio_pika.connect(broker.url) as asking,
        ):
            server = await RPC.create(await serving.channel())
            await server.register(name, multiply, auto_delete=True)
            caller = await RPC.create(await asking.channel())
            answers = await asyncio.gather(*(caller.call(name, {"x": x, "y": 3}) for x in range(50)))
            assert answers == [x * 3 for x in range(50)]
            with pytest.raises(Exception, match="unexpected keyword"):
                await caller.call(name, {"z": 1})

    asyncio.run(main())


def test_a_robust_connection_puts_everything_back_after_a_restart(own_broker, unique):
    """Exclusive queues, bindings and consumers are declared again by the client; it must find the broker as it expects."""
    name = unique("robust")

    async def main() -> None:
        async with asyncio.timeout(100):
            connection = await aio_pika.connect_robust(own_broker.url, reconnect_interval=0.2, fail_fast=False)
            channel = await connection.channel()
            exchange = await channel.declare_exchange(name, ExchangeType.FANOUT, durable=False, auto_delete=True)
            queue = await channel.declare_queue(name, durable=True)
            await queue.bind(exchange)
            read: asyncio.Queue[bytes] = asyncio.Queue()

            async def take(message: AbstractIncomingMessage) -> None:
                await message.ack()
                read.put_nowait(message.body)

            await queue.consume(take)
            await exchange.publish(Message(b"before"), "")
            assert await read.get() == b"before"
            await asyncio.to_thread(own_broker.restart)
            got = None
            while got is None:
                try:
                    async with asyncio.timeout(5):
                        await exchange.publish(Message(b"after"), "")
                    async with asyncio.timeout(1):
                        got = await read.get()
                except Exception:  # while the connection is down, or the exchange there and its binding not yet
                    await asyncio.sleep(0.1)
            assert got == b"after"
            await queue.delete(if_unused=False)
            await connection.close()

    asyncio.run(main())
