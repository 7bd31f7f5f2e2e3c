"""The uniform and the range assignor: complete, even, and as little moved as possible."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from headrace.broker.groups.consumer.assignors import Subscriber, assignor_named

TOPICS = [UUID(int=number) for number in range(1, 5)]
uniform, ranges = assignor_named("uniform"), assignor_named("range")


def everything(assignment):
    return sorted((t, i) for target in assignment.values() for t, indexes in target.items() for i in indexes)


def load(target):
    return sum(map(len, target.values()))


@st.composite
def groups(draw, alike=False):
    counts = {topic: draw(st.integers(1, 9)) for topic in TOPICS}
    everyone = draw(st.sets(st.sampled_from(TOPICS), min_size=1)) if alike else None
    subscribers = []
    free = {(topic, index) for topic, count in counts.items() for index in range(count)}
    for number in range(draw(st.integers(1, 6))):
        topics = everyone or draw(st.sets(st.sampled_from(TOPICS)))
        had = draw(st.sets(st.sampled_from(sorted(free)), max_size=8)) if free else set()
        free -= had
        has = {topic: frozenset(i for t, i in had if t == topic) for topic in {t for t, _ in had}}
        subscribers.append(Subscriber(f"m{number}", None, frozenset(topics), has))
    return subscribers, counts


def check_complete(subscribers, counts, assignment):
    assert assignment.keys() == {subscriber.member_id for subscriber in subscribers}
    wanted = {topic for subscriber in subscribers for topic in subscriber.topics}
    assert everything(assignment) == sorted((topic, index) for topic in wanted for index in range(counts[topic]))
    for subscriber in subscribers:
        assert assignment[subscriber.member_id].keys() <= subscriber.topics
        assert all(assignment[subscriber.member_id].values()), "no empty sets"


def keep(subscribers, assignment):
    return [Subscriber(s.member_id, s.instance_id, s.topics, assignment[s.member_id]) for s in subscribers]


@given(groups())
def test_uniform_gives_each_partition_to_one_who_wants_it(group):
    subscribers, counts = group
    check_complete(subscribers, counts, uniform(subscribers, counts))


@given(groups(alike=True))
def test_uniform_is_even_when_all_want_the_same(group):
    subscribers, counts = group
    assignment = uniform(subscribers, counts)
    check_complete(subscribers, counts, assignment)
    loads = [load(target) for target in assignment.values()]
    assert max(loads) - min(loads) <= 1


@given(groups(alike=True))
def test_uniform_moves_only_what_it_must(group):
    subscribers, counts = group
    assignment = uniform(subscribers, counts)
    quota, extra = divmod(len(everything(assignment)), len(subscribers))
    had = [load({t: i for t, i in s.has.items() if t in s.topics}) for s in subscribers]
    kept = sum(len(s.has[t] & assignment[s.member_id].get(t, frozenset())) for s in subscribers for t in s.has)
    above = sum(1 for count in had if count > quota)
    assert kept == sum(min(count, quota) for count in had) + min(above, extra)


@given(groups())
def test_uniform_leaves_alone_what_it_made(group):
    subscribers, counts = group
    assignment = uniform(subscribers, counts)
    assert uniform(keep(subscribers, assignment), counts) == assignment


@given(groups())
def test_uniform_leaves_nothing_that_one_move_would_improve(group):
    subscribers, counts = group
    assignment = uniform(subscribers, counts)
    for giver in subscribers:
        for topic in assignment[giver.member_id]:
            takers = [s for s in subscribers if topic in s.topics]
            lowest = min(load(assignment[taker.member_id]) for taker in takers)
            assert load(assignment[giver.member_id]) - lowest <= 1


@given(groups())
def test_range_gives_each_member_one_run_of_each_topic(group):
    subscribers, counts = group
    assignment = ranges(subscribers, counts)
    check_complete(subscribers, counts, assignment)
    for topic in TOPICS:
        parts = [sorted(target[topic]) for target in assignment.values() if topic in target]
        assert all(part == list(range(part[0], part[-1] + 1)) for part in parts)
        readers = sum(topic in subscriber.topics for subscriber in subscribers)
        sizes = [len(part) for part in parts] + [0] * (readers - len(parts))
        assert not sizes or max(sizes) - min(sizes) <= 1


def test_range_takes_static_members_first_by_their_instance_ids():
    topic = TOPICS[0]
    subscribers = [
        Subscriber("a", None, frozenset({topic}), {}),
        Subscriber("z", "i1", frozenset({topic}), {}),
        Subscriber("b", "i2", frozenset({topic}), {}),
    ]
    assignment = ranges(subscribers, {topic: 3})
    assert {member_id: min(target[topic]) for member_id, target in assignment.items()} == {"z": 0, "b": 1, "a": 2}


def test_nobody_and_nothing():
    assert uniform([], {}) == ranges([], {}) == {}
    alone = [Subscriber("a", None, frozenset(), {})]
    assert uniform(alone, {}) == ranges(alone, {}) == {"a": {}}
