"""Access rules (ACLs) as data: stored, listed and removed, as Kafka's StandardAuthorizer keeps them.

Nothing is decided by them yet. Every client is `User:ANONYMOUS`, a super user, because there is no authentication; when
there are identities, these are the rules that hold for them.

A rule is a row of a table: its key is the rule itself, as JSON with the names of Kafka's enumerations, so that a rule is
there once or not at all. Its value is empty. Everything is bounded: how many rules there are and how large they are
together, how many one request may add or remove, and how much it may be told about them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum

from headrace.broker.audit import About, audited
from headrace.broker.topic_errors import InvalidRequest, PolicyViolation
from headrace.dataclass import dataclass
from headrace.log.errors import LogError, RecoveryFailed
from headrace.log.port import Log, Table

TABLE = "__headrace_acls"

MAX_ACLS = 100_000
MAX_BYTES = 32 * 1024 * 1024  # of all ACLs together, and of what one request is told about those it removed
MAX_CHANGES = 10_000  # in one request, as Kafka's MAX_RECORDS_PER_USER_OP

CLUSTER_NAME = "kafka-cluster"  # the one resource of the type CLUSTER
WILDCARD = "*"  # the literal name that stands for every resource of its type

_ROW_BYTES = 64  # what an ACL takes beside its three texts, about


class _Code(IntEnum):
    """A number of the protocol. One that this version doesn't know is UNKNOWN, as in Kafka."""

    @classmethod
    def _missing_(cls, value: object) -> _Code:
        return cls(0)


class ResourceType(_Code):
    UNKNOWN, ANY, TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, DELEGATION_TOKEN, USER = range(8)


class PatternType(_Code):
    """What the name of a resource is. ANY and MATCH are for filters: ANY finds the name as it was written, whatever its
    pattern; MATCH finds every pattern that the name falls under (KIP-290)."""

    UNKNOWN, ANY, MATCH, LITERAL, PREFIXED = range(5)


class Operation(_Code):
    UNKNOWN, ANY, ALL, READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE = range(9)
    CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE, CREATE_TOKENS, DESCRIBE_TOKENS = range(9, 15)
    TWO_PHASE_COMMIT = 15


class PermissionType(_Code):
    UNKNOWN, ANY, DENY, ALLOW = range(4)


@dataclass(frozen=True, slots=True)
class Acl:
    """Who may, or must not, do what, from where, to which resources."""

    resource_type: ResourceType
    resource_name: str
    pattern_type: PatternType
    principal: str  # "User:name"
    host: str  # an address as text, or "*"
    operation: Operation
    permission_type: PermissionType

    @property
    def size_bytes(self) -> int:
        return _ROW_BYTES + len(self.resource_name) + len(self.principal) + len(self.host)


@dataclass(frozen=True, slots=True)
class AclFilter:
    """Picks ACLs; None and ANY pick every one."""

    resource_type: ResourceType
    resource_name: str | None
    pattern_type: PatternType
    principal: str | None
    host: str | None
    operation: Operation
    permission_type: PermissionType

    def matches(self, acl: Acl) -> bool:
        return (
            (self.resource_type == ResourceType.ANY or self.resource_type == acl.resource_type)
            and self._names(acl)
            and (self.principal is None or self.principal == acl.principal)
            and (self.host is None or self.host == acl.host)
            and (self.operation == Operation.ANY or self.operation == acl.operation)
            and (self.permission_type == PermissionType.ANY or self.permission_type == acl.permission_type)
        )

    def _names(self, acl: Acl) -> bool:
        name = self.resource_name
        if self.pattern_type == PatternType.MATCH and name is not None:
            if acl.pattern_type == PatternType.PREFIXED:
                return name.startswith(acl.resource_name)
            return acl.resource_name in (name, WILDCARD)
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, acl.pattern_type):
            return False
        return name is None or name == acl.resource_name


