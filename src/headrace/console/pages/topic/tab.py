"""A tab that is open: which topic, and what has to end with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from nicegui import background_tasks, ui

from headrace.console.access import part
from headrace.console.browsing import TOGETHER, Event
from headrace.console.frame import View
from headrace.console.pages.topic.formats import TopicFormats


class TopicTab:
    def __init__(self, view: View, topic: str, partitions: int, internal: bool, formats: TopicFormats) -> None:
        self.view = view
        self.access = view.access
        self.topic = topic
        self.path = f"/v1/topics/{part(topic)}"
        self.partitions = partitions
        self.internal = internal
        self.formats = formats
        self._endings: list[Callable[[], object]] = []

    @property
    def may_change(self) -> bool:
        return not self.view.read_only and not self.internal

    @property
    def partition(self) -> int | None:
        """The one that the address names; None: all of them. Of a topic with very many one has to be chosen."""
        text = self.view.query.get("partition", "")
        if text.isascii() and text.isdecimal() and len(text) <= 9 and int(text) < self.partitions:
            return int(text)
        return 0 if self.partitions > TOGETHER else None

    def partition_input(self, changed: Callable[[], object], *, everything: str = "All partitions") -> ui.select | ui.number:
        """To choose one; what is chosen stands in the address."""

        async def chosen(event: Any) -> None:
            value = event.value
            self.view.remember(partition=None if value is None or value == "" or value < 0 else int(value), at=None)
            result = changed()
            if asyncio.iscoroutine(result):
                await result

        if self.partitions > TOGETHER:
            return ui.number(
                f"Partition (0 to {self.partitions - 1:,})",
                value=self.partition,
                min=0,
                max=self.partitions - 1,
                precision=0,
                on_change=chosen,
            ).props("dense outlined debounce=400")
        options = {-1: everything} | {index: f"Partition {index}" for index in range(self.partitions)}
        value = -1 if self.partition is None else self.partition
        return ui.select(options, label="Partition", value=value, on_change=chosen).props("dense outlined options-dense")

    async def lined(self, events: list[Event]) -> list[Event]:
        """With the texts that rows show by the formats of the topic."""
        reading = self.formats.reading
        return await asyncio.to_thread(reading.lined, events) if reading.label else events

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """In the background, until the tab is closed."""
        task = background_tasks.create(work)
        self.on_close(task.cancel)
        return task

    def on_close(self, ending: Callable[[], object]) -> None:
        self._endings.append(ending)

    def close(self) -> None:
        while self._endings:
            self._endings.pop()()
