"""The form of what is described by hand."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from headrace.dataclass import dataclass

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "integer"}
ANYTHING: Schema = {}


def reference(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def list_of(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


def record(required: tuple[str, ...] = (), **members: Schema) -> Schema:
    return {"type": "object", "properties": members, **({"required": list(required)} if required else {})}


@dataclass(frozen=True, slots=True)
class In:
    """A parameter."""

    name: str
    description: str
    schema: Schema = field(default_factory=lambda: TEXT)
    place: str = "query"  # or header


@dataclass(frozen=True, slots=True)
class Content:
    """What a body or an answer may be, by media type."""

    description: str
    kinds: dict[str, Schema] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Described:
    method: str
    path: str
    group: str
    summary: str
    answers: dict[int, Content]
    parameters: tuple[In, ...] = ()
    body: Content | None = None
    problems: tuple[int, ...] = ()
    description: str = ""
    public: bool = False  # nobody logs in
