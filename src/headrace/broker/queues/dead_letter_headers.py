"""What dead-lettering writes into a message, and how it tells a message that goes round in circles.

Each death is an entry of the header `x-death`, the newest first: from which queue, for which reason, when, and the exchange
and keys it had been published with. A second death in the same queue for the same reason is no new entry: the old one
comes to the front with its count raised and all else as it was, so the list is no longer than four times the queues a
message has been through. `x-first-death-*` stays as it was at the first death, `x-last-death-*` follows the last one. A
message loses its expiration, or it would expire again at once; the entry keeps it as `original-expiration`.

A client that publishes a message again with the headers it got carries its deaths on, which is what retry counters rely
on. So what is found in these headers may be anything, and what is no death is left where it is.

If the queue has a dead letter routing key, that is the only key the message is routed by, and the header `CC` goes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from headrace.record.amqp.properties import (
    EXPIRATION,
    NO_PROPERTIES,
    MalformedProperties,
    Properties,
    decode_properties,
    with_headers,
    without_field,
)
from headrace.record.amqp.tables import Timestamp

Reason = Literal["rejected", "expired", "maxlen", "delivery_limit"]

_MAX_COUNT = 2**63 - 1


def dead_letter_properties(
    raw: bytes,
    *,
    queue: str,
    reason: Reason,
    exchange: str,
    routing_key: str,
    time_s: int,
    count: int = 1,
    dead_letter_key: str | None = None,
) -> bytes:
    """The properties of a message as they are after it died in `queue`; `exchange` and `routing_key` are its own.

    Properties that can't be read are dropped: a message must not be able to die without a trace, or it could go round
    in circles for ever.
    """
    try:
        properties = decode_properties(raw)
    except MalformedProperties:
        raw, properties = NO_PROPERTIES, Properties()
    headers = properties.headers or {}
    changed = dead_letter_headers(
        headers,
        queue=queue,
        reason=reason,
        exchange=exchange,
        routing_keys=(routing_key, *carbon_copies(headers)),
        time_s=time_s,
        expiration=properties.expiration,
        count=count,
        dead_letter_key=dead_letter_key,
    )
    return without_field(with_headers(raw, changed), EXPIRATION)


def dead_letter_headers(
    headers: Mapping[str, object],
    *,
    queue: str,
    reason: Reason,
    exchange: str,
    routing_keys: Sequence[str],
    time_s: int,
    expiration: str | None = None,
    count: int = 1,
    dead_letter_key: str | None = None,
) -> dict[str, object]:
    """The headers with one more death (or `count` of them) in `queue`; the caller removes the expiration itself."""
    changed = dict(headers)
    if dead_letter_key is not None:
        changed.pop("CC", None)
    deaths = _deaths(headers)
    if not deaths:
        changed |= {"x-first-death-exchange": exchange, "x-first-death-queue": queue, "x-first-death-reason": reason}
    changed |= {"x-last-death-exchange": exchange, "x-last-death-queue": queue, "x-last-death-reason": reason}
    same = [death for death in deaths if _is_death(death, queue, reason)]
    others = [death for death in deaths if not _is_death(death, queue, reason)]
    if same and isinstance(same[0], Mapping):
        newest = {**same[0], "count": _raised(same[0].get("count", len(same)), count)}
    else:
        newest = {
            "count": count,
            "reason": reason,
            "queue": queue,
            "time": Timestamp(time_s),
            "exchange": exchange,
            "routing-keys": list(routing_keys),
        }
        if expiration is not None:
            newest["original-expiration"] = expiration
    changed["x-death"] = [newest, *others]
    return changed


def is_cycle(headers: Mapping[str, object], target: str, reason: Reason) -> bool:
    """Whether a message with these headers, its last death included, must not go to the queue `target`.

    It has died there before, and since then it has been moved on by the queues alone. A rejection in between is a
    consumer's decision, and so is what no queue can have written; the consumer may have meant the message to come back.
    """
    if reason == "rejected":
        return False
    for death in _deaths(headers):
        if not isinstance(death, Mapping) or death.get("reason") == "rejected":
            return False
        if death.get("queue") == target:
            return True
    return False


def dead_letter_keys(routing_key: str, headers: Mapping[str, object], dead_letter_key: str | None) -> tuple[str, ...]:
    """The keys a dead message is routed by: that of its queue, or else all it was published with."""
    return (routing_key, *carbon_copies(headers)) if dead_letter_key is None else (dead_letter_key,)


def carbon_copies(headers: Mapping[str, object]) -> tuple[str, ...]:
    """The further routing keys in `CC`. Those in `BCC` are known only while the message is being published."""
    copies = headers.get("CC")
    return tuple(key for key in copies if isinstance(key, str)) if isinstance(copies, list | tuple) else ()


def _deaths(headers: Mapping[str, object]) -> Sequence[object]:
    deaths = headers.get("x-death")
    return deaths if isinstance(deaths, list | tuple) else ()


def _is_death(death: object, queue: str, reason: str) -> bool:
    return isinstance(death, Mapping) and death.get("queue") == queue and death.get("reason") == reason


def _raised(before: object, count: int) -> int:
    known = int(before) if isinstance(before, int) and before > 0 else 0
    return min(known + count, _MAX_COUNT)
