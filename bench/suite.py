"""Runs the cases: round after round, in each ours, then theirs, one server at a time."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from bench.machine import Watch
from bench.model import Case, Effort, Measured, Mode, Outcome
from bench.peers import PeerError
from bench.rig import LoadError, Rig

DISTURBED = 0.05  # of the machine: what the kernel does for us in the background stays below that
OUTPUT_LINES = 5


@dataclass(slots=True)
class Results:
    """All of a run, as `--json` writes it."""

    machine: Mapping[str, object]
    rounds: int
    quick: bool
    outcomes: dict[str, Outcome] = field(default_factory=dict)  # by case name

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> Results:
        said = json.loads(path.read_text())
        outcomes = {name: Outcome(**outcome) for name, outcome in said["outcomes"].items()}
        return cls(said["machine"], said["rounds"], said["quick"], outcomes)


def run(
    cases: Sequence[Case],
    results: Results,
    effort: Effort,
    folder: Path,
    *,
    with_kafka: bool = True,
    with_rabbitmq: bool = True,
    with_headrace: bool = True,
    strict: bool = False,
) -> int:
    """Runs the cases into `results`; returns how many runs failed. After a failure the mode is not tried again in that
    case, and the end of its server's output is told."""
    failures = 0

    def wanted(mode: Mode) -> bool:
        return with_kafka if mode.is_kafka else with_rabbitmq if mode.is_rabbitmq else with_headrace

    for case in cases:
        outcome = results.outcomes[case.name] = Outcome()
        modes = [mode for mode in case.modes if wanted(mode)]
        rounds = min(results.rounds, case.most_rounds or results.rounds)
        for turn in range(rounds):
            for mode in modes:
                if mode.value in outcome.skipped:
                    continue
                began, watch = time.monotonic(), Watch()
                tell(f"[{turn + 1}/{rounds}] {case.name} on {mode.value} ...", end=" ")
                try:
                    outcome.add(mode, run_once(case, mode, effort, folder))
                    others = watch.others()
                    outcome.others.append(round(others, 3))
                    busy = f", while others took {others:.0%} of the machine" if others > DISTURBED else ""
                    tell(f"{time.monotonic() - began:.0f} s{busy}")
                except (LoadError, PeerError) as error:
                    if strict:
                        raise
                    failures += 1
                    outcome.skipped[mode.value] = str(error).splitlines()[0]
                    tell(f"FAILED: {error}")
    return failures


def run_once(case: Case, mode: Mode, effort: Effort, folder: Path) -> Measured:
    """One server, freshly started on an empty folder, measured and stopped."""
    scratch = folder / f"{case.name}-{mode.name.lower()}"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    os.sync()  # nothing of the run before is left to be written during this one
    rig = Rig(mode, effort, scratch, case.protocol)
    try:
        if case.serve:
            with rig.serving():
                measured = case.measure(rig)
        else:
            measured = case.measure(rig)
    except LoadError as error:
        raise LoadError("\n".join([str(error), *rig.last_output(OUTPUT_LINES)])) from error
    shutil.rmtree(scratch)
    return measured


def tell(words: str, end: str = "\n") -> None:
    print(words, end=end, file=sys.stderr, flush=True)
