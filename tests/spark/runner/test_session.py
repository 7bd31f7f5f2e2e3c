"""Spark's settings: where they come from, and that they reach Spark."""

from pathlib import Path
from typing import Any

import pytest

from headrace.spark import session as sessions
from headrace.spark.java import Java
from headrace.spark.runner.errors import RunnerError
from headrace.spark.runner.running import SETTINGS_FILE, _settings_file


def test_a_session_has_what_exactly_once_and_small_batches_need(spark: Any) -> None:
    for name, value in sessions.RUNTIME_SETTINGS.items():
        assert spark.conf.get(name) == value
    assert spark.sparkContext.getConf().get("spark.ui.enabled") == "false"
    assert spark.sparkContext.getConf().get("spark.driver.bindAddress") == "127.0.0.1"


def test_settings_of_the_data_folder_are_read_with_or_without_their_prefix(tmp_path: Path) -> None:
    assert _settings_file(tmp_path) == {}
    (tmp_path / SETTINGS_FILE).write_text(
        '[spark]\nsql.shuffle.partitions = 8\n"spark.driver.memory" = "2g"\nui.enabled = true\n'
    )
    assert _settings_file(tmp_path) == {
        "spark.sql.shuffle.partitions": "8",
        "spark.driver.memory": "2g",
        "spark.ui.enabled": "true",
    }
    (tmp_path / SETTINGS_FILE).write_text("[spark")
    with pytest.raises(RunnerError, match=r"pipelines\.toml can't be read"):
        _settings_file(tmp_path)


def test_options_for_java_that_were_given_come_last(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    options = sessions._java_options(Java("java", "17.0.1", "PATH"), "-Xss4m -Dmine=1", quick=True).split()
    assert options[-2:] == ["-Xss4m", "-Dmine=1"]
    assert options.index("-XX:TieredStopAtLevel=1") < len(options) - 2
    assert f"-Dlog4j2.configurationFile={tmp_path}/headrace/spark/log4j2.properties" in options
    assert (tmp_path / "headrace" / "spark" / "log4j2.properties").read_text() == sessions._LOG4J
