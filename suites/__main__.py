"""`python -m suites NAME [-k PATTERN] [--all] [--server ADDRESS]`: of Kafka's listener HOST:PORT, of others a URL."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import sys
import tempfile
import time
from pathlib import Path

from headrace.testing import HeadraceServer
from suites.result import Result

SUITES = {
    "kafka-python": "suites.kafka_python",
    "kafka-cli": "suites.kafka_cli",
    "kombu": "suites.kombu",
    "kombu-amqp": "suites.kombu_amqp",
    "py-amqp": "suites.py_amqp",
    "rabbitpy": "suites.rabbitpy",
    "amqpstorm": "suites.amqpstorm",
    "moto-kinesis": "suites.moto_kinesis",
}
LISTENERS = {  # what a suite talks to, if it is not Kafka's
    "kombu-amqp": ("amqp",),
    "py-amqp": ("amqp",),
    "rabbitpy": ("amqp",),
    "amqpstorm": ("amqp", "http"),
    "moto-kinesis": ("kinesis",),
}
SETTINGS = {"num.partitions": 4, "group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 100}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m suites", description="Run another project's tests on Headrace.")
    parser.add_argument("suite", choices=SUITES)
    parser.add_argument(
        "-k", metavar="PATTERN", dest="pattern", help="only what matches: a pytest expression, or a step's name"
    )
    parser.add_argument("--all", action="store_true", help="also what needs features that Headrace does not have yet")
    parser.add_argument(
        "--server", metavar="ADDRESS", help="run on this one, with commas between several listeners; otherwise one is started"
    )
    given = parser.parse_args()
    suite = importlib.import_module(SUITES[given.suite])
    started = time.monotonic()
    with contextlib.ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headrace-suite-")))
        address = given.server
        if not address:
            server = stack.enter_context(HeadraceServer(settings=SETTINGS))
            address = ",".join(server.address(listener) for listener in LISTENERS.get(given.suite, ("kafka",)))
        result = suite.run(address, given.pattern, given.all, work)
        return report(given.suite, result, time.monotonic() - started)


def report(name: str, result: Result, seconds: float) -> int:
    for test, why in result.failed.items():
        sys.stdout.write(f"FAILED {test}: {why}\n")
    passed, failed, skipped = len(result.passed), len(result.failed), len(result.skipped)
    sys.stdout.write(f"{name}: {passed} passed, {failed} failed, {skipped} skipped in {seconds:.0f} s\n")
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
