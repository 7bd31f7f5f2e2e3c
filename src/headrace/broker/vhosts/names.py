"""How things of a virtual host are called, in refusals and in requests."""

from __future__ import annotations

RESERVED = "amq."
REPLY_TO = "amq.rabbitmq.reply-to"  # what clients call the pseudo-queue of direct reply-to
SERVER_NAMED = "amq.gen-"

PREDECLARED = {  # the exchanges that every virtual host has, and their types
    "amq.direct": "direct",
    "amq.fanout": "fanout",
    "amq.headers": "headers",
    "amq.match": "headers",
    "amq.rabbitmq.trace": "topic",
    "amq.topic": "topic",
}

_LINE_ENDS = str.maketrans("", "", "\r\n")


def stripped(name: str) -> str:
    """Names have no line ends: RabbitMQ takes them away without a word."""
    return name.translate(_LINE_ENDS) if "\n" in name or "\r" in name else name


def queue_text(name: str, vhost: str) -> str:
    return f"queue '{name}' in vhost '{vhost}'"


def exchange_text(name: str, vhost: str) -> str:
    return f"exchange '{name}' in vhost '{vhost}'"
