"""The OpenAPI document: what it says is there is there, and what is there it says."""

from __future__ import annotations

import asyncio
import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest
from starlette.routing import Route, WebSocketRoute
from tests.http.v1.asking import V1

from headrace.broker.broker import Broker
from headrace.broker.settings import Settings
from headrace.disk.memory import MemoryDisk
from headrace.http.app import v1_routes
from headrace.http.v1.operations import Resources
from headrace.log.embedded import EmbeddedLog
from headrace.testing import HeadraceServer
from headrace.testing.clock import SimulatedClock

METHODS = {"get", "put", "post", "delete", "patch"}
NAMES = re.compile(r"\{[^}]*\}")


@pytest.fixture(scope="module")
def found(headrace_shared_server: HeadraceServer) -> dict[str, Any]:
    answer = V1(headrace_shared_server).ask("GET", "/v1/openapi.json")
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    body: dict[str, Any] = answer.body
    return body


def operations(found: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (path, method, operation)
        for path, item in found["paths"].items()
        for method, operation in item.items()
        if method in METHODS
    ]


def references(value: Any) -> set[str]:
    if isinstance(value, dict):
        inner = set().union(*map(references, value.values())) if value else set()
        return inner | ({value["$ref"]} if isinstance(value.get("$ref"), str) else set())
    return set().union(*map(references, value)) if isinstance(value, list) and value else set()


def test_it_is_a_document_of_openapi_3_1(found: dict[str, Any]) -> None:
    assert found["openapi"] == "3.1.0"
    assert set(found["info"]) >= {"title", "version"}
    assert set(found) <= {"openapi", "info", "servers", "tags", "security", "paths", "components"}
    for path, item in found["paths"].items():
        assert path.startswith("/v1/")
        assert set(item) <= METHODS | {"parameters"}
    known = {tag["name"] for tag in found["tags"]}
    ids = []
    for path, method, operation in operations(found):
        assert set(operation) <= {
            "operationId", "tags", "summary", "description", "parameters", "requestBody", "responses", "security",
        }, path  # fmt: skip
        assert operation["responses"]
        for status, response in operation["responses"].items():
            assert re.fullmatch("[1-5][0-9][0-9]", status)
            assert response["description"]
        assert set(operation["tags"]) <= known
        assert not (method in ("get", "delete") and "requestBody" in operation)
        for parameter in operation.get("parameters", []):
            assert set(parameter) == {"name", "in", "description", "schema"}
            assert parameter["in"] in ("query", "header")
        assert len({(each["in"], each["name"]) for each in operation.get("parameters", [])}) == len(
            operation.get("parameters", [])
        )
        ids.append(operation["operationId"])
    assert len(set(ids)) == len(ids)


def test_every_name_in_a_path_is_a_parameter_of_it(found: dict[str, Any]) -> None:
    for path, item in found["paths"].items():
        named = re.findall(r"\{(\w+)\}", path)
        assert [each["name"] for each in item.get("parameters", [])] == named
        assert all(each["in"] == "path" and each["required"] is True for each in item.get("parameters", []))


def test_every_reference_leads_somewhere_and_every_schema_is_one(found: dict[str, Any]) -> None:
    schemas = found["components"]["schemas"]
    for reference in references(found):
        assert reference.removeprefix("#/components/schemas/") in schemas, reference
    checker = pytest.importorskip("jsonschema").Draft202012Validator
    for schema in schemas.values():
        checker.check_schema(schema)


