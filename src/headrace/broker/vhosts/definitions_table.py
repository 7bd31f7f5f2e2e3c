"""Everything declared that is durable, as rows of the table `__headrace_amqp`. Keys are JSON lists, values JSON objects:

    ["vhost", name]                                      description, tags, default_queue_type
    ["exchange", vhost, name]                            type, auto_delete, internal, arguments
    ["queue", vhost, name]                               id, auto_delete, arguments, type
    ["binding", vhost, source, "queue" | "exchange", destination, routing key, arguments]
    ["policy" | "operator_policy", vhost, name]          pattern, definition, priority, apply_to
    ["user", name]                                       password_hash, hashing_algorithm, tags, permissions, topic_permissions
    ["parameter", component, vhost, name]                value; the vhost of a global one is null

Arguments are field tables, encoded as AMQP encodes them and then in base64, so that the types survive. Rows are put before the
change is made, and all that belong together in one put; only what is larger than `_PUT_BYTES` is split, the row that the others
hang on first: what is left without it after a crash is removed at the next start.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from headrace.broker.exchanges import Binding, Exchange
from headrace.broker.queues.definition import QueueDefinition
from headrace.broker.queues.errors import internal_error
from headrace.broker.vhosts.policies import Policy
from headrace.log.errors import LogError
from headrace.record.amqp.tables import decode_table, encode_table

if TYPE_CHECKING:
    from headrace.broker.queues.any_queue import AnyQueue
    from headrace.broker.vhosts.publishing import ReplyQueue
    from headrace.log.port import Log, Table

TABLE = "__headrace_amqp"

_PUT_BYTES = 512 * 1024
_NOTHING = b"{}"

Key = list[str | None]
Row = dict[str, object]


class Definitions:
    """Rows gathered by the calls below become durable together with `write`."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._table: Table
        self._rows: dict[bytes, bytes | None] = {}

    async def start(self) -> None:
        self._table = await self._log.table(TABLE)

    def stored(self) -> Iterator[tuple[Key, Row]]:
        """What the table holds, for the start."""
        for key, value in list(self._table.items()):
            yield json.loads(key), json.loads(value) if value != _NOTHING else {}

    def set(self, key: Key, row: Row | None) -> None:
        self._rows[_key(key)] = None if row is None else json.dumps(row).encode()

    def set_exchange(self, vhost: str, exchange: Exchange, *, there: bool = True) -> None:
        if exchange.durable:
            self.set(
                ["exchange", vhost, exchange.name],
                {
                    "type": exchange.kind,
                    "auto_delete": exchange.auto_delete,
                    "internal": exchange.internal,
                    "arguments": encode_arguments(exchange.arguments),
                }
                if there
                else None,
            )

    def set_queue(self, definition: QueueDefinition, *, there: bool = True) -> None:
        if definition.durable:
            self.set(
                ["queue", definition.vhost, definition.name],
                {
                    "id": definition.queue_id.hex(),
                    "auto_delete": definition.auto_delete,
                    "arguments": encode_arguments(definition.arguments),
                    "type": definition.kind,
                }
                if there
                else None,
            )

    def set_binding(self, vhost: str, binding: Binding[AnyQueue | ReplyQueue], *, there: bool = True) -> None:
        source, destination = binding.source, binding.destination
        if source.durable and destination.durable:
            ends: Key = ["binding", vhost, source.name, binding.destination_kind, destination.name, binding.routing_key]
            self._rows[_key([*ends, encode_arguments(binding.arguments)])] = _NOTHING if there else None

    def set_policy(self, policy: Policy, *, there: bool = True) -> None:
        sort = "operator_policy" if policy.operator else "policy"
        row: Row = {
            "pattern": policy.pattern,
            "definition": policy.definition,
            "priority": policy.priority,
            "apply_to": policy.apply_to,
        }
        self.set([sort, policy.vhost, policy.name], row if there else None)

    def write(self) -> bool:
        """Whether there was anything to write. Raises `AmqpRefusal` when that can't be written; nothing has changed then,
        as long as it was not too much for one put."""
        rows, self._rows = self._rows, {}
        if not rows:
            return False
        try:
            for piece in _pieces(rows):
                self._table.put(piece)
        except LogError as error:
            raise internal_error(f"definitions can't be stored: {error}") from error
        return True

    def drop(self) -> None:
        """What was gathered is not to be written after all."""
        self._rows = {}


def encode_arguments(arguments: Mapping[str, object]) -> str:
    return b64encode(encode_table(arguments)[4:]).decode() if arguments else ""


def decode_arguments(text: object) -> dict[str, object]:
    if not text:
        return {}
    table = b64decode(str(text), validate=True)
    return decode_table(len(table).to_bytes(4, "big") + table)[0]


def stored_exchange(name: str, row: Row) -> Exchange:
    arguments = decode_arguments(row["arguments"])
    return Exchange(name, str(row["type"]), True, bool(row["auto_delete"]), bool(row["internal"]), arguments)


def stored_queue(vhost: str, name: str, row: Row) -> QueueDefinition:
    return QueueDefinition(
        name,
        vhost,
        bytes.fromhex(str(row["id"])),
        durable=True,
        auto_delete=bool(row["auto_delete"]),
        arguments=decode_arguments(row["arguments"]),
        kind=str(row["type"]),
    )


def stored_policy(sort: str, vhost: str, name: str, row: Row) -> Policy:
    definition, priority = row["definition"], row["priority"]
    assert isinstance(definition, dict)
    assert isinstance(priority, int)
    pattern, apply_to = str(row["pattern"]), str(row["apply_to"])
    return Policy(name, vhost, pattern, definition, priority, apply_to, sort == "operator_policy")


def _key(key: Key) -> bytes:
    return json.dumps(key, separators=(",", ":")).encode()


def _pieces(rows: dict[bytes, bytes | None]) -> Iterator[dict[bytes, bytes | None]]:
    piece: dict[bytes, bytes | None] = {}
    size = 0
    for key, value in rows.items():
        size += len(key) + len(value or b"")
        piece[key] = value
        if size >= _PUT_BYTES:
            yield piece
            piece, size = {}, 0
    if piece:
        yield piece
