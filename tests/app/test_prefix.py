"""The beginning of requests in the app: what changes it is in the audit and in the log, and what does not is not."""

from __future__ import annotations

import asyncio
import json
import logging
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe.turn.memory import MISSES_BEFORE_LOG
from tests.support.audited import audited

if TYPE_CHECKING:
    from collections.abc import Sequence

    from open_webui_openrouter_pipe.money.audit import Bill
    from open_webui_openrouter_pipe.store.database import Database
    from scripts.standin import StandIn
    from tests.app.chat import Chat, NewChat

pytestmark = pytest.mark.anyio

CLAUDE = "anthropic/claude-sonnet-4.5"
LONG = "word " * 4000
WATCH = "open_webui_openrouter_pipe.turn.memory"


def prompt(time: str = "2026-11-22 11:40:31 PM", memory: str = "Likes Darjeeling.") -> dict[str, str]:
    """A system prompt that holds the time and a memory, as the host writes them."""
    text = f"You help.\nIt is {time}.\n<memory_context>\n1. [2026-01-01] {memory}\n</memory_context>"
    return {"role": "system", "content": text}


def tools(*names: str) -> list[dict[str, Any]]:
    """Functions."""
    parameters = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}
    return [{"type": "function", "function": {"name": name, "parameters": parameters}} for name in names]


@dataclass
class Observed:
    """A chat, its audit and the administrator's log."""

    chat: Chat
    database: Database
    log: pytest.LogCaptureFixture
    asked: int = 0

    async def ask(self, text: str, system: dict[str, str] | None = None, **parameters: Any) -> Bill:
        """Ask with this system prompt, and return the audit's row of the request."""
        messages = [each for each in self.chat.messages if each["role"] != "system"]
        self.chat.messages = [*([system] if system else []), *messages]
        answer = await self.chat.ask(text, **parameters)
        assert answer.error is None
        self.asked += 1
        while len(records := await audited(self.database)) < self.asked:  # noqa: ASYNC110 - written beside the answer
            await asyncio.sleep(0.01)
        return records[0]

    @property
    def lines(self) -> Sequence[str]:
        """What the administrator reads."""
        return [each.getMessage() for each in self.log.records if each.name == WATCH]


@pytest.fixture
def observed(new_chat: NewChat, caplog: pytest.LogCaptureFixture) -> Observed:
    """A chat with Claude, whose system prompt is sent as Open WebUI has it."""
    caplog.set_level(logging.INFO)
    chat = new_chat(STEADY_SYSTEM_PROMPT=False, model=CLAUDE)
    return Observed(chat, new_chat.app.worker.host.database, caplog)


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
    ("system", "parameters", "expected"),
    [
        (prompt(memory="Has a cat."), {}, ("instructions", "prompt")),
        ({"role": "system", "content": "Be brief."}, {}, ("instructions", "prompt")),
        (prompt(), {"tools": tools("ask", "look")}, ("tools", "tools")),
        (prompt(), {"tools": tools("look"), "reasoning_effort": "high"}, ("settings", "settings")),
        (prompt(), {"tools": tools("look"), "temperature": 0.5}, ("", "")),
    ],
)
async def test_every_cause_is_named(
    observed: Observed, system: dict[str, str], parameters: dict[str, Any], expected: tuple[str, str]
) -> None:
    """Another memory, another prompt, a tool that comes, another effort; a temperature breaks nothing."""
    await observed.ask(LONG, prompt(), tools=tools("look"))
    row = await observed.ask("two", system, **{"tools": tools("look"), **parameters})
    assert broken(row) == expected
    assert bool(observed.lines) == bool(row.lost_cost) == (expected != ("", ""))


async def test_presets_of_one_model_have_prompts_of_their_own(observed: Observed) -> None:
    """Beside each other in a chat, each continues its own requests."""
    for number in range(4):
        name = f"preset-{number % 2}"
        observed.chat.metadata = {"model": {"id": name}}
        system = {"role": "system", "content": f"You are {name}."}
        assert broken(await observed.ask(f"{number} {LONG}", system)) == ("", "")


async def test_an_edited_answer_is_named(observed: Observed) -> None:
    """The user, or a filter, has rewritten what the model said."""
    await observed.ask(LONG)
    await observed.ask(LONG)
    observed.chat.messages[1]["content"] = "Something else."
    assert broken(await observed.ask("three")) == ("turn 1", "edit")


async def test_a_cache_that_is_not_kept_is_logged(observed: Observed, standin: StandIn) -> None:
    """The provider forgets each request at once, though its beginning stays the same."""
    await observed.ask(LONG)
    for number in range(MISSES_BEFORE_LOG):
        assert observed.lines == []
        standin.service.cache.clear()
        row = await observed.ask(f"again {number}")
        assert broken(row) == ("", "")
        assert (row.cached_tokens, row.expected_cached_tokens > 3000) == (0, True)
    (line,) = observed.lines
    assert f"The last 3 requests to '{CLAUDE}'" in line


async def test_a_comparison_that_fails_costs_no_answer(
    observed: Observed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its bill names no change, and the administrator's log has the error."""

    def fail(*_arguments: object) -> None:
        raise RuntimeError

    await observed.ask(LONG, prompt())
    monkeypatch.setattr("open_webui_openrouter_pipe.turn.memory.nearest", fail)
    assert broken(await observed.ask("Go on.", prompt("2026-11-22 11:41:00 PM"))) == ("", "")
    assert "the beginning of a request is not compared" in [
        each.getMessage() for each in observed.log.records
    ]
