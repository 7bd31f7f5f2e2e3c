"""Policies: settings for all exchanges and queues whose names match a pattern, which come and go while these exist.

At most one policy and one operator policy apply to a thing: of each sort the one with the highest priority, and of equals the
first by name. Their definitions are merged; of limits that both set, the stricter counts. `effective` compares the result with
a queue's arguments. What a policy may say is in `policy_checks`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field

from headrace.dataclass import dataclass

_QUEUE_KINDS = {"classic": "classic_queues", "quorum": "quorum_queues", "stream": "streams"}


@dataclass(frozen=True, slots=True)
class Policy:
    """`pattern` is a regular expression that is found anywhere in the name."""

    name: str
    vhost: str
    pattern: str
    definition: Mapping[str, object]
    priority: int = 0
    apply_to: str = "all"
    operator: bool = False
    _matcher: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_matcher", re.compile(self.pattern))

    def applies_to(self, name: str, kind: str) -> bool:
        """`kind` is the type of a queue, or "exchange"."""
        if self.apply_to != "all":
            wanted = ("exchanges",) if kind == "exchange" else ("queues", _QUEUE_KINDS[kind])
            if self.apply_to not in wanted:
                return False
        return self._matcher.search(name) is not None


class Policies:
    """Those of one virtual host."""

    def __init__(self) -> None:
        self._policies: dict[str, Policy] = {}
        self._operator_policies: dict[str, Policy] = {}
        self._ranked: tuple[list[Policy], list[Policy]] = ([], [])

    def __len__(self) -> int:
        return len(self._policies) + len(self._operator_policies)

    def all(self) -> Iterable[Policy]:
        return [*self._policies.values(), *self._operator_policies.values()]

    def get(self, name: str, *, operator: bool = False) -> Policy | None:
        return (self._operator_policies if operator else self._policies).get(name)

    def put(self, policy: Policy) -> None:
        (self._operator_policies if policy.operator else self._policies)[policy.name] = policy
        self._rank()

    def remove(self, policy: Policy) -> None:
        del (self._operator_policies if policy.operator else self._policies)[policy.name]
        self._rank()

    def _rank(self) -> None:
        ordered = [sorted(each.values(), key=_rank) for each in (self._policies, self._operator_policies)]
        self._ranked = (ordered[0], ordered[1])

    def applied(self, name: str, kind: str) -> tuple[Policy | None, Policy | None]:
        """The policy and the operator policy in force for an exchange or a queue."""
        policy, operator = (next((p for p in each if p.applies_to(name, kind)), None) for each in self._ranked)
        return policy, operator

    def definition(self, name: str, kind: str) -> Mapping[str, object]:
        """What both of them say together."""
        if not self._policies and not self._operator_policies:
            return {}
        policy, operator = self.applied(name, kind)
        if operator is None:
            return policy.definition if policy is not None else {}
        return merged(policy.definition if policy is not None else {}, operator.definition)


def merged(policy: Mapping[str, object], operator: Mapping[str, object]) -> Mapping[str, object]:
    both = {name: _resolve(name, policy[name], value) for name, value in operator.items() if name in policy}
    return {**policy, **operator, **both}


def _rank(policy: Policy) -> tuple[int, str]:
    return -policy.priority, policy.name


def _resolve(name: str, said: object, operator: object) -> object:
    resolve = _RESOLVED.get(name)
    if resolve is None or not isinstance(said, int) or not isinstance(operator, int):
        return operator
    return resolve(said, operator)


def _delivery_limit(said: int, operator: int) -> int:
    """A negative limit is no limit."""
    return max(said, operator) if said < 0 or operator < 0 else min(said, operator)


_RESOLVED: Mapping[str, Callable[[int, int], int]] = {
    "message-ttl": min,
    "expires": min,
    "max-length": min,
    "max-length-bytes": min,
    "max-in-memory-length": min,
    "max-in-memory-bytes": min,
    "delivery-limit": _delivery_limit,
    "delayed-retry-min": max,
    "delayed-retry-max": min,
    "target-group-size": max,
}
