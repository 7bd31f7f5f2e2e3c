"""What `headrace doctor` knows: from what was seen of a server to findings. No requests are made here.

Each check looks at one thing and says for each finding what is so, why it matters, and what to do. Severities: `error`, what
loses records or keeps clients from working; `warning`, what will, or costs more than it should; `info`, what may be meant so.

Bound: of one kind at most `MOST_OF_A_KIND` findings are told, and how many more there are.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from headrace.client.server import Series

SEVERITIES = ("error", "warning", "info")
MOST_OF_A_KIND = 10
LOW_DISK, VERY_LOW_DISK = 0.10, 0.03
SKEW_S, FAR_SKEW_S = 2.0, 60.0
FEW_FILES, FILES_USED = 4096, 0.8
MANY_PARTITIONS = 8
LONG_QUEUE = 1000
LATE_S, OFTEN_LATE = 0.1, 0.01


@dataclass(frozen=True, slots=True)
class Finding:
    severity: str
    check: str
    what: str
    why: str
    do: str

    def json(self) -> dict[str, str]:
        return {"severity": self.severity, "check": self.check, "what": self.what, "why": self.why, "do": self.do}


@dataclass(slots=True)
class Seen:
    """What a server told."""

    overview: dict[str, Any]
    client_version: str
    skew_s: float = 0.0  # how far the server's clock is ahead of this machine's
    anybody: bool = False  # guest still has the password that everybody knows
    durability: str = "fsync"
    topics: list[dict[str, Any]] = field(default_factory=list)
    groups: list[dict[str, Any]] = field(default_factory=list)
    routes: list[dict[str, Any]] = field(default_factory=list)
    dead_letters: dict[str, Any] = field(default_factory=dict)
    metrics: list[Series] = field(default_factory=list)
    streams: set[tuple[str, str]] = field(default_factory=set)  # queues that are streams: virtual host and name

    def values(self, name: str) -> Iterator[tuple[dict[str, str], float]]:
        return ((labels, value) for which, labels, value in self.metrics if which == name)

    def value(self, name: str) -> float:
        return sum(value for _, value in self.values(name))


Check = Callable[[Seen], Iterable[Finding]]


def diagnose(seen: Seen) -> list[Finding]:
    """The worst first."""
    found: list[Finding] = []
    for check in CHECKS:
        some = list(check(seen))
        found += some[:MOST_OF_A_KIND]
        if len(some) > MOST_OF_A_KIND:
            last = some[-1]
            found.append(Finding(last.severity, last.check, f"{len(some) - MOST_OF_A_KIND} more like this", last.why, last.do))
    return sorted(found, key=lambda finding: SEVERITIES.index(finding.severity))


def check_version(seen: Seen) -> Iterator[Finding]:
    version = seen.overview["version"]
    if version != seen.client_version:
        yield Finding(
            "warning",
            "version",
            f"the server is Headrace {version}, this command {seen.client_version}",
            "what one of them knows the other may not",
            "install the same version here, or use the command line of the server's installation",
        )


def check_writes(seen: Seen) -> Iterator[Finding]:
    health = seen.overview["health"]
    if not health["ready"]:
        yield Finding(
            "error",
            "writes",
            f"the server refuses writes: {health['reason']}",
            "producers fail or wait; readers are served all the same",
            "make room on the disk; after a failed sync, look at the disk's health and start the server again",
        )
    if seen.value("headrace_publishers_blocked"):
        yield Finding(
            "warning",
            "writes",
            "AMQP publishers have to wait",
            "disk or memory is below the server's limit (disk_free_limit, vm_memory_high_watermark)",
            "make room, or let consumers drain the queues",
        )


def check_disk(seen: Seen) -> Iterator[Finding]:
    storage = seen.overview["storage"]
    free = storage["usable_bytes"] / max(1, storage["total_bytes"])
    if free < LOW_DISK:
        yield Finding(
            "error" if free < VERY_LOW_DISK else "warning",
            "disk",
            f"{free:.0%} of the disk with {storage['path']} is free",
            "when it is full, the server refuses writes",
            "make room, lower retention.ms or retention.bytes of the largest topics ('headrace topic list'), or archive them",
        )


def check_durability(seen: Seen) -> Iterator[Finding]:
    if seen.durability != "fsync":
        survives = "kill -9, but no power loss" if seen.durability == "flush" else "nothing"
        yield Finding(
            "warning",
            "durability",
            f"durability is {seen.durability}",
            f"what the server acknowledges survives {survives}",
            "start it with --durability fsync, unless the records can be had again",
        )


def check_files(seen: Seen) -> Iterator[Finding]:
    used, most = seen.value("process_open_fds"), seen.value("process_max_fds")
    if most and used / most > FILES_USED:
        yield Finding(
            "error",
            "files",
            f"{used:.0f} of {most:.0f} files are open",
            "at the limit, connections are refused and segments can't be opened",
            "raise the limit (ulimit -n, LimitNOFILE) and start the server again; look for clients that leave connections open",
        )
    elif most and most < FEW_FILES:
        yield Finding(
            "info",
            "files",
            f"the server may open {most:.0f} files",
            "every connection takes one, and so do segments that are read: a quarter of them is for HTTP",
            "raise the limit (ulimit -n, LimitNOFILE) for more than a few hundred clients",
        )


def check_clock(seen: Seen) -> Iterator[Finding]:
    if abs(seen.skew_s) > SKEW_S:
        side = "ahead of" if seen.skew_s > 0 else "behind"
        yield Finding(
            "error" if abs(seen.skew_s) > FAR_SKEW_S else "warning",
            "clock",
            f"the server's clock is {abs(seen.skew_s):.1f} s {side} this machine's",
            "timestamps decide about retention, message TTL, AWS signatures and webhook signatures (five minutes)",
            "keep both in step with NTP",
        )


def check_guest(seen: Seen) -> Iterator[Finding]:
    reachable = [f"{name} at {where}" for name, where in seen.overview.get("listeners", {}).items() if not _is_near(where)]
    if seen.anybody and reachable:
        yield Finding(
            "error",
            "guest",
            f"guest has the default password, and others can reach {', '.join(reachable)}",
            "anybody may read, write and delete there, as far as the protocol lets guest in from outside",
            "change the password ('PUT /api/users/guest'), or listen on loopback alone",
        )


def check_groups(seen: Seen) -> Iterator[Finding]:
    for group in seen.groups:
        if group.get("lag") and not group.get("members") and not group.get("route"):  # routes are looked at as such
            yield Finding(
                "warning",
                "groups",
                f"group '{group['group']}' has no members and is {group['lag']:,} records behind",
                "nobody reads for it, and retention does not wait",
                "start its consumers; 'headrace group delete' if it is not needed any more",
            )


def check_retention(seen: Seen) -> Iterator[Finding]:
    """Whether retention deletes what groups have not read: it has, or it is about to."""
    starts = {_place(labels): value for labels, value in seen.values("headrace_partition_start_offset")}
    ends = {_place(labels): value for labels, value in seen.values("headrace_partition_high_watermark")}
    lags = {(labels["group"], *_place(labels)): value for labels, value in seen.values("headrace_group_lag")}
    lost: dict[tuple[str, str], float] = {}
    near: set[tuple[str, str]] = set()
    for labels, committed in seen.values("headrace_group_committed_offset"):
        place, group = _place(labels), labels["group"]
        start = starts.get(place, 0.0)
        if start <= 0 or committed < 0 or not lags.get((group, *place)):
            continue
        if committed < start:
            lost[group, place[0]] = lost.get((group, place[0]), 0.0) + start - committed
        elif committed - start < 0.1 * (ends.get(place, start) - start):
            near.add((group, place[0]))
    why = "retention.ms and retention.bytes delete by age and size, whoever has read or not"
    do = "raise retention.ms or retention.bytes of the topic ('headrace topic alter'), or add consumers"
    for (group, topic), count in lost.items():
        what = f"retention deleted {count:,.0f} records of '{topic}' before group '{group}' read them"
        yield Finding("error", "retention", what, why, do)
    for group, topic in sorted(near - lost.keys()):
        what = f"group '{group}' is about to lose records of '{topic}': it reads the oldest that are left"
        yield Finding("warning", "retention", what, why, do)


def check_queues(seen: Seen) -> Iterator[Finding]:
    """A stream keeps its messages as a topic does, and dead letters wait for somebody: neither needs a consumer."""
    consumers = {(labels["vhost"], labels["queue"]): value for labels, value in seen.values("headrace_queue_consumers")}
    meant = seen.streams | {(each["vhost"], each["queue"]) for each in seen.dead_letters.get("queues", ())}
    for labels, ready in seen.values("headrace_queue_messages_ready"):
        queue = labels["vhost"], labels["queue"]
        if ready and queue[1] and not consumers.get(queue) and queue not in meant:
            yield Finding(
                "warning" if ready >= LONG_QUEUE else "info",
                "queues",
                f"queue '{queue[1]}' of vhost '{queue[0]}' has {ready:,.0f} messages and no consumers",
                "it grows until the disk is full, unless a limit ends it",
                "start its consumers, set x-max-length or x-message-ttl by a policy, or delete it",
            )


def check_dead_letters(seen: Seen) -> Iterator[Finding]:
    why = "each is a message that somebody could not deal with"
    for queue in seen.dead_letters.get("queues", ()):
        if queue["messages"]:
            what = f"queue '{queue['queue']}' of vhost '{queue['vhost']}' holds {queue['messages']:,} dead letters"
            name = queue["queue"]
            do = f"look with 'headrace queue peek {name}', mend the cause, then 'headrace queue retry-dead {name}'"
            yield Finding("warning", "dead letters", what, why, do)
    for topic in seen.dead_letters.get("topics", ()):
        if topic["records"]:
            what = f"topic '{topic['topic']}' holds {topic['records']:,} dead letters of {topic['kind']} '{topic['name']}'"
            do = f"look with 'headrace consume {topic['topic']}': headers __dlq.errors.* say why"
            yield Finding("warning", "dead letters", what, why, do)


def check_routes(seen: Seen) -> Iterator[Finding]:
    open_breakers = {labels["route"] for labels, value in seen.values("headrace_webhook_breaker_open") if value}
    for route in seen.routes:
        name, state = route["name"], route["state"]
        reason = f": {route['error']}" if route.get("error") else ""
        if state in ("disabled", "blocked"):
            yield Finding(
                "error" if state == "disabled" else "warning",
                "routes",
                f"route '{name}' is {state}{reason}",
                "it delivers nothing, and what it has not delivered is subject to retention",
                f"mend the cause, then 'headrace route resume {name}'",
            )
        elif name in open_breakers:
            yield Finding(
                "warning",
                "routes",
                f"webhook '{name}' pauses because its receiver fails{reason}",
                "deliveries wait and are tried again, less and less often",
                f"look at 'headrace webhook attempts {name}' and mend the receiver",
            )


def check_partitions(seen: Seen) -> Iterator[Finding]:
    for topic in seen.topics:
        if not topic["internal"] and topic["partitions"] >= MANY_PARTITIONS and 0 < topic["records"] < topic["partitions"]:
            yield Finding(
                "info",
                "partitions",
                f"topic '{topic['name']}' has {topic['partitions']} partitions and {topic['records']} records",
                "each partition costs files and memory, and most consumers have nothing to read",
                "make it anew with fewer: partitions can be added, not taken away",
            )


def check_background(seen: Seen) -> Iterator[Finding]:
    given_up, failures = seen.value("headrace_compaction_given_up"), seen.value("headrace_archive_failures_total")
    if given_up:
        what, why = f"{given_up:.0f} partitions are not compacted any more", "they grow, and old values stay"
        yield Finding("error", "compaction", what, why, "see why in the server's log, and start it again when that is mended")
    if failures:
        what, why = f"the archive could not be written {failures:.0f} times", "what is not archived stays on this disk"
        yield Finding("warning", "archive", what, why, "see why in the server's log (headrace.archive)")
    buckets = [(labels["le"], value) for labels, value in seen.values("headrace_event_loop_delay_seconds_bucket")]
    looks = seen.value("headrace_event_loop_delay_seconds_count")
    in_time = max((value for bound, value in buckets if bound != "+Inf" and float(bound) <= LATE_S), default=looks)
    if looks and (looks - in_time) / looks > OFTEN_LATE:
        yield Finding(
            "warning",
            "event loop",
            f"{(looks - in_time) / looks:.0%} of the time the server was held up for more than {LATE_S:g} s",
            "whoever waits meanwhile waits longer",
            "give the machine more CPU, or the process less to share it with",
        )


def check_spans(seen: Seen) -> Iterator[Finding]:
    for _, up in seen.values("headrace_spans_collector_up"):
        if not up:
            yield Finding(
                "warning",
                "tracing",
                "the collector takes no spans",
                "what the server does is missing in traces; nothing else suffers",
                "see why in the server's log (headrace.tracing); start the collector, or mend headrace.tracing.endpoint",
            )
    lost = {labels["reason"]: value for labels, value in seen.values("headrace_spans_dropped_total") if value}
    if lost.get("full"):
        what = f"{lost['full']:,.0f} spans were dropped because more came than the collector took"
        yield Finding("info", "tracing", what, "traces have gaps", "sample less where traces begin, or give the collector more")


CHECKS: tuple[Check, ...] = (
    check_version,
    check_writes,
    check_disk,
    check_durability,
    check_files,
    check_clock,
    check_guest,
    check_retention,
    check_groups,
    check_queues,
    check_dead_letters,
    check_routes,
    check_partitions,
    check_background,
    check_spans,
)


def _place(labels: dict[str, str]) -> tuple[str, str]:
    return labels["topic"], labels["partition"]


def _is_near(address: str) -> bool:
    host = address.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
