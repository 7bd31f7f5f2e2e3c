"""What is durable is there again after a crash, and nothing else."""

from __future__ import annotations

from tests.broker.vhosts.conftest import Site

from headrace.broker.vhosts.definitions_table import TABLE
from headrace.broker.vhosts.policy_checks import checked_policy
from headrace.broker.vhosts.users import Permissions, TopicPermissions, User
from headrace.record.amqp.tables import Int32


def test_a_new_broker_has_one_vhost_and_guest(site: Site) -> None:
    assert list(site.hosts.names) == ["/"]
    guest = site.hosts.users.authenticate("guest", "guest")
    assert guest is not None
    assert "/" in guest.permissions
    assert guest.tags == ("administrator",)


def test_durable_things_survive_a_crash(site: Site) -> None:
    vhost = site.vhost
    arguments = {"x-max-length": Int32(5), "x-dead-letter-exchange": "amq.fanout"}

    def declare() -> None:
        vhost.declare_exchange("x", "topic", durable=True, arguments={"alternate-exchange": "amq.fanout"})
        vhost.declare_exchange("passing", "fanout")
        vhost.declare_queue("q", durable=True, arguments=arguments)
        vhost.declare_queue("gone")
        vhost.declare_queue("mine", durable=True, exclusive=True, owner=site)
        vhost.bind_queue("q", "x", "a.#", {"n": Int32(1)})
        vhost.bind_queue("q", "passing", "", {})
        vhost.bind_queue("gone", "x", "#", {})
        vhost.bind_exchange("x", "amq.fanout", "", {})

    site.do(declare)
    site.publish("x", "a.b", b"1")
    site.crash()
    vhost = site.vhost
    assert set(vhost.queues) == {"q"}
    queue = vhost.queues["q"]
    assert queue.arguments == arguments
    assert type(queue.arguments["x-max-length"]) is Int32
    assert queue.settings.max_length == 5
    assert "passing" not in vhost.exchanges
    assert vhost.exchanges["x"].alternate == "amq.fanout"
    assert vhost.bindings.count == 2
    site.publish("amq.fanout", "a.c", b"2")
    assert site.bodies("q") == [b"1", b"2"]


def test_what_was_deleted_stays_deleted(site: Site) -> None:
    vhost = site.vhost

    def declare_and_delete() -> None:
        for name in ("x", "y"):
            vhost.declare_exchange(name, "fanout", durable=True)
        for name in ("p", "q"):
            vhost.declare_queue(name, durable=True)
            vhost.bind_queue(name, "x", "", {})
            vhost.bind_queue(name, "y", "", {})
        vhost.delete_queue("p")
        vhost.delete_exchange("x")
        vhost.unbind_queue("q", "y", "", {})

    site.do(declare_and_delete)
    site.crash()
    assert set(site.vhost.queues) == {"q"}
    assert not site.vhost.bindings.count
    assert "x" not in site.vhost.exchanges
    rows = [key for key, _ in site.hosts.definitions.stored()]
    assert sorted(str(key[0]) for key in rows) == ["exchange", "queue", "user", "vhost"]


def test_a_queue_that_is_declared_anew_is_empty(site: Site) -> None:
    site.do(lambda: site.vhost.declare_queue("q", durable=True))
    site.publish("", "q", b"old")
    site.do(lambda: site.vhost.delete_queue("q"))
    site.do(lambda: site.vhost.declare_queue("q", durable=True))
    site.crash()
    assert site.bodies("q") == []


def test_rows_without_what_they_belong_to_are_removed(site: Site) -> None:
    site.do(lambda: site.vhost.declare_queue("q", durable=True))
    site.do(lambda: site.vhost.bind_queue("q", "amq.fanout", "", {}))
    definitions = site.hosts.definitions

    def tear() -> None:
        definitions.set(["queue", "/", "q"], None)
        definitions.set(
            ["exchange", "nowhere", "x"], {"type": "fanout", "auto_delete": False, "internal": False, "arguments": ""}
        )
        definitions.write()

    site.do(tear)
    site.crash()
    rows = [str(key[0]) for key, _ in site.hosts.definitions.stored()]
    assert sorted(rows) == ["user", "vhost"]
    assert not [name for name in site.rig.log.topics() if name.startswith("__headrace_queue_")]