def test_bodies_that_are_shown_fit_their_schemas(headrace_shared_server: HeadraceServer, found: dict[str, Any]) -> None:
    checker = pytest.importorskip("jsonschema").Draft202012Validator
    v1 = V1(headrace_shared_server)
    v1.publish("openapi-topic", {"a": 1}, None, "text")
    v1.ask("POST", "/v1/groups/openapi-group/offsets/reset", {"topic": "openapi-topic", "to": "latest"})
    for path, template in (
        ("/v1/topics", "/v1/topics"),
        ("/v1/topics/openapi-topic", "/v1/topics/{topic}"),
        ("/v1/topics/openapi-topic/events", "/v1/topics/{topic}/events"),
        ("/v1/groups", "/v1/groups"),
        ("/v1/groups/openapi-group", "/v1/groups/{group}"),
        ("/v1/groups/openapi-group/offsets", "/v1/groups/{group}/offsets"),
        ("/v1/routes", "/v1/routes"),
        ("/v1/queues", "/v1/queues"),
    ):
        schema = found["paths"][template]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
        checker({**schema, "components": found["components"]}).validate(v1.get(path))
    problem = v1.ask("GET", "/v1/topics/not-there").body
    checker({"$ref": "#/components/schemas/Problem", "components": found["components"]}).validate(problem)


@pytest.fixture(scope="module")
def routes() -> list[Any]:
    """Those that an application really has."""

    async def made() -> list[Any]:
        clock = SimulatedClock()
        log = EmbeddedLog.open(MemoryDisk(), clock)
        found = v1_routes(Broker(log, clock, Settings.from_mapping({}), "cluster"))
        await log.close()
        return found

    return asyncio.run(made())


def shape(path: str) -> str:
    return NAMES.sub("{}", path)


def test_every_route_is_described_and_everything_described_is_routed(found: dict[str, Any], routes: list[Any]) -> None:
    shapes = {shape(path): set(item) & METHODS for path, item in found["paths"].items()}
    hand_made = {"/v1/openapi.json", "/v1/docs", "/routes"}
    for route in routes:
        if route.path in hand_made:
            continue
        if "{rest:path}" in route.path:
            prefix = route.path.partition("{")[0]
            assert any(each.startswith(prefix) for each in shapes), route.path
            continue
        assert shape(route.path) in shapes, route.path
        if isinstance(route, Route) and isinstance(route.app, Resources):
            own = [each for each in route.app.operations if shape(each.path) == shape(route.path)]
            assert {each.method.lower() for each in own} == shapes[shape(route.path)], route.path
        elif isinstance(route, Route) and route.methods:
            assert {each.lower() for each in route.methods} - {"head"} == shapes[shape(route.path)], route.path
        elif isinstance(route, WebSocketRoute):
            assert shapes[shape(route.path)] == {"get"}
    patterns = [re.compile(route.path_regex.pattern) for route in routes if hasattr(route, "path_regex")]
    for each in shapes:
        assert any(pattern.match(each.replace("{}", "x")) for pattern in patterns), each


def test_each_described_operation_is_one_that_the_server_knows(
    headrace_shared_server: HeadraceServer, found: dict[str, Any]
) -> None:
    """Whatever it answers to a name that is not there, it is not "no such resource" and not "no such method"."""
    v1 = V1(headrace_shared_server)
    for path, method, _ in operations(found):
        concrete = path.replace("{vhost}", "%2F").replace("{kind}", "q")
        asked = "HEAD" if path.endswith("/stream") else method.upper()  # a stream would not end
        answer = v1.ask(asked, NAMES.sub("not-there-0", concrete), headers={"Content-Type": "application/json"})
        assert answer.status != 405, (method, path)
        assert answer.status != 404 or asked == "HEAD" or "no such resource" not in answer.body["detail"], (method, path)


class Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.ids: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        given = dict(attrs)
        self.links += [value for name, value in given.items() if name in ("href", "src") and value is not None]
        if given.get("id"):
            self.ids.add(str(given["id"]))


def test_the_page_shows_everything_and_loads_nothing(headrace_shared_server: HeadraceServer, found: dict[str, Any]) -> None:
    answer = V1(headrace_shared_server).ask("GET", "/v1/docs")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    page = Page()
    page.feed(answer.content.decode())
    assert not {"script", "img", "link", "iframe"} & set(page.tags)
    assert {operation["operationId"] for _, _, operation in operations(found)} <= page.ids
    for link in page.links:
        assert link == "/v1/openapi.json" or link.removeprefix("#") in page.ids, link
    assert json.dumps(found)  # and it is JSON
