"""The same walk through the API as RabbitMQ's: same statuses, same errors, and every field that has a meaning here.

`rabbitmq_answers.json` holds what RabbitMQ 3.10.8 answered; `scenario` says how to take that down from another one.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.http.management.scenario import AFTER, BEFORE, summary, walk

from headrace.testing import HeadraceServer

RECORDED = json.loads((Path(__file__).parent / "rabbitmq_answers.json").read_text())

# What is left out, and why.
ABSENT = re.compile(
    r"garbage_collection|reductions|backing_queue_status|cowboy_opts|ssl_opts|socket_opts\.|pending_raft|\.erlang"  # Erlang
    r"|slave|_ram\b|paged_out|_dlx|open_files|readers|\.memory\b|\.memory\."  # how RabbitMQ keeps messages, and in what
    r"|head_message_timestamp|consumer_(capacity|utilisation)|idle_since|message_bytes_(persistent|unack)"  # not measured
    r"|_details\.(avg|samples)|(recv|send)_cnt|churn_rates\.(channel|queue)"
    r"|message_stats\.(confirm|disk_|get\b|get_|deliver_no_ack|return_unroutable|drop_unroutable|redeliver)"
    r"|(peer_cert|ssl)_"  # no TLS
    r"|user_who_performed_action|product_version|uaa|single_active_consumer_ctag|javascript"
)
NODE = re.compile(r"\[?\]?\.(io_|gc_|mnesia|msg_store|queue_index|context_switches|connection_|channel_|queue_|ra_|metrics_gc)")
# Of the names in answers these are left out of some.
LESS = {
    "GET /definitions": r"global_parameters",  # the id of a cluster
    "GET /all-configuration": r"global_parameters",
    "GET /definitions/%2F": r"vhost",  # so that they can be taken to another virtual host
    "GET /queues?disable_stats=true&enable_queue_totals=true": r"totals|type_specific",
}
# What there is not without a plugin; here the list is empty.
EMPTY = ("GET /federation-links",)
# What RabbitMQ refuses for want of a field that has a default here.
LENIENT = ('POST /definitions {"queues"', 'POST /definitions/v1 {"queues"')


@pytest.fixture(scope="module")
def walked(headrace_settings: dict[str, object]) -> list[dict[str, Any]]:
    with HeadraceServer(settings=headrace_settings) as server:
        return [summary(*each) for each in walk(server.http, server.amqp)]


def place(text: object) -> str:
    """Without what differs from one server to the next."""
    return re.sub(r"127\.0\.0\.1(:|%3A)\d+", "PEER", re.sub(r"(compare\d+|rabbit)@[\w.-]+", "NODE", json.dumps(text)))


@pytest.mark.parametrize("number", range(len(BEFORE) + len(AFTER)), ids=lambda number: RECORDED[number]["step"][:60])
def test_answers_are_those_of_rabbitmq(walked: list[dict[str, Any]], number: int) -> None:
    ours, theirs = walked[number], RECORDED[number]
    assert ours["step"] == theirs["step"]
    if ours["step"].startswith(LENIENT):
        assert ours["status"] == 204
        return
    if ours["step"] in EMPTY:
        assert (ours["status"], ours["count"]) == (200, 0)
        return
    assert ours["status"] == theirs["status"]
    assert place(ours.get("body")) == place(theirs.get("body"))
    assert ours.get("location") == theirs.get("location")
    assert ours.get("allow") == theirs.get("allow")
    missing = set(map(place, theirs.get("keys", ()))) - set(map(place, ours.get("keys", ())))
    left_out = [ABSENT, *([NODE] if "/nodes" in ours["step"] else []), re.compile(LESS.get(ours["step"], "^$"))]
    assert not {key for key in missing if not any(pattern.search(key) for pattern in left_out)}
