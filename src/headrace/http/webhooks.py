"""What routes to URLs have tried, and what can be done about it: below /v1/routes/{route}.

    GET     /attempts                  the newest first; ?since=&until=&status=&event=&limit=&cursor=
    GET     /attempts/{id}             one of them, with the request
    POST    /attempts/{id}/replay      sends its event again, now (202)
    POST    /attempts/replay           {"from": …, "to": …}: those that failed then and have not been delivered since (202)
    POST    /test                      sends something that is no event, and answers what came of it
    POST    /rotate-secret             {"secret": …, "keep_s": 86400}: a new secret; the old one signs too until then, or
                                       is good too where webhooks are received
    GET     /secret                    the secrets, for administrators

All events of a period, whatever became of them, are a matter of /replay (see `routes`). Who may do what is said in `routes`; a
secret is shown to whoever made it, once, and to administrators.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct, field

from headrace.broker.routes.definition import RouteDefinition, check_route_name
from headrace.broker.routes.ends.receiving import WebhookSource
from headrace.broker.routes.ends.secrets import Secret
from headrace.broker.routes.ends.webhook import WebhookTarget
from headrace.broker.routes.errors import InvalidRoute, RouteConflict
from headrace.broker.routes.sending import MAX_FOUND, STATUSES, Sender, WantedAttempts
from headrace.http.problems import Problem
from headrace.http.v1.access import check_topic_access
from headrace.http.v1.moments import NotAMoment, moment_ms
from headrace.http.v1.operations import Ask, Operation, Parameter, Reply, Resources

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

    from headrace.broker import Broker
    from headrace.broker.routes.route import Route

LIMIT = 100
KEEP_S = 86_400
MAX_KEEP_S = 30 * 86_400
_LARGEST = (1 << 63) - 1


class AttemptShown(Struct, omit_defaults=False):
    """One attempt to deliver an event."""

    id: str
    webhook_id: Annotated[str, Meta(description="The same for every attempt of an event.")]
    topic: str
    partition: int
    offset: int
    attempt: Annotated[int, Meta(description="1 for the first.")]
    at: str
    duration_ms: int
    result: Annotated[str, Meta(description="delivered, failed (it is tried again), given-up or gone.")]
    status: int | None
    error: str | None
    kind: Annotated[str | None, Meta(description="Why nobody answered: refused, resolve, connect, tls, timeout, …")]
    address: str | None
    response: Annotated[str, Meta(description="The beginning of the answer.")]
    signatures: int
    next_at: str | None


class AttemptList(Struct):
    attempts: list[AttemptShown]
    cursor: Annotated[str | None, Meta(description="Where to go on. Null: that was all.")] = None


class FailedPeriod(Struct, forbid_unknown_fields=True):
    since: Annotated[str | None, Meta(description="A time such as 2026-03-01T09:30:00Z.")] = field(default=None, name="from")
    until: Annotated[str | None, Meta(description="The end, which is not a part of it; now if it is not given.")] = field(
        default=None, name="to"
    )


class Rotation(Struct, forbid_unknown_fields=True):
    secret: Annotated[str | None, Meta(description="whsec_ and base64 of 24 to 64 bytes; made up if it is not given.")] = None
    keep_s: Annotated[int, Meta(ge=0, le=MAX_KEEP_S, description="How long the old secrets sign beside it.")] = KEEP_S


class SecretShown(Struct):
    secret: str
    until_ms: Annotated[int | None, Meta(description="When it ends; null for the one that stays.")] = None


class Secrets(Struct):
    secrets: list[SecretShown]


def routes(broker: Broker) -> list[BaseRoute]:
    """To be listed before those of `routes`, which takes whatever is below /v1/routes."""
    return Resources(broker, OPERATIONS).routes(*PATHS)


# --- attempts


async def _list(ask: Ask) -> Reply:
    route = _route(ask)
    sender = await _sender(ask, route)
    status = ask.query.get("status")
    if status is not None and status not in STATUSES:
        raise Problem(400, "invalid_parameter", f"status must be one of: {', '.join(STATUSES)}")
    event = ask.query.get("event")
    place = None if event is None else sender.event_of(event)
    if event is not None and place is None:
        raise Problem(400, "invalid_parameter", "event must be PARTITION:OFFSET, or the webhook-id that was sent")
    wanted = WantedAttempts(
        _moment(ask.query.get("since"), "since"),
        _moment(ask.query.get("until"), "until"),
        status,
        place,
        ask.number("limit", LIMIT, MAX_FOUND),
        None if "cursor" not in ask.query else _number(ask.query["cursor"], "cursor"),
    )
    found = await sender.attempts(wanted)
    return Reply(200, {"attempts": found.attempts, "cursor": None if found.cursor is None else str(found.cursor)})


async def _get(ask: Ask) -> Reply:
    route = _route(ask)
    check_topic_access(ask.user, "read", route.definition.topic)
    found = await (await _sender(ask, route)).attempt(_number(ask["id"], "id"))
    if found is None:
        raise Problem(404, "unknown_attempt", f"route '{ask['route']}' has no attempt {ask['id'][:30]}")
    return Reply(200, found)


async def _send_again(ask: Ask) -> Reply:
    route = _route(ask)
    sender = await _sender(ask, route)
    number = _number(ask["id"], "id")
    if await sender.attempt(number) is None:
        raise Problem(404, "unknown_attempt", f"route '{ask['route']}' has no attempt {number}")
    return Reply(202, await sender.send_again(number))


async def _send_failed_again(ask: Ask) -> Reply:
    route = _route(ask)
    body = ask.body(FailedPeriod)
    since, until = _moment(body.since, "from"), _moment(body.until, "to")
    return Reply(202, await (await _sender(ask, route)).send_failed_again(since, until))


async def _test(ask: Ask) -> Reply:
    return Reply(200, await (await _sender(ask, _route(ask))).test())


# --- secrets


async def _rotate(ask: Ask) -> Reply:
    check_route_name(ask["route"])
    wanted = ask.body(Rotation)
    now_ms = ask.broker.clock.now_ms()
    until_ms = now_ms + 1000 * wanted.keep_s

    def change(definition: RouteDefinition) -> RouteDefinition:
        end = _with_secrets(definition)
        if isinstance(end, WebhookSource):
            return replace(definition, source=end.rotated(wanted.secret, until_ms, now_ms))
        secret = Secret.new() if wanted.secret is None else Secret.of(wanted.secret, "secret")
        return replace(definition, target=end.rotated(secret, until_ms, now_ms))

    route = await ask.broker.routes.alter(ask["route"], change)
    new, *old = _with_secrets(route.definition).secrets
    return Reply(200, {"secret": new.secret, "old_until_ms": [one.until_ms for one in old]})


async def _secrets(ask: Ask) -> Reply:
    check_route_name(ask["route"])
    end = _with_secrets(ask.broker.routes.get(ask["route"]).definition)
    if "administrator" not in ask.user.tags:
        raise Problem(403, "forbidden", f"user '{ask.user.name}' needs the tag administrator")
    return Reply(200, Secrets([SecretShown(one.secret, one.until_ms) for one in end.secrets]))


def _with_secrets(definition: RouteDefinition) -> WebhookSource | WebhookTarget:
    """The end that signs, or that verifies."""
    for end in (definition.target, definition.source):
        if isinstance(end, WebhookTarget | WebhookSource):
            return end
    raise RouteConflict(f"route '{definition.name}' has no secrets: it neither sends nor receives webhooks")


# --- inside


def _route(ask: Ask) -> Route:
    check_route_name(ask["route"])
    route = ask.broker.routes.get(ask["route"])
    if not isinstance(route.definition.target, WebhookTarget):
        raise RouteConflict(f"route '{ask['route']}' sends no webhooks: it goes to {route.definition.target.label}")
    return route


async def _sender(ask: Ask, route: Route) -> Sender:
    make = ask.broker.routes.makers.senders.get(WebhookTarget.kind)
    if make is None:
        raise RouteConflict("this server sends no webhooks")
    return await make(route, ask.broker.routes.surroundings)


def _moment(text: str | None, name: str) -> int | None:
    if text is None:
        return None
    try:
        return moment_ms(text)
    except NotAMoment as error:
        raise InvalidRoute(f"{name}: {error}") from None


def _number(text: str, name: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 19 and int(text) <= _LARGEST):
        raise Problem(400, "invalid_parameter", f"{name} must be a number")
    return int(text)


_BELOW = "/v1/routes/{route}"
OPERATIONS = (
    Operation(
        "GET", f"{_BELOW}/attempts", "Lists attempts of a webhook, the newest first", _list, answer=AttemptList,
        problems=(404, 409),
        query=(
            Parameter("since", "Only attempts from then on: 2026-03-01T09:30:00Z."),
            Parameter("until", "Only attempts before then."),
            Parameter("status", f"One of: {', '.join(STATUSES)}. `failed` is all but delivered."),
            Parameter("event", "Of one event: PARTITION:OFFSET, or its webhook-id."),
            Parameter("limit", f"At most so many, {LIMIT} if it is not said, up to {MAX_FOUND}.", int),
            Parameter("cursor", "`cursor` of the answer before."),
        ),
        description="A search looks at 20,000 attempts and then answers with what it has, and a cursor to go on.",
    ),
    Operation(
        "GET", f"{_BELOW}/attempts/{{id}}", "Describes an attempt, with its request", _get, answer=AttemptShown,
        problems=(404, 409),
    ),
    Operation(
        "POST", f"{_BELOW}/attempts/{{id}}/replay", "Sends the event of an attempt again", _send_again,
        answer=dict[str, object], status=202, problems=(404, 409, 503), change=True,
    ),
    Operation(
        "POST", f"{_BELOW}/attempts/replay", "Sends again what failed in a period", _send_failed_again, FailedPeriod,
        dict[str, object], 202, problems=(404, 409, 503), change=True,
        description="Events with an attempt that failed between the two times, and none that succeeded since.",
    ),
    Operation(
        "POST", f"{_BELOW}/test", "Sends something that is no event", _test, answer=dict[str, object], problems=(404, 409),
        change=True,
    ),
    Operation(
        "POST", f"{_BELOW}/rotate-secret", "Replaces the secret", _rotate, Rotation, dict[str, object],
        problems=(404, 409, 503), change=True, description="The old ones sign beside the new one for `keep_s`.",
    ),
    Operation("GET", f"{_BELOW}/secret", "Shows the secrets, to administrators", _secrets, answer=Secrets, problems=(404, 409)),
)  # fmt: skip
PATHS = (
    f"{_BELOW}/attempts",
    f"{_BELOW}/attempts/{{id}}",
    f"{_BELOW}/attempts/{{id}}/replay",
    f"{_BELOW}/test",
    f"{_BELOW}/rotate-secret",
    f"{_BELOW}/secret",
)
