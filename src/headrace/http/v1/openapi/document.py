"""The OpenAPI document (version 3.1), made of operations and of what is described by hand."""

from __future__ import annotations

import re
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

from msgspec.json import schema_components

from headrace import __version__
from headrace.http.v1.openapi import events, routes
from headrace.http.v1.openapi.described import Content, Described, Schema, reference
from headrace.http.v1.operations import Operation

_JSON, _PROBLEM = "application/json", "application/problem+json"
_NAMES = re.compile(r"\{(\w+)\}")
_ALWAYS = (400, 401, 403)

_ABOUT = """Events are published and read, followed and routed; topics, groups, queues and exchanges are administered.

Log in with Basic. On the machine of the server, and as long as `guest` has its first password, nobody has to. Errors are
`application/problem+json` (RFC 9457), with a `code` for programs."""

_PROBLEM_SCHEMA: Schema = {
    "type": "object",
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "A sentence for people."},
        "code": {"type": "string", "description": "A name for programs."},
    },
    "required": ["type", "title", "status", "detail", "code"],
}

_TAGS = {
    "events": "Publishing and reading.",
    "streams": "Server-sent events and WebSockets.",
    "topics": "Topics administered.",
    "groups": "Groups of consumers, and where they stand.",
    "routes": "From a topic to somewhere else, or from somewhere else to a topic.",
    "webhooks": "Webhooks that come in.",
    "queues": "Queues of virtual hosts, as RabbitMQ has them.",
    "exchanges": "Exchanges of virtual hosts.",
    "bindings": "What is bound to what.",
    "dead-letters": "What died in queues, and the way back.",
    "graph": "How exchanges, queues and topics hang together.",
    "overview": "How the whole server is.",
    "connections": "Who is connected, by any protocol.",
    "storage": "What is kept, and where.",
    "logs": "What the server says.",
    "settings": "How the server is set.",
    "support": "What somebody needs who shall help.",
}


def document(operations: Iterable[Operation]) -> dict[str, Any]:
    operations = tuple(operations)
    types = [kind for each in operations for kind in (each.body, each.answer) if kind is not None]
    made, components = schema_components(types, schema_hook=_anything, ref_template="#/components/schemas/{name}")
    schema_of = dict(zip(map(id, types), made, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for described in (*events.DESCRIBED, *routes.DESCRIBED):
        _add(paths, described.path, described.method, _by_hand(described))
    for operation in operations:
        _add(paths, operation.path, operation.method, _of(operation, schema_of))
    return {
        "openapi": "3.1.0",
        "info": {"title": "Headrace", "version": __version__, "description": _ABOUT},
        "servers": [{"url": "/"}],
        "tags": [{"name": name, "description": text} for name, text in _TAGS.items()],
        "security": [{"basic": []}, {}],
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": {**components, **events.SCHEMAS, **routes.SCHEMAS, "Problem": _PROBLEM_SCHEMA},
            "securitySchemes": {"basic": {"type": "http", "scheme": "basic"}},
        },
    }


def _anything(kind: type) -> Schema:
    """The schema of what msgspec has none for; for the rest it wants to be told so in this way."""
    if kind is object:
        return {"$comment": "anything"}
    raise NotImplementedError


def _add(paths: dict[str, dict[str, Any]], path: str, method: str, described: dict[str, Any]) -> None:
    """A path whose names are called otherwise is the same path."""
    same = next((known for known in paths if _NAMES.sub("{}", known) == _NAMES.sub("{}", path)), path)
    item = paths.setdefault(same, {})
    if "parameters" not in item and _NAMES.findall(same):
        item["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in _NAMES.findall(same)
        ]
    item[method.lower()] = {"operationId": _operation_id(method, same), **described}


def _operation_id(method: str, path: str) -> str:
    return method.lower() + "".join(word.capitalize() for word in re.findall(r"\w+", path.removeprefix("/v1")))


def _of(operation: Operation, schema_of: dict[int, Schema]) -> dict[str, Any]:
    found: dict[str, Any] = {"tags": [operation.group], "summary": operation.summary}
    if operation.description:
        found["description"] = operation.description
    if operation.query:
        kinds = {int: "integer", bool: "boolean"}
        found["parameters"] = [
            {
                "name": each.name,
                "in": "query",
                "description": each.description,
                "schema": {"type": kinds.get(each.kind, "string")},
            }
            for each in operation.query
        ]
    if operation.body is not None:
        found["requestBody"] = {"content": {_JSON: {"schema": schema_of[id(operation.body)]}}}
    answer: dict[str, Any] = {"description": HTTPStatus(operation.status).phrase}
    if operation.media_type != _JSON:
        answer["content"] = {operation.media_type: {"schema": {"type": "string", "format": "binary"}}}
    elif operation.answer is not None:
        answer["content"] = {_JSON: {"schema": schema_of[id(operation.answer)]}}
    found["responses"] = {str(operation.status): answer, **_problems(operation.problems)}
    return found


def _by_hand(described: Described) -> dict[str, Any]:
    found: dict[str, Any] = {"tags": [described.group], "summary": described.summary}
    if described.description:
        found["description"] = described.description
    if described.public:
        found["security"] = [{}]
    if described.parameters:
        found["parameters"] = [
            {"name": each.name, "in": each.place, "description": each.description, "schema": each.schema}
            for each in described.parameters
        ]
    if described.body is not None:
        found["requestBody"] = {"description": described.body.description, "content": _content(described.body)}
    answers = {
        str(status): {"description": answer.description, **({"content": _content(answer)} if answer.kinds else {})}
        for status, answer in described.answers.items()
    }
    found["responses"] = {**answers, **_problems(described.problems)}
    return found


def _content(content: Content) -> dict[str, Any]:
    return {kind: {"schema": schema} for kind, schema in content.kinds.items()}


def _problems(more: Iterable[int]) -> dict[str, Any]:
    content = {_PROBLEM: {"schema": reference("Problem")}}
    return {str(status): {"description": HTTPStatus(status).phrase, "content": content} for status in sorted({*_ALWAYS, *more})}
