from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from tests.broker.vhosts.conftest import Site

from headrace.broker.vhosts.definitions_import import InvalidDefinitions, import_definitions
from headrace.broker.vhosts.definitions_json import export_definitions, export_vhost

VERSION = "3.10.8"

# As RabbitMQ 3.10.8 exported them.
RABBITMQ = json.loads("""
{"rabbit_version": "3.10.8", "rabbitmq_version": "3.10.8", "product_name": "RabbitMQ", "product_version": "3.10.8",
 "users": [
  {"name": "bob", "password_hash": "WrOu4/JRPNRCQ51qm/uWkv+n3oWCXpPsbQXPXAQEKkyF+u1c",
   "hashing_algorithm": "rabbit_password_hashing_sha256", "tags": ["monitoring", "management"], "limits": {}}],
 "vhosts": [{"name": "/"}, {"name": "v2"}],
 "permissions": [
  {"user": "bob", "vhost": "/", "configure": "^a", "write": ".*", "read": ""},
  {"user": "guest", "vhost": "v2", "configure": ".*", "write": ".*", "read": ".*"}],
 "topic_permissions": [{"user": "bob", "vhost": "/", "exchange": "amq.topic", "write": "^a", "read": ".*"}],
 "parameters": [{"vhost": "/", "component": "operator_policy", "name": "op",
   "value": {"pattern": "^d", "definition": {"max-length": 4}, "priority": 0, "apply-to": "queues"}}],
 "global_parameters": [{"name": "internal_cluster_id", "value": "rabbitmq-cluster-id-a3ernckV97kALP4Upvbf_g"}],
 "policies": [{"vhost": "/", "name": "ok", "pattern": "^d", "apply-to": "queues",
   "definition": {"ha-mode": "all", "max-length": 5}, "priority": 3}],
 "queues": [
  {"name": "amq.gen-Y5DcRdPWTQP9bgZRGGdbcA", "vhost": "/", "durable": false, "auto_delete": false, "arguments": {}},
  {"name": "durq", "vhost": "/", "durable": true, "auto_delete": false,
   "arguments": {"x-max-length": 7, "x-message-ttl": 5000}},
  {"name": "quorum", "vhost": "v2", "durable": true, "auto_delete": false, "arguments": {"x-queue-type": "quorum"}}],
 "exchanges": [{"name": "dx", "vhost": "/", "type": "topic", "durable": true, "auto_delete": false, "internal": false,
   "arguments": {"alternate-exchange": "ae"}}],
 "bindings": [
  {"source": "dx", "vhost": "/", "destination": "durq", "destination_type": "queue", "routing_key": "a.#",
   "arguments": {"x": 1}},
  {"source": "amq.fanout", "vhost": "/", "destination": "dx", "destination_type": "exchange", "routing_key": "",
   "arguments": {}},
  {"source": "amq.direct", "vhost": "v2", "destination": "quorum", "destination_type": "queue", "routing_key": "k",
   "arguments": {}}]}
""")


def load(site: Site, document: object, vhost: str | None = None) -> None:
    site.do(lambda: import_definitions(site.hosts, copy.deepcopy(document), vhost))


def exported(site: Site) -> dict[str, Any]:
    return json.loads(json.dumps(export_definitions(site.hosts, VERSION)))  # type: ignore[no-any-return]


def _in_order(entries: list[dict[str, object]]) -> list[str]:
    return sorted(json.dumps(entry, sort_keys=True) for entry in entries)


def test_definitions_of_rabbitmq_come_in(site: Site) -> None:
    load(site, RABBITMQ)
    settings = site.vhost.queues["durq"].settings
    assert (settings.max_length, settings.message_ttl_ms) == (4, 5000)
    site.publish("amq.fanout", "a.b", b"1")
    assert site.bodies("durq") == [b"1"]
    bob = site.hosts.users.authenticate("bob", "pw")
    assert bob is not None
    assert bob.permissions["/"].configure == "^a"
    guest = site.hosts.users.authenticate("guest", "guest")
    assert guest is not None
    assert set(guest.permissions) == {"/", "v2"}
    other = site.hosts.get("v2")
    assert other is not None
    assert other.queues["quorum"].kind == "quorum"


