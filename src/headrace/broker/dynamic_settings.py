"""The server settings that were changed while it ran, kept in a table so that they hold after a restart.

A row is one setting: its key says for which node (empty: for all nodes) and which name, its value is the text.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.broker.audit import About, audited
from headrace.broker.setting_defs import SETTINGS
from headrace.broker.settings import Settings, definition_of
from headrace.log.config_types import ConfigType
from headrace.log.errors import InvalidConfig
from headrace.log.port import Log, Table

TABLE = "__headrace_settings"


def _changes(held: DynamicSettings, wanted: Mapping[str, str], *, for_all: bool) -> About | None:
    """Names and new values, but for what is secret."""
    before = held.now(for_all=for_all)
    names = sorted(name for name in {*before, *wanted} if before.get(name) != wanted.get(name))
    if not names:
        return None
    values = {name: wanted.get(name) for name in names if name in SETTINGS and SETTINGS[name].type is not ConfigType.PASSWORD}
    return About(", ".join(names), {"settings": values})


class DynamicSettings:
    def __init__(self, log: Log, settings: Settings) -> None:
        self._log = log
        self._settings = settings
        self._table: Table | None = None

    async def start(self) -> None:
        """Applies what the table holds. A row that this version no longer accepts is left in the table and ignored."""
        self._table = await self._log.table(TABLE)
        node: dict[str, str] = {}
        default: dict[str, str] = {}
        for key, value in self._table.items():
            which, _, name = key.decode().partition("\0")
            try:
                if not definition_of(name).dynamic:
                    continue
                definition_of(name).parse(value.decode())
            except InvalidConfig:
                continue
            (node if which else default)[name] = value.decode()
        self._settings.set_dynamic(node, default)

    def now(self, *, for_all: bool) -> Mapping[str, str]:
        return self._settings.dynamic_default if for_all else self._settings.dynamic_node

    @audited("settings.change", _changes)
    async def replace(self, wanted: Mapping[str, str], *, for_all: bool) -> None:
        """Makes these all the dynamic settings of this node, or of all nodes; durable when it returns. Raises
        InvalidConfig and StorageError, and then nothing has changed."""
        settings = self._settings
        node = settings.dynamic_node if for_all else wanted
        default = wanted if for_all else settings.dynamic_default
        settings.check_dynamic(node, default)
        if self._table is None:
            self._table = await self._log.table(TABLE)
        which = "" if for_all else str(settings.get_int("node.id"))
        before = settings.dynamic_default if for_all else settings.dynamic_node
        rows: dict[bytes, bytes | None] = {_key(which, name): None for name in before}
        rows.update((_key(which, name), text.encode()) for name, text in wanted.items())
        self._table.put(rows)
        settings.set_dynamic(node, default)
        await self._log.synced()


def _key(which: str, name: str) -> bytes:
    return f"{which}\0{name}".encode()
