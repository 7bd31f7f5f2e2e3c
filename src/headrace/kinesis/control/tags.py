"""Tags of streams and consumers: AddTagsToStream, RemoveTagsFromStream, ListTagsForStream, and the newer TagResource,
UntagResource and ListTagsForResource, which name a stream or a consumer by its ARN."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

from headrace.broker.streams.tags import MAX_TAGS
from headrace.kinesis.errors import KinesisError, invalid_argument
from headrace.kinesis.lookup import find_resource
from headrace.kinesis.pages import page_of
from headrace.kinesis.service import Call

DEFAULT_PAGE = 50
_GOOD = re.compile(r"[\w ./=+\-%@:]*")
_WRONG = "Some tags contain invalid characters. Valid characters: Unicode letters, digits, white space, _ . / = + - % @."
_RESERVED = "aws:"


def check_tags(tags: Mapping[str, str] | Sequence[str]) -> None:
    """Whether keys and values are of characters that AWS takes; raises KinesisError."""
    texts = [*tags, *tags.values()] if isinstance(tags, Mapping) else tags
    if not all(_GOOD.fullmatch(text) for text in texts):
        raise invalid_argument(_WRONG)
    if any(key.lower().startswith(_RESERVED) for key in tags):
        raise invalid_argument("System tags beginning with aws: cannot be added or removed.")


async def add_tags_to_stream(call: Call) -> None:
    stream, tags = call.stream(), call.given["Tags"]
    check_tags(tags)
    _check_percent(call, "add tags to", [*tags, *tags.values()])
    if len({*stream.tags, *tags}) > MAX_TAGS:
        raise _failed(call, "add tags to", f"a given stream cannot have more than {MAX_TAGS} tags associated with it.")
    await call.service.streams.add_tags(stream, tags)


async def remove_tags_from_stream(call: Call) -> None:
    stream = call.stream()
    check_tags(call.given["TagKeys"])
    _check_percent(call, "remove tags from", call.given["TagKeys"])
    await call.service.streams.remove_tags(stream, call.given["TagKeys"])


def _check_percent(call: Call, doing: str, texts: Sequence[str]) -> None:
    """The one character that the other text allows and AWS does not."""
    if any("%" in text for text in texts):
        allowed = "Unicode letters, white-spaces, '_',',','/','=','+','-','@'."
        raise _failed(call, doing, f"some tags contained illegal characters. The allowed characters are {allowed}")


def _failed(call: Call, doing: str, why: str) -> KinesisError:
    return invalid_argument(f"Failed to {doing} stream {call.stream().name} under account {call.account} because {why}")


def list_tags_for_stream(call: Call) -> dict[str, Any]:
    tags = call.stream().tags
    keys = sorted(tags)
    rest = keys[bisect_right(keys, call.given["ExclusiveStartTagKey"]) :] if "ExclusiveStartTagKey" in call.given else keys
    page, more = page_of(rest, call.given.get("Limit", DEFAULT_PAGE))
    return {"Tags": [{"Key": key, "Value": tags[key]} for key in page], "HasMoreTags": more}


async def tag_resource(call: Call) -> None:
    check_tags(call.given["Tags"])
    await call.service.streams.add_tags(find_resource(call, call.given), call.given["Tags"])


async def untag_resource(call: Call) -> None:
    check_tags(call.given["TagKeys"])
    await call.service.streams.remove_tags(find_resource(call, call.given), call.given["TagKeys"])


def list_tags_for_resource(call: Call) -> dict[str, Any]:
    tags = find_resource(call, call.given).tags
    return {"Tags": [{"Key": key, "Value": tags[key]} for key in sorted(tags)]}
