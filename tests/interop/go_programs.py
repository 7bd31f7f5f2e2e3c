"""Programs in Go: a folder with a module, built for each run of the tests (Go keeps what it has compiled). Needs `go`."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


def built(module: Path, into: Path, what: str) -> str:
    """The program of a module. `what` is fetched for it."""
    if shutil.which("go") is None:
        pytest.skip("needs Go (go)")
    fetched = subprocess.run(["go", "mod", "download"], cwd=module, capture_output=True, text=True, timeout=240)
    if fetched.returncode != 0:
        pytest.skip(f"go could not fetch {what}: {fetched.stderr[-500:]}")
    program = into / "program"
    subprocess.run(["go", "build", "-o", str(program), "."], cwd=module, check=True, timeout=240)
    return str(program)
