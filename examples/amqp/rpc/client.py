"""Asks for Fibonacci numbers: python client.py NUMBER..."""

import os
import sys
import uuid

import pika


class Fibonacci:
    def __init__(self, url):
        self.connection = pika.BlockingConnection(pika.URLParameters(url))
        self.channel = self.connection.channel()
        self.replies = self.channel.queue_declare("", exclusive=True).method.queue
        self.channel.basic_consume(self.replies, self.answered, auto_ack=True)
        self.answers = {}

    def answered(self, channel, method, properties, body):
        self.answers[properties.correlation_id] = int(body)

    def __call__(self, number):
        question = str(uuid.uuid4())  # finds the answer among others
        self.channel.basic_publish(
            exchange="",
            routing_key="rpc_queue",
            body=str(number),
            properties=pika.BasicProperties(reply_to=self.replies, correlation_id=question),
        )
        while question not in self.answers:
            self.connection.process_data_events(time_limit=None)
        return self.answers.pop(question)


fibonacci = Fibonacci(os.environ.get("AMQP_URL", "amqp://guest:guest@127.0.0.1:5672/"))
for number in sys.argv[1:] or ["30"]:
    print(f"fibonacci({number}) = {fibonacci(int(number))}", flush=True)
fibonacci.connection.close()
