"""The HTTP client for endpoints that somebody else chose: server-side request forgery is closed here, and nowhere else.

    url         URLs, read strictly
    addresses   what an address is: public, private, or never
    policy      who may be connected to; lists of what the operator allows
    resolver    from names to addresses, on threads
    network     connections to an address; the port that tests watch
    exchange    one connection and the requests on it
    plain_answer   what nearly every answer looks like; others are read by h11
    idle        connections that wait for the next request
    slots       how many there may be
    client      all of it together: `Outbound.post`
    errors      why nothing was answered

Knows nothing of routes, webhooks or the broker. Loaded with the first route that sends webhooks.
"""

from headrace.webhooks.outbound.client import Answer, Outbound, check_header
from headrace.webhooks.outbound.errors import OutboundError, Refused, TimedOut, Unreachable
from headrace.webhooks.outbound.policy import AllowList, check_never
from headrace.webhooks.outbound.url import InvalidUrl, Url, check_url

__all__ = [
    "AllowList",
    "Answer",
    "InvalidUrl",
    "Outbound",
    "OutboundError",
    "Refused",
    "TimedOut",
    "Unreachable",
    "Url",
    "check_header",
    "check_never",
    "check_url",
]
