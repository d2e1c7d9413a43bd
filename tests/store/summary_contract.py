"""What every store of summaries must do: test classes inherit it and bring their store."""

from __future__ import annotations

import asyncio
from hashlib import sha256

import pytest

from open_webui_openrouter_pipe.ports import StoredSummary, Summaries
from open_webui_openrouter_pipe.summaries.segments import Segment
from open_webui_openrouter_pipe.summaries.summary import Constraint, ModelSummary, Summary
from tests.store.contract import Clock
from tests.support.chats import entries


def chain(number: int) -> bytes:
    """The chain digest after so many turns."""
    return sha256(str(number).encode()).digest()[:16]


def segment(start: int, end: int) -> Segment:
    """The turns after `start` until `end`."""
    return Segment(chain(start), chain(end), end - start)


def summary(text: str) -> Summary:
    """A summary with something in each of its fields."""
    written = ModelSummary(
        text,
        entries("a fact", turn=3),
        entries("a question?"),
        entries("a decision", turn=1),
        entries("something to do"),
        goal="the goal",
    )
    return Summary(
        written,
        constraints=(
            Constraint(1, "Never push to main.", 4, "Push it."),
            Constraint(2, "umlaut äöü, emoji \U0001f600, half \ud83d"),
        ),
        tool_facts=("search(cats): 3 hits",),
        mentioned=("notes.txt",),
        omitted=2,
    )


def stored(
    start: int, end: int, text: str = "what was said", *, user_id: str = "ada", chat_id: str = "chat-1"
) -> StoredSummary:
    """A summary of the turns between."""
    return StoredSummary(
        user_id, chat_id, segment(start, end), summary(text), "openai/gpt-5", source_tokens=9000
    )


def chains(*numbers: int) -> list[bytes]:
    """The chain digests after so many turns each."""
    return [chain(number) for number in numbers]


class SummariesContract:
    """Inherit this, and bring a fixture `store`: the summaries under test, whose time is `clock`."""

    pytestmark = pytest.mark.anyio

    @pytest.fixture
    def clock(self) -> Clock:
        return Clock()

    async def test_what_is_kept_is_found_whole(self, store: Summaries) -> None:
        """Each field, lone surrogates among them, and the number of turns; by any chat of the user."""
        await store.keep(stored(0, 7))
        for chat_id in ("chat-1", "a-clone"):
            found = await store.find("ada", chains(*range(9)), chat_id=chat_id)
            assert found == {segment(0, 7): summary("what was said")}

    async def test_only_whole_segments_of_the_chat_are_found(self, store: Summaries) -> None:
        """Both ends must lie in the conversation; neighbours, and what covers both of them, come together."""
        for start, end in ((0, 5), (5, 9), (0, 9), (9, 20), (30, 35)):
            await store.keep(stored(start, end))
        for known, expected in (
            (chains(*range(12)), {segment(0, 5), segment(5, 9), segment(0, 9)}),
            ([*chains(*range(7)), *chains(*range(1007, 1020))], {segment(0, 5)}),  # edited after seven turns
            (chains(0, 1, 2), set()),
            (chains(0), set()),
            ([], set()),
        ):
            assert (await store.find("ada", known, chat_id="chat-1")).keys() == expected

    async def test_the_first_one_of_each_user_stays(self, store: Summaries) -> None:
        """A second summary of a segment would change what requests begin with."""
        await asyncio.gather(*(store.keep(stored(0, 5, f"number {number}")) for number in range(5)))
        assert await store.find("eve", chains(*range(7)), chat_id="chat-1") == {}
        first = await store.find("ada", chains(0, 5), chat_id="chat-1")
        await store.keep(stored(0, 5, "hers", user_id="eve"))
        await store.keep(stored(0, 5, "a late one"))
        found = [await store.find(user, chains(0, 5), chat_id="chat-1") for user in ("ada", "eve")]
        assert found == [first, {segment(0, 5): summary("hers")}]

    async def test_a_discarded_summary_makes_room_for_another(self, store: Summaries) -> None:
        """Only the one that was found wanting goes, and only the user's own."""
        for each in (stored(0, 5, "wanting"), stored(5, 9), stored(0, 5, "hers", user_id="eve")):
            await store.keep(each)
        await store.discard("ada", segment(0, 5), summary("another"))
        await store.discard("eve", segment(0, 5), summary("wanting"))
        await store.discard("ada", segment(3, 5), summary("wanting"))
        assert len(await store.find("ada", chains(0, 5, 9), chat_id="chat-1")) == 2
        await store.discard("ada", segment(0, 5), summary("wanting"))
        assert (await store.find("ada", chains(0, 5, 9), chat_id="chat-1")).keys() == {segment(5, 9)}
        await store.keep(stored(0, 5, "again"))
        found = [await store.find(user, chains(0, 5), chat_id="chat-1") for user in ("ada", "eve")]
        assert found == [{segment(0, 5): summary("again")}, {segment(0, 5): summary("hers")}]

    async def test_one_of_many_callers_may_make_it(self, store: Summaries, clock: Clock) -> None:
        """Until the claim ends by itself, or is given back; other segments, and other users', are other claims."""

        async def claims(user_id: str = "ada", end: int = 5) -> int:
            asked = [store.claim(user_id, segment(0, end), seconds=60) for _ in range(20)]
            return (await asyncio.gather(*asked)).count(True)

        assert [await claims(), await claims(end=6), await claims("eve"), await claims()] == [1, 1, 1, 0]
        clock.now += 59
        assert await claims() == 0
        clock.now += 1
        assert [await claims(), await claims()] == [1, 0]
        await store.release("ada", segment(5, 9))
        assert await claims() == 0
        await store.release("ada", segment(0, 5))
        assert await claims() == 1
