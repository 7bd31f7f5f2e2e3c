"""`headrace queue`: list, show, declare, delete, purge here; what moves messages is in the files beside."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any

import typer

from headrace.cli import queue_moving, queue_reading
from headrace.cli.managing import (
    AllVhosts,
    ArgumentOption,
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
from headrace.cli.session import CommandError, UsageError, human_bytes
from headrace.client.management import Binding, Management, NotFound, Queue

app = typer.Typer(
    no_args_is_help=True,
    help="Queues: list, show, declare, delete; their messages: peek, get, publish, purge, move, retry-dead.",
)

Name = Annotated[str, typer.Argument(metavar="QUEUE", show_default=False)]
Names = Annotated[list[str], typer.Argument(metavar="QUEUE", show_default=False)]


class Order(StrEnum):
    NAME = "name"
    MESSAGES = "messages"


class Kind(StrEnum):
    CLASSIC = "classic"
    QUORUM = "quorum"
    STREAM = "stream"


def list_(
    session: ManagedSession,
    pattern: Pattern = None,
    sort: Annotated[Order, typer.Option("--sort", help="By name, or the longest first.")] = Order.NAME,
    not_empty: Annotated[bool, typer.Option("--not-empty", help="Only those with messages.")] = False,
    all_vhosts: AllVhosts = False,
    watch: Watch = False,
    every: Every = 2.0,
) -> None:
    """List queues."""
    wanted = matcher(pattern)
    with session.api() as api:

        def show() -> None:
            queues = [
                queue
                for queue in api.queues(None if all_vhosts else session.vhost)
                if wanted(queue.name) and (queue.messages or not not_empty)
            ]
            queues.sort(key=lambda queue: (queue.vhost, queue.name))
            if sort is Order.MESSAGES:
                queues.sort(key=lambda queue: queue.messages or 0, reverse=True)
            _print_list(session, queues, vhosts=all_vhosts, filtered=bool(pattern) or not_empty)

        again_and_again(session, show, watch=watch, every=every)


def _print_list(session: ManagedSession, queues: list[Queue], *, vhosts: bool, filtered: bool) -> None:
    if session.json:
        session.emit({"queues": [_summary(queue) for queue in queues]})
    elif queues:
        session.table(
            (*(("VHOST",) if vhosts else ()), "QUEUE", "TYPE", "READY", "UNACKED", "CONSUMERS", "BYTES", "POLICY", "FEATURES"),
            [
                (
                    *((queue.vhost,) if vhosts else ()),
                    queue.name,
                    queue.kind,
                    queue.ready,
                    queue.unacknowledged,
                    queue.consumers,
                    queue.size_bytes,
                    queue.policy,
                    _features(queue),
                )
                for queue in queues
            ],
        )
    elif filtered:
        session.note("No such queues.")
    else:
        session.note("No queues. Make one with 'headrace queue declare NAME'.")


def _features(queue: Queue) -> str | None:
    flags = [
        *(["durable"] if queue.durable else ["transient"]),
        *(["auto-delete"] if queue.auto_delete else []),
        *(["exclusive"] if queue.exclusive else []),
    ]
    return " ".join([*flags, settings_text({k: v for k, v in queue.arguments.items() if k != "x-queue-type"})]).strip()


def show(session: ManagedSession, queues: Names) -> None:
    """Show settings, counts, consumers and bindings."""
    shown = []
    with session.api() as api:
        for name in queues:
            with named("queue", name, session, lambda: _names(session, api)):
                shown.append((api.queue(session.vhost, name), api.bindings_of_queue(session.vhost, name)))
    if session.json:
        session.emit({"queues": [_details(queue, bindings) for queue, bindings in shown]})
        return
    for number, (queue, bindings) in enumerate(shown):
        if number:
            session.say("")
        _print_details(session, queue, bindings)


def _print_details(session: ManagedSession, queue: Queue, bindings: list[Binding]) -> None:
    session.say(f"queue       {queue.name}")
    session.say(f"type        {queue.kind}, {'durable' if queue.durable else 'transient'}{_extras(queue)}")
    session.say(f"state       {queue.state or '-'}")
    counts = f"{_count(queue.ready)} ready, {_count(queue.unacknowledged)} unacknowledged"
    size = "" if queue.size_bytes is None else f", {human_bytes(queue.size_bytes)}"
    session.say(f"messages    {counts}{size}")
    for number, (name, value) in enumerate(queue.arguments.items()):
        session.say(f"{'' if number else 'arguments':<12}{settings_text({name: value})}")
    if queue.policy:
        session.say(f"policy      {queue.policy}: {settings_text(queue.effective)}")
    if queue.consumer_details:
        session.say("")
        session.table(
            ("CONSUMER", "CONNECTION", "CHANNEL", "PREFETCH", "ACKS", "ACTIVE"),
            [
                (c.tag, c.connection, c.channel, c.prefetch, "yes" if c.ack_required else "no", "yes" if c.active else "no")
                for c in queue.consumer_details
            ],
        )
    others = [binding for binding in bindings if binding.source]
    if others:
        session.say("")
        rows = [(binding.source, binding.routing_key or None, settings_text(binding.arguments) or None) for binding in others]
        session.table(("EXCHANGE", "KEY", "ARGUMENTS"), rows)


def _extras(queue: Queue) -> str:
    return (", auto-delete" if queue.auto_delete else "") + (", exclusive" if queue.exclusive else "")


def _count(number: int | None) -> str:
    return "?" if number is None else str(number)


def declare(
    session: ManagedSession,
    queues: Names,
    kind: Annotated[Kind | None, typer.Option("--type", "-t", show_default="classic")] = None,
    transient: Annotated[bool, typer.Option("--transient", help="Need not survive a restart.")] = False,
    auto_delete: Annotated[bool, typer.Option("--auto-delete", help="Goes with its last consumer.")] = False,
    argument: ArgumentOption = [],  # noqa: B006  typer copies it
) -> None:
    """Make queues; one that exists with the same settings is no error."""
    arguments = typed_settings(argument, "--argument")
    if kind is not None:
        if arguments.get("x-queue-type", kind.value) != kind.value:
            raise UsageError("--type and x-queue-type say different things")
        arguments["x-queue-type"] = kind.value
    done: list[dict[str, Any]] = []
    with session.api() as api:
        try:
            for name in queues:
                try:
                    created = api.declare_queue(
                        session.vhost, name, durable=not transient, auto_delete=auto_delete, arguments=arguments
                    )
                except NotFound:
                    raise NotFound(f"there is no vhost '{session.vhost}'; see 'headrace vhost list'") from None
                done.append({"name": name, "created": created})
                if not session.json:
                    session.say(f"{name}: {'created' if created else 'exists'}")
        finally:
            if session.json:
                session.emit({"queues": done})


def delete(
    session: ManagedSession,
    queues: Names,
    if_empty: Annotated[bool, typer.Option("--if-empty", help="Refuse while there are messages.")] = False,
    if_unused: Annotated[bool, typer.Option("--if-unused", help="Refuse while there are consumers.")] = False,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="A queue that does not exist is no error.")] = False,
    yes: Yes = False,
) -> None:
    """Delete queues and the messages in them, for good."""
    confirm(session, f"Delete {_listed(queues)} with all messages?", yes=yes)
    done: list[dict[str, Any]] = []
    with session.api() as api:
        try:
            for name in queues:
                deleted = _delete(session, api, name, if_empty, if_unused, if_exists)
                done.append({"name": name, "deleted": deleted})
                if not session.json:
                    session.say(f"{name}: {'deleted' if deleted else 'does not exist'}")
        finally:
            if session.json:
                session.emit({"queues": done})


def _delete(session: ManagedSession, api: Management, name: str, if_empty: bool, if_unused: bool, if_exists: bool) -> bool:
    try:
        api.delete_queue(session.vhost, name, if_empty=if_empty, if_unused=if_unused)
    except NotFound:
        if if_exists:
            return False
        with named("queue", name, session, lambda: _names(session, api)):
            raise
    return True


def purge(session: ManagedSession, queues: Names, yes: Yes = False) -> None:
    """Delete the messages that are ready, for good; those that consumers hold stay."""
    confirm(session, f"Delete all messages that are ready in {_listed(queues)}?", yes=yes)
    done: list[dict[str, Any]] = []
    with session.api() as api:
        try:
            for name in queues:
                with named("queue", name, session, lambda: _names(session, api)):
                    found = api.queue(session.vhost, name)
                    if found.kind == "stream":
                        trim = f"'headrace topic trim {name} --to latest'"
                        raise CommandError(f"queue '{name}' is a stream, which is a topic: {trim} empties it")
                    before = found.ready
                    api.purge_queue(session.vhost, name)
                done.append({"name": name, "ready_before": before})
                if not session.json:
                    session.say(f"{name}: purged" + ("" if before is None else f", {before} had been ready"))
        finally:
            if session.json:
                session.emit({"queues": done})


def publish(
    session: ManagedSession,
    queue: Name,
    bodies: Bodies = None,
    file: FileOption = [],  # noqa: B006
    whole: WholeOption = False,
    format_: FormOption = Form.TEXT,
    header: HeaderOption = [],  # noqa: B006
    property_: PropertyOption = [],  # noqa: B006
    transient: TransientOption = False,
) -> None:
    """Put messages into a queue: each BODY, or each line of stdin or of files."""
    template = outgoing("", queue, format_, header, property_, transient)
    with session.api() as api:
        with named("queue", queue, session, lambda: _names(session, api)):
            api.queue(session.vhost, queue)
        lost = publish_all(session, api, template, bodies, file, whole=whole)
    if lost:
        raise CommandError(f"queue '{queue}' did not take {lost} of them: is it full, or was it deleted?")


def _summary(queue: Queue) -> dict[str, Any]:
    return {
        "name": queue.name,
        "vhost": queue.vhost,
        "type": queue.kind,
        "durable": queue.durable,
        "auto_delete": queue.auto_delete,
        "exclusive": queue.exclusive,
        "arguments": queue.arguments,
        "policy": queue.policy,
        "state": queue.state,
        "messages": queue.messages,
        "ready": queue.ready,
        "unacknowledged": queue.unacknowledged,
        "consumers": queue.consumers,
        "size_bytes": queue.size_bytes,
    }


def _details(queue: Queue, bindings: list[Binding]) -> dict[str, Any]:
    return {
        **_summary(queue),
        "policy_definition": queue.effective,
        "consumer_details": [
            {
                "tag": one.tag,
                "connection": one.connection,
                "channel": one.channel,
                "prefetch": one.prefetch,
                "ack_required": one.ack_required,
                "exclusive": one.exclusive,
                "active": one.active,
            }
            for one in queue.consumer_details
        ],
        "bindings": [{"source": one.source, "routing_key": one.routing_key, "arguments": one.arguments} for one in bindings],
    }


def _names(session: ManagedSession, api: Management) -> list[str]:
    return [queue.name for queue in api.queues(session.vhost)]


def _listed(names: list[str]) -> str:
    return f"queue '{names[0]}'" if len(names) == 1 else f"{len(names)} queues ({', '.join(names)})"


_COMMANDS: dict[str, Callable[..., None]] = {
    "list": list_,
    "show": show,
    "declare": declare,
    "delete": delete,
    "peek": queue_reading.peek,
    "get": queue_reading.get,
    "publish": publish,
    "purge": purge,
    "move": queue_moving.move,
    "retry-dead": queue_moving.retry_dead,
}
for _name, _function in _COMMANDS.items():
    add_managed_command(app, _name, _function)
