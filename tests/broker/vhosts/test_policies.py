from __future__ import annotations

from collections.abc import Mapping

import pytest
from tests.broker.vhosts.conftest import Site

from headrace.broker.queues.settings import Overflow, QueueSettings, RetryOn
from headrace.broker.vhosts.effective import queue_settings
from headrace.broker.vhosts.policies import Policies, Policy, merged
from headrace.broker.vhosts.policy_checks import InvalidPolicy, checked_policy


def settings_of(site: Site, queue: str = "q") -> QueueSettings:
    return site.vhost.queues[queue].settings


def set_policy(site: Site, name: str, pattern: str, definition: Mapping[str, object], **how: object) -> Policy:
    policy = checked_policy(name, "/", pattern, definition, **how)  # type: ignore[arg-type]
    site.do(lambda: site.vhost.set_policy(policy))
    return policy


def test_a_policy_comes_into_force_for_queues_that_are_there_and_those_that_come(site: Site) -> None:
    site.do(lambda: site.vhost.declare_queue("q1"))
    policy = set_policy(site, "p", "^q", {"max-length": 2, "overflow": "reject-publish"})
    site.do(lambda: site.vhost.declare_queue("q2"))
    site.do(lambda: site.vhost.declare_queue("other q"))
    for name in ("q1", "q2"):
        assert settings_of(site, name) == QueueSettings(max_length=2, overflow=Overflow.REJECT_PUBLISH)
    assert settings_of(site, "other q") == QueueSettings()
    assert site.publish("", "q1", b"1", b"2", b"3").rejected
    site.do(lambda: site.vhost.clear_policy(policy))
    assert settings_of(site, "q1") == QueueSettings()


def test_a_shorter_limit_drops_what_is_above_it(site: Site) -> None:
    site.do(lambda: site.vhost.declare_queue("q"))
    site.publish("", "q", b"1", b"2", b"3")
    set_policy(site, "p", "q", {"max-length": 1})
    site.rig.advance(0.01)
    assert site.bodies("q") == [b"3"]


def test_the_highest_priority_wins_alone(site: Site) -> None:
    site.do(lambda: site.vhost.declare_queue("q"))
    set_policy(site, "low", "q", {"max-length": 1, "message-ttl": 5}, priority=1)
    set_policy(site, "high", "q", {"max-length": 9}, priority=2)
    assert settings_of(site) == QueueSettings(max_length=9)


@pytest.mark.parametrize(
    ("apply_to", "expected"),
    [
        ("all", {"classic", "quorum", "stream", "exchange"}),
        ("queues", {"classic", "quorum", "stream"}),
        ("classic_queues", {"classic"}),
        ("quorum_queues", {"quorum"}),
        ("streams", {"stream"}),
        ("exchanges", {"exchange"}),
    ],
)
def test_what_a_policy_applies_to(apply_to: str, expected: set[str]) -> None:
    policies = Policies()
    policies.put(Policy("p", "/", "a", {"max-length": 1}, apply_to=apply_to))
    assert {kind for kind in ("classic", "quorum", "stream", "exchange") if policies.definition("xax", kind)} == expected
    assert not policies.definition("b", "classic")


def test_an_alternate_exchange_by_policy(site: Site) -> None:
    vhost = site.vhost
    site.do(lambda: vhost.declare_exchange("x", "direct"))
    site.do(lambda: vhost.declare_exchange("y", "direct", arguments={"alternate-exchange": "own"}))
    site.do(lambda: vhost.declare_queue("q"))
    site.do(lambda: vhost.bind_queue("q", "amq.fanout", "", {}))
    policy = set_policy(site, "p", "^[xyz]$", {"alternate-exchange": "amq.fanout"}, apply_to="exchanges")
    site.do(lambda: vhost.declare_exchange("z", "direct"))
    assert [site.publish(name, "k").routed for name in "xyz"] == [True, False, True]
    site.do(lambda: vhost.clear_policy(policy))
    assert [site.publish(name, "k").routed for name in "xyz"] == [False, False, False]


def test_an_operator_policy_is_the_stricter_of_both() -> None:
    policy = {"max-length": 10, "message-ttl": 5, "dead-letter-exchange": "x", "overflow": "drop-head"}
    operator = {"max-length": 5, "message-ttl": 50, "expires": 7, "overflow": "reject-publish"}
    assert merged(policy, operator) == {
        "max-length": 5,
        "message-ttl": 5,
        "expires": 7,
        "dead-letter-exchange": "x",
        "overflow": "reject-publish",
    }
    assert merged({"delivery-limit": -1}, {"delivery-limit": 5}) == {"delivery-limit": 5}
    assert merged({"delivery-limit": 9}, {"delivery-limit": 5}) == {"delivery-limit": 5}


