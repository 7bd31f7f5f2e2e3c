"""The settings of the server: what `setting_defs` defines, with the values that hold now.

A value comes from the first of these that gives one, as in Kafka:

    dynamic for this node     IncrementalAlterConfigs on broker "0"
    dynamic for all nodes     IncrementalAlterConfigs on the broker resource without a name
    explicit                  what the operator gave when the server started
    default

Nothing here reads or writes files: `Settings.from_mapping` takes texts, and `dynamic_settings` keeps the dynamic ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from enum import IntEnum
from types import MappingProxyType
from typing import NamedTuple

from headrace.broker.foreign_settings import REFUSED
from headrace.broker.setting_defs import SETTINGS, SettingDef
from headrace.log.config_types import Value, render
from headrace.log.errors import InvalidConfig
from headrace.log.topic_config import SERVER_SYNONYMS, resolve


class Source(IntEnum):
    """Where a value comes from; the numbers are DescribeConfigs' (KIP-226)."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


class Given(NamedTuple):
    """One of the places that give a setting a value."""

    name: str
    value: str | None
    source: Source


Changed = Callable[[], None]


class Settings:
    """Reads are dictionary lookups of parsed values. Give it texts with `from_mapping`."""

    __slots__ = ("_changed", "_dynamic_default", "_dynamic_node", "_explicit", "_topic_defaults", "_values", "facts")

    def __init__(self, explicit: Mapping[str, str] | None = None) -> None:
        self._explicit: Mapping[str, str] = MappingProxyType(dict(explicit or {}))
        self._dynamic_node: Mapping[str, str] = MappingProxyType({})
        self._dynamic_default: Mapping[str, str] = MappingProxyType({})
        self._topic_defaults: dict[str, str] = {}
        self._changed: list[Changed] = []
        self.facts: dict[str, str] = {}
        """What the operator gives in another way (`--kafka`, `--data`), under Kafka's names, for DescribeConfigs to show."""
        self._values = self._read(self._explicit)
        self._fill_topic_defaults()

    @classmethod
    def from_mapping(cls, given: Mapping[str, str]) -> Settings:
        """Raises InvalidConfig with one sentence about the first name or value that is wrong."""
        for name in given:
            definition_of(name)
        return cls(given)

    # -- values

    def get_int(self, name: str) -> int:
        value = self._values[name]
        assert isinstance(value, int)
        assert not isinstance(value, bool)
        return value

    def get_optional_int(self, name: str) -> int | None:
        return None if self._values[name] is None else self.get_int(name)

    def get_bool(self, name: str) -> bool:
        value = self._values[name]
        assert isinstance(value, bool)
        return value

    def get_float(self, name: str) -> float:
        value = self._values[name]
        assert isinstance(value, float)
        return value

    def get_str(self, name: str) -> str:
        value = self._values[name]
        assert isinstance(value, str)
        return value

    def get_optional_str(self, name: str) -> str | None:
        return None if self._values[name] is None else self.get_str(name)

    def get_list(self, name: str) -> tuple[str, ...]:
        value = self._values[name]
        assert isinstance(value, tuple)
        return value

    def text(self, name: str) -> str | None:
        """The value as DescribeConfigs shows it."""
        return render(self._values[name])

    # -- where they come from

    @property
    def explicit(self) -> Mapping[str, str]:
        """What the operator gave when the server started."""
        return self._explicit

    @property
    def dynamic_node(self) -> Mapping[str, str]:
        return self._dynamic_node

    @property
    def dynamic_default(self) -> Mapping[str, str]:
        return self._dynamic_default

    @property
    def without_effect(self) -> tuple[str, ...]:
        """Explicit settings that are accepted and do nothing here; the server says so when it starts."""
        return tuple(name for name in self._explicit if not SETTINGS[name].effective)

    @property
    def topic_defaults(self) -> Mapping[str, str]:
        """What the operator set, at start or since, of the settings that give topics their defaults: the second
        argument of `log.topic_config.resolve`. One live mapping; `subscribe` tells when it changes."""
        return MappingProxyType(self._topic_defaults)

    def places(self, name: str) -> list[Given]:
        """Every place that gives this setting a value, the one in force first."""
        found = []
        for source, texts in (
            (Source.DYNAMIC_BROKER_CONFIG, self._dynamic_node),
            (Source.DYNAMIC_DEFAULT_BROKER_CONFIG, self._dynamic_default),
            (Source.STATIC_BROKER_CONFIG, self._explicit),
        ):
            if name in texts:
                found.append(Given(name, texts[name], source))
        default = SETTINGS[name].default
        if default is not None:
            found.append(Given(name, render(default), Source.DEFAULT_CONFIG))
        return found

    # -- dynamic updates

    def check_dynamic(self, node: Mapping[str, str], default: Mapping[str, str]) -> None:
        """Raises InvalidConfig unless these may be the dynamic settings."""
        fixed = sorted(name for name in {**node, **default} if not definition_of(name).dynamic)
        if fixed:
            raise InvalidConfig(f"Cannot update these configs dynamically: [{', '.join(fixed)}]")
        self._read({**self._explicit, **default, **node})

    def set_dynamic(self, node: Mapping[str, str], default: Mapping[str, str]) -> None:
        """Replaces all dynamic settings; takes effect at once. Raises InvalidConfig, and then nothing has changed."""
        self.check_dynamic(node, default)
        self._values = self._read({**self._explicit, **default, **node})
        self._dynamic_node = MappingProxyType(dict(node))
        self._dynamic_default = MappingProxyType(dict(default))
        self._fill_topic_defaults()
        for changed in tuple(self._changed):
            changed()

    def subscribe(self, changed: Changed) -> None:
        """Calls `changed` after each dynamic update."""
        self._changed.append(changed)

    # -- inside

    @staticmethod
    def _read(texts: Mapping[str, str]) -> dict[str, Value]:
        values = {name: definition.default for name, definition in SETTINGS.items()}
        for name, text in texts.items():
            values[name] = definition_of(name).parse(text)
        resolve({}, texts)  # the defaults of topics must agree with each other
        return values

    def _fill_topic_defaults(self) -> None:
        merged = {**self._explicit, **self._dynamic_default, **self._dynamic_node}
        self._topic_defaults.clear()
        self._topic_defaults.update((name, text) for name, text in merged.items() if name in SERVER_SYNONYMS)


def definition_of(name: str) -> SettingDef:
    """Raises InvalidConfig with what to do about a name that is not a setting here."""
    definition = SETTINGS.get(name)
    if definition is not None:
        return definition
    for refused, why in REFUSED.items():
        if name == refused or (refused.endswith(".") and name.startswith(refused)):
            raise InvalidConfig(f"The setting {name} can't be used here: {why}.")
    shown = name if len(name) <= 100 else name[:100] + "…"
    close = get_close_matches(name[:100], SETTINGS, n=1, cutoff=0.75)
    hint = f"did you mean {close[0]}?" if close else "see the list of settings in the documentation."
    raise InvalidConfig(f"Unknown server setting {shown!r}: {hint}")
