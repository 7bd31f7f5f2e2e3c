"""Every message in every version, against an independent implementation of the protocol (kio).

Objects filled with random values are encoded by kio, decoded by us and encoded by us again: the bytes must be the same.
The values are drawn from a fixed seed, and include the empty, the null and the extreme ones.
"""

import dataclasses
import datetime
import importlib
import io
import random
import types
import typing
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.schema.index import LoadableEntityType, api_key_map, schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.codec.schema import Message, decode, decode_from, encode
from headrace.kafka.messages import MESSAGES, request_class, response_class
from headrace.kafka.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription

EXAMPLES = 4

INTEGER_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
UNSIGNED_BITS = {"uint16": 16, "uint32": 32}
LENGTHS = (0, 1, 2, 3, 130)  # 130 needs two bytes as a varint
TEXTS = ("", "a", "topic-1", "ünïcode ✓ 🛶", "x" * 126, "y" * 127, "z" * 300)


class Filler:
    """Makes random kio objects."""

    def __init__(self, seed: object) -> None:
        self.random = random.Random(repr(seed))
        self.depth = 0

    def entity(self, cls: type) -> Any:
        hints = typing.get_type_hints(cls)
        self.depth += 1
        values = {f.name: self.field(f, hints[f.name]) for f in dataclasses.fields(cls)}
        self.depth -= 1
        return cls(**values)

    def field(self, field: "dataclasses.Field[Any]", hint: Any) -> Any:
        has_default = field.default is not dataclasses.MISSING
        if has_default and self.random.random() < 0.2:
            return field.default
        kafka_type = field.metadata.get("kafka_type")
        if typing.get_origin(hint) in (types.UnionType, typing.Union):
            if self.random.random() < 0.25 and not ("tag" in field.metadata and field.default is not None):
                return None
            hint = next(arm for arm in typing.get_args(hint) if arm is not types.NoneType)
        if typing.get_origin(hint) is tuple:
            item = typing.get_args(hint)[0]
            return tuple(self.value(item, kafka_type) for _ in range(self.length(item)))
        return self.value(hint, kafka_type)

    def length(self, item: type) -> int:
        if dataclasses.is_dataclass(item):
            return self.random.choice((0, 1, 2) if self.depth > 1 else (0, 1, 2, 3))
        return self.random.choice(LENGTHS)

    def value(self, cls: type, kafka_type: str | None) -> Any:
        if typing.get_origin(cls) in (types.UnionType, typing.Union):  # kio: an array of UUIDs that may be none
            cls = next(arm for arm in typing.get_args(cls) if arm is not types.NoneType)
        if dataclasses.is_dataclass(cls):
            return self.entity(cls)
        assert kafka_type is not None
        if kafka_type in INTEGER_BITS:
            bits = INTEGER_BITS[kafka_type]
            return self.integer(-(1 << bits - 1), (1 << bits - 1) - 1)
        if kafka_type in UNSIGNED_BITS:
            return self.integer(0, (1 << UNSIGNED_BITS[kafka_type]) - 1)
        match kafka_type:
            case "float64":
                return self.random.choice((0.0, -1.5, 1e300))
            case "bool":
                return self.random.random() < 0.5
            case "uuid":
                return uuid.UUID(int=self.random.getrandbits(128))
            case "string":
                return self.random.choice(TEXTS)
            case "bytes" | "records":
                return self.random.randbytes(self.random.choice(LENGTHS))
            case "error_code":
                return self.random.choice(list(KioErrorCode))
            case "timedelta_i32":
                return datetime.timedelta(milliseconds=self.integer(-(1 << 31), (1 << 31) - 1))
            case "timedelta_i64":
                return datetime.timedelta(milliseconds=self.integer(0, 1 << 40))
            case "datetime_i64":
                return datetime.datetime.fromtimestamp(self.random.randrange(1 << 32), tz=datetime.UTC)
        raise NotImplementedError(kafka_type)

    def integer(self, low: int, high: int) -> int:
        return self.random.choice((low, high, 0, 1, max(low, -1), self.random.randint(low, high)))


def load(path: str) -> type:
    module, name = path.split(":")
    found: type = getattr(importlib.import_module(module), name)
    return found


def written_by_kio(entity: object) -> bytes:
    with io.BytesIO() as out:
        entity_writer(type(entity))(out, entity)  # type: ignore[type-var]
        return out.getvalue()


def kio_examples(schema: str, version: int, entity_type: LoadableEntityType) -> Iterator[bytes]:
    cls = load(schema_name_map[schema][version][entity_type])
    for n in range(EXAMPLES):
        yield written_by_kio(Filler((schema, version, entity_type.name, n)).entity(cls))


def check(cls: type[Message], version: int, wire: bytes) -> None:
    message, stop = decode_from(cls, version, wire)
    assert stop == len(wire)
    assert bytes(encode(message, version)) == wire
    for other_buffer in (bytearray(wire), memoryview(wire)):
        assert decode(cls, version, other_buffer) == message


@pytest.mark.parametrize("key", MESSAGES, ids=lambda key: MESSAGES[key].name)
def test_what_kio_writes_is_read_and_written_back_byte_for_byte(key: int) -> None:
    first, last = MESSAGES[key].versions
    for version in range(first, last + 1):
        for wire in kio_examples(api_key_map[key], version, EntityType.request):
            check(request_class(key), version, wire)
        for wire in kio_examples(api_key_map[key], version, EntityType.response):
            check(response_class(key), version, wire)


@pytest.mark.parametrize("key", MESSAGES, ids=lambda key: MESSAGES[key].name)
def test_a_message_of_defaults_is_read_by_kio(key: int) -> None:
    first, last = MESSAGES[key].versions
    for version in range(first, last + 1):
        paths = schema_name_map[api_key_map[key]][version]
        for cls, path in (
            (request_class(key), paths[EntityType.request]),
            (response_class(key), paths[EntityType.response]),
        ):
            kio_class = load(path)
            wire = bytes(encode(cls(), version))
            _, size = entity_reader(kio_class)(wire, 0)
            assert size == len(wire)


@pytest.mark.parametrize(
    ("schema", "cls"),
    [
        ("consumer_protocol_subscription", ConsumerProtocolSubscription),
        ("consumer_protocol_assignment", ConsumerProtocolAssignment),
    ],
)
def test_the_consumer_protocol_is_read_and_written_back_byte_for_byte(schema: str, cls: type[Message]) -> None:
    for version in range(cls.versions[0], cls.versions[1] + 1):
        for wire in kio_examples(schema, version, EntityType.data):
            check(cls, version, wire)


def test_error_codes_have_the_same_names() -> None:
    for code in KioErrorCode:
        assert ErrorCode(code.value).name.lower() == code.name
