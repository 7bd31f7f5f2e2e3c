"""docs/cli.md names every command and every option, so that it can't fall behind unnoticed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from headrace.cli.app import make_app

DOCS = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
OF_TYPER = {"--help", "-h", "--install-completion", "--show-completion", "--version"}


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, (*path, name))


@pytest.mark.parametrize(
    ("path", "command"),
    [pytest.param(p, c, id=" ".join(p) or "headrace") for p, c in commands(typer.main.get_command(make_app()))],
)
def test_the_page_has_every_option(path: tuple[str, ...], command: Any) -> None:
    if path:
        assert path[-1] in DOCS
    for parameter in command.params:
        for option in parameter.opts:
            if option.startswith("-") and option not in OF_TYPER:
                assert f"`{option}" in DOCS or f", {option}" in DOCS or option == "--idempotence", f"{option} of {path}"
