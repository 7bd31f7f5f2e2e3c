"""Queues, exchanges, bindings, policies: declared over HTTP, found over AMQP, and the other way round."""

from __future__ import annotations

from typing import Any

import pytest
from tests.http.management.asking import Api, segment

from headrace.testing import HeadraceServer, wait_until


def test_names_may_have_anything_in_them(api: Api, client: Any, name: str) -> None:
    for odd in (f"{name}/a/b", f"{name} c+d%2F", f"{name}-grüße", f"{name}.?&#"):
        assert api.put(f"/queues/%2F/{segment(odd)}") == 201
        assert api.get(f"/queues/%2F/{segment(odd)}")["name"] == odd
        client.channel().queue_declare(odd, passive=True)
        assert api.post(f"/bindings/%2F/e/amq.topic/q/{segment(odd)}", {"routing_key": f"{odd}.#"}) is None
        keys = [row["properties_key"] for row in api.get(f"/queues/%2F/{segment(odd)}/bindings") if row["source"]]
        assert api.delete(f"/bindings/%2F/e/amq.topic/q/{segment(odd)}/{segment(keys[0])}") == 204
        assert api.delete(f"/queues/%2F/{segment(odd)}") == 204


def test_the_location_of_a_binding_leads_to_it(api: Api, queue: str) -> None:
    path = f"/bindings/%2F/e/amq.headers/q/{queue}"
    for arguments in ({}, {"x-match": "any", "a": 1, "b": "x"}):
        answer = api.ask("POST", path, {"routing_key": "a b/c.*", "arguments": arguments})
        location = path.rpartition("/")[0] + "/" + answer.headers["location"]
        row = api.get(location)
        assert (row["routing_key"], row["arguments"]) == ("a b/c.*", arguments)
        assert api.delete(location) == 204
        assert api.delete(location) == 404


def test_what_clients_declare_is_listed(api: Api, client: Any, name: str) -> None:
    channel = client.channel()
    channel.exchange_declare(name, "headers", durable=True)
    arguments = {"x-max-priority": 5, "x-message-ttl": 60000}
    channel.queue_declare(name, durable=True, arguments=arguments)
    channel.queue_bind(name, name, "k", {"x-match": "all", "color": "red"})
    row = api.get(f"/queues/%2F/{name}")
    assert (row["arguments"], row["durable"], row["type"], row["state"]) == (arguments, True, "classic", "running")
    assert api.get(f"/exchanges/%2F/{name}")["type"] == "headers"
    (binding,) = api.get(f"/exchanges/%2F/{name}/bindings/source")
    assert (binding["destination"], binding["arguments"]) == (name, {"x-match": "all", "color": "red"})
    channel.queue_delete(name)
    channel.exchange_delete(name)
    assert api.ask("GET", f"/queues/%2F/{name}").status == api.ask("GET", f"/exchanges/%2F/{name}").status == 404


def test_deleting_may_depend_on_use_and_contents(api: Api, queue: str) -> None:
    api.publish(queue, "x")
    answer = api.ask("DELETE", f"/queues/%2F/{queue}?if-empty=true")
    assert (answer.status, answer.body["reason"]) == (400, f"queue '{queue}' in vhost '/' not empty")
    assert api.delete(f"/queues/%2F/{queue}/contents") == 204
    assert api.get(f"/queues/%2F/{queue}")["messages"] == 0
    assert api.delete(f"/queues/%2F/{queue}?if-empty=true&if-unused=true") == 204


