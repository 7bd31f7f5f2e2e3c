"""/api/definitions: everything that is declared, as RabbitMQ's definitions files have it; of all virtual hosts or of one.

A file with a mistake in it is refused as a whole, and the answer names the entry.
"""

from __future__ import annotations

from headrace.broker.clients import RABBITMQ_VERSION
from headrace.broker.vhosts.definitions_import import InvalidDefinitions, import_definitions
from headrace.broker.vhosts.definitions_json import export_definitions, export_vhost
from headrace.http.management.bodies import parse
from headrace.http.management.call import ADMINISTRATOR, NO_CONTENT, POLICYMAKER, Answer, Call, Resource
from headrace.http.management.errors import bad_request, not_authorised


async def _export(call: Call) -> object:
    return export_definitions(call.broker.vhosts, RABBITMQ_VERSION)


async def _import(call: Call) -> Answer:
    return await _take(call, None)


async def _export_vhost(call: Call) -> object:
    vhost = call.broker.vhosts.get(call["vhost"])
    if vhost is None:
        raise bad_request("vhost_not_found")
    if not call.sees(vhost.name):
        raise not_authorised("User not authorised to access virtual host")
    return export_vhost(call.broker.vhosts, vhost, RABBITMQ_VERSION)


async def _import_vhost(call: Call) -> Answer:
    return await _take(call, call.vhost_to_use().name)


async def _take(call: Call, vhost: str | None) -> Answer:
    document = parse(call.raw_body, "failed_to_parse_json").values
    try:
        import_definitions(call.broker.vhosts, document, vhost)
    except InvalidDefinitions as error:
        raise bad_request(str(error)) from None
    await call.durable()
    return NO_CONTENT


_ALL = {"GET": _export, "POST": _import}

RESOURCES = [
    Resource("definitions", _ALL, ADMINISTRATOR),
    Resource("all-configuration", _ALL, ADMINISTRATOR),  # what it was called once
    Resource("definitions/{vhost}", {"GET": _export_vhost, "POST": _import_vhost}, POLICYMAKER),
]
