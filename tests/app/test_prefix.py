"""The beginning of requests in the app: what changes it is named and priced, and the system prompt stays the same."""

from __future__ import annotations

import json
import logging
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from open_webui_openrouter_pipe.conversation.budget import Calibration
from open_webui_openrouter_pipe.conversation.tokens import TokenCounts
from open_webui_openrouter_pipe.pipe import Pipe
from scripts.harness.page import Page, PipeInProcess
from tests.app.chat import (
    Chat,
    NewChat,
    app_on,
    audit_of,
    received_reasoning_ids,
    sent,
    sent_reasoning_ids,
    settings,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from open_webui_openrouter_pipe.app import App
    from open_webui_openrouter_pipe.money.audit import Bill
    from scripts.standin import StandIn

pytestmark = pytest.mark.anyio

CLAUDE = "anthropic/claude-sonnet-4.5"
LONG = "word " * 4000
WATCH = "open_webui_openrouter_pipe.turn.memory"
MEMORIES = "<memory_context>\n[User Memory]\n- Likes foxes.\n</memory_context>"
QUESTION, VOICE = "What time is it?", "Keep it short."
THINKS = "[[standin: reasoning=encrypted]]"


def prompt(time: str = "2026-11-22 11:40:31 PM", memory: str = "Likes Darjeeling.") -> str:
    """A system prompt that holds the time and a memory, as the host writes them."""
    return f"You help.\nIt is {time}.\n<memory_context>\n1. [2026-01-01] {memory}\n</memory_context>"


def tools(*names: str) -> list[dict[str, Any]]:
    """Functions."""
    parameters = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}
    return [{"type": "function", "function": {"name": name, "parameters": parameters}} for name in names]


@dataclass
class Observed:
    """A chat, and the administrator's log."""

    chat: Chat
    log: pytest.LogCaptureFixture

    async def ask(self, text: str, system: str = "", **parameters: Any) -> Bill:
        """Ask with this system prompt, and return the audit's row of the request."""
        self.chat.instruct(system)
        assert (await self.chat.ask(text, **parameters)).error is None
        return (await audit_of(self.chat.app))[-1]

    @property
    def lines(self) -> Sequence[str]:
        """What the administrator reads."""
        return [each.getMessage() for each in self.log.records if each.name == WATCH]


@pytest.fixture
def observed(new_chat: NewChat, caplog: pytest.LogCaptureFixture) -> Observed:
    """A chat with Claude, whose system prompt is sent as Open WebUI has it."""
    caplog.set_level(logging.INFO)
    return Observed(new_chat(STEADY_SYSTEM_PROMPT=False, model=CLAUDE), caplog)


def broken(row: Bill) -> tuple[str, str]:
    """Where and why."""
    return row.break_position, row.break_cause


async def test_a_chat_that_goes_on_breaks_nothing(observed: Observed, standin: StandIn) -> None:
    """Turn by turn, with tools in any order: nothing is found, and as much is cached as was expected."""
    names = ["ask", "look", "search"]
    for number in range(4):
        random.Random(number).shuffle(names)
        row = await observed.ask(f"{number} {LONG}", prompt(), tools=tools(*names))
        assert broken(row) == ("", "")
    assert row.cached_tokens == pytest.approx(row.expected_cached_tokens, rel=0.1)
    assert row.expected_cached_tokens > 10_000
    assert len({json.dumps(each.body["tools"]) for each in standin.responses}) == 1
    assert observed.lines == []


async def test_a_clock_in_the_system_prompt_is_named_and_priced(observed: Observed, standin: StandIn) -> None:
    """In the audit with each request, in the log once; what it costs is what the provider bills more."""
    await observed.ask(LONG, prompt())
    steady = await observed.ask("two", prompt())
    moved = await observed.ask("three", prompt("2026-11-22 11:41:07 PM"))
    assert (broken(steady), broken(moved)) == (("", ""), ("instructions", "prompt"))
    assert moved.cached_tokens == 0
    assert moved.lost_tokens == pytest.approx(steady.input_tokens, rel=0.1)
    usage = standin.responses[-1].usage or {}
    cheaper = moved.lost_tokens * 0.3e-6 + (moved.input_tokens - moved.lost_tokens) * 3.75e-6
    billed = usage["cost_details"]["upstream_inference_input_cost"]
    assert billed - moved.lost_cost == pytest.approx(cheaper, rel=0.05)
    assert moved.expected_cached_tokens == 0
    await observed.ask("four", prompt("2026-11-22 11:42:00 PM"))
    (line,) = observed.lines
    assert f"{CLAUDE}'" in line
    assert "Darjeeling" not in line