def test_a_policy_shows_in_what_it_applies_to_and_is_in_force(api: Api, name: str, queue: str) -> None:
    policy = {"pattern": f"^{name}", "definition": {"max-length": 2}, "apply-to": "queues", "priority": 3}
    assert api.put(f"/policies/%2F/{name}", policy) == 201
    assert api.put(f"/policies/%2F/{name}", policy) == 204
    operator = {"pattern": f"^{name}", "definition": {"max-length": 1}, "apply-to": "queues"}
    assert api.put(f"/operator-policies/%2F/{name}", operator) == 201
    row = api.get(f"/queues/%2F/{queue}")
    assert (row["policy"], row["operator_policy"], row["effective_policy_definition"]) == (name, name, {"max-length": 1})
    api.publish(queue, "1", "2", "3")
    wait_until(lambda: api.get(f"/queues/%2F/{queue}")["messages"] == 1, what="the limit to be kept")
    assert api.get(f"/policies/%2F/{name}") == {"vhost": "/", "name": name, **policy}
    assert api.delete(f"/policies/%2F/{name}") == api.delete(f"/operator-policies/%2F/{name}") == 204
    assert api.get(f"/queues/%2F/{queue}")["policy"] is None


def test_limits_of_a_virtual_host_are_kept(api: Api, name: str) -> None:
    assert api.put(f"/vhosts/{name}") == 201
    assert api.put(f"/vhost-limits/{name}/max-queues", {"value": 1}) == 204
    assert {"vhost": name, "value": {"max-queues": 1}} in api.get("/vhost-limits")
    assert api.put(f"/queues/{name}/a") == 201
    assert api.put(f"/queues/{name}/b") == 400
    assert api.delete(f"/vhost-limits/{name}/max-queues") == 204
    assert api.put(f"/queues/{name}/b") == 201
    assert api.delete(f"/vhosts/{name}") == 204


def test_definitions_go_out_and_come_in_again(headrace_server: HeadraceServer, name: str) -> None:
    api = Api(headrace_server.http)
    assert api.put("/vhosts/v", {"description": "d", "tags": "a,b"}) == 201
    assert api.put("/queues/v/q", {"arguments": {"x-queue-type": "quorum"}}) == 201
    assert api.put("/exchanges/v/e", {"type": "fanout"}) == 201
    assert api.put("/users/u", {"password": "secret", "tags": "management"}) == 201
    api.post("/bindings/v/e/e/q/q", {"routing_key": "k"})
    api.put("/policies/v/p", {"pattern": "q", "definition": {"expires": 1000000}})
    everything, one = api.get("/definitions"), api.get("/definitions/v")
    assert api.delete("/vhosts/v") == api.delete("/users/u") == 204
    assert api.ask("POST", "/definitions", everything).status == 204
    assert api.get("/definitions") == everything
    assert api.get("/whoami", user="u:secret")["name"] == "u"
    assert api.put("/vhosts/w") == 201
    assert api.ask("POST", "/definitions/w", one).status == 204
    assert api.get("/definitions/w")["queues"] == one["queues"]
    headrace_server.crash()
    headrace_server.restart()
    again = Api(headrace_server.http).get("/definitions")
    assert [queue for queue in again["queues"] if queue["vhost"] == "v"] == everything["queues"]


def test_a_protected_virtual_host_is_not_deleted(api: Api, name: str) -> None:
    assert api.put(f"/vhosts/{name}") == 201
    assert api.ask("POST", f"/vhosts/{name}/deletion/protection").status == 204
    assert api.get(f"/vhosts/{name}")["metadata"]["protected_from_deletion"] is True
    answer = api.ask("DELETE", f"/vhosts/{name}")
    assert (answer.status, answer.body["error"]) == (412, "precondition_failed")
    assert api.delete(f"/vhosts/{name}/deletion/protection") == api.delete(f"/vhosts/{name}") == 204
    assert api.ask("POST", f"/vhosts/{name}/deletion/protection").status == 404


def test_what_is_said_about_a_virtual_host_is_given_back(api: Api, name: str) -> None:
    said = {"description": "d", "tags": ["a", "b"], "default_queue_type": "quorum", "tracing": True}
    assert api.put(f"/vhosts/{name}", said) == 201
    row = api.get(f"/vhosts/{name}")
    assert {key: row[key] for key in said} == said
    assert row["metadata"] == {"description": "d", "tags": ["a", "b"], "default_queue_type": "quorum"}
    assert api.put(f"/vhosts/{name}.plain") == 201
    assert api.get(f"/vhosts/{name}.plain")["default_queue_type"] == "classic"
    assert api.delete(f"/vhosts/{name}") == api.delete(f"/vhosts/{name}.plain") == 204


