"""Pipelines on Spark: /pipelines lists them, /pipelines/{pipeline} shows one, in tabs. Which one is open, and what is looked
for in it, stands in the address.

    everything   the list, what to do where there is none, and any topic as a table
    one          the page of one: how it stands, since when, and why
    progress     its queries: rows in a second, lag, state, watermark; and over time
    results      what it writes, as tables and plots
    result_table a topic as a table, a page at a time
    log          what it says, searched
    charting     how a drawing of `pipeline_plots` looks

All of it comes from topics that a pipeline writes: no file of the machine that it runs on is seen here.
"""

from __future__ import annotations

from headrace.console.frame import Page
from headrace.console.pages.pipelines.everything import everything
from headrace.console.pages.pipelines.one import one

PAGES = [
    Page("/pipelines", "Pipelines", everything, icon="schema", group="Flow"),
    Page("/pipelines/{pipeline}", "Pipeline", one),
]
