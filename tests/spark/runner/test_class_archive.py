"""Spark's classes kept from one start to the next: who writes the archive, and who uses it."""

from pathlib import Path

from headrace.spark.class_archive import SWITCH, archive_options, cache_folder
from headrace.spark.java import Java

JAVA = Java("/usr/bin/java", "17.0.15", "PATH")


def options(cache: Path, home: str = "/opt/spark", **environment: str) -> list[str]:
    return archive_options(JAVA, home, "4.3.0", {"XDG_CACHE_HOME": str(cache), **environment})


def archive(written: list[str]) -> Path:
    return Path(written[0].partition("=")[2])


def test_the_first_start_writes_it_and_others_at_that_time_go_without(tmp_path: Path) -> None:
    first = options(tmp_path)
    assert first[0].startswith(f"-XX:ArchiveClassesAtExit={tmp_path}/headrace/spark/classes-4.3.0-java-17.0.15-")
    assert options(tmp_path) == []


def test_later_starts_use_it(tmp_path: Path) -> None:
    made = archive(options(tmp_path))
    made.write_bytes(b"\xa8\xab\x0b\xf0 and so on")
    assert options(tmp_path)[0] == f"-XX:SharedArchiveFile={made}"


def test_one_that_is_not_whole_is_not_used(tmp_path: Path) -> None:
    archive(options(tmp_path)).write_bytes(bytes(4096))
    assert options(tmp_path) == []


def test_another_spark_has_an_archive_of_its_own(tmp_path: Path) -> None:
    assert archive(options(tmp_path)) != archive(options(tmp_path, "/opt/other"))


def test_it_can_be_turned_off_and_does_without_a_place_to_write(tmp_path: Path) -> None:
    assert options(tmp_path, **{SWITCH: "0"}) == []
    assert options(tmp_path / "with a space") == []
    assert options(Path("/proc/nothing")) == []
    assert cache_folder({"XDG_CACHE_HOME": "/x"}) == Path("/x/headrace/spark")
