"""`headrace stream` against a running server."""

from __future__ import annotations

import json
import os
import queue
import signal
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from headrace.cli import stream_putting
from headrace.client.kinesis.api import Entry, Kinesis
from headrace.client.kinesis.signing import Credentials

FIRST, LAST = "0", str(2**128 - 1)


@pytest.fixture
def name() -> str:
    return f"stream-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def stream(kinesis: Any, name: str) -> str:
    """A new stream with one shard."""
    kinesis("stream", "create", name)
    return name


@pytest.fixture
def wide(kinesis: Any, name: str) -> str:
    """One with four."""
    kinesis("stream", "create", name, "--shards", "4")
    return name


def data(kinesis: Any, stream: str, *options: str) -> list[str]:
    return [record["data"] for record in kinesis("stream", "get", stream, "--json", *options).json_lines]


def shard(number: int) -> str:
    return f"shardId-{number:012d}"


# -- list, create, describe, delete


def test_a_stream_is_created_once(kinesis: Any, name: str) -> None:
    assert kinesis("stream", "create", name, "--shards", "2").lines == [f"{name}: created with 2 shards"]
    result = kinesis("stream", "create", name, "--json", code=1)
    assert "already exists" in result.error["message"]
    again = kinesis("stream", "create", name, "--if-not-exists", "--json").json["streams"][0]
    assert (again["created"], again["shards"]) == (False, 2)
    assert again["arn"] == f"arn:aws:kinesis:us-east-1:123456789012:stream/{name}"


def test_a_stream_has_the_settings_that_it_was_created_with(kinesis: Any, name: str) -> None:
    kinesis("stream", "create", name, "-n", "3", "--retention-hours", "48", "--tag", "team=shop", "--tag", "empty=")
    shown = kinesis("stream", "describe", name, "--json").json["streams"][0]
    assert (shown["status"], shown["mode"]) == ("ACTIVE", "provisioned")
    assert (shown["open_shards"], shown["retention_hours"]) == (3, 48)
    assert shown["tags"] == {"empty": "", "team": "shop"}
    assert shown["consumers"] == []
    text = kinesis("stream", "describe", name).text
    assert "shards      3 open" in text
    assert "retention   48 hours" in text


def test_a_stream_on_demand_leaves_the_shards_to_the_server(kinesis: Any, name: str) -> None:
    kinesis("stream", "create", name, "--on-demand")
    shown = kinesis("stream", "describe", name, "--json").json["streams"][0]
    assert (shown["mode"], shown["open_shards"]) == ("on-demand", 4)
    assert kinesis("stream", "mode", name, "provisioned").lines == [f"{name}: provisioned"]
    assert kinesis("stream", "mode", name, "on-demand", "--json").json == {"stream": name, "mode": "on-demand"}
    assert "leave out --shards" in kinesis("stream", "create", name, "--on-demand", "--shards", "2", code=2).err


def test_list_takes_a_pattern(kinesis: Any, stream: str) -> None:
    other = f"{stream}-other"
    kinesis("stream", "create", other)
    rows = kinesis("stream", "list", stream, "--json").json["streams"]
    assert [(row["name"], row["status"], row["mode"]) for row in rows] == [
        (stream, "ACTIVE", "provisioned"),
        (other, "ACTIVE", "provisioned"),
    ]
    assert kinesis("stream", "list", f"^{stream}$").lines[1].split()[:3] == [stream, "ACTIVE", "provisioned"]
    assert kinesis("stream", "list", "nothing-like-this").err == "No such streams.\n"


