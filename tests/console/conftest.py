"""The server that something goes on in is started once for all tests of this folder: what they make there has its own names."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.console.busy import a_busy_server

from headrace.testing import HeadraceServer


@pytest.fixture(scope="package")
def busy_server() -> Iterator[HeadraceServer]:
    with a_busy_server() as started:
        yield started
