"""Fetch sessions: who may go on with one, and who is told to begin anew."""

from __future__ import annotations

from random import Random

from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.fetch_sessions import FetchSessions, Session, Wanted
from headrace.testing.clock import SimulatedClock


def sessions(seed: int = 1, slots: int = 10) -> FetchSessions:
    return FetchSessions(slots, SimulatedClock(), Random(seed))


def test_a_session_of_a_server_before_is_not_taken_for_one_of_this_server() -> None:
    before, after = sessions(1), sessions(2)
    old = {before.create(False, [Wanted("t", 0, -1, 5, 100)]) for _ in range(5)}
    new = {after.create(False, [Wanted("t", 0, -1, 9, 100)]) for _ in range(5)}
    ids = {session.session_id for session in old | new if session is not None}
    assert len(ids) == 10
    assert min(ids) > 0
    for session in old:
        assert session is not None
        assert after.resume(session.session_id, 1, False, [], []) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_an_id_is_not_given_to_two_sessions() -> None:
    class Stubborn(Random):
        drawn = iter([7, 7, 7, 8])

        def randint(self, a: int, b: int) -> int:
            return next(self.drawn)

    both = FetchSessions(10, SimulatedClock(), Stubborn())
    first, second = both.create(False, []), both.create(False, [])
    assert first is not None
    assert second is not None
    assert (first.session_id, second.session_id) == (7, 8)


def test_a_session_does_not_change_between_names_and_ids() -> None:
    held = sessions()
    for by_id in (False, True):
        topic = b"i" * 16 if by_id else "t"
        session = held.create(by_id, [Wanted(topic, 0, -1, 0, 100)])
        assert session is not None
        assert held.resume(session.session_id, 1, not by_id, [], []) is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        assert held.resume(session.session_id, 7, not by_id, [], []) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
        assert isinstance(held.resume(session.session_id, 1, by_id, [], []), Session)