def test_what_is_declared_without_a_word_is_transient_as_there(api: Api, name: str) -> None:
    assert api.put(f"/queues/%2F/{name}") == api.put(f"/exchanges/%2F/{name}") == 201
    assert api.get(f"/queues/%2F/{name}")["durable"] is api.get(f"/exchanges/%2F/{name}")["durable"] is False
    assert api.put(f"/queues/%2F/{name}", {"durable": True}) == 400
    for kind in ("quorum", "stream"):  # which are durable or nothing
        assert api.put(f"/queues/%2F/{name}.{kind}", {"arguments": {"x-queue-type": kind}}) == 201
        assert api.delete(f"/queues/%2F/{name}.{kind}") == 204
    assert api.delete(f"/queues/%2F/{name}") == api.delete(f"/exchanges/%2F/{name}") == 204


def test_the_default_exchange_is_bound_by_nobody(api: Api, queue: str) -> None:
    refused = {"error": "not_authorised", "reason": "Access refused."}
    path = f"/bindings/%2F/e/amq.default/q/{queue}"
    for answer in (api.ask("POST", path, {"routing_key": "k"}), api.ask("DELETE", f"{path}/{queue}")):
        assert (answer.status, answer.body) == (401, refused)


def test_a_user_comes_with_permissions(api: Api, name: str) -> None:
    allowed = {"configure": "a", "write": "b", "read": "c"}
    assert api.put(f"/users/{name}", {"password": "x", "tags": "", "permissions": {"/": allowed}}) == 201
    assert api.get(f"/permissions/%2F/{name}") == {"user": name, "vhost": "/", **allowed}
    assert api.put(f"/users/{name}", {"password": "y", "tags": ""}) == 204
    assert api.get(f"/permissions/%2F/{name}") == {"user": name, "vhost": "/", **allowed}
    for wrong in ([], {"/": 1}, {"/": {}}, {"nope": allowed}, {"/": {**allowed, "read": "["}}):
        assert api.put(f"/users/{name}", {"password": "x", "tags": "", "permissions": wrong}) == 400
    assert api.delete(f"/users/{name}") == 204


def test_a_binding_without_a_key(api: Api, queue: str) -> None:
    path = f"/bindings/%2F/e/amq.direct/q/{queue}"
    for body in ({}, {"routing_key": None, "arguments": {}}, {"routing_key": ""}):
        answer = api.ask("POST", path, body)
        assert (answer.status, answer.headers["location"]) == (201, f"{queue}/~")
    assert [row["routing_key"] for row in api.get(path)] == [""]


def test_between_ends_that_are_not_there_are_no_bindings(api: Api, queue: str, name: str) -> None:
    nobody = f"{name}.nobody"
    for path in (
        f"/queues/%2F/{nobody}/bindings",
        f"/exchanges/%2F/{nobody}/bindings/source",
        f"/bindings/%2F/e/{nobody}/q/{queue}",
        f"/bindings/%2F/e/amq.direct/q/{nobody}",
        f"/bindings/%2F/e/amq.direct/e/{nobody}",
    ):
        assert api.get(path) == []
    assert api.ask("GET", f"/bindings/%2F/e/amq.direct/q/{nobody}/k").status == 404
    assert api.ask("GET", f"/bindings/{nobody}/e/amq.direct/q/{queue}").status == 404


