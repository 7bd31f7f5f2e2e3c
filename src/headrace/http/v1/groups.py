"""Groups administered: /v1/groups. Where they stand is in `group_offsets`, moving them in `group_reset`.

    GET     /v1/groups                     a part of the list
    GET     /v1/groups/{group}             its members and its lag
    DELETE  /v1/groups/{group}             one without members

Groups of every kind: classic, consumer (KIP-848) and share (KIP-932).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from headrace.broker.groups import GroupKind
from headrace.broker.groups.consumer.embedded import read_assignment
from headrace.broker.groups.subscription import MalformedSubscription
from headrace.broker.lag import lag_of
from headrace.broker.routes.definition import GROUP_PREFIX
from headrace.broker.routes.errors import UnknownRoute
from headrace.http.problems import Problem
from headrace.http.v1.group_offsets import standing_of, topic_names
from headrace.http.v1.listing import PARAMETERS, part_of
from headrace.http.v1.operations import NO_CONTENT, Ask, Operation, Parameter, Reply

if TYPE_CHECKING:
    from headrace.broker import Broker
    from headrace.broker.groups.group import Group

MAX_MEMBERS = 1000
OF_ROUTE = "The route that keeps its position with it, if one does."


class GroupOfList(Struct):
    group: str
    type: str
    state: str
    protocol_type: str
    members: Annotated[int | UnsetType, Meta(description="With `lag`: how many it has.")] = UNSET
    lag: Annotated[int | UnsetType, Meta(description="With `lag`: records that it has not read yet.")] = UNSET
    route: Annotated[str | UnsetType, Meta(description=OF_ROUTE)] = UNSET


class GroupList(Struct):
    groups: list[GroupOfList]
    next: Annotated[str | None, Meta(description="Where to go on: the next `after`. Null: that was all.")] = None


class MemberShown(Struct):
    member_id: str
    client_id: str
    host: str
    partitions: Annotated[dict[str, list[int]], Meta(description="What it reads, by topic.")]


class GroupShown(Struct):
    group: str
    type: str
    state: str
    protocol: Annotated[str, Meta(description="The assignor, where there is one.")]
    members: Annotated[list[MemberShown], Meta(description=f"At most {MAX_MEMBERS} of them.")]
    member_count: int
    lag: Annotated[int, Meta(description="Records that it has not read yet.")]
    route: Annotated[str | UnsetType, Meta(description=OF_ROUTE)] = UNSET


def route_of(broker: Broker, group_id: str) -> str | UnsetType:
    """Routes keep their positions as those of groups; who looks at such a group wants to know the route."""
    name = group_id.removeprefix(GROUP_PREFIX)
    if name == group_id:
        return UNSET
    try:
        return broker.routes.get(name).definition.name
    except UnknownRoute:
        return UNSET


async def _list(ask: Ask) -> Reply:
    kind, state = ask.query.get("type"), ask.query.get("state")
    listings = {
        each.group_id: each
        for each in ask.broker.groups.list_groups([state] if state else (), [kind] if kind else ())
    }  # fmt: skip
    names, following = await part_of(ask, listings)
    rows = [
        GroupOfList(
            name,
            str(listings[name].kind),
            listings[name].state,
            listings[name].protocol_type,
            route=route_of(ask.broker, name),
        )
        for name in names
    ]
    if ask.flag("lag"):
        for row in rows:
            standing = await lag_of(ask.broker, listings[row.group])
            row.members, row.lag = standing.members, sum(each.lag for each in standing.partitions)
            await asyncio.sleep(0)
    return Reply(200, GroupList(rows, following))


def named_group(ask: Ask) -> Group:
    group = ask.broker.groups.find(ask["group"])
    if group is None:
        raise Problem(404, "unknown_group", f"there is no group '{ask['group'][:250]}'")
    return group


async def _get(ask: Ask) -> Reply:
    group = named_group(ask)
    protocol, members = _members(ask, group)
    standing = await standing_of(ask.broker, group)
    shown = GroupShown(
        group.group_id,
        str(group.kind),
        str(group.state_name),
        protocol,
        members[:MAX_MEMBERS],
        len(members),
        sum(each.lag for each in standing),
        route_of(ask.broker, group.group_id),
    )
    return Reply(200, shown)


def _members(ask: Ask, group: Group) -> tuple[str, list[MemberShown]]:
    names = topic_names(ask.broker)
    if group.kind is GroupKind.SHARE:
        view = ask.broker.share_groups.describe(group.group_id)
        found = []
        for member in view.members:
            held: dict[str, list[int]] = {}
            for topic_id, index in sorted(member.assignment):
                held.setdefault(names(topic_id), []).append(index)
            found.append(MemberShown(member.member_id, member.client_id, member.client_host, held))
        return view.assignor, found
    if group.kind is GroupKind.CONSUMER:
        described = ask.broker.groups.describe_consumer(group.group_id)
        return described.assignor, [
            MemberShown(
                member.member_id,
                member.client_id,
                member.client_host,
                {names(topic_id): sorted(held) for topic_id, held in member.assigned.items()},
            )
            for member, _ in described.members
        ]
    classic = ask.broker.groups.describe_classic(group.group_id)
    return classic.protocol, [
        MemberShown(member.member_id, member.client_id, member.client_host, _assigned(member.assignment))
        for member in classic.members
    ]


def _assigned(assignment: bytes) -> dict[str, list[int]]:
    try:
        return {topic: sorted(held) for topic, held in sorted(read_assignment(assignment).partitions.items())}
    except MalformedSubscription:  # not a consumer's
        return {}


async def _delete(ask: Ask) -> Reply:
    group = named_group(ask)
    (error,) = await ask.broker.groups.delete_groups([group.group_id])
    if error is not None:
        raise error
    return NO_CONTENT


OPERATIONS = (
    Operation(
        "GET", "/v1/groups", "Lists groups", _list, answer=GroupList,
        query=(*PARAMETERS, Parameter("type", "Only of this kind: classic, consumer or share."),
               Parameter("state", "Only in this state: Stable, Empty, …"),
               Parameter("lag", "true: with the members and the lag of each.", bool)),
    ),
    Operation("GET", "/v1/groups/{group}", "Describes a group", _get, answer=GroupShown, problems=(404,)),
    Operation(
        "DELETE", "/v1/groups/{group}", "Deletes a group", _delete, status=204, problems=(404, 409), change=True,
        description="A group with members can't be deleted.",
    ),
)  # fmt: skip
