"""The table: from what was measured to Markdown, and into docs/benchmarks.md between its two marks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

from bench.model import Case, Mode, Outcome, Row
from bench.suite import DISTURBED, Results

BEGIN = "<!-- figures: begin, written by `python -m bench --write` -->"
END = "<!-- figures: end -->"


def markdown(results: Results, cases: Sequence[Case]) -> str:
    """All that was measured, in the order of `cases`."""
    parts = [_machine(results)]
    parts += [_table(case, results.outcomes[case.name]) for case in cases if case.name in results.outcomes]
    return "\n\n".join(parts) + "\n"


def write(page: Path, table: str) -> None:
    """Puts the table between the marks of `page`; what is around them stays."""
    text = page.read_text()
    before, found_begin, rest = text.partition(BEGIN)
    _, found_end, after = rest.partition(END)
    if not found_begin or not found_end:
        raise ValueError(f"{page} has lost its marks: {BEGIN} … {END}")
    page.write_text(f"{before}{BEGIN}\n\n{table}\n{END}{after}")


def misses(results: Results, cases: Sequence[Case]) -> list[str]:
    """The rows that do not reach their aim, as lines for people."""
    missed = []
    for case in cases:
        outcome = results.outcomes.get(case.name, Outcome())
        for row in case.rows:
            ours, theirs = outcome.median(case.ours, row.key), outcome.median(case.theirs, row.key)
            if _reached(row, ours, theirs) is False:
                missed.append(f"{case.name}: {row.label}: {_figure(ours, row.unit)}, aim {_aim(row)}")
    return missed


def _machine(results: Results) -> str:
    facts = results.machine
    if results.quick:
        rounds = "one short round, a first look only"
    else:
        rounds = "one round" if results.rounds == 1 else f"medians of {results.rounds} alternating rounds"
    hot = "compiled" if facts["compiled"] else "pure Python"
    return (
        f"Measured with {rounds}, each server alone on the machine with its load generator. {facts['cores']} cores "
        f"({facts['processor']}), {facts['memory_gb']} GB of memory, {facts['filesystem']}, 4 KB written and synced in "
        f"{facts['fdatasync_ms']} ms, {facts['system']}, Python {facts['python']} (hot paths {hot}), "
        f"Java {facts['java']}{_rabbitmq(facts)}.{_disturbance(results)}"
    )


def _rabbitmq(facts: Mapping[str, object]) -> str:
    version = facts.get("rabbitmq", "none")
    return "" if version == "none" else f", RabbitMQ {version}"


def _disturbance(results: Results) -> str:
    shares = [share for outcome in results.outcomes.values() for share in outcome.others]
    if not shares or max(shares) <= DISTURBED:
        return ""
    return (
        f" **The machine was not quiet**: others took {median(shares):.0%} of it in the median run and {max(shares):.0%} in "
        "the worst, so the figures below are not to be trusted."
    )


def _table(case: Case, outcome: Outcome) -> str:
    columns = _columns(case)
    names = [_column_name(case, mode) for mode in columns]
    has_ratio = case.theirs is not None
    head = ["", *names, *(["ratio"] if has_ratio else []), "aim", ""]
    lines = [f"### {case.title}", "", case.about, "", _line(head), _line(["---", *["---:"] * (len(head) - 2), "---"])]
    for row in case.rows:
        ours, theirs = outcome.median(case.ours, row.key), outcome.median(case.theirs, row.key)
        if ours is None and theirs is None:
            continue
        figures = [_figure(outcome.median(mode, row.key), row.unit) for mode in columns]
        ratio = [_ratio(row, ours, theirs)] if has_ratio else []
        lines.append(_line([row.label, *figures, *ratio, _aim(row), _verdict(row, ours, theirs)]))
    lines += [f"\n{mode}: no figures, {why}" for mode, why in outcome.skipped.items()]
    return "\n".join(lines)


def _columns(case: Case) -> list[Mode]:
    return [mode for mode in (case.theirs, case.ours, case.also) if mode is not None]


def _column_name(case: Case, mode: Mode) -> str:
    if mode is not case.also:
        return mode.value
    return "(Headrace by default)" if mode is Mode.HEADRACE else f"({mode.value})"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _figure(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    if unit in ("req/s", "records/s", "rows/s", "msg/s") or (unit in ("MB/s", "MB", "µs", "") and value >= 100):
        number = f"{value:,.0f}"
    elif unit in ("ms", "s", "x"):
        number = f"{value:.2f}"
    else:
        number = f"{value:,.1f}"
    return f"{number} {unit}".rstrip()


def _ratio(row: Row, ours: float | None, theirs: float | None) -> str:
    if ours is None or not theirs or row.unit == "x":
        return "-"
    return f"{ours / theirs:.2f}"


def _aim(row: Row) -> str:
    sign = "≥" if row.better == "more" else "≤"
    aims = [f"{sign} {row.aim_ratio:g}"] if row.aim_ratio is not None else []
    if row.aim_value is not None:
        aims.append(f"{sign} {row.aim_value:g} {row.unit}".rstrip())
    return ", ".join(aims)


def _verdict(row: Row, ours: float | None, theirs: float | None) -> str:
    return {True: "yes", False: "**no**", None: ""}[_reached(row, ours, theirs)]


def _reached(row: Row, ours: float | None, theirs: float | None) -> bool | None:
    """None when there is no aim, or nothing to judge it by."""
    judged = []
    if row.aim_value is not None and ours is not None:
        judged.append((ours, row.aim_value))
    if row.aim_ratio is not None and ours is not None and theirs:
        judged.append((ours / theirs, row.aim_ratio))
    if not judged:
        return None
    # Judged as it is printed: with two digits after the point.
    return all(round(have, 2) >= aim if row.better == "more" else round(have, 2) <= aim for have, aim in judged)
