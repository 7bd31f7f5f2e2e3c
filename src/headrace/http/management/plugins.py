"""What plugins of RabbitMQ would list: links of federation, shovels, clients of the stream protocol. There are none of these,
so the lists are empty; tools that look at everything a server has find that out without an error.
"""

from __future__ import annotations

from headrace.http.management.call import MONITORING, Call, Resource


async def _nothing(call: Call) -> object:
    call.vhosts()  # one that is named must be there, and open to the user
    return []


_LISTS = ("federation-links", "shovels", "stream/connections", "stream/publishers", "stream/consumers")

RESOURCES = [Resource(path, {"GET": _nothing}, MONITORING) for each in _LISTS for path in (each, f"{each}/{{vhost}}")]
