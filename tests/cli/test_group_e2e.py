import signal
from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture
def behind(headrace: Any, topic: str, group: str) -> str:
    """A group that has read 4 of 10 records."""
    headrace("produce", topic, *map(str, range(10)))
    headrace("consume", topic, "-g", group, "--count", "4")
    return group


@pytest.fixture
def busy(start: Callable[..., Any], headrace: Any, behind: str, topic: str, eventually: Callable[..., None]) -> str:
    """The same group with a member."""
    start("consume", topic, "-g", behind)
    eventually(lambda: len(headrace("group", "describe", behind, "--json").json["groups"][0]["members"]) == 1)
    return behind


def committed(headrace: Any, group: str) -> dict[tuple[str, int], int]:
    (described,) = headrace("group", "lag", group, "--json").json["groups"]
    return {(row["topic"], row["partition"]): row["committed_offset"] for row in described["partitions"]}


def test_list_shows_state_and_type(headrace: Any, behind: str) -> None:
    groups = headrace("group", "list", "--json").json["groups"]
    (found,) = [group for group in groups if group["name"] == behind]
    assert found == {"name": behind, "state": "Empty", "type": "classic", "protocol_type": "consumer"}
    assert behind in headrace("group", "list").text


def test_describe_has_lag_by_partition(headrace: Any, behind: str, topic: str) -> None:
    (described,) = headrace("group", "describe", behind, "--json").json["groups"]
    assert (described["state"], described["lag"], described["members"]) == ("Empty", 6, [])
    assert described["partitions"] == [
        {
            "topic": topic,
            "partition": 0,
            "committed_offset": 4,
            "end_offset": 10,
            "lag": 6,
            "member_id": None,
            "client_id": None,
        }
    ]
    lines = headrace("group", "lag", behind).lines
    assert lines[0].split() == ["GROUP", "TOPIC", "PARTITION", "COMMITTED", "END", "LAG"]
    assert lines[1].split() == [behind, topic, "0", "4", "10", "6"]


def test_lag_of_all_groups_and_of_none(headrace: Any, behind: str) -> None:
    rows = headrace("group", "lag", "--all", "--json").json["groups"]
    (found,) = [group for group in rows if group["name"] == behind]
    assert (found["state"], found["type"], found["lag"]) == ("Empty", "classic", 6)
    for wrong in ((), (behind, "--all")):
        assert "name groups, or give --all" in headrace("group", "lag", *wrong, code=2).err


def test_lag_in_time_is_the_age_of_the_first_unread_record(headrace: Any, behind: str, topic: str) -> None:
    (found,) = headrace("group", "lag", behind, "--age", "--json").json["groups"]
    assert 0 <= found["partitions"][0]["age_ms"] < 600_000
    lines = headrace("group", "lag", behind, "--age").lines
    assert lines[0].split()[-1] == "AGE"
    assert lines[1].split()[-1].endswith("s")
    headrace("consume", topic, "-g", behind, "--count", "6")
    (found,) = headrace("group", "lag", behind, "--age", "--json").json["groups"]
    assert (found["lag"], found["partitions"][0]["age_ms"]) == (0, 0)


def test_lag_is_watched_until_it_is_stopped(start: Callable[..., Any], headrace: Any, behind: str, topic: str) -> None:
    watching = start("group", "lag", behind, "--watch", "--every", "0.1", "--json")
    assert '"lag": 6' in watching.line()
    headrace("produce", topic, "more")
    while '"lag": 7' not in watching.line():
        pass
    assert watching.end(signal.SIGINT)[0] == 130


def test_describe_shows_who_reads_what(headrace: Any, busy: str, topic: str, eventually: Callable[..., None]) -> None:
    def members() -> list[dict[str, Any]]:
        return list(headrace("group", "describe", busy, "--json").json["groups"][0]["members"])

    eventually(lambda: members()[0]["assignment"] == {topic: [0]})
    (member,) = members()
    assert member["host"] == "127.0.0.1"
    assert member["client_id"] == "headrace-cli"
    assert f"{topic}[0]" in headrace("group", "describe", busy).text


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--to-earliest",), 0),
        (("--to-latest",), 10),
        (("--to-offset", "7"), 7),
        (("--to-offset", "99"), 10),
        (("--shift", "3"), 7),
        (("--shift", "-2"), 2),
        (("--shift", "-99"), 0),
        (("--to-time", "2020-01-01"), 0),
        (("--to-time", "now"), 10),
        (("--by-duration", "1h"), 0),
        (("--by-duration", "PT0S"), 10),
    ],
)
def test_reset_shows_first_and_does_it_when_told(
    headrace: Any, behind: str, topic: str, arguments: tuple[str, ...], expected: int
) -> None:
    planned = headrace("group", "reset", behind, "--topic", topic, *arguments, "--json").json
    row = {"topic": topic, "partition": 0, "offset_before": 4, "offset": expected}
    assert planned == {"group": behind, "executed": False, "partitions": [row]}
    assert committed(headrace, behind) == {(topic, 0): 4}
    done = headrace("group", "reset", behind, "--all-topics", *arguments, "--execute", "--json").json
    assert done == {"group": behind, "executed": True, "partitions": [row]}
    assert committed(headrace, behind) == {(topic, 0): expected}


