"""What can't be written has not happened."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from tests.broker.vhosts.conftest import Site

from headrace.broker.vhosts.definitions_table import TABLE
from headrace.log.errors import RecoveryFailed, StorageError


@pytest.fixture
def broken(site: Site, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """Definitions can't be written any more."""

    def declare() -> None:
        site.vhost.declare_exchange("x", "fanout", durable=True)
        site.vhost.declare_queue("q", durable=True)
        site.vhost.bind_queue("q", "x", "", {})

    def put(rows: Mapping[bytes, bytes | None]) -> None:
        raise StorageError("the disk is full")

    site.do(declare)
    table = site.rig.run(site.rig.log.table(TABLE))
    monkeypatch.setattr(table, "put", put)
    yield site
    monkeypatch.undo()
    site.crash()
    assert set(site.vhost.queues) == {"q"}
    assert site.vhost.bindings.count == 1
    assert "x" in site.vhost.exchanges


def test_nothing_is_declared_bound_or_deleted_that_can_not_be_written(broken: Site) -> None:
    vhost = broken.vhost
    for work in (
        lambda: vhost.declare_queue("new", durable=True),
        lambda: vhost.declare_exchange("new", "fanout", durable=True),
        lambda: vhost.bind_queue("q", "x", "other", {}),
        lambda: vhost.unbind_queue("q", "x", "", {}),
        lambda: vhost.delete_queue("q"),
        lambda: vhost.delete_exchange("x"),
        lambda: broken.hosts.delete("/"),
        lambda: broken.hosts.delete_user("guest"),
    ):
        assert broken.refused(work) == (541, "definitions can't be stored: the disk is full")
    assert set(vhost.queues) == {"q"}
    assert "new" not in vhost.exchanges
    assert vhost.bindings.count == 1
    assert broken.publish("x", "", b"1").routed
    assert broken.hosts.users.get("guest") is not None
    topics = [name for name in broken.rig.log.topics() if name.startswith("__headrace_queue_")]
    assert topics == [vhost.queues["q"].topic]


def test_what_is_not_durable_works_on(broken: Site) -> None:
    owner = object()
    broken.do(lambda: broken.vhost.declare_queue("mine", exclusive=True, owner=owner))
    broken.do(lambda: broken.vhost.bind_queue("mine", "x", "", {}, owner))
    broken.do(lambda: broken.vhost.owner_gone(owner))
    assert set(broken.vhost.queues) == {"q"}


def test_limits_of_a_vhost(site: Site) -> None:
    site.do(lambda: site.hosts.put_parameter("vhost-limits", "/", "limits", {"max-queues": 1, "max-connections": 5}))
    site.crash()
    assert site.vhost.max_connections == 5
    site.do(lambda: site.vhost.declare_queue("a"))
    text = "cannot declare queue 'b': queue limit in vhost '/' (1) is reached"
    assert site.refused(lambda: site.vhost.declare_queue("b")) == (406, text)
    site.do(lambda: site.vhost.declare_queue("a"))
    site.do(lambda: site.hosts.clear_parameter("vhost-limits", "/", "limits"))
    site.do(lambda: site.vhost.declare_queue("b"))
    assert site.vhost.max_connections is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"nonsense", b"{}"),
        (b'["unheard of","x"]', b"{}"),
        (b'["queue","/","q"]', b"{}"),
        (b'["queue","/","q"]', b"not json"),
        (b'["exchange","/","x"]', b'{"type":"fanout","auto_delete":false,"internal":false,"arguments":"!"}'),
        (b'["policy","/","p"]', b'{"pattern":"(","definition":{},"priority":0,"apply_to":"all"}'),
        (b"[]", b"{}"),
    ],
)
def test_a_row_that_can_not_be_read_stops_the_start(site: Site, key: bytes, value: bytes) -> None:
    table = site.rig.run(site.rig.log.table(TABLE))
    site.do(lambda: table.put({key: value}))
    with pytest.raises(RecoveryFailed, match=TABLE):
        site.crash()


def test_what_a_queue_could_not_store_is_refused_and_others_have_it(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("bad", "good"):
        site.do(lambda name=name: site.vhost.declare_queue(name, durable=True))  # type: ignore[misc]
        site.do(lambda name=name: site.vhost.bind_queue(name, "amq.fanout", "", {}))  # type: ignore[misc]

    def publish(run: object) -> None:
        raise StorageError("the disk is full")

    monkeypatch.setattr(site.vhost.queues["bad"], "publish", publish)
    published = site.publish("amq.fanout", "", b"1", b"2")
    assert (published.routed, published.rejected, list(published.refused)) == (True, True, [0, 1])
    assert site.bodies("good") == [b"1", b"2"]
