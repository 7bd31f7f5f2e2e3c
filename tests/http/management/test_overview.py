"""The overview, nodes, health checks and metrics: what monitoring asks for."""

from __future__ import annotations

import urllib.request
from typing import Any

import pytest
from tests.http.management.asking import Api

from headrace.http import queue_metrics
from headrace.short_turns import ShortTurns
from headrace.testing import HeadraceServer, wait_until


def test_the_overview_counts_what_is_there(server: HeadraceServer, api: Api, client: Any, queue: str) -> None:
    before = api.get("/overview")
    channel = client.channel()
    for number in range(5):
        channel.basic_publish("", queue, b"%d" % number)
    channel.basic_publish("", "nowhere-at-all", b"")
    channel.basic_ack(channel.basic_get(queue)[0].delivery_tag)
    wait_until(
        lambda: api.get("/overview")["message_stats"]["ack"] == before["message_stats"]["ack"] + 1, what="the ack to be counted"
    )
    after = api.get("/overview")
    grown = {name: after["message_stats"][name] - before["message_stats"][name] for name in ("publish", "deliver_get")}
    assert grown == {"publish": 6, "deliver_get": 1}
    assert after["message_stats"]["drop_unroutable"] == before["message_stats"]["drop_unroutable"] + 1
    assert after["queue_totals"]["messages_ready"] == before["queue_totals"]["messages_ready"] + 4
    assert after["object_totals"]["connections"] >= 1
    assert "rate" in after["message_stats"]["publish_details"]
    assert {row["protocol"] for row in after["listeners"]} == {"amqp", "http", "kafka", "kinesis"}
    assert after["rabbitmq_version"] == after["management_version"]
    assert after["node"] == api.get("/nodes")[0]["name"]


def test_what_was_counted_stays_counted_when_a_queue_goes(api: Api, name: str) -> None:
    assert api.put(f"/queues/%2F/{name}") == 201
    api.publish(name, "1", "2")
    api.post(f"/queues/%2F/{name}/get", {"count": 2, "ackmode": "ack_requeue_false", "encoding": "auto"})
    before = api.get("/vhosts/%2F")["message_stats"]
    assert api.delete(f"/queues/%2F/{name}") == 204
    after = api.get("/vhosts/%2F")["message_stats"]
    assert all(after[key] >= before[key] for key in ("publish", "deliver_get", "ack"))


def test_a_node_tells_what_it_uses(api: Api) -> None:
    (node,) = api.get("/nodes")
    assert node["running"] is True
    assert node["mem_used"] > 10_000_000
    assert node["disk_free"] > 0
    assert node["fd_used"] > 0
    assert node["uptime"] >= 0
    assert (node["mem_alarm"], node["disk_free_alarm"], node["partitions"]) == (False, False, [])
    assert api.get(f"/nodes/{node['name']}?columns=name,mem_used").keys() == {"name", "mem_used"}


def test_health_checks_say_well_or_why_not(server: HeadraceServer, api: Api) -> None:
    port = server.amqp.rpartition(":")[2].strip("/")
    for check in ("alarms", "local-alarms", "virtual-hosts", "node-is-quorum-critical", f"port-listener/{port}"):
        assert api.get(f"/health/checks/{check}")["status"] == "ok"
    for protocol in ("amqp", "AMQP091", "http", "kafka"):
        assert api.get(f"/health/checks/protocol-listener/{protocol}")["status"] == "ok"
    for check in ("port-listener/1", "protocol-listener/mqtt"):
        answer = api.ask("GET", f"/health/checks/{check}")
        assert (answer.status, answer.body["status"], answer.body["reason"]) == (503, "failed", "No active listener")
    assert api.get("/aliveness-test/%2F") == {"status": "ok"}
    assert api.get("/aliveness-test/%2F") == {"status": "ok"}
    assert api.get("/queues/%2F/aliveness-test")["messages"] == 0


def scrape(server: HeadraceServer) -> str:
    with urllib.request.urlopen(f"{server.http}/metrics", timeout=20) as answer:
        return str(answer.read().decode())


def test_metrics_tell_of_each_queue(server: HeadraceServer, api: Api, queue: str) -> None:
    api.publish(queue, "1", "2", "3")
    api.post(f"/queues/%2F/{queue}/get", {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"})
    text = scrape(server)
    label = f'{{queue="{queue}",vhost="/"}}'
    for line in ("messages_ready{} 2.0", "published_total{} 3.0", "delivered_total{} 1.0", "acknowledged_total{} 1.0"):
        assert f"headrace_queue_{line.format(label)}" in text
    assert 'headrace_queues{vhost="/"}' in text
    assert 'headrace_vhost_published_total{vhost="/"}' in text


def test_with_very_many_queues_metrics_are_those_of_virtual_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    import asyncio
    import tempfile
    from pathlib import Path

    from headrace.broker import Broker
    from headrace.broker.settings import Settings
    from headrace.clock import SystemClock
    from headrace.disk.real import RealDisk
    from headrace.log.embedded import EmbeddedLog

    async def scenario() -> None:
        with tempfile.TemporaryDirectory() as folder:
            log = EmbeddedLog.open(RealDisk(Path(folder)), SystemClock(), defaults={}, folder=folder)
            broker = Broker(log, SystemClock(), Settings(), "cluster")
            await broker.start()
            vhost = broker.vhosts.get("/")
            assert vhost is not None
            for number in range(5):
                vhost.declare_queue(f"q{number}")
            monkeypatch.setattr(queue_metrics, "MAX_QUEUES", 4)
            families = {family.name: family for family in await queue_metrics.collect_queues(broker, ShortTurns())}
            samples = families["headrace_queue_messages_ready"].samples
            assert [(sample.labels, sample.value) for sample in samples] == [({"vhost": "/", "queue": ""}, 0)]
            assert families["headrace_queues"].samples[0].value == 5
            broker.close()
            await log.close()

    asyncio.run(scenario())
