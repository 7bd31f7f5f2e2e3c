"""Topics out of a consumer's JoinGroup metadata."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.broker.groups.subscription import MalformedSubscription, subscribed_topics


@given(st.lists(st.text(max_size=20)), st.integers(0, 9), st.binary())
def test_the_topics_are_found_whatever_follows(topics, version, rest):
    metadata = version.to_bytes(2, "big") + len(topics).to_bytes(4, "big")
    for topic in topics:
        encoded = topic.encode()
        metadata += len(encoded).to_bytes(2, "big") + encoded
    assert subscribed_topics(metadata + rest) == set(topics)


@given(st.binary(max_size=40))
def test_any_bytes_are_a_subscription_or_malformed(metadata):
    try:
        subscribed_topics(metadata)
    except MalformedSubscription:
        pass


def test_a_lying_topic_count_is_malformed():
    with pytest.raises(MalformedSubscription):
        subscribed_topics(b"\x00\x00\x7f\xff\xff\xff")
