"""What other projects' clients need that comes from the network: fetched once, into `~/.cache/headrace`.

A folder of the cache is whole or not there at all, also when two test processes fetch at the same time. A test that can't have
it is skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest


def fetched(name: str, sources: Sequence[Path], command: Callable[[Path], list[str]], what: str) -> Path:
    """The folder of this name. The first time `sources` are copied into it and the command is run there."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headrace"
    folder = cache / name
    if folder.exists():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        here = Path(scratch, "fetched")
        here.mkdir()
        for source in sources:
            shutil.copy(source, here)
        asked = command(here)
        run = subprocess.run(asked, cwd=here, capture_output=True, text=True, timeout=240)
        if run.returncode != 0:
            pytest.skip(f"{asked[0]} could not fetch {what}: {(run.stdout + run.stderr)[-500:]}")
        try:
            os.replace(here, folder)
        except OSError:
            if not folder.exists():  # another test process was first
                raise
    return folder
