"""Connections, channels and consumers of real clients, and their end."""

from __future__ import annotations

from typing import Any

import pika
import pytest
from tests.http.management.asking import Api, segment

from headrace.testing import HeadraceServer, wait_until


def connected(server: HeadraceServer, **properties: Any) -> Any:
    parameters = pika.URLParameters(server.amqp)
    parameters.client_properties = properties
    return pika.BlockingConnection(parameters)


def row_of(api: Api, label: str) -> dict[str, Any]:
    found = [row for row in api.get("/connections") if row["client_properties"].get("connection_name") == label]
    assert len(found) == 1
    return dict(found[0])


def test_a_connection_tells_about_itself(server: HeadraceServer, api: Api, name: str) -> None:
    connection = connected(server, connection_name=name)
    channel = connection.channel()
    row = row_of(api, name)
    peer, _, here = row["name"].partition(" -> ")
    assert here == server.amqp.rpartition("@")[2].strip("/")
    assert peer == f"{row['peer_host']}:{row['peer_port']}"
    assert (row["user"], row["vhost"], row["state"], row["channels"]) == ("guest", "/", "running", 1)
    assert (row["protocol"], row["auth_mechanism"], row["user_provided_name"]) == ("AMQP 0-9-1", "PLAIN", name)
    assert row["recv_oct"] > 0
    assert row["send_oct"] > 0
    assert row["client_properties"]["product"] == "Pika Python Client Library"
    path = f"/connections/{segment(row['name'])}"
    assert api.get(path)["name"] == row["name"]
    assert [each["number"] for each in api.get(f"{path}/channels")] == [channel.channel_number]
    assert row["name"] in [each["name"] for each in api.get("/vhosts/%2F/connections")]
    connection.close()
    wait_until(lambda: api.ask("GET", path).status == 404, what="the connection to be gone")


def test_clients_are_told_the_name_of_the_cluster(server: HeadraceServer, api: Api, name: str) -> None:
    before = api.get("/cluster-name")["name"]
    for wanted, told in ((name, name), ("x" * 5000, "x" * 255), (before, before)):
        assert api.put("/cluster-name", {"name": wanted}) == 204
        assert api.get("/cluster-name")["name"] == api.get("/overview")["cluster_name"] == told
        with connected(server) as connection:
            assert connection._impl.server_properties["cluster_name"] == told
    assert api.delete("/global-parameters/cluster_name") == 204


def test_a_connection_is_closed_with_the_reason_that_is_given(server: HeadraceServer, api: Api, name: str) -> None:
    connection = connected(server, connection_name=name)
    path = f"/connections/{segment(row_of(api, name)['name'])}"
    assert api.ask("DELETE", path, headers={"x-reason": "maintenance"}).status == 204
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        connection.process_data_events(10)
    assert (closed.value.reply_code, closed.value.reply_text) == (320, "CONNECTION_FORCED - maintenance")
    assert api.delete(path) == 404


def test_all_connections_of_a_user_are_closed_at_once(server: HeadraceServer, api: Api, name: str) -> None:
    assert api.put(f"/users/{name}", {"password": "secret", "tags": ""}) == 201
    assert api.put(f"/permissions/%2F/{name}", {"configure": ".*", "write": ".*", "read": ".*"}) == 201
    parameters = pika.URLParameters(server.amqp)
    parameters.credentials = pika.PlainCredentials(name, "secret")
    connections = [pika.BlockingConnection(parameters) for _ in range(3)]
    assert len(api.get(f"/connections/username/{name}")) == 3
    assert api.delete(f"/connections/username/{name}") == 204
    for connection in connections:
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker):
            connection.process_data_events(10)
    assert api.get(f"/connections/username/{name}") == []


def test_who_does_not_monitor_sees_and_closes_only_his_own(server: HeadraceServer, api: Api, name: str) -> None:
    assert api.put(f"/users/{name}", {"password": "secret", "tags": "management"}) == 201
    assert api.put(f"/permissions/%2F/{name}", {"configure": ".*", "write": ".*", "read": ".*"}) == 201
    other = connected(server, connection_name=name)
    path = f"/connections/{segment(row_of(api, name)['name'])}"
    assert api.get("/connections", user=f"{name}:secret") == []
    assert api.ask("GET", "/connections/username/guest", user=f"{name}:secret").status == 401
    for method in ("GET", "DELETE"):
        assert api.ask(method, path, user=f"{name}:secret").status == 401
    assert api.put(f"/users/{name}", {"password": "secret", "tags": "monitoring"}) == 204
    assert api.ask("GET", path, user=f"{name}:secret").status == 200
    assert api.delete(path, user=f"{name}:secret") == 401
    assert api.delete("/connections/username/guest", user=f"{name}:secret") == 401
    assert api.put(f"/users/{name}", {"password": "secret", "tags": "management"}) == 204
    other.process_data_events(0)
    other.close()