def test_users_are_made_as_they_were_before_there_were_tags(api: Api, name: str) -> None:
    for administrator, tags in (("true", ["administrator"]), ("false", [])):
        assert api.put(f"/users/{name}", {"password": "x", "administrator": administrator}) in (201, 204)
        assert api.get(f"/users/{name}")["tags"] == tags
    for body, reason in (
        ({"password": "x", "password_hash": "x", "tags": ""}, "both_password_and_password_hash_are_provided"),
        ({"password_hash": "!!", "tags": ""}, ["not_base64", "!!"]),
        ({"password": "x"}, "tags_not_present"),
    ):
        answer = api.ask("PUT", f"/users/{name}", body)
        assert (answer.status, answer.body) == (400, {"error": "bad_request", "reason": reason})
    assert api.delete(f"/users/{name}") == 204


@pytest.mark.parametrize("path", ["policies/nope/p", "operator-policies/nope/p", "parameters/c/nope/p"])
def test_nothing_is_put_into_a_virtual_host_that_is_not_there(api: Api, path: str) -> None:
    answer = api.ask("PUT", f"/{path}", {"pattern": "a", "definition": {"max-length": 1}, "value": 1})
    assert (answer.status, answer.body) == (404, {"error": "not_found", "reason": "vhost_not_found"})


def test_topic_permissions_are_taken_back_one_by_one(api: Api, name: str) -> None:
    assert api.put(f"/users/{name}", {"password": "", "tags": ""}) == 201
    path = f"/topic-permissions/%2F/{name}"
    for exchange in ("amq.topic", "amq.direct"):
        assert api.put(path, {"exchange": exchange, "write": "^a", "read": "^b"}) == 201
    assert [row["exchange"] for row in api.get(f"{path}/amq.topic")] == ["amq.topic"]
    assert api.delete(f"{path}/amq.topic") == 204
    assert [row["exchange"] for row in api.get(path)] == ["amq.direct"]
    assert api.ask("GET", f"{path}/amq.topic").status == 404
    assert api.delete(path) == api.delete(f"/users/{name}") == 204


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        ("federation-upstream/%2F/u", {}, 'Key "uri" not found in u'),
        ("federation-upstream/%2F/u", {"uri": None}, "uri should be list, actually was undefined"),
        ("shovel/%2F/s", {"src-uri": "amqp://"}, 'Key "dest-uri" not found in s'),
        ("vhost-limits/%2F/limits", {"max-queues": "x"}, 'max-queues should be a number, actually was <<"x">>'),
        ("vhost-limits/%2F/limits", {"max-x": 1}, 'Unrecognised terms [{<<"max-x">>,1}] in limits'),
    ],
)
def test_parameters_of_known_components_are_checked(api: Api, path: str, value: object, reason: str) -> None:
    answer = api.ask("PUT", f"/parameters/{path}", {"value": value})
    assert (answer.status, answer.body["error"]) == (400, "bad_request")
    assert answer.body["reason"] == f"Validation failed\n\n{reason}\n"


def test_definitions_say_what_they_are_of(api: Api, name: str) -> None:
    assert api.put(f"/vhosts/{name}", {"default_queue_type": "quorum", "description": "d"}) == 201
    answer = api.ask("GET", "/definitions?download=all%0d%0a.json")
    assert answer.headers["content-disposition"] == "attachment; filename=all__.json"
    assert (answer.body["rabbitmq_definition_format"], answer.body["product_name"]) == ("cluster", "Headrace")
    assert answer.body["original_cluster_name"] == api.get("/cluster-name")["name"]
    one = api.get(f"/definitions/{name}")
    assert (one["rabbitmq_definition_format"], one["original_vhost_name"]) == ("single_virtual_host", name)
    assert one["metadata"] == {"description": "d", "tags": [], "default_queue_type": "quorum"}
    assert api.delete(f"/vhosts/{name}") == 204
    answer = api.ask("POST", f"/definitions/{name}", one)
    assert (answer.status, answer.body) == (404, {"error": "not_found", "reason": "vhost_not_found"})


