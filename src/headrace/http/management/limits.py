"""/api/vhost-limits: how many queues and connections a virtual host may have. /api/user-limits: how many connections and
channels a user may have. A negative number is no limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headrace.broker.exchanges.values import printed
from headrace.broker.vhosts.hosts import LIMITS
from headrace.broker.vhosts.users import checked_user_limits
from headrace.http.management.call import ADMINISTRATOR, NO_CONTENT, Answer, Call, Resource
from headrace.http.management.errors import ApiError, bad_request, missing, not_authorised

if TYPE_CHECKING:
    from headrace.broker.vhosts.users import User

_NAME = "limits"
_KINDS = ("max-connections", "max-queues")


# --- of virtual hosts


def _limits(call: Call, vhost: str) -> dict[str, Any] | None:
    """None: nobody has ever set any. What was cleared leaves an empty row, as it does there."""
    said = call.broker.vhosts.parameters.get((LIMITS, vhost, _NAME))
    return dict(said) if isinstance(said, Mapping) else None


async def _list(call: Call) -> object:
    found = ((vhost.name, _limits(call, vhost.name)) for vhost in call.vhosts())
    return [{"vhost": name, "value": limits} for name, limits in sorted(found) if limits is not None]


def check_vhost_limits(limits: Mapping[str, object]) -> None:
    """Raises ValueError."""
    for kind, limit in limits.items():
        if kind not in _KINDS:
            raise ValueError(f"Unrecognised terms [{{{printed(kind)},{printed(limit)}}}] in limits")
        if isinstance(limit, bool) or not isinstance(limit, int):
            raise ValueError(f"{kind} should be a number, actually was {printed(limit)}")


async def _put(call: Call) -> Answer:
    vhost, body = call.vhost().name, call.body()
    body.require("value")
    try:
        check_vhost_limits({call["kind"]: body.get("value")})
    except ValueError as error:
        raise bad_request(f"Validation failed\n\n{error}\n") from None
    return await _set(call, vhost, {**(_limits(call, vhost) or {}), call["kind"]: body.get("value")})


async def _delete(call: Call) -> Answer:
    vhost = call.vhost().name
    limits = _limits(call, vhost)
    if limits is None:
        return NO_CONTENT
    return await _set(call, vhost, {name: value for name, value in limits.items() if name != call["kind"]})


async def _set(call: Call, vhost: str, limits: dict[str, Any]) -> Answer:
    call.broker.vhosts.put_parameter(LIMITS, vhost, _NAME, limits)
    await call.durable()
    return NO_CONTENT


# --- of users


def _row(user: User) -> dict[str, Any]:
    return {"user": user.name, "value": dict(user.limits)}


async def _list_of_users(call: Call) -> object:
    if not call.administers:
        raise not_authorised("User not authorised to access object")
    return [_row(user) for user in sorted(call.broker.vhosts.users, key=lambda user: user.name) if user.limits]


async def _of_user(call: Call) -> object:
    """Everybody may know his own."""
    if call["user"] != call.user.name and not call.monitors:
        raise not_authorised("User not authorised to access object")
    user = call.broker.vhosts.users.get(call["user"])
    if user is None:
        raise missing()
    return [_row(user)] if user.limits else []


def _named(call: Call) -> User:
    user = call.broker.vhosts.users.get(call["user"])
    if user is None:
        raise ApiError(404, "not_found", "user_not_found")
    return user


async def _put_of_user(call: Call) -> Answer:
    user, body = _named(call), call.body()
    body.require("value")
    try:
        added = checked_user_limits({call["kind"]: body.get("value")})
    except ValueError as error:
        raise bad_request(str(error)) from None
    return await _set_of_user(call, replace(user, limits={**user.limits, **added}))


async def _delete_of_user(call: Call) -> Answer:
    user = _named(call)
    left = {name: limit for name, limit in user.limits.items() if name != call["kind"]}
    return await _set_of_user(call, replace(user, limits=left))


async def _set_of_user(call: Call, user: User) -> Answer:
    call.broker.vhosts.put_user(user)
    await call.durable()
    return NO_CONTENT


RESOURCES = [
    Resource("vhost-limits", {"GET": _list}),
    Resource("vhost-limits/{vhost}", {"GET": _list}),
    Resource("vhost-limits/{vhost}/{kind}", {"PUT": _put, "DELETE": _delete}, ADMINISTRATOR),
    Resource("user-limits", {"GET": _list_of_users}),
    Resource("user-limits/{user}", {"GET": _of_user}),
    Resource("user-limits/{user}/{kind}", {"PUT": _put_of_user, "DELETE": _delete_of_user}, ADMINISTRATOR),
]
