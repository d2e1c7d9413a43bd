"""The system prompt of a chat over its turns: kept with the first, noted where it differs, new where it was edited."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe.errors import ReasoningRejected, StoreUnavailable
from open_webui_openrouter_pipe.history.steady import SteadyPrompt
from open_webui_openrouter_pipe.ports import KeptPrompt, RequestOrigin
from open_webui_openrouter_pipe.turn.runner import PromptKeeper
from tests.turn.test_runner import OLD, REASONING, SECOND_TURN, TEXT, FakeOpenRouter, TurnSetup, answer

if TYPE_CHECKING:
    from collections.abc import Callable

    from open_webui_openrouter_pipe.turn.channel import OutputChannel
    from open_webui_openrouter_pipe.turn.runner import TurnRunner

pytestmark = pytest.mark.anyio

OWNER = RequestOrigin("u", "c", "", "", "preset")
TEN, NOON = "Be brief.\nIt is ten.", "Be brief.\nIt is noon."
LONG = "\n".join(f"Rule {number}." for number in range(200))


class MemoryPrompts:
    """Prompts in memory, of which another worker may be a little ahead."""

    def __init__(self) -> None:
        self.kept: dict[RequestOrigin, KeptPrompt] = {}
        self.ahead: KeptPrompt | None = None
        self.away = False
        self.hangs = False
        self.finds = 0

    async def find(self, origin: RequestOrigin) -> KeptPrompt | None:
        self.finds += 1
        if self.hangs:
            await asyncio.Event().wait()
        if self.away:
            raise StoreUnavailable("away")
        return self.kept.get(origin)

    async def keep(
        self, origin: RequestOrigin, prompt: KeptPrompt, *, instead_of: KeptPrompt | None
    ) -> KeptPrompt:
        if self.ahead:
            self.kept[origin], self.ahead = self.ahead, None
        if self.kept.get(origin) == instead_of:
            self.kept[origin] = prompt
        return self.kept[origin]


class Keeper:
    """A keeper whose template a test edits."""

    def __init__(self, prompts: MemoryPrompts | None, *, seconds: float = 60.0) -> None:
        self.prompts = prompts
        self.written = "a"
        self.asked = 0
        self.seconds = seconds

    async def template(self) -> str:
        self.asked += 1
        return self.written

    def of(self, owner: RequestOrigin | None = OWNER) -> PromptKeeper:
        return PromptKeeper(self.prompts, owner, self.template, self.seconds)

    async def choose(self, present: str) -> SteadyPrompt:
        chosen = await self.of().choose(present)
        assert chosen is not None
        return chosen


async def test_the_first_prompt_stays_and_a_clock_is_noted_each_time() -> None:
    """Also when it reads the same as on the turn before; whoever reads it as it is kept gets no note."""
    keeper = Keeper(MemoryPrompts())
    assert await keeper.choose(TEN) == SteadyPrompt(TEN)
    noted = await keeper.choose(NOON)
    assert (noted.sent, noted.change) == (TEN, "lines")
    assert noted.note.endswith("It now reads:\n> It is noon.")
    assert await keeper.choose(NOON) == noted
    assert await keeper.choose(TEN) == SteadyPrompt(TEN)


async def test_an_edited_text_is_a_new_prompt_however_little_changed() -> None:
    """Kept from then on; where one template is not known, lines decide."""
    keeper = Keeper(MemoryPrompts())
    await keeper.choose(TEN)
    keeper.written = "b"
    assert await keeper.choose(NOON) == SteadyPrompt(NOON, change="new")
    assert await keeper.choose(NOON) == SteadyPrompt(NOON)
    keeper.written = ""
    assert (await keeper.choose(TEN)).change == "lines"


async def test_an_edit_that_changes_nothing_is_none() -> None:
    """The text decides first, and the host is not even asked."""
    keeper = Keeper(MemoryPrompts())
    await keeper.choose(TEN)
    keeper.written = "b"
    assert await keeper.choose(TEN) == SteadyPrompt(TEN)
    assert keeper.asked == 1


async def test_a_larger_change_is_a_new_prompt_once() -> None:
    """From then on it is the one that is kept."""
    keeper = Keeper(MemoryPrompts())
    await keeper.choose(TEN)
    assert await keeper.choose(LONG) == SteadyPrompt(LONG, change="new")
    assert await keeper.choose(LONG) == SteadyPrompt(LONG)


async def test_a_chat_without_a_prompt_keeps_nothing() -> None:
    """Nothing is read for it; its first prompt is the first that it has."""
    prompts = MemoryPrompts()
    keeper = Keeper(prompts)
    assert await keeper.choose(" \n") == SteadyPrompt(" \n")
    assert (prompts.kept, prompts.finds) == ({}, 0)
    assert await keeper.choose(TEN) == SteadyPrompt(TEN)
    assert await keeper.choose("") == SteadyPrompt("")


async def test_models_side_by_side_keep_their_own() -> None:
    """One chat may ask two presets at once, by turns."""
    keeper = Keeper(MemoryPrompts())
    other = keeper.of(replace(OWNER, model="other"))
    for present in (TEN, NOON):
        await keeper.choose(present)
        await other.choose(LONG)
    assert (await keeper.choose(NOON)).sent == TEN
    assert await other.choose(LONG) == SteadyPrompt(LONG)


async def test_two_workers_send_what_the_first_one_has_kept() -> None:
    """Whether both have found nothing, or both an older prompt."""
    prompts = MemoryPrompts()
    prompts.ahead = KeptPrompt(TEN, "a")
    first = await Keeper(prompts).choose(NOON)
    assert (first.sent, first.change) == (TEN, "lines")
    prompts.ahead = KeptPrompt(f"{LONG}\nIt is ten.", "a")
    second = await Keeper(prompts).choose(f"{LONG}\nIt is noon.")
    assert (second.sent, second.change) == (f"{LONG}\nIt is ten.", "lines")
    prompts.ahead = KeptPrompt(TEN, "a")
    assert await Keeper(prompts).choose(TEN) == SteadyPrompt(TEN, change="new")


async def test_without_a_store_the_prompt_is_sent_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    """One that is unavailable or hangs costs no answer, and the log shows nothing of the prompt."""
    prompts = MemoryPrompts()
    await Keeper(prompts).choose(TEN)
    caplog.set_level(logging.WARNING)
    prompts.away = True
    assert await Keeper(prompts).choose(NOON) == SteadyPrompt(NOON)
    prompts.hangs = True
    assert await Keeper(prompts, seconds=0.01).choose(NOON) == SteadyPrompt(NOON)
    assert await Keeper(None).choose(NOON) == SteadyPrompt(NOON)
    assert len(caplog.records) == 2
    assert "noon" not in caplog.text
    assert prompts.kept[OWNER].text == TEN


# --- in a turn ---


class PromptedTurn(TurnSetup):
    """A turn of a chat that keeps its prompt."""

    keeper: PromptKeeper

    def turn(self, channel: OutputChannel, new_id: Callable[[], str]) -> TurnRunner:
        return replace(super().turn(channel, new_id), prompt=self.keeper)


async def inputs_of(chat: list[tuple[str, str]], keeper: PromptKeeper, *streams: Any) -> list[list[str]]:
    """The texts of the input of each request of a chat of system prompts and questions."""
    router = FakeOpenRouter(*(streams or (answer(TEXT) for _ in chat)))
    messages: list[dict[str, Any]] = []
    for prompt, question in chat:
        messages.append({"role": "user", "content": question})
        turn = PromptedTurn(router, [{"role": "system", "content": prompt}, *messages])
        turn.keeper = keeper
        await turn.run()
        messages.append({"role": "assistant", "content": "Hi"})
    return [
        [part["text"] for item in body["input"] if "content" in item for part in item["content"]]
        for body in router.bodies
    ]


async def test_each_request_begins_with_the_one_before() -> None:
    """The note stands directly before the question, and nothing before it ever changes."""
    prompts = MemoryPrompts()
    chat = [(f"Be brief.\nIt is {hour}.", f"question {hour}") for hour in range(6)]
    requests = await inputs_of(chat, Keeper(prompts).of())
    assert requests[0] == ["Be brief.\nIt is 0.", "question 0"]
    for hour, (before, after) in enumerate(pairwise(requests), start=1):
        lasting = [text for text in before if not text.startswith("Your instructions stand")]
        assert after[: len(lasting)] == lasting
        assert after[-2].endswith(f"> It is {hour}.")
        assert after[-1] == f"question {hour}"
    assert prompts.finds == len(chat)


async def test_a_turn_that_keeps_no_prompt_sends_it_as_it_is() -> None:
    """With the valve switched off, or for callers without a chat."""
    assert await inputs_of([(TEN, "1"), (NOON, "2")], Keeper(MemoryPrompts()).of(None)) == [
        [TEN, "1"],
        [NOON, "1", "Hi", "2"],
    ]


async def test_the_note_is_sent_again_without_rejected_reasoning() -> None:
    """The second try of a request has the same front and the same note."""
    prompts = MemoryPrompts()
    prompts.kept[OWNER] = KeptPrompt(TEN)
    router = FakeOpenRouter(ReasoningRejected("no"), answer(REASONING, TEXT))
    turn = PromptedTurn(router, [{"role": "system", "content": NOON}, *SECOND_TURN])
    turn.keeper = Keeper(prompts).of()
    turn.store_old_reasoning()
    await turn.run()
    assert OLD in turn.store.artifacts
    with_it, without = ([item for item in body["input"] if "content" in item] for body in router.bodies)
    assert with_it == without
    assert with_it[0]["content"][0]["text"] == TEN
    assert with_it[-2]["content"][0]["text"].endswith("> It is noon.")
