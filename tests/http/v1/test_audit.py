"""The audit trail: administration by every protocol becomes an entry of a topic that anybody may read and nobody writes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import boto3
import pika
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.http.v1.asking import V1, assert_problem

from headrace.testing import HeadraceServer, wait_until

TOPIC = "headrace.audit"
_MARKS = itertools.count()


@pytest.fixture(scope="module")
def server() -> Iterator[HeadraceServer]:
    with HeadraceServer(settings={"headrace.audit.enable": True}) as started:
        yield started


@pytest.fixture
def v1(server: HeadraceServer) -> V1:
    return V1(server)


def mark(v1: V1) -> int:
    """The entries are written behind the back of whoever is told that it was done, in order: makes one, waits for it, and says
    where it is."""
    name = f"mark-{next(_MARKS)}"
    assert v1.ask("POST", "/v1/topics", {"name": name}).status == 201
    found: list[int] = []

    def there() -> bool:
        answer = v1.ask("GET", f"/v1/topics/{TOPIC}/events?partition=0&from=0&limit=1000")
        events = answer.body["events"] if answer.status == 200 else []
        found.extend(each["offset"] for each in events if each["value"]["subject"] == name)
        return bool(found)

    wait_until(there)
    return found[0]


def entries(v1: V1, since: int) -> list[dict[str, Any]]:
    """All from `since` on."""
    until = mark(v1)
    answer = v1.get(f"/v1/topics/{TOPIC}/events?partition=0&from={since}&limit=1000")
    return [each["value"] for each in answer["events"] if each["offset"] < until]


def short(found: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    return [(each["action"], each["subject"], each["result"]) for each in found]


def test_a_kafka_client_that_makes_and_deletes_topics(server: HeadraceServer, v1: V1) -> None:
    since = mark(v1) + 1
    client = AdminClient({"bootstrap.servers": server.kafka, "client.id": "ops"})
    client.create_topics([NewTopic("audited", 2)])["audited"].result(10)
    with pytest.raises(Exception, match="already exists"):
        client.create_topics([NewTopic("audited", 2)])["audited"].result(10)
    client.delete_topics(["audited"])["audited"].result(10)
    found = entries(v1, since)
    assert short(found) == [
        ("topic.create", "audited", "ok"),
        ("topic.create", "audited", "refused"),
        ("topic.delete", "audited", "ok"),
    ]
    assert found[0]["details"] == {"partitions": 2, "config": {}}
    assert found[1]["reason"] == "Topic 'audited' already exists."
    assert (found[0]["user"], found[0]["protocol"]) == ("", "kafka")
    assert found[0]["peer"].startswith("127.0.0.1:")
    assert "rdkafka" in found[0]["client"]


def test_amqp_says_what_lasts_and_nothing_of_what_comes_and_goes(server: HeadraceServer, v1: V1) -> None:
    since = mark(v1) + 1
    with pika.BlockingConnection(pika.URLParameters(server.amqp)) as connection:
        channel = connection.channel()
        channel.exchange_declare("ex", "topic", durable=True)
        channel.queue_declare("jobs", durable=True)
        channel.queue_declare("jobs", durable=True)  # it is there
        channel.queue_declare("jobs", passive=True)
        channel.queue_declare("", exclusive=True)
        channel.queue_bind("jobs", "ex", "a.#")
        channel.queue_purge("jobs")
        channel.queue_delete("jobs")
        channel.queue_delete("jobs")
    found = entries(v1, since)
    assert short(found) == [
        ("exchange.declare", "ex", "ok"),
        ("queue.declare", "jobs", "ok"),
        ("binding.create", "jobs", "ok"),
        ("queue.purge", "jobs", "ok"),
        ("queue.delete", "jobs", "ok"),
    ]
    assert {(each["user"], each["protocol"]) for each in found} == {("guest", "amqp")}
    assert found[2]["details"] == {"vhost": "/", "source": "ex", "routing_key": "a.#"}


def test_a_stream_of_kinesis_is_one_entry_without_its_topic(server: HeadraceServer, v1: V1) -> None:
    since = mark(v1) + 1
    kinesis = boto3.client(
        "kinesis", endpoint_url=server.listeners["kinesis"], region_name="eu-west-1", aws_access_key_id="111122223333",
        aws_secret_access_key="s",
    )  # fmt: skip
    kinesis.create_stream(StreamName="clicks", ShardCount=1)
    kinesis.increase_stream_retention_period(StreamName="clicks", RetentionPeriodHours=48)
    kinesis.delete_stream(StreamName="clicks")
    found = entries(v1, since)
    assert short(found) == [
        ("stream.create", "clicks", "ok"),
        ("stream.set_retention", "clicks", "ok"),
        ("stream.delete", "clicks", "ok"),
    ]
    assert found[1]["user"] == "111122223333"
    assert found[1]["details"] == {"account": "111122223333", "region": "eu-west-1", "given": "48"}


def test_http_says_who_changed_users_settings_policies_routes_and_topics(v1: V1) -> None:
    since = mark(v1) + 1
    v1.ask("PUT", "/api/users/dora", {"password": "very-secret", "tags": "administrator"}, user="guest:guest")
    v1.ask("PUT", "/api/policies/%2F/p", {"pattern": "^x", "definition": {"max-length": 5}}, user="guest:guest")
    rights = {"configure": ".*", "write": ".*", "read": ".*"}
    v1.ask("PUT", "/api/permissions/%2F/dora", rights, user="guest:guest")
    v1.ask("PATCH", "/v1/settings", {"settings": {"max.connections": 900}}, user="dora:very-secret")
    v1.ask("POST", "/v1/topics", {"name": "routed"}, user="dora:very-secret")
    v1.ask("POST", "/v1/topics", {"name": "routed", "validate_only": True}, user="dora:very-secret")
    v1.publish("routed", 1)
    ends = {"source": {"type": "topic", "topic": "routed"}, "destination": {"type": "topic", "topic": "copy"}}
    assert v1.ask("PUT", "/v1/routes/r", ends, user="dora:very-secret").status == 201
    assert v1.ask("POST", "/v1/topics/routed/trim", {"before": "latest"}, user="dora:very-secret").status == 200
    assert v1.ask("DELETE", "/v1/routes/r", user="dora:very-secret").status == 204
    found = entries(v1, since)
    assert short(found) == [
        ("user.put", "dora", "ok"),
        ("policy.put", "p", "ok"),
        ("user.put", "dora", "ok"),
        ("settings.change", "max.connections", "ok"),
        ("topic.create", "routed", "ok"),
        ("route.put", "r", "ok"),
        ("topic.trim", "routed", "ok"),
        ("route.delete", "r", "ok"),
    ]
    assert [each["user"] for each in found] == ["guest", "guest", "guest", "dora", "dora", "dora", "dora", "dora"]
    assert found[0]["details"] == {"tags": ["administrator"], "vhosts": []}
    assert found[3]["details"] == {"settings": {"max.connections": "900"}}
    assert found[5]["details"] == {"topic": "routed", "target": "topic"}
    assert "very-secret" not in str(found)


def test_groups_that_are_moved_back_or_deleted(server: HeadraceServer, v1: V1) -> None:
    client = AdminClient({"bootstrap.servers": server.kafka})
    client.create_topics([NewTopic("read", 1)])["read"].result(10)
    v1.publish("read", *range(5))
    since = mark(v1) + 1

    def move(offset: int) -> None:
        there = ConsumerGroupTopicPartitions("g", [TopicPartition("read", 0, offset)])
        client.alter_consumer_group_offsets([there])["g"].result(10)

    move(3)
    move(4)  # a reader without a group's help looks the same
    assert entries(v1, since) == []
    since = mark(v1) + 1
    move(1)
    assert v1.ask("POST", "/v1/groups/g/offsets/reset", {"topic": "read", "to": "latest"}).status == 200
    client.delete_consumer_groups(["g"])["g"].result(10)
    with pytest.raises(Exception, match="group id"):
        client.delete_consumer_groups(["g"])["g"].result(10)
    found = entries(v1, since)
    assert short(found) == [
        ("group.offsets.move", "g", "ok"),
        ("group.offsets.move", "g", "ok"),
        ("group.delete", "g", "ok"),
        ("group.delete", "g", "refused"),
    ]
    assert found[0]["details"] == {"moved": [{"topic": "read", "partition": 0, "from": 4, "to": 1}]}
    assert found[1]["details"] == {"moved": [{"topic": "read", "partition": 0, "from": 1, "to": 5}]}


def test_messages_that_are_moved_purged_and_retried(server: HeadraceServer, v1: V1) -> None:
    with pika.BlockingConnection(pika.URLParameters(server.amqp)) as connection:
        channel = connection.channel()
        channel.queue_declare("dead", durable=True)
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
        channel.queue_declare("work", durable=True, arguments=arguments)
        channel.queue_declare("other", durable=True)
        for number in range(5):
            channel.basic_publish("", "work", str(number).encode(), pika.BasicProperties(delivery_mode=2))
        for _ in range(3):
            method, _, _ = channel.basic_get("work")
            assert method is not None
            channel.basic_reject(method.delivery_tag, requeue=False)
        wait_until(lambda: v1.get("/v1/vhosts/%2F/queues/dead")["messages_ready"] == 3)
        since = mark(v1) + 1
        assert v1.ask("POST", "/api/queues/%2F/dead/retry-dead", {"count": 1}, user="guest:guest").body == {"moved": 1}
        assert v1.ask("POST", "/v1/dead-letters/%2F/dead/retry", {}).body["moved"] == 2
        assert v1.ask("POST", "/v1/dead-letters/%2F/dead/retry", {}).body["moved"] == 0
        moved = v1.ask("POST", "/v1/vhosts/%2F/queues/work/move", {"destination": "other", "count": 4})
        assert moved.body == {"moved": 4}
        assert v1.ask("DELETE", "/v1/vhosts/%2F/queues/other/contents").status == 204
        channel.queue_declare("brief", durable=False, auto_delete=True)
        channel.basic_publish("", "brief", b"x")
        channel.queue_declare("brief", passive=True)
        assert v1.ask("POST", "/v1/vhosts/%2F/queues/brief/move", {"destination": "other"}).body == {"moved": 1}
    found = entries(v1, since)
    assert short(found) == [
        ("queue.retry_dead", "dead", "ok"),
        ("queue.retry_dead", "dead", "ok"),
        ("queue.move", "work", "ok"),
        ("queue.purge", "other", "ok"),
    ]
    assert [each.get("details") for each in found] == [
        {"vhost": "/", "messages": 1},
        {"vhost": "/", "messages": 2},
        {"vhost": "/", "exchange": "", "routing_key": "other", "messages": 4},
        {"vhost": "/"},
    ]
    assert {(each["user"], each["protocol"]) for each in found} == {("guest", "http")}


def test_records_of_a_dead_letter_topic_that_are_retried_are_one_entry(v1: V1) -> None:
    v1.publish("late", "a", "b", "c", partition=0)
    target = {"type": "exchange", "exchange": "", "routing_key": "late-queue"}
    assert v1.ask("PUT", "/v1/routes/late", {"topic": "late", "destination": target}).status == 201
    wait_until(lambda: v1.get("/v1/routes/late")["dead_lettered"] == 3)
    assert v1.ask("PUT", "/v1/vhosts/%2F/queues/late-queue", {}).status == 201
    since = mark(v1) + 1
    body = {"records": [{"partition": 0, "offset": offset} for offset in (0, 2, 9)]}
    path = "/v1/topics/late.dead-letters/dead-letters/retry"
    assert v1.ask("POST", path, body).body["moved"] == 2
    assert v1.ask("POST", path, {"records": [{"partition": 0, "offset": 9}]}).body["moved"] == 0
    assert v1.ask("DELETE", "/v1/routes/late").status == 204
    found = entries(v1, since)
    assert short(found) == [("topic.retry_dead", "late.dead-letters", "ok"), ("route.delete", "late", "ok")]
    assert found[0]["details"] == {"records": 2, "failed": 1}


def test_a_group_that_is_moved_in_all_topics_is_one_entry(v1: V1) -> None:
    for topic in ("first", "second"):
        v1.publish(topic, *range(5), partition=0)
    given = {"offsets": {"first": {"0": 2}, "second": {"0": 3}}}
    assert v1.ask("POST", "/v1/groups/both/offsets/reset", given).status == 200
    since = mark(v1) + 1
    assert v1.ask("POST", "/v1/groups/both/offsets/reset", {"all_topics": True, "to": 0, "dry_run": True}).status == 200
    done = v1.ask("POST", "/v1/groups/both/offsets/reset", {"all_topics": True, "to": "latest"})
    assert v1.ask("POST", "/v1/groups/both/offsets/reset", {"offsets": {"second": {"0": None}}}).status == 200
    assert done.body["undo"] == {"first": {"0": 2}, "second": {"0": 3}}
    found = entries(v1, since)
    assert short(found) == [("group.offsets.move", "both", "ok")] * 2
    assert found[0]["details"]["moved"] == [
        {"topic": "first", "partition": 0, "from": 2, "to": 5},
        {"topic": "second", "partition": 0, "from": 3, "to": 5},
    ]
    assert found[1]["details"]["moved"] == [{"topic": "second", "partition": 0, "from": 5, "to": None}]


def test_nobody_writes_to_it_and_its_end_is_in_the_next_one(server: HeadraceServer, v1: V1) -> None:
    v1.ask("POST", "/v1/topics", {"name": "any"})
    refusal = v1.ask("POST", f"/v1/topics/{TOPIC}/events", {"value": "forged"}, headers={"Content-Type": "application/json"})
    assert_problem(refusal, 409, "partition_sealed", "only the server writes")
    told: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": server.kafka})
    producer.produce(TOPIC, b"forged", on_delivery=lambda error, message: told.append(error))
    producer.flush(10)
    assert [error.name() for error in told if error is not None] == ["POLICY_VIOLATION"]
    server.stop()
    server.restart()
    again = v1.ask("POST", f"/v1/topics/{TOPIC}/events", {"value": "forged"}, headers={"Content-Type": "application/json"})
    assert_problem(again, 409, "partition_sealed")
    assert v1.ask("DELETE", f"/v1/topics/{TOPIC}").status == 204
    assert short(entries(v1, 0)) == [("topic.delete", TOPIC, "ok")]


def test_it_can_be_turned_off_while_the_server_runs(v1: V1) -> None:
    since = mark(v1) + 1
    v1.ask("PATCH", "/v1/settings", {"settings": {"headrace.audit.enable": False}})
    v1.ask("POST", "/v1/topics", {"name": "unseen"})
    v1.ask("PATCH", "/v1/settings", {"settings": {"headrace.audit.enable": None}})
    v1.ask("DELETE", "/v1/topics/unseen")
    assert short(entries(v1, since)) == [
        ("settings.change", "headrace.audit.enable", "ok"),
        ("topic.delete", "unseen", "ok"),
    ]
