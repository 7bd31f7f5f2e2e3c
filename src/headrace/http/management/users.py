"""/api/users, /api/permissions and /api/topic-permissions: who there is, and what each may do. /api/whoami: who asks."""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from headrace.broker.vhosts.definitions_json import permission_entries, topic_permission_entries, user_entry
from headrace.broker.vhosts.policy_checks import InvalidPolicy, check_pattern
from headrace.broker.vhosts.users import HASHES, SHA256, Permissions, TopicPermissions, User
from headrace.http.management.bodies import Body
from headrace.http.management.call import ADMINISTRATOR, CREATED, NO_CONTENT, Answer, Call, Resource
from headrace.http.management.errors import bad_request, missing
from headrace.http.management.listing import listed
from headrace.http.management.vhosts import MAX_NAME_BYTES, tags_of


def _sorted(users: Iterable[User]) -> list[User]:
    return sorted(users, key=lambda user: user.name)


def _named(call: Call) -> User:
    user = call.broker.vhosts.users.get(call["user"])
    if user is None:
        raise missing()
    return user


async def _put(call: Call, user: User) -> Answer:
    there = call.broker.vhosts.users.get(user.name) is not None
    call.broker.vhosts.put_user(user)
    await call.durable()
    return NO_CONTENT if there else CREATED


# --- users


async def _whoami(call: Call) -> object:
    return {"name": call.user.name, "tags": list(call.user.tags)}


async def _list(call: Call) -> object:
    return await listed(call.query, _sorted(call.broker.vhosts.users), user_entry, lambda user: user.name)


async def _list_without_permissions(call: Call) -> object:
    found = [user for user in _sorted(call.broker.vhosts.users) if not user.permissions]
    return await listed(call.query, found, user_entry, lambda user: user.name)


async def _get(call: Call) -> object:
    return user_entry(_named(call))


async def _put_user(call: Call) -> Answer:
    name, body = call["user"], call.body()
    if not name or len(name.encode("utf-8", "surrogateescape")) > MAX_NAME_BYTES:
        raise bad_request("user names have 1 to 255 bytes")
    tags = body.get("tags")
    if "tags" not in body.values:
        if "administrator" not in body.values:
            raise bad_request("tags_not_present")
        tags = [ADMINISTRATOR] if body.flag("administrator") else []  # as it was said before there were tags
    known = call.broker.vhosts.users.get(name) or User(name)
    password_hash, algorithm = _password(call, body)
    permissions = {**known.permissions, **_permissions_in(call, body)}
    user = replace(known, permissions=permissions, password_hash=password_hash, hashing_algorithm=algorithm, tags=tags_of(tags))
    return await _put(call, user)


def _permissions_in(call: Call, body: Body) -> dict[str, Permissions]:
    """Those that come with a user, by virtual host."""
    given = body.get("permissions", {})
    if not isinstance(given, Mapping) or not all(isinstance(each, Mapping) for each in given.values()):
        raise bad_request("permissions should be a JSON object")
    if any(call.broker.vhosts.get(vhost) is None for vhost in given):
        raise bad_request("vhost_or_user_not_found")
    return {vhost: Permissions(*_checked(Body(each), "configure", "write", "read")) for vhost, each in given.items()}


def _password(call: Call, body: Body) -> tuple[str, str]:
    """Neither a password nor a hash: a user who can't log in with one."""
    if "password" in body.values and "password_hash" in body.values:
        raise bad_request("both_password_and_password_hash_are_provided")
    algorithm = body.text("hashing_algorithm", SHA256)
    if algorithm not in HASHES:
        raise bad_request(f"unknown hashing_algorithm {algorithm}")
    if "password" in body.values:
        return call.broker.vhosts.users.hashed(body.text("password")), SHA256
    password_hash = body.text("password_hash")
    try:
        b64decode(password_hash, validate=True)
    except (binascii.Error, ValueError):
        raise bad_request(["not_base64", password_hash]) from None
    return password_hash, algorithm


async def _hash_password(call: Call) -> object:
    return {"ok": call.broker.vhosts.users.hashed(call["password"])}


async def _delete(call: Call) -> Answer:
    await _delete_users(call, [_named(call)])
    return NO_CONTENT


async def _delete_users(call: Call, users: Iterable[User]) -> None:
    for user in users:
        call.broker.vhosts.delete_user(user.name)
        for facts in call.broker.clients.connections():
            if facts.user == user.name:
                call.broker.clients.close(facts.name, f"user '{user.name}' is deleted")
    await call.durable()


async def _bulk_delete(call: Call) -> Answer:
    names = call.body().get("users")
    if not isinstance(names, list):
        raise bad_request("[{key_missing,users}]")
    users = [call.broker.vhosts.users.get(str(name)) for name in names]
    for name, user in zip(names, users, strict=True):
        if user is None:
            raise bad_request(["no_such_user", name])
    await _delete_users(call, {user.name: user for user in users if user is not None}.values())
    return NO_CONTENT


