"""`headrace binding`: list, create, delete.

A binding has no name: it is what it connects, its key and its arguments. So `delete` takes the same words as `create`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from headrace.cli.managing import (
    AllVhosts,
    ArgumentOption,
    ManagedSession,
    add_managed_command,
    named,
    settings_text,
    typed_settings,
)
from headrace.cli.session import CommandError, UsageError
from headrace.client.management import Binding, Management, NotFound

app = typer.Typer(no_args_is_help=True, help="Bindings: list, create, delete.")

Source = Annotated[str, typer.Argument(metavar="EXCHANGE", help="Where messages come from.", show_default=False)]
Destination = Annotated[
    str, typer.Argument(metavar="TO", help="A queue, or with --to-exchange an exchange.", show_default=False)
]
Key = Annotated[str, typer.Argument(metavar="[KEY]", help="The routing key.", show_default=False)]
ToExchange = Annotated[bool, typer.Option("--to-exchange", help="TO is an exchange.")]


def list_(
    session: ManagedSession,
    source: Annotated[
        str | None, typer.Option("--source", metavar="EXCHANGE", help="Only those from it.", show_default=False)
    ] = None,
    to: Annotated[
        str | None, typer.Option("--to", metavar="NAME", help="Only those to this queue or exchange.", show_default=False)
    ] = None,
    default: Annotated[
        bool, typer.Option("--default", help="Show the default exchange's as well; each queue has one.")
    ] = False,
    all_vhosts: AllVhosts = False,
) -> None:
    """List bindings."""
    with session.api() as api:
        found = api.bindings(None if all_vhosts else session.vhost)
    bindings = sorted(
        (one for one in found if (default or one.source) and source in (None, one.source) and to in (None, one.destination)),
        key=lambda one: (one.vhost, one.source, one.destination_kind, one.destination, one.routing_key),
    )
    if session.json:
        session.emit({"bindings": [binding_object(one) for one in bindings]})
    elif bindings:
        session.table(
            (*(("VHOST",) if all_vhosts else ()), "EXCHANGE", "TO", "KIND", "KEY", "ARGUMENTS"),
            [
                (
                    *((one.vhost,) if all_vhosts else ()),
                    one.source or "(default)",
                    one.destination,
                    one.destination_kind,
                    one.routing_key or None,
                    settings_text(one.arguments) or None,
                )
                for one in bindings
            ],
        )
    else:
        session.note("No such bindings. Make one with 'headrace binding create EXCHANGE QUEUE KEY'.")


def create(
    session: ManagedSession,
    source: Source,
    destination: Destination,
    key: Key = "",
    to_exchange: ToExchange = False,
    argument: ArgumentOption = [],  # noqa: B006  typer copies it
) -> None:
    """Bind a queue or an exchange to an exchange."""
    kind = "exchange" if to_exchange else "queue"
    arguments = typed_settings(argument, "--argument")
    with session.api() as api:
        _must_exist(session, api, source, destination, kind)
        known = api.bindings_between(session.vhost, source, destination, kind)
        created = not any(one.routing_key == key and one.arguments == arguments for one in known)
        api.bind(session.vhost, source, destination, kind, key, arguments)
    if session.json:
        session.emit({**_object(session, source, destination, kind, key, arguments), "created": created})
    else:
        session.say(f"{_described(source, destination, key)}: {'created' if created else 'exists'}")


def delete(
    session: ManagedSession,
    source: Source,
    destination: Destination,
    key: Annotated[str | None, typer.Argument(metavar="[KEY]", help="The routing key.", show_default=False)] = None,
    to_exchange: ToExchange = False,
    argument: ArgumentOption = [],  # noqa: B006
    all_: Annotated[bool, typer.Option("--all", help="Every binding between the two.")] = False,
) -> None:
    """Remove a binding, named by what it connects, its key and its arguments."""
    if all_ and (key is not None or argument):
        raise UsageError("give a key and arguments, or --all")
    kind = "exchange" if to_exchange else "queue"
    arguments = typed_settings(argument, "--argument")
    with session.api() as api:
        _must_exist(session, api, source, destination, kind)
        known = api.bindings_between(session.vhost, source, destination, kind)
        chosen = known if all_ else [one for one in known if one.routing_key == (key or "") and one.arguments == arguments]
        if not chosen:
            raise CommandError(_none_such(source, destination, known))
        for one in chosen:
            api.unbind(one)
    if session.json:
        session.emit({"bindings": [binding_object(one) for one in chosen]})
    else:
        for one in chosen:
            session.say(f"{_described(source, destination, one.routing_key)}: deleted")


def _must_exist(session: ManagedSession, api: Management, source: str, destination: str, kind: str) -> None:
    """The API says of neither that it is missing, or does not say which."""

    def exchanges() -> list[str]:
        return [one.name for one in api.exchanges(session.vhost)]

    def queues() -> list[str]:
        return [one.name for one in api.queues(session.vhost)]

    if not source:
        raise UsageError("every queue is bound to the default exchange by its name, and that can't be changed")
    with named("exchange", source, session, exchanges):
        api.exchange(session.vhost, source)
    with named(kind, destination, session, exchanges if kind == "exchange" else queues):
        try:
            api.exchange(session.vhost, destination) if kind == "exchange" else api.queue(session.vhost, destination)
        except NotFound:
            if kind == "queue" and destination in exchanges():
                raise CommandError(f"'{destination}' is an exchange: add --to-exchange") from None
            raise


def _none_such(source: str, destination: str, known: list[Binding]) -> str:
    between = f"between '{source}' and '{destination}'"
    if not known:
        return f"there is no binding {between}; see 'headrace binding list --source {source}'"
    there = "; ".join(f"'{one.routing_key}' {settings_text(one.arguments)}".strip() for one in known[:5])
    return f"there is no such binding {between}; there {'is' if len(known) == 1 else 'are'} {there}"


def _described(source: str, destination: str, key: str) -> str:
    return f"{source} -> {destination}" + (f" ({key})" if key else "")


def binding_object(binding: Binding) -> dict[str, Any]:
    return {
        "vhost": binding.vhost,
        "source": binding.source,
        "destination": binding.destination,
        "destination_type": binding.destination_kind,
        "routing_key": binding.routing_key,
        "arguments": binding.arguments,
    }


def _object(
    session: ManagedSession, source: str, destination: str, kind: str, key: str, arguments: dict[str, Any]
) -> dict[str, Any]:
    return binding_object(Binding(session.vhost, source, destination, kind, key, arguments, ""))


_COMMANDS: dict[str, Callable[..., None]] = {"list": list_, "create": create, "delete": delete}
for _name, _function in _COMMANDS.items():
    add_managed_command(app, _name, _function)
