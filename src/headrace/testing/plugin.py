"""The pytest plugin: Headrace servers as fixtures.

    headrace_server          a server of the test's own
    headrace_shared_server   one server for the whole session, for cheap tests that use topic names of their own
    headrace_factory         makes servers: several, or with settings that only the test knows
    headrace_settings        what every server starts with; override it in a conftest.py

`@pytest.mark.headrace(durability="memory", num_partitions=4)` configures the `headrace_server` of one test. When a test
fails, the logs of the servers it used are part of its report.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any, TypeAlias

import pytest

from headrace.testing.server import HeadraceServer, setting_names

HeadraceFactory: TypeAlias = Callable[..., HeadraceServer]

FIXTURES = ("headrace_server", "headrace_shared_server")
LOG_TAIL_CHARS = 20_000

_made = pytest.StashKey[list[HeadraceServer]]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "headrace(durability=None, data=None, arguments=(), **settings): how this test's headrace_server starts; "
        "an underscore in a setting's name stands for a dot",
    )


@pytest.fixture(scope="session")
def headrace_settings() -> dict[str, object]:
    """Server settings for every fixture of this plugin, under Kafka's names: override it in a conftest.py."""
    return {}


@pytest.fixture
def headrace_factory(request: pytest.FixtureRequest, headrace_settings: Mapping[str, object]) -> Iterator[HeadraceFactory]:
    """Makes servers of the test's own: `headrace_factory(data=…, durability=…, arguments=…, num_partitions=4)`.
    They are ready when it returns and stopped after the test, which fails if one of them does not end cleanly."""
    servers = request.node.stash.setdefault(_made, [])

    def make(**given: Any) -> HeadraceServer:
        server = _server(headrace_settings, given)
        servers.append(server)
        return server.start()

    try:
        yield make
    finally:
        _close_all(servers)


@pytest.fixture
def headrace_server(request: pytest.FixtureRequest, headrace_factory: HeadraceFactory) -> HeadraceServer:
    """A server of the test's own: every listener on a free port, an empty temporary folder, ready."""
    marker = request.node.get_closest_marker("headrace")
    return headrace_factory(**(marker.kwargs if marker else {}))


@pytest.fixture(scope="session")
def headrace_shared_server(headrace_settings: Mapping[str, object]) -> Iterator[HeadraceServer]:
    """One server for the whole session. Use topic and group names that no other test uses, and don't crash it."""
    with _server(headrace_settings, {}) as server:
        yield server


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        for server in _used_by(item):
            if text := server.log_text():
                name = server.listeners.get("kafka", str(server.data))
                report.sections.append((f"Headrace log of {name}", text[-LOG_TAIL_CHARS:]))
    return report


def _server(common: Mapping[str, object], given: Mapping[str, Any]) -> HeadraceServer:
    own = {"data", "durability", "arguments", "environment", "command", "ready_timeout_s", "stop_timeout_s", "settings"}
    options = {name: value for name, value in given.items() if name in own}
    keywords = setting_names({name: value for name, value in given.items() if name not in own})
    settings = {**common, **options.pop("settings", {}), **keywords}
    return HeadraceServer(settings=settings, **options)


def _used_by(item: pytest.Item) -> list[HeadraceServer]:
    made: list[HeadraceServer] = item.stash.get(_made, [])
    servers = [*made]
    for value in getattr(item, "funcargs", {}).values():
        if isinstance(value, HeadraceServer) and value not in servers:
            servers.append(value)
    return servers


def _close_all(servers: list[HeadraceServer]) -> None:
    failures: list[AssertionError] = []
    for server in servers:
        try:
            server.close()
        except AssertionError as failure:
            failures.append(failure)
    if failures:
        raise failures[0]