def test_definitions_go_out_as_they_came_in(site: Site) -> None:
    load(site, RABBITMQ)
    out = exported(site)
    for section in ("policies", "parameters", "global_parameters", "topic_permissions", "exchanges", "bindings"):
        assert _in_order(out[section]) == _in_order(RABBITMQ[section])
    assert [user for user in out["users"] if user["name"] == "bob"] == RABBITMQ["users"]
    assert [entry["name"] for entry in out["vhosts"]] == ["/", "v2"]
    kinds = {"quorum": "quorum"}
    taken = [entry for entry in RABBITMQ["queues"] if not entry["name"].startswith("amq.")]
    assert out["queues"] == [{**entry, "type": kinds.get(entry["name"], "classic")} for entry in taken]


def test_importing_twice_is_importing_once_also_after_a_crash(site: Site) -> None:
    load(site, RABBITMQ)
    first = exported(site)
    load(site, RABBITMQ)
    assert exported(site) == first
    load(site, first)
    assert exported(site) == first
    first["queues"] = [queue for queue in first["queues"] if queue["durable"]]
    site.crash()
    again = exported(site)
    for section in first:
        if isinstance(first[section], list):
            assert _in_order(again[section]) == _in_order(first[section])


def test_exclusive_queues_stay_here(site: Site) -> None:
    site.do(lambda: site.vhost.declare_queue("mine", exclusive=True, owner=site))
    site.do(lambda: site.vhost.bind_queue("mine", "amq.fanout", "", {}, site))
    assert not exported(site)["queues"]
    assert not exported(site)["bindings"]


def test_one_vhost_goes_into_another(site: Site) -> None:
    load(site, RABBITMQ)
    out = json.loads(json.dumps(export_vhost(site.hosts, site.vhost, VERSION)))
    assert "users" not in out
    assert all("vhost" not in entry for section in out.values() if isinstance(section, list) for entry in section)
    site.do(lambda: site.hosts.create("copy"))
    load(site, out, "copy")
    copied = site.hosts.get("copy")
    assert copied is not None
    assert set(copied.queues) == set(site.vhost.queues)
    assert copied.queues["durq"].settings.max_length == 4
    assert copied.bindings.count == site.vhost.bindings.count


MISTAKES = [
    ([], "definitions must be a JSON object"),
    ({"queues": {}}, "queues must be a list"),
    ({"queues": [1]}, "queues[0]: must be an object"),
    ({"queues": [{"vhost": "/"}]}, "queues[0]: name is missing"),
    ({"queues": [{"vhost": "/", "name": ""}]}, "queues[0] (''): name is empty"),
    ({"queues": [{"vhost": "/", "name": "a" * 256}]}, f"queues[0] ('{'a' * 256}'): name is longer than 255 bytes"),
    ({"queues": [{"name": "q"}]}, "queues[0] ('q'): vhost is missing"),
    ({"queues": [{"vhost": "v", "name": "q"}]}, "queues[0] ('q'): there is no vhost 'v'"),
    ({"queues": [{"vhost": "/", "name": "q", "durable": "yes"}]}, "queues[0] ('q'): durable must be true or false"),
    (
        {"queues": [{"vhost": "/", "name": "new"}, {"vhost": "/", "name": "q", "arguments": {"x-max-length": -1}}]},
        "queues[1] ('q'): invalid arg 'x-max-length' for queue 'q' in vhost '/': {value_negative,-1}",
    ),
    ({"queues": [{"vhost": "/", "name": "q", "arguments": {"a": 2**64}}]}, f"queues[0] ('q'): {2**64} does not fit 64 bits"),
    (
        {"queues": [{"vhost": "/", "name": "q"}, {"vhost": "/", "name": "q", "auto_delete": True}]},
        "queues[1] ('q'): comes twice, with different properties",
    ),
    (
        {"queues": [{"vhost": "/", "name": "there", "durable": False}]},
        "queues[0] ('there'): inequivalent arg 'durable' for queue 'there' in vhost '/': received 'false' but current is "
        "'true'",
    ),
    ({"exchanges": [{"vhost": "/", "name": "x", "type": "no"}]}, "exchanges[0] ('x'): unknown exchange type 'no'"),
    (
        {"exchanges": [{"vhost": "/", "name": "amq.x", "type": "fanout"}]},
        "exchanges[0] ('amq.x'): exchange name 'amq.x' contains reserved prefix 'amq.*'",
    ),
    (
        {"bindings": [{"vhost": "/", "source": "amq.fanout", "destination": "q"}]},
        "bindings[0] ('amq.fanout'): there is no queue 'q' in vhost '/'",
    ),
    (
        {"bindings": [{"vhost": "/", "source": "x", "destination": "there"}]},
        "bindings[0] ('x'): there is no exchange 'x' in vhost '/'",
    ),
    (
        {"policies": [{"vhost": "/", "name": "p", "pattern": "a", "definition": {"max-length": "x"}}]},
        "policies[0] ('p'): <<\"x\">> is not a valid maximum length",
    ),
    ({"permissions": [{"user": "u", "vhost": "/"}]}, "permissions[0] ('u'): there is no user 'u'"),
    ({"users": [{"name": "u", "hashing_algorithm": "rot13"}]}, "users[0] ('u'): unknown hashing_algorithm 'rot13'"),
    ({"vhosts": [{"name": "v", "default_queue_type": "x"}]}, "vhosts[0] ('v'): unsupported default_queue_type 'x'"),
]


