"""Sends a line to everyone who listens now: python emit_log.py [TEXT]"""

import os
import sys

import pika

text = " ".join(sys.argv[1:]) or "info: Hello World!"

connection = pika.BlockingConnection(pika.URLParameters(os.environ.get("AMQP_URL", "amqp://guest:guest@127.0.0.1:5672/")))
channel = connection.channel()
channel.exchange_declare("logs", "fanout")
channel.basic_publish(exchange="logs", routing_key="", body=text)
print(f"sent {text!r}")
connection.close()
