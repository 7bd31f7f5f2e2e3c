import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture
def ten(headrace: Any, topic: str) -> str:
    """A topic with the records 0 to 9."""
    headrace("produce", topic, *map(str, range(10)))
    return topic


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), "0123456789"),
        (("--from", "earliest"), "0123456789"),
        (("--from", "latest"), ""),
        (("--from", "7"), "789"),
        (("--from", "-2"), "89"),
        (("--from", "+8"), "89"),
        (("--from", "-100"), "0123456789"),
        (("--from", "100"), ""),
        (("-o", "-3", "-n", "2"), "78"),
        (("--count", "4"), "0123"),
        (("--from", "1h"), "0123456789"),
        (("--from", "2020-01-01"), "0123456789"),
        (("--from", "now"), ""),
        (("--grep", "[3-5]"), "345"),
        (("--grep", "[3-5]", "--count", "2"), "34"),
    ],
)
def test_where_reading_begins_and_how_many(headrace: Any, ten: str, arguments: tuple[str, ...], expected: str) -> None:
    assert headrace("consume", ten, "--exit", *arguments).lines == list(expected)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--to", "3"), "012"),
        (("--to", "latest"), "0123456789"),
        (("--to", "-2"), "01234567"),
        (("--to", "earliest"), ""),
        (("--from", "4", "--to", "6"), "45"),
        (("--from", "6", "--to", "4"), ""),
        (("--to", "now"), "0123456789"),
        (("--to", "1h"), ""),
    ],
)
def test_where_reading_ends(headrace: Any, ten: str, arguments: tuple[str, ...], expected: str) -> None:
    assert headrace("consume", ten, *arguments).lines == list(expected)


def test_the_end_is_a_record_too_many_for_a_batch(headrace: Any, topic: str) -> None:
    """All ten records are in one batch, and the end lies within it."""
    headrace("produce", topic, stdin="\n".join(map(str, range(10))))
    assert headrace("consume", topic, "--to", "5").lines == list("01234")


def test_templates_have_kcats_tokens(headrace: Any, topic: str) -> None:
    headrace("produce", topic, "value", "-k", "key", "-H", "a=1", "-H", "b=2")
    line = headrace("consume", topic, "-e", "-f", r"%t|%p|%o|%k|%K|%s|%S|%h\t%%\n").text
    assert line == f"{topic}|0|0|key|3|value|5|a=1,b=2\t%\n"


def test_keys_and_null(headrace: Any, topic: str) -> None:
    headrace("produce", topic, "-K", ":", "-Z", stdin="k:v\nk:\n")
    assert headrace("consume", topic, "-e", "-K", "\\t").text == "k\tv\nk\t\n"
    assert headrace("consume", topic, "-e", "-K", "\\t", "-Z").text == "k\tv\nk\tNULL\n"
    assert headrace("consume", topic, "-e", "-D", ";").text == "v;;"


def test_filters(headrace: Any, topic: str) -> None:
    headrace("produce", topic, "one", "-k", "a", "-H", "color=red")
    headrace("produce", topic, "two", "-k", "b", "-H", "color=blue")
    headrace("produce", topic, "three", "-k", "a")
    assert headrace("consume", topic, "-e", "--key", "a").lines == ["one", "three"]
    assert headrace("consume", topic, "-e", "--header", "color").lines == ["one", "two"]
    assert headrace("consume", topic, "-e", "--header", "color=blue").lines == ["two"]
    assert headrace("consume", topic, "-e", "--key", "a", "--grep", "^t").lines == ["three"]


def test_several_topics_and_chosen_partitions(headrace: Any, topic: str, wide: str) -> None:
    headrace("produce", topic, "single")
    for partition in range(4):
        headrace("produce", wide, f"p{partition}", "-p", str(partition))
    assert sorted(headrace("consume", topic, wide, "-e").lines) == ["p0", "p1", "p2", "p3", "single"]
    assert sorted(headrace("consume", wide, "-e", "-p", "1", "-p", "3").lines) == ["p1", "p3"]


