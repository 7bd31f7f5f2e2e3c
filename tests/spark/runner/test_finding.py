"""From what was typed to a pipeline."""

from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from headrace.spark.runner.errors import RunnerError, UnknownPipeline
from headrace.spark.runner.finding import domains, find, gallery

TINY = '"""Nothing."""\ndef pipeline(spark, *, word="a"):\n    return None\n'


def test_the_gallery_is_listed_with_a_line_and_settings_for_each() -> None:
    found = {entry.name: entry for entry in gallery()}
    assert "banking.balances" in found
    assert found["banking.balances"].summary.startswith("Balances of all accounts")
    assert found["banking.balances"].settings == {"every": "'1 second'"}
    assert all(entry.summary.endswith(".") for entry in found.values()), "each says in one sentence what it computes"
    assert list(found) == sorted(found)


def test_folders_with_events_are_domains() -> None:
    assert {"banking", "shop"} <= set(domains())


def test_a_name_of_the_gallery_is_found_with_its_events() -> None:
    found = find("banking.balances")
    assert (found.name, found.function.__module__, found.domain) == (
        "banking.balances",
        "headrace.spark.pipelines.banking.balances",
        "banking",
    )


def test_a_file_is_found_and_may_import_what_stands_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/before")
    monkeypatch.syspath_prepend("/nowhere")
    (tmp_path / "beside_it.py").write_text("WORD = 'b'\n")
    (tmp_path / "my-lines.py").write_text("from beside_it import WORD\n" + TINY.replace('"a"', "WORD"))
    found = find(str(tmp_path / "my-lines.py"))
    assert (found.name, found.domain) == ("my-lines", None)
    assert found.function.__kwdefaults__ == {"word": "b"}


def test_a_module_is_found_by_its_dotted_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "warehouse").mkdir()
    (tmp_path / "warehouse" / "stock.py").write_text(TINY)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert find("warehouse.stock").name == "warehouse.stock"


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("banking.balance", "there is no pipeline 'banking.balance'; did you mean 'banking.balances'?"),
        ("balances", "there is no pipeline 'balances'; did you mean 'banking.balances'?"),
        ("nothing.like.it", "there is no pipeline 'nothing.like.it'; 'headrace pipeline list' shows those of the gallery"),
    ],
)
def test_a_misspelled_name_gets_a_suggestion(typed: str, words: str) -> None:
    with pytest.raises(UnknownPipeline) as caught:
        find(typed)
    assert str(caught.value).startswith(words)


def test_a_missing_file_gets_a_suggestion(tmp_path: Path) -> None:
    (tmp_path / "lines.py").write_text(TINY)
    with pytest.raises(UnknownPipeline, match=r"there is no file .*/line\.py; did you mean .*/lines\.py\?"):
        find(str(tmp_path / "line.py"))


def test_a_file_may_say_what_it_shows(tmp_path: Path) -> None:
    shows = 'from headrace.spark.pipelines.showing import Shown\nSHOWS = [Shown("topic", "Title")]\n'
    (tmp_path / "shows.py").write_text(TINY + shows)
    found = find(str(tmp_path / "shows.py"))
    assert (found.summary, [one.topic for one in found.shows]) == ("Nothing.", ["topic"])
    (tmp_path / "odd.py").write_text(TINY + 'SHOWS = ["topic"]\n')
    with pytest.raises(RunnerError, match=r"SHOWS of .*odd\.py must be a list of Shown"):
        find(str(tmp_path / "odd.py"))


def test_a_file_without_the_function_or_with_an_error_is_said(tmp_path: Path) -> None:
    (tmp_path / "empty.py").write_text("")
    (tmp_path / "broken.py").write_text("import nothing_of_that_name\n")
    with pytest.raises(UnknownPipeline, match=r"empty\.py has no function 'pipeline\(spark, …\)'"):
        find(str(tmp_path / "empty.py"))
    with pytest.raises(RunnerError, match="can't be imported: ModuleNotFoundError: No module named 'nothing_of_that_name'"):
        find(str(tmp_path / "broken.py"))
