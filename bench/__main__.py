"""python -m bench: measures Headrace, Apache Kafka and RabbitMQ in the same run and prints the table of docs/benchmarks.md."""

from __future__ import annotations

import argparse
import fnmatch
import shutil
import signal
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from bench import cases, machine, report, suite
from bench.model import QUICK, Case, Effort
from bench.peers import HERE, PeerError

PAGE = HERE.parent / "docs" / "benchmarks.md"


def main() -> int:
    given = arguments()
    chosen = [case for case in cases.ALL if not given.only or any(matches(case, pattern) for pattern in given.only)]
    if given.list:
        print("\n".join(f"{case.name:18} {case.title}" for case in chosen))
        return 0
    if given.render:
        return finish(suite.Results.load(given.render), given)
    if not chosen:
        print(f"no case matches; there are {', '.join(case.name for case in cases.ALL)}", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # servers are stopped on the way out
    folder = Path(tempfile.mkdtemp(prefix="headrace-bench-", dir=given.data))
    try:
        facts = machine.look(folder).as_dict()
        if facts["filesystem"] == "tmpfs":
            suite.tell(f"warning: {folder} is in memory; syncing costs nothing there. Name a disk with --data.")
        rounds = given.rounds or (1 if given.quick else 3)
        results = suite.Results(facts, rounds, given.quick)
        if given.merge and given.merge.exists():
            results.outcomes.update(suite.Results.load(given.merge).outcomes)
        effort = QUICK if given.quick else Effort()
        effort = replace(effort, seconds=given.seconds or effort.seconds, scale=given.scale or effort.scale)
        failures = suite.run(
            chosen,
            results,
            effort,
            folder,
            with_kafka=not given.no_kafka,
            with_rabbitmq=not given.no_rabbitmq,
            with_headrace=not given.no_headrace,
            strict=given.strict,
        )
    except PeerError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    finally:
        if not given.keep:
            shutil.rmtree(folder, ignore_errors=True)
    finish(results, given)
    return 1 if failures else 0


def finish(results: suite.Results, given: argparse.Namespace) -> int:
    if given.json:
        results.save(given.json)
    table = report.markdown(results, cases.ALL)
    print(table, end="")
    for missed in report.misses(results, cases.ALL):
        suite.tell(f"below its aim: {missed}")
    if given.write:
        report.write(PAGE, table)
    return 0


def matches(case: Case, pattern: str) -> bool:
    return fnmatch.fnmatch(case.name, pattern if any(sign in pattern for sign in "*?[") else f"*{pattern}*")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short round of everything, to see that it works")
    parser.add_argument("--only", action="append", metavar="PATTERN", help="cases whose name has this in it (repeatable)")
    parser.add_argument("--rounds", type=int, help="alternating rounds (3)")
    parser.add_argument("--no-kafka", action="store_true", help="leave Apache Kafka out")
    parser.add_argument("--no-rabbitmq", action="store_true", help="leave RabbitMQ out")
    parser.add_argument("--no-headrace", action="store_true", help="leave Headrace out")
    parser.add_argument("--seconds", type=float, help="of each timed load (5; quick: 1)")
    parser.add_argument("--scale", type=float, help="of all counts, such as the messages of a backlog (1; quick: 0.05)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was measured")
    parser.add_argument("--merge", type=Path, metavar="FILE", help="take the cases not run now from an earlier --json")
    parser.add_argument("--render", type=Path, metavar="FILE", help="run nothing: print the table of an earlier --json")
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE.name}")
    parser.add_argument("--data", type=Path, default="/var/tmp", help="where the servers keep their data (/var/tmp)")
    parser.add_argument("--keep", action="store_true", help="leave the data and the servers' output behind")
    parser.add_argument("--strict", action="store_true", help="stop at the first run that fails")
    parser.add_argument("--list", action="store_true", help="name the cases")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
