"""Each check of `headrace doctor`, on what a server might tell."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.cli.diagnosis import MOST_OF_A_KIND, Seen, diagnose


def seen(**changes: Any) -> Seen:
    overview = {
        "version": "1.0",
        "health": {"ready": True, "reason": None},
        "storage": {"path": "/data", "usable_bytes": 50, "total_bytes": 100},
        "listeners": {"kafka": "127.0.0.1:9092", "http": "[::1]:8080"},
    }
    return Seen(overview | changes.pop("overview", {}), "1.0", **changes)


def told(given: Seen) -> list[tuple[str, str, str]]:
    return [(finding.severity, finding.check, finding.what) for finding in diagnose(given)]


def test_a_healthy_server_has_no_findings() -> None:
    assert told(seen(metrics=[("process_open_fds", {}, 10.0), ("process_max_fds", {}, 65536.0)], anybody=True)) == []


OFFSETS = {"topic": "t", "partition": "0"}
BEHIND = {"group": "g", **OFFSETS}


def standing(start: float, end: float, committed: float) -> list[Any]:
    return [
        ("headrace_partition_start_offset", OFFSETS, start),
        ("headrace_partition_high_watermark", OFFSETS, end),
        ("headrace_group_committed_offset", BEHIND, committed),
        ("headrace_group_lag", BEHIND, end - committed),
    ]


@pytest.mark.parametrize(
    ("given", "finding"),
    [
        (
            {"metrics": [("headrace_spans_collector_up", {}, 0.0)]},
            ("warning", "tracing", "the collector takes no spans"),
        ),
        (
            {"metrics": [("headrace_spans_collector_up", {}, 1.0), ("headrace_spans_dropped_total", {"reason": "full"}, 5.0)]},
            ("info", "tracing", "5 spans were dropped because more came than the collector took"),
        ),
        ({"overview": {"version": "2.0"}}, ("warning", "version", "the server is Headrace 2.0, this command 1.0")),
        (
            {"overview": {"health": {"ready": False, "reason": "disk full"}}},
            ("error", "writes", "the server refuses writes: disk full"),
        ),
        (
            {"overview": {"storage": {"path": "/data", "usable_bytes": 5, "total_bytes": 100}}},
            ("warning", "disk", "5% of the disk with /data is free"),
        ),
        (
            {"overview": {"storage": {"path": "/data", "usable_bytes": 1, "total_bytes": 100}}},
            ("error", "disk", "1% of the disk with /data is free"),
        ),
        ({"durability": "memory"}, ("warning", "durability", "durability is memory")),
        ({"skew_s": -3.0}, ("warning", "clock", "the server's clock is 3.0 s behind this machine's")),
        ({"skew_s": 90.0}, ("error", "clock", "the server's clock is 90.0 s ahead of this machine's")),
        (
            {"anybody": True, "overview": {"listeners": {"kafka": "0.0.0.0:9092", "http": "127.0.0.1:8080"}}},
            ("error", "guest", "guest has the default password, and others can reach kafka at 0.0.0.0:9092"),
        ),
        (
            {"metrics": [("process_open_fds", {}, 900.0), ("process_max_fds", {}, 1000.0)]},
            ("error", "files", "900 of 1000 files are open"),
        ),
        (
            {"metrics": [("process_open_fds", {}, 9.0), ("process_max_fds", {}, 1024.0)]},
            ("info", "files", "the server may open 1024 files"),
        ),
        (
            {"metrics": standing(100, 200, 60)},
            ("error", "retention", "retention deleted 40 records of 't' before group 'g' read them"),
        ),
        (
            {"metrics": standing(100, 200, 105)},
            ("warning", "retention", "group 'g' is about to lose records of 't': it reads the oldest that are left"),
        ),
        (
            {"routes": [{"name": "r", "state": "disabled", "error": "gone"}]},
            ("error", "routes", "route 'r' is disabled: gone"),
        ),
        (
            {
                "routes": [{"name": "r", "state": "running", "error": None}],
                "metrics": [("headrace_webhook_breaker_open", {"route": "r"}, 1.0)],
            },
            ("warning", "routes", "webhook 'r' pauses because its receiver fails"),
        ),
        (
            {"dead_letters": {"queues": [{"vhost": "/", "queue": "dead", "messages": 2}], "topics": []}},
            ("warning", "dead letters", "queue 'dead' of vhost '/' holds 2 dead letters"),
        ),
        (
            {"dead_letters": {"queues": [], "topics": [{"topic": "d", "records": 1, "kind": "route", "name": "r"}]}},
            ("warning", "dead letters", "topic 'd' holds 1 dead letters of route 'r'"),
        ),
        (
            {
                "metrics": [
                    ("headrace_queue_messages_ready", {"vhost": "/", "queue": "q"}, 1000.0),
                    ("headrace_queue_consumers", {"vhost": "/", "queue": "q"}, 0.0),
                ]
            },
            ("warning", "queues", "queue 'q' of vhost '/' has 1,000 messages and no consumers"),
        ),
        (
            {"metrics": [("headrace_compaction_given_up", {}, 1.0)]},
            ("error", "compaction", "1 partitions are not compacted any more"),
        ),
        (
            {"metrics": [("headrace_archive_failures_total", {}, 3.0)]},
            ("warning", "archive", "the archive could not be written 3 times"),
        ),
        (
            {
                "metrics": [
                    ("headrace_event_loop_delay_seconds_bucket", {"le": "0.1"}, 90.0),
                    ("headrace_event_loop_delay_seconds_bucket", {"le": "+Inf"}, 100.0),
                    ("headrace_event_loop_delay_seconds_count", {}, 100.0),
                ]
            },
            ("warning", "event loop", "10% of the time the server was held up for more than 0.1 s"),
        ),
    ],
)
def test_a_check_finds_what_it_looks_for_and_nothing_else(given: dict[str, Any], finding: tuple[str, str, str]) -> None:
    assert told(seen(**given)) == [finding]


@pytest.mark.parametrize("metrics", [standing(0, 200, 0), standing(100, 200, 180), standing(100, 100, 60)[:3]])
def test_a_group_that_loses_nothing_is_left_in_peace(metrics: list[Any]) -> None:
    assert told(seen(metrics=metrics)) == []


@pytest.mark.parametrize(
    "meant",
    [
        {"streams": {("/", "q")}},
        {"dead_letters": {"queues": [{"vhost": "/", "queue": "q", "messages": 0}], "topics": []}},
    ],
)
def test_a_stream_and_a_queue_of_dead_letters_need_no_consumer(meant: dict[str, Any]) -> None:
    assert told(seen(metrics=[("headrace_queue_messages_ready", {"vhost": "/", "queue": "q"}, 5000.0)], **meant)) == []


def test_the_worst_comes_first_and_many_of_a_kind_are_counted() -> None:
    groups = [{"group": f"g{number}", "lag": 1, "members": 0} for number in range(MOST_OF_A_KIND + 5)]
    found = told(seen(groups=groups, routes=[{"name": "r", "state": "disabled", "error": None}]))
    assert found[0] == ("error", "routes", "route 'r' is disabled")
    assert len(found) == 1 + MOST_OF_A_KIND + 1
    assert found[-1] == ("warning", "groups", "5 more like this")
