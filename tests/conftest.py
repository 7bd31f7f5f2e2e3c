"""What every test may use: the option for long campaigns, and the settings that our own servers start with."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

os.environ.setdefault("HEADRACE_CONSOLE", "off")  # a process of its own, which only its own tests need
settings.register_profile("unhurried", settings(), deadline=None)  # a busy machine is not a mistake
settings.load_profile("unhurried")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak", action="store_true", help="run the campaigns in tests/soak at length, not a short slice")
    parser.addoption("--seed", type=int, default=None, help="repeat a campaign of tests/soak with the seed it printed")


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
