"""Which metrics of their own clients are asked to push: subscriptions, kept as settings of CLIENT_METRICS resources (KIP-714).

A subscription names metrics by their beginning (`*` is all), says how often to push, and which clients it is for. Bounds:
`MAX_SUBSCRIPTIONS`. A pattern is a regular expression that an administrator wrote; it sees at most `MAX_MATCHED_CHARS` of
what a client said about itself.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from headrace.broker.config_entries import ConfigEntry
from headrace.broker.settings import Given, Source
from headrace.broker.stored_configs import StoredConfigs
from headrace.broker.topic_errors import InvalidRequest
from headrace.dataclass import dataclass
from headrace.log.config_types import ConfigDef, ConfigType, Value, render
from headrace.log.errors import InvalidConfig
from headrace.log.port import Log

TABLE = "__headrace_client_metrics"
MAX_SUBSCRIPTIONS = 1000
MAX_MATCHED_CHARS = 256
DEFAULT_INTERVAL_MS = 300_000
ALL = "*"

_MIN_INTERVAL_MS, _MAX_INTERVAL_MS = 100, 3_600_000
_MATCHED = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)

AlterConfig = Callable[[Mapping[str, str]], Mapping[str, str]]


def _interval(name: str, value: Value) -> None:
    assert isinstance(value, int)
    if not _MIN_INTERVAL_MS <= value <= _MAX_INTERVAL_MS:
        raise InvalidRequest(
            f"Invalid value {value} for {name}, interval must be between {_MIN_INTERVAL_MS} and {_MAX_INTERVAL_MS} (1 hour)"
        )


def _patterns(name: str, value: Value) -> None:
    assert isinstance(value, tuple)
    parse_patterns(value)


CLIENT_METRICS_CONFIGS: Mapping[str, ConfigDef] = MappingProxyType(
    {
        definition.name: definition
        for definition in (
            ConfigDef("interval.ms", ConfigType.INT, DEFAULT_INTERVAL_MS, "How often clients push.", _interval),
            ConfigDef("match", ConfigType.LIST, (), "Which clients: client_id=REGEX, client_software_name=REGEX, …", _patterns),
            ConfigDef("metrics", ConfigType.LIST, (), "What metrics' names begin with; * stands for all of them."),
        )
    }
)


def parse_patterns(texts: tuple[str, ...]) -> dict[str, re.Pattern[str]]:
    """Raises InvalidConfig."""
    found: dict[str, re.Pattern[str]] = {}
    for text in texts:
        name, equals, pattern = (part.strip() for part in text.partition("="))
        try:
            if not equals or name not in _MATCHED or "=" in pattern:
                raise ValueError(name)
            found[name] = re.compile(pattern)
        except (ValueError, re.error, RecursionError, OverflowError) as error:
            raise InvalidConfig(f"Illegal client matching pattern: {text}") from error
    return found


@dataclass(frozen=True, slots=True)
class Subscription:
    metrics: tuple[str, ...]
    interval_ms: int
    patterns: Mapping[str, re.Pattern[str]]

    def matches(self, client: Mapping[str, str]) -> bool:
        return all(pattern.fullmatch(client[name][:MAX_MATCHED_CHARS]) for name, pattern in self.patterns.items())


class ClientMetrics:
    def __init__(self, log: Log) -> None:
        self._log = log
        self._stored = StoredConfigs(log, TABLE, max_names=MAX_SUBSCRIPTIONS)
        self._changes = asyncio.Lock()
        self._subscriptions: dict[str, Subscription] = {}
        self.version = 0  # grows with each change

    async def start(self) -> None:
        await self._stored.start()
        for name in self._stored.names():
            self._subscribe(name)

    def names(self) -> list[str]:
        return self._stored.names()

    def subscriptions(self) -> list[Subscription]:
        return list(self._subscriptions.values())

    async def configure(self, name: str, change: AlterConfig, *, validate_only: bool = False) -> None:
        """Durable when it returns. Raises InvalidConfig, InvalidRequest, PolicyViolation and StorageError."""
        if not name:
            raise InvalidRequest("Subscription name can't be empty")
        async with self._changes:
            wanted = change(self._stored.get(name))
            for key, text in wanted.items():
                if key not in CLIENT_METRICS_CONFIGS:
                    raise InvalidRequest(f"Unknown client metrics configuration: {key}")
                CLIENT_METRICS_CONFIGS[key].parse(text)
            if validate_only:
                return
            self._stored.put(name, wanted)
            self._subscribe(name)
            self.version += 1
        await self._log.synced()

    def _subscribe(self, name: str) -> None:
        texts = self._stored.get(name)
        if not texts:
            self._subscriptions.pop(name, None)
            return
        try:
            values = {key: self._value(key, texts) for key in CLIENT_METRICS_CONFIGS}
        except (InvalidConfig, InvalidRequest):  # another version wrote it: it stays in the table and has no effect
            return
        metrics, interval, match = values["metrics"], values["interval.ms"], values["match"]
        assert isinstance(metrics, tuple)
        assert isinstance(interval, int)
        assert isinstance(match, tuple)
        self._subscriptions[name] = Subscription(metrics, interval, parse_patterns(match))

    @staticmethod
    def _value(key: str, texts: Mapping[str, str]) -> Value:
        definition = CLIENT_METRICS_CONFIGS[key]
        return definition.parse(texts[key]) if key in texts else definition.default

    def entries(self, name: str) -> Iterator[ConfigEntry]:
        """What DescribeConfigs tells about a subscription, whether it exists or not."""
        texts = self._stored.get(name)
        for key, definition in CLIENT_METRICS_CONFIGS.items():
            value = render(self._value(key, texts))
            source = Source.CLIENT_METRICS_CONFIG if key in texts else Source.DEFAULT_CONFIG
            places = (Given(key, value, source),) if key in texts else ()
            yield ConfigEntry(key, value, source, False, definition.type, definition.doc, places)
