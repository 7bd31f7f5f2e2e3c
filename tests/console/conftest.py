"""What the tests of pages share: a browser for each file, a page in it, and the server's own API beside it. Each file says
which `server` it means.

The server that something goes on in is started once for all tests of this folder: what they make there has its own names.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.console.busy import a_busy_server
from tests.console.opened import a_browser, a_page
from tests.http.v1.asking import V1

from headrace.testing import HeadraceServer


@pytest.fixture(scope="package")
def busy_server() -> Iterator[HeadraceServer]:
    with a_busy_server() as started:
        yield started


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with a_browser() as started:
        yield started


@pytest.fixture
def page(browser: Any, server: HeadraceServer) -> Iterator[Any]:
    with a_page(browser, server) as opened:
        yield opened


@pytest.fixture
def v1(server: HeadraceServer) -> V1:
    return V1(server)
