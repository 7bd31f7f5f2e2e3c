"""The simple assignor: nobody idle, nothing unread, as even as can be, and little moves."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.broker.groups.share.assignor import assign

TOPICS = [UUID(int=number) for number in range(1, 5)]
MEMBERS = [f"m{number}" for number in range(8)]


@settings(max_examples=60, deadline=None)
@given(
    members=st.sets(st.sampled_from(MEMBERS), min_size=1),
    partitions=st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 6), min_size=1),
    data=st.data(),
)
def test_with_one_subscription_all_have_the_same_to_do(members, partitions, data):
    subscriptions = dict.fromkeys(members, frozenset(partitions))
    places = {(topic, index) for topic, count in partitions.items() for index in range(count)}
    before = {
        member: frozenset(data.draw(st.sets(st.sampled_from([*sorted(places), (TOPICS[0], 99)]), max_size=3)))
        for member in data.draw(st.sets(st.sampled_from(MEMBERS)))
    }
    found = assign(subscriptions, partitions, before)
    assert set(found) == members
    assert {place for held in found.values() for place in held} == places
    sizes = [len(held) for held in found.values()]
    readers = [sum(place in held for held in found.values()) for place in places]
    if len(members) < len(places):
        assert set(readers) == {1}
        assert max(sizes) - min(sizes) <= 1
    else:
        assert set(sizes) == {1}
        assert max(readers) - min(readers) <= 1
    assert assign(subscriptions, partitions, found) == found  # nothing moves when nothing has changed


@settings(max_examples=60, deadline=None)
@given(
    subscriptions=st.dictionaries(st.sampled_from(MEMBERS), st.frozensets(st.sampled_from(TOPICS)), min_size=1),
    partitions=st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 6)),
)
def test_nobody_gets_what_it_did_not_ask_for_and_nothing_that_is_wanted_is_unread(subscriptions, partitions):
    found = assign(subscriptions, partitions, {})
    assert set(found) == set(subscriptions)
    for member, held in found.items():
        assert {topic for topic, _ in held} <= subscriptions[member]
        if any(topic in partitions for topic in subscriptions[member]):
            assert held
    wanted = {topic for subscribed in subscriptions.values() for topic in subscribed if topic in partitions}
    assert {place for held in found.values() for place in held} == {
        (topic, index) for topic in wanted for index in range(partitions[topic])
    }


def test_a_newcomer_takes_no_more_from_the_others_than_it_needs():
    topic = TOPICS[0]
    two = assign(dict.fromkeys(["a", "b"], frozenset({topic})), {topic: 6}, {})
    three = assign(dict.fromkeys(["a", "b", "c"], frozenset({topic})), {topic: 6}, two)
    assert len(three["c"]) == 2
    assert three["a"] < two["a"]
    assert three["b"] < two["b"]
