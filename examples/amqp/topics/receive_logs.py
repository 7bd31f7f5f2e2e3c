"""Prints the lines whose topic matches until Ctrl-C: python receive_logs.py PATTERN...

In a pattern `*` stands for one word and `#` for any number of them: "kern.*", "*.critical", "#".
"""

import os
import sys

import pika


def received(channel, method, properties, body):
    print(f"received {method.routing_key}: {body.decode()!r}", flush=True)


patterns = sys.argv[1:] or sys.exit("usage: receive_logs.py PATTERN...")

connection = pika.BlockingConnection(pika.URLParameters(os.environ.get("AMQP_URL", "amqp://guest:guest@127.0.0.1:5672/")))
channel = connection.channel()
channel.exchange_declare("topic_logs", "topic")
queue = channel.queue_declare("", exclusive=True).method.queue
for pattern in patterns:
    channel.queue_bind(queue, "topic_logs", pattern)
channel.basic_consume(queue, received, auto_ack=True)
print("waiting", flush=True)
try:
    channel.start_consuming()
except KeyboardInterrupt:
    connection.close()
