"""Evaluation in processes of their own: the same answers, and expressions that take too long, or too much."""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import signal
from collections.abc import Awaitable, Callable

import pytest

from headrace.expressions import processes as module
from headrace.expressions.expressions import Expressions, Fault, InvalidExpression
from headrace.expressions.here import Here
from headrace.expressions.processes import LIMIT_TEXT, Processes
from headrace.record import Record

ROWS = [
    Record(0, 1_700_000_000_000, b"a", b'{"n": 1}', (("h", b"\xff"), ("\udcfe", None))),
    Record(1, 1_700_000_000_001, None, None),
    Record(2, 1_700_000_000_002, b"\xff", b"text", (("h", b"v"),)),
    Record(3, 1_700_000_000_003, b"", b"[1, 2]"),
]
LIST = Record(9, 0, b"", b"[" + b",".join(b"%d" % number for number in range(16_000)) + b"]")
SLOW = Expressions(filter="value.map(x, x).size() > 1")  # each step copies the list so far
LARGE = Expressions(filter="value.all(x, ((raw + raw) + (raw + raw) + (raw + raw) + (raw + raw)).size() > 0)")


def with_processes(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Runs a test that wants some, and ends them."""

    @functools.wraps(test)
    def run(**given: object) -> None:
        async def main() -> None:
            processes = Processes(limit_s=0.3)
            started = []
            start = processes._start

            async def start_and_note() -> object:
                process = await start()
                started.append(process._process)
                return process

            processes._start = start_and_note  # type: ignore[assignment, method-assign]
            try:
                await test(processes, **given)
            finally:
                processes.close()
                await asyncio.gather(*(process.wait() for process in started))

        asyncio.run(main())

    parameters = list(inspect.signature(test).parameters.values())[1:]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


@pytest.mark.parametrize(
    "expressions",
    [
        Expressions(filter="value.n == 1"),
        Expressions(filter="offset % 2 == 0 && topic == 't' && partition == 3"),
        Expressions(value="text + '!'", key="value", headers="{'old': key, 'h': headers}"),
        Expressions(headers="headers"),
        Expressions(value="raw", key="timestamp"),
        Expressions(value="null", key="null"),
    ],
)
@with_processes
async def test_a_process_says_what_would_be_said_here(processes: Processes, expressions: Expressions) -> None:
    there = await processes.evaluate(expressions, "t", 3, ROWS)
    assert there == await Here().evaluate(expressions, "t", 3, ROWS)
    assert len(there.results) == len(ROWS)


@with_processes
async def test_what_can_not_be_compiled_is_refused(processes: Processes) -> None:
    await processes.check(Expressions(filter="true"))
    with pytest.raises(InvalidExpression, match="filter: line 1, column 1: undeclared reference to 'valu'"):
        await processes.check(Expressions(filter="valu"))
    with pytest.raises(InvalidExpression, match="undeclared"):
        await processes.evaluate(Expressions(filter="valu"), "t", 0, ROWS)


@pytest.mark.parametrize("expressions", [SLOW, LARGE], ids=["slow", "large"])
@with_processes
async def test_a_record_that_takes_too_much_is_a_fault_and_those_behind_it_are_for_later(
    processes: Processes, expressions: Expressions
) -> None:
    small = Record(1, 0, b"", b"[1, 2]")
    outcome = await processes.evaluate(expressions, "t", 0, [small, small, LIST, small])
    assert outcome.results == [small, small, Fault(LIMIT_TEXT)]
    assert outcome.stopped
    assert (await processes.evaluate(expressions, "t", 0, [small])).results == [small]


@with_processes
async def test_others_are_served_while_an_expression_takes_its_time(processes: Processes) -> None:
    slow = asyncio.ensure_future(processes.evaluate(SLOW, "t", 0, [LIST]))
    for _ in range(20):
        assert (await processes.evaluate(Expressions(filter="offset == 0"), "t", 0, ROWS)).results[1:] == [None, None, None]
    assert not slow.done()
    assert (await slow).stopped


@with_processes
async def test_a_process_that_somebody_killed_costs_no_record(processes: Processes) -> None:
    expressions = Expressions(filter="true")
    assert (await processes.evaluate(expressions, "t", 0, ROWS)).results == ROWS
    for process in processes._idle:
        os.kill(process._process.pid, signal.SIGKILL)
    outcome = await processes.evaluate(expressions, "t", 0, ROWS)
    assert (outcome.results, outcome.stopped) == (ROWS, False)


@with_processes
async def test_more_records_than_fit_a_frame_come_back_in_order(processes: Processes) -> None:
    records = [Record(number, 0, b"%d" % number, b"x" * (number % 3 * 1000)) for number in range(2_000)]
    outcome = await processes.evaluate(Expressions(filter="int(key) % 2 == 0"), "t", 0, records)
    assert [result for result in outcome.results if result is not None] == records[::2]
    assert len(outcome.results) == 2_000


@with_processes
async def test_answers_that_grow_beyond_all_bounds_come_in_parts(processes: Processes) -> None:
    records = [Record(number, 0, b"", b"x" * 500_000) for number in range(20)]
    expressions = Expressions(value="(raw + raw) + (raw + raw)")
    found: list[object] = []
    while len(found) < len(records):
        outcome = await processes.evaluate(expressions, "t", 0, records[len(found) :])
        assert not outcome.stopped
        assert 0 < len(outcome.results) <= 9
        found += [len(result.value or b"") for result in outcome.results if isinstance(result, Record)]
    assert found == [2_000_000] * 20


@with_processes
async def test_there_are_never_more_processes_than_allowed_and_idle_ones_end(
    processes: Processes,
) -> None:
    asked = [processes.evaluate(Expressions(filter=f"offset < {number}"), "t", 0, ROWS) for number in range(12)]
    outcomes = await asyncio.gather(*asked)
    assert [len([one for one in outcome.results if one]) for outcome in outcomes] == [0, 1, 2, 3, 4, 4, 4, 4, 4, 4, 4, 4]
    assert 1 <= len(processes._all) <= module.MAX_PROCESSES
    started = [process._process for process in processes._all]
    processes._end_idle()
    assert [await process.wait() for process in started] == [-signal.SIGKILL] * len(started)
    assert (await processes.evaluate(Expressions(filter="true"), "t", 0, ROWS)).results == ROWS


@with_processes
async def test_a_process_ends_when_whoever_started_it_is_gone(processes: Processes) -> None:
    await processes.check(Expressions(filter="true"))
    (process,) = processes._idle
    assert process._process.stdin is not None
    process._process.stdin.close()
    assert await asyncio.wait_for(process._process.wait(), 20) == 0
