import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.client.kafka.partitioner import partition_for_key


def test_arguments_are_records_and_the_summary_goes_to_stderr(headrace: Any, topic: str) -> None:
    result = headrace("produce", topic, "hello", "world")
    assert result.out == b""
    assert result.err == f"2 records to {topic}, partition 0 to offset 1\n"
    assert headrace("consume", topic, "-e").text == "hello\nworld\n"


def test_quiet_says_nothing(headrace: Any, topic: str) -> None:
    result = headrace("produce", topic, "hello", "--quiet")
    assert (result.out, result.err) == (b"", "")


def test_json_tells_what_went_where(headrace: Any, topic: str) -> None:
    headrace("produce", topic, "a")
    assert headrace("produce", topic, "b", "c", "--json").json == {
        "topic": topic,
        "records": 2,
        "partitions": [{"partition": 0, "records": 2, "first_offset": 1, "last_offset": 2}],
    }


def test_lines_of_stdin_with_keys_headers_and_tombstones(headrace: Any, topic: str) -> None:
    headrace("produce", topic, "-K", ":", "-Z", "-H", "a=1", "-H", "b", stdin="k1:v1\nk2:\n:v3\n")
    records = headrace("consume", topic, "-e", "--json").json_lines
    assert [(r["key"], r["value"]) for r in records] == [("k1", "v1"), ("k2", None), (None, "v3")]
    assert records[0]["headers"] == [{"key": "a", "value": "1"}, {"key": "b", "value": None}]


def test_files_are_read_in_order_and_stdin_is_a_dash(headrace: Any, topic: str, tmp_path: Path) -> None:
    first, last = tmp_path / "first", tmp_path / "last"
    first.write_text("1\n2\n")
    last.write_text("4")
    headrace("produce", topic, "-F", str(first), "-F", "-", "-F", str(last), stdin="3\n")
    assert headrace("consume", topic, "-e").lines == ["1", "2", "3", "4"]


def test_a_whole_file_can_be_one_record(headrace: Any, topic: str, tmp_path: Path) -> None:
    content = bytes(range(256)) * 10
    (tmp_path / "blob").write_bytes(content)
    headrace("produce", topic, "--whole", "-F", str(tmp_path / "blob"))
    assert headrace("consume", topic, "-e", "-f", "%s").out == content


def test_another_delimiter(headrace: Any, topic: str) -> None:
    headrace("produce", topic, "-D", "\\0", stdin=b"a\nb\0c\0")
    assert [r["value"] for r in headrace("consume", topic, "-e", "--json").json_lines] == ["a\nb", "c"]


@pytest.mark.parametrize(("encoding", "line"), [("hex", "6b:00ff"), ("base64", "aw==:AP8=")])
def test_binary_input_and_output(headrace: Any, topic: str, encoding: str, line: str) -> None:
    headrace("produce", topic, "-f", encoding, "-K", ":", stdin=line)
    assert headrace("consume", topic, "-e", "-f", "%k%s").out == b"k\x00\xff"
    assert headrace("consume", topic, "-e", "-f", encoding, "-K", ":").text == line + "\n"


def test_json_lines_carry_every_field(headrace: Any, topic: str) -> None:
    record = {"key": "k", "value": {"n": 1}, "headers": {"h": "v"}, "timestamp": 1_700_000_000_000}
    headrace("topic", "alter", topic, "-c", "message.timestamp.before.max.ms=9223372036854775807")
    headrace("produce", topic, "-f", "json", stdin=json.dumps(record))
    (found,) = headrace("consume", topic, "-e", "--json").json_lines
    assert (found["key"], found["value"], found["timestamp"]) == ("k", '{"n":1}', 1_700_000_000_000)
    assert found["headers"] == [{"key": "h", "value": "v"}]
    assert found["timestamp_type"] == "create"


def test_what_was_consumed_as_json_can_be_produced_elsewhere_unchanged(headrace: Any, topic: str, wide: str) -> None:
    headrace("produce", topic, "-f", "hex", "-K", ":", "-H", "h=v", stdin="6b:ff\n6c:6d\n")
    dump = headrace("consume", topic, "-e", "--json").out
    headrace("produce", wide, "-f", "json", stdin=dump)
    place = ("topic", "partition", "offset")
    before = [{k: v for k, v in json.loads(line).items() if k not in place} for line in dump.splitlines()]
    copied = headrace("consume", wide, "-e", "--json").json_lines
    after = [{k: v for k, v in record.items() if k not in place} for record in copied]
    assert sorted(before, key=str) == sorted(after, key=str)


def test_bad_input_names_its_line_and_everything_before_it_is_written(headrace: Any, topic: str) -> None:
    lines = "".join(f'{{"value": "{number}"}}\n' for number in range(50)) + "oops\n" + '{"value": "never"}\n'
    result = headrace("produce", topic, "-f", "json", stdin=lines, code=1)
    assert result.err.startswith("headrace: stdin, line 51: not JSON")
    assert result.err.endswith("; 50 records were acknowledged\n")
    assert len(headrace("consume", topic, "-e").lines) == 50


