"""AMQPStorm's functional tests, of the protocol and of RabbitMQ's management API, from its source distribution.

They expect AMQP on port 5672; another port is put into them here.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

from suites.result import Result, from_junit
from suites.sources import environment, source_of

VERSION = "3.1.4"
TESTS = "amqpstorm/tests/functional"
API = f"{TESTS}/management/test_api.py::ApiFunctionalTests"
LEFT_OUT = {
    f"{API}::test_api_cluster_name": "wants the name of its authors' server",
    f"{API}::test_api_with_inaccessible": "asks an address that is not this machine's",
}
NOT_YET = "ssl"  # a folder


def run(urls: str, pattern: str | None, everything: bool, work: Path) -> Result:
    amqp, http = urls.split(",")
    python = environment("amqpstorm", f"amqpstorm=={VERSION}", "pytest", "pytest-timeout", "requests")
    tree = work / "amqpstorm"
    shutil.copytree(source_of("amqpstorm", VERSION), tree)
    if not everything:
        shutil.rmtree(tree / TESTS / NOT_YET)
    address = urlsplit(amqp)
    whom = "HOST, USERNAME, PASSWORD"
    for file in (tree / TESTS).rglob("*.py"):
        file.write_text(file.read_text().replace(whom, f"{whom}, port={address.port}"))
    report = work / "report.xml"
    subprocess.run(
        [
            str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout=60", f"--junitxml={report}",
            *(f"--deselect={name}" for name in LEFT_OUT), *(["-k", pattern] if pattern else []), TESTS,
        ],
        cwd=tree,
        env={
            **os.environ,
            "AMQP_HOST": str(address.hostname),
            "AMQP_USERNAME": "guest",
            "AMQP_PASSWORD": "guest",
            "AMQP_URI": f"{amqp.rstrip('/')}/%2F",
            "AMQP_HTTP_URL": http,
        },
    )  # fmt: skip
    return from_junit(report)
