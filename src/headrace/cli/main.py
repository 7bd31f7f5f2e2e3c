"""Where the `headrace` command starts.

A server should be up in a moment, so for `serve` only `cli.serve` is imported; typer, rich and the client are for the others.
"""

from __future__ import annotations

import gc
import sys


def main() -> None:
    sys.exit(run(sys.argv[1:]))


def run(argv: list[str]) -> int:
    try:
        if argv[:1] == ["serve"]:
            gc.disable()  # until the server is ready: see `run_until_signal`
            from headrace.cli.serve import run as serve

            return serve(argv[1:])
        from headrace.cli.app import run as other

        return other(argv)
    except KeyboardInterrupt:
        return 130