def test_the_key_picks_the_partition_as_in_every_kafka_client(headrace: Any, wide: str) -> None:
    keys = [f"key-{number}" for number in range(40)]
    headrace("produce", wide, "-K", ":", stdin="".join(f"{key}:x\n" for key in keys))
    for record in headrace("consume", wide, "-e", "--json").json_lines:
        assert record["partition"] == partition_for_key(record["key"].encode(), 4)


def test_a_fixed_key_and_an_explicit_partition(headrace: Any, wide: str) -> None:
    headrace("produce", wide, "x", "-k", "key", "-p", "3")
    (record,) = headrace("consume", wide, "-e", "--json").json_lines
    assert (record["key"], record["partition"]) == ("key", 3)


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("acks", ["1", "all"])
def test_every_compression_and_acknowledgement(headrace: Any, topic: str, compression: str, acks: str) -> None:
    lines = [f"line {number} " + "x" * 50 for number in range(500)]
    headrace("produce", topic, "-z", compression, "--acks", acks, stdin="\n".join(lines))
    assert headrace("consume", topic, "-e").lines == lines


def test_without_acknowledgement_offsets_are_unknown(headrace: Any, topic: str, eventually: Callable[..., None]) -> None:
    written = headrace("produce", topic, "a", "b", "--acks", "0", "--json").json
    assert written["partitions"] == [{"partition": 0, "records": 2, "first_offset": None, "last_offset": None}]
    eventually(lambda: headrace("consume", topic, "-e").lines == ["a", "b"])


def test_a_timestamp_of_ones_own(headrace: Any, topic: str) -> None:
    headrace("produce", topic, "x", "-T", "10m")
    assert headrace("consume", topic, "--from", "11m", "--to", "9m").lines == ["x"]
    assert headrace("consume", topic, "-e", "--from", "9m").lines == []


def test_a_record_that_is_too_large_is_refused_with_the_setting_to_change(headrace: Any, topic: str) -> None:
    headrace("topic", "alter", topic, "-c", "max.message.bytes=1000")
    result = headrace("produce", topic, "--json", stdin="small\n" + "x" * 5000 + "\n", code=1)
    assert result.error["code"] == "MESSAGE_TOO_LARGE"


def test_a_batch_that_is_too_large_is_split(headrace: Any, topic: str) -> None:
    headrace("topic", "alter", topic, "-c", "max.message.bytes=2000")
    lines = [f"{number:0100}" for number in range(100)]
    headrace("produce", topic, stdin="\n".join(lines))
    assert headrace("consume", topic, "-e").lines == lines


def test_a_compacted_topic_refuses_records_without_a_key(headrace: Any, topic: str) -> None:
    headrace("topic", "alter", topic, "-c", "cleanup.policy=compact")
    result = headrace("produce", topic, "x", "--json", code=1)
    assert result.error["code"] == "INVALID_RECORD"
    assert "0 records were acknowledged" in result.error["message"]


def test_an_unknown_topic_can_be_made_on_the_way(headrace: Any, topic: str) -> None:
    name = topic.replace("topic", "made")
    assert "--create makes it" in headrace("produce", name, "x", code=1).err
    headrace("produce", name, "x", "--create")
    headrace("produce", name, "y", "--create")
    assert sorted(headrace("consume", name, "-e").lines) == ["x", "y"]


def test_a_missing_file_is_named(headrace: Any, topic: str, tmp_path: Path) -> None:
    result = headrace("produce", topic, "-F", str(tmp_path / "nowhere"), code=1)
    assert "nowhere: No such file or directory" in result.err


def test_many_records_arrive_once_and_in_order(headrace: Any, topic: str) -> None:
    lines = [f"record {number} {'x' * 80}" for number in range(20_000)]
    written = headrace("produce", topic, "--json", stdin="\n".join(lines)).json
    assert written["records"] == len(lines)
    assert headrace("consume", topic, "-e").lines == lines


def test_lines_of_a_pipe_are_written_as_they_come(start: Callable[..., Any], topic: str) -> None:
    reader = start("consume", topic)
    writer = start("produce", topic)
    for number in range(3):
        writer.write(b"%d\n" % number)
        assert reader.line() == str(number)
    assert writer.end()[0] == 0


def test_ctrl_c_says_what_was_acknowledged(start: Callable[..., Any], topic: str) -> None:
    reader = start("consume", topic)
    writer = start("produce", topic)
    for line in ("one", "two"):  # the second is sent when the first has been acknowledged
        writer.write(f"{line}\n".encode())
        assert reader.line() == line
    code, err = writer.end(signal.SIGINT)
    assert code == 130
    assert err in (
        "Interrupted: 2 records were acknowledged.\n",
        "Interrupted: 1 record was acknowledged, 1 record not.\n",
    )
