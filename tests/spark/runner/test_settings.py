"""What a pipeline can be told with `--set`: types from defaults, and words where it does not fit."""

from typing import Any

import pytest

from headrace.spark.runner.errors import BadSetting
from headrace.spark.runner.settings import arguments, own_settings, pairs

FILLED = {"bootstrap": "b:1", "checkpoint": "c", "tables": "sqlite:t"}


def pipeline(
    spark: Any,
    *,
    bootstrap: str = "x",
    checkpoint: str = "y",
    tables: str = "z",
    top: int = 5,
    share: float = 0.5,
    strict: bool = False,
    every: str = "1 second",
    since: str | None = None,
) -> None: ...


def test_settings_are_the_keywords_that_the_runner_does_not_fill() -> None:
    assert own_settings(pipeline) == {"top": 5, "share": 0.5, "strict": False, "every": "1 second", "since": None}


def test_values_get_the_type_of_their_default() -> None:
    given = {"top": "7", "share": "1", "strict": "yes", "every": "2 seconds", "since": "2026-01-01"}
    made = arguments(pipeline, FILLED, given)
    assert made == {**FILLED, "top": 7, "share": 1.0, "strict": True, "every": "2 seconds", "since": "2026-01-01"}
    assert [type(made[name]) for name in ("top", "share", "strict")] == [int, float, bool]


def test_a_function_is_not_given_what_it_does_not_take() -> None:
    def small(spark: Any, *, checkpoint: str) -> None: ...

    assert arguments(small, FILLED, {}) == {"checkpoint": "c"}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"topp": "7"}, "this pipeline has no setting 'topp'; did you mean 'top'?"),
        ({"colour": "red"}, "this pipeline has no setting 'colour'; it has top, share, strict, every, since"),
        ({"top": "many"}, "setting 'top' takes a whole number, such as 5, not 'many'"),
        ({"strict": "perhaps"}, "setting 'strict' takes true or false, such as false, not 'perhaps'"),
        ({"checkpoint": "d"}, "'checkpoint' is filled by the runner: use --server, --data or --tables"),
    ],
)
def test_what_does_not_fit_is_said(given: dict[str, str], words: str) -> None:
    with pytest.raises(BadSetting) as caught:
        arguments(pipeline, FILLED, given)
    assert str(caught.value) == words


def test_pairs_are_name_and_value() -> None:
    assert pairs(["a=1", "b=x=y", "c="], "--set") == {"a": "1", "b": "x=y", "c": ""}
    with pytest.raises(BadSetting, match="--conf takes name=value, not 'a'"):
        pairs(["a"], "--conf")