class _Index:
    """All ACLs, and those of each name and of each principal: a request with thousands of filters must not look at every
    ACL for each of them."""

    def __init__(self) -> None:
        self.acls: dict[Acl, None] = {}
        self.size_bytes = 0
        self._by_name: dict[str, dict[Acl, None]] = {}
        self._by_principal: dict[str, dict[Acl, None]] = {}

    def add(self, acl: Acl) -> None:
        self.acls[acl] = None
        self.size_bytes += acl.size_bytes
        self._by_name.setdefault(acl.resource_name, {})[acl] = None
        self._by_principal.setdefault(acl.principal, {})[acl] = None

    def remove(self, acl: Acl) -> None:
        del self.acls[acl]
        self.size_bytes -= acl.size_bytes
        for index, key in ((self._by_name, acl.resource_name), (self._by_principal, acl.principal)):
            del index[key][acl]
            if not index[key]:
                del index[key]

    def matching(self, wanted: AclFilter) -> list[Acl]:
        return [acl for acl in self._candidates(wanted) if wanted.matches(acl)]

    def scans(self, wanted: AclFilter) -> bool:
        """Whether `matching` looks at every ACL."""
        return self._candidates(wanted) is self.acls

    def _candidates(self, wanted: AclFilter) -> Mapping[Acl, None]:
        name = wanted.resource_name
        if name is not None and wanted.pattern_type != PatternType.MATCH:
            return self._by_name.get(name, {})
        if name is not None and len(name) < len(self._by_name):
            found: dict[Acl, None] = {}
            for pattern in (WILDCARD, *(name[:length] for length in range(1, len(name) + 1))):
                found.update(self._by_name.get(pattern, {}))
            return found
        if wanted.principal is not None:
            return self._by_principal.get(wanted.principal, {})
        return self.acls


def _told(acls: Acls, given: Sequence[Acl] | Sequence[AclFilter]) -> About:
    return About(", ".join(str(each) for each in given[:3]), {"count": len(given)})


class Acls:
    def __init__(self, log: Log, *, max_acls: int = MAX_ACLS, max_bytes: int = MAX_BYTES) -> None:
        self._log = log
        self._max_acls = max_acls
        self._max_bytes = max_bytes
        self._table: Table | None = None
        self._kept = _Index()

    async def start(self) -> None:
        """Raises RecoveryFailed for a row that can't be read: without a rule that denies, more would be allowed."""
        self._table = await self._log.table(TABLE)
        self._kept = _Index()
        for acl in [_decode(key) for key, _ in self._table.items()]:
            self._kept.add(acl)

    def __len__(self) -> int:
        return len(self._kept.acls)

    def matching(self, wanted: AclFilter) -> list[Acl]:
        return self._kept.matching(wanted)

    @audited("acls.create", _told)
    async def create(self, acls: Sequence[Acl]) -> Mapping[Acl, LogError]:
        """Adds those that are not there yet; durable when it returns. Returns the refused ones, each with its reason."""
        refused: dict[Acl, LogError] = {acl: why for acl in acls if (why := _misnamed(acl)) is not None}
        named = [acl for acl in acls if acl not in refused]
        try:
            refused.update(self._add(named))
            await self._log.synced()  # also for one that was there: it may still be on its way to the disk
        except LogError as error:
            refused.update(dict.fromkeys(named, error))
        return refused

    def _add(self, acls: Iterable[Acl]) -> dict[Acl, LogError]:
        """Without awaiting, so that what was counted stays true. Raises when the request as a whole can't be done."""
        refused: dict[Acl, LogError] = {}
        added: dict[Acl, None] = {}
        there = self._kept.acls
        size_bytes = self._kept.size_bytes
        for acl in acls:
            if acl in there or acl in added:
                continue
            why = _invalid(acl)
            if why is None and len(there) + len(added) >= self._max_acls:
                why = PolicyViolation(f"There can be no more than {self._max_acls} ACLs.")
            if why is None and size_bytes + acl.size_bytes > self._max_bytes:
                why = PolicyViolation(f"All ACLs together can't take more than {self._max_bytes} bytes.")
            if why is not None:
                refused[acl] = why
                continue
            added[acl] = None
            size_bytes += acl.size_bytes
            if len(added) > MAX_CHANGES:
                raise PolicyViolation("Unable to perform excessively large batch operation.")
        self._started().put({_encode(acl): b"" for acl in added})
        for acl in added:
            self._kept.add(acl)
        return refused

    @audited("acls.delete", _told)
    async def delete(self, filters: Sequence[AclFilter]) -> list[list[Acl] | LogError]:
        """Removes what any filter matches, durable when it returns. Returns for each filter what it matched, or why it can't
        match. Raises InvalidRequest, PolicyViolation and StorageError; the first two before anything was removed."""
        if len(filters) > MAX_CHANGES:
            raise PolicyViolation("Unable to perform excessively large batch operation.")
        results: list[list[Acl] | LogError] = []
        removed: dict[Acl, None] = {}
        told_bytes = 0
        for wanted in filters:
            why = _unknown(wanted)
            if why is not None:
                results.append(why)
                continue
            if self._kept.scans(wanted):
                await asyncio.sleep(0)  # that takes a while: others go on between two of them
            matching = self.matching(wanted)
            removed.update(dict.fromkeys(matching))
            if len(removed) > MAX_CHANGES:
                raise InvalidRequest(f"Cannot remove more than {MAX_CHANGES} acls in a single delete operation.")
            told_bytes += sum(acl.size_bytes for acl in matching)
            if told_bytes > self._max_bytes:
                raise PolicyViolation("The filters match the same ACLs too often for one delete operation.")
            results.append(matching)
        self._remove(removed)
        await self._log.synced()
        return results

    def _remove(self, acls: Iterable[Acl]) -> None:
        left = [acl for acl in acls if acl in self._kept.acls]  # another request may have been quicker
        self._started().put({_encode(acl): None for acl in left})
        for acl in left:
            self._kept.remove(acl)

    def _started(self) -> Table:
        if self._table is None:
            raise RuntimeError("ACLs have not been started")
        return self._table


