"""/api/definitions: everything that is declared, as RabbitMQ's definitions files have it; of all virtual hosts or of one.

A file with a mistake in it is refused as a whole, and the answer names the entry.
"""

from __future__ import annotations

import re
from email.parser import BytesParser
from email.policy import HTTP

from headrace.broker.clients import RABBITMQ_VERSION
from headrace.broker.vhosts.definitions_import import InvalidDefinitions, import_definitions
from headrace.broker.vhosts.definitions_json import export_definitions, export_vhost
from headrace.http.management.bodies import parse
from headrace.http.management.call import ADMINISTRATOR, NO_CONTENT, POLICYMAKER, Answer, Call, Resource
from headrace.http.management.errors import ApiError, bad_request, not_authorised

_UNSAFE = re.compile(r"[^\w.@-]")  # in the name of a file


async def _export(call: Call) -> object:
    name = call.broker.vhosts.cluster_name
    more = {"original_cluster_name": name, "explanation": f"Definitions of cluster '{name}'"}
    return _file(call, {**export_definitions(call.broker.vhosts, RABBITMQ_VERSION), **more})


def _file(call: Call, document: dict[str, object]) -> Answer:
    """With `download` a browser keeps it under that name."""
    name = _UNSAFE.sub("_", call.query.get("download", ""))
    return Answer(200, document, {"content-disposition": f"attachment; filename={name}"} if name else {})


async def _import(call: Call) -> Answer:
    return await _take(call, None)


async def _export_vhost(call: Call) -> object:
    vhost = call.broker.vhosts.get(call["vhost"])
    if vhost is None:
        raise bad_request("vhost_not_found")
    if not call.sees(vhost.name):
        raise not_authorised("User not authorised to access virtual host")
    more = {"explanation": f"Definitions of virtual host '{vhost.name}'"}
    return _file(call, {**export_vhost(call.broker.vhosts, vhost, RABBITMQ_VERSION), **more})


async def _import_vhost(call: Call) -> Answer:
    if call.broker.vhosts.get(call["vhost"]) is None:
        raise ApiError(404, "not_found", "vhost_not_found")
    return await _take(call, call.vhost_to_use().name)


async def _take(call: Call, vhost: str | None) -> Answer:
    document = parse(_uploaded(call), "failed_to_parse_json").values
    try:
        import_definitions(call.broker.vhosts, document, vhost)
    except InvalidDefinitions as error:
        raise bad_request(str(error)) from None
    await call.durable()
    return NO_CONTENT


def _uploaded(call: Call) -> bytes:
    """The body, or of a form (`curl -F file=@definitions.json`) the file in it."""
    kind = call.headers.get("content-type", "")
    if not kind.lower().startswith("multipart/form-data"):
        return call.raw_body
    head = b"content-type: " + kind.encode("latin-1", "replace") + b"\r\n\r\n"
    for part in BytesParser(policy=HTTP).parsebytes(head + call.raw_body).walk():
        if not part.is_multipart() and part.get_param("name", header="content-disposition") == "file":
            content = part.get_payload(decode=True)
            return content if isinstance(content, bytes) else b""
    raise bad_request("failed_to_parse_json")


_ALL = {"GET": _export, "POST": _import}

RESOURCES = [
    Resource("definitions", _ALL, ADMINISTRATOR),
    Resource("all-configuration", _ALL, ADMINISTRATOR),  # what it was called once
    Resource("definitions/{vhost}", {"GET": _export_vhost, "POST": _import_vhost}, POLICYMAKER),
]
