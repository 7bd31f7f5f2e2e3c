"""Headrace: Kafka, RabbitMQ and Kinesis clients on one log, in one Python process."""

__version__ = "0.1.0"
