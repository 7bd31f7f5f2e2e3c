"""`headrace policy`: list, set, clear. A policy gives settings to all queues or exchanges whose name has a match."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any

import typer

from headrace.cli.managing import (
    AllVhosts,
    ManagedSession,
    add_managed_command,
    matcher,
    named,
    settings_text,
    typed_settings,
)
from headrace.client.management import NotFound, Policy

app = typer.Typer(no_args_is_help=True, help="Policies: list, set, clear.")


class ApplyTo(StrEnum):
    ALL = "all"
    QUEUES = "queues"
    EXCHANGES = "exchanges"
    CLASSIC = "classic_queues"
    QUORUM = "quorum_queues"
    STREAMS = "streams"


def list_(session: ManagedSession, all_vhosts: AllVhosts = False) -> None:
    """List policies; of those that match a name, the one with the highest priority counts."""
    with session.api() as api:
        policies = sorted(
            api.policies(None if all_vhosts else session.vhost), key=lambda one: (one.vhost, -one.priority, one.name)
        )
    if session.json:
        session.emit({"policies": [_object(one) for one in policies]})
    elif policies:
        session.table(
            (*(("VHOST",) if all_vhosts else ()), "POLICY", "PATTERN", "APPLY-TO", "PRIORITY", "DEFINITION"),
            [
                (
                    *((one.vhost,) if all_vhosts else ()),
                    one.name,
                    one.pattern,
                    one.apply_to,
                    one.priority,
                    settings_text(one.definition),
                )
                for one in policies
            ],
        )
    else:
        session.note("No policies. Make one with 'headrace policy set NAME REGEX max-length=1000'.")


def set_(
    session: ManagedSession,
    name: Annotated[str, typer.Argument(metavar="NAME", show_default=False)],
    pattern: Annotated[str, typer.Argument(metavar="REGEX", help="Which names it is for.", show_default=False)],
    definition: Annotated[
        list[str], typer.Argument(metavar="SETTING=VALUE...", help="Such as message-ttl=60000.", show_default=False)
    ],
    priority: Annotated[int, typer.Option("--priority", "-p", help="The highest that matches counts.")] = 0,
    apply_to: Annotated[ApplyTo, typer.Option("--apply-to")] = ApplyTo.ALL,
) -> None:
    """Make a policy, or replace the one of that name."""
    matcher(pattern)
    policy = Policy(name, session.vhost, pattern, apply_to.value, priority, typed_settings(definition, "a setting"))
    with session.api() as api:
        try:
            replaced = any(one.name == name for one in api.policies(session.vhost))
            api.set_policy(policy)
        except NotFound:
            raise NotFound(f"there is no vhost '{session.vhost}'; see 'headrace vhost list'") from None
    if session.json:
        session.emit({**_object(policy), "replaced": replaced})
    else:
        session.say(f"{name}: {'replaced' if replaced else 'set'}")


def clear(
    session: ManagedSession,
    names: Annotated[list[str], typer.Argument(metavar="NAME", show_default=False)],
) -> None:
    """Remove policies."""
    done: list[dict[str, Any]] = []
    with session.api() as api:
        try:
            for name in names:
                with named("policy", name, session, lambda: [one.name for one in api.policies(session.vhost)]):
                    api.clear_policy(session.vhost, name)
                done.append({"name": name, "cleared": True})
                if not session.json:
                    session.say(f"{name}: cleared")
        finally:
            if session.json:
                session.emit({"policies": done})


def _object(policy: Policy) -> dict[str, Any]:
    return {
        "name": policy.name,
        "vhost": policy.vhost,
        "pattern": policy.pattern,
        "apply_to": policy.apply_to,
        "priority": policy.priority,
        "definition": policy.definition,
    }


_COMMANDS: dict[str, Callable[..., None]] = {"list": list_, "set": set_, "clear": clear}
for _name, _function in _COMMANDS.items():
    add_managed_command(app, _name, _function)
