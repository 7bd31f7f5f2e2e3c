"""Reading what was sent: JSON objects, with RabbitMQ's words for what is wrong with them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from headrace.http.management.errors import bad_request
from headrace.record.amqp.tables import MAX_DEPTH, encode_table

_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


class Body:
    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values

    def require(self, *names: str) -> None:
        absent = [name for name in names if name not in self.values]
        if absent:
            raise bad_request("[" + ",".join(f"{{key_missing,{name}}}" for name in absent) + "]")

    def text(self, name: str, default: str = "") -> str:
        value = self.values.get(name, default)
        if not isinstance(value, str):
            raise bad_request(["not_string", name])
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        value = self.values.get(name, default)
        if value in ("true", "false"):
            return bool(value == "true")
        if not isinstance(value, bool):
            raise bad_request(["not_boolean", value])
        return value

    def number(self, name: str, default: int = 0) -> int:
        value = self.values.get(name, default)
        if isinstance(value, str):
            try:
                return int(value)
            except ValueError:
                raise bad_request(["not_integer", value]) from None
        if isinstance(value, bool) or not isinstance(value, int):
            raise bad_request(["not_integer", value])
        return value

    def table(self, name: str) -> dict[str, object]:
        """Arguments of AMQP: what they are in JSON must be something that AMQP knows."""
        value = self.values.get(name)
        if value is None or value == []:  # what an empty table looks like to some languages
            return {}
        if not isinstance(value, Mapping):
            raise bad_request(f"{name} should be a JSON object")
        try:
            encode_table(value)
        except (TypeError, ValueError) as error:
            raise bad_request(f"{name}: {error}") from None
        return dict(value)

    def get(self, name: str, default: object = None) -> object:
        return self.values.get(name, default)


def parse(raw: bytes, mistake: str = "not_json") -> Body:
    """Nothing at all counts as an object without anything in it."""
    if not raw.strip():
        return Body({})
    try:
        values = json.loads(raw)
    except (ValueError, RecursionError):
        raise bad_request(mistake) from None
    if not isinstance(values, Mapping) or too_deep(values) or (_SURROGATE.search(raw) and not _is_text(values)):
        raise bad_request(mistake)
    return Body(values)


def _is_text(values: Mapping[str, Any]) -> bool:
    """Half a character, which JSON can escape and nobody can store."""
    try:
        json.dumps(values, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def too_deep(value: object, depth: int = 0) -> bool:
    if depth > MAX_DEPTH:
        return True
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return any(too_deep(each, depth + 1) for each in inner if isinstance(each, Mapping | list))
