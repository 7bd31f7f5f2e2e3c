"""kombu's integration tests of its Kafka transport (confluent-kafka), from its source distribution."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from suites.result import Result, from_junit
from suites.sources import environment, source_of

VERSION = "5.7.0"
TESTS = "t/integration/test_kafka.py"


def prepared(work: Path) -> tuple[Path, Path]:
    """An interpreter, and a tree with the tests."""
    python = environment("kombu", f"kombu=={VERSION}", "pytest", "pytest-timeout", "pytest-rerunfailures", "confluent-kafka")
    tree = work / "kombu"
    shutil.copytree(source_of("kombu", VERSION), tree)
    shutil.rmtree(tree / "kombu")  # the installed package is what is tested with
    return python, tree


def run(bootstrap: str, pattern: str | None, everything: bool, work: Path) -> Result:
    python, tree = prepared(work)
    host, port = bootstrap.rsplit(":", 1)
    tests = tree / TESTS
    text = tests.read_text().replace("hostname='localhost'", f"hostname='{host}'").replace("port='9092'", f"port='{port}'")
    tests.write_text(text)
    report = work / "report.xml"
    subprocess.run(
        [
            str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout=120", f"--junitxml={report}",
            *(["-k", pattern] if pattern else []), TESTS,
        ],
        cwd=tree,
    )  # fmt: skip
    return from_junit(report)
