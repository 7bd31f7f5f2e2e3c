"""Protobuf as JSON, by a schema that somebody gives: a descriptor set in base64, as `protoc` writes it. Nothing of NiceGUI.

    protoc --include_imports --descriptor_set_out=/dev/stdout orders.proto | base64

It is there where the library `protobuf` is installed (it comes with `headrace[spark]`). A schema describes data, it runs
nothing.

Bounds: `MOST_SCHEMA_BYTES` of a schema, `MOST_BYTES` of a message.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

MOST_SCHEMA_BYTES = 512 * 1024
MOST_BYTES = 1024 * 1024


class WrongSchema(Exception):
    pass


@dataclass(frozen=True, slots=True)
class Schema:
    pool: Any
    names: tuple[str, ...]  # of the messages in it


def available() -> bool:
    try:
        return find_spec("google.protobuf") is not None
    except ModuleNotFoundError:
        return False


def read_schema(text: str) -> Schema:
    """Raises WrongSchema."""
    try:
        data = base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise WrongSchema("The schema is not base64") from None
    if len(data) > MOST_SCHEMA_BYTES:
        raise WrongSchema(f"A schema has at most {MOST_SCHEMA_BYTES:,} bytes")
    found = import_module("google.protobuf.descriptor_pb2").FileDescriptorSet()
    pool = import_module("google.protobuf.descriptor_pool").DescriptorPool()
    names: list[str] = []
    try:
        found.ParseFromString(data)
        for file in found.file:
            pool.Add(file)
        for file in found.file:
            names += _names(pool.FindFileByName(file.name).message_types_by_name.values())
    except Exception as error:  # the library has many, and they differ between its implementations
        raise WrongSchema(f"Not a descriptor set: {error}"[:300]) from None
    if not names:
        raise WrongSchema("There is no message in this schema")
    return Schema(pool, tuple(sorted(names)))


def _names(messages: Any) -> list[str]:
    found: list[str] = []
    for message in messages:
        if not message.GetOptions().map_entry:
            found += [message.full_name, *_names(message.nested_types)]
    return found


def as_json(schema: Schema, name: str, data: bytes, passed_over: int = 0) -> str:
    """Raises WrongSchema. `passed_over` is what stands before the message: 6 bytes with most schema registries."""
    if len(data) > MOST_BYTES:
        raise WrongSchema(f"Only messages up to {MOST_BYTES:,} bytes are shown")
    if name not in schema.names:
        raise WrongSchema("Choose a message")
    try:
        kind = import_module("google.protobuf.message_factory").GetMessageClass(schema.pool.FindMessageTypeByName(name))
        message = kind()
        message.ParseFromString(data[passed_over:])
        to_json = import_module("google.protobuf.json_format").MessageToJson
        return str(to_json(message, preserving_proto_field_name=True, ensure_ascii=False, descriptor_pool=schema.pool))
    except Exception as error:  # as above
        raise WrongSchema(f"Not a {name}: {error}"[:300]) from None
