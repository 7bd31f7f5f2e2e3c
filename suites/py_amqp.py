"""py-amqp's integration tests, from its source distribution. Those over TLS are left out: there is none yet."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

from suites.result import Result, from_junit
from suites.sources import environment, source_of

VERSION = "5.4.2"
TESTS = "t/integration/test_rmq.py"
NOT_YET = "tls"  # as a pytest expression


def run(url: str, pattern: str | None, everything: bool, work: Path) -> Result:
    python = environment("py-amqp", f"amqp=={VERSION}", "pytest", "pytest-timeout", "pytest-rerunfailures")
    tree = work / "py-amqp"
    shutil.copytree(source_of("amqp", VERSION), tree)
    shutil.rmtree(tree / "amqp")  # the installed package is what is tested with
    report = work / "report.xml"
    chosen = " and ".join(f"({part})" for part in (pattern, None if everything else f"not {NOT_YET}") if part)
    address = urlsplit(url)
    subprocess.run(
        [
            str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout=60", f"--junitxml={report}",
            *(["-k", chosen] if chosen else []), TESTS,
        ],
        cwd=tree,
        env={**os.environ, "RABBITMQ_HOST": str(address.hostname), "RABBITMQ_5672_TCP": str(address.port)},
    )  # fmt: skip
    return from_junit(report)
