"""Whom a quota is for, what it may limit, and the rules for both, with Kafka's texts.

An entity has one or two parts: a user, a client id, both of them, or an address (`ip`). The name None stands for the
default: every user, client or address that has no quota of its own.
"""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Mapping
from types import MappingProxyType

from headrace.broker.topic_errors import InvalidRequest
from headrace.dataclass import dataclass
from headrace.log.config_types import MAX_INT, MAX_LONG

USER, CLIENT_ID, IP = "user", "client-id", "ip"

PRODUCER_BYTE_RATE = "producer_byte_rate"
CONSUMER_BYTE_RATE = "consumer_byte_rate"
REQUEST_PERCENTAGE = "request_percentage"
CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
CONNECTION_CREATION_RATE = "connection_creation_rate"

# what may be limited -> the largest whole number, or None where fractions are allowed
_CLIENT_KEYS: Mapping[str, int | None] = MappingProxyType(
    {
        PRODUCER_BYTE_RATE: MAX_LONG,
        CONSUMER_BYTE_RATE: MAX_LONG,
        REQUEST_PERCENTAGE: None,
        CONTROLLER_MUTATION_RATE: None,
    }
)
_IP_KEYS: Mapping[str, int | None] = MappingProxyType({CONNECTION_CREATION_RATE: MAX_INT})
_TYPE_NAMES = {MAX_INT: "an INT", MAX_LONG: "a LONG"}


@dataclass(frozen=True, slots=True)
class Entity:
    """Its parts, sorted by type, so that equal ones are equal."""

    parts: tuple[tuple[str, str | None], ...]

    @classmethod
    def of(cls, parts: Mapping[str, str | None]) -> Entity:
        return cls(tuple(sorted(parts.items())))

    def __str__(self) -> str:
        shown = ", ".join(f"{kind}={name if name is not None else '<default>'}" for kind, name in self.parts)
        return f"ClientQuotaEntity(entries={{{shown}}})"

    @property
    def types(self) -> frozenset[str]:
        return frozenset(kind for kind, _ in self.parts)

    def check(self) -> Mapping[str, int | None]:
        """What may be limited for it; raises InvalidRequest."""
        if not self.parts:
            raise InvalidRequest("Invalid empty client quota entity")
        for kind, name in self.parts:
            if kind not in (USER, CLIENT_ID, IP):
                raise InvalidRequest(f"Unhandled client quota entity type: {kind}")
            if name == "":
                raise InvalidRequest(f"Empty {kind} not supported")
        if IP not in self.types:
            return _CLIENT_KEYS
        if len(self.parts) > 1:
            raise InvalidRequest("Invalid quota entity combination, IP entity should not be combined with User or ClientId")
        address = self.parts[0][1]
        if address is not None and not _is_address(address):
            raise InvalidRequest(f"{address} is not a valid IP or resolvable host.")
        return _IP_KEYS


def _is_address(text: str) -> bool:
    """Names of hosts are not resolved: which address a name means may be another one tomorrow."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def check_value(keys: Mapping[str, int | None], key: str, value: float) -> None:
    """Raises InvalidRequest."""
    if key not in keys:
        raise InvalidRequest(f"Invalid configuration key {key}")
    if not value > 0 or math.isnan(value):
        raise InvalidRequest(f"Quota {key} must be greater than 0")
    highest = keys[key]
    if highest is None:
        return
    if value > highest:
        raise InvalidRequest(f"Proposed value for {key} is too large for {_TYPE_NAMES[highest]}.")
    if value % 1.0 > 1e-6:
        raise InvalidRequest(f"{key} cannot be a fractional value.")


@dataclass(frozen=True, slots=True)
class Alteration:
    """What shall change for an entity: a number, or None to remove the quota."""

    entity: Entity
    operations: tuple[tuple[str, float | None], ...]


@dataclass(frozen=True, slots=True)
class EntityFilter:
    """Picks entities that have all of these parts, and with `strict` no other: `exact` by name (None is the default),
    `any_name` whatever the name."""

    exact: Mapping[str, str | None]
    any_name: frozenset[str]
    strict: bool

    def matches(self, entity: Entity) -> bool:
        if self.strict and len(entity.parts) != len(self.exact) + len(self.any_name):
            return False
        parts = dict(entity.parts)
        return all(kind in parts and parts[kind] == name for kind, name in self.exact.items()) and self.any_name <= entity.types
