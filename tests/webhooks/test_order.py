"""Events that must not overtake each other, and those that may."""

from __future__ import annotations

from tests.webhooks.conftest import WebhookSite

from headrace.record import Event


def publish(site: WebhookSite, *keys: bytes | None, partition: int = 0) -> None:
    site.append("t", *(Event(key, b"v") for key in keys), partition=partition)
    site.rig.settle()


def test_events_of_one_key_wait_for_each_other_and_those_of_others_do_not(site: WebhookSite) -> None:
    site.endpoint.reply = lambda sent: None if sent.headers["headrace-key"] == "a" else 200
    site.webhook(order="key")
    publish(site, b"b")
    site.pass_time(0.1)
    publish(site, b"a", b"a", b"b", b"a", b"c", b"b")
    site.pass_time(1)
    assert site.endpoint.offsets == [0, 1, 3, 5, 6]  # one of a's three, and all others
    for expected in ([2], [4], []):
        ((_, future),) = site.endpoint.hanging
        site.endpoint.hanging.clear()
        before = len(site.endpoint.sent)
        site.rig.call(lambda future=future: future.set_result(200))  # type: ignore[misc]
        site.pass_time(1)
        assert site.endpoint.offsets[before:] == expected
    assert site.committed() == 7


def test_one_that_fails_holds_back_its_key_alone_and_the_position_goes_on(site: WebhookSite) -> None:
    broken = {0}
    site.endpoint.reply = lambda sent: 500 if sent.offset in broken else 200
    site.webhook(order="key", first_pause_s=20)
    publish(site, b"a", b"b", b"a", b"b", b"a")
    site.pass_time(1)
    publish(site, b"a", b"c")
    site.pass_time(1)
    assert site.endpoint.offsets == [0, 1, 3, 6]
    assert site.pending() == {(0, 0): 1, (0, 2): 0, (0, 4): 0, (0, 5): 0}
    assert site.committed() == 7
    site.crash()
    broken.clear()
    site.pass_time(60)
    assert site.endpoint.offsets == [0, 1, 3, 6, 0, 2, 4, 5]
    assert site.pending() == {}


def test_one_that_is_given_up_lets_those_behind_it_go(site: WebhookSite) -> None:
    site.endpoint.reply = lambda sent: 500 if sent.offset == 0 else 200
    site.webhook(order="key", max_attempts=2, first_pause_s=2)
    publish(site, b"a", b"a", b"b")
    site.pass_time(20)
    assert site.endpoint.offsets == [0, 2, 0, 1]
    assert (site.pending(), site.committed()) == ({}, 3)
    assert [record.value for record in site.records("w.dead-letters")] == [b"v"]


def test_events_without_a_key_wait_for_nobody(site: WebhookSite) -> None:
    site.endpoint.reply = lambda sent: 500 if sent.offset == 0 else 200
    site.webhook(order="key", first_pause_s=20)
    publish(site, None, None, None)
    site.pass_time(1)
    assert site.endpoint.offsets == [0, 1, 2]


def test_one_that_fails_holds_back_its_partition_and_no_other(site: WebhookSite) -> None:
    site.rig.run(site.broker.topics.add_partitions("t", 2))
    broken = {0}
    place = "headrace-partition"
    site.endpoint.reply = lambda sent: 500 if sent.offset in broken and sent.headers[place] == "0" else 200
    site.webhook(order="partition", first_pause_s=20, concurrency=4)
    publish(site, b"a", b"b", b"c")
    publish(site, b"a", b"b", b"c", partition=1)
    site.pass_time(1)
    assert [(sent.headers[place], sent.offset) for sent in site.endpoint.sent if sent.headers[place] == "0"] == [("0", 0)]
    assert [sent.offset for sent in site.endpoint.sent if sent.headers[place] == "1"] == [0, 1, 2]
    assert (site.pending(), site.committed(), site.committed(partition=1)) == ({(0, 0): 1}, 1, 3)
    assert site.run_of().reading.outstanding == 0  # what waits is not in memory
    site.crash()
    broken.clear()
    site.pass_time(60)
    assert [sent.offset for sent in site.endpoint.sent if sent.headers[place] == "0"] == [0, 0, 1, 2]
    assert (site.pending(), site.committed()) == ({}, 3)


def test_an_order_that_is_given_up_frees_what_was_held_back(site: WebhookSite) -> None:
    site.endpoint.reply = lambda sent: 500 if sent.offset == 0 else 200
    site.webhook(order="key", first_pause_s=1000)
    publish(site, b"a", b"a", b"a")
    site.pass_time(1)
    assert site.endpoint.offsets == [0]
    site.webhook(order="none", first_pause_s=1000)
    site.pass_time(1)
    assert site.endpoint.offsets == [0, 1, 2]
    assert site.pending() == {(0, 0): 1}


def test_a_period_goes_through_the_lanes_of_its_keys(site: WebhookSite) -> None:
    site.webhook(order="key", first_pause_s=5)
    publish(site, b"a", b"b", b"a", b"b", b"a")
    site.pass_time(1)
    site.endpoint.sent.clear()
    broken = {0}
    site.endpoint.reply = lambda sent: 500 if sent.offset in broken else 200
    site.rig.run(site.run_of().replay({0: (0, 5)}))
    site.pass_time(1)
    publish(site, b"a")
    site.pass_time(1)
    assert site.endpoint.offsets == [0, 1, 3]
    site.crash()
    broken.clear()
    site.pass_time(60)
    assert site.endpoint.offsets == [0, 1, 3, 0, 2, 4, 5]
    assert (site.pending(), site.committed(), site.run_of().rows.jobs) == ({}, 6, {})


def test_one_that_comes_again_before_rows_of_its_key_does_not_stop_them(site: WebhookSite) -> None:
    """It was delivered, but the position was not behind it when the server crashed; rows of its key were behind it."""
    broken = {1}
    site.endpoint.reply = lambda sent: None if sent.offset == 0 else 500 if sent.offset in broken else 200
    site.webhook(order="key", first_pause_s=2)
    publish(site, b"b")  # hangs: the position stays at 0
    site.pass_time(0.5)
    run = site.run_of()
    run.endpoint.limits.allowance = 4
    publish(site, b"a", b"a", b"a")
    site.pass_time(1)
    assert site.pending() == {(0, 1): 1, (0, 2): 0, (0, 3): 0}
    broken = {2}
    run.endpoint.limits.allowance = 4
    site.pass_time(3)
    assert site.pending() == {(0, 2): 1, (0, 3): 0}
    site.endpoint.hanging.clear()
    broken = set()
    site.endpoint.reply = lambda sent: 200
    site.crash()
    site.pass_time(60)
    assert (site.pending(), site.committed()) == ({}, 4)
