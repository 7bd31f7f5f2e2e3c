"""Is Java there, which one, and what is said when it is not. The Javas here are scripts that answer as real ones do."""

import os
import stat
from pathlib import Path

import pytest

from headrace.spark import java
from headrace.spark.java import EVERYTHING_ELSE, Java, SparkUnavailable, require_java, require_pyspark, require_spark

OPENJDK_17 = 'openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment (build 17.0.15+6-Debian-1deb12u1)'
ORACLE_8 = 'java version "1.8.0_202"\nJava(TM) SE Runtime Environment (build 1.8.0_202-b08)'
MACOS_STUB = "The operation couldn’t be completed. Unable to locate a Java Runtime."


def make_java(home: Path, says: str, code: int = 0) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n/bin/cat >&2 <<'END'\n{says}\nEND\nexit {code}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return home


def on_path(*homes: Path) -> dict[str, str]:
    return {"PATH": os.pathsep.join([*(str(home / "bin") for home in homes), "/bin", "/usr/bin"] if homes else ["/nowhere"])}


@pytest.mark.parametrize(("text", "major"), [("17.0.15", 17), ("21", 21), ("1.8.0_202", 8), ("11.0.2", 11), ("25-ea", 25)])
def test_the_major_version_is_read_as_old_and_new_javas_write_it(text: str, major: int) -> None:
    assert Java("java", text, "PATH").major == major


def test_the_java_of_the_path_is_taken(tmp_path: Path) -> None:
    home = make_java(tmp_path / "jdk", OPENJDK_17)
    assert require_java(on_path(home)) == Java(str(home / "bin" / "java"), "17.0.15", "PATH")


def test_java_home_wins_over_the_path_as_it_does_in_spark(tmp_path: Path) -> None:
    new, old = make_java(tmp_path / "new", OPENJDK_17), make_java(tmp_path / "old", ORACLE_8)
    assert require_java({**on_path(old), "JAVA_HOME": str(new)}).where_from == "JAVA_HOME"


def test_an_old_java_is_named_with_its_place_and_what_is_needed(tmp_path: Path) -> None:
    old = make_java(tmp_path / "old", ORACLE_8)
    with pytest.raises(SparkUnavailable) as caught:
        require_java({**on_path(), "JAVA_HOME": str(old)}, places=())
    text = str(caught.value)
    assert text.startswith(f"Pipelines need Java 17 or newer: {old}/bin/java (from JAVA_HOME) is Java 1.8.0_202. ")
    assert "apt install openjdk-17-jre-headless" in text
    assert "brew install" in text
    assert "adoptium.net" in text
    assert text.endswith(EVERYTHING_ELSE)


def test_no_java_at_all_is_said(tmp_path: Path) -> None:
    with pytest.raises(SparkUnavailable, match="no java was found: JAVA_HOME is not set and the PATH has none"):
        require_java(on_path(), places=())


def test_a_java_home_without_java_is_said(tmp_path: Path) -> None:
    with pytest.raises(SparkUnavailable, match=f"JAVA_HOME is {tmp_path}, and there is no {tmp_path}/bin/java"):
        require_java({"JAVA_HOME": str(tmp_path), **on_path()}, places=())


def test_the_stub_of_macos_is_no_java(tmp_path: Path) -> None:
    stub = make_java(tmp_path / "usr", MACOS_STUB, code=1)
    with pytest.raises(SparkUnavailable, match="does not tell a version"):
        require_java(on_path(stub), places=())


def test_a_java_that_nobody_pointed_to_is_pointed_to(tmp_path: Path) -> None:
    make_java(tmp_path / "jvm" / "java-8", ORACLE_8)
    good = make_java(tmp_path / "jvm" / "java-17", OPENJDK_17)
    with pytest.raises(SparkUnavailable, match=f"There is a Java 17 in {good}: set JAVA_HOME to it"):
        require_java(on_path(), places=(f"{tmp_path}/jvm/*",))


def test_options_for_every_java_do_not_confuse_the_question(tmp_path: Path) -> None:
    home = make_java(tmp_path / "jdk", OPENJDK_17)
    assert require_java({**on_path(home), "JAVA_TOOL_OPTIONS": '-Dx="version "1"'}).major == 17


def test_a_missing_or_old_pyspark_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "version", lambda name: "3.5.1")
    with pytest.raises(SparkUnavailable, match=r"PySpark 4\.3; 3\.5\.1 is installed: pip install 'headrace\[spark\]'"):
        require_pyspark()
    monkeypatch.setattr(java, "find_spec", lambda name: None)
    with pytest.raises(SparkUnavailable, match="which is not installed"):
        require_pyspark()


def test_a_remote_session_needs_no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    assert require_spark(remote=True, environment=on_path()) is None
