"""`headrace exchange`: list, show, declare, delete, publish."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from headrace.cli.managing import (
    AllVhosts,
    ArgumentOption,
    ManagedSession,
    Pattern,
    Yes,
    add_managed_command,
    confirm,
    matcher,
    named,
    settings_text,
    typed_settings,
)
from headrace.cli.publishing import (
    Bodies,
    FileOption,
    Form,
    FormOption,
    HeaderOption,
    PropertyOption,
    TransientOption,
    WholeOption,
    outgoing,
    publish_all,
)
from headrace.cli.session import CommandError, UsageError
from headrace.client.management import DEFAULT_EXCHANGE, Binding, Exchange, Management, NotFound

app = typer.Typer(no_args_is_help=True, help="Exchanges: list, show, declare, delete, publish.")

Name = Annotated[str, typer.Argument(metavar="EXCHANGE", show_default=False)]
Names = Annotated[list[str], typer.Argument(metavar="EXCHANGE", show_default=False)]


def list_(session: ManagedSession, pattern: Pattern = None, all_vhosts: AllVhosts = False) -> None:
    """List exchanges; the one without a name is shown as amq.default."""
    wanted = matcher(pattern)
    with session.api() as api:
        found = api.exchanges(None if all_vhosts else session.vhost)
    exchanges = sorted((one for one in found if wanted(one.name or DEFAULT_EXCHANGE)), key=lambda one: (one.vhost, one.name))
    if session.json:
        session.emit({"exchanges": [_summary(one) for one in exchanges]})
    elif exchanges:
        session.table(
            (*(("VHOST",) if all_vhosts else ()), "EXCHANGE", "TYPE", "POLICY", "FEATURES"),
            [
                (*((one.vhost,) if all_vhosts else ()), one.name or DEFAULT_EXCHANGE, one.kind, one.policy, _features(one))
                for one in exchanges
            ],
        )
    else:
        session.note("No such exchanges.")


def _features(exchange: Exchange) -> str:
    flags = [
        *(["durable"] if exchange.durable else ["transient"]),
        *(["auto-delete"] if exchange.auto_delete else []),
        *(["internal"] if exchange.internal else []),
    ]
    return " ".join([*flags, settings_text(exchange.arguments)]).strip()


def show(session: ManagedSession, exchanges: Names) -> None:
    """Show settings, and the bindings from it and to it."""
    shown: list[tuple[Exchange, list[Binding], list[Binding]]] = []
    with session.api() as api:
        for name in exchanges:
            with named("exchange", name, session, lambda: _names(session, api)):
                leaving = api.bindings_of_exchange(session.vhost, name, as_source=True)
                arriving = api.bindings_of_exchange(session.vhost, name, as_source=False)
                shown.append((api.exchange(session.vhost, name), leaving, arriving))
    if session.json:
        session.emit({"exchanges": [_details(*one) for one in shown]})
        return
    for number, (exchange, leaving, arriving) in enumerate(shown):
        if number:
            session.say("")
        session.say(f"exchange    {exchange.name or DEFAULT_EXCHANGE}")
        session.say(f"type        {exchange.kind}, {_features(exchange)}")
        if exchange.policy:
            session.say(f"policy      {exchange.policy}")
        if leaving and exchange.name:
            session.say("")
            session.table(
                ("TO", "KIND", "KEY", "ARGUMENTS"),
                [
                    (one.destination, one.destination_kind, one.routing_key or None, settings_text(one.arguments) or None)
                    for one in leaving
                ],
            )
        if arriving:
            session.say("")
            session.table(
                ("FROM", "KEY", "ARGUMENTS"),
                [(one.source, one.routing_key or None, settings_text(one.arguments) or None) for one in arriving],
            )


def declare(
    session: ManagedSession,
    exchanges: Names,
    kind: Annotated[
        str, typer.Option("--type", "-t", help="direct, fanout, topic, headers, x-consistent-hash, x-delayed-message.")
    ] = "direct",
    transient: Annotated[bool, typer.Option("--transient", help="Need not survive a restart.")] = False,
    auto_delete: Annotated[bool, typer.Option("--auto-delete", help="Goes with its last binding.")] = False,
    internal: Annotated[bool, typer.Option("--internal", help="Takes messages from other exchanges only.")] = False,
    argument: ArgumentOption = [],  # noqa: B006  typer copies it
) -> None:
    """Make exchanges; one that exists with the same settings is no error."""
    arguments = typed_settings(argument, "--argument")
    done: list[dict[str, Any]] = []
    with session.api() as api:
        try:
            for name in exchanges:
                try:
                    created = api.declare_exchange(
                        session.vhost,
                        name,
                        kind,
                        durable=not transient,
                        auto_delete=auto_delete,
                        internal=internal,
                        arguments=arguments,
                    )
                except NotFound:
                    raise NotFound(f"there is no vhost '{session.vhost}'; see 'headrace vhost list'") from None
                done.append({"name": name, "created": created})
                if not session.json:
                    session.say(f"{name}: {'created' if created else 'exists'}")
        finally:
            if session.json:
                session.emit({"exchanges": done})


def delete(
    session: ManagedSession,
    exchanges: Names,
    if_unused: Annotated[bool, typer.Option("--if-unused", help="Refuse while something is bound to it.")] = False,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="An exchange that does not exist is no error.")] = False,
    yes: Yes = False,
) -> None:
    """Delete exchanges and their bindings."""
    what = f"exchange '{exchanges[0]}'" if len(exchanges) == 1 else f"{len(exchanges)} exchanges ({', '.join(exchanges)})"
    confirm(session, f"Delete {what} with all bindings?", yes=yes)
    done: list[dict[str, Any]] = []
    with session.api() as api:
        try:
            for name in exchanges:
                deleted = _delete(session, api, name, if_unused, if_exists)
                done.append({"name": name, "deleted": deleted})
                if not session.json:
                    session.say(f"{name}: {'deleted' if deleted else 'does not exist'}")
        finally:
            if session.json:
                session.emit({"exchanges": done})


def _delete(session: ManagedSession, api: Management, name: str, if_unused: bool, if_exists: bool) -> bool:
    try:
        api.delete_exchange(session.vhost, name, if_unused=if_unused)
    except NotFound:
        if if_exists:
            return False
        with named("exchange", name, session, lambda: _names(session, api)):
            raise
    return True


def publish(
    session: ManagedSession,
    exchange: Name,
    bodies: Bodies = None,
    key: Annotated[str | None, typer.Option("--key", "-k", metavar="KEY", help="The routing key.", show_default=False)] = None,
    file: FileOption = [],  # noqa: B006
    whole: WholeOption = False,
    format_: FormOption = Form.TEXT,
    header: HeaderOption = [],  # noqa: B006
    property_: PropertyOption = [],  # noqa: B006
    transient: TransientOption = False,
) -> None:
    """Publish messages to an exchange: each BODY, or each line of stdin or of files."""
    if exchange in ("", DEFAULT_EXCHANGE) and key is None and format_ is Form.TEXT:
        raise UsageError("the default exchange needs --key with the name of a queue; or use 'headrace queue publish'")
    template = outgoing("" if exchange == DEFAULT_EXCHANGE else exchange, key, format_, header, property_, transient)
    with session.api() as api:
        with named("exchange", exchange, session, lambda: _names(session, api)):
            api.exchange(session.vhost, exchange)
        lost = publish_all(session, api, template, bodies, file, whole=whole)
    if lost:
        raise CommandError(f"no queue took {lost} of them, and they are gone: see 'headrace binding list --source {exchange}'")


def _summary(exchange: Exchange) -> dict[str, Any]:
    return {
        "name": exchange.name,
        "vhost": exchange.vhost,
        "type": exchange.kind,
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": exchange.arguments,
        "policy": exchange.policy,
    }


def _details(exchange: Exchange, leaving: list[Binding], arriving: list[Binding]) -> dict[str, Any]:
    return {
        **_summary(exchange),
        "bindings": [
            {
                "destination": one.destination,
                "destination_type": one.destination_kind,
                "routing_key": one.routing_key,
                "arguments": one.arguments,
            }
            for one in leaving
        ],
        "bound_to": [{"source": one.source, "routing_key": one.routing_key, "arguments": one.arguments} for one in arriving],
    }


def _names(session: ManagedSession, api: Management) -> list[str]:
    return [one.name for one in api.exchanges(session.vhost)]


_COMMANDS: dict[str, Callable[..., None]] = {
    "list": list_,
    "show": show,
    "declare": declare,
    "delete": delete,
    "publish": publish,
}
for _name, _function in _COMMANDS.items():
    add_managed_command(app, _name, _function)
