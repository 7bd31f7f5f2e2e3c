"""How far a long run has come, on stderr, when that is a terminal: nothing for the first second, then one line kept up to
date. rich is imported only when there is something to show."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress as Display
    from rich.progress import TaskID

_PATIENCE_S = 1.0


class Progress:
    """Counts records or messages, and how much of a known total is done (bytes of input, offsets to read); without one it
    only counts."""

    def __init__(self, verb: str, total: int | None = None, *, shown: bool = True, noun: str = "records") -> None:
        self.records = 0
        self._verb = verb
        self._noun = noun
        self._total = total
        self._started = time.monotonic()
        self._shown = shown and sys.stderr.isatty()
        self._display: Display | None = None
        self._task: TaskID | None = None

    def update(self, records: int, done: int | None = None) -> None:
        """Both are totals so far."""
        self.records = records
        if not self._shown or time.monotonic() - self._started < _PATIENCE_S:
            return
        if self._display is None:
            self._start()
        assert self._display is not None
        assert self._task is not None
        self._display.update(self._task, completed=done if done is not None else records, records=records)

    def stop(self) -> None:
        if self._display is not None:
            self._display.stop()

    def _start(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, SpinnerColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Display

        counted = TextColumn(f"{{task.description}} {{task.fields[records]:,}} {self._noun}")
        if self._total:
            columns = [counted, BarColumn(), TaskProgressColumn(), TimeRemainingColumn()]
        else:
            columns = [SpinnerColumn(), counted]
        self._display = Display(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False)
        self._task = self._display.add_task(self._verb, total=self._total, records=self.records)
        self._display.start()
