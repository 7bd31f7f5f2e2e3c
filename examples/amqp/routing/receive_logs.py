"""Prints the lines of some severities until Ctrl-C: python receive_logs.py SEVERITY..."""

import os
import sys

import pika


def received(channel, method, properties, body):
    print(f"received {method.routing_key}: {body.decode()!r}", flush=True)


severities = sys.argv[1:] or sys.exit("usage: receive_logs.py SEVERITY...")

connection = pika.BlockingConnection(pika.URLParameters(os.environ.get("AMQP_URL", "amqp://guest:guest@127.0.0.1:5672/")))
channel = connection.channel()
channel.exchange_declare("direct_logs", "direct")
queue = channel.queue_declare("", exclusive=True).method.queue
for severity in severities:
    channel.queue_bind(queue, "direct_logs", severity)
channel.basic_consume(queue, received, auto_ack=True)
print("waiting", flush=True)
try:
    channel.start_consuming()
except KeyboardInterrupt:
    connection.close()
