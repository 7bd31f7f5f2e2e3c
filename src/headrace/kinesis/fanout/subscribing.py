"""SubscribeToShard: from the request to a subscription that runs. What is wrong is answered before the event stream begins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.kinesis.data.positions import find_shard, starting_offset
from headrace.kinesis.errors import consumer_not_found, dry_run, service_unavailable, stream_not_found
from headrace.kinesis.fanout.subscriptions import subscriptions_of
from headrace.kinesis.lookup import find_consumer

if TYPE_CHECKING:
    from headrace.kinesis.service import RawCall


def subscribe_to_shard(call: RawCall) -> None:
    given = call.checked()
    call.run(_subscribe(call, given))


async def _subscribe(call: RawCall, given: dict[str, Any]) -> None:
    consumer = find_consumer(call, given["ConsumerARN"])
    stream = consumer.stream
    shard = find_shard(stream, given["ShardId"], stream.account)
    position = given["StartingPosition"]
    offset = await starting_offset(
        stream,
        shard,
        position["Type"],
        position.get("SequenceNumber"),
        position.get("Timestamp"),
        now_ms=call.broker.clock.now_ms(),
        account=stream.account,
        operation=call.name,
    )
    if call.exchange.gone:
        return
    if stream.gone:
        raise stream_not_found(stream.name, stream.account)
    if consumer.gone:
        raise consumer_not_found(consumer.arn, stream.account)
    if given.get("DryRun"):
        raise dry_run()
    if call.service.closing:
        raise service_unavailable("The server stops. Try again.")
    await subscriptions_of(call.service).open(call, consumer, shard, offset).run()
