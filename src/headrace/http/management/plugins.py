"""What plugins of RabbitMQ would list: links of federation, shovels, clients of the stream protocol. There are none of these,
so the lists are empty, and tools that look at everything a server has find that out without an error. A shovel that was
declared is listed as what it is: one that does not run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from headrace.broker.clients import node_name
from headrace.http.management.call import MONITORING, Call, Resource
from headrace.http.management.listing import listed

_LISTS = ("federation-links", "stream/connections", "stream/publishers", "stream/consumers")
_CREDENTIALS = re.compile("//[^/]*@")
_SHOWN = tuple(f"{end}-{what}" for end in ("src", "dest") for what in ("protocol", "uri", "queue", "exchange", "address"))


async def _nothing(call: Call) -> object:
    call.vhosts()  # one that is named must be there, and open to the user
    return []


async def _shovels(call: Call) -> object:
    visible = {vhost.name for vhost in call.vhosts()}
    parameters = call.broker.vhosts.parameters.items()
    found = [
        (vhost, name, value)
        for (component, vhost, name), value in parameters
        if component == "shovel" and vhost in visible and isinstance(value, Mapping)
    ]
    return await listed(call.query, sorted(found, key=lambda each: each[:2]), _shovel_row, lambda each: each[1])


def _shovel_row(shovel: tuple[Any, str, Mapping[str, Any]]) -> dict[str, Any]:
    vhost, name, value = shovel
    row = {"node": node_name(), "name": name, "vhost": vhost, "type": "dynamic"}
    for key in _SHOWN:
        said = value.get(key)
        said = said[0] if isinstance(said, list) and said else said
        if isinstance(said, str):
            row[key.replace("-", "_")] = _CREDENTIALS.sub("//", said)
    return {**row, "state": "terminated", "reason": "this server has no shovels: see routes"}


RESOURCES = [
    *(Resource(path, {"GET": _nothing}, MONITORING) for each in _LISTS for path in (each, f"{each}/{{vhost}}")),
    *(Resource(path, {"GET": _shovels}, MONITORING) for path in ("shovels", "shovels/{vhost}")),
]