def test_definitions_come_as_a_form_too(api: Api, name: str) -> None:
    """As of `curl -F file=@definitions.json`."""

    def form(*parts: str) -> bytes:
        return "".join(f"--x\r\ncontent-disposition: form-data; {part}\r\n" for part in parts).encode() + b"--x--\r\n"

    file = (
        f'name="file"; filename="d.json"\r\ncontent-type: application/octet-stream\r\n\r\n{{"vhosts": [{{"name": "{name}"}}]}}'
    )
    headers = {"content-type": "multipart/form-data; boundary=x"}
    answer = api.ask("POST", "/definitions", raw=form('name="other"\r\n\r\nx', file), headers=headers)
    assert answer.status == 204
    assert api.delete(f"/vhosts/{name}") == 204
    for raw in (form('name="other"\r\n\r\n{}'), form('name="file"\r\n\r\n!'), b"", b"--x", b"\xff" * 100):
        assert api.ask("POST", "/definitions", raw=raw, headers=headers).status == 400


def test_a_file_with_a_mistake_changes_nothing(api: Api, name: str) -> None:
    queues = [{"name": name, "vhost": "/"}, {"name": f"{name}.b", "vhost": "/", "arguments": {"x-max-length": -1}}]
    answer = api.ask("POST", "/definitions", {"queues": queues})
    assert answer.status == 400
    assert answer.body["reason"].startswith(f"queues[1] ('{name}.b')")
    assert api.ask("GET", f"/queues/%2F/{name}").status == 404


def test_users_and_permissions_are_what_amqp_asks(server: HeadraceServer, api: Api, name: str) -> None:
    assert api.put(f"/users/{name}", {"password": "first", "tags": "management"}) == 201
    assert api.get("/whoami", user=f"{name}:first")["tags"] == ["management"]
    assert api.put(f"/users/{name}", {"password": "second", "tags": ["administrator"]}) == 204
    assert api.ask("GET", "/whoami", user=f"{name}:first").status == 401
    assert name in [user["name"] for user in api.get("/users/without-permissions")]
    assert api.put(f"/permissions/%2F/{name}", {"configure": "^a", "write": "", "read": ".*"}) == 201
    assert api.get(f"/users/{name}/permissions") == [{"user": name, "vhost": "/", "configure": "^a", "write": "", "read": ".*"}]
    row = api.get(f"/users/{name}")
    assert api.put(f"/users/{name}.copy", {"password_hash": row["password_hash"], "tags": "management"}) == 201
    assert api.get("/whoami", user=f"{name}.copy:second")["name"] == f"{name}.copy"
    assert api.ask("POST", "/users/bulk-delete", {"users": [name, f"{name}.copy"]}).status == 204
    assert api.ask("GET", f"/users/{name}").status == 404


def test_what_is_new_may_only_pass_on_where_its_user_may_write(api: Api, name: str) -> None:
    api.put(f"/users/{name}", {"password": "p", "tags": "management"})
    api.put(f"/permissions/%2F/{name}", {"configure": "^mine", "write": "^mine", "read": "^mine"})
    for kind, argument in (("queues", "x-dead-letter-exchange"), ("exchanges", "alternate-exchange")):
        path = f"/{kind}/%2F/mine-{name}"
        for target, status in (("amq.fanout", 401), ("mine-other", 201), ("mine-other", 204)):
            body = {"arguments": {argument: target}}
            assert api.ask("PUT", path, body, user=f"{name}:p").status == status
        assert api.delete(path) == 204


def test_line_ends_in_a_path_open_nothing(api: Api, queue: str, name: str) -> None:
    all_but_one = f"^(?!{queue}$)"
    api.put(f"/users/{name}", {"password": "p", "tags": "management"})
    api.put(f"/permissions/%2F/{name}", {"configure": "", "write": all_but_one, "read": ".*"})
    assert api.ask("POST", f"/bindings/%2F/e/amq.fanout/q/%0D{queue}", {}, user=f"{name}:p").status == 401
    assert api.get(f"/bindings/%2F/e/amq.fanout/q/{queue}") == []
    assert api.delete(f"/users/{name}") == 204
