"""Every method of AMQP 0-9-1 and of RabbitMQ's extensions to it: names, ids and arguments, as a table of classes.

`decode` turns the payload of a method frame into one of them, `encode` goes the other way. What the types of the fields
mean on the wire is in `arguments`. Reserved fields (the tickets of 0-8, …) are not among the fields. Class 30 (access)
is from 0-8; RabbitMQ still answers it, and old clients still ask.
"""

from __future__ import annotations

from types import MappingProxyType

from headrace.amqp.arguments import (
    FRAME_ERROR,
    Arguments,
    Bit,
    Long,
    LongLong,
    LongString,
    Octet,
    RawShortString,
    Short,
    ShortString,
    decode_arguments,
    encode_arguments,
)
from headrace.amqp.arguments import Method as Method
from headrace.amqp.arguments import MethodError as MethodError
from headrace.record.amqp.events import frame_snippet

METHOD_FRAME = 1
COMMAND_INVALID = 503
NO_ARGUMENTS: Arguments = MappingProxyType({})


class UnknownMethod(MethodError):
    """No method has these ids. RabbitMQ hangs up without a word; we say what it says to a method it does not do."""

    def __init__(self, class_id: int, method_id: int) -> None:
        super().__init__(COMMAND_INVALID, "unimplemented method", class_id, method_id)


# Connection.


class ConnectionStart(Method, ids=(10, 10)):
    version_major: Octet
    version_minor: Octet
    server_properties: Arguments
    mechanisms: LongString
    locales: LongString


class ConnectionStartOk(Method, ids=(10, 11)):
    client_properties: Arguments
    mechanism: ShortString
    response: LongString
    locale: ShortString


class ConnectionSecure(Method, ids=(10, 20)):
    challenge: LongString


class ConnectionSecureOk(Method, ids=(10, 21)):
    response: LongString


class ConnectionTune(Method, ids=(10, 30)):
    channel_max: Short
    frame_max: Long
    heartbeat: Short


class ConnectionTuneOk(Method, ids=(10, 31)):
    channel_max: Short
    frame_max: Long
    heartbeat: Short


class ConnectionOpen(Method, ids=(10, 40), last="ShortString Bit"):
    virtual_host: ShortString


class ConnectionOpenOk(Method, ids=(10, 41), last="ShortString"):
    pass


class ConnectionClose(Method, ids=(10, 50)):
    reply_code: Short
    reply_text: ShortString
    class_id: Short
    method_id: Short


class ConnectionCloseOk(Method, ids=(10, 51)):
    pass


class ConnectionBlocked(Method, ids=(10, 60)):
    reason: ShortString


class ConnectionUnblocked(Method, ids=(10, 61)):
    pass


class ConnectionUpdateSecret(Method, ids=(10, 70)):
    new_secret: LongString
    reason: ShortString


class ConnectionUpdateSecretOk(Method, ids=(10, 71)):
    pass


# Channel.


class ChannelOpen(Method, ids=(20, 10), last="ShortString"):
    pass


class ChannelOpenOk(Method, ids=(20, 11), last="LongString"):
    pass


class ChannelFlow(Method, ids=(20, 20)):
    active: Bit


class ChannelFlowOk(Method, ids=(20, 21)):
    active: Bit


class ChannelClose(Method, ids=(20, 40)):
    reply_code: Short
    reply_text: ShortString
    class_id: Short
    method_id: Short


class ChannelCloseOk(Method, ids=(20, 41)):
    pass


# Access.


class AccessRequest(Method, ids=(30, 10)):
    realm: ShortString
    exclusive: Bit = False
    passive: Bit = False
    active: Bit = False
    write: Bit = False
    read: Bit = False


class AccessRequestOk(Method, ids=(30, 11)):
    ticket: Short


# Exchange.


class ExchangeDeclare(Method, ids=(40, 10), first="Short"):
    exchange: ShortString
    type: ShortString
    passive: Bit = False
    durable: Bit = False
    auto_delete: Bit = False
    internal: Bit = False
    nowait: Bit = False
    arguments: Arguments = NO_ARGUMENTS


class ExchangeDeclareOk(Method, ids=(40, 11)):
    pass


class ExchangeDelete(Method, ids=(40, 20), first="Short"):
    exchange: ShortString
    if_unused: Bit = False
    nowait: Bit = False


class ExchangeDeleteOk(Method, ids=(40, 21)):
    pass


class ExchangeBind(Method, ids=(40, 30), first="Short"):
    destination: ShortString
    source: ShortString
    routing_key: ShortString
    nowait: Bit = False
    arguments: Arguments = NO_ARGUMENTS


class ExchangeBindOk(Method, ids=(40, 31)):
    pass


class ExchangeUnbind(Method, ids=(40, 40), first="Short"):
    destination: ShortString
    source: ShortString
    routing_key: ShortString
    nowait: Bit = False
    arguments: Arguments = NO_ARGUMENTS


class ExchangeUnbindOk(Method, ids=(40, 51)):
    pass


# Queue.


class QueueDeclare(Method, ids=(50, 10), first="Short"):
    queue: ShortString
    passive: Bit = False
    durable: Bit = False
    exclusive: Bit = False
    auto_delete: Bit = False
    nowait: Bit = False
    arguments: Arguments = NO_ARGUMENTS


class QueueDeclareOk(Method, ids=(50, 11)):
    queue: ShortString
    message_count: Long
    consumer_count: Long


