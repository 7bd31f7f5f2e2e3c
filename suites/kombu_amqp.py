"""kombu's integration tests of its AMQP transport (py-amqp), from its source distribution."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

from suites.kombu import prepared
from suites.result import Result, from_junit

TESTS = "t/integration/test_py_amqp.py"


def run(url: str, pattern: str | None, everything: bool, work: Path) -> Result:
    python, tree = prepared(work)
    report = work / "report.xml"
    address = urlsplit(url)
    subprocess.run(
        [
            str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout=120", f"--junitxml={report}",
            *(["-k", pattern] if pattern else []), TESTS,
        ],
        cwd=tree,
        env={**os.environ, "RABBITMQ_HOST": str(address.hostname), "RABBITMQ_5672_TCP": str(address.port)},
    )  # fmt: skip
    return from_junit(report)
