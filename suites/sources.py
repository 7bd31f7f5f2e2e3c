"""Where the suites get other projects' sources, environments and jars; each is fetched once and kept in a cache folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
from collections.abc import Callable
from pathlib import Path

KAFKA_VERSION = "4.3.1"


def cache() -> Path:
    """`$SUITE_WORK`, or a folder of the user's."""
    default = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headrace"
    folder = Path(os.environ.get("SUITE_WORK") or default)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def once(name: str, make: Callable[[Path], None]) -> Path:
    """The folder of this name in the cache, made whole or not at all."""
    folder = cache() / name
    if not folder.exists():
        scratch = Path(tempfile.mkdtemp(dir=cache(), prefix=f".{name}-"))
        try:
            make(scratch)
            os.replace(scratch, folder)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return folder


def source_of(package: str, version: str) -> Path:
    """An unpacked source distribution, tests included."""

    def make(folder: Path) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
            subprocess.run([*pip, "--no-binary", ":all:", "--dest", scratch, f"{package}=={version}"], check=True)
            [archive] = Path(scratch).glob("*.tar.gz")
            with tarfile.open(archive) as tar:
                tar.extractall(scratch, filter="data")
            [top] = (path for path in Path(scratch).iterdir() if path.is_dir())
            shutil.copytree(top, folder, dirs_exist_ok=True)

    return once(f"{package}-{version}", make)


def environment(name: str, *requirements: str) -> Path:
    """The interpreter of a virtual environment with these packages. (It can't be moved, so it is made in place.)"""
    folder = cache() / f"{name}-env"
    python = folder / "bin" / "python"
    done = folder / "requirements.txt"
    wanted = "\n".join(requirements)
    if not done.exists() or done.read_text() != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        venv.create(folder, with_pip=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *requirements], check=True)
        done.write_text(wanted)
    return python


def kafka_jars() -> Path:
    """Every jar of Apache Kafka's tools: `$KAFKA_LIBS`, or fetched through Maven."""
    if libs := os.environ.get("KAFKA_LIBS"):
        return Path(libs)

    def make(folder: Path) -> None:
        dependencies = "".join(
            f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version></dependency>"
            for group, artifact, version in (
                ("org.apache.kafka", "kafka-tools", KAFKA_VERSION),
                ("org.apache.kafka", "kafka_2.13", KAFKA_VERSION),
                ("org.slf4j", "slf4j-nop", "1.7.36"),
            )
        )
        with tempfile.TemporaryDirectory() as scratch:
            Path(scratch, "pom.xml").write_text(
                '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
                "<groupId>headrace</groupId><artifactId>suites</artifactId><version>1</version>"
                f"<dependencies>{dependencies}</dependencies></project>"
            )
            mvn = ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={folder}"]
            subprocess.run(mvn, cwd=scratch, check=True)

    return once(f"kafka-{KAFKA_VERSION}", make)
