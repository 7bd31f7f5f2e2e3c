"""A walk through the management API, the same for Headrace and for a RabbitMQ; and how what they answered is compared.

    python -m tests.http.management.scenario http://127.0.0.1:15672 amqp://guest:guest@127.0.0.1:5672/ > answers.json

writes down what a server answers. `rabbitmq_answers.json` is what RabbitMQ 3.10.8 did; `test_as_rabbitmq` walks through ours.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import pika
from tests.http.management.asking import GUEST, Answered, Api, segment

B = "/bindings/%2F/e"
MESSAGE = {"properties": {}, "routing_key": "q1", "payload": "x", "payload_encoding": "string"}
EVERYTHING = {"configure": ".*", "write": ".*", "read": ".*"}
LIMIT = {"pattern": "^q", "definition": {"max-length": 1000}, "priority": 1, "apply-to": "queues"}
GET = {"count": 5, "ackmode": "ack_requeue_true", "encoding": "auto"}
PROPERTIES = {
    "delivery_mode": 2,
    "headers": {"h": 1, "s": "x", "b": True, "l": [1, "2"], "t": {"a": 1}},
    "content_type": "text/plain",
    "priority": 3,
    "correlation_id": "c",
    "reply_to": "r",
    "expiration": "500000",
    "message_id": "m",
    "timestamp": 1700000000,
    "type": "t",
    "user_id": "guest",
    "app_id": "a",
}
BOB = "bob:secret"


class Step(NamedTuple):
    method: str
    path: str
    body: object = None
    user: str | None = GUEST
    raw: bytes | None = None

    def __str__(self) -> str:
        sent = self.raw.decode() if self.raw is not None else json.dumps(self.body) if self.body is not None else ""
        return " ".join(filter(None, (self.method, self.path, sent, "" if self.user == GUEST else f"as {self.user}")))


def get(*paths: str, user: str | None = GUEST) -> list[Step]:
    return [Step("GET", path, user=user) for path in paths]


def publish(exchange: str, **changed: object) -> Step:
    return Step("POST", f"/exchanges/%2F/{exchange}/publish", {**MESSAGE, **changed})


DECLARING = [
    Step("PUT", "/vhosts/v1", {"description": "d", "tags": "production"}),
    Step("PUT", "/vhosts/v1", {}),
    Step("PUT", "/vhosts/v1", raw=b""),
    *get("/vhosts", "/vhosts/v1", "/vhosts/nope", "/vhosts/v1/permissions"),
    Step("PUT", "/users/bob", {"password": "secret", "tags": "management"}),
    Step("PUT", "/users/carl", {"password_hash": "", "tags": ["monitoring", "administrator"]}),
    Step("PUT", "/users/nobody", {"password": "x"}),
    *get("/users", "/users/bob", "/users/nope", "/users/without-permissions", "/users/bob/permissions"),
    *get("/users/bob/topic-permissions"),
    Step("PUT", "/permissions/%2F/bob", EVERYTHING),
    Step("PUT", "/permissions/%2F/bob", {"configure": ".*", "write": ".*"}),
    Step("PUT", "/permissions/%2F/nobody", EVERYTHING),
    *get("/permissions", "/permissions/%2F/bob", "/permissions/%2F/nobody", "/permissions/v1/bob"),
    Step("PUT", "/topic-permissions/%2F/bob", {"exchange": "amq.topic", "write": ".*", "read": ".*"}),
    *get("/topic-permissions", "/topic-permissions/%2F/bob"),
    Step("PUT", "/exchanges/%2F/ex1", {"type": "topic", "durable": True, "auto_delete": False, "arguments": {}}),
    Step("PUT", "/exchanges/%2F/ex1", {"type": "topic", "durable": True}),
    Step("PUT", "/exchanges/%2F/ex1", {"type": "direct"}),
    Step("PUT", "/exchanges/%2F/ex2", {"type": "fanout", "durable": False, "arguments": {"alternate-exchange": "amq.direct"}}),
    Step("PUT", "/exchanges/%2F/ex3", {"type": "nope"}),
    Step("PUT", "/exchanges/%2F/amq.foo", {"type": "direct"}),
    Step("PUT", "/exchanges/nope/ex4", {"type": "direct"}),
    *get("/exchanges", "/exchanges/%2F", "/exchanges/%2F/ex1", "/exchanges/%2F/ex2", "/exchanges/%2F/nope"),
    *get("/exchanges/nope/nope", "/exchanges/%2F/amq.default"),
    Step("PUT", "/queues/%2F/q1", {"durable": True, "arguments": {"x-message-ttl": 600000, "x-dead-letter-exchange": "ex1"}}),
    Step("PUT", "/queues/%2F/q1", {"durable": True, "arguments": {"x-message-ttl": 600000, "x-dead-letter-exchange": "ex1"}}),
    Step("PUT", "/queues/%2F/q1", {"durable": True}),
    Step("PUT", "/queues/%2F/q2", {"durable": True, "arguments": {"x-queue-type": "quorum"}}),
    Step("PUT", "/queues/%2F/q3", {"durable": True, "arguments": {"x-queue-type": "stream"}}),
    Step("PUT", "/queues/%2F/q4", {"durable": False, "arguments": {"x-max-length": "x"}}),
    Step("PUT", "/queues/%2F/q5", {"durable": False}),
    Step("PUT", "/queues/%2F/amq.bad", {"durable": False}),
    Step("PUT", "/queues/%2F/q6", {"durable": "true", "auto_delete": "yes"}),
    Step("PUT", "/queues/%2F/q8", raw=b"{not json"),
    Step("PUT", "/queues/%2F/q9", raw=b"[]"),
    Step("PUT", "/queues/%2F/q10", raw=b""),
    Step("POST", f"{B}/ex1/q/q1", {"routing_key": "a.*", "arguments": {}}),
    Step("POST", f"{B}/ex1/q/nope", {"routing_key": "b.#"}),
    Step("POST", f"{B}/nope/q/q1", {"routing_key": "b.#"}),
    Step("POST", f"{B}/ex1/e/ex2", {"routing_key": "c"}),
    Step("POST", f"{B}/ex1/q/q1", {}),
    *get("/bindings", "/bindings/%2F", "/bindings/nope", f"{B}/ex1/q/q1", f"{B}/ex1/e/ex2", f"{B}/ex1/q/q1/a.%2A"),
    *get(f"{B}/ex1/q/q1/a.%252A", f"{B}/ex1/q/q1/~", f"{B}/ex1/q/q1/nope", f"{B}/amq.default/q/q1", f"{B}//q/q1"),
    *get("/exchanges/%2F/ex1/bindings/source", "/exchanges/%2F/ex2/bindings/destination"),
    *get("/exchanges/%2F/nope/bindings/source", "/queues/%2F/q1/bindings", "/exchanges/%2F/amq.default/bindings/source"),
    Step("DELETE", f"{B}/ex1/q/q1/a.%2A"),
    Step("DELETE", f"{B}/ex1/q/q1/nope"),
    Step("POST", f"{B}/ex1/q/q1", {"routing_key": "a.*"}),
]
MESSAGES = [
    publish("ex1", properties=PROPERTIES, routing_key="a.b", payload="hello"),
    publish("amq.default", payload="/wAB", payload_encoding="base64"),
    publish("amq.default", routing_key="nowhere"),
    publish("nope"),
    Step("POST", "/exchanges/%2F/amq.default/publish", {"properties": {}, "payload": "", "payload_encoding": "string"}),
    publish("amq.default", properties={"delivery_mode": "x"}),
    publish("amq.default", properties={"nonsense": "x"}, routing_key="nowhere"),
    publish("amq.default", payload="!!!", payload_encoding="base64"),
    publish("amq.default", payload_encoding="what"),
    publish("amq.default", properties={"user_id": "other"}),
    publish("amq.default", properties={"expiration": "nan"}),
    Step("POST", "/queues/%2F/q1/get", GET),
    Step("POST", "/queues/%2F/q1/get", {**GET, "encoding": "base64", "truncate": 2}),
    Step("POST", "/queues/%2F/q1/get", {**GET, "count": 1, "ackmode": "reject_requeue_true"}),
    Step("POST", "/queues/%2F/q1/get", {**GET, "count": 1, "ackmode": "ack_requeue_false"}),
    Step("POST", "/queues/%2F/q1/get", {"count": 1, "encoding": "auto"}),
    Step("POST", "/queues/%2F/q1/get", {**GET, "count": "x"}),
    Step("POST", "/queues/%2F/q1/get", {**GET, "encoding": "nope"}),
    Step("POST", "/queues/%2F/q1/get", {"ackmode": "ack_requeue_true", "encoding": "auto"}),
    Step("POST", "/queues/%2F/nope/get", GET),
    Step("POST", "/queues/%2F/q5/get", GET),
    Step("POST", "/queues/%2F/q3/get", GET),
    Step("DELETE", "/queues/%2F/q1/contents"),
    Step("DELETE", "/queues/%2F/q3/contents"),
    Step("DELETE", "/queues/%2F/nope/contents"),
    Step("POST", "/queues/%2F/q1/actions", {"action": "sync"}),
    Step("POST", "/queues/%2F/q1/actions", {"action": "nope"}),
]
POLICIES = [
    Step("PUT", "/policies/%2F/p1", LIMIT),
    Step("PUT", "/policies/%2F/p2", {"definition": {"max-length": 1000}}),
    Step("PUT", "/operator-policies/%2F/op1", {**LIMIT, "definition": {"max-length": 10000}}),
    *get("/policies", "/policies/%2F", "/policies/%2F/p1", "/policies/%2F/nope", "/operator-policies"),
    *get("/operator-policies/%2F/op1", "/parameters", "/global-parameters/cluster_name", "/global-parameters/nope"),
    Step("PUT", "/global-parameters/gp", {"value": {"a": 1}}),
    *get("/global-parameters/gp"),
    Step("DELETE", "/global-parameters/gp"),
    Step("DELETE", "/global-parameters/gp"),
    *get("/parameters/federation-upstream", "/parameters/operator_policy", "/parameters/operator_policy/%2F"),
    *get("/parameters/operator_policy/%2F/op1", "/vhost-limits", "/user-limits"),
    Step("PUT", "/vhost-limits/v1/max-queues", {"value": 100}),
    *get("/vhost-limits", "/vhost-limits/v1"),
    Step("PUT", "/vhost-limits/v1/nope", {"value": 100}),
    Step("DELETE", "/vhost-limits/v1/max-queues"),
]
LOOKING = [
    *get("/overview", "/nodes", "/cluster-name", "/whoami", "/connections", "/channels", "/consumers", "/consumers/%2F"),
    *get("/vhosts/%2F/connections", "/vhosts/%2F/channels", "/vhosts/%2F", "/users/guest", "/auth", "/queues", "/queues/%2F"),
    *get("/queues/%2F/q1", "/queues/%2F/q2", "/queues/%2F/q3", "/queues/%2F/q5", "/queues/%2F/x1", "/queues/nope"),
    *get("/queues/%2F/nope", "/definitions", "/definitions/%2F", "/definitions/nope", "/all-configuration"),
    *get("/aliveness-test/%2F", "/aliveness-test/nope", "/rebalance/queues", "/connections/nope", "/channels/nope"),
    *get("/connections/{connection}", "/connections/{connection}/channels", "/channels/{connection}%20%281%29"),
    *get("/connections/username/guest", "/nodes/{node}", "/nodes/{node}/memory", "/topics", "/federation-links"),
    Step("POST", "/rebalance/queues", {}),
    Step("PUT", "/cluster-name", {"name": "renamed"}),
    *get("/cluster-name"),
    *[
        Step("GET", f"/health/checks/{check}")
        for check in (
            *("alarms", "local-alarms", "node-is-quorum-critical", "node-is-mirror-sync-critical", "virtual-hosts"),
            *("port-listener/{port}", "port-listener/x", "protocol-listener/amqp", "protocol-listener/amqp091"),
            *("certificate-expiration/1/months", "certificate-expiration/x/months", "certificate-expiration/1/nope", "nope"),
        )
    ],
    *get("/healthchecks/node"),
    *[
        Step("GET", f"/queues?{query}")
        for query in (
            *("page=1&page_size=2", "page=1&page_size=2&name=q&use_regex=false&sort=name&sort_reverse=true"),
            *("page=9&page_size=2", "page=1&page_size=2&name=%5Eq%5B12%5D&use_regex=true", "page=x", "page=0"),
            *("page=1&page_size=1000", "page_size=5", "sort=messages&sort_reverse=true&columns=name,messages"),
            *("sort=nope&columns=name", "page=1&page_size=2&name=(&use_regex=true", "disable_stats=true"),
            "disable_stats=true&enable_queue_totals=true",
        )
    ],
    *get("/queues/%2F/q1?columns=name,nope", "/exchanges?page=1&page_size=3&columns=name", "/overview?columns=object_totals"),
]
OTHERS = [
    *get("/overview", user="guest:wrong"),
    *get("/overview", user="nobody:x"),
    *get("/queues", "/users", "/vhosts", "/queues/v1", "/nodes", "/connections", "/overview", "/definitions", user=BOB),
    *get("/whoami", user=BOB),
    Step("PUT", "/vhosts/v2", {}, BOB),
    Step("PUT", "/policies/%2F/p9", LIMIT, BOB),
    *get("/nope"),
    Step("POST", "/overview", {}),
    Step("DELETE", "/queues"),
    Step("OPTIONS", "/queues"),
    Step("HEAD", "/queues"),
]
ENDING = [
    Step("POST", "/definitions", {"queues": [{"name": "dq", "vhost": "/", "durable": True, "arguments": {}}]}),
    Step("POST", "/definitions", raw=b"{"),
    Step("POST", "/definitions", raw=b"[1]"),
    Step("POST", "/definitions/v1", {"queues": [{"name": "dq1", "durable": True, "arguments": {}}]}),
    Step("PUT", "/definitions", {"queues": []}),
    Step("DELETE", "/queues/%2F/q2?if-empty=true"),
    Step("DELETE", "/queues/%2F/q5?if-unused=true"),
    Step("DELETE", "/queues/%2F/q5"),
    Step("DELETE", "/queues/%2F/q5"),
    Step("DELETE", "/queues/%2F/x1"),
    Step("DELETE", "/exchanges/%2F/ex1?if-unused=true"),
    Step("DELETE", "/exchanges/%2F/ex1"),
    Step("DELETE", "/exchanges/%2F/ex1"),
    Step("DELETE", "/exchanges/%2F/amq.direct"),
    Step("DELETE", "/exchanges/%2F/amq.default"),
    Step("DELETE", "/policies/%2F/p1"),
    Step("DELETE", "/policies/%2F/p1"),
    Step("DELETE", "/operator-policies/%2F/op1"),
    Step("DELETE", "/permissions/%2F/bob"),
    Step("DELETE", "/permissions/%2F/bob"),
    Step("DELETE", "/topic-permissions/%2F/bob"),
    Step("DELETE", "/users/bob"),
    Step("DELETE", "/users/bob"),
    Step("POST", "/users/bulk-delete", {"users": ["carl", "nope"]}),
    Step("DELETE", "/vhosts/v1"),
    Step("DELETE", "/vhosts/v1"),
    Step("DELETE", "/parameters/nope/%2F/x"),
    Step("DELETE", "/connections/{connection}"),
    Step("DELETE", "/connections/nope"),
]
BEFORE, AFTER = [*DECLARING, *MESSAGES, *POLICIES], [*LOOKING, *OTHERS, *ENDING]


def walk(api_url: str, amqp_url: str, patience_s: float = 0.0) -> Iterator[tuple[Step, Answered]]:
    """`patience_s`: how long it takes until the server shows what its clients do."""
    api = Api(api_url)
    connection = pika.BlockingConnection(pika.URLParameters(amqp_url))
    for step in BEFORE:
        yield step, _ask(api, step, {})
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("x1", exclusive=True)
    channel.basic_qos(prefetch_count=7)
    for number in range(20):
        channel.basic_publish("", "q2", b"body%d" % number, pika.BasicProperties(delivery_mode=2))
    tags: list[int] = []
    channel.basic_consume("q2", lambda _, method, *rest: tags.append(method.delivery_tag), consumer_tag="tag1")
    channel.basic_consume("q5", lambda *message: None, consumer_tag="tag2", auto_ack=True)
    deadline = time.monotonic() + 10
    while len(tags) < 7 and time.monotonic() < deadline:
        connection.process_data_events(0.05)
    for tag in tags[:3]:
        channel.basic_ack(tag)
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        connection.process_data_events(0.2)
    names = {
        "connection": segment(api.get("/connections")[0]["name"]),
        "node": api.get("/nodes")[0]["name"],
        "port": str(pika.URLParameters(amqp_url).port),
    }
    for step in AFTER:
        yield step, _ask(api, step, names)


def _ask(api: Api, step: Step, names: dict[str, str]) -> Answered:
    path = re.sub(r"\{(\w+)\}", lambda match: names[match[1]], step.path)
    return api.ask(step.method, path, step.body, user=step.user, raw=step.raw)


def keys(value: Any, path: str = "") -> set[str]:
    """Every name in an answer, with the names around it."""
    if isinstance(value, list):
        return {name for each in value for name in keys(each, path + "[]")}
    if not isinstance(value, dict):
        return set()
    return {name for key, inner in value.items() for name in ({f"{path}.{key}"} | keys(inner, f"{path}.{key}"))}


def summary(step: Step, answer: Answered) -> dict[str, Any]:
    """What of an answer can be compared."""
    found: dict[str, Any] = {"step": str(step), "status": answer.status}
    if answer.status >= 400:
        found["body"] = answer.body
    elif answer.body is not None:
        found["keys"] = sorted(keys(answer.body))
        if isinstance(answer.body, list):
            found["count"] = len(answer.body)
    for header in ("location", "allow"):
        if header in answer.headers:
            found[header] = answer.headers[header]
    return found


if __name__ == "__main__":
    answers = [summary(*each) for each in walk(sys.argv[1], sys.argv[2], patience_s=8.0)]
    sys.stdout.write("[\n" + ",\n".join(json.dumps(each) for each in answers) + "\n]\n")
