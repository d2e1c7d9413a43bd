"""The system prompt of a chat through the app: the same for all workers, kept for saved chats alone, in their store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from tests.app.chat import MODEL, Chat, app_on, settings

if TYPE_CHECKING:
    from pathlib import Path

    from open_webui_openrouter_pipe.app import App
    from scripts.standin import StandIn

pytestmark = pytest.mark.anyio

MEMORIES = "<memory_context>\n[User Memory]\n- Likes foxes.\n</memory_context>"


class PromptedChat:
    """A chat whose system prompt the host writes anew for each question."""

    def __init__(self, standin: StandIn, model: str = MODEL, **valves: Any) -> None:
        self.standin = standin
        self.model = model
        self.settings = settings(standin, **valves)
        self.messages: list[dict[str, Any]] = []
        self.chat_id = "chat-1"

    async def ask(self, app: App, prompt: str, preset: str = "preset") -> list[str]:
        """The texts of what is sent."""
        metadata = {"base_system_prompt": prompt, "model": {"id": preset}}
        chat = Chat(app, self.settings, chat_id=self.chat_id, metadata=metadata, model=self.model)
        chat.messages = [{"role": "system", "content": prompt}, *self.messages]
        answer = await chat.ask("What time is it?")
        assert answer.error is None
        self.messages = chat.messages[1:]
        sent = [item for item in self.standin.responses[-1].body["input"] if item["type"] == "message"]
        return ["\n".join(part["text"] for part in item["content"]) for item in sent]


async def stored_prompts(app: App) -> int:
    """How many prompts are kept."""
    database = app.worker.host.database
    rows = await database.fetch(sa.select(sa.func.count()).select_from(database.tables.prompt))
    return int(rows[0][0])


def has_note(texts: list[str]) -> bool:
    """Whether something before the question says what the instructions now read."""
    return any(text.startswith("Your instructions stand") for text in texts[-3:-1])


async def test_every_worker_sends_the_first_prompt(tmp_path: Path, standin: StandIn) -> None:
    """Whichever one answers; and each model that the chat asks keeps its own."""
    chat = PromptedChat(standin)
    async with app_on(tmp_path) as one, app_on(tmp_path) as other:
        first = await chat.ask(one, f"It is ten.\n{MEMORIES}")
        second = await chat.ask(other, f"It is noon.\n{MEMORIES}")
        beside = await chat.ask(other, "It is noon.", preset="another")
        third = await chat.ask(one, "It is ten.")
        assert await stored_prompts(one) == 2
    assert first == ["It is ten.", MEMORIES, "What time is it?"]
    assert (second[0], second[-2:]) == ("It is ten.", [MEMORIES, "What time is it?"])
    assert second[-3].endswith("It now reads:\n> It is noon.")
    assert (beside[0], has_note(beside)) == ("It is noon.", False)
    assert (third[0], has_note(third)) == ("It is ten.", False)


async def test_a_chat_that_is_not_saved_keeps_no_prompt(app: App, standin: StandIn) -> None:
    """Its memories are sent behind it all the same."""
    chat = PromptedChat(standin)
    chat.chat_id = "temporary:1"
    await chat.ask(app, "It is ten.")
    sent = await chat.ask(app, f"It is noon.\n{MEMORIES}")
    assert await stored_prompts(app) == 0
    assert (sent[0], sent[-2], has_note(sent)) == ("It is noon.", MEMORIES, False)


async def test_switched_off_nothing_is_kept_or_moved(app: App, standin: StandIn) -> None:
    """The prompt is the host's."""
    chat = PromptedChat(standin, STEADY_SYSTEM_PROMPT=False)
    for hour in ("ten", "noon"):
        prompt = f"It is {hour}.\n{MEMORIES}"
        assert (await chat.ask(app, prompt))[0] == prompt
    assert await stored_prompts(app) == 0


async def cached_share(
    folder: Path, standin: StandIn, model: str, chat_id: str, *, moves: bool, **valves: Any
) -> tuple[float, float]:
    """The share of all input that was read from the cache, and the last request's cost, in a chat of some length."""
    chat = PromptedChat(standin, model, **valves)
    chat.messages = [{"role": "user", "content": "word " * 20_000}, {"role": "assistant", "content": "Long."}]
    chat.chat_id = chat_id
    standin.reset()
    async with app_on(folder) as app:
        for minute in range(8):
            now = minute if moves else 0
            memories = MEMORIES.replace("foxes", f"{now} foxes")
            await chat.ask(app, f"You are kind.\nIt is 10:0{now}.\nBe brief.\n{memories}")
    usages = [request.usage or {} for request in standin.responses]
    cached = sum(usage["input_tokens_details"]["cached_tokens"] for usage in usages)
    return cached / sum(usage["input_tokens"] for usage in usages), usages[-1]["cost"]


@pytest.mark.parametrize("lifetime", ["5m", "1h"])
@pytest.mark.parametrize("model", ["openai/gpt-5.2", "anthropic/claude-sonnet-4.5"])
async def test_a_clock_costs_no_cache(tmp_path: Path, standin: StandIn, model: str, lifetime: str) -> None:
    """With a clock and memories that move, as much is read from the cache as with ones that stand still.

    Switched off, nothing is; where the provider looks for blocks, these are marked in front of what moves.
    """
    still, still_cost = await cached_share(
        tmp_path, standin, model, "still", moves=False, STEADY_SYSTEM_PROMPT=False
    )
    moving, cost = await cached_share(tmp_path, standin, model, "moving", moves=True, CACHE_TTL=lifetime)
    lost, lost_cost = await cached_share(
        tmp_path, standin, model, "lost", moves=True, STEADY_SYSTEM_PROMPT=False
    )
    assert still > 0.85
    assert moving > 0.97 * still
    assert lost == 0
    assert cost < 1.15 * still_cost < 0.3 * lost_cost
