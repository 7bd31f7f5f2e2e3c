"""`headrace status`: the whole server at one look. What it prints is what `headrace top` shows again and again."""

from __future__ import annotations

import time
from typing import Any

from headrace.cli.managing import Every, ManagedSession, Watch, again_and_again, printable
from headrace.cli.session import human_bytes
from headrace.client.server import ServerClient

PROTOCOLS = ("PROTOCOL", "ADDRESS", "CONNECTIONS", "REQUESTS/S", "IN/S", "OUT/S")
_SHOWN_GROUPS = 5
RATES_S = 1.1  # the server takes a sample once a second at most
_RATES = ("bytes_in_per_s", "bytes_out_per_s", "requests_per_s")


def server_of(session: ManagedSession) -> ServerClient:
    return ServerClient(session.url, user=session.user, password=session.password, timeout_s=session.timeout_s)


def status(session: ManagedSession, watch: Watch = False, every: Every = 2.0) -> None:
    """Show how the server is: traffic, lag, storage, and what needs attention."""
    with server_of(session) as server:
        looks = 0

        def show() -> None:
            nonlocal looks
            overview = server.get("/overview") if looks else with_rates(server)
            looks += 1
            if session.json:
                session.emit(overview)
            else:
                _print(session, server.address, overview)

        again_and_again(session, show, watch=watch, every=every)


def with_rates(server: ServerClient) -> dict[str, Any]:
    """Rates are those since the server was looked at last: where nobody has of late, they are 0, whatever goes on."""
    overview: dict[str, Any] = server.get("/overview")
    protocols = overview["protocols"].values()
    was_used = any(each["bytes_in"] or each["bytes_out"] for each in protocols)
    if was_used and not any(each[rate] for each in protocols for rate in _RATES):
        time.sleep(RATES_S)
        overview = server.get("/overview")
    return overview


def _print(session: ManagedSession, address: str, overview: dict[str, Any]) -> None:
    session.say("\n".join(headline(address, overview)))
    session.say("")
    session.table(PROTOCOLS, protocol_rows(overview))
    behind = [each for each in overview["lag"] if each["lag"]][:_SHOWN_GROUPS]
    if behind:
        session.say("")
        session.table(("GROUP", "LAG", "MEMBERS"), [(reader(each), each["lag"], each["members"]) for each in behind])
    if overview["attention"]:
        session.say("")
        session.table(
            ("ATTENTION", "WHAT"), [(printable(each["severity"]), printable(each["text"])) for each in overview["attention"]]
        )


def headline(address: str, overview: dict[str, Any]) -> list[str]:
    totals, storage, health = overview["totals"], overview["storage"], overview["health"]
    state = "takes writes" if health["ready"] else f"refuses writes: {printable(str(health['reason']))}"
    free = storage["usable_bytes"] / max(1, storage["total_bytes"])
    topics, partitions, groups, records = (
        _counted(totals[name], noun)
        for name, noun in (("topics", "topic"), ("partitions", "partition"), ("groups", "group"), ("lag", "record"))
    )
    queues, messages, exchanges, streams, routes = (
        _counted(totals[f"{noun}s"], noun) for noun in ("queue", "message", "exchange", "stream", "route")
    )
    return [
        f"{address}  Headrace {printable(overview['version'])}, up {duration(overview['uptime_s'])}, {state}",
        f"{topics}, {partitions}, {groups}, {records} behind",
        f"{queues} with {messages}, {exchanges}, {streams}, {routes}",
        f"{human_bytes(storage['log_bytes'])} in {printable(storage['path'])}, {free:.0%} of the disk free",
    ]


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def reader(group: dict[str, Any]) -> str:
    """Who is behind: a group, or the route that keeps its position as one."""
    return f"route {group['route']}" if group.get("route") else str(group["group"])


def protocol_rows(overview: dict[str, Any]) -> list[tuple[object, ...]]:
    listeners = overview.get("listeners", {})
    return [
        (
            name,
            listeners.get(name),
            rates["connections"],
            round(rates["requests_per_s"]),
            human_bytes(round(rates["bytes_in_per_s"])),
            human_bytes(round(rates["bytes_out_per_s"])),
        )
        for name, rates in sorted(overview["protocols"].items())
    ]


def duration(seconds: float) -> str:
    whole = int(seconds)
    for size, one, rest_size, rest in ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            return f"{whole // size} {one} {whole % size // rest_size} {rest}"
    return f"{whole} s"
