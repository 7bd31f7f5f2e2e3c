"""The Event: what people make and get, whatever protocol it travels by."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

Header = tuple[str, bytes | None]


@dataclass(frozen=True, slots=True)
class Event:
    """An immutable fact. Events with the same key stay in order. No value is a deletion in a compacted topic; no
    timestamp means "when it is sent"."""

    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[Header, ...] = field(default=())
    timestamp_ms: int | None = None

    @classmethod
    def of(
        cls,
        value: object,
        *,
        key: str | bytes | int | None = None,
        headers: Mapping[str, str | bytes | None] | Iterable[tuple[str, str | bytes | None]] = (),
        timestamp_ms: int | None = None,
    ) -> Event:
        """The friendly way: `Event.of({"amount": 5}, key="account-7", headers={"source": "atm"})`. Bytes stay as they
        are, text becomes UTF-8, anything else becomes JSON."""
        pairs = headers.items() if isinstance(headers, Mapping) else headers
        return cls(
            key=str(key).encode() if isinstance(key, int) else _encoded(key),
            value=_encoded(value),
            headers=tuple((name, _encoded(content)) for name, content in pairs),
            timestamp_ms=timestamp_ms,
        )

    def text(self) -> str:
        """The value as UTF-8 text; bytes that are not are shown as �."""
        return "" if self.value is None else self.value.decode("utf-8", "replace")

    def json(self) -> object:
        """The value as JSON; raises ValueError when it is not."""
        return None if self.value is None else json.loads(self.value)

    def header(self, name: str) -> bytes | None:
        """The last header of that name, as Kafka's `lastHeader`."""
        for found, content in reversed(self.headers):
            if found == name:
                return content
        return None


def _encoded(content: object) -> bytes | None:
    if content is None:
        return None
    if isinstance(content, bytes | bytearray | memoryview):
        return bytes(content)
    if isinstance(content, str):
        return content.encode()
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
