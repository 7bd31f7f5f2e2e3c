"""The AWS SDK for JavaScript: node/kinesis.mjs in one process, one test here for all of its checks.

Needs `node` 20; the SDK comes once through npm into a cache folder.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

HERE = Path(__file__).with_name("node")
CHECKS = [
    "create-and-describe",
    "put-and-get",
    "bytes-of-every-value",
    "list-shards",
    "errors",
    "subscribe",
    "subscribe-positions",
    "subscribe-goes-on",
    "subscribe-split",
    "subscribe-merge",
    "subscribe-twice",
    "subscribe-deleted-stream",
    "subscribe-deregistered",
    "subscribe-errors",
    "subscribe-ends",
    "five-consumers",
    "many-shards-on-one-connection",
    "large-records",
    "slow-reader",
    "over-http-1",
]


def node_modules() -> Path:
    """The folder with the SDK and what it needs."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headrace"
    digest = hashlib.sha256((HERE / "package-lock.json").read_bytes()).hexdigest()
    folder = cache / f"aws-sdk-javascript-{digest[:12]}"
    if not folder.exists():
        if shutil.which("npm") is None:
            pytest.skip("needs npm to fetch the AWS SDK for JavaScript")
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            here = Path(scratch, "sdk")
            here.mkdir()
            for name in ("package.json", "package-lock.json"):
                shutil.copy(HERE / name, here)
            fetched = subprocess.run(
                ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"],
                cwd=here,
                capture_output=True,
                text=True,
                timeout=240,
            )
            if fetched.returncode != 0:
                pytest.skip(f"npm could not fetch the AWS SDK for JavaScript: {fetched.stderr[-500:]}")
            try:
                os.replace(here, folder)  # whole or not at all
            except OSError:
                if not folder.exists():  # another test process was first
                    raise
    return folder / "node_modules"


@pytest.fixture(scope="module")
def report(kinesis_url: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Every check's line by the check's name."""
    if shutil.which("node") is None:
        pytest.skip("needs Node.js 20 (node)")
    here = tmp_path_factory.mktemp("node")
    (here / "node_modules").symlink_to(node_modules())  # modules are looked for beside the program
    program = shutil.copy(HERE / "kinesis.mjs", here)
    run = subprocess.run(["node", "--no-warnings", str(program), kinesis_url], capture_output=True, text=True, timeout=240)
    lines = [line.removeprefix("=> ") for line in run.stdout.splitlines() if line.startswith("=> ")]
    assert lines, run.stdout + run.stderr
    return {line.split(" ", 2)[1].rstrip(":"): line for line in lines}


def test_the_javascript_sdk_passes_every_check(report):
    assert report == {check: f"ok {check}" for check in CHECKS}
