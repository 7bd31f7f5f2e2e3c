"""How long the campaigns are, and where their chance comes from."""

from __future__ import annotations

import random

import pytest

SHORT_KILLS = 3
LONG_KILLS = 120


@pytest.fixture
def kills(request: pytest.FixtureRequest) -> int:
    """How often a campaign kills: a few times by default, more than a hundred with `--soak`."""
    return LONG_KILLS if request.config.getoption("--soak") else SHORT_KILLS


@pytest.fixture
def chance(request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> random.Random:
    """The campaign's randomness. Its seed is printed; `--seed` repeats it (moments of a kill are never quite the same)."""
    seed = request.config.getoption("--seed")
    if seed is None:
        seed = random.SystemRandom().randrange(2**32)
    with capsys.disabled():
        print(f"\n{request.node.name}: --seed {seed}", flush=True)  # noqa: T201
    return random.Random(seed)