def test_streams_of_another_region_are_apart(kinesis: Any, stream: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert kinesis("stream", "list", stream, "--region", "eu-west-1").err == "No such streams.\n"
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    made = kinesis("stream", "create", stream, "--json").json["streams"][0]
    assert made["arn"] == f"arn:aws:kinesis:eu-west-1:123456789012:stream/{stream}"
    kinesis("stream", "put", stream, "there")
    assert data(kinesis, stream) == ["there"]
    assert data(kinesis, stream, "--region", "us-east-1") == []


def test_an_access_key_of_twelve_digits_is_an_account_of_its_own(kinesis: Any, stream: str) -> None:
    as_other = ("--access-key", "000011112222", "--secret-key", "any")
    made = kinesis("stream", "create", stream, "--json", *as_other).json["streams"][0]
    assert made["arn"] == f"arn:aws:kinesis:us-east-1:000011112222:stream/{stream}"
    kinesis("stream", "delete", stream, *as_other)
    kinesis("stream", "describe", stream)


def test_a_mistyped_name_is_answered_with_the_one_that_was_meant(kinesis: Any, stream: str) -> None:
    for verb in (("describe",), ("delete",), ("shards",), ("retention",), ("scale", "2"), ("put", "x"), ("get",), ("tail",)):
        result = kinesis("stream", verb[0], f"{stream}x", *verb[1:], code=1)
        assert result.err == f"headrace: there is no stream '{stream}x' in region us-east-1; did you mean '{stream}'?\n", verb
    result = kinesis("stream", "tags", "list", f"{stream}x", "--json", code=1)
    assert result.error["code"] == "ResourceNotFoundException"


def test_delete_takes_the_stream_and_its_records(kinesis: Any, stream: str) -> None:
    kinesis("stream", "put", stream, "a")
    assert kinesis("stream", "delete", stream).lines == [f"{stream}: deleted"]
    kinesis("stream", "delete", stream, code=1)
    gone = kinesis("stream", "delete", stream, "--if-exists", "--json").json
    assert gone == {"streams": [{"name": stream, "deleted": False}]}
    kinesis("stream", "create", stream)
    assert data(kinesis, stream) == []


def test_a_stream_with_consumers_is_deleted_only_with_them(kinesis: Any, stream: str) -> None:
    kinesis("stream", "consumers", "register", stream, "app")
    assert "--with-consumers deletes those as well" in kinesis("stream", "delete", stream, code=1).err
    kinesis("stream", "delete", stream, "--with-consumers")


def test_a_person_at_a_terminal_is_asked_before_records_are_deleted(
    kinesis: Any, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr("headrace.cli.managing._at_a_terminal", lambda: True)
    monkeypatch.setattr("typer.confirm", lambda text, **_: asked.append(text))
    assert "nothing was changed" in kinesis("stream", "delete", stream, code=1).err
    assert asked == [f"Delete stream '{stream}' with all records?"]
    kinesis("stream", "delete", stream, "--yes")


def test_retention_is_shown_raised_and_lowered(kinesis: Any, stream: str) -> None:
    assert kinesis("stream", "retention", stream).lines == [f"{stream}: 24 hours"]
    assert kinesis("stream", "retention", stream, "72").lines == [f"{stream}: 72 hours, before 24"]
    lowered = kinesis("stream", "retention", stream, "30", "--json").json
    assert lowered == {"stream": stream, "retention_hours": 30, "retention_hours_before": 72}
    kinesis("stream", "retention", stream, "1", code=2)


# -- shards, split, merge, scale


def test_shards_share_the_hash_keys(kinesis: Any, wide: str) -> None:
    shards = kinesis("stream", "shards", wide, "--json").json["shards"]
    assert [one["shard"] for one in shards] == [shard(n) for n in range(4)]
    assert (shards[0]["first_hash_key"], shards[-1]["last_hash_key"]) == (FIRST, LAST)
    assert all(int(one["last_hash_key"]) + 1 == int(next_["first_hash_key"]) for one, next_ in pairwise(shards))
    lines = kinesis("stream", "shards", wide).lines
    assert lines[0].split()[:3] == ["SHARD", "STATE", "SHARE"]
    assert lines[1].split()[:3] == [shard(0), "open", "25.00%"]


def test_a_split_closes_a_shard_and_opens_two(kinesis: Any, stream: str) -> None:
    kinesis("stream", "put", stream, "before", "-k", "a")
    done = kinesis("stream", "split", stream, "0", "--json").json
    assert (done["closed"], done["open_shards"]) == ([shard(0)], 2)
    assert [(one["shard"], one["parent"], one["first_hash_key"]) for one in done["opened"]] == [
        (shard(1), shard(0), FIRST),
        (shard(2), shard(0), str(2**127)),
    ]
    listed = kinesis("stream", "shards", stream, "--json").json["shards"]
    assert [one["open"] for one in listed] == [False, True, True]
    assert listed[0]["last_sequence_number"] is not None
    assert [one["shard"] for one in kinesis("stream", "shards", stream, "--open", "--json").json["shards"]] == [
        shard(1),
        shard(2),
    ]


def test_a_split_at_a_hash_key_begins_the_second_child_there(kinesis: Any, stream: str) -> None:
    done = kinesis("stream", "split", stream, shard(0), "--at", "1000", "--json").json
    assert [(one["first_hash_key"], one["last_hash_key"]) for one in done["opened"]] == [(FIRST, "999"), ("1000", LAST)]
    assert "is not a hash key" in kinesis("stream", "split", stream, "1", "--at", "x", code=2).err


def test_a_merge_makes_one_of_two_neighbours(kinesis: Any, wide: str) -> None:
    text = kinesis("stream", "merge", wide, "1", "2").text
    assert f"{shard(4)}: open, 50.00% of the hash keys, from {shard(1)} and {shard(2)}" in text
    assert f"{wide}: 3 open shards, 2 closed by this" in text
    assert "are not adjacent" in kinesis("stream", "merge", wide, "0", "3", code=1).err
    assert "has no shard" in kinesis("stream", "merge", wide, "0", "77", code=1).err


def test_scale_splits_and_merges_to_a_number(kinesis: Any, wide: str) -> None:
    assert kinesis("stream", "scale", wide, "8", "--json").json["open_shards"] == 8
    assert kinesis("stream", "scale", wide, "4", "--json").json["open_shards"] == 4
    result = kinesis("stream", "scale", wide, "100", "--json", code=1)  # more than twice as many at once
    assert result.error["code"] in ("InvalidArgumentException", "LimitExceededException")


# -- put, get, tail


def test_put_says_where_the_records_went(kinesis: Any, stream: str) -> None:
    said = kinesis("stream", "put", stream, "one", "two", "-k", "ada", "--json").json
    assert (said["stream"], said["records"]) == (stream, 2)
    [where] = said["shards"]
    assert (where["shard"], where["records"]) == (shard(0), 2)
    assert int(where["first_sequence_number"]) < int(where["last_sequence_number"])
    assert kinesis("stream", "put", stream, "three").err.startswith(f"1 record to {stream}, {shard(0)} to ")


def test_lines_of_stdin_are_records_with_their_keys(kinesis: Any, stream: str) -> None:
    kinesis("stream", "put", stream, "-K", ":", stdin=b"ada:1\nbob:2:3\r\n")
    assert kinesis("stream", "get", stream, "-K", " = ").lines == ["ada = 1", "bob = 2:3"]
    assert kinesis("stream", "get", stream, "--key", "bob").lines == ["2:3"]
    assert kinesis("stream", "get", stream, "--grep", "^1$").lines == ["1"]


def test_records_without_a_key_are_spread(kinesis: Any, wide: str) -> None:
    said = kinesis("stream", "put", wide, "--json", stdin="\n".join(map(str, range(200)))).json
    assert said["records"] == 200
    assert len(said["shards"]) == 4


def test_an_explicit_hash_key_chooses_the_shard(kinesis: Any, wide: str) -> None:
    said = kinesis("stream", "put", wide, "x", "-k", "ada", "--explicit-hash-key", LAST, "--json").json
    assert [one["shard"] for one in said["shards"]] == [shard(3)]
    assert kinesis("stream", "get", wide, "--shard", "3").lines == ["x"]
    assert kinesis("stream", "get", wide, "--shard", "0").lines == []
    assert "decimal number" in kinesis("stream", "put", wide, "x", "--explicit-hash-key", "-1", code=2).err


def test_files_go_whole_or_by_lines_and_in_several_encodings(kinesis: Any, stream: str, tmp_path: Path) -> None:
    file = tmp_path / "data"
    file.write_bytes(b"1\n2\n")
    kinesis("stream", "put", stream, "-F", str(file), "-k", "a")
    kinesis("stream", "put", stream, "-F", str(file), "--whole", "-k", "a")
    kinesis("stream", "put", stream, "ff00", "-f", "hex", "-k", "a")
    kinesis("stream", "put", stream, "/w==", "-f", "base64", "-k", "a")
    assert kinesis("stream", "get", stream, "-f", "hex").lines == ["31", "32", "310a320a", "ff00", "ff"]
    assert kinesis("stream", "get", stream, "-D", "").out == b"121\n2\n\xff\x00\xff"
    assert "not hexadecimal" in kinesis("stream", "put", stream, "xy", "-f", "hex", code=1).err
    assert "No such file" in kinesis("stream", "put", stream, "-F", str(tmp_path / "none"), code=1).err


def test_what_get_prints_as_json_put_reads_back(kinesis: Any, stream: str) -> None:
    lines = ['{"partition_key": "ada", "data": "väl"}', '{"partition_key": "bob", "data_base64": "/w=="}', '{"data": {"a": 1}}']
    kinesis("stream", "put", stream, "-f", "json", stdin="\n".join(lines))
    printed = kinesis("stream", "get", stream, "--json")
    first, second, third = printed.json_lines
    assert set(first) == {"shard", "sequence_number", "partition_key", "arrived", "data"}
    assert (first["partition_key"], first["data"]) == ("ada", "väl")
    assert (second["partition_key"], second["data_base64"]) == ("bob", "/w==")
    assert json.loads(third["data"]) == {"a": 1}
    kinesis("stream", "put", stream, "-f", "json", stdin=printed.out)
    again = kinesis("stream", "get", stream, "--json").json_lines
    assert [(one["partition_key"], one.get("data"), one.get("data_base64")) for one in again[3:]] == [
        (one["partition_key"], one.get("data"), one.get("data_base64")) for one in again[:3]
    ]


def test_a_bad_line_ends_the_run_and_what_stood_before_it_is_put(kinesis: Any, stream: str) -> None:
    result = kinesis("stream", "put", stream, "-f", "json", stdin='{"data": "1"}\n{"data": "2"}\nnonsense\n', code=1)
    assert result.err == "headrace: stdin, line 3: not JSON; 2 records were put\n"
    assert sorted(data(kinesis, stream)) == ["1", "2"]


def test_a_key_is_text(kinesis: Any, stream: str) -> None:
    assert "not UTF-8" in kinesis("stream", "put", stream, "x", "-k", "\udcff", code=2).err
    assert "line 1: the key is not UTF-8" in kinesis("stream", "put", stream, "-K", ":", stdin=b"\xff:x", code=1).err
    assert "surrogate pair" in kinesis("stream", "put", stream, "-f", "json", stdin=b'{"partition_key": "\\ud800"}', code=1).err
    kinesis("stream", "put", stream, "x", "-k", "κλειδί 🚰")
    assert kinesis("stream", "get", stream, "-K", "=").lines == ["κλειδί 🚰=x"]


def test_what_the_server_refuses_is_said_in_its_words(kinesis: Any, stream: str) -> None:
    result = kinesis("stream", "put", stream, "x", "-k", "k" * 257, "--json", code=1)
    assert result.error["code"] == "ValidationException"
    assert "length less than or equal to 256" in result.error["message"]
    assert result.error["message"].endswith("0 records were put, 1 record not")


def test_more_than_one_request_takes_is_put_in_several(kinesis: Any, stream: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_putting, "BATCH_RECORDS", 7)
    numbers = [str(n) for n in range(50)]
    assert kinesis("stream", "put", stream, "-k", "a", "--json", stdin="\n".join(numbers)).json["records"] == 50
    assert data(kinesis, stream) == numbers


def test_large_records_go_in_requests_that_they_fit_into(kinesis: Any, stream: str, tmp_path: Path) -> None:
    files = []
    for number in range(9):
        file = tmp_path / str(number)
        file.write_bytes(bytes([number]) * 1_000_000)
        files += ["-F", str(file)]
    kinesis("stream", "put", stream, "--whole", "-k", "a", *files)
    assert kinesis("stream", "get", stream, "-D", "").out == b"".join(bytes([number]) * 1_000_000 for number in range(9))


def test_get_begins_at_a_sequence_number_or_behind_it(kinesis: Any, wide: str) -> None:
    kinesis("stream", "put", wide, "1", "2", "3", "-k", "ada")
    first, second, _ = kinesis("stream", "get", wide, "--json").json_lines
    here = ("--shard", first["shard"])
    assert data(kinesis, wide, "--from", second["sequence_number"], *here) == ["2", "3"]
    assert data(kinesis, wide, "--after", second["sequence_number"], *here) == ["3"]
    assert data(kinesis, wide, "--from", second["sequence_number"], "-n", "1", *here) == ["2"]
    assert "of one shard" in kinesis("stream", "get", wide, "--from", second["sequence_number"], code=2).err
    assert "not a sequence number" in kinesis("stream", "get", wide, "--after", "x", code=2).err


def test_get_begins_at_a_time(kinesis: Any, stream: str) -> None:
    kinesis("stream", "put", stream, "1", "-k", "a")
    [record] = kinesis("stream", "get", stream, "--json").json_lines
    assert data(kinesis, stream, "--from", f"@{record['arrived']}") == ["1"]
    assert data(kinesis, stream, "--from", "5m") == ["1"]
    assert data(kinesis, stream, "--from", "latest") == []
    assert "is not a time" in kinesis("stream", "get", stream, "--from", "yesterday-ish", code=2).err


def test_get_reads_parents_before_children(kinesis: Any, stream: str) -> None:
    kinesis("stream", "put", stream, "1", "2", "-k", "ada")
    kinesis("stream", "split", stream, "0")
    kinesis("stream", "put", stream, "3", "-k", "ada")
    kinesis("stream", "merge", stream, "1", "2")
    kinesis("stream", "put", stream, "4", "-k", "ada")
    kinesis("stream", "scale", stream, "2")
    kinesis("stream", "put", stream, "5", "-k", "ada")
    assert data(kinesis, stream) == ["1", "2", "3", "4", "5"]
    assert data(kinesis, stream, "--from", "5m") == ["1", "2", "3", "4", "5"]
    assert data(kinesis, stream, "--shard", "0") == ["1", "2"]
    assert "has no shard" in kinesis("stream", "get", stream, "--shard", "9", code=1).err
    assert "is not a shard" in kinesis("stream", "get", stream, "--shard", "x", code=2).err


def test_what_a_kafka_client_wrote_can_be_read(headrace: Any, kinesis: Any, topic: str) -> None:
    headrace("produce", topic, "-K", ":", stdin="ada:1\n")
    headrace("produce", topic, "no key")
    assert kinesis("stream", "get", topic, "-K", ":").lines == ["ada:1", "-:no key"]


def test_tail_prints_what_is_put_from_now_on_and_follows_a_split(
    kinesis: Any, stream: str, start: Callable[..., Any], eventually: Callable[..., None]
) -> None:
    kinesis("stream", "put", stream, "before")
    running = start("stream", "tail", stream, "-K", ":")
    seen: list[str] = []

    def first_seen() -> bool:  # it says nothing when it has begun
        kinesis("stream", "put", stream, "ping", "-k", "p")
        try:
            seen.append(running.line(timeout_s=0.5))
        except queue.Empty:
            return False
        return True

    eventually(first_seen)
    kinesis("stream", "split", stream, "0")
    kinesis("stream", "put", stream, "after", "-k", "ada")
    while seen[-1] == "p:ping":
        seen.append(running.line())
    assert seen[-1] == "ada:after"
    code, err = running.end(signal.SIGINT)
    assert (code, err) == (130, f"{len(seen)} records\n")


def test_a_tail_has_each_key_in_order_through_many_reshards(
    kinesis: Any, wide: str, start: Callable[..., Any], headrace_shared_server: Any
) -> None:
    running = start("stream", "get", wide, "--follow", "--json")
    rounds, keys = 40, [f"key-{n}" for n in range(12)]

    def put() -> None:
        with Kinesis(headrace_shared_server.kinesis, Credentials("any", "thing")) as client:
            for number in range(rounds):
                results = client.put_records(wide, [Entry(b"%d" % number, key) for key in keys])
                assert not [one for one in results if one.error]

    with ThreadPoolExecutor(1) as pool:
        putting = pool.submit(put)
        for count in ("8", "4", "2", "3", "6"):
            kinesis("stream", "scale", wide, count)
        putting.result(60)
    found: dict[str, list[int]] = {}
    for _ in range(rounds * len(keys)):
        record = json.loads(running.line() or "")
        found.setdefault(record["partition_key"], []).append(int(record["data"]))
    assert found == {key: list(range(rounds)) for key in keys}


def test_a_tail_of_one_shard_ends_when_that_is_closed(kinesis: Any, stream: str, start: Callable[..., Any]) -> None:
    kinesis("stream", "put", stream, "1")
    running = start("stream", "get", stream, "--shard", "0", "--follow")
    assert running.line() == "1"
    kinesis("stream", "split", stream, "0")
    assert running.line() is None
    assert running.end() == (0, f"{stream}: the shard is closed\n")


def test_lines_go_out_as_they_come(
    kinesis: Any, stream: str, start: Callable[..., Any], eventually: Callable[..., None]
) -> None:
    running = start("stream", "put", stream)
    running.write(b"one\n")
    eventually(lambda: data(kinesis, stream) == ["one"])
    running.write(b"two\n")
    code, err = running.end()
    assert code == 0
    assert err.startswith(f"2 records to {stream}")


# -- consumers, tags


def test_consumers_are_registered_listed_and_deregistered(kinesis: Any, stream: str) -> None:
    assert kinesis("stream", "consumers", "list", stream).err == f"{stream}: no consumers\n"
    made = kinesis("stream", "consumers", "register", stream, "one", "two", "--json").json["consumers"]
    assert [(one["name"], one["status"]) for one in made] == [("one", "ACTIVE"), ("two", "ACTIVE")]
    assert made[0]["arn"].startswith(f"arn:aws:kinesis:us-east-1:123456789012:stream/{stream}/consumer/one")
    listed = kinesis("stream", "consumers", "list", stream, "--json").json["consumers"]
    assert sorted(listed, key=lambda one: one["name"]) == made
    assert kinesis("stream", "consumers", "deregister", stream, "one").lines == ["one: deregistered"]
    assert [line.split()[0] for line in kinesis("stream", "consumers", "list", stream).lines[1:]] == ["two"]
    result = kinesis("stream", "consumers", "deregister", stream, "one", "--json", code=1)
    assert result.error["code"] == "ResourceNotFoundException"


def test_tags_are_set_listed_and_removed(kinesis: Any, stream: str) -> None:
    assert kinesis("stream", "tags", "list", stream).err == f"{stream}: no tags\n"
    assert kinesis("stream", "tags", "set", stream, "team=shop", "cost=a=b", "--json").json["tags"] == {
        "cost": "a=b",
        "team": "shop",
    }
    assert kinesis("stream", "tags", "set", stream, "team=bank").lines[1:] == ["cost  a=b", "team  bank"]
    assert kinesis("stream", "tags", "remove", stream, "cost").lines[1:] == ["team  bank"]
    assert "use name=value" in kinesis("stream", "tags", "set", stream, "team", code=2).err


# -- the endpoint


def test_a_server_that_is_not_there_is_named(offline: Any) -> None:
    result = offline("stream", "list", "--endpoint", "http://127.0.0.1:1", "--json", code=1)
    assert result.error == {
        "message": "nothing listens at http://127.0.0.1:1: start 'headrace serve', or name another server with --endpoint",
        "code": None,
    }


def test_a_server_that_speaks_something_else_is_named(offline: Any, headrace_shared_server: Any) -> None:
    result = offline("stream", "list", "--endpoint", headrace_shared_server.http, code=1)
    assert "does not serve Kinesis" in result.err


def test_awss_own_variable_names_the_endpoint(kinesis: Any, stream: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_KINESIS", os.environ["HEADRACE_KINESIS"])
    monkeypatch.delenv("HEADRACE_KINESIS")
    kinesis("stream", "describe", stream)


def test_what_a_shard_refuses_for_the_moment_is_put_again(
    kinesis: Any, name: str, headrace_factory: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = headrace_factory(settings={"kinesis.enforce.limits": True})  # a thousand records a second
    monkeypatch.setenv("HEADRACE_KINESIS", server.kinesis)
    kinesis("stream", "create", name)
    said = kinesis("stream", "put", name, "--json", stdin="\n".join(map(str, range(1600)))).json
    assert said["records"] == 1600
    assert sorted(map(int, data(kinesis, name))) == list(range(1600))
    monkeypatch.setattr(stream_putting, "_FIRST_PAUSE_S", 1000.0)  # longer than anybody waits
    result = kinesis("stream", "put", name, stdin="\n".join(map(str, range(3000))), code=1)
    assert "ProvisionedThroughputExceededException" in result.err
    assert "records were put" in result.err


def test_requests_are_signed_with_the_credentials_of_the_command_line_or_the_environment(
    kinesis: Any, name: str, headrace_factory: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = headrace_factory(settings={"kinesis.credentials": "AKIDALICE:one"})
    monkeypatch.setenv("HEADRACE_KINESIS", server.kinesis)
    assert kinesis("stream", "list", "--json", code=1).error["code"] == "UnrecognizedClientException"
    kinesis("stream", "create", name, "--access-key", "AKIDALICE", "--secret-key", "one")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDALICE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "one")
    kinesis("stream", "put", name, "väl")
    assert data(kinesis, name) == ["väl"]
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "two")
    assert kinesis("stream", "list", "--json", code=1).error["code"] == "InvalidSignatureException"