@pytest.mark.parametrize(
    ("system", "parameters", "answer", "expected"),
    [
        (prompt(memory="Has a cat."), {}, None, ("instructions", "prompt")),
        ("Be brief.", {}, None, ("instructions", "prompt")),
        (prompt(), {"tools": tools("ask", "look")}, None, ("tools", "tools")),
        (prompt(), {"tools": tools("look"), "reasoning_effort": "high"}, None, ("settings", "settings")),
        (prompt(), {"tools": tools("look"), "temperature": 0.5}, None, ("", "")),
        (prompt(), {}, "Something else.", ("turn 1", "edit")),
    ],
)
async def test_every_cause_is_named(
    observed: Observed, system: str, parameters: Any, answer: str | None, expected: tuple[str, str]
) -> None:
    """Another memory, prompt, effort or answer, and a tool that comes; a temperature breaks nothing.

    Of what is broken, nothing is expected to be cached: the provider has missed nothing.
    """
    for _ in range(2):
        await observed.ask(LONG, prompt(), tools=tools("look"))
    if answer:
        observed.chat.messages[2]["content"] = answer
    row = await observed.ask("two", system, **{"tools": tools("look"), **parameters})
    assert broken(row) == expected
    is_broken = expected != ("", "")
    assert bool(observed.lines) == bool(row.lost_cost) == (row.expected_cached_tokens == 0) == is_broken


async def test_presets_of_one_model_have_prompts_of_their_own(observed: Observed) -> None:
    """Beside each other in a chat, each continues its own requests."""
    for number in range(4):
        name = f"preset-{number % 2}"
        observed.chat.metadata = {"model": {"id": name}}
        assert broken(await observed.ask(f"{number} {LONG}", f"You are {name}.")) == ("", "")


