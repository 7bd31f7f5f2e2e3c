"""moto's tests of its Kinesis, from its source distribution, over HTTP against another server than moto's own.

moto's server is emptied between tests through an interface of its own; here every stream is deleted through Kinesis instead.
Its tests of CloudFormation are left out: there is none here. Three others skip themselves: they would stop the server's clock.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from suites.result import Result, from_junit
from suites.sources import environment, source_of

VERSION = "5.2.5"
TESTS = "tests/test_kinesis"
LEFT_OUT = "tests/test_kinesis/test_kinesis_cloudformation.py"

EMPTYING = """
import os
import time

import boto3
from botocore.config import Config
from moto.core import models

REGIONS = ("us-east-1", "us-east-2", "us-west-1", "us-west-2", "eu-west-1", "eu-west-2", "ap-southeast-1")
client = boto3.client


def empty(self):
    for region in REGIONS:
        kinesis = client(
            "kinesis",
            region_name=region,
            endpoint_url=os.environ["TEST_SERVER_MODE_ENDPOINT"],
            config=Config(retries={"max_attempts": 0}),
        )
        deadline = time.monotonic() + 10
        while names := kinesis.list_streams()["StreamNames"]:
            for name in names:
                kinesis.delete_stream(StreamName=name, EnforceConsumerDeletion=True)
            assert time.monotonic() < deadline, f"streams stay: {names}"


models.ServerModeMockAWS.reset = empty
"""


def run(endpoint: str, pattern: str | None, everything: bool, work: Path) -> Result:
    python = environment("moto", f"moto[kinesis,server]=={VERSION}", "pytest", "pytest-timeout", "freezegun", "requests")
    tree = work / "moto"
    shutil.copytree(source_of("moto", VERSION) / TESTS, tree / TESTS)
    shutil.copy(source_of("moto", VERSION) / "tests" / "__init__.py", tree / "tests" / "__init__.py")
    (tree / "conftest.py").write_text(EMPTYING)
    report = work / "report.xml"
    subprocess.run(
        [
            str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout=60", f"--junitxml={report}",
            *([] if everything else [f"--ignore={LEFT_OUT}"]), *(["-k", pattern] if pattern else []), TESTS,
        ],
        cwd=tree,
        env={
            **os.environ,
            "TEST_SERVER_MODE": "true",
            "TEST_SERVER_MODE_ENDPOINT": endpoint,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1",
        },
    )  # fmt: skip
    return from_junit(report)