def test_a_channel_tells_what_went_through_it(server: HeadraceServer, api: Api, name: str, queue: str) -> None:
    connection = connected(server, connection_name=name)
    channel = connection.channel()
    channel.confirm_delivery()
    channel.basic_qos(prefetch_count=3)
    for number in range(10):
        channel.basic_publish("", queue, b"%d" % number)
    tags: list[int] = []
    channel.basic_consume(queue, lambda _, method, *rest: tags.append(method.delivery_tag), consumer_tag="reader")
    wait_until(lambda: connection.process_data_events(0.01) or len(tags) == 3, what="deliveries")
    channel.basic_ack(tags[1], multiple=True)
    wait_until(lambda: connection.process_data_events(0.01) or len(tags) == 5, what="more deliveries")
    label = f"{row_of(api, name)['name']} (1)"
    row = api.get(f"/channels/{segment(label)}")
    assert (row["name"], row["number"], row["confirm"], row["transactional"]) == (label, 1, True, False)
    assert (row["prefetch_count"], row["messages_unacknowledged"], row["consumer_count"]) == (3, 3, 1)
    stats = row["message_stats"]
    assert [stats[name] for name in ("publish", "confirm", "deliver", "ack")] == [10, 10, 5, 2]
    (consumer,) = row["consumer_details"]
    assert (consumer["consumer_tag"], consumer["queue"]) == ("reader", {"name": queue, "vhost": "/"})
    assert (consumer["ack_required"], consumer["prefetch_count"], consumer["active"]) == (True, 3, True)
    details = api.get(f"/queues/%2F/{queue}")
    assert details["consumer_details"] == [consumer]
    assert (details["consumers"], details["messages_ready"], details["messages_unacknowledged"]) == (1, 5, 3)
    assert consumer in api.get("/consumers/%2F")
    connection.close()
    wait_until(lambda: api.get(f"/queues/%2F/{queue}")["consumer_details"] == [], what="the consumer to be gone")


def test_with_a_single_active_consumer_the_others_wait(server: HeadraceServer, api: Api, name: str) -> None:
    assert api.put(f"/queues/%2F/{name}", {"arguments": {"x-single-active-consumer": True}}) == 201
    connection = connected(server, connection_name=name)
    channel = connection.channel()
    for tag in ("first", "second"):
        channel.basic_consume(name, lambda *message: None, consumer_tag=tag)
    row = api.get(f"/queues/%2F/{name}")
    assert row["single_active_consumer_tag"] == "first"
    states = {each["consumer_tag"]: (each["active"], each["activity_status"]) for each in row["consumer_details"]}
    assert states == {"first": (True, "single_active"), "second": (False, "waiting")}
    connection.close()
    assert api.delete(f"/queues/%2F/{name}") == 204


def test_an_exclusive_queue_names_its_owner_and_is_not_for_others(server: HeadraceServer, api: Api, name: str) -> None:
    connection = connected(server, connection_name=name)
    connection.channel().queue_declare(name, exclusive=True)
    row = api.get(f"/queues/%2F/{name}")
    assert (row["exclusive"], row["owner_pid_details"]["name"]) == (True, row_of(api, name)["name"])
    for method, path in (("DELETE", ""), ("DELETE", "/contents"), ("GET", "/peek")):
        assert api.ask(method, f"/queues/%2F/{name}{path}").status == 400
    connection.close()
    wait_until(lambda: api.ask("GET", f"/queues/%2F/{name}").status == 404, what="the queue to be gone")


def test_a_virtual_host_that_is_deleted_closes_its_connections(server: HeadraceServer, api: Api, name: str) -> None:
    assert api.put(f"/vhosts/{name}") == 201
    parameters = pika.URLParameters(server.amqp)
    parameters.virtual_host = name
    connection = pika.BlockingConnection(parameters)
    connection.channel().queue_declare("q", durable=True)
    assert api.delete(f"/vhosts/{name}") == 204
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        connection.process_data_events(10)
    assert closed.value.reply_code == 320
    assert api.ask("GET", f"/queues/{name}").status == 404
