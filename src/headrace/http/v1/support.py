"""What somebody needs who shall find out what is wrong, in one file: GET /v1/support.

It is a zip of text files. Nothing of what records, messages and passwords say is in it, nor are settings that are secret; names
of topics, groups, queues and users' connections are, and the log. Look into it before you give it away.

    about.json         versions, platform, since when, where it listens, how many are connected by each protocol
    settings.json      every setting, with who has set it
    overview.json      /v1/overview
    storage.json       /v1/storage
    metrics.txt        /metrics
    log.txt            the last lines of the server's log
    topics.csv         partitions, segments, bytes, retention
    groups.csv         kind, state, members, lag
    queues.csv         type, messages, consumers
    routes.csv         topic, state

Gathered in steps of the event loop, and packed on a thread. Bound: `MOST_ROWS` of each table; one bundle at a time, which those
who ask meanwhile get too.
"""

from __future__ import annotations

import asyncio
import csv
import importlib.metadata
import io
import logging
import platform
import sys
import time
import zipfile
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from headrace import __version__, logs
from headrace.broker.lag import group_lags
from headrace.http.v1.access import check_administers
from headrace.http.v1.operations import Ask, Operation, Reply
from headrace.http.v1.settings import all_settings

if TYPE_CHECKING:
    from headrace.broker import Broker
    from headrace.http.v1.overview import Overview
    from headrace.http.v1.storage import Storage

MOST_ROWS = 20_000
STEP = 200
_LIBRARIES = (
    "uvloop", "httptools", "starlette", "msgspec", "websockets", "prometheus-client", "cramjam", "crc32c", "kio", "nicegui",
    "pyspark", "obstore",
)  # fmt: skip


class Bundle:
    def __init__(self, broker: Broker, overview: Overview, storage: Storage) -> None:
        self._broker = broker
        self._overview = overview
        self._storage = storage
        self._making: asyncio.Task[bytes] | None = None

    async def made(self) -> bytes:
        if self._making is None or self._making.done():
            self._making = asyncio.get_running_loop().create_task(self._make())
        return await asyncio.shield(self._making)

    async def _make(self) -> bytes:
        from headrace.http import metrics

        broker = self._broker
        files = {
            "about.json": _json(self._about()),
            "settings.json": _json(list(all_settings(broker).values())),
            "overview.json": _json(await self._overview.shown()),
            "storage.json": _json(await self._storage.shown()),
            "metrics.txt": await metrics.text(broker),
            "topics.csv": await self._topics(),
            "groups.csv": await self._groups(),
            "queues.csv": await self._queues(),
            "routes.csv": _table(
                ("route", "topic", "to", "state"),
                (
                    (
                        each.definition.name,
                        each.definition.topic,
                        each.definition.target.kind,
                        str(each.state),
                        each.error or "",
                    )
                    for each in broker.routes
                ),
            ),
        }
        return await asyncio.to_thread(_packed, files)

    def _about(self) -> dict[str, object]:
        broker = self._broker
        doors = broker.clients.doors
        return {
            "version": __version__,
            "cluster_id": broker.cluster_id,
            "python": sys.version,
            "platform": platform.platform(),
            "libraries": {name: version for name in _LIBRARIES if (version := _version(name))},
            "made_at_ms": broker.clock.now_ms(),
            "started_at_ms": broker.clients.started_ms,
            "listeners": {name: f"{host}:{port}" for name, (host, port) in broker.clients.listeners.items()},
            "connections": {name: sum(1 for _ in door.open()) for name, door in doors.items()},
        }

    async def _topics(self) -> bytes:
        rows = []
        for number, topic in enumerate(tuple(self._broker.topics.all())[:MOST_ROWS], 1):
            parts = topic.partitions
            rows.append(
                (
                    topic.name,
                    len(parts),
                    sum(each.segment_count for each in parts),
                    sum(each.size_bytes for each in parts),
                    sum(each.high_watermark - each.start_offset for each in parts),
                    " ".join(f"{name}={text}" for name, text in topic.config.items()),
                )
            )
            if number % STEP == 0:
                await asyncio.sleep(0)
        return _table(("topic", "partitions", "segments", "bytes", "offsets", "config"), rows)

    async def _groups(self) -> bytes:
        rows: list[Sequence[object]] = []
        async for group in group_lags(self._broker):
            lag = sum(each.lag for each in group.partitions)
            rows.append((group.group_id, str(group.kind), str(group.state), group.members, lag))
            if len(rows) >= MOST_ROWS:
                break
            if len(rows) % STEP == 0:
                await asyncio.sleep(0)
        return _table(("group", "kind", "state", "members", "lag"), rows)

    async def _queues(self) -> bytes:
        rows: list[Sequence[object]] = []
        for vhost in tuple(self._broker.vhosts):
            for queue in tuple(vhost.queues.values())[: MOST_ROWS - len(rows)]:
                row = (vhost.name, queue.name, queue.kind, queue.ready_count, queue.unacked_count, queue.consumer_count)
                rows.append(row)
                if len(rows) % STEP == 0:
                    await asyncio.sleep(0)
        return _table(("vhost", "queue", "type", "ready", "unacked", "consumers"), rows)


def _version(library: str) -> str:
    try:
        return importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _json(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=1)


def _table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> bytes:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(heads)
    writer.writerows(rows)
    return out.getvalue().encode("utf-8", "replace")


def _log() -> bytes:
    kept = logs.kept()
    lines = []
    for line in reversed(tuple(kept.newest_first())) if kept is not None else ():
        when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(line.time_ms / 1000))
        lines.append(f"{when}.{line.time_ms % 1000:03}Z {logging.getLevelName(line.level)} {line.logger} {line.message}\n")
        if line.error is not None:
            lines.append(line.error + "\n")
    return "".join(lines).encode("utf-8", "replace")


def _packed(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in {**files, "log.txt": _log()}.items():
            packed.writestr(f"headrace-support/{name}", content)
    return out.getvalue()


def operations(broker: Broker, overview: Overview, storage: Storage) -> tuple[Operation, ...]:
    bundle = Bundle(broker, overview, storage)

    async def get(ask: Ask) -> Reply:
        check_administers(ask.user)
        when = time.strftime("%Y%m%d-%H%M%S", time.gmtime(broker.clock.now_ms() / 1000))
        name = f'attachment; filename="headrace-support-{when}.zip"'
        return Reply(200, await bundle.made(), {"content-type": "application/zip", "content-disposition": name})

    return (
        Operation(
            "GET", "/v1/support", "Packs what somebody needs who shall help", get, media_type="application/zip",
            description="A zip of text files: versions, settings without secrets, metrics, the last lines of the log, topics, "
            "groups and queues in short. No records, no passwords.",
        ),
    )  # fmt: skip


PATHS = ("/v1/support",)
