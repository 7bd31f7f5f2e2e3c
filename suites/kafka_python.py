"""kafka-python's integration tests, from its source distribution, with the released package installed beside them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from suites.result import Result, from_junit
from suites.sources import KAFKA_VERSION, environment, source_of

VERSION = "3.0.12"
PARTITIONS = 4  # what its tests expect of a topic that is created on demand

LEFT_OUT = {
    "test/integration/test_ssl_integration.py": "starts a broker of its own",
    "test/integration/test_sasl_integration.py": "starts a broker of its own",
}

# The distribution leaves out test/service.py. With KAFKA_URI set only this much of it is used.
SERVICE = """
class ExternalService:
    def __init__(self, host, port):
        self.host, self.port = host, port

    def open(self): pass

    def close(self): pass


class SpawnedService: pass
"""


def run(bootstrap: str, pattern: str | None, everything: bool, work: Path) -> Result:
    python = environment(
        "kafka-python", f"kafka-python=={VERSION}", "pytest", "pytest-timeout", "pytest-mock", "py",
        "crc32c", "lz4", "python-snappy", "zstandard",
    )  # fmt: skip
    tree = work / "kafka-python"
    shutil.copytree(source_of("kafka-python", VERSION), tree)
    shutil.rmtree(tree / "kafka")  # the installed package is what is tested with
    (tree / "test" / "__init__.py").touch()
    (tree / "test" / "service.py").write_text(SERVICE)
    report = work / "report.xml"
    subprocess.run(
        [
            str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "--import-mode=importlib", f"--rootdir={tree}",
            "--timeout=60", f"--junitxml={report}", *(f"--deselect={name}" for name in LEFT_OUT),
            *(["-k", pattern] if pattern else []), "test/integration",
        ],
        cwd=tree,
        env={
            **os.environ,
            "KAFKA_URI": f"kafka://{bootstrap}",
            "KAFKA_VERSION": KAFKA_VERSION,
            "KAFKA_ROOT": str(tree),
            "PYTHONPATH": str(tree),
        },
    )  # fmt: skip
    return from_junit(report)
