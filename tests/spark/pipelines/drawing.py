"""What a pipeline has written, as the console would show it by the pipeline's own description."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from headrace.console.pipeline_plots import drawn, shown_of
from headrace.console.pipeline_results import member
from headrace.spark.pipelines.showing import Shown


def assert_drawn(shows: Sequence[Shown], values: Callable[[str], list[dict[str, Any]]]) -> None:
    """Every column that is named is there, and every plot has something to draw."""
    for shown in shown_of(json.loads(json.dumps([one.json() for one in shows]))):
        found = values(shown.topic)
        assert found, f"{shown.topic} is empty"
        rows = (
            {tuple(str(member(row, part)) for part in shown.key): row for row in found} if shown.key else dict(enumerate(found))
        )
        for column in shown.columns:
            assert any(member(row, column) is not None for row in rows.values()), f"{shown.topic} has no {column}"
        for plot in shown.plots:
            assert drawn(plot, rows.values()) is not None, f"nothing to draw for {plot.title!r}"