# --- permissions


def _checked(body: Body, *names: str) -> list[str]:
    body.require(*names)
    try:
        return [check_pattern(name, body.get(name)) for name in names]
    except InvalidPolicy as error:
        raise bad_request(str(error)) from None


def _entries(call: Call, entries: Any) -> list[dict[str, object]]:
    users = [_named(call)] if "user" in call.parts else _sorted(call.broker.vhosts.users)
    return sorted((entry for user in users for entry in entries(user)), key=lambda entry: (entry["vhost"], entry["user"]))


async def _permissions(call: Call) -> object:
    return await listed(call.query, _entries(call, permission_entries), lambda row: row)


async def _get_permission(call: Call) -> object:
    vhost = call.vhost().name
    found = next((entry for entry in permission_entries(_named(call)) if entry["vhost"] == vhost), None)
    if found is None:
        raise missing()
    return found


def _known(call: Call) -> tuple[str, User]:
    vhost, user = call.broker.vhosts.get(call["vhost"]), call.broker.vhosts.users.get(call["user"])
    if vhost is None or user is None:
        raise bad_request("vhost_or_user_not_found")
    return vhost.name, user


async def _put_permission(call: Call) -> Answer:
    vhost, user = _known(call)
    there = vhost in user.permissions
    allowed = Permissions(*_checked(call.body(), "configure", "write", "read"))
    await _put(call, replace(user, permissions={**user.permissions, vhost: allowed}))
    return NO_CONTENT if there else CREATED


async def _delete_permission(call: Call) -> Answer:
    vhost, user = call.vhost().name, _named(call)
    if vhost not in user.permissions:
        raise missing()
    left = {name: allowed for name, allowed in user.permissions.items() if name != vhost}
    await _put(call, replace(user, permissions=left))
    return NO_CONTENT


# --- topic permissions


async def _topic_permissions(call: Call) -> object:
    return await listed(call.query, _entries(call, topic_permission_entries), lambda row: row)


async def _get_topic_permissions(call: Call) -> object:
    """For all exchanges, or for the one that the path names."""
    vhost, exchange = call.vhost().name, call.parts.get("exchange")
    found = [
        entry
        for entry in topic_permission_entries(_named(call))
        if entry["vhost"] == vhost and exchange in (None, entry["exchange"])
    ]
    if not found:
        raise missing()
    return found


async def _put_topic_permission(call: Call) -> Answer:
    vhost, user = _known(call)
    body = call.body()
    body.require("exchange")
    exchange = body.text("exchange")
    allowed = TopicPermissions(exchange, *_checked(body, "write", "read"))
    others = [each for each in user.topic_permissions.get(vhost, ()) if each.exchange != exchange]
    there = len(others) < len(user.topic_permissions.get(vhost, ()))
    await _put(call, replace(user, topic_permissions={**user.topic_permissions, vhost: (*others, allowed)}))
    return NO_CONTENT if there else CREATED


async def _delete_topic_permissions(call: Call) -> Answer:
    vhost, user = call.vhost().name, _named(call)
    if vhost not in user.topic_permissions:
        raise missing()
    left = {name: topics for name, topics in user.topic_permissions.items() if name != vhost}
    if "exchange" in call.parts:
        others = tuple(each for each in user.topic_permissions[vhost] if each.exchange != call["exchange"])
        left |= {vhost: others} if others else {}
    await _put(call, replace(user, topic_permissions=left))
    return NO_CONTENT


_ONE = {"GET": _get_permission, "PUT": _put_permission, "DELETE": _delete_permission}
_TOPIC = {"GET": _get_topic_permissions, "PUT": _put_topic_permission, "DELETE": _delete_topic_permissions}

RESOURCES = [
    Resource("whoami", {"GET": _whoami}),
    Resource("users", {"GET": _list}, ADMINISTRATOR),
    Resource("users/without-permissions", {"GET": _list_without_permissions}, ADMINISTRATOR),
    Resource("users/bulk-delete", {"POST": _bulk_delete}, ADMINISTRATOR),
    Resource("users/{user}", {"GET": _get, "PUT": _put_user, "DELETE": _delete}, ADMINISTRATOR),
    Resource("users/{user}/permissions", {"GET": _permissions}, ADMINISTRATOR),
    Resource("users/{user}/topic-permissions", {"GET": _topic_permissions}, ADMINISTRATOR),
    Resource("permissions", {"GET": _permissions}, ADMINISTRATOR),
    Resource("permissions/{vhost}/{user}", _ONE, ADMINISTRATOR),
    Resource("topic-permissions", {"GET": _topic_permissions}, ADMINISTRATOR),
    Resource("topic-permissions/{vhost}/{user}", _TOPIC, ADMINISTRATOR),
    Resource("topic-permissions/{vhost}/{user}/{exchange}", _TOPIC, ADMINISTRATOR),
    Resource("auth/hash_password/{password}", {"GET": _hash_password}),
]
