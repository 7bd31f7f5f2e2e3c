"""What DescribeConfigs tells about settings: value, where it comes from, and every other place that gives one.

A topic's setting comes from the topic, else from the server's setting with the same meaning, else from the default. The
`synonyms` of an entry list those places in that order, as Kafka does (KIP-226).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headrace.broker.foreign_settings import REFUSED
from headrace.broker.setting_defs import SETTINGS
from headrace.broker.settings import Given, Settings, Source
from headrace.dataclass import dataclass
from headrace.log.config_types import ConfigType, Value, render, unique
from headrace.log.topic_config import TOPIC_CONFIGS, TopicConfigDef, inherited


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    name: str
    value: str | None
    source: Source
    read_only: bool
    type: ConfigType
    doc: str
    synonyms: tuple[Given, ...]

    @property
    def sensitive(self) -> bool:
        return self.type is ConfigType.PASSWORD


def topic_entries(overrides: Mapping[str, str], settings: Settings) -> Iterator[ConfigEntry]:
    """The settings of a topic that sets `overrides`."""
    for name, definition in TOPIC_CONFIGS.items():
        if definition.hidden and name not in overrides:
            continue
        places = tuple(_topic_places(definition, overrides.get(name), settings))
        if name in overrides:
            value = _shown(definition.parse(overrides[name]))
        else:
            value = _shown(inherited(definition, settings.topic_defaults)[0])
        source = places[0].source if places else Source.DEFAULT_CONFIG
        yield ConfigEntry(name, value, source, False, definition.type, definition.doc, places)


def _topic_places(definition: TopicConfigDef, override: str | None, settings: Settings) -> Iterator[Given]:
    if override is not None:
        yield Given(definition.name, _shown(definition.parse(override)), Source.DYNAMIC_TOPIC_CONFIG)
    places = [place for synonym in definition.synonyms for place in settings.places(synonym.name)]
    yield from (place for place in places if place.source is not Source.DEFAULT_CONFIG)
    # a server setting in another unit doesn't show its default here, as in Kafka
    first = definition.synonyms[0].name if definition.synonyms else None
    yield from (place for place in places if place.source is Source.DEFAULT_CONFIG and place.name == first)


def server_entries(settings: Settings) -> Iterator[ConfigEntry]:
    """The settings of this node."""
    for name, definition in SETTINGS.items():
        places = tuple(settings.places(name))
        source = places[0].source if places else Source.DEFAULT_CONFIG
        read_only = not definition.dynamic
        yield ConfigEntry(name, settings.text(name), source, read_only, definition.type, definition.doc, places)
    for name, text in settings.facts.items():
        place = Given(name, text, Source.STATIC_BROKER_CONFIG)
        yield ConfigEntry(name, text, place.source, True, ConfigType.STRING, REFUSED[name].capitalize() + ".", (place,))


def server_default_entries(settings: Settings) -> Iterator[ConfigEntry]:
    """The dynamic settings of all nodes: only those that were set."""
    for name, text in settings.dynamic_default.items():
        definition = SETTINGS[name]
        place = Given(name, text, Source.DYNAMIC_DEFAULT_BROKER_CONFIG)
        yield ConfigEntry(name, text, place.source, False, definition.type, definition.doc, (place,))


def _shown(value: Value) -> str | None:
    return render(unique(value) if isinstance(value, tuple) else value)