def test_a_dry_run_says_so(headrace: Any, behind: str, topic: str) -> None:
    result = headrace("group", "reset", behind, "--topic", topic, "--to-earliest")
    assert result.lines[0].split() == ["TOPIC", "PARTITION", "NOW", "NEW"]
    assert result.lines[1].split() == [topic, "0", "4", "0"]
    assert result.err == "Nothing was changed: add --execute to do it.\n"


def test_reset_by_time_finds_the_record(headrace: Any, topic: str, group: str) -> None:
    headrace("produce", topic, "old", "-T", "2h")
    headrace("produce", topic, "new")
    headrace("group", "reset", group, "--topic", topic, "--by-duration", "1h", "--execute")
    assert headrace("consume", topic, "-g", group, "-e").lines == ["new"]


def test_reset_of_some_partitions_leaves_the_others(headrace: Any, wide: str, group: str) -> None:
    for partition in range(4):
        headrace("produce", wide, "a", "b", "-p", str(partition))
    headrace("group", "reset", group, "--topic", wide, "--to-latest", "--execute")
    headrace("group", "reset", group, "--topic", f"{wide}:1,3", "--to-earliest", "--execute")
    assert committed(headrace, group) == {(wide, 0): 2, (wide, 1): 0, (wide, 2): 2, (wide, 3): 0}


def test_a_group_with_members_is_not_reset_and_the_reason_is_given(headrace: Any, busy: str, topic: str) -> None:
    shown = headrace("group", "reset", busy, "--topic", topic, "--to-earliest")
    assert "with 1 active member (headrace-cli on 127.0.0.1)" in shown.err
    refused = headrace("group", "reset", busy, "--topic", topic, "--to-earliest", "--execute", code=1)
    assert f"group '{busy}' is " in refused.err
    assert "with 1 active member" in refused.err
    assert "stop them and try again" in refused.err
    assert f"group '{busy}' is " in headrace("group", "delete", busy, code=1).err


def test_offsets_of_a_topic_in_use_are_not_forgotten(headrace: Any, busy: str, topic: str) -> None:
    error = headrace("group", "delete-offsets", busy, "--topic", topic, "--json", code=1).error
    assert error["code"] == "GROUP_SUBSCRIBED_TO_TOPIC"


def test_nothing_to_shift_from_is_an_error(headrace: Any, topic: str, group: str) -> None:
    result = headrace("group", "reset", group, "--topic", topic, "--shift", "1", code=1)
    assert "has no committed offset to shift from" in result.err


def test_offsets_can_be_forgotten(headrace: Any, wide: str, group: str) -> None:
    headrace("group", "reset", group, "--topic", wide, "--to-latest", "--execute")
    gone = headrace("group", "delete-offsets", group, "--topic", f"{wide}:0", "--json").json
    assert gone == {"group": group, "partitions": [{"topic": wide, "partition": 0, "offset_before": 0}]}
    assert sorted(committed(headrace, group)) == [(wide, 1), (wide, 2), (wide, 3)]


def test_a_deleted_group_is_gone(headrace: Any, behind: str) -> None:
    assert headrace("group", "delete", behind).text == f"{behind}: deleted\n"
    for verb in ("describe", "lag", "delete"):
        assert f"there is no group '{behind}'" in headrace("group", verb, behind, code=1).err


def test_offsets_of_a_deleted_topic_have_no_end(
    headrace: Any, behind: str, topic: str, eventually: Callable[..., None]
) -> None:
    """Kafka forgets them with the topic, so either there is no row or it has neither end nor lag."""
    headrace("topic", "delete", topic)
    eventually(lambda: headrace("topic", "list", topic, "--json").json["topics"] == [])
    result = headrace("group", "describe", behind, "--json", code=None)
    rows = result.json["groups"][0]["partitions"] if result.code == 0 else []
    assert all(row["lag"] is None and row["end_offset"] is None for row in rows)
