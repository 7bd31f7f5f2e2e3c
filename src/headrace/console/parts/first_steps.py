"""What somebody does first on a server with nothing on it: commands and lines of code with this server's own addresses, to be
copied as they stand."""

from __future__ import annotations

from collections.abc import Mapping

from nicegui import ui

from headrace.console.kinesis_access import reached_at
from headrace.console.parts.pieces import heading, plain

_USUAL = "127.0.0.1:9092"  # where the command line looks by itself


def show_first_steps(listeners: Mapping[str, str], server_url: str) -> None:
    """`listeners` are those of /v1/overview, `server_url` is where the console itself reaches the server."""
    at = {protocol: reached_at(server_url, where) for protocol, where in listeners.items()}
    with ui.card().classes("w-full gap-2"):
        heading("Nothing here yet. First steps, in a terminal:")
        plain(commands(at))
        ui.label("Or with the clients that you have:").classes("mt-2")
        with ui.element("div").classes("grid grid-cols-1 md:grid-cols-2 gap-3 w-full"):
            for title, text in snippets(at).items():
                with ui.column().classes("gap-1 min-w-0"):
                    ui.label(title).classes("text-sm headrace-soft")
                    plain(text)


def commands(at: Mapping[str, str]) -> str:
    """The same topic made, written and read on the command line; with the address, where it is not the usual one."""
    kafka = at.get("kafka", _USUAL)
    where = "" if kafka == _USUAL else f" --server {kafka}"
    return "\n".join(
        f"headrace {words}{where}" for words in ("topic create orders", "produce orders hello world", "consume orders")
    )


def snippets(at: Mapping[str, str]) -> dict[str, str]:
    """By title, one for each protocol that is spoken."""
    found = {
        "kafka": (
            "Kafka (pip install confluent-kafka)",
            "from confluent_kafka import Producer\n\n"
            'producer = Producer({{"bootstrap.servers": "{at}"}})\n'
            'producer.produce("orders", "hello")\n'
            "producer.flush()",
        ),
        "amqp": (
            "RabbitMQ (pip install pika)",
            "import pika\n\n"
            'server = pika.URLParameters("amqp://{at}/")\n'
            "channel = pika.BlockingConnection(server).channel()\n"
            'channel.queue_declare("work", durable=True)\n'
            'channel.basic_publish("", "work", b"hello")',
        ),
        "kinesis": (
            "Kinesis (pip install boto3)",
            "import boto3\n\n"
            "kinesis = boto3.client(\n"
            '    "kinesis", "us-east-1",\n'
            '    endpoint_url="http://{at}",\n'
            '    aws_access_key_id="any",\n'
            '    aws_secret_access_key="any",\n'
            ")\n"
            'rides = {{"StreamName": "rides"}}\n'
            "kinesis.create_stream(**rides, ShardCount=1)\n"
            'kinesis.get_waiter("stream_exists").wait(**rides)\n'
            'kinesis.put_record(**rides, PartitionKey="taxi-7", Data=b"hello")',
        ),
        "http": (
            "HTTP",
            "curl -H 'content-type: application/json' \\\n"
            '  -d \'{{"value": "hello"}}\' \\\n'
            "  http://{at}/v1/topics/orders/events",
        ),
    }
    return {title: text.format(at=at[protocol]) for protocol, (title, text) in found.items() if protocol in at}
