import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.client.kafka.assignor import (
    assign_range,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from headrace.client.kafka.errors import ProtocolViolation


def test_the_first_members_get_one_partition_more() -> None:
    shares = assign_range({"b": ["t"], "a": ["t"], "c": ["t"]}, {"t": 7})
    assert shares == {"a": {"t": [0, 1, 2]}, "b": {"t": [3, 4]}, "c": {"t": [5, 6]}}


def test_members_get_only_topics_they_asked_for() -> None:
    shares = assign_range({"a": ["t", "u"], "b": ["u"]}, {"t": 2, "u": 2})
    assert shares == {"a": {"t": [0, 1], "u": [0]}, "b": {"u": [1]}}


def test_a_topic_that_does_not_exist_is_assigned_to_nobody() -> None:
    assert assign_range({"a": ["gone"]}, {}) == {"a": {}}


@given(
    st.dictionaries(st.text(min_size=1, max_size=4), st.sets(st.sampled_from("tuv"), min_size=1), min_size=1, max_size=6),
    st.fixed_dictionaries({name: st.integers(0, 20) for name in "tuv"}),
)
def test_every_partition_of_a_wanted_topic_goes_to_exactly_one_member_that_wants_it(
    subscriptions: dict[str, set[str]], counts: dict[str, int]
) -> None:
    shares = assign_range(subscriptions, counts)
    for topic, count in counts.items():
        takers = [(member, p) for member, share in shares.items() for p in share.get(topic, [])]
        wanted = any(topic in topics for topics in subscriptions.values())
        assert sorted(p for _, p in takers) == (list(range(count)) if wanted else [])
        assert all(topic in subscriptions[member] for member, _ in takers)


def test_subscriptions_and_assignments_survive_the_wire() -> None:
    assert decode_subscription(encode_subscription(["b", "a", "a"])) == ["a", "b"]
    assert decode_assignment(encode_assignment({"t": [1, 0]})) == {"t": [1, 0]}
    assert decode_assignment(b"") == {}


@given(st.binary(min_size=1, max_size=60))
def test_whatever_bytes_another_member_sends_the_error_has_a_name(data: bytes) -> None:
    for decode in (decode_subscription, decode_assignment):
        try:
            decode(data)
        except ProtocolViolation:
            pass


def test_a_cut_subscription_is_refused() -> None:
    with pytest.raises(ProtocolViolation, match="can't be read"):
        decode_subscription(encode_subscription(["topic"])[:-6])
