"""Works on tasks one at a time until Ctrl-C. Start several, and kill some: no task is lost. python worker.py"""

import os
import time

import pika


def work(channel, method, properties, body):
    task = body.decode()
    print(f"began {task!r}", flush=True)
    time.sleep(task.count(".") / 10)
    print(f"finished {task!r}", flush=True)
    channel.basic_ack(method.delivery_tag)  # only now: a worker that dies before this leaves its task to another


connection = pika.BlockingConnection(pika.URLParameters(os.environ.get("AMQP_URL", "amqp://guest:guest@127.0.0.1:5672/")))
channel = connection.channel()
channel.queue_declare("task_queue", durable=True)
channel.basic_qos(prefetch_count=1)  # no second task while one is unfinished: another worker may be free
channel.basic_consume("task_queue", work)
print("waiting", flush=True)
try:
    channel.start_consuming()
except KeyboardInterrupt:
    connection.close()
