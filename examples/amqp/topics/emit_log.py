"""Sends a line about a topic, words with dots between: python emit_log.py kern.critical TEXT"""

import os
import sys

import pika

topic = sys.argv[1] if len(sys.argv) > 1 else "anonymous.info"
text = " ".join(sys.argv[2:]) or "Hello World!"

connection = pika.BlockingConnection(pika.URLParameters(os.environ.get("AMQP_URL", "amqp://guest:guest@127.0.0.1:5672/")))
channel = connection.channel()
channel.exchange_declare("topic_logs", "topic")
channel.basic_publish(exchange="topic_logs", routing_key=topic, body=text)
print(f"sent {topic}: {text!r}")
connection.close()
