"""What every test may use: the option for long campaigns, and the settings that our own servers start with."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

os.environ.setdefault("HEADRACE_CONSOLE", "off")  # a process of its own, which only its own tests need
settings.register_profile("unhurried", settings(), deadline=None)  # a busy machine is not a mistake
settings.load_profile("unhurried")

FOREIGN_TIMING = {"interop", "console"}  # folders


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak", action="store_true", help="run the campaigns in tests/soak at length, not a short slice")
    parser.addoption("--seed", type=int, default=None, help="repeat a campaign of tests/soak with the seed it printed")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test in which a foreign client's or a browser's timing has a say is run once more when it fails, and is then listed
    as RERUN at the end: a mistake to look for, in the test or in the server. No other test has a second chance."""
    here = Path(__file__).parent
    for item in items:
        if item.path.relative_to(here).parts[0] in FOREIGN_TIMING:
            item.add_marker(pytest.mark.flaky(reruns=1))


@pytest.fixture(scope="session")
def headrace_settings() -> dict[str, object]:
    """Groups that settle at once and may have short sessions, so that tests of a crashed member need not wait. Retention takes
    nothing meanwhile that a test wrote with a time of long ago."""
    return {
        "num.partitions": 4,
        "group.initial.rebalance.delay.ms": 0,
        "group.min.session.timeout.ms": 100,
        "log.retention.check.interval.ms": 86_400_000,
    }
