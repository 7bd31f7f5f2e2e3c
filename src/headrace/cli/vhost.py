"""`headrace vhost`: list, create, delete."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from headrace.cli.managing import ManagedSession, Yes, add_managed_command, confirm, named
from headrace.client.management import NotFound

app = typer.Typer(no_args_is_help=True, help="Virtual hosts: list, create, delete.")

Names = Annotated[list[str], typer.Argument(metavar="VHOST", show_default=False)]


def list_(session: ManagedSession) -> None:
    """List virtual hosts."""
    with session.api() as api:
        vhosts = sorted(api.vhosts(), key=lambda vhost: vhost.name)
    if session.json:
        rows = [{"name": one.name, "description": one.description, "messages": one.messages} for one in vhosts]
        session.emit({"vhosts": rows})
    else:
        session.table(
            ("VHOST", "MESSAGES", "DESCRIPTION"), [(one.name, one.messages, one.description or None) for one in vhosts]
        )


def create(
    session: ManagedSession,
    vhosts: Names,
    description: Annotated[str | None, typer.Option("--description", "-d", show_default=False)] = None,
) -> None:
    """Make virtual hosts, each with names of its own for queues and exchanges."""
    done: list[dict[str, Any]] = []
    with session.api() as api:
        try:
            for name in vhosts:
                created = api.create_vhost(name, description=description)
                done.append({"name": name, "created": created})
                if not session.json:
                    session.say(f"{name}: {'created' if created else 'exists'}")
        finally:
            if session.json:
                session.emit({"vhosts": done})


def delete(
    session: ManagedSession,
    vhosts: Names,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="One that does not exist is no error.")] = False,
    yes: Yes = False,
) -> None:
    """Delete virtual hosts with their queues, exchanges and messages, for good."""
    confirm(session, f"Delete vhost {', '.join(vhosts)} with all queues, exchanges and messages?", yes=yes)
    done: list[dict[str, Any]] = []
    with session.api() as api:
        try:
            for name in vhosts:
                deleted = True
                with named("vhost", name, session, lambda: [vhost.name for vhost in api.vhosts()]):
                    try:
                        api.delete_vhost(name)
                    except NotFound:
                        if not if_exists:
                            raise
                        deleted = False
                done.append({"name": name, "deleted": deleted})
                if not session.json:
                    session.say(f"{name}: {'deleted' if deleted else 'does not exist'}")
        finally:
            if session.json:
                session.emit({"vhosts": done})


_COMMANDS: dict[str, Callable[..., None]] = {"list": list_, "create": create, "delete": delete}
for _name, _function in _COMMANDS.items():
    add_managed_command(app, _name, _function, vhost=False)