class QueueBind(Method, ids=(50, 20), first="Short"):
    queue: ShortString
    exchange: ShortString
    routing_key: ShortString
    nowait: Bit = False
    arguments: Arguments = NO_ARGUMENTS


class QueueBindOk(Method, ids=(50, 21)):
    pass


class QueuePurge(Method, ids=(50, 30), first="Short"):
    queue: ShortString
    nowait: Bit = False


class QueuePurgeOk(Method, ids=(50, 31)):
    message_count: Long


class QueueDelete(Method, ids=(50, 40), first="Short"):
    queue: ShortString
    if_unused: Bit = False
    if_empty: Bit = False
    nowait: Bit = False


class QueueDeleteOk(Method, ids=(50, 41)):
    message_count: Long


class QueueUnbind(Method, ids=(50, 50), first="Short"):
    queue: ShortString
    exchange: ShortString
    routing_key: ShortString
    arguments: Arguments = NO_ARGUMENTS


class QueueUnbindOk(Method, ids=(50, 51)):
    pass


# Basic.


class BasicQos(Method, ids=(60, 10)):
    prefetch_size: Long
    prefetch_count: Short
    global_: Bit = False


class BasicQosOk(Method, ids=(60, 11)):
    pass


class BasicConsume(Method, ids=(60, 20), first="Short"):
    queue: ShortString
    consumer_tag: ShortString = ""
    no_local: Bit = False
    no_ack: Bit = False
    exclusive: Bit = False
    nowait: Bit = False
    arguments: Arguments = NO_ARGUMENTS


class BasicConsumeOk(Method, ids=(60, 21)):
    consumer_tag: ShortString


class BasicCancel(Method, ids=(60, 30)):
    consumer_tag: ShortString
    nowait: Bit = False


class BasicCancelOk(Method, ids=(60, 31)):
    consumer_tag: ShortString


class BasicPublish(Method, ids=(60, 40), first="Short"):
    exchange: RawShortString
    routing_key: RawShortString
    mandatory: Bit = False
    immediate: Bit = False


class BasicReturn(Method, ids=(60, 50)):
    reply_code: Short
    reply_text: RawShortString
    exchange: RawShortString
    routing_key: RawShortString


class BasicDeliver(Method, ids=(60, 60)):
    consumer_tag: RawShortString
    delivery_tag: LongLong
    redelivered: Bit
    exchange: RawShortString
    routing_key: RawShortString


class BasicGet(Method, ids=(60, 70), first="Short"):
    queue: ShortString
    no_ack: Bit = False


class BasicGetOk(Method, ids=(60, 71)):
    delivery_tag: LongLong
    redelivered: Bit
    exchange: RawShortString
    routing_key: RawShortString
    message_count: Long


class BasicGetEmpty(Method, ids=(60, 72), last="ShortString"):
    pass


class BasicAck(Method, ids=(60, 80)):
    delivery_tag: LongLong
    multiple: Bit = False


class BasicReject(Method, ids=(60, 90)):
    delivery_tag: LongLong
    requeue: Bit = True


class BasicRecoverAsync(Method, ids=(60, 100)):
    requeue: Bit = False


class BasicRecover(Method, ids=(60, 110)):
    requeue: Bit = False


class BasicRecoverOk(Method, ids=(60, 111)):
    pass


class BasicNack(Method, ids=(60, 120)):
    delivery_tag: LongLong
    multiple: Bit = False
    requeue: Bit = True


class BasicCredit(Method, ids=(60, 200)):
    consumer_tag: ShortString
    credit: Long
    drain: Bit = False


class BasicCreditOk(Method, ids=(60, 201)):
    available: Long


class BasicCreditDrained(Method, ids=(60, 202)):
    consumer_tag: ShortString
    credit_drained: Long


# Confirm, and transactions.


class ConfirmSelect(Method, ids=(85, 10)):
    nowait: Bit = False


class ConfirmSelectOk(Method, ids=(85, 11)):
    pass


class TxSelect(Method, ids=(90, 10)):
    pass


class TxSelectOk(Method, ids=(90, 11)):
    pass


class TxCommit(Method, ids=(90, 20)):
    pass


class TxCommitOk(Method, ids=(90, 21)):
    pass


class TxRollback(Method, ids=(90, 30)):
    pass


class TxRollbackOk(Method, ids=(90, 31)):
    pass


_METHODS: dict[bytes, type[Method]] = {method.prefix: method for method in Method.__subclasses__()}


def decode(payload: bytes) -> Method:
    """The method in the payload of a method frame. Raises `UnknownMethod`, or another `MethodError` for arguments that
    can't be read."""
    method = _METHODS.get(payload[:4])
    if method is None:
        if len(payload) < 4:
            raise MethodError(FRAME_ERROR, f"{frame_snippet(METHOD_FRAME, payload)}: unknown_frame")
        raise UnknownMethod(int.from_bytes(payload[:2], "big"), int.from_bytes(payload[2:4], "big"))
    return decode_arguments(method, payload)


def encode(method: Method) -> bytes:
    """The payload of its frame. Raises `ValueError` for what does not fit its field: a mistake of ours."""
    return encode_arguments(method)


def name_of(method: Method | type[Method]) -> str:
    """As the specification writes it: queue.declare-ok."""
    name = method.__name__ if isinstance(method, type) else type(method).__name__
    words = "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in name)
    return words[1:].replace("-", ".", 1)
