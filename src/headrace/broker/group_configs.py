"""The settings of groups: what was set for one, and what holds for it now.

    broker.group_configs.get(group_id, "consumer.session.timeout.ms")     the value in force, parsed
    broker.group_configs.subscribe(changed)                               changed(group_id), or changed(None): all groups

A value comes from the group if it was set there, else from the server setting with the same meaning, else from the
default. What was set for a group and no longer keeps the server's limits is moved to the nearest one when it is read, as
Kafka 4.3 does; the text that was set stays. A group need not exist to have settings, and keeps them when it is deleted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping

from headrace.broker.audit import About, audited
from headrace.broker.config_entries import ConfigEntry
from headrace.broker.group_config_defs import CHECKED_IN_ORDER, GROUP_CONFIGS, LONGER_THAN, GroupConfigDef, Limit
from headrace.broker.setting_defs import SETTINGS
from headrace.broker.settings import Given, Settings, Source
from headrace.broker.stored_configs import StoredConfigs
from headrace.broker.topic_errors import InvalidRequest
from headrace.broker.topics import check_name
from headrace.log.config_types import Value, render
from headrace.log.errors import InvalidConfig, InvalidName
from headrace.log.port import Log

TABLE = "__headrace_group_configs"
DEAD_LETTER_TOPIC = "errors.deadletterqueue.topic.name"

AlterConfig = Callable[[Mapping[str, str]], Mapping[str, str]]
Changed = Callable[[str | None], None]


def _told(configs: GroupConfigs, group_id: str, change: AlterConfig, *, validate_only: bool = False) -> About | None:
    return None if validate_only else About(group_id)


class GroupConfigs:
    def __init__(self, log: Log, settings: Settings) -> None:
        self._log = log
        self._settings = settings
        self._stored = StoredConfigs(log, TABLE)
        self._parsed: dict[str, dict[str, Value]] = {}  # what was set, of the groups that set something
        self._changes = asyncio.Lock()
        self._changed: list[Changed] = []

    async def start(self) -> None:
        await self._stored.start()
        self._parsed = {group_id: _parsed(self._stored.get(group_id)) for group_id in self._stored.names()}
        self._settings.subscribe(lambda: self._tell(None))

    # -- values

    def get(self, group_id: str, name: str) -> Value:
        """The value in force. KeyError for a name that is no setting of groups."""
        definition = GROUP_CONFIGS[name]
        own = self._parsed.get(group_id)
        if own is None or name not in own:
            return self._default(definition)
        return self._within_limits(definition, own[name])

    def get_int(self, group_id: str, name: str) -> int:
        value = self.get(group_id, name)
        assert isinstance(value, int)
        assert not isinstance(value, bool)
        return value

    def get_bool(self, group_id: str, name: str) -> bool:
        value = self.get(group_id, name)
        assert isinstance(value, bool)
        return value

    def get_str(self, group_id: str, name: str) -> str:
        value = self.get(group_id, name)
        assert isinstance(value, str)
        return value

    def overrides(self, group_id: str) -> Mapping[str, str]:
        """What was set for this group."""
        return self._stored.get(group_id)

    def group_ids(self) -> list[str]:
        """The groups that have settings of their own."""
        return self._stored.names()

    def subscribe(self, changed: Changed) -> None:
        """Calls `changed` with the id of a group whose settings have changed, with None when any group's may have."""
        self._changed.append(changed)

    # -- changing

    @audited("group.configure", _told)
    async def configure(self, group_id: str, change: AlterConfig, *, validate_only: bool = False) -> None:
        """Durable when it returns. Raises InvalidConfig, InvalidRequest, PolicyViolation and StorageError."""
        if not group_id:
            raise InvalidRequest("Default group resources are not allowed.")
        async with self._changes:
            wanted = change(self._stored.get(group_id))
            self._check(wanted)
            if validate_only:
                return
            self._stored.put(group_id, wanted)
            if wanted:
                self._parsed[group_id] = _parsed(wanted)
            else:
                self._parsed.pop(group_id, None)
            self._tell(group_id)
        await self._log.synced()

    def _check(self, wanted: Mapping[str, str]) -> None:
        for name in wanted:
            if name not in GROUP_CONFIGS:
                raise InvalidConfig(f"Unknown group config name: {name}")
        values = {name: definition.parse(wanted[name]) for name, definition in GROUP_CONFIGS.items() if name in wanted}
        for definition in CHECKED_IN_ORDER:
            name = definition.name
            if name not in values and definition.limited_when_set_only:
                continue
            value = values.get(name, self._default(definition))
            if definition.low is not None and _number(value) < self._limit(definition.low):
                raise InvalidConfig(f"{name} must be greater than or equal to {definition.low.setting}")
            if definition.high is not None and _number(value) > self._limit(definition.high):
                raise InvalidConfig(f"{name} must be less than or equal to {definition.high.setting}")
        self._check_dead_letter_topic(str(values.get(DEAD_LETTER_TOPIC, "")))
        for longer, shorter in LONGER_THAN:
            session, beat = (values.get(name, self._default(GROUP_CONFIGS[name])) for name in (longer, shorter))
            if _number(session) <= _number(beat):
                raise InvalidConfig(f"{longer} must be greater than {shorter}")

    def _check_dead_letter_topic(self, name: str) -> None:
        prefix = self._settings.get_str("errors.deadletterqueue.topic.name.prefix")
        if name and not name.startswith(prefix):
            raise InvalidConfig(f"{DEAD_LETTER_TOPIC} must begin with {prefix} (errors.deadletterqueue.topic.name.prefix)")
        if name:
            try:
                check_name(name)
            except InvalidName as error:
                raise InvalidConfig(f"{DEAD_LETTER_TOPIC}: {error}") from error

    # -- describing

    def entries(self, group_id: str) -> Iterator[ConfigEntry]:
        """What DescribeConfigs tells about a group."""
        overrides = self._stored.get(group_id)
        for name, definition in GROUP_CONFIGS.items():
            places = list(self._places(definition, overrides.get(name)))
            source = places[0].source if places else Source.DEFAULT_CONFIG
            value = render(self.get(group_id, name))
            yield ConfigEntry(name, value, source, False, definition.type, definition.doc, tuple(places))

    def _places(self, definition: GroupConfigDef, override: str | None) -> Iterator[Given]:
        if override is not None:
            yield Given(definition.name, render(definition.parse(override)), Source.GROUP_CONFIG)
        if definition.synonym is not None and definition.synonym in SETTINGS:
            yield from self._settings.places(definition.synonym)
        else:
            yield Given(definition.synonym or definition.name, render(definition.default), Source.DEFAULT_CONFIG)

    # -- inside

    def _default(self, definition: GroupConfigDef) -> Value:
        if definition.synonym is None or definition.synonym not in SETTINGS:
            return definition.default
        return self._settings.get_int(definition.synonym)

    def _limit(self, limit: Limit) -> int:
        return self._settings.get_int(limit.setting) if limit.setting in SETTINGS else limit.number

    def _within_limits(self, definition: GroupConfigDef, value: Value) -> Value:
        if definition.low is not None and _number(value) < self._limit(definition.low):
            return self._limit(definition.low)
        if definition.high is not None and _number(value) > self._limit(definition.high):
            return self._limit(definition.high)
        return value

    def _tell(self, group_id: str | None) -> None:
        for changed in tuple(self._changed):
            changed(group_id)


def _parsed(texts: Mapping[str, str]) -> dict[str, Value]:
    """What this version knows and accepts of what was set; the rest stays in the table and is ignored."""
    found: dict[str, Value] = {}
    for name, text in texts.items():
        if name in GROUP_CONFIGS:
            try:
                found[name] = GROUP_CONFIGS[name].parse(text)
            except InvalidConfig:
                continue
    return found


def _number(value: Value) -> int:
    assert isinstance(value, int)
    return value
