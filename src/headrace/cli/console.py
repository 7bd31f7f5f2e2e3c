"""`headrace console`: the web console of a server that runs elsewhere, or was started without one."""

from __future__ import annotations

import ipaddress
from typing import Annotated
from urllib.parse import urlsplit

import typer

from headrace.cli.session import CommandError, Session

DEFAULT_URL = "http://127.0.0.1:8080"


def console(
    session: Session,
    url: Annotated[str, typer.Argument(metavar="URL", help="The server's HTTP address.")] = DEFAULT_URL,
    listen: Annotated[
        str, typer.Option("--listen", metavar="HOST:PORT", help="Where the console is served; on loopback alone.")
    ] = "127.0.0.1:8090",
    read_only: Annotated[bool, typer.Option("--read-only", help="Show everything, change nothing.")] = False,
) -> None:
    """Serve the web console of a server."""
    from headrace.console.launch import installed

    if not installed():
        raise CommandError("the console is not installed: pip install 'headrace[console]'")
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
        raise CommandError(f"{url[:200]!r} is not like {DEFAULT_URL}")
    host, colon, port = listen.rpartition(":")
    host = host.strip("[]")
    if not colon or not port.isdigit() or int(port) > 65535 or not _is_loopback(host):
        raise CommandError(f"{listen[:200]!r}: give an address of this machine alone, such as 127.0.0.1:8090")
    from headrace.console.process import main

    if not session.quiet:
        typer.echo(f"The console of {url}: http://{listen}. Ctrl-C ends it.", err=True)
    raise typer.Exit(main(["--server", url, "--listen", listen, *(["--read-only"] if read_only else [])]))


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
