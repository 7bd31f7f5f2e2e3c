"""Nested values as JSON text, for stores whose columns are flat.

Like Spark's `to_json`: structs and maps are objects, binary is base64, NaN and infinities are strings. Unlike it nulls are
kept, and decimals are strings, so that no digit is lost.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

Form = Callable[[Any], Any]


def to_json(value: Any, form: Form) -> str | None:
    return None if value is None else json.dumps(form(value), ensure_ascii=False, separators=(",", ":"))


def form_of(kind: pa.DataType) -> Form:
    """How a Python value of an Arrow type looks in JSON; null stays null."""
    inner = _form_of(kind)
    return lambda value: None if value is None else inner(value)


def _form_of(kind: pa.DataType) -> Form:
    import pyarrow.types as types

    if types.is_struct(kind):
        fields = [(field.name, form_of(field.type)) for field in kind]
        return lambda value: {name: form(value[name]) for name, form in fields}
    if types.is_map(kind):
        item = form_of(kind.item_type)
        return lambda value: {_map_key(key): item(one) for key, one in value}
    if types.is_list(kind) or types.is_large_list(kind):
        element = form_of(kind.value_type)
        return lambda value: [element(one) for one in value]
    return plain


def plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z") if value.tzinfo else value.isoformat()
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value // timedelta(microseconds=1)
    return value


def _map_key(key: Any) -> str:
    simple = plain(key)
    return simple if isinstance(simple, str) else json.dumps(simple)
