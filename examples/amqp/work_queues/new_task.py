"""Adds a task that takes a tenth of a second for each dot in it: python new_task.py a task..."""

import os
import sys

import pika

task = " ".join(sys.argv[1:]) or "a task."

connection = pika.BlockingConnection(pika.URLParameters(os.environ.get("AMQP_URL", "amqp://guest:guest@127.0.0.1:5672/")))
channel = connection.channel()
channel.queue_declare("task_queue", durable=True)  # the queue outlives a restart of the server...
channel.confirm_delivery()
channel.basic_publish(
    exchange="",
    routing_key="task_queue",
    body=task,
    properties=pika.BasicProperties(delivery_mode=pika.DeliveryMode.Persistent),  # ...and so does the message
)
print(f"sent {task!r}")  # and here we know that it is on the disk: the publish was confirmed
connection.close()
