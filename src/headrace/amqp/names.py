"""Names: which queue a method means when it names none, and names that the server makes up."""

from __future__ import annotations

import base64
import secrets
from typing import TYPE_CHECKING

from headrace.broker.queues.errors import not_found

if TYPE_CHECKING:
    from headrace.amqp.channel import Channel


def queue_name(channel: Channel, given: str) -> str:
    """The queue that is named, or the one that the channel has declared last."""
    if given:
        return given
    if not channel.last_queue:
        raise not_found("no previously declared queue")
    return channel.last_queue


def random_name() -> str:
    """22 characters that nobody can guess."""
    return base64.urlsafe_b64encode(secrets.token_bytes(16)).rstrip(b"=").decode()
