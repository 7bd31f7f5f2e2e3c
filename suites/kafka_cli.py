"""Apache Kafka's own command-line tools, one step after another on one topic, as an operator would use them: the steps are
in kafka_cli.toml.

A step passes when what the tool printed matches. Tools run in a JVM each; `-k` picks steps by a part of their name (a later
step may depend on an earlier one).
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shlex
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

from suites.result import Result
from suites.sources import kafka_jars

TOOLS = "org.apache.kafka.tools."
JVM = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
STEP_TIMEOUT_S = 60


@dataclass(frozen=True, slots=True)
class Step:
    name: str
    tool: str  # its class, in the package of Kafka's tools unless it names another
    arguments: str
    expects: str = ""  # a pattern that the output has
    lacks: str = ""  # a pattern that it does not have
    needs: str = ""  # what Headrace does not have yet
    stdin: str = ""


STEPS = [Step(**row) for row in tomllib.loads(Path(__file__).with_suffix(".toml").read_text())["step"]]


def run(bootstrap: str, pattern: str | None, everything: bool, work: Path) -> Result:
    token = secrets.token_hex(4)
    words = {
        "t": f"cli-{token}",
        "g": f"group-{token}",
        "b": bootstrap,
        "server": f"--bootstrap-server {bootstrap}",
        "node": os.environ.get("BROKER_ID", "0"),
        "folder": str(work),
    }
    deletion = {"version": 1, "partitions": [{"topic": words["t"], "partition": 0, "offset": 2}]}
    (work / "delete.json").write_text(json.dumps(deletion))
    classpath = f"{kafka_jars()}/*"
    result = Result()
    for step in STEPS:
        if pattern and pattern not in step.name:
            continue
        if step.needs and not everything:
            result.skipped.append(step.name)
            continue
        output = launch(step, classpath, words)
        if passes(step, words, output):
            result.passed.append(step.name)
            sys.stdout.write(f"ok {step.name}\n")
        else:
            result.failed[step.name] = " ".join(output.split())[-300:]
            sys.stdout.write(f"FAILED {step.name}\n")
        sys.stdout.flush()
    return result


def launch(step: Step, classpath: str, words: dict[str, str]) -> str:
    tool = step.tool if step.tool.startswith("kafka.") else TOOLS + step.tool
    server = "" if "{server}" in step.arguments or "bootstrap.servers" in step.arguments else "{server} "
    arguments = shlex.split((server + step.arguments).format(**words))
    try:
        done = subprocess.run(
            ["java", *JVM, "-cp", classpath, tool, *arguments],
            input=step.stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=STEP_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired as late:
        return f"(no end after {STEP_TIMEOUT_S} s) {(late.stdout or b'').decode(errors='replace')}"
    return done.stdout


def passes(step: Step, words: dict[str, str], output: str) -> bool:
    if step.expects and not re.search(step.expects.format(**words), output):
        return False
    return not (step.lacks and re.search(step.lacks.format(**words), output))
