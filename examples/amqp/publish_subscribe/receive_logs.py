"""Prints every line from now on until Ctrl-C; each one who runs this gets them all: python receive_logs.py"""

import os

import pika


def received(channel, method, properties, body):
    print(f"received {body.decode()!r}", flush=True)


connection = pika.BlockingConnection(pika.URLParameters(os.environ.get("AMQP_URL", "amqp://guest:guest@127.0.0.1:5672/")))
channel = connection.channel()
channel.exchange_declare("logs", "fanout")
queue = channel.queue_declare("", exclusive=True).method.queue  # ours alone, named by the server, gone when we are
channel.queue_bind(queue, "logs")
channel.basic_consume(queue, received, auto_ack=True)
print("waiting", flush=True)
try:
    channel.start_consuming()
except KeyboardInterrupt:
    connection.close()
