"""The server's settings: /v1/settings.

    GET     /v1/settings              a part of the list: value, default, who has set it, whether it may be changed now
    GET     /v1/settings/{setting}    one
    PATCH   /v1/settings              changes those that may be changed while the server runs

What is secret is never shown, not to administrators either: passwords, and whatever in a URL or in options may be one.
To look one needs the tag monitoring or administrator, to change something administrator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from headrace.broker.config_entries import ConfigEntry, server_entries
from headrace.broker.setting_defs import SETTINGS
from headrace.broker.settings import Source, definition_of
from headrace.http.problems import Problem
from headrace.http.v1.access import check_administers, check_monitors
from headrace.http.v1.listing import PARAMETERS, part_of
from headrace.http.v1.operations import NO_CONTENT, Ask, Operation, Parameter, Reply
from headrace.http.v1.storage import without_secrets
from headrace.log.config_types import render

if TYPE_CHECKING:
    from headrace.broker import Broker

MAX_TEXT = 250
HIDDEN = "…"
_SECRET_WORDS = ("secret", "password", "token", "key", "credential")
_SOURCES = {
    Source.DYNAMIC_BROKER_CONFIG: "changed",
    Source.DYNAMIC_DEFAULT_BROKER_CONFIG: "changed",
    Source.DEFAULT_CONFIG: "default",
}
_URL, _OPTIONS = "headrace.archive.url", "headrace.archive.options"

Value = str | int | float | bool | None


class SettingShown(Struct):
    name: str
    value: Annotated[str | None, Meta(description="Null: it has none, or it is secret.")]
    default: Annotated[str | None, Meta(description="Null: it has none.")]
    source: Annotated[
        str, Meta(description="default; start: given on the command line, in the environment or a file; changed: since then.")
    ]
    type: Annotated[str, Meta(description="boolean, string, int, short, long, double, list or password.")]
    dynamic: Annotated[bool, Meta(description="Whether it may be changed while the server runs.")]
    effective: Annotated[bool, Meta(description="False: it is taken, and does nothing here.")]
    secret: bool
    description: str


class SettingList(Struct):
    settings: list[SettingShown]
    next: Annotated[str | None, Meta(description="Where to go on: the next `after`. Null: that was all.")] = None


class SettingChanges(Struct, forbid_unknown_fields=True):
    settings: Annotated[
        dict[str, Value], Meta(description="By name. Null takes back what was changed since the start.", min_length=1)
    ]
    validate_only: bool = False


def all_settings(broker: Broker) -> dict[str, SettingShown]:
    return {entry.name: _shown(entry) for entry in server_entries(broker.settings)}


def _shown(entry: ConfigEntry) -> SettingShown:
    definition = SETTINGS.get(entry.name)  # none for facts, which are no settings: addresses, the folder
    return SettingShown(
        entry.name,
        _open_value(entry),
        None if definition is None else render(definition.default),
        _SOURCES.get(entry.source, "start"),
        entry.type.name.lower(),
        not entry.read_only,
        definition is None or definition.effective,
        entry.sensitive,
        entry.doc,
    )


def _open_value(entry: ConfigEntry) -> str | None:
    if entry.sensitive or entry.value is None:
        return None
    if entry.name == _URL:
        return without_secrets(entry.value)
    if entry.name == _OPTIONS:
        return ",".join(_open_option(option) for option in entry.value.split(","))
    return entry.value


def _open_option(option: str) -> str:
    name, equals, _ = option.partition("=")
    return f"{name}{equals}{HIDDEN}" if any(word in name.lower() for word in _SECRET_WORDS) else option


async def _list(ask: Ask) -> Reply:
    check_monitors(ask.user)
    text = ask.query.get("text", "")[:MAX_TEXT].lower()
    only_set, only_dynamic, only_effective = ask.flag("set"), ask.flag("dynamic"), ask.flag("effective")
    found = {
        name: each
        for name, each in all_settings(ask.broker).items()
        if (not text or text in name.lower() or text in each.description.lower())
        and not (only_set and each.source == "default")
        and not (only_dynamic and not each.dynamic)
        and not (only_effective and not each.effective)
    }
    names, following = await part_of(ask, found)
    return Reply(200, SettingList([found[name] for name in names], following))


async def _get(ask: Ask) -> Reply:
    check_monitors(ask.user)
    found = all_settings(ask.broker).get(ask["setting"])
    if found is None:
        raise Problem(404, "unknown_setting", f"there is no setting '{ask['setting'][:250]}'")
    return Reply(200, found)


async def _change(ask: Ask) -> Reply:
    check_administers(ask.user)
    body = ask.body(SettingChanges)
    broker, settings = ask.broker, ask.broker.settings
    node, default = dict(settings.dynamic_node), dict(settings.dynamic_default)
    for name, value in body.settings.items():
        definition_of(name)
        if value is None:
            node.pop(name, None)
            default.pop(name, None)
        else:
            node[name] = _text(value)
    fixed = sorted(name for name in body.settings if not SETTINGS[name].dynamic)
    if fixed:
        text = f"these can't be changed while the server runs; give them when it starts: {', '.join(fixed)}"
        raise Problem(409, "not_dynamic", text)
    settings.check_dynamic(node, default)
    if body.validate_only:
        return NO_CONTENT
    if default != settings.dynamic_default:
        await broker.topics.dynamic_settings.replace(default, for_all=True)
    await broker.topics.dynamic_settings.replace(node, for_all=False)
    now = all_settings(broker)
    return Reply(200, SettingList([now[name] for name in body.settings]))


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


_ONE = "/v1/settings/{setting}"
OPERATIONS = (
    Operation(
        "GET", "/v1/settings", "Lists the server's settings", _list, answer=SettingList,
        query=(
            *PARAMETERS,
            Parameter("text", "Only those with this in their name or description."),
            Parameter("set", "Only those that somebody has set.", bool),
            Parameter("dynamic", "Only those that may be changed while the server runs.", bool),
            Parameter("effective", "Only those that do something here.", bool),
        ),
    ),
    Operation("GET", _ONE, "Describes a setting", _get, answer=SettingShown, problems=(404,)),
    Operation(
        "PATCH", "/v1/settings", "Changes settings while the server runs", _change, SettingChanges, SettingList,
        problems=(409,), change=True,
        description="All or none of them; they hold after a restart. With `validate_only` nothing is changed, and the answer "
        "is 204.",
    ),
)  # fmt: skip
PATHS = ("/v1/settings", _ONE)
