"""Java and PySpark: is what pipelines need here, which one, and what to say when it is not.

Spark starts `$JAVA_HOME/bin/java`, or the `java` of the PATH where JAVA_HOME is not set; the same one is looked at here. A
session on a Spark Connect server (`--remote`) needs PySpark alone.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

OLDEST_JAVA = 17
PYSPARK = (4, 3)
_PATIENCE_S = 30.0  # a cold disk; Java itself answers in a moment

# Where operating systems put Java without telling the PATH.
PLACES = (
    "/usr/lib/jvm/*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "/opt/homebrew/opt/openjdk*",
    "/usr/local/opt/openjdk*",
    "~/.sdkman/candidates/java/*",
)

HOW_TO_GET_JAVA = (
    "Debian and Ubuntu: apt install openjdk-17-jre-headless. macOS: brew install openjdk@17, then set JAVA_HOME to "
    "$(brew --prefix openjdk@17). Others: https://adoptium.net (Temurin)."
)
EVERYTHING_ELSE = "Everything but pipelines works without it."


class SparkUnavailable(Exception):
    """Pipelines can't run here; the text says what is needed, what was found, and how to get it."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that can be started."""

    program: str
    version: str  # as it calls itself: 17.0.15, 1.8.0_202
    where_from: str  # JAVA_HOME or PATH

    @property
    def major(self) -> int:
        """17 of 17.0.15, and 8 of 1.8.0_202, as Java 8 and older wrote it."""
        numbers = [int(number) for number in re.findall(r"\d+", self.version)]
        if not numbers:
            return 0
        return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


def require_spark(*, remote: bool = False, environment: Mapping[str, str] | None = None) -> Java | None:
    """Raises SparkUnavailable where a pipeline could not run. The Java that would be used, none for a remote session."""
    require_pyspark()
    return None if remote else require_java(os.environ if environment is None else environment)


def require_pyspark() -> str:
    """The version of PySpark."""
    needed = ".".join(str(number) for number in PYSPARK)
    hint = "pip install 'headrace[spark]' gets it"
    if find_spec("pyspark") is None:
        raise SparkUnavailable(f"Pipelines need PySpark {needed}, which is not installed: {hint}. {EVERYTHING_ELSE}")
    try:
        found = version("pyspark")
    except PackageNotFoundError:  # Spark's own folder on the PYTHONPATH, as under spark-submit on a cluster
        from pyspark import __version__ as found
    if tuple(int(number) for number in re.findall(r"\d+", found)[:2]) < PYSPARK:
        raise SparkUnavailable(f"Pipelines need PySpark {needed}; {found} is installed: {hint}. {EVERYTHING_ELSE}")
    return found


def require_java(environment: Mapping[str, str], places: Sequence[str] = PLACES) -> Java:
    home = environment.get("JAVA_HOME", "")
    if home:
        program, where_from = str(Path(home) / "bin" / "java"), "JAVA_HOME"
        if not os.access(program, os.X_OK):
            raise SparkUnavailable(_words(f"JAVA_HOME is {home}, and there is no {program}", environment, places))
    else:
        found = shutil.which("java", path=environment.get("PATH", ""))
        if found is None:
            raise SparkUnavailable(_words("no java was found: JAVA_HOME is not set and the PATH has none", environment, places))
        program, where_from = found, "PATH"
    text = _version(program, environment)
    if text is None:
        raise SparkUnavailable(_words(f"{program} (from {where_from}) does not tell a version", environment, places))
    java = Java(program, text, where_from)
    if java.major < OLDEST_JAVA:
        raise SparkUnavailable(_words(f"{program} (from {where_from}) is Java {text}", environment, places))
    return java


def _version(program: str, environment: Mapping[str, str]) -> str | None:
    """What `java -version` writes on stderr; None from something that is not Java, such as the stub of macOS."""
    # Options for real runs may not suit this one, and Java would repeat them in its answer.
    quiet = {name: value for name, value in environment.items() if name not in ("JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS")}
    try:
        done = subprocess.run([program, "-version"], capture_output=True, env=quiet, timeout=_PATIENCE_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "([^"]+)"', (done.stderr + done.stdout).decode(errors="replace"))
    return found[1] if found and done.returncode == 0 else None


def _words(what: str, environment: Mapping[str, str], places: Sequence[str]) -> str:
    other = _other(environment, places)
    instead = f"There is a Java {other[1].split('.')[0]} in {other[0]}: set JAVA_HOME to it." if other else HOW_TO_GET_JAVA
    return f"Pipelines need Java {OLDEST_JAVA} or newer: {what}. {instead} {EVERYTHING_ELSE}"


def _other(environment: Mapping[str, str], places: Sequence[str]) -> tuple[str, str] | None:
    """A Java that would do and that nobody pointed to: its home and its version, the oldest that is new enough."""
    found = []
    for home in {os.path.realpath(one) for place in places for one in glob.glob(os.path.expanduser(place))}:
        program = os.path.join(home, "bin", "java")
        if os.access(program, os.X_OK) and (text := _version(program, environment)):
            java = Java(program, text, "")
            if java.major >= OLDEST_JAVA:
                found.append((java.major, home, text))
    return min(found)[1:] if found else None
