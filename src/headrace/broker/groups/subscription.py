"""The topics a consumer subscribes to, read out of its otherwise opaque JoinGroup metadata.

The consumer protocol ("consumer") starts every version of its subscription with the same fields: an int16 version and
an array of topic names (ConsumerProtocolSubscription.json). Nothing after that is looked at.
"""

from __future__ import annotations

import struct

CONSUMER_PROTOCOL_TYPE = "consumer"

_HEAD = struct.Struct(">hi")
_LENGTH = struct.Struct(">h")


class MalformedSubscription(ValueError):
    """The bytes are not a consumer protocol subscription."""


def subscribed_topics(metadata: bytes) -> frozenset[str]:
    if len(metadata) < _HEAD.size:
        raise MalformedSubscription("shorter than its header")
    version, count = _HEAD.unpack_from(metadata)
    if version < 0 or count < 0:
        raise MalformedSubscription("negative version or topic count")
    if count > (len(metadata) - _HEAD.size) // _LENGTH.size:
        raise MalformedSubscription("more topics than there are bytes for")
    topics: set[str] = set()
    position = _HEAD.size
    for _ in range(count):
        if position + _LENGTH.size > len(metadata):
            raise MalformedSubscription("ends inside a topic's length")
        (length,) = _LENGTH.unpack_from(metadata, position)
        position += _LENGTH.size
        if length < 0 or position + length > len(metadata):
            raise MalformedSubscription("ends inside a topic's name")
        try:
            topics.add(metadata[position : position + length].decode())
        except UnicodeDecodeError as error:
            raise MalformedSubscription("a topic's name is not UTF-8") from error
        position += length
    return frozenset(topics)
