"""The AWS SDK for JavaScript: node/kinesis.mjs in one process, one test here for all of its checks.

Needs `node` 20; the SDK comes once through npm into a cache folder.
"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest
from tests.interop.checks import run_checks
from tests.interop.fetching import fetched

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
    lock = HERE / "package-lock.json"
    folder = f"aws-sdk-javascript-{hashlib.sha256(lock.read_bytes()).hexdigest()[:12]}"
    return fetched(folder, [HERE / "package.json", lock], npm, "the AWS SDK for JavaScript") / "node_modules"


def npm(into: Path) -> list[str]:
    if shutil.which("npm") is None:
        pytest.skip("needs npm to fetch the AWS SDK for JavaScript")
    return ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"]


@pytest.fixture(scope="module")
def report(kinesis_url: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Every check's line by the check's name."""
    if shutil.which("node") is None:
        pytest.skip("needs Node.js 20 (node)")
    here = tmp_path_factory.mktemp("node")
    (here / "node_modules").symlink_to(node_modules())  # modules are looked for beside the program
    program = shutil.copy(HERE / "kinesis.mjs", here)
    return run_checks(["node", "--no-warnings", str(program), kinesis_url])


def test_the_javascript_sdk_passes_every_check(report):
    assert report == {check: f"ok {check}" for check in CHECKS}
