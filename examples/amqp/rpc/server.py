"""Answers with Fibonacci numbers until Ctrl-C: python server.py"""

import os

import pika


def fibonacci(n):
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a


def asked(channel, method, properties, body):
    number = int(body)
    print(f"asked for fibonacci({number})", flush=True)
    channel.basic_publish(
        exchange="",
        routing_key=properties.reply_to,
        body=str(fibonacci(number)),
        properties=pika.BasicProperties(correlation_id=properties.correlation_id),
    )
    channel.basic_ack(method.delivery_tag)


connection = pika.BlockingConnection(pika.URLParameters(os.environ.get("AMQP_URL", "amqp://guest:guest@127.0.0.1:5672/")))
channel = connection.channel()
channel.queue_declare("rpc_queue")
channel.basic_qos(prefetch_count=1)
channel.basic_consume("rpc_queue", asked)
print("waiting", flush=True)
try:
    channel.start_consuming()
except KeyboardInterrupt:
    connection.close()
