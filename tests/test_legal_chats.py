"""Random chats that a person may have, through the whole pipe, before providers that refuse what real ones refuse."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe.pipe import Pipe
from open_webui_openrouter_pipe.valves import UserValves
from scripts.harness.page import Page, PipeInProcess
from scripts.standin.catalogue import BY_ID

if TYPE_CHECKING:
    from pathlib import Path

    from scripts.standin import StandIn
    from scripts.standin.catalogue import Model

pytestmark = pytest.mark.anyio

CHATS = 3_000
CHATS_OF_A_RUN = 300
CHATS_OF_A_CASE = 50
MAX_TURNS = 5

SMALL = "standin/small"
ELSEWHERE = "Provider returned error"
UNBOUND = "The block is bound to a different conversation."
TOO_LONG = "maximum context length"
MODELS = (
    *("openai/gpt-5.2", "openai/gpt-5.6-sol", "openai/gpt-4o", "standin/small"),
    *("anthropic/claude-sonnet-4.5", "anthropic/claude-opus-4.8", "anthropic/claude-sonnet-128k"),
    *(
        "google/gemini-3-pro",
        "google/gemini-3-flash",
        "deepseek/deepseek-v3.2",
        "deepseek/deepseek-chat-v3.1",
    ),
    *("x-ai/grok-4.1-fast", "mistralai/mistral-large-2512", "qwen/qwen3-coder", "gryphe/mythomax-l2-13b"),
)
VALVES: dict[str, tuple[Any, ...]] = {
    "PERSIST_REASONING_TOKENS": ("disabled", "next_reply", "conversation"),
    "CONTEXT_STRATEGY": ("summarize", "prune", "clip", "off"),
    "CONTEXT_AIM": ("faithful", "thrifty"),
    "REASONING_EFFORT": ("default", "none", "minimal", "low", "medium", "high", "xhigh", "max"),
    "REASONING_SUMMARY": ("auto", "off"),
    "STEADY_SYSTEM_PROMPT": (True, False),
    "SEND_IDENTITY": ("none", "session", "user", "trace"),
    "CACHE_TTL": ("auto", "5m", "1h"),
    "WEB_SEARCH": ("off", "off", "auto"),
    "REQUIRE_PARAMETERS": (True, False),
    "PERSIST_TOOL_RESULTS": (True, False),
    "TOOL_OUTPUT_RETENTION_TURNS": (1, 2, 10),
    "SUMMARY_TURN_TRIGGER": (0, 0, 3),
    "PROTECTED_RECENT_TURNS": (1, 2),
    "INTERLEAVED_THINKING": (True, False),
    "CLIP_LAST_MESSAGES": (2, 6),
    "RECALL": (True, False),
    "FALLBACK_MODELS": ("", "anthropic/claude-sonnet-4.5", "google/gemini-3-flash, openai/gpt-4o"),
}
SYSTEMS = ("", "Be brief.", "You are kind.\nIt is {minute} past ten.", "Answer in {minute} words.")
PARAMETERS: tuple[dict[str, Any], ...] = (
    *({}, {}, {}, {"temperature": 0.4}, {"max_tokens": 2_500}, {"top_p": 0.9, "seed": 7}),
    *({"reasoning_effort": "low"}, {"reasoning_effort": "none"}, {"reasoning": {"max_tokens": 2_000}}),
)
WORDS = (
    "gulls",
    "Keeper",
    "of",
    "the",
    "lighthouse.",
    "Each",
    "night",
    "he",
    "counts",
    "them,",
    "and",
    "writes",
)
REFUSALS = {
    "[[standin: error=400 message=Odd]]": "Odd",
    "[[standin: error=403]]": "requires moderation",
    "[[standin: refuse=temperature]]": "Unsupported parameter: 'temperature'",
    "[[standin: error=400 family=B message=Strange]]": "Strange",
}
"""Refusals that are ordered, and what is said then."""


def weather(arguments: dict[str, Any]) -> str:
    """A tool whose results may be long."""
    return f"In {arguments.get('city')} it rains. " * int(arguments.get("times", 1))


CALLED = ("get_weather", "look_2")
TOOLS = dict.fromkeys((*CALLED, "2nd_look", "look.at"), weather)
"""Some with names that providers do not take."""


@dataclass(slots=True)
class LegalChat:
    """Plays one chat; ``named`` are the refusals that it has said will come."""

    page: Page
    chosen: random.Random
    named: list[str] = field(default_factory=list)

    async def turn(self, minute: int, strategy: str) -> None:
        """Ask a question of a kind that the model takes, now and then after a change of model, prompt or settings."""
        chosen, page = self.chosen, self.page
        before = page.model
        if chosen.random() < 0.4:
            page.model = chosen.choice(MODELS)
        model = BY_ID[page.model]
        self._foresee(before, model, strategy)
        if chosen.random() < 0.3:
            page.system = chosen.choice(SYSTEMS).format(minute=minute)
        page.parameters = chosen.choice(PARAMETERS)
        said = " ".join(chosen.choices(WORDS, k=chosen.choice((5, 40, 40, 1500))))
        orders = [self._thoughts(model), self._deeds(model), self._refusal()]
        await page.ask(" ".join([f"{minute}: {said}", *filter(None, orders)]))
        if chosen.random() < 0.1:
            await page.title()

    def _foresee(self, before: str, model: Model, strategy: str) -> None:
        """Name what a client cannot know beforehand; it learns it from the refusal.

        Another of Google's models may have another provider. A chat that has lost its beginning is another conversation
        for Claude. How many tokens a text has, and that a chat is sent whole, shows in a small window.
        """
        if model.family == "google" and before != model.id:
            self.named.append(ELSEWHERE)
        if model.family == "anthropic" and strategy != "off":
            self.named.append(UNBOUND)
        if model.id == SMALL:
            self.named.append(TOO_LONG)

    def _thoughts(self, model: Model) -> str:
        """One that reasons does so in the forms of its family."""
        kinds = {"openai": ("summary", "encrypted"), "raw": ("raw",)}.get(
            model.family, ("summary", "raw", "encrypted")
        )
        kind, items = self.chosen.choice(kinds), self.chosen.choice((1, 1, 2))
        is_ordered = "reasoning" in model.parameters and self.chosen.random() < 0.3
        return f"[[standin: reasoning={kind} items={items}]]" if is_ordered else ""

    def _deeds(self, model: Model) -> str:
        chosen = self.chosen
        if "tools" not in model.parameters or chosen.random() < 0.4:
            return chosen.choice(("", "", "[[standin: incomplete=max_output_tokens]]", "[[standin: mute]]"))
        args = f'{{"city": "Rome $round.$n", "times": {chosen.choice((1, 1, 20, 400))}}}'
        times, rounds = chosen.choice((1, 1, 2, 3)), chosen.choice((1, 1, 2, 3))
        call = f"[[standin: call={chosen.choice(CALLED)} args={args} times={times}]]"
        say = chosen.choice(("", '[[standin: say="Let me look."]]'))
        return f"{call} [[standin: rounds={rounds}]] {say}"

    def _refusal(self) -> str:
        if self.chosen.random() > 0.05:
            return ""
        order = self.chosen.choice(list(REFUSALS))
        self.named.append(REFUSALS[order])
        return order


async def unnamed_refusals(pipe: Pipe, standin: StandIn, number: int, fixed: dict[str, Any]) -> list[str]:
    """What a chat was refused that it had not named before it asked, each with what was asked."""
    chosen = random.Random(f"legal chat {number}")
    valves = {name: chosen.choice(values) for name, values in VALVES.items()}
    pipe.valves = Pipe.Valves(**fixed, **valves)
    user = UserValves(REASONING_EFFORT=chosen.choice(("inherit", "inherit", "low")))
    page = Page(
        pipe,
        chosen.choice(MODELS),
        tools=TOOLS,
        chat_id=f"chat-{number}",
        user_id=f"u{number % 9}",
        valves=user,
    )
    chat = LegalChat(page, chosen)
    begun = len(standin.responses)
    for minute in range(chosen.randint(2, MAX_TURNS)):
        await chat.turn(minute, valves["CONTEXT_STRATEGY"])
    return [
        f"{number} {record.body.get('model')} turn {len(page.turns)}: {record.error}"
        for record in standin.responses[begun:]
        if record.status >= 400 and not any(named in record.error for named in chat.named)
    ]


def cases() -> list[Any]:
    """The chats in portions; those beyond a usual run's are thorough."""
    begins = range(0, CHATS, CHATS_OF_A_CASE)
    marks = [[] if begin < CHATS_OF_A_RUN else [pytest.mark.thorough] for begin in begins]
    return [pytest.param(begin, marks=each) for begin, each in zip(begins, marks, strict=True)]


@pytest.mark.parametrize("begin", cases())
async def test_no_legal_chat_is_refused(tmp_path: Path, standin: StandIn, begin: int) -> None:
    """With tools, models of all makers in turn, changed prompts, and whatever the valves say."""
    driver = PipeInProcess(tmp_path, base_url=standin.base_url)
    refused: list[str] = []
    async with driver as pipe:
        fixed = {"API_KEY": pipe.valves.API_KEY, "BASE_URL": standin.base_url, "RETRY_SECONDS": 0}
        for number in range(begin, begin + CHATS_OF_A_CASE):
            refused += await unnamed_refusals(pipe, standin, number, fixed)
            await driver.app.idle()
    assert not refused, "\n".join(["", *refused])
    assert standin.forgotten == 0