@pytest.mark.parametrize(("document", "text"), MISTAKES)
def test_a_mistake_is_named_and_nothing_is_changed(site: Site, document: Any, text: str) -> None:
    site.do(lambda: site.vhost.declare_queue("there", durable=True))
    before = exported(site)
    if isinstance(document, dict):  # much that is right comes before it
        document = {"vhosts": [{"name": "new"}], **document}
    with pytest.raises(InvalidDefinitions) as refusal:
        load(site, document)
    assert str(refusal.value) == text
    assert exported(site) == before


def test_bindings_of_a_new_vhost_to_what_every_vhost_has(site: Site) -> None:
    document = {
        "vhosts": [{"name": "v"}],
        "queues": [{"vhost": "v", "name": "q"}],
        "bindings": [
            {"vhost": "v", "source": "amq.topic", "destination": "q", "destination_type": "queue", "routing_key": "#"},
            {"vhost": "v", "source": "", "destination": "q", "destination_type": "queue", "routing_key": "q"},
        ],
    }
    load(site, document)
    vhost = site.hosts.get("v")
    assert vhost is not None
    assert vhost.bindings.count == 1


def test_types_of_queues_in_newer_definitions(site: Site) -> None:
    queue = {"vhost": "/", "name": "s", "durable": True, "auto_delete": False, "type": "quorum", "arguments": {}}
    load(site, {"queues": [queue]})
    assert site.vhost.queues["s"].kind == "quorum"


def test_a_default_queue_type_does_not_change_what_definitions_say(site: Site) -> None:
    document = {
        "vhosts": [{"name": "v", "metadata": {"default_queue_type": "quorum", "description": "d", "tags": ["t"]}}],
        "queues": [{"vhost": "v", "name": "q", "durable": True, "type": "classic"}],
    }
    load(site, document)
    vhost = site.hosts.get("v")
    assert vhost is not None
    assert (vhost.default_queue_type, vhost.description, vhost.tags) == ("quorum", "d", ("t",))
    assert vhost.queues["q"].kind == "classic"


def test_queues_without_a_type_are_of_their_virtual_hosts_default(site: Site) -> None:
    document = {
        "vhosts": [{"name": "v", "default_queue_type": "quorum"}],
        "queues": [{"vhost": "v", "name": "q"}, {"vhost": "v", "name": "gone", "auto_delete": True}],
    }
    load(site, document)
    vhost = site.hosts.get("v")
    assert vhost is not None
    assert {name: queue.kind for name, queue in vhost.queues.items()} == {"q": "quorum", "gone": "classic"}
    load(site, {"queues": [{"vhost": "v", "name": "later"}]})
    assert vhost.queues["later"].kind == "quorum"


def test_queues_that_the_server_named_are_left_out(site: Site) -> None:
    queue, binding = {"vhost": "/", "name": "amq.gen-x"}, {"vhost": "/", "source": "amq.direct", "destination": "amq.gen-x"}
    load(site, {"queues": [queue], "bindings": [binding]})
    assert not site.vhost.queues


@pytest.mark.parametrize(("version", "algorithm"), [("3.5.4", "md5"), ("3.6.1", "sha256"), ("", "sha256"), ("4.1.0", "sha256")])
def test_hashes_of_old_files(site: Site, version: str, algorithm: str) -> None:
    load(site, {"rabbit_version": version, "users": [{"name": "u", "password_hash": "WAbU0ZIcvjTpxM3Q3SbJhEAM2tQ="}]})
    user = site.hosts.users.get("u")
    assert user is not None
    assert user.hashing_algorithm == f"rabbit_password_hashing_{algorithm}"


def test_passwords_and_old_tags(site: Site) -> None:
    load(site, {"users": [{"name": "u", "password": "secret", "tags": "administrator, x"}]})
    user = site.hosts.users.authenticate("u", "secret")
    assert user is not None
    assert user.tags == ("administrator", "x")