def test_vhosts_have_their_own_names(site: Site) -> None:
    def declare() -> None:
        site.hosts.create("v", description="d", tags=["a"], default_queue_type="quorum")
        for name in ("/", "v"):
            vhost = site.hosts.get(name)
            assert vhost is not None
            vhost.declare_queue("q", durable=True)

    site.do(declare)
    site.publish("", "q", b"1")
    site.crash()
    vhost = site.hosts.get("v")
    assert vhost is not None
    assert (vhost.description, vhost.tags, vhost.default_queue_type) == ("d", ("a",), "quorum")
    assert (vhost.queues["q"].kind, vhost.queues["q"].message_count) == ("quorum", 0)
    assert site.vhost.queues["q"].message_count == 1


def test_a_deleted_vhost_takes_everything_with_it(site: Site) -> None:
    def declare_and_delete() -> None:
        site.hosts.create("v")
        vhost = site.hosts.get("v")
        assert vhost is not None
        vhost.declare_exchange("x", "fanout", durable=True)
        vhost.declare_queue("q", durable=True)
        vhost.bind_queue("q", "x", "", {})
        vhost.set_policy(checked_policy("p", "v", ".*", {"max-length": 1}))
        site.hosts.put_user(User("u", permissions={"v": Permissions(), "/": Permissions()}))
        site.hosts.put_parameter("shovel", "v", "s", {"a": 1})
        site.hosts.delete("v")

    site.do(declare_and_delete)
    assert site.refused(lambda: site.hosts.delete("v"))[0] == 404
    site.crash()
    assert list(site.hosts.names) == ["/"]
    user = site.hosts.users.get("u")
    assert user is not None
    assert set(user.permissions) == {"/"}
    assert site.hosts.parameters == {}
    assert len(list(site.hosts.definitions.stored())) == 3  # the vhost / and two users


def test_policies_users_and_parameters_survive(site: Site) -> None:
    topics = (TopicPermissions("amq.topic", "^a", ".*"),)
    user = User("bob", site.hosts.users.hashed("pw"), tags=("x",), permissions={"/": Permissions("", "^w", ".*")},
                topic_permissions={"/": topics})  # fmt: skip
    policy = checked_policy("p", "/", "^q", {"max-length": 3}, 7, "queues")
    operator = checked_policy("o", "/", "^q", {"max-length": 2}, operator=True)

    def set_them() -> None:
        site.hosts.put_user(user)
        site.hosts.delete_user("guest")
        site.hosts.put_parameter("", None, "cluster_name", "c")
        site.vhost.declare_queue("q", durable=True)
        site.vhost.set_policy(policy)
        site.vhost.set_policy(operator)

    site.do(set_them)
    site.crash()
    assert list(site.hosts.users) == [user]
    assert site.hosts.parameters == {("", None, "cluster_name"): "c"}
    assert list(site.vhost.policies.all()) == [policy, operator]
    assert site.vhost.queues["q"].settings.max_length == 2


def test_a_clean_end_loses_nothing(site: Site) -> None:
    site.do(lambda: site.vhost.declare_queue("q", durable=True))
    site.publish("", "q", b"1")
    site.restart()
    assert site.bodies("q") == [b"1"]


def test_what_is_not_durable_is_not_written(site: Site) -> None:
    table = site.rig.run(site.rig.log.table(TABLE))
    before = len(table)

    def declare() -> None:
        assert not site.vhost.declare_exchange("x", "fanout")
        assert not site.vhost.declare_queue("q")[1]
        assert not site.vhost.bind_queue("q", "x", "", {})

    site.do(declare)
    assert len(table) == before
