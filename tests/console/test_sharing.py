"""Pages that look at the same thing ask the server once; whoever does something by hand is always answered by the server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from tests.console import answering
from tests.console.answering import Said, shown

from headrace.console.access import GUEST, Credentials, Server, ServerError
from headrace.console.sharing import AT_ONCE, FRESH_S, LOOKING, MOST_ANSWERS, MOST_BYTES, Answers, Look


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class Asked:
    """Counts what is asked for, and answers with how often it was."""

    def __init__(self) -> None:
        self.questions: list[str] = []

    def of(self, question: str) -> Callable[[], asyncio.Future[bytes]]:
        async def ask() -> bytes:
            self.questions.append(question)
            answer = str(len(self.questions)).encode()
            await asyncio.sleep(0)
            return answer

        return ask  # type: ignore[return-value]


def test_who_asks_the_same_at_the_same_time_or_soon_after_gets_the_same_answer() -> None:
    async def run() -> None:
        clock, asked = Clock(), Asked()
        answers = Answers(clock)
        together = await asyncio.gather(*(answers.get("a", asked.of("a")) for _ in range(10)))
        assert together == [b"1"] * 10
        clock.now += FRESH_S * 0.9
        assert await answers.get("a", asked.of("a")) == b"1"
        assert await answers.get("b", asked.of("b")) == b"2", "another question"
        clock.now += FRESH_S * 0.2
        assert await answers.get("a", asked.of("a")) == b"3", "it is too old"
        assert asked.questions == ["a", "b", "a"]

    asyncio.run(run())


def test_after_a_change_nothing_from_before_is_told() -> None:
    async def run() -> None:
        asked = Asked()
        answers = Answers(Clock())
        await answers.get("a", asked.of("a"))
        answers.forget()
        assert await answers.get("a", asked.of("a")) == b"2"
        under_way = asyncio.create_task(answers.get("b", asked.of("b")))
        await asyncio.sleep(0)
        answers.forget()
        assert await answers.get("b", asked.of("b")) == b"4", "what was under way may not know of it"
        assert await under_way == b"3"
        assert await answers.get("b", asked.of("b")) == b"4", "and does not take the place of what came later"

    asyncio.run(run())


def test_a_refusal_is_told_to_all_who_asked_and_not_kept() -> None:
    async def run() -> None:
        answers, asked = Answers(Clock()), Asked()

        async def refuse() -> bytes:
            await asyncio.sleep(0)
            raise ServerError(403, "no")

        found = await asyncio.gather(*(answers.get("a", refuse) for _ in range(3)), return_exceptions=True)
        assert [str(each) for each in found] == ["no"] * 3
        assert await answers.get("a", asked.of("a")) == b"1"

    asyncio.run(run())


def test_one_who_goes_away_does_not_take_the_answer_from_the_others() -> None:
    async def run() -> None:
        answers, asked = Answers(Clock()), Asked()
        first = asyncio.create_task(answers.get("a", asked.of("a")))
        second = asyncio.create_task(answers.get("a", asked.of("a")))
        await asyncio.sleep(0)
        first.cancel()
        assert await second == b"1"

    asyncio.run(run())


def test_many_questions_go_to_the_server_a_few_at_a_time() -> None:
    async def run() -> None:
        answers = Answers(Clock())
        now = most = 0

        async def ask() -> bytes:
            nonlocal now, most
            now += 1
            most = max(most, now)
            await asyncio.sleep(0)
            now -= 1
            return b"x"

        await asyncio.gather(*(answers.get(number, ask) for number in range(50)))
        assert most == AT_ONCE

    asyncio.run(run())


def test_long_answers_are_not_kept_and_not_too_many() -> None:
    async def run() -> None:
        answers, asked = Answers(Clock()), Asked()

        async def long() -> bytes:
            asked.questions.append("long")
            return b"x" * (MOST_BYTES + 1)

        await answers.get("long", long)
        await answers.get("long", long)
        assert asked.questions == ["long", "long"]
        for number in range(MOST_ANSWERS + 1):
            await answers.get(number, asked.of("short"))
        before = len(asked.questions)
        await answers.get(MOST_ANSWERS, asked.of("short"))
        assert len(asked.questions) == before
        await answers.get(0, asked.of("short"))
        assert len(asked.questions) == before + 1, "the oldest has gone"

    asyncio.run(run())


@pytest.mark.parametrize(("shares", "times"), [(True, 1), (False, 3)])
def test_only_a_look_that_shares_is_answered_from_here(shares: bool, times: int) -> None:
    count = 0
    urgency: str | None = None

    def answer(asked: answering.Asked) -> Said:
        nonlocal count, urgency
        count += 1
        urgency = asked.headers.get("priority")
        return Said.json(200, {"n": 1})

    async def look_at(server: Server) -> None:
        looks = [Look(shares=shares) for _ in range(3)]
        for look in looks:
            LOOKING.set(look)
            assert await server.access(GUEST).get("/v1/overview", {"a": 1}) == {"n": 1}
        assert len({tuple(look.answers) for look in looks}) == 1, "nothing has changed"
        assert count == times
        assert urgency == ("u=7" if shares else None), "nobody waits for it"
        LOOKING.set(None)
        await server.access(GUEST).get("/v1/overview", {"a": 1})
        assert count == times + 1, "by hand"
        assert urgency is None

    async def run() -> None:
        async with shown(answer) as server:
            await look_at(server)

    asyncio.run(run())


def test_nobody_gets_what_another_person_was_told_and_changes_forget() -> None:
    seen: list[tuple[str, str]] = []

    def answer(asked: answering.Asked) -> Said:
        seen.append((asked.method, asked.headers["authorization"]))
        return Said.json(200, {})

    async def look_at(server: Server) -> None:
        LOOKING.set(Look(shares=True))
        for person in (GUEST, Credentials("ann", "a"), Credentials("ann", "b")):
            await server.access(person).get("/v1/topics")
        assert len({login for _, login in seen}) == 3
        await server.access(GUEST).post("/v1/vhosts/%2F/exchanges/x/trial", {})  # only asks
        await server.access(GUEST).get("/v1/topics")
        assert len(seen) == 4
        await server.access(GUEST).delete("/v1/topics/x")
        await server.access(GUEST).get("/v1/topics")
        assert [method for method, _ in seen[4:]] == ["DELETE", "GET"]

    async def run() -> None:
        async with shown(answer) as server:
            await look_at(server)

    asyncio.run(run())
