"""Streams as they come in over a network that loses, doubles and disorders: against a model that knows what it did."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.multicast.network import FEED, Sent, stream

from headrace.multicast.feed.datagrams import encode, feed_number
from headrace.multicast.feed.ordering import SESSIONS_LEFT, Stream
from headrace.multicast.feed.reception import MAX_STREAMS, Reception

groups = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=4), min_size=1, max_size=30)


class Receiver:
    """Gives up what is due, and remembers all that it was told."""

    def __init__(self, window: int = 1024, reorder_s: float = 1.0) -> None:
        self.reception = Reception([FEED], window=window, reorder_s=reorder_s)
        self.sequences: list[int] = []
        self.gaps: list[tuple[int, int]] = []
        self.now = 0.0

    def take(self, data: bytes) -> None:
        taken = self.reception.take(memoryview(data), self.now)
        if taken is not None:
            self.hand_on(taken[1])
        self.look()

    def hand_on(self, records: list) -> None:
        for sequence, _, _, value, _ in records:
            assert value == b"%d" % sequence
            self.sequences.append(sequence)

    def look(self) -> None:
        for one in self.reception.due(self.now):
            missing = one.missing()
            assert missing is not None
            self.gaps.append(missing)
            self.hand_on(one.skip(missing[1]))
            self.reception.settled(one)

    def wait(self, seconds: float) -> None:
        """Until all that is due by then was looked at."""
        until = self.now + seconds
        while (due := self.reception.due_at()) is not None and due <= until:
            self.now = max(self.now, due)
            self.look()
        self.now = until

    @property
    def counts(self):
        return self.reception.counts


def lost_ranges(sent: list[Sent], arrived: set[int]) -> list[tuple[int, int]]:
    """What must be told: from the end of what arrived to where the next that arrived begins."""
    ranges: list[tuple[int, int]] = []
    for index, one in enumerate(sent):
        if index in arrived:
            continue
        if ranges and index - 1 not in arrived and ranges[-1][1] == one.previous:
            ranges[-1] = (ranges[-1][0], one.next)
        else:
            ranges.append((one.previous, one.next))
    return ranges


@given(groups, st.builds(random.Random, st.integers(0, 2**32)), st.floats(0, 0.6), st.floats(0, 0.5), st.integers(0, 40))
def test_within_the_window_events_are_in_order_and_gaps_are_exact(
    made: list[list[int]], chance: random.Random, loss: float, doubled: float, disorder: int
) -> None:
    sent, packer = stream(made)
    arrivals = []
    for index in range(len(sent)):
        copies = 0 if chance.random() < loss else 2 if chance.random() < doubled else 1
        arrivals += [(index + chance.uniform(0, disorder), index) for _ in range(copies)]
    receiver = Receiver()
    receiver.reception.stream(FEED, 0, 0)  # it knows where the feed begins
    for _, index in sorted(arrivals):
        receiver.take(sent[index].data)
    receiver.take(packer.heartbeat(0))
    receiver.wait(2.0)
    arrived = {index for _, index in arrivals}
    assert receiver.sequences == [sequence for index, one in enumerate(sent) if index in arrived for sequence in one.sequences]
    assert receiver.gaps == lost_ranges(sent, arrived)
    counts = receiver.counts
    assert counts.datagrams == len(arrivals)
    assert counts.duplicates == len(arrivals) - len(arrived)
    assert counts.events == len(receiver.sequences)
    assert counts.lost == sum(end - first for first, end in receiver.gaps)


@given(groups, st.builds(random.Random, st.integers(0, 2**32)), st.floats(0, 0.6), st.integers(0, 40), st.integers(1, 5))
def test_beyond_the_window_nothing_comes_twice_or_out_of_order_and_all_is_accounted_for(
    made: list[list[int]], chance: random.Random, loss: float, disorder: int, window: int
) -> None:
    sent, packer = stream(made)
    arrivals = [(i + chance.uniform(0, disorder), i) for i in range(len(sent)) for _ in range(2) if chance.random() > loss]
    receiver = Receiver(window=window, reorder_s=0.5)
    receiver.reception.stream(FEED, 0, 0)
    for _, index in sorted(arrivals):
        receiver.wait(chance.uniform(0, 0.2))
        receiver.take(sent[index].data)
        for one in receiver.reception:
            assert one.holds <= window
    receiver.take(packer.heartbeat(0))
    receiver.wait(2.0)
    given_up = {sequence for first, end in receiver.gaps for sequence in range(first, end)}
    assert receiver.sequences == sorted(set(receiver.sequences))
    assert not given_up & set(receiver.sequences)
    assert {sequence for one in sent for sequence in one.sequences} <= given_up | set(receiver.sequences)
    assert receiver.gaps == sorted(receiver.gaps)


@given(groups, st.builds(random.Random, st.integers(0, 2**32)), st.floats(0, 0.6), st.integers(1, 6))
def test_what_is_fetched_back_while_more_comes_in_fills_exactly_what_is_missing(
    made: list[list[int]], chance: random.Random, loss: float, window: int
) -> None:
    sent, packer = stream(made, topic="prices")
    log = [sequence for one in sent for sequence in one.sequences]
    reception = Reception([FEED], window=window, reorder_s=0.0)
    one = reception.stream(FEED, 0, 0)
    got: list[int] = []

    def fetch_some() -> None:
        missing = one.missing()
        if missing is None:
            return
        one.filling = True
        to = chance.randint(missing[0] + 1, missing[1] + 2)  # a batch may reach further than what was asked for
        to = min(to, log[-1] + 1)
        records = [(sequence, 0, None, b"%d" % sequence, ()) for sequence in log if missing[0] <= sequence < to]
        got.extend(record[0] for record in one.fill(records, to))
        one.filling = one.missing() is not None

    for datagram in sent:
        if chance.random() >= loss:
            taken = reception.take(memoryview(datagram.data), 0.0)
            assert taken is not None
            got.extend(record[0] for record in taken[1])
        if one.missing() is not None:
            one.filling = True
        assert one.holds <= window
        if chance.random() < 0.3:
            fetch_some()
    reception.take(memoryview(packer.heartbeat(0)), 0.0)
    while one.missing() is not None:
        fetch_some()
    assert got == log
    assert reception.counts.lost == 0
    assert reception.counts.events == len(log)


def test_a_heartbeat_tells_of_the_last_datagram_that_was_lost() -> None:
    sent, packer = stream([[0], [0, 0]])
    receiver = Receiver(reorder_s=1.0)
    receiver.take(sent[0].data)
    receiver.take(packer.heartbeat(0))
    assert receiver.gaps == []
    receiver.wait(0.9)
    assert receiver.gaps == []
    receiver.wait(0.2)
    assert receiver.gaps == [(1, 3)]
    receiver.take(sent[1].data)
    assert receiver.sequences == [0]
    assert receiver.counts.duplicates == 1


def test_a_heartbeat_that_overtakes_what_it_tells_of_does_no_harm() -> None:
    sent, packer = stream([[0], [0, 0]])
    receiver = Receiver()
    receiver.take(sent[0].data)
    receiver.take(packer.heartbeat(0))
    receiver.take(sent[1].data)
    receiver.wait(5.0)
    assert receiver.sequences == [0, 1, 2]
    assert receiver.gaps == []


def test_gaps_that_are_close_together_are_one_question() -> None:
    sent, _ = stream([[0]] * 10)
    reception = Reception([FEED])
    for index in (0, 2, 4, 5, 9):
        reception.take(memoryview(sent[index].data), 0.0)
    (one,) = reception
    assert one.missing() == (1, 2)
    assert one.missing(2) == (1, 2)
    assert one.missing(3) == (1, 4)
    assert one.missing(4) == (1, 4)
    assert one.missing(8) == (1, 9)


def test_holes_in_the_sequence_are_no_gaps() -> None:
    sent, _ = stream([[0, 3], [7], [2, 100]])
    receiver = Receiver()
    for one in sent:
        receiver.take(one.data)
    receiver.wait(5.0)
    assert receiver.sequences == [0, 4, 12, 15, 116]
    assert receiver.gaps == []


def test_who_comes_late_begins_with_what_comes() -> None:
    sent, _ = stream([[0], [0], [0], [0]])
    receiver = Receiver()
    receiver.take(sent[2].data)
    receiver.take(sent[1].data)
    receiver.take(sent[3].data)
    receiver.wait(5.0)
    assert receiver.sequences == [2, 3]
    assert receiver.gaps == []


def test_a_full_window_ends_the_waiting() -> None:
    sent, _ = stream([[0]] * 6)
    receiver = Receiver(window=3)
    receiver.take(sent[0].data)
    for one in sent[2:4]:
        receiver.take(one.data)
    assert receiver.sequences == [0]
    receiver.take(sent[4].data)
    assert receiver.sequences == [0, 2, 3, 4]
    assert receiver.gaps == [(1, 2)]


def test_a_new_session_begins_anew_and_an_old_one_never_comes_back() -> None:
    before, _ = stream([[0], [0], [0]], session=1)
    after, _ = stream([[0], [0], [0]], session=2)
    receiver = Receiver(reorder_s=0.1)
    receiver.take(before[0].data)
    receiver.take(before[2].data)  # held, and void with its session
    receiver.take(after[0].data)
    receiver.take(before[1].data)
    receiver.take(after[1].data)
    receiver.wait(1.0)
    assert receiver.sequences == [0, 0, 1]
    assert receiver.gaps == []
    assert receiver.counts.restarts == 1
    assert receiver.counts.old == 1


def test_the_beginning_of_a_new_session_can_be_lost_too() -> None:
    before, _ = stream([[0]], session=1)
    after, _ = stream([[0], [0]], session=2)
    receiver = Receiver(reorder_s=0.1)
    receiver.take(before[0].data)
    receiver.take(after[1].data)
    receiver.wait(1.0)
    assert receiver.gaps == [(0, 1)]
    assert receiver.sequences == [0, 1]


def test_only_so_many_sessions_are_remembered() -> None:
    receiver = Receiver()
    for session in range(1, SESSIONS_LEFT + 3):
        receiver.take(stream([[0]], session=session)[0][0].data)
    receiver.take(stream([[0]], session=2)[0][0].data)
    assert receiver.counts.old == 1
    receiver.take(stream([[0]], session=1)[0][0].data)
    assert receiver.counts.old == 1
    assert receiver.counts.restarts == SESSIONS_LEFT + 2


def test_what_is_malformed_ends_no_session() -> None:
    sent, _ = stream([[0], [0]], session=1)
    receiver = Receiver()
    receiver.take(sent[0].data)
    receiver.take(encode(0, 0, 1, 1, feed_number(FEED), 0, 99, 0, 0, 0, b"nonsense"))
    receiver.take(sent[1].data)
    assert receiver.sequences == [0, 1]
    assert receiver.counts.malformed == 1
    assert receiver.counts.restarts == 0


def test_two_senders_of_one_topic_make_one_stream() -> None:
    """They pack it differently, and what one of them loses the other one has."""
    first, _ = stream([[0, 0], [0, 0], [0, 0]], session=5)
    second, _ = stream([[0, 0, 0], [0], [0, 0]], session=5)
    receiver = Receiver()
    for data in (first[0], second[0], second[1], first[2]):
        receiver.take(data.data)
    receiver.wait(5.0)
    assert receiver.sequences == [0, 1, 2, 3, 4, 5]
    assert receiver.gaps == []


def test_of_two_that_are_held_from_the_same_place_on_the_longer_one_counts() -> None:
    first, _ = stream([[0], [0], [0]], session=5)
    second, _ = stream([[0], [0, 0], [0]], session=5)
    receiver = Receiver()
    third, _ = stream([[0], [0], [0], [0]], session=5)
    receiver.take(first[0].data)
    receiver.take(third[2].data)
    longer, _ = stream([[0, 0], [0, 0]], session=5)
    receiver.take(longer[1].data)
    receiver.take(second[1].data)
    assert receiver.sequences == [0, 1, 2, 3]


def test_streams_do_not_wait_for_each_other() -> None:
    one, _ = stream([[0], [0], [0]], partition=0)
    other, _ = stream([[0], [0]], partition=1)
    receiver = Receiver(reorder_s=1.0)
    receiver.take(one[0].data)
    receiver.take(one[2].data)
    for datagram in other:
        receiver.take(datagram.data)
    assert receiver.sequences == [0, 0, 1]
    receiver.wait(1.0)
    assert receiver.sequences == [0, 0, 1, 2]


def test_strangers_are_counted_and_ignored() -> None:
    sent, _ = stream([[0], [0]])
    receiver = Receiver()
    receiver.take(sent[0].data)
    receiver.take(b"")
    receiver.take(b"\0" * 1400)
    receiver.take(b"HRF\x02" + sent[1].data[4:])
    receiver.take(sent[1].data[:-1])
    receiver.take(encode(1, 0, 0, 0, feed_number("another"), 0, 9, 0, 0, 0, b""))
    receiver.take(sent[1].data)
    counts = receiver.counts
    assert (counts.strange, counts.damaged, counts.other_feed, counts.events) == (3, 1, 1, 2)


def test_strangers_can_make_only_so_many_streams() -> None:
    receiver = Receiver()
    for partition in range(MAX_STREAMS + 10):
        receiver.take(encode(1, 0, 0, 0, feed_number(FEED), partition, 9, 0, 0, 0, b""))
    assert len(list(receiver.reception)) == MAX_STREAMS
    assert receiver.counts.malformed == 10


def test_who_has_a_secret_takes_only_what_was_made_with_it() -> None:
    reception = Reception([FEED], secret=b"a shared secret")
    heartbeat = (1, 0, 0, 0, feed_number(FEED), 0, 9, 0, 0, 0, b"")
    assert reception.take(memoryview(encode(*heartbeat)), 0.0) is None
    assert reception.take(memoryview(encode(*heartbeat, b"another")), 0.0) is None
    assert reception.take(memoryview(encode(*heartbeat, b"a shared secret")), 0.0) is not None
    assert reception.counts.forged == 2


def test_the_end_is_reached_when_nothing_is_missing() -> None:
    sent, packer = stream([[0], [0]])
    reception = Reception([FEED])
    reception.take(memoryview(sent[0].data), 0.0)
    reception.take(memoryview(packer.heartbeat(0, end=True)), 0.0)
    (one,) = reception
    assert not one.done
    reception.take(memoryview(sent[1].data), 0.0)
    assert one.done


@pytest.mark.parametrize("expected", [None, 5])
def test_nothing_is_missing_before_anything_came(expected: int | None) -> None:
    one = Stream(FEED, 0, 10, 0.1, Reception([FEED]).counts, expected)
    assert one.missing() is None
    assert one.due_at() is None
    assert not one.lacking
