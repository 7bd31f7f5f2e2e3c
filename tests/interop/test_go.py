"""franz-go: the program in go/ built once, one test here for each of its checks. Needs `go`."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.interop.checks import run_checks
from tests.interop.go_programs import built

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

HERE = Path(__file__).with_name("go")
CHECKS = [
    *(f"round-trip-{compression}" for compression in ("none", "gzip", "snappy", "lz4", "zstd")),
    "acks-none",
    "acks-leader",
    "order",
    "too-large",
    "seek-and-times",
    "long-poll",
    "auto-create",
    "deleted-topic",
    "group-range",
    "group-cooperative-sticky",
    "group-crash",
    "group-static",
    "group-resume",
    "admin-topics",
    "admin-groups",
]


@pytest.fixture(scope="module")
def report(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Every check's line by the check's name."""
    return run_checks([built(HERE, tmp_path_factory.mktemp("go"), "franz-go"), bootstrap])


@pytest.mark.parametrize("check", CHECKS)
def test_franz_go_works(check, report):
    assert report.get(check) == f"ok {check}"


def test_every_check_of_the_program_is_a_test(report):
    assert set(report) == set(CHECKS)
