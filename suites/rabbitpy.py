"""rabbitpy's integration tests, from its source distribution."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from suites.result import Result, from_junit
from suites.sources import environment, source_of

VERSION = "3.0.2"
TESTS = ("tests/test_integration.py", "tests/integration")


def run(url: str, pattern: str | None, everything: bool, work: Path) -> Result:
    python = environment("rabbitpy", f"rabbitpy=={VERSION}", "pytest", "pytest-timeout", "python-dotenv")
    tree = work / "rabbitpy"
    shutil.copytree(source_of("rabbitpy", VERSION) / "tests", tree / "tests")
    report = work / "report.xml"
    subprocess.run(
        [
            str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout=60", f"--junitxml={report}",
            *(["-k", pattern] if pattern else []), *TESTS,
        ],
        cwd=tree,
        env={**os.environ, "RABBITMQ_URL": url},
    )  # fmt: skip
    return from_junit(report)
