"""Server-side encryption: whether a stream has it, and with which key, is remembered and shown. Nothing is encrypted: the disk
under the data folder is the place for that."""

from __future__ import annotations

from headrace.broker.streams.definition import EncryptionType
from headrace.kinesis.errors import invalid_argument
from headrace.kinesis.service import Call


async def start_stream_encryption(call: Call) -> None:
    stream = call.stream()
    if call.given["EncryptionType"] != "KMS":
        raise invalid_argument("EncryptionType must be KMS.")
    await call.service.streams.set_encryption(stream, EncryptionType.KMS, call.given["KeyId"])


async def stop_stream_encryption(call: Call) -> None:
    stream = call.stream()
    if call.given["EncryptionType"] != "KMS":
        raise invalid_argument("EncryptionType must be KMS.")
    await call.service.streams.set_encryption(stream, EncryptionType.NONE, None)
