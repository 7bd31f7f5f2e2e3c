"""`headrace zmq`: keygen."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.session import CommandError, Session, add_command

app = typer.Typer(no_args_is_help=True, help="ZeroMQ: keys of CURVE.")


def keygen(
    session: Session,
    name: Annotated[str, typer.Argument(show_default=False, help="What the files are named after.")],
    folder: Annotated[Path, typer.Option("--folder", "-d", help="Where the files go.")] = Path(),
) -> None:
    """Make a pair of keys: NAME.key for those who connect, NAME.key_secret for yourself alone."""
    from headrace.client.zeromq import KeyPair

    pair = KeyPair.new()
    try:
        public, secret = pair.write(folder, name)
    except OSError as error:
        raise CommandError(str(error)) from None
    if session.json:
        session.emit({"public_key": pair.public, "files": [str(public), str(secret)]})
    else:
        session.say(f"{public}: public key {pair.public}")
        session.say(f"{secret}: the secret one; keep it to yourself")


add_command(app, "keygen", keygen, speaks_kafka=False)
