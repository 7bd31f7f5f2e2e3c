"""FastStream: the application in examples/amqp answers requests and publishes what it has done."""

from __future__ import annotations

import json

import pytest
from tests.interop.amqp.inbox import Inbox, get_when_there, publish

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]


def test_handlers_take_answer_and_publish(run, unique, made, channel):
    stem = unique("faststream")
    made.queues += [f"{stem}.orders", f"{stem}.audit", f"{stem}.audited"]
    made.exchanges.append(f"{stem}.events")
    channel.queue_declare(f"{stem}.audited", durable=True)
    application = run("-c", "import asyncio, faststream_app; asyncio.run(faststream_app.app.run())", FASTSTREAM_STEM=stem)
    application.wait_for("started successfully")
    replies = Inbox(channel, "amq.rabbitmq.reply-to", no_ack=True)
    order = {"number": 7, "item": "kettle"}
    publish(
        channel,
        f"{stem}.orders",
        [json.dumps(order)],
        content_type="application/json",
        reply_to="amq.rabbitmq.reply-to",
        correlation_id="question",
    )
    (answer,) = replies.wait(1)
    assert answer.properties.correlation_id == "question"
    assert json.loads(answer.body) == {"number": 7, "item": "KETTLE"}
    assert get_when_there(channel, f"{stem}.audited").body == b"audited 7 KETTLE"
    publish(channel, f"{stem}.orders", [json.dumps({"number": -1, "item": "nothing"})], content_type="application/json")
    application.wait_for("greater than 0")  # refused by its type, and the application goes on
    publish(channel, f"{stem}.orders", [json.dumps({"number": 8, "item": "cup"})], content_type="application/json")
    assert get_when_there(channel, f"{stem}.audited").body == b"audited 8 CUP"
