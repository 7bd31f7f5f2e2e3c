"""Sends a line of a severity: python emit_log.py SEVERITY TEXT"""

import os
import sys

import pika

severity = sys.argv[1] if len(sys.argv) > 1 else "info"
text = " ".join(sys.argv[2:]) or "Hello World!"

connection = pika.BlockingConnection(pika.URLParameters(os.environ.get("AMQP_URL", "amqp://guest:guest@127.0.0.1:5672/")))
channel = connection.channel()
channel.exchange_declare("direct_logs", "direct")
channel.basic_publish(exchange="direct_logs", routing_key=severity, body=text)
print(f"sent {severity}: {text!r}")
connection.close()
