"""Sends one message to the queue `hello`: python send.py [TEXT]"""

import os
import sys

import pika

text = " ".join(sys.argv[1:]) or "Hello World!"

connection = pika.BlockingConnection(pika.URLParameters(os.environ.get("AMQP_URL", "amqp://guest:guest@127.0.0.1:5672/")))
channel = connection.channel()
channel.queue_declare("hello")
channel.basic_publish(exchange="", routing_key="hello", body=text)
print(f"sent {text!r}")
connection.close()