async def test_a_comparison_that_fails_costs_no_answer(
    observed: Observed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its bill names no change, and the administrator's log has the error."""
    await observed.ask(LONG, prompt())
    monkeypatch.setattr("open_webui_openrouter_pipe.turn.bill.find_break", None)
    assert broken(await observed.ask("Go on.", prompt("2026-11-22 11:41:00 PM"))) == ("", "")
    assert "the beginning of a request is not compared" in observed.log.text


async def test_every_worker_leaves_out_the_same(tmp_path: Path, standin: StandIn) -> None:
    """Also one that has learned nothing of what another has: how the model counts, so that more has to be left out."""
    async with app_on(tmp_path) as one, app_on(tmp_path) as other:
        chat, inputs = NewChat(one, standin)(model="mistralai/mistral-small-8k").grow(12), list[Any]()
        chat.settings = settings(standin, CONTEXT_STRATEGY="prune", RECALL=False)
        calibrations = [app.worker.own.calibrations for app in (one, other)]
        assert [await each.find(chat.model) for each in calibrations] == [Calibration()] * 2
        before = [*chat.messages]
        for app, billed in ((other, 0), (one, 24_000), (other, 0), (one, 24_100), (other, 0)):
            for _ in range(3 if billed else 0):
                calibrations[0].learn(chat.model, TokenCounts(12_000), billed)
            await calibrations[0].idle()
            chat.app, chat.messages = app, [*before]
            assert (await chat.ask("And then?", plugins=[{"id": "response-healing"}])).error is None
            inputs.append(sent(standin)["input"])
    assert len(inputs[0]) > len(inputs[1])
    assert inputs[1:] == inputs[1:2] * 4


# --- the system prompt: the same for all workers, kept for saved chats alone


async def asked(chat: Chat, standin: StandIn, prompt: str, text: str = QUESTION) -> list[str]:
    """The texts of what is sent where the host writes this system prompt."""
    chat.instruct(prompt)
    assert (await chat.ask(text)).error is None
    items = [item for item in sent(standin)["input"] if item.get("role") != "assistant" and "content" in item]
    return ["\n".join(part["text"] for part in item["content"]) for item in items]


async def stored_prompts(app: App) -> int:
    """How many prompts are kept."""
    database = app.worker.host.database
    rows = await database.fetch(sa.select(sa.func.count()).select_from(database.tables.prompt))
    return int(rows[0][0])


async def test_every_worker_sends_the_first_prompt(tmp_path: Path, standin: StandIn) -> None:
    """Whichever one answers; and each model that the chat asks keeps its own."""
    async with app_on(tmp_path) as one, app_on(tmp_path) as other:
        chat = NewChat(one, standin)()
        texts = []
        for app, preset, prompt in (
            (one, "preset", f"It is ten.\n{MEMORIES}"),
            (other, "preset", f"It is noon.\n{MEMORIES}"),
            (other, "another", "It is noon."),
            (one, "preset", "It is ten."),
        ):
            chat.app, chat.metadata = app, {"model": {"id": preset}}
            texts.append(await asked(chat, standin, prompt))
        assert await stored_prompts(one) == 2
    note = texts[1][2]
    assert (note.startswith("Your instructions stand"), note.endswith("It now reads:\n> It is noon.")) == (
        True,
        True,
    )
    assert texts == [
        ["It is ten.", MEMORIES, QUESTION],
        ["It is ten.", QUESTION, note, MEMORIES, QUESTION],
        ["It is noon.", *[QUESTION] * 3],
        ["It is ten.", *[QUESTION] * 4],
    ]


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ({"chat_id": "temporary:1"}, ["It is noon.", QUESTION, MEMORIES, QUESTION]),
        ({"STEADY_SYSTEM_PROMPT": False}, [f"It is noon.\n{MEMORIES}", QUESTION, QUESTION]),
    ],
)
async def test_no_prompt_is_kept_of_an_unsaved_chat_or_switched_off(
    new_chat: NewChat, standin: StandIn, chosen: Any, expected: list[str]
) -> None:
    """The memories of an unsaved one are sent behind it all the same."""
    chat = new_chat(**chosen)
    await asked(chat, standin, f"It is ten.\n{MEMORIES}")
    assert await asked(chat, standin, f"It is noon.\n{MEMORIES}") == expected
    assert await stored_prompts(chat.app) == 0


async def cached_share(new_chat: NewChat, *, moves: bool, **valves: Any) -> tuple[float, float]:
    """The share of all input that was read from the cache, and the last request's cost, in a chat of some length."""
    chat, standin = new_chat(**valves), new_chat.standin
    chat.messages = [{"role": "user", "content": "word " * 20_000}, {"role": "assistant", "content": "Long."}]
    standin.reset()
    for minute in range(8):
        now = minute if moves else 0
        memories = MEMORIES.replace("foxes", f"{now} foxes")
        await asked(chat, standin, f"You are kind.\nIt is 10:0{now}.\nBe brief.\n{memories}")
    usages = [request.usage for request in standin.responses if request.usage]
    cached = sum(usage["input_tokens_details"]["cached_tokens"] for usage in usages)
    return cached / sum(usage["input_tokens"] for usage in usages), usages[-1]["cost"]


@pytest.mark.parametrize("lifetime", ["5m", "1h"])
@pytest.mark.parametrize("model", ["openai/gpt-5.2", "anthropic/claude-sonnet-4.5"])
async def test_a_clock_costs_no_cache(new_chat: NewChat, model: str, lifetime: str) -> None:
    """With a clock and memories that move, as much is read from the cache as with ones that stand still.

    Switched off, nothing is; where the provider looks for blocks, these are marked in front of what moves.
    """
    off = {"model": model, "STEADY_SYSTEM_PROMPT": False}
    still, still_cost = await cached_share(new_chat, moves=False, **off)
    moving, cost = await cached_share(new_chat, moves=True, model=model, CACHE_TTL=lifetime)
    lost, lost_cost = await cached_share(new_chat, moves=True, **off)
    assert still > 0.85
    assert moving > 0.97 * still
    assert lost == 0
    assert cost < 1.15 * still_cost < 0.3 * lost_cost


