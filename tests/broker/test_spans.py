"""Which spans there are, what they say of themselves to others, and how many may wait."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from headrace.broker.setting_defs import SETTINGS
from headrace.broker.settings import Settings
from headrace.broker.spans import MANY, MAX_WAITING, Kind, Spans
from headrace.log.errors import InvalidConfig
from headrace.record.tracing import Context

SAMPLED = Context("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", 1, b"a=1")
RATIO = "headrace.tracing.sample.ratio"


def make(ratio: str = "0") -> Spans:
    return Spans(Settings.from_mapping({RATIO: ratio}), Random(7), iter(range(1000, 10**9, 10)).__next__)


def test_a_span_is_a_child_of_what_it_came_with_and_tells_the_others() -> None:
    span = make().begin(SAMPLED, "publish orders", Kind.SERVER, {"a": 1})
    assert span is not None
    assert span.parent_id == SAMPLED.span_id
    assert span.context.trace_id == SAMPLED.trace_id
    assert span.context.span_id not in (SAMPLED.span_id, "0" * 16)
    assert span.context.state == b"a=1"
    assert span.context.traceparent == f"00-{SAMPLED.trace_id}-{span.context.span_id}-01".encode()


def test_what_is_not_sampled_has_none_even_where_every_trace_is_begun() -> None:
    spans = make("1")
    assert spans.begin(SAMPLED._replace(flags=0), "x", Kind.SERVER, {}, may_begin_trace=True) is None
    assert spans.begin(None, "x", Kind.SERVER, {}) is None


def test_a_share_of_what_has_no_trace_begins_one() -> None:
    assert not [span for _ in range(100) if (span := make("0").begin_publish(None, "s", "d", may_begin_trace=True))]
    spans = make("0.25")
    begun = [span for _ in range(4000) if (span := spans.begin_publish(None, "s", "d", may_begin_trace=True))]
    assert 800 < len(begun) < 1200
    assert len({span.context.trace_id for span in begun}) == len(begun)
    assert all(span.parent_id == "" and span.context.sampled and len(span.context.trace_id) == 32 for span in begun)


def test_the_share_can_be_changed_while_the_server_runs() -> None:
    settings = Settings.from_mapping({})
    spans = Spans(settings)
    settings.set_dynamic({RATIO: "1"}, {})
    assert spans.begin_publish(None, "s", "d", may_begin_trace=True) is not None


def test_where_spans_go_cannot_be_changed_over_the_network() -> None:
    settings = Settings.from_mapping({})
    for name in ("endpoint", "headers", "ca.file", "service.name"):
        with pytest.raises(InvalidConfig, match="dynamically"):
            settings.check_dynamic({f"headrace.tracing.{name}": "http://x:1"}, {})


def test_what_waits_is_bounded_and_the_rest_is_counted() -> None:
    spans = make()
    heard: list[int] = []
    spans.on_waiting = heard.append
    for _ in range(MAX_WAITING + 5):
        span = spans.begin(SAMPLED, "x", Kind.CLIENT, {})
        assert span is not None
        spans.end(span)
    assert (len(spans), spans.dropped["full"]) == (MAX_WAITING, 5)
    assert heard == [1, MANY]
    assert len(spans.take(100)) == 100
    assert len(spans.take(10_000)) == MAX_WAITING - 100


def test_a_block_that_fails_ends_its_span_with_that() -> None:
    spans = make()
    span = spans.begin_publish(SAMPLED, "kafka", "orders", {"b": 2})
    assert span is not None
    with pytest.raises(KeyError), spans.ending(span):
        raise KeyError("x")
    (ended,) = spans.take(1)
    assert (ended.error, ended.start_ns < ended.end_ns) == ("KeyError", True)
    assert ended.attributes == {
        "messaging.system": "kafka",
        "messaging.operation.name": "publish",
        "messaging.operation.type": "send",
        "messaging.destination.name": "orders",
        "b": 2,
    }


def test_the_settings_are_in_the_documentation_with_their_defaults() -> None:
    page = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text()
    rows = dict(re.findall(r"^\| `(headrace\.tracing\.[a-z.]+)` \| ([^|]+) \|", page, re.MULTILINE))
    settings = {name: each for name, each in SETTINGS.items() if name.startswith("headrace.tracing.")}
    assert rows == {name: "none" if each.default is None else str(each.default) for name, each in settings.items()}


def test_a_server_without_a_collector_loads_nothing_of_it() -> None:
    parts = ("headrace.broker.spans", "headrace.otlp", "headrace.broker.routes.hops", "headrace.record.first_trace")
    look = "import sys, headrace.server, headrace.kafka.api.produce, headrace.amqp.publishing; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True, timeout=60).stdout.split()
    assert "headrace.kafka.api.produce" in loaded
    assert not [module for module in loaded if module.startswith(parts)]
