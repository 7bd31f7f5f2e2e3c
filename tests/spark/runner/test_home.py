"""The folder of a pipeline: one run at a time, and a record that tells the truth after a crash."""

import multiprocessing
import os
import signal
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from headrace.spark.runner.errors import AlreadyRunning, UnknownPipeline
from headrace.spark.runner.home import FINISHED, KILLED, RUNNING, Home, RunRecord, homes


def record(home: Home, **changed: object) -> RunRecord:
    known = {"state": RUNNING, "pid": os.getpid(), "host": "here", "started": "2026-03-01T10:00:00.000Z", "server": "b:1"}
    rest = {"tables": home.tables, "checkpoint": home.checkpoint, "log": str(home.log)}
    return RunRecord(**{"pipeline": home.name, "target": home.name, **known, **rest, **changed})  # type: ignore[arg-type]


def run_until_killed(data: Path, held: Event) -> None:
    home = Home(data, "shop.words")
    with home.held():
        home.write(record(home))
        held.set()
        signal.pause()


def test_paths_are_under_the_data_folder_and_queries_are_called_after_the_pipeline(tmp_path: Path) -> None:
    home = Home(tmp_path, "shop.words")
    assert home.folder == tmp_path / "pipelines" / "shop.words"
    assert home.checkpoint == str(home.folder / "checkpoint" / "words")
    assert home.tables == f"sqlite:{home.folder / 'tables.db'}"


def test_a_name_can_not_lead_out_of_the_folder(tmp_path: Path) -> None:
    for name in ("../up", "", ".hidden", "a/b", "a b"):
        with pytest.raises(UnknownPipeline, match="is no name for a pipeline"):
            Home(tmp_path, name)


def test_a_second_run_is_refused_and_told_who_the_first_is(tmp_path: Path) -> None:
    first, second = Home(tmp_path, "shop.words"), Home(tmp_path, "shop.words")
    with first.held():
        first.write(record(first, pid=77))
        assert second.running
        with pytest.raises(
            AlreadyRunning, match=r"shop\.words is running as process 77 on here since 2026-03-01T10:00:00\.000Z"
        ):
            second.held().__enter__()
    assert not second.running
    with second.held():
        assert first.running


def test_a_run_that_was_killed_is_known_by_its_lock(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    held = context.Event()
    process = context.Process(target=run_until_killed, args=(tmp_path, held))
    process.start()
    home = Home(tmp_path, "shop.words")
    assert held.wait(60)
    found = home.record()
    assert found is not None
    assert (home.running, found.state) == (True, RUNNING)
    process.kill()
    process.join()
    found = home.record()
    assert found is not None
    assert (home.running, found.state) == (False, KILLED)


def test_a_run_that_ended_is_as_it_says(tmp_path: Path) -> None:
    home = Home(tmp_path, "shop.words")
    with home.held():
        home.write(record(home, state=FINISHED, ended="2026-03-01T11:00:00.000Z"))
    found = home.record()
    assert found is not None
    assert found.state == FINISHED
    assert [one.name for one in homes(tmp_path)] == ["shop.words"]


def test_deleting_leaves_the_lock_alone(tmp_path: Path) -> None:
    home = Home(tmp_path, "shop.words")
    with home.held():
        home.write(record(home))
        (home.folder / "checkpoint" / "words").mkdir(parents=True)
        (home.folder / "tables.db").touch()
        home.delete()
        assert [path.name for path in home.folder.iterdir()] == ["lock"]
    assert home.record() is None


def test_the_log_of_the_run_before_is_kept(tmp_path: Path) -> None:
    home = Home(tmp_path, "shop.words")
    with home.held():
        home.begin_log().write_text("first")
        home.begin_log().write_text("second")
    assert {path.name: path.read_text() for path in home.folder.glob("spark*")} == {
        "spark.log": "second",
        "spark.log.1": "first",
    }