async def voice_prompt() -> str:
    """What the administrator has set."""
    return VOICE


@pytest.mark.parametrize(
    ("steady", "expected"),
    [
        (True, [["hi"], ["hi", VOICE, "hi"], ["hi", "hi", "hi"]]),
        (False, [["hi"], [VOICE, "hi", "hi"], ["hi", "hi", "hi"]]),
    ],
)
async def test_instructions_for_speech_stand_before_the_spoken_question(
    tmp_path: Path, standin: StandIn, *, steady: bool, expected: list[list[str]]
) -> None:
    """And leave no trace in the next request; switched off they stay in front, where the host wrote them."""
    async with app_on(tmp_path, voice_prompt=voice_prompt) as app:
        chat, texts = NewChat(app, standin)(STEADY_SYSTEM_PROMPT=steady), []
        for spoken in (False, True, False):
            chat.metadata = {"features": {"voice": spoken}}
            texts.append(await asked(chat, standin, VOICE if spoken else "", "hi"))
    assert texts == expected


@pytest.mark.parametrize(
    ("template", "prompt", "advanced"),
    [
        ("{}", "{}", '{"PERSIST_TOOL_RESULTS": false}'),
        ("### Task:\n<context>A queen.</context>\n{}", "{}", ""),
        ("{}", "{}\nIt is noon.", ""),
        ("{}", "{}\n<context>A queen.</context>", ""),
    ],
)
async def test_thoughts_stay_while_the_chat_is_the_same(
    tmp_path: Path, standin: StandIn, template: str, prompt: str, advanced: str
) -> None:
    """With tools, whatever the host adds to one question, on two workers."""
    first, second = (PipeInProcess(tmp_path, base_url=standin.base_url) for _ in range(2))
    async with first as one, second as other:
        other.valves = Pipe.Valves(**{**one.valves.model_dump(), "ADVANCED": advanced})
        pages = [Page(pipe, CLAUDE, tools={"look": lambda _: "It rains. " * 99}) for pipe in (one, other)]
        for number, page in enumerate((*pages, *pages)):
            asked = f"{number} {THINKS} [[standin: call=look args={{}}]]"
            is_changed = number == 1
            page.turns, page.parameters = pages[0].turns, {"reasoning": {"max_tokens": 2_000}}
            page.metadata = {"base_system_prompt": "You help.", "base_user_prompt": asked}
            page.system = prompt.format("You help.") if is_changed else "You help."
            answer = await page.ask(template.format(asked) if is_changed else asked)
            page.turns[-1] = asked, answer
            assert sent_reasoning_ids(standin) == received_reasoning_ids(standin)[:-1]
    assert (len(sent_reasoning_ids(standin)), {each.status for each in standin.responses}) == (7, {200})


async def test_thoughts_about_another_chat_are_not_sent(new_chat: NewChat, standin: StandIn) -> None:
    """Where an answer is rewritten, what Claude has thought in later turns is left out, what it thinks then stays."""
    chat = new_chat(model=CLAUDE)
    for text in ("one", "two", "three"):
        await chat.ask(f"{text} {THINKS}", reasoning={"max_tokens": 2_000})
    thoughts = received_reasoning_ids(standin)
    assert sent_reasoning_ids(standin) == thoughts[:2]
    rewritten = next(each for each in chat.messages if each["role"] == "assistant" and each["content"])
    rewritten["content"] = f"Not so. {rewritten['content']}"
    for text in ("four", "five"):
        await chat.ask(f"{text} {THINKS}", reasoning={"max_tokens": 2_000})
        assert sent_reasoning_ids(standin) == [thoughts[0], *received_reasoning_ids(standin)[3:-1]]
