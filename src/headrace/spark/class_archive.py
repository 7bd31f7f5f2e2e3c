"""A quicker start: Spark's classes, kept in Java's class data sharing archive (JEP 350) from one start to the next.

Most of the time until the first batch is spent on reading, checking and linking some twenty thousand classes of 280 jars. Java
can write those that were loaded into one file when it ends, and map that file when it starts the next time; that about halves
the CPU time of a start. The file, some 165 MB, is kept under `~/.cache/headrace`; its name has the versions of Java and Spark
and the folder of the jars. Java itself checks that it fits and goes without it where it does not. HEADRACE_CLASS_ARCHIVE=0
turns all of this off.

The first JVM that ends in order writes the archive, which takes it some ten seconds that nobody waits for. A file that is being
written, or was left half-written, begins with zeros: Java writes the head last.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Mapping
from pathlib import Path

from headrace.spark.java import Java

SWITCH = "HEADRACE_CLASS_ARCHIVE"
_CLAIM_S = 24 * 3600.0  # a JVM that has been told to write the archive when it ends may run for long
_QUIET = ("-Xlog:disable", "-Xlog:all=error:stderr")  # it would warn of each class that it does not keep


def cache_folder(environment: Mapping[str, str]) -> Path:
    return Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headrace" / "spark"


def archive_options(java: Java, spark_home: str, spark_version: str, environment: Mapping[str, str]) -> list[str]:
    """Options for a JVM that uses the archive, or writes it when it ends; none where neither is possible."""
    if environment.get(SWITCH) == "0" or not _plain(spark_home):
        return []
    jars = hashlib.sha256(os.path.realpath(spark_home).encode()).hexdigest()[:8]
    archive = cache_folder(environment) / f"classes-{spark_version}-java-{java.version}-{jars}.jsa"
    if not _plain(str(archive)):
        return []
    if _whole(archive):
        return [f"-XX:SharedArchiveFile={archive}", *_QUIET]
    return [f"-XX:ArchiveClassesAtExit={archive}", *_QUIET] if _claim(archive) else []


def _plain(path: str) -> bool:
    """Options are separated by spaces, on their way through Spark's scripts."""
    return not any(character.isspace() or character in "\"'\\" for character in path)


def _whole(archive: Path) -> bool:
    try:
        with archive.open("rb") as file:
            return any(file.read(4))
    except OSError:
        return False


def _claim(archive: Path) -> bool:
    """Several may start at once; one of them writes the archive."""
    claim = archive.with_suffix(".claimed")
    try:
        archive.parent.mkdir(parents=True, exist_ok=True)
        if claim.exists() and time.time() - claim.stat().st_mtime > _CLAIM_S:
            claim.unlink()
        claim.touch(exist_ok=False)
    except OSError:
        return False
    return True
