"""Data of Protobuf as JSON, by the text of a .proto file that somebody gives (`proto_source`), or by a descriptor set in
base64, which may hold many files:

    protoc --include_imports --descriptor_set_out=/dev/stdout orders.proto | base64

It is there where the library `protobuf` is installed. Which message it is, a record of a schema registry says itself (by its
indexes into the file); of others somebody says it.

The library builds what it reads, so the data is bounded instead: `MOST_BYTES` of a message (fewer where many are read),
`MOST_VALUES` values in it, nested at most 100 deep, which is the library's own bound. `MOST_SCHEMA_BYTES` of a schema. Work
that may take long is for a thread.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from headrace.console.formats.errors import Undecodable, WrongSchema
from headrace.console.formats.proto_source import WELL_KNOWN, read_source
from headrace.console.parts.values import escaped

MOST_SCHEMA_BYTES = 512 * 1024
MOST_BYTES = 1024 * 1024
_BASE64 = re.compile(r"[A-Za-z0-9+/=\s]*")
MOST_VALUES = 50_000  # what is fast to parse may be slow to write as JSON: 1 MiB holds half a million empty messages


@dataclass(frozen=True, slots=True)
class ProtobufSchema:
    pool: Any
    names: tuple[str, ...]  # of the messages in it
    main: Any  # the file that the others are imported by, as it was given: protoc writes it last


def available() -> bool:
    try:
        return find_spec("google.protobuf") is not None
    except ModuleNotFoundError:
        return False


def read_schema(text: str) -> ProtobufSchema:
    """Raises WrongSchema."""
    if not available():
        raise WrongSchema("The library protobuf is not installed where the console runs: pip install protobuf")
    if len(text) > 2 * MOST_SCHEMA_BYTES:
        raise WrongSchema(f"A schema has at most {MOST_SCHEMA_BYTES:,} bytes")
    descriptors = import_module("google.protobuf.descriptor_pb2")
    pool = import_module("google.protobuf.descriptor_pool").DescriptorPool()
    names: list[str] = []
    files = _files(text, descriptors)
    try:
        for file in files:
            pool.Add(file)
        for file in files:
            names += _names(pool.FindFileByName(file.name).message_types_by_name.values())
    except Exception as error:  # the library has many, and they differ between its implementations
        raise WrongSchema(_line(f"Not a schema: {error}")) from None
    if not names:
        raise WrongSchema("There is no message in this schema")
    return ProtobufSchema(pool, tuple(sorted(names)), files[-1])


def _files(text: str, descriptors: Any) -> list[Any]:
    """What is described, the main file last. Raises WrongSchema."""
    if not _BASE64.fullmatch(text):
        try:
            file = read_source(text, descriptors)
        except ValueError as error:  # a number that no field can have
            raise WrongSchema(_line(f"Not a schema: {error}")) from None
        return [*(_well_known(path, descriptors) for path in WELL_KNOWN if path in file.dependency), file]
    try:
        data = base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise WrongSchema("The schema is neither a .proto file nor base64") from None
    if len(data) > MOST_SCHEMA_BYTES:
        raise WrongSchema(f"A schema has at most {MOST_SCHEMA_BYTES:,} bytes")
    found = descriptors.FileDescriptorSet()
    try:
        found.ParseFromString(data)
    except Exception as error:  # as above
        raise WrongSchema(_line(f"Not a descriptor set: {error}")) from None
    if not found.file:
        raise WrongSchema("There is no message in this schema")
    return list(found.file)


def _well_known(path: str, descriptors: Any) -> Any:
    """Of Google, which the library brings along."""
    module = path.removesuffix(".proto").replace("/", ".") + "_pb2"
    file = descriptors.FileDescriptorProto()
    import_module(module).DESCRIPTOR.CopyToProto(file)
    return file


def _names(messages: Any) -> list[str]:
    found: list[str] = []
    for message in messages:
        if not message.GetOptions().map_entry:
            found += [message.full_name, *_names(message.nested_types)]
    return found


def message_at(schema: ProtobufSchema, indexes: tuple[int, ...]) -> str:
    """The name of the message that a record's indexes stand for. Raises Undecodable."""
    inside, name = schema.main.message_type, str(schema.main.package)
    for index in indexes:
        # as they stand in the file, but for those that a map is made of: they are in no file that people write
        inside = [each for each in inside if not each.options.map_entry]
        if not 0 <= index < len(inside):
            raise Undecodable(f"there is no message {'.'.join(map(str, indexes))} in {schema.main.name[:100]}")
        name = f"{name}.{inside[index].name}" if name else str(inside[index].name)
        inside = inside[index].nested_type
    return name


def as_json(schema: ProtobufSchema, name: str, data: bytes, start: int = 0, *, indent: bool, most: int = MOST_BYTES) -> str:
    """What begins at `start`. Raises Undecodable."""
    if len(data) - start > most:
        raise Undecodable(f"a message of more than {most:,} bytes")
    if name not in schema.names:
        raise Undecodable("choose which message it is")
    try:
        kind = import_module("google.protobuf.message_factory").GetMessageClass(schema.pool.FindMessageTypeByName(name))
        message = kind()
        message.ParseFromString(data[start:])
        _counted(message, MOST_VALUES)
        to_json = import_module("google.protobuf.json_format").MessageToJson
        text = to_json(
            message,
            preserving_proto_field_name=True,
            ensure_ascii=False,
            descriptor_pool=schema.pool,
            indent=2 if indent else None,
        )
        return escaped(str(text))
    except Undecodable:
        raise
    except Exception as error:  # as above
        raise Undecodable(_line(f"not a {name}: {error}")) from None


def _counted(message: Any, room: int) -> int:
    """How many more values there may be behind those of this message. Raises Undecodable."""
    for _, value in message.ListFields():
        room -= 1
        if hasattr(value, "ListFields"):
            room = _counted(value, room)
        elif not isinstance(value, str | bytes | int | float):  # repeated, or a map
            room -= len(value)
            if room >= 0:
                for each in value.values() if hasattr(value, "values") else value:
                    if not hasattr(each, "ListFields"):
                        break
                    room = _counted(each, room)
        if room < 0:
            raise Undecodable(f"a message with more than {MOST_VALUES:,} values")
    return room


def _line(text: str) -> str:
    return " ".join(text.split())[:300]
