"""/v1/routes: the routes of the broker, listed, made, changed, paused, resumed, replayed and deleted.

    GET     /v1/routes                  {"routes": […]}
    GET     /v1/routes/{name}           one of them
    PUT     /v1/routes/{name}           makes it (201), or changes it (200); "from" is where a new one begins
    DELETE  /v1/routes/{name}           204
    POST    /v1/routes/{name}/pause     /resume
    POST    /v1/routes/{name}/replay    {"from": …, "partition": …}

Everybody logs in (Basic). To look one needs a tag of RabbitMQ's (management, policymaker, monitoring, administrator), to change
something policymaker or administrator, and the destination's virtual host must be open to the user; to make or change a route
the user must be allowed to write to its exchange. Errors are problem+json. A body has at most `MAX_BODY_BYTES`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route as Path
from starlette.types import Receive, Scope, Send

from headrace.broker.queues.errors import AmqpRefusal
from headrace.broker.routes.definition import RouteDefinition, check_route_name
from headrace.broker.routes.errors import (
    InvalidRoute,
    RouteConflict,
    RouteError,
    RouteNotStored,
    TooManyRoutes,
    UnknownRoute,
)
from headrace.broker.routes.positions import Place
from headrace.broker.vhosts.users import check_exchange_access
from headrace.http.authentication import UnreadableCredentials, user_of
from headrace.http.problems import Problem

if TYPE_CHECKING:
    from headrace.broker import Broker
    from headrace.broker.routes.route import Route
    from headrace.broker.vhosts.users import User

logger = logging.getLogger("headrace.http")

MAX_BODY_BYTES = 64 * 1024
CHALLENGE = {"www-authenticate": 'Basic realm="Headrace"'}

_MAY_CHANGE = {"policymaker", "administrator"}
_SEE_ALL = {"monitoring", "administrator"}
_MAY_LOOK = {"management"} | _MAY_CHANGE | _SEE_ALL
_STATUS: dict[type[RouteError], int] = {
    InvalidRoute: 400,
    UnknownRoute: 404,
    RouteConflict: 409,
    TooManyRoutes: 409,
    RouteNotStored: 503,
}
_METHODS = {0: ("GET",), 1: ("GET", "PUT", "DELETE"), 2: ("POST",)}  # by how many segments are behind /v1/routes
_VERBS = ("pause", "resume", "replay")


def routes(broker: Broker) -> list[Path]:
    api = RoutesApi(broker)
    return [Path("/v1/routes", api), Path("/v1/routes/{rest:path}", api)]


class RoutesApi:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            response = await self._answer(request)
        except Problem as problem:
            response = problem.response()
        except RouteError as error:
            response = Problem(_STATUS.get(type(error), 500), error.code, str(error)).response()
        except Exception:
            logger.exception("an error of ours in answer to %s %s", request.method, request.url.path)
            response = Problem(500, "internal_error", "see the server's log").response()
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        parts = [part for part in request.path_params.get("rest", "").split("/") if part]
        if len(parts) > 2 or (len(parts) == 2 and parts[1] not in _VERBS):
            raise Problem(404, "not_found", "there is no such resource")
        method = "GET" if request.method == "HEAD" else request.method
        allowed = _METHODS[len(parts)]
        if method not in allowed:
            text = f"{request.method} is not possible here; there are: {', '.join(allowed)}"
            raise Problem(405, "method_not_allowed", text, {"allow": ", ".join(allowed)})
        user = self._user(request)
        if not (_MAY_LOOK if method == "GET" else _MAY_CHANGE).intersection(user.tags):
            needed = ", ".join(sorted(_MAY_LOOK if method == "GET" else _MAY_CHANGE))
            raise Problem(403, "forbidden", f"user '{user.name}' needs one of these tags: {needed}")
        if not parts:
            return JSONResponse({"routes": [shown(route) for route in self._broker.routes if _sees(user, route)]})
        if method == "GET":
            return JSONResponse(shown(self._route(user, parts[0])))
        if method == "PUT":
            return await self._put(user, parts[0], await _body(request))
        if method == "DELETE":
            self._route(user, parts[0], change=True)
            await self._broker.routes.delete(parts[0])
            return Response(status_code=204)
        return await self._do(user, parts[0], parts[1], await _body(request))

    async def _put(self, user: User, name: str, body: Mapping[str, Any]) -> Response:
        start = Place.of(body["from"]) if "from" in body else None
        definition = RouteDefinition.of(name, {member: value for member, value in body.items() if member != "from"})
        target = definition.target
        if any(route.definition.name == name for route in self._broker.routes):
            self._route(user, name, change=True)
        if target.vhost not in user.permissions:
            raise Problem(403, "forbidden", f"vhost '{target.vhost}' is not open to user '{user.name}'")
        try:
            check_exchange_access(user, "write", target.exchange, target.vhost)
        except AmqpRefusal as refusal:
            raise Problem(403, "forbidden", refusal.text) from None
        route, new = await self._broker.routes.put(definition, start)
        return JSONResponse(shown(route), 201 if new else 200)

    async def _do(self, user: User, name: str, verb: str, body: Mapping[str, Any]) -> Response:
        self._route(user, name, change=True)
        known = {"from", "partition"} if verb == "replay" else set()
        unknown = sorted(body.keys() - known)
        if unknown:
            raise InvalidRoute(f"{unknown[0][:100]} is not known; there are: {', '.join(sorted(known)) or 'none'}")
        if verb == "pause":
            route = await self._broker.routes.pause(name)
        elif verb == "resume":
            route = await self._broker.routes.resume(name)
        else:
            partition = body.get("partition")
            if partition is not None and (isinstance(partition, bool) or not isinstance(partition, int)):
                raise InvalidRoute("partition must be the number of one")
            route = await self._broker.routes.replay(name, Place.of(body.get("from")), partition)
        return JSONResponse(shown(route))

    def _user(self, request: Request) -> User:
        try:
            user = user_of(self._broker.vhosts.users, request.headers.get("authorization", ""), request.client)
        except UnreadableCredentials:
            raise Problem(400, "bad_credentials", "the credentials can't be read") from None
        if user is None:
            raise Problem(401, "not_authorized", "login failed", CHALLENGE)
        return user

    def _route(self, user: User, name: str, *, change: bool = False) -> Route:
        """One that the user may see, or change."""
        check_route_name(name)
        route = self._broker.routes.get(name)
        vhost = route.definition.target.vhost
        if not _sees(user, route):
            raise UnknownRoute(f"there is no route '{name}'")
        if change and vhost not in user.permissions:
            raise Problem(403, "forbidden", f"vhost '{vhost}' is not open to user '{user.name}'")
        return route


def _sees(user: User, route: Route) -> bool:
    return bool(_SEE_ALL.intersection(user.tags)) or route.definition.target.vhost in user.permissions


def shown(route: Route) -> dict[str, object]:
    definition, counts = route.definition, route.counts
    standings = route.standings()
    return {
        "name": definition.name,
        **definition.json(),
        "state": str(route.state),
        "error": route.error,
        "group": definition.group_id,
        "dead_letter_topic": definition.dead_letter_topic,
        "lag": sum(standing.lag for standing in standings),
        "partitions": [
            {"partition": one.partition, "position": one.position, "end": one.end, "lag": one.lag} for one in standings
        ],
        "delivered": counts.delivered,
        "dead_lettered": counts.dead_lettered,
        "skipped": counts.skipped,
        "lost": counts.lost,
    }


async def _body(request: Request) -> Mapping[str, Any]:
    """A JSON object; nothing at all counts as an empty one."""
    data = bytearray()
    async for piece in request.stream():
        data += piece
        if len(data) > MAX_BODY_BYTES:
            raise Problem(413, "too_large", f"a body has at most {MAX_BODY_BYTES} bytes")
    if not data.strip():
        return {}
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        raise Problem(400, "not_json", "the body is not JSON") from None
    if not isinstance(value, dict):
        raise Problem(400, "not_json", "the body must be a JSON object")
    return value