def test_the_last_n_are_those_of_each_partition(headrace: Any, wide: str) -> None:
    for partition in range(2):
        headrace("produce", wide, "-p", str(partition), "old", f"new{partition}")
    assert sorted(headrace("consume", wide, "-e", "-o", "-1").lines) == ["new0", "new1"]


def test_trimmed_records_are_not_waited_for(headrace: Any, ten: str) -> None:
    headrace("topic", "trim", ten, "--to", "6")
    assert headrace("consume", ten, "-e", "--from", "0").lines == list("6789")


def test_a_large_record_moves_on(headrace: Any, topic: str) -> None:
    headrace("topic", "alter", topic, "-c", "max.message.bytes=5000000")
    headrace("produce", topic, stdin="before\n" + "x" * 3_000_000 + "\nafter\n")
    assert [len(line) for line in headrace("consume", topic, "-e").lines] == [6, 3_000_000, 5]


def test_an_empty_topic_ends_at_once(headrace: Any, wide: str) -> None:
    assert headrace("consume", wide, "-e").out == b""


def test_following_prints_what_is_written_later_and_ctrl_c_counts(start: Callable[..., Any], headrace: Any, ten: str) -> None:
    running = start("consume", ten, "--from", "-1")
    assert running.line() == "9"
    for number in range(10, 13):
        headrace("produce", ten, str(number))
        assert running.line() == str(number)
    assert running.end(signal.SIGINT) == (130, "4 records\n")


def test_sigterm_ends_it_as_cleanly(start: Callable[..., Any], ten: str) -> None:
    running = start("consume", ten, "--quiet")
    assert running.line() == "0"
    assert running.end(signal.SIGTERM) == (143, "")


def test_a_reader_that_goes_away_ends_it_quietly(server: str, headrace: Any, ten: str) -> None:
    command = f"{sys.executable} -m headrace consume {ten} --server {server} --format '%s\\n'"
    for _ in range(5):
        headrace("produce", ten, stdin="\n".join("x" * 1000 for _ in range(300)))
    shell = f"set -o pipefail; {command} | head -2"
    ended = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.stdout, ended.stderr, ended.returncode) == ("0\n1\n", "", 0)


def test_members_of_a_group_go_on_where_it_stopped(headrace: Any, ten: str, group: str) -> None:
    assert headrace("consume", ten, "-g", group, "--count", "4").lines == list("0123")
    assert headrace("consume", ten, "-g", group, "--exit").lines == list("456789")
    assert headrace("consume", ten, "-g", group, "--exit").lines == []
    headrace("produce", ten, "new")
    assert headrace("consume", ten, "-g", group, "--exit").lines == ["new"]


def test_a_new_group_begins_where_it_is_told(headrace: Any, ten: str, group: str) -> None:
    assert headrace("consume", ten, "-g", group, "--exit", "--from", "-3").lines == list("789")
    assert headrace("group", "lag", group, "--json").json["groups"][0]["lag"] == 0


def test_two_consumers_share_the_partitions_and_one_takes_over(
    start: Callable[..., Any], headrace: Any, wide: str, group: str, eventually: Callable[..., None]
) -> None:
    def assigned() -> list[int]:
        (described,) = headrace("group", "describe", group, "--json").json["groups"]
        return sorted(len(m["assignment"].get(wide, [])) for m in described["members"])

    first = start("consume", wide, "-g", group)
    eventually(lambda: headrace("group", "list", "--json").text.count(f'"{group}"') == 1 and assigned() == [4])
    second = start("consume", wide, "-g", group)
    eventually(lambda: assigned() == [2, 2])
    for partition in range(4):
        headrace("produce", wide, f"p{partition}", "-p", str(partition))
    got = {running: sorted([running.line(), running.line()]) for running in (first, second)}
    assert sorted(line for lines in got.values() for line in lines) == ["p0", "p1", "p2", "p3"]
    code, _ = second.end(signal.SIGINT)
    assert code == 130
    eventually(lambda: assigned() == [4])
    for partition in range(4):
        headrace("produce", wide, f"q{partition}", "-p", str(partition))
    assert sorted(first.line() for _ in range(4)) == ["q0", "q1", "q2", "q3"]
    first.end(signal.SIGINT)
    assert headrace("consume", wide, "-g", group, "--exit").lines == []