def _misnamed(acl: Acl) -> InvalidRequest | None:
    if acl.resource_type == ResourceType.CLUSTER and acl.resource_name != CLUSTER_NAME:
        return InvalidRequest(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not acl.resource_name:
        return InvalidRequest("Invalid empty resource name")
    return None


def _invalid(acl: Acl) -> LogError | None:
    """What Kafka's controller checks, in its order and its words. It takes any host, any operation with any type of
    resource, and names that no resource could have."""
    if acl.resource_type in (ResourceType.UNKNOWN, ResourceType.ANY):
        return InvalidRequest(f"Invalid resourceType {acl.resource_type.name}")
    if acl.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        return InvalidRequest(f"Invalid patternType {acl.pattern_type.name}")
    if acl.operation in (Operation.UNKNOWN, Operation.ANY):
        return InvalidRequest(f"Invalid operation {acl.operation.name}")
    if acl.permission_type not in (PermissionType.ALLOW, PermissionType.DENY):
        return InvalidRequest(f"Invalid permissionType {acl.permission_type.name}")
    if ":" not in acl.principal:
        return InvalidRequest(
            f"Could not parse principal from `{acl.principal}` "
            "(no colon is present separating the principal type from the principal name)"
        )
    return None


def _unknown(wanted: AclFilter) -> InvalidRequest | None:
    if wanted.resource_type == ResourceType.UNKNOWN or wanted.pattern_type == PatternType.UNKNOWN:
        return InvalidRequest("Unknown patternFilter.")
    if wanted.operation == Operation.UNKNOWN or wanted.permission_type == PermissionType.UNKNOWN:
        return InvalidRequest("Unknown entryFilter.")
    return None


def _encode(acl: Acl) -> bytes:
    kind, pattern, operation, permission = acl.resource_type, acl.pattern_type, acl.operation, acl.permission_type
    row = [kind.name, acl.resource_name, pattern.name, acl.principal, acl.host, operation.name, permission.name]
    return json.dumps(row).encode()


def _decode(key: bytes) -> Acl:
    try:
        resource_type, name, pattern_type, principal, host, operation, permission_type = map(str, json.loads(key))
        return Acl(
            ResourceType[resource_type],
            name,
            PatternType[pattern_type],
            principal,
            host,
            Operation[operation],
            PermissionType[permission_type],
        )
    except (ValueError, TypeError, KeyError) as error:
        raise RecoveryFailed(
            f"the table {TABLE} holds an ACL that this version can't read: {key[:200]!r}; start the version that wrote it"
        ) from error
