"""`headrace webhook`: create, list, show, attempts, replay, rotate, secret, test.

A webhook is a route to a URL; to pause, resume and delete it is a matter of `headrace route`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated, Any

import typer

from headrace.cli.managing import (
    Every,
    ManagedSession,
    Pattern,
    Watch,
    Yes,
    add_managed_command,
    again_and_again,
    confirm,
    matcher,
    named,
    printable,
    typed_settings,
)
from headrace.cli.moments import FORMS, iso
from headrace.cli.places import moment, place
from headrace.cli.session import CommandError, UsageError
from headrace.client.routes import Route
from headrace.client.webhooks import WebhooksClient

app = typer.Typer(
    no_args_is_help=True,
    help="Webhooks, routes from topics to URLs: create, list, show, attempts, replay, rotate, secret, test.",
)

Name = Annotated[str, typer.Argument(metavar="WEBHOOK", show_default=False)]
_TIMES = f"({FORMS})"


class Order(StrEnum):
    NONE = "none"
    KEY = "key"
    PARTITION = "partition"


class Status(StrEnum):
    DELIVERED = "delivered"
    FAILED = "failed"
    RETRYING = "retrying"
    GIVEN_UP = "given-up"
    GONE = "gone"


def create(
    session: ManagedSession,
    webhook: Name,
    topic: Annotated[str, typer.Option("--topic", "-t", help="The topic whose events are sent.", show_default=False)],
    url: Annotated[str, typer.Option("--url", "-u", help="Where to.", show_default=False)],
    secret: Annotated[
        list[str], typer.Option("--secret", metavar="whsec_…", help="To sign with; one is made up if none is given.")
    ] = [],  # noqa: B006
    order: Annotated[
        Order, typer.Option("--order", help="What must not be overtaken: nothing, a key, a partition.")
    ] = Order.NONE,
    header: Annotated[
        list[str], typer.Option("--header", "-H", metavar="NAME: VALUE", help="To be sent with each; repeat for more.")
    ] = [],  # noqa: B006
    filter_: Annotated[
        str | None, typer.Option("--filter", metavar="CEL", help="Only events that it is true for.", show_default=False)
    ] = None,
    start: Annotated[str, typer.Option("--from", metavar="WHERE", help="Where it begins.")] = "latest",
    members: Annotated[
        list[str],
        typer.Option("--set", metavar="NAME=VALUE", help="Another member of the destination, such as timeout_s=10; repeat."),
    ] = [],  # noqa: B006
    paused: Annotated[bool, typer.Option("--paused", help="Begin when it is resumed.")] = False,
) -> None:
    """Make a webhook, or change one that exists. A secret that is made up is shown this once."""
    destination: dict[str, object] = {"type": "webhook", "url": url, "order": order.value, **typed_settings(members, "--set")}
    if secret:
        destination["secrets"] = secret
    if header:
        destination["headers"] = dict(_header(text) for text in header)
    with _webhooks(session) as api:
        made = api.put(
            webhook, topic=topic, destination=destination, filter=filter_, paused=paused, start=place(start)
        )  # fmt: skip
    if session.json:
        session.emit(made.json)
        return
    session.say(f"{webhook}: {made.state}" + (f" ({printable(made.error)})" if made.error else ""))
    if made.json.get("secret"):
        session.say(f"secret {made.json['secret']}")
        session.note("The receiver verifies with this secret; 'headrace webhook secret' shows it to administrators.")


def list_(session: ManagedSession, pattern: Pattern = None, watch: Watch = False, every: Every = 2.0) -> None:
    """List webhooks, how they are and what waits."""
    wanted = matcher(pattern)

    def show_them() -> None:
        with _webhooks(session) as api:
            found = [route for route in api.all() if wanted(route.name)]
        if session.json:
            session.emit({"webhooks": [route.json for route in found]})
        elif found:
            session.table(
                ("WEBHOOK", "TOPIC", "URL", "STATE", "LAG", "PENDING", "ERROR"),
                [
                    (one.name, one.topic, one.destination.get("url"), one.state, one.lag, _detail(one, "pending"), one.error)
                    for one in found
                ],
            )
        else:
            session.note("No such webhooks.")

    again_and_again(session, show_them, watch=watch, every=every)


def show(session: ManagedSession, webhook: Name) -> None:
    """Show settings, state and what waits."""
    with _webhooks(session) as api, _named(session, webhook, api):
        route = api.get(webhook)
    if session.json:
        session.emit(route.json)
        return
    lines = [
        ("webhook", route.name),
        ("topic", route.topic),
        ("url", route.destination.get("url")),
        ("state", route.state + (f": {route.error}" if route.error else "")),
        ("lag", route.lag),
        *((name.replace("_", " "), value) for name, value in sorted(route.json.get("details", {}).items())),
        *((name.replace("_", " "), value) for name, value in sorted(route.destination.items()) if name not in ("type", "url")),
    ]
    for name, value in lines:
        text = value if isinstance(value, str) else json.dumps(value)
        session.say(f"{name:<17} {printable(text)}")


def attempts(
    session: ManagedSession,
    webhook: Name,
    number: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="One of them, with its request.", show_default=False)
    ] = None,
    since: Annotated[str | None, typer.Option("--since", help=f"From then on {_TIMES}.", show_default=False)] = None,
    until: Annotated[str | None, typer.Option("--until", help="Before then.", show_default=False)] = None,
    status: Annotated[
        Status | None, typer.Option("--status", "-s", help="'failed' is all but delivered.", show_default=False)
    ] = None,
    event: Annotated[
        str | None,
        typer.Option("--event", "-e", metavar="PARTITION:OFFSET", help="Of one event; or its webhook-id.", show_default=False),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many.")] = 20,
) -> None:
    """Show attempts, the newest first, or one of them with its request."""
    with _webhooks(session) as api, _named(session, webhook, api):
        if number is not None:
            session.say(json.dumps(api.attempt(webhook, number), indent=None if session.json else 2, ensure_ascii=False))
            return
        wanted = None if status is None else status.value
        found = list(api.attempts(webhook, since=_moment(since), until=_moment(until), status=wanted, event=event, limit=limit))
    if session.json:
        session.emit({"attempts": found})
    elif found:
        session.table(
            ("ID", "AT", "EVENT", "ATTEMPT", "RESULT", "STATUS", "MS", "ERROR", "NEXT"),
            [
                (
                    one["id"],
                    one["at"],
                    f"{one['partition']}:{one['offset']}",
                    one["attempt"],
                    one["result"],
                    one["status"],
                    one["duration_ms"],
                    one["error"],
                    one["next_at"],
                )
                for one in found
            ],
        )
    else:
        session.note("No such attempts.")


def replay(
    session: ManagedSession,
    webhook: Name,
    number: Annotated[
        str | None, typer.Argument(metavar="[ATTEMPT]", help="The event of this attempt.", show_default=False)
    ] = None,
    since: Annotated[str | None, typer.Option("--from", help=f"A period: its beginning {_TIMES}.", show_default=False)] = None,
    until: Annotated[str | None, typer.Option("--to", help="Its end; now if it is not given.", show_default=False)] = None,
    everything: Annotated[bool, typer.Option("--all", help="Also what was delivered, not just what failed.")] = False,
    yes: Yes = False,
) -> None:
    """Send again: the event of one attempt, what failed in a period, or all of a period."""
    if (number is None) == (since is None):
        raise UsageError("say what to send again: an ATTEMPT, or a period with --from")
    if number is None:
        what = "everything" if everything else "what failed"
        confirm(session, f"Send {what} from {since} to {until or 'now'} again to {webhook}?", yes=yes)
    with _webhooks(session) as api, _named(session, webhook, api):
        if number is not None:
            told = api.send_again(webhook, number)
        elif everything:
            told = api.replay(webhook, str(_moment(since)), end=_moment(until) or "latest").json
        else:
            told = api.send_failed_again(webhook, _moment(since), _moment(until))
    if session.json:
        session.emit(told)
    else:
        session.say(f"{webhook}: it is on its way" if number is not None else f"{webhook}: they are on their way")


def rotate(
    session: ManagedSession,
    webhook: Name,
    secret: Annotated[str | None, typer.Option("--secret", metavar="whsec_…", help="Made up if it is not given.")] = None,
    keep_s: Annotated[
        int, typer.Option("--keep", metavar="SECONDS", min=0, help="How long the old ones sign beside it.")
    ] = 86_400,
) -> None:
    """Replace the secret. The new one is shown this once; the old ones sign beside it for a while."""
    with _webhooks(session) as api, _named(session, webhook, api):
        told = api.rotate(webhook, secret, keep_s)
    if session.json:
        session.emit(told)
    else:
        session.say(f"secret {told['secret']}")
        for until_ms in told["old_until_ms"]:
            session.note(f"An old one signs until {iso(until_ms)}.")


def secret(session: ManagedSession, webhook: Name) -> None:
    """Show the secrets; for administrators."""
    with _webhooks(session) as api, _named(session, webhook, api):
        found = api.secrets(webhook)
    if session.json:
        session.emit({"secrets": found})
        return
    for one in found:
        session.say(one["secret"] + ("" if one["until_ms"] is None else f"  until {iso(one['until_ms'])}"))


def test(session: ManagedSession, webhook: Name) -> None:
    """Send something that is no event, and show what came of it. Exit status 1 if it was not taken."""
    with _webhooks(session) as api, _named(session, webhook, api):
        told = api.test(webhook)
    if session.json:
        session.emit(told)
        if not told["delivered"]:
            raise typer.Exit(1)
    elif told["delivered"]:
        session.say(f"{webhook}: {told['address']} answered {told['status']} after {told['duration_ms']} ms")
    else:
        raise CommandError(f"{webhook}: {printable(str(told['error']))} after {told['duration_ms']} ms")


# --- inside


def _detail(route: Route, name: str) -> Any:
    details = route.json.get("details")
    return details.get(name) if isinstance(details, dict) else None


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise UsageError(f"--header: {text!r} is not NAME: VALUE")
    return name.strip(), value.strip()


def _moment(text: str | None) -> str | None:
    return None if text is None else moment(text)


@contextmanager
def _webhooks(session: ManagedSession) -> Iterator[WebhooksClient]:
    with WebhooksClient(session.url, user=session.user, password=session.password, timeout_s=session.timeout_s) as api:
        yield api


@contextmanager
def _named(session: ManagedSession, name: str, api: WebhooksClient) -> Iterator[None]:
    with named("webhook", name, session, lambda: [route.name for route in api.all()]):
        yield


_COMMANDS: dict[str, Callable[..., None]] = {
    "create": create,
    "list": list_,
    "show": show,
    "attempts": attempts,
    "replay": replay,
    "rotate": rotate,
    "secret": secret,
    "test": test,
}
for _name, _function in _COMMANDS.items():
    add_managed_command(app, _name, _function, vhost=False)
