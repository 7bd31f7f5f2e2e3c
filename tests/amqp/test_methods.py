"""Methods: the whole table there and back and against other clients' tables, and arguments that can't be read."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.amqp import methods
from headrace.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicCredit,
    BasicGetEmpty,
    BasicNack,
    BasicPublish,
    BasicQos,
    BasicReject,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionClose,
    ConnectionOpen,
    ConnectionTune,
    ConnectionUpdateSecret,
    ExchangeDeclare,
    ExchangeUnbindOk,
    Method,
    MethodError,
    QueueDeclare,
    QueueDeclareOk,
    UnknownMethod,
    decode,
    encode,
    name_of,
)

ALL = Method.__subclasses__()

short_strings = st.text(max_size=60)
KINDS: dict[str, st.SearchStrategy[Any]] = {
    "Octet": st.integers(0, 2**8 - 1),
    "Short": st.integers(0, 2**16 - 1),
    "Long": st.integers(0, 2**32 - 1),
    "LongLong": st.integers(0, 2**64 - 1),
    "ShortString": short_strings,
    "RawShortString": short_strings,
    "LongString": st.binary(max_size=300),
    "Bit": st.booleans(),
    "Arguments": st.dictionaries(short_strings, st.integers(-9, 9) | short_strings | st.booleans(), max_size=3),
}


def instances(method: type[Method]) -> st.SearchStrategy[Method]:
    return st.builds(method, **{field: KINDS[kind] for kind, field in method.wire if field is not None})


any_method = st.sampled_from(ALL).flatmap(instances)


@given(any_method)
def test_what_is_written_is_read_again(method: Method) -> None:
    payload = encode(method)
    decoded = decode(payload)
    assert type(decoded) is type(method)
    assert decoded == method
    assert encode(decoded) == payload


@given(any_method)
def test_arguments_cut_short_or_too_long_are_a_frame_error_that_names_the_method(method: Method) -> None:
    payload = encode(method)
    for wrong in (*(payload[:end] for end in range(4, len(payload))), payload + b"\0"):
        with pytest.raises(MethodError, match="cannot decode") as caught:
            decode(wrong)
        assert caught.value.code == 501
        assert (caught.value.class_id, caught.value.method_id) == method.ids


@given(st.sampled_from(ALL), st.binary(max_size=40))
def test_any_bytes_are_a_method_or_an_error(method: type[Method], rest: bytes) -> None:
    try:
        decoded = decode(method.prefix + rest)
    except MethodError:
        return
    assert decode(encode(decoded)) == decoded


@pytest.mark.parametrize(
    ("method", "payload"),
    [
        (ConnectionTune(2047, 131072, 60), "000a001e 07ff 00020000 003c"),
        (ConnectionOpen("/"), "000a0028 012f 00 00"),
        (ConnectionClose(320, "bye", 50, 10), "000a0032 0140 03627965 0032 000a"),
        (ConnectionUpdateSecret(b"new", "why"), "000a0046 00000003 6e6577 03776879"),
        (BasicCredit("tag", 9, drain=True), "003c00c8 03746167 00000009 01"),
        (ChannelOpen(), "0014000a 00"),
        (ChannelOpenOk(), "0014000b 00000000"),
        (ExchangeDeclare("e", "topic", durable=True, internal=True), "0028000a 0000 0165 05746f706963 0a 00000000"),
        (ExchangeUnbindOk(), "00280033"),
        (QueueDeclare("q", passive=True, nowait=True, arguments={"a": True}), "0032000a 0000 0171 11 00000004 01617401"),
        (QueueDeclareOk("q", 1, 2), "0032000b 0171 00000001 00000002"),
        (BasicQos(0, 300, True), "003c000a 00000000 012c 01"),
        (BasicConsume("q", "tag", no_ack=True), "003c0014 0000 0171 03746167 02 00000000"),
        (BasicPublish("e", "k", mandatory=True), "003c0028 0000 0165 016b 01"),
        (BasicGetEmpty(), "003c0048 00"),
        (BasicAck(7, multiple=True), "003c0050 0000000000000007 01"),
        (BasicReject(7, requeue=False), "003c005a 0000000000000007 00"),
        (BasicNack(7, multiple=True, requeue=True), "003c0078 0000000000000007 03"),
    ],
    ids=lambda value: name_of(value) if isinstance(value, Method) else "",
)
def test_bytes_by_hand(method: Method, payload: str) -> None:
    assert encode(method) == bytes.fromhex(payload)
    assert decode(bytes.fromhex(payload)) == method


def test_reserved_fields_may_hold_anything() -> None:
    assert decode(bytes.fromhex("000a0028 012f 03616263 ff")) == ConnectionOpen("/")
    assert decode(bytes.fromhex("003c0028 1234 0165 016b fc")) == BasicPublish("e", "k")
    assert decode(bytes.fromhex("0014000a 026162")) == ChannelOpen()


def test_unknown_ids_are_an_error_that_carries_them() -> None:
    for ids in ((60, 99), (77, 10), (0, 0)):
        with pytest.raises(UnknownMethod) as caught:
            decode(ids[0].to_bytes(2, "big") + ids[1].to_bytes(2, "big") + b"rest")
        assert (caught.value.code, caught.value.class_id, caught.value.method_id) == (503, *ids)


def test_a_payload_too_short_for_the_ids_is_an_unknown_frame() -> None:
    with pytest.raises(MethodError) as caught:
        decode(b"\0\x3c\0")
    assert (caught.value.code, caught.value.text) == (501, "type 1, all octets = <<0,60,0>>: unknown_frame")


def test_a_frame_error_shows_the_arguments_as_rabbitmq_does() -> None:
    with pytest.raises(MethodError) as caught:
        decode(encode(QueueDeclare("q"))[:-1])
    assert caught.value.text == "cannot decode <<0,0,1,113,0,0,0,0>>"


def test_names_must_be_utf8_except_where_rabbitmq_does_not_look() -> None:
    with pytest.raises(MethodError) as caught:
        decode(encode(QueueDeclare("q\udcff")))
    assert (caught.value.code, caught.value.text) == (501, "Malformed UTF-8 in shortstr")
    publish = BasicPublish("", "q\udcff")
    assert decode(encode(publish)) == publish


def test_a_table_that_can_not_be_read_is_a_syntax_error() -> None:
    payload = encode(QueueDeclare("q", arguments={"a": 1})).replace(b"\1al", b"\1aZ")
    with pytest.raises(MethodError, match="malformed table") as caught:
        decode(payload)
    assert (caught.value.code, caught.value.class_id, caught.value.method_id) == (502, 50, 10)


@pytest.mark.parametrize("method", [QueueDeclare("q" * 256), QueueDeclareOk("q", -1, 0), ConnectionTune(70000, 0, 0)])
def test_what_does_not_fit_is_not_written(method: Method) -> None:
    with pytest.raises(ValueError, match=r"longer|format|range"):
        encode(method)


def test_a_method_is_a_frozen_value() -> None:
    method = QueueDeclare("q", durable=True)
    assert repr(method).startswith("QueueDeclare(queue='q', passive=False, durable=True")
    assert method == QueueDeclare(queue="q", durable=True)
    assert method != QueueDeclare("q")
    assert BasicAck(1, True) != BasicReject(1, True)
    for name in ("queue", "other"):
        with pytest.raises(AttributeError):
            setattr(method, name, "x")
    with pytest.raises(AttributeError):
        delattr(method, "queue")
    match method:
        case QueueDeclare(queue, durable=True):
            assert queue == "q"
        case _:
            pytest.fail("no match")


@pytest.mark.parametrize(("args", "more"), [((), {}), (("q",), {"queue": "q"}), (("q",), {"what": 1}), ((1,) * 9, {})])
def test_fields_that_are_missing_or_unknown_are_mistakes(args: tuple[Any, ...], more: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        QueueDeclare(*args, **more)


def test_names_are_written_as_in_the_specification() -> None:
    assert name_of(QueueDeclareOk) == "queue.declare-ok"
    assert name_of(methods.ConnectionUpdateSecretOk) == "connection.update-secret-ok"
    assert name_of(BasicAck(1)) == "basic.ack"


SAMPLES: dict[str, object] = {
    "Octet": 7,
    "Short": 777,
    "Long": 777_777,
    "LongLong": 7_777_777_777,
    "ShortString": "short",
    "RawShortString": "raw",
    "LongString": b"long",
    "Bit": True,
    "Arguments": {"a": True, "b": "text"},
}


NOT_IN_PIKA = ("Credit", "CreditOk", "CreditDrained", "UpdateSecret")


@pytest.mark.parametrize("method", [method for method in ALL if not method.__name__.endswith(NOT_IN_PIKA)], ids=name_of)
def test_ids_and_bytes_are_those_of_pika(method: type[Method]) -> None:
    """But for basic.credit, which only RabbitMQ knows, and the new secret, which pika can't read."""
    spec = pytest.importorskip("pika.spec")
    theirs = spec.methods[method.ids[0] << 16 | method.ids[1]]
    assert theirs.NAME.replace(".", "").lower() == method.__name__.lower()
    ours = encode(method(**{field: SAMPLES[kind] for kind, field in method.wire if field is not None}))
    assert method.prefix + b"".join(theirs().decode(ours[4:]).encode()) == ours
