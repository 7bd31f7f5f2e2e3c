"""Both implementations of the hot paths of AMQP."""

from __future__ import annotations

from types import ModuleType

import pytest

from headrace.record.amqp import pure

try:
    from headrace import _amqp as compiled
except ImportError:
    compiled = None


@pytest.fixture(scope="session", params=["pure", "compiled"])
def twin(request: pytest.FixtureRequest) -> ModuleType:
    """Each of the two, one after the other."""
    if request.param == "pure":
        return pure
    if compiled is None:
        pytest.skip("headrace._amqp is not built; `make speed` builds it")
    return compiled


@pytest.fixture(scope="session")
def twins() -> tuple[ModuleType, ModuleType]:
    """Both at once, to hold one against the other."""
    if compiled is None:
        pytest.skip("headrace._amqp is not built; `make speed` builds it")
    return pure, compiled
