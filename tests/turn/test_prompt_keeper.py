"""The system prompt of a chat over its turns: kept with the first, noted where it differs; tables in `prompts.txt`."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from open_webui_openrouter_pipe.errors import StoreUnavailable
from open_webui_openrouter_pipe.history.steady import SteadyPrompt
from open_webui_openrouter_pipe.ports import KeptPrompt, RequestOrigin
from open_webui_openrouter_pipe.turn.runner import PromptKeeper
from tests.support.rows import rows

pytestmark = pytest.mark.anyio

TEN, NOON = "Be brief.\nIt is ten.", "Be brief.\nIt is noon."
LONG = "\n".join(f"Rule {number}." for number in range(200))
PROMPTS = {
    "TEN": TEN,
    "NOON": NOON,
    "LONG": LONG,
    "LONG\nIt is ten.": f"{LONG}\nIt is ten.",
    "LONG\nIt is noon.": f"{LONG}\nIt is noon.",
}
TABLES = Path(__file__).parent / "prompts.txt"


class MemoryPrompts:
    """Prompts in memory, of which another worker may be a little ahead."""

    def __init__(self) -> None:
        self.kept: dict[RequestOrigin, KeptPrompt] = {}
        self.ahead: KeptPrompt | None = None
        self.away = self.hangs = False
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

    def __init__(self, prompts: MemoryPrompts, *, seconds: float = 60.0) -> None:
        self.prompts, self.seconds = prompts, seconds
        self.owner = RequestOrigin("u", "c", "", "", "preset")
        self.written, self.asked = "a", 0

    async def template(self) -> str:
        self.asked += 1
        return self.written

    def of(self) -> PromptKeeper:
        return PromptKeeper(self.prompts, self.owner, self.template, self.seconds)

    async def choose(self, present: str) -> SteadyPrompt:
        chosen = await self.of().choose(present)
        assert chosen is not None
        return chosen


@pytest.mark.parametrize(("steps", "expected"), rows(TABLES, "chats", PROMPTS))
async def test_a_chat_keeps_the_prompt_that_it_began_with(steps: Any, expected: list[list[str]]) -> None:
    """What differs from it is noted behind the chat, unless somebody has written it anew."""
    keeper = Keeper(MemoryPrompts())
    chosen = []
    for keeper.written, present in steps:
        chosen.append(await keeper.choose(present))
        if chosen[-1].change == "lines":
            assert chosen[-1].note.endswith(f"It now reads:\n> {present.splitlines()[-1]}")
    assert [[each.sent, each.change] for each in chosen] == expected


@pytest.mark.parametrize(("kept", "ahead", "present", "expected"), rows(TABLES, "another worker", PROMPTS))
async def test_two_workers_send_what_the_first_one_has_kept(
    kept: str | None, ahead: str, present: str, expected: list[str]
) -> None:
    """Whether both have found nothing, or both an older prompt."""
    prompts = MemoryPrompts()
    if kept:
        await Keeper(prompts).choose(kept)
    prompts.ahead = KeptPrompt(ahead)
    chosen = await Keeper(prompts).choose(present)
    assert [chosen.sent, chosen.change] == expected


async def test_nobody_is_asked_without_need_and_models_keep_their_own() -> None:
    """Neither the store about no prompt, nor the host about a text that is the same; presets may answer by turns."""
    keeper, other = (Keeper(prompts) for prompts in [MemoryPrompts()] * 2)
    other.owner = replace(keeper.owner, preset="other")
    await keeper.choose("")
    assert (keeper.prompts.kept, keeper.prompts.finds) == ({}, 0)
    for _ in range(2):
        await keeper.choose(TEN)
        assert await other.choose(LONG) == SteadyPrompt(LONG)
    assert (keeper.prompts.finds, keeper.asked) == (4, 1)
    assert (await keeper.choose(NOON)).sent == TEN


async def test_without_a_store_the_prompt_is_sent_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    """One that is unavailable or hangs costs no answer, and the log shows nothing of the prompt."""
    keeper = Keeper(MemoryPrompts())
    await keeper.choose(TEN)
    caplog.set_level(logging.WARNING)
    keeper.prompts.away = True
    assert await keeper.choose(NOON) == SteadyPrompt(NOON)
    keeper.prompts.hangs, keeper.seconds = True, 0.01
    assert await keeper.choose(NOON) == SteadyPrompt(NOON)
    without = PromptKeeper(None, keeper.owner, keeper.template)
    assert await without.choose(NOON) == SteadyPrompt(NOON)
    assert await replace(without, origin=None).choose(NOON) is None
    assert (len(caplog.records), "noon" in caplog.text) == (2, False)
    assert keeper.prompts.kept[keeper.owner].text == TEN
