"""Prints what comes to the queue `hello` until Ctrl-C: python receive.py"""

import os

import pika


def received(channel, method, properties, body):
    print(f"received {body.decode()!r}", flush=True)


connection = pika.BlockingConnection(pika.URLParameters(os.environ.get("AMQP_URL", "amqp://guest:guest@127.0.0.1:5672/")))
channel = connection.channel()
channel.queue_declare("hello")  # whoever comes first makes the queue; the other finds it
channel.basic_consume("hello", received, auto_ack=True)
print("waiting", flush=True)
try:
    channel.start_consuming()
except KeyboardInterrupt:
    connection.close()
