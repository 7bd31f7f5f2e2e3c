"""Names of streams and consumers: ARNs and stream ids."""

from __future__ import annotations

import re
from typing import NamedTuple
from uuid import UUID

MAX_NAME_LENGTH = 128  # a topic with a longer name is not shown as a stream

_ARN = re.compile(
    r"arn:aws[^:]*:kinesis:([^:/]*):(\d{12}):stream/([a-zA-Z0-9_.-]{1,128})(?:/consumer/([a-zA-Z0-9_.-]{1,128})(?::(\d{1,15}))?)?",
    re.ASCII,
)
_ID_LETTERS = "0123456789abcdefghijklmnopqrstuvwxyz"
_ID_LENGTH, _ID_TAIL = 23, 3


class ArnParts(NamedTuple):
    region: str
    account: str
    stream: str
    consumer: str | None = None
    created_s: int | None = None  # of the consumer, if it is in it


def stream_arn(account: str, region: str, name: str) -> str:
    return f"arn:{_partition(region)}:kinesis:{region}:{account}:stream/{name}"


def consumer_arn(account: str, region: str, stream: str, name: str) -> str:
    """Amazon's have `:` and the second of the registration behind the name. They may, and here they don't: so the ARN of a
    consumer is known before it is registered."""
    return f"{stream_arn(account, region, stream)}/consumer/{name}"


def parse_arn(text: str) -> ArnParts | None:
    found = _ARN.fullmatch(text)
    if found is None:
        return None
    region, account, stream, consumer, created_s = found.groups()
    return ArnParts(region, account, stream, consumer, None if created_s is None else int(created_s))


def stream_id(topic_id: UUID) -> str:
    """Always the same for one topic, in the form that Amazon's have."""
    number = topic_id.int
    letters = ""
    for _ in range(_ID_LENGTH):
        number, digit = divmod(number, 36)
        letters += _ID_LETTERS[digit]
    return f"{letters[:-_ID_TAIL]}-{letters[-_ID_TAIL:]}"


def _partition(region: str) -> str:
    if region.startswith("cn-"):
        return "aws-cn"
    return "aws-us-gov" if region.startswith("us-gov-") else "aws"
