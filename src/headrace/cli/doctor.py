"""`headrace doctor`: asks a server for what can be asked, and says what is wrong and what to do. The checks are in `diagnosis`.

Where no server answers, it looks which of the usual ports of that host listen, which is the usual mistake. What a user may not
see, or an older server does not have, is left out and said so.

Bounds: `MOST_LISTED` topics and groups are looked at; `KNOCK_S` for each port.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import typer

from headrace import __version__
from headrace.cli.diagnosis import CHECKS, Finding, Seen, diagnose
from headrace.cli.managing import ManagedSession, printable
from headrace.cli.status import server_of
from headrace.client.management import ManagementError
from headrace.client.management.errors import LoginFailed, NotFound, NotManagement, Refused, TimedOut, Unreachable
from headrace.client.server import ServerClient

MOST_LISTED = 10_000
KNOCK_S = 0.5
USUAL_PORTS = {8080: "HTTP", 9092: "Kafka", 5672: "AMQP", 4567: "Kinesis", 8090: "the console", 15672: "RabbitMQ's management"}


def doctor(session: ManagedSession) -> None:
    """Find common misconfigurations and say what to do. Ends with 1 if something is an error."""
    skipped: list[str] = []
    try:
        with server_of(session) as server:
            findings = diagnose(look(session, server, skipped))
    except (Unreachable, TimedOut, NotManagement, NotFound, LoginFailed) as error:
        findings = [unreachable(session.url, error)]
    if session.json:
        session.emit({"server": session.url, "findings": [finding.json() for finding in findings], "skipped": skipped})
    else:
        for finding in findings:
            session.say(f"{finding.severity.upper():<8}{printable(finding.what)}")
            session.say(f"        why: {printable(finding.why)}")
            session.say(f"        do:  {printable(finding.do)}")
        for text in skipped:
            session.note(f"Not looked at: {printable(text)}")
        if not findings:
            session.say(f"Nothing found: {len(CHECKS)} checks.")
    if any(finding.severity == "error" for finding in findings):
        raise typer.Exit(1)


def look(session: ManagedSession, server: ServerClient, skipped: list[str]) -> Seen:
    server.get("/overview")  # the first request of a server loads what answers: no measure for a clock
    asked_s = time.time()
    overview = server.get("/overview")
    # the answer may be up to a second old (`FRESH_S` of the server): nothing of that is a wrong clock
    early, late = asked_s - 1.0, time.time()
    told_s = overview["time_ms"] / 1000
    seen = Seen(overview, __version__, skew_s=min(0.0, told_s - early) + max(0.0, told_s - late))

    def ask(what: str, question: Callable[[], Any], otherwise: Any) -> Any:
        try:
            return question()
        except (Refused, NotFound) as error:
            skipped.append(f"{what} ({error})")
            return otherwise

    seen.anybody = _anybody(session)
    seen.durability = ask("storage", lambda: server.get("/storage")["durability"], "fsync")
    seen.topics = ask("topics", lambda: server.all("/topics?sizes=true", "topics", MOST_LISTED), [])
    seen.groups = ask("groups", lambda: server.all("/groups?lag=true", "groups", MOST_LISTED), [])
    seen.routes = ask("routes", lambda: server.get("/routes")["routes"], [])
    seen.dead_letters = ask("dead letters", lambda: server.get("/dead-letters"), {})
    seen.streams = ask("queues", lambda: _streams(session), set())
    seen.metrics = ask("metrics", lambda: list(server.metrics()), [])
    return seen


def _streams(session: ManagedSession) -> set[tuple[str, str]]:
    with session.api() as api:
        return {(queue.vhost, queue.name) for queue in api.queues(None) if queue.kind == "stream"}


def _anybody(session: ManagedSession) -> bool:
    """Whether guest gets in with the password that everybody knows."""
    try:
        with ServerClient(session.url, user="guest", password="guest", timeout_s=session.timeout_s) as server:
            server.get("/overview")
    except (LoginFailed, Refused):
        return False
    return True


def unreachable(url: str, error: ManagementError) -> Finding:
    if isinstance(error, LoginFailed):
        return Finding("error", "login", str(error), "nothing can be looked at", "give --user and --password")
    host = urlsplit(url if "://" in url else f"http://{url}").hostname or "127.0.0.1"
    asked = urlsplit(url if "://" in url else f"http://{url}").port
    listening = [f"{port} ({what})" for port, what in USUAL_PORTS.items() if port != asked and _listens(host, port)]
    if listening:
        why = f"on {host} these listen instead: {', '.join(listening)}"
    else:
        why = f"none of the usual ports of {host} listens"
    do = "take the address from the line that 'headrace serve' prints when it is ready, and give it with --http"
    return Finding("error", "server", str(error), why, do if listening else f"start 'headrace serve'; or {do}")


def _listens(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), KNOCK_S).close()
    except OSError:
        return False
    return True
