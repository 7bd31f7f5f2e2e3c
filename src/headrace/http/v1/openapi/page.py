"""The document as a page for people: one file without scripts, and nothing that is loaded from elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import escape
from typing import Any

_STYLE = """
:root { color-scheme: light dark; --line: color-mix(in srgb, currentColor 18%, transparent); }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { margin-bottom: 0; } h2 { margin-top: 3rem; border-bottom: 1px solid var(--line); }
code, pre { font: 13px/1.45 ui-monospace, monospace; }
details { border: 1px solid var(--line); border-radius: 6px; margin: .5rem 0; padding: .4rem .8rem; }
summary { cursor: pointer; } summary code { font-weight: 600; }
.m { display: inline-block; min-width: 4.5rem; font: 600 13px ui-monospace, monospace; }
.get { color: #0a7d3c; } .post { color: #0b62c4; } .put, .patch { color: #a05a00; } .delete { color: #c02626; }
table { border-collapse: collapse; width: 100%; margin: .5rem 0; } td:first-child { white-space: nowrap; }
td { border-top: 1px solid var(--line); padding: .25rem .5rem; vertical-align: top; }
pre { overflow: auto; padding: .6rem; border: 1px solid var(--line); border-radius: 6px; }
nav a { margin-right: 1rem; } .q { opacity: .75; }
"""
_HEAD = '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


def page(document: dict[str, Any]) -> str:
    return "".join(_parts(document))


def _parts(document: dict[str, Any]) -> Iterator[str]:
    info = document["info"]
    yield f"{_HEAD}<title>{escape(info['title'])} /v1</title><style>{_STYLE}</style>"
    yield f"<h1>{escape(info['title'])} /v1</h1><p class=q>{escape(info['version'])} · "
    yield '<a href="/v1/openapi.json">openapi.json</a></p>'
    yield "".join(f"<p>{escape(part)}</p>" for part in info["description"].split("\n\n"))
    yield "<nav>" + "".join(f'<a href="#{tag["name"]}">{tag["name"]}</a>' for tag in document["tags"]) + "</nav>"
    for tag in document["tags"]:
        yield f'<h2 id="{tag["name"]}">{tag["name"]}</h2><p>{escape(tag["description"])}</p>'
        for path, item in document["paths"].items():
            for method, operation in item.items():
                if method != "parameters" and tag["name"] in operation["tags"]:
                    yield from _operation(path, method, operation)
    yield "<h2 id=schemas>schemas</h2>"
    for name, schema in sorted(document["components"]["schemas"].items()):
        yield f'<details id="schema-{name}"><summary><code>{name}</code></summary>{_code(schema)}</details>'


def _operation(path: str, method: str, operation: dict[str, Any]) -> Iterator[str]:
    yield f'<details id="{operation["operationId"]}"><summary><span class="m {method}">{method.upper()}</span>'
    yield f"<code>{escape(path)}</code> — {escape(operation['summary'])}</summary>"
    if "description" in operation:
        yield f"<p>{escape(operation['description'])}</p>"
    if "parameters" in operation:
        yield "<table>"
        for each in operation["parameters"]:
            where = "" if each["in"] == "query" else f" <span class=q>({each['in']})</span>"
            yield f"<tr><td><code>{escape(each['name'])}</code>{where}</td><td>{escape(each['description'])}</td></tr>"
        yield "</table>"
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        yield f"<p>Body, <code>{escape(kind)}</code></p>{_code(content['schema'])}"
    yield "<table>"
    for status, answer in operation["responses"].items():
        kinds = answer.get("content", {})
        shown = "".join(f"<p><code>{escape(kind)}</code></p>{_code(each['schema'])}" for kind, each in kinds.items())
        yield f"<tr><td>{status}</td><td>{escape(answer['description'])}{shown if int(status) < 400 else ''}</td></tr>"
    yield "</table></details>"


def _code(schema: Any) -> str:
    if not schema:
        return "<pre>anything</pre>"
    if set(schema) == {"$ref"}:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f'<p>→ <a href="#schema-{name}"><code>{name}</code></a></p>'
    return f"<pre>{escape(json.dumps(schema, indent=1, ensure_ascii=False))}</pre>"
