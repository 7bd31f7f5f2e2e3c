"""The AWS SDK for Go: the program in go/ built once, one test here for all of its checks. Needs `go`."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.interop.checks import run_checks
from tests.interop.go_programs import built

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

HERE = Path(__file__).with_name("go")
CHECKS = [
    "put-and-get",
    "errors",
    "subscribe",
    "subscribe-split",
    "subscribe-twice",
    "subscribe-deleted-stream",
    "subscribe-closed",
]


@pytest.fixture(scope="module")
def report(kinesis_url: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Every check's line by the check's name."""
    return run_checks([built(HERE, tmp_path_factory.mktemp("go"), "the AWS SDK for Go"), kinesis_url])


def test_the_go_sdk_passes_every_check(report):
    assert report == {check: f"ok {check}" for check in CHECKS}
