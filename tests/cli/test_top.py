"""What `headrace top` draws, and that it fits into a terminal."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console

from headrace.cli.top import Look, drawn

RATES = {"connections": 1, "requests_per_s": 2.0, "bytes_in_per_s": 3.0, "bytes_out_per_s": 4.0}


def look(many: int) -> Look:
    names = ("topics", "partitions", "groups", "queues", "messages", "exchanges", "streams", "lag")
    totals: dict[str, int] = dict.fromkeys(names, many)
    overview: dict[str, Any] = {
        "version": "1.0",
        "uptime_s": 5.0,
        "protocols": dict.fromkeys(("amqp", "http", "kafka", "kinesis", "udp", "webhook", "websocket"), RATES),
        "totals": totals | {"routes": 1},
        "lag": [{"group": f"group-{number}", "lag": number, "members": 0} for number in range(many)],
        "storage": {"path": "/data", "total_bytes": 100, "usable_bytes": 50, "log_bytes": 10},
        "health": {"ready": True, "reason": None},
        "attention": [{"severity": "warning", "text": f"wrong {number} " + "x" * 300, "link": "/"} for number in range(many)],
    }
    topics = [{"name": f"topic-{number}", "records": 5, "size_bytes": 6, "partitions": 1} for number in range(many)]
    queues = [{"vhost": "/", "name": f"queue-{number}", "messages": 7, "consumers": 0} for number in range(many)]
    return Look(overview, topics, queues)


def lines(shown: Any, width: int) -> list[str]:
    console = Console(width=width, color_system=None, highlight=False)
    with console.capture() as captured:
        console.print(shown)
    return captured.get().splitlines()


@pytest.mark.parametrize(("width", "height"), [(80, 24), (100, 30), (200, 60)])
def test_it_fills_a_terminal_and_no_more(width: int, height: int) -> None:
    found = lines(drawn("http://here", look(many=50), height=height), width)
    assert height - 4 <= len(found) <= height
    text = "\n".join(found)
    for word in ("takes writes", "wrong 0", "wrong 2", "topic-0", "topic-1", "group-0", "queue-0", "queue-1"):
        assert word in text
    assert len([line for line in found if "group-0" in line and "queue-0" in line]) == 1  # side by side


def test_where_there_is_no_terminal_it_is_as_long_as_it_is() -> None:
    text = "\n".join(lines(drawn("http://here", look(many=20)), 120))
    assert "wrong 19" in text
    assert "group-9" in text


def test_one_of_something_is_not_many() -> None:
    text = "\n".join(lines(drawn("http://here", look(many=1)), 120))
    assert "1 topic, 1 partition, 1 group, 1 record behind" in text
    assert "1 queue with 1 message, 1 exchange, 1 stream, 1 route" in text