def test_arguments_and_policies_together() -> None:
    arguments = {
        "x-message-ttl": 100,
        "x-max-length": 9,
        "x-expires": 50,
        "x-dead-letter-exchange": "mine",
        "x-overflow": "reject-publish",
        "x-max-priority": 5,
        "x-single-active-consumer": True,
    }
    policy = {
        "message-ttl": 200,
        "max-length": 3,
        "dead-letter-exchange": "theirs",
        "dead-letter-routing-key": "k",
        "overflow": "drop-head",
        "consumer-timeout": 60_000,
        "delivery-limit": 3,
    }
    assert queue_settings("classic", arguments, policy) == QueueSettings(
        message_ttl_ms=100,
        expires_ms=50,
        max_length=3,
        overflow=Overflow.REJECT_PUBLISH,
        dead_letter_exchange="mine",
        dead_letter_routing_key="k",
        max_priority=5,
        single_active_consumer=True,
        consumer_timeout_ms=60_000,
    )
    quorum = queue_settings("quorum", {"x-overflow": "reject-publish"}, policy)
    assert quorum.overflow is Overflow.DROP_HEAD  # a quorum queue follows the policy


def test_delivery_limits_of_quorum_queues() -> None:
    def limit(argument: int | None = None, policy: int | None = None) -> int | None:
        arguments = {} if argument is None else {"x-delivery-limit": argument}
        return queue_settings("quorum", arguments, {} if policy is None else {"delivery-limit": policy}).delivery_limit

    assert limit() == 20
    assert limit(5) == 5
    assert limit(5, 3) == 3
    assert limit(-1) is None
    assert limit(-1, 4) == 4
    assert queue_settings("classic", {}, {}).delivery_limit is None


def test_retries_need_a_shortest_wait() -> None:
    both = {"x-delayed-retry-type": "failed", "x-delayed-retry-min": 10, "x-delayed-retry-max": 100}
    settings = queue_settings("quorum", both, {})
    assert (settings.retry_on, settings.retry_min_ms, settings.retry_max_ms) == (RetryOn.FAILED, 10, 100)
    settings = queue_settings("classic", {"x-delayed-retry-type": "all", "x-delayed-retry-min": 10}, {})
    assert (settings.retry_on, settings.retry_min_ms, settings.retry_max_ms) == (RetryOn.ALL, 10, 10)
    assert queue_settings("quorum", {"x-delayed-retry-type": "all"}, {}).retry_on is RetryOn.DISABLED


def test_streams_follow_the_policy() -> None:
    assert queue_settings("stream", {"x-max-length-bytes": 5}, {"max-length-bytes": 9}).max_length_bytes == 9
    assert queue_settings("stream", {"x-max-age": "1h"}, {}).max_age_ms == 3_600_000
    assert queue_settings("stream", {"x-max-age": "1h"}, {"max-age": "5s"}).max_age_ms == 5000
    assert queue_settings("stream", {}, {}).max_age_ms is None


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ({"definition": {}}, "no policy provided"),
        ({"definition": {"foo": 1}}, '[{<<"foo">>,1}] are not recognised policy settings'),
        ({"definition": []}, "definition must be a dictionary: []"),
        ({"definition": {"max-length": -1}}, "-1 is not a valid maximum length"),
        ({"definition": {"max-length": True}}, "true is not a valid maximum length"),
        ({"definition": {"expires": 0}}, "0 is not a valid queue expiry"),
        ({"definition": {"overflow": "x"}}, '<<"x">> is not a valid overflow value'),
        ({"definition": {"max-age": "1"}}, '<<"1">> is not a valid max age'),
        ({"definition": {"dead-letter-exchange": 1}}, "1 is not a valid dead letter exchange name"),
        ({"definition": {"delayed-retry-type": "all"}}, "delayed-retry-min is required when delayed-retry-type is all"),
        ({"priority": "x"}, 'priority should be a number, actually was <<"x">>'),
        (
            {"apply_to": "zz"},
            "apply-to 'zz' unrecognised; should be one of: 'queues', 'classic_queues', 'quorum_queues', 'streams', "
            "'exchanges', or 'all'",
        ),
        ({"pattern": 1}, "pattern should be a binary but was 1"),
        ({"pattern": "a" * 1025}, "pattern must not exceed 1024 bytes"),
        (
            {"definition": {"dead-letter-exchange": "x"}, "operator": True},
            '[{<<"dead-letter-exchange">>,<<"x">>}] are not recognised policy settings',
        ),
    ],
)
def test_policies_that_make_no_sense_are_refused(how: Mapping[str, object], text: str) -> None:
    given = {"pattern": "^a", "definition": {"max-length": 1}, **how}
    with pytest.raises(InvalidPolicy) as refusal:
        checked_policy("p", "/", **given)  # type: ignore[arg-type]
    assert str(refusal.value) == text


def test_a_pattern_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidPolicy, match=r"^pattern should be regular expression but is invalid: "):
        checked_policy("p", "/", "(", {"max-length": 1})


def test_settings_of_clusters_are_accepted() -> None:
    checked_policy("p", "/", "", {"ha-mode": "all", "ha-sync-mode": "automatic", "queue-mode": "lazy"})
