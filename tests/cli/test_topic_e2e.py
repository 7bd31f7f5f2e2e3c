import uuid
from collections.abc import Callable
from typing import Any

import pytest


def fresh() -> str:
    return f"fresh-{uuid.uuid4().hex[:8]}"


def test_a_created_topic_is_listed_described_and_gone_after_delete(headrace: Any, eventually: Callable[..., None]) -> None:
    name = fresh()
    made = headrace("topic", "create", name, "-p", "3", "-c", "retention.ms=60000", "-c", "cleanup.policy=compact")
    assert made.text == f"{name}: created with 3 partitions\n"
    (listed,) = headrace("topic", "list", name, "--json").json["topics"]
    assert (listed["partitions"], listed["replication_factor"], listed["internal"]) == (3, 1, False)
    (described,) = headrace("topic", "describe", name, "--json").json["topics"]
    assert described["configs"] == {"cleanup.policy": "compact", "retention.ms": "60000"}
    assert [p["partition"] for p in described["partitions"]] == [0, 1, 2]
    assert described["id"] == listed["id"]
    assert headrace("topic", "delete", name).text == f"{name}: deleted\n"
    eventually(lambda: headrace("topic", "list", name, "--json").json["topics"] == [])


def test_tables_for_people_have_the_same_facts(headrace: Any, wide: str) -> None:
    lines = headrace("topic", "list", f"^{wide}$").lines
    assert lines[0].split() == ["TOPIC", "PARTITIONS", "REPLICAS"]
    assert lines[1].split() == [wide, "4", "1"]
    text = headrace("topic", "describe", wide).text
    assert "PARTITION  LEADER  REPLICAS  IN-SYNC  START  END  BYTES" in text


def test_describe_shows_offsets_and_sizes(headrace: Any, topic: str) -> None:
    headrace("produce", topic, "a", "b", "c")
    headrace("topic", "trim", topic, "--to", "1")
    (described,) = headrace("topic", "describe", topic, "--json").json["topics"]
    (partition,) = described["partitions"]
    assert (partition["start_offset"], partition["end_offset"]) == (1, 3)
    assert partition["size_bytes"] > 0
    assert partition["leader"] in partition["in_sync"]


def test_all_settings_are_shown_when_asked_for(headrace: Any, topic: str) -> None:
    (described,) = headrace("topic", "describe", topic, "--all-configs", "--json").json["topics"]
    assert described["configs"]["cleanup.policy"] == "delete"
    assert "max.message.bytes" in described["configs"]


def test_several_topics_at_once(headrace: Any) -> None:
    names = [fresh(), fresh()]
    headrace("topic", "create", *names, "-p", "1")
    described = headrace("topic", "describe", *names, "--json").json["topics"]
    assert [topic["name"] for topic in described] == names
    headrace("topic", "delete", *names)


def test_creating_what_exists_is_an_error_unless_allowed(headrace: Any, topic: str) -> None:
    assert headrace("topic", "create", topic, code=1).err == (
        f"headrace: topic '{topic}' exists; change it with 'headrace topic alter {topic}'\n"
    )
    (made,) = headrace("topic", "create", topic, "--if-not-exists", "--json").json["topics"]
    assert made == {"name": topic, "created": False, "partitions": 1, "replication_factor": 1}


def test_deleting_what_does_not_exist_is_an_error_unless_allowed(headrace: Any) -> None:
    name = fresh()
    assert f"there is no topic '{name}'" in headrace("topic", "delete", name, code=1).err
    assert headrace("topic", "delete", name, "--if-exists", "--json").json == {"topics": [{"name": name, "deleted": False}]}


def test_a_dry_run_creates_nothing(headrace: Any) -> None:
    name = fresh()
    assert headrace("topic", "create", name, "-p", "2", "--dry-run").text == f"{name}: could be created with 2 partitions\n"
    assert headrace("topic", "list", name, "--json").json["topics"] == []


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("bad name",), "INVALID_TOPIC_EXCEPTION"),
        (("ok", "-c", "no.such.setting=1"), "INVALID_CONFIG"),
        (("ok", "-c", "retention.ms=soon"), "INVALID_CONFIG"),
        (("ok", "-r", "99"), "INVALID_REPLICATION_FACTOR"),
    ],
)
def test_what_the_server_refuses_is_reported_with_its_code(headrace: Any, arguments: tuple[str, ...], code: str) -> None:
    assert headrace("topic", "create", *arguments, "--dry-run", "--json", code=1).error["code"] == code


def test_alter_grows_sets_and_unsets(headrace: Any, topic: str) -> None:
    headrace("topic", "alter", topic, "-p", "3", "-c", "retention.ms=1000", "-c", "segment.bytes=1048576")
    headrace("topic", "alter", topic, "--unset", "retention.ms")
    (described,) = headrace("topic", "describe", topic, "--json").json["topics"]
    assert len(described["partitions"]) == 3
    assert described["configs"] == {"segment.bytes": "1048576"}


def test_partitions_cannot_be_taken_away(headrace: Any, wide: str) -> None:
    assert headrace("topic", "alter", wide, "-p", "2", "--json", code=1).error["code"] == "INVALID_PARTITIONS"


def test_trim_by_offset_from_the_end_and_all(headrace: Any, topic: str) -> None:
    headrace("produce", topic, *"abcdef")
    (row,) = headrace("topic", "trim", topic, "--to", "2", "--json").json["partitions"]
    assert row == {"partition": 0, "start_offset_before": 0, "start_offset": 2, "deleted": 2}
    headrace("topic", "trim", topic, "--to", "-1")
    assert headrace("consume", topic, "-e").lines == ["f"]
    headrace("topic", "trim", topic, "--to", "latest")
    assert headrace("consume", topic, "-e").lines == []


def test_trim_of_one_partition_leaves_the_others(headrace: Any, wide: str) -> None:
    for partition in "01":
        headrace("produce", wide, "x", "-p", partition)
    headrace("topic", "trim", wide, "--to", "latest", "-p", "1")
    (described,) = headrace("topic", "describe", wide, "--json").json["topics"]
    assert [p["start_offset"] for p in described["partitions"]] == [0, 1, 0, 0]


def test_a_mistyped_topic_suggests_the_right_one(headrace: Any, topic: str) -> None:
    result = headrace("topic", "describe", topic[:-1], code=1)
    assert f"did you mean '{topic}'?" in result.err or "did you mean" in result.err


def test_a_partition_that_does_not_exist_is_named(headrace: Any, topic: str) -> None:
    assert "has no partition 7: its partitions are 0 to 0" in headrace("produce", topic, "x", "-p", "7", code=1).err
