"""Who answered behind routers, presets, variants and fallbacks, and to whom reasoning then goes back."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from open_webui_openrouter_pipe.turn.round import unexpected_model
from open_webui_openrouter_pipe.words.lines import LANGUAGES, in_language, notice
from scripts.harness.page import Answer, Page, PipeInProcess
from tests.app.chat import MODEL

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from scripts.standin import StandIn

pytestmark = pytest.mark.anyio

AUTO, CLAUDE, GEMINI = "openrouter/auto", "anthropic/claude-sonnet-4.5", "google/gemini-3-flash"
LOOK = {"look": lambda arguments: f"seen {arguments}"}
THINKS = "[[standin: reasoning=summary]]"
CALLS = f"{THINKS} [[standin: call=look args={{}}]]"


@asynccontextmanager
async def page_on(folder: Path, standin: StandIn, model: str, **valves: Any) -> AsyncIterator[Page]:
    """The page of an administrator, who may set every parameter."""
    driver = PipeInProcess(folder, base_url=standin.base_url, **{"COST_LINE": "cost", **valves})
    async with driver as pipe:
        page = Page(pipe, model, tools=LOOK)
        page.user["role"] = "admin"
        page.app = driver.app  # type: ignore[attr-defined]
        yield page


def usage(answer: Answer) -> dict[str, Any]:
    """What the host keeps of an answer's usage."""
    ends = [event["response"] for event in answer.events if event.get("type") == "response.completed"]
    return dict(ends[-1]["usage"])


def thoughts(standin: StandIn) -> list[int]:
    """How many pieces of reasoning each request had."""
    return [
        [item["type"] for item in request.body["input"]].count("reasoning") for request in standin.responses
    ]


def route(*models: str) -> dict[str, Any]:
    """The parameter by which the router takes the first of these."""
    return {"plugins": [{"id": "auto-router", "allowed_models": [*models]}]}


@pytest.mark.parametrize(
    ("asked", "parameters", "answered"),
    [
        (AUTO, {}, CLAUDE),
        (AUTO, route(GEMINI), GEMINI),
        ("@preset/thrifty", {}, "openai/gpt-4.1-mini"),
        ("openai/gpt-4o@preset/team", {}, "openai/gpt-4o"),
        ("openai/gpt-4o:nitro", {}, "openai/gpt-4o"),
        (MODEL, {"models": [GEMINI], "provider": {"only": ["google"]}}, GEMINI),
        (MODEL, {}, None),
        (f"{MODEL}-20260709", {}, MODEL),
    ],
)
async def test_the_usage_and_the_cost_line_name_who_answered(
    tmp_path: Path, standin: StandIn, asked: str, parameters: dict[str, Any], answered: str | None
) -> None:
    """The line where it is not the model that was asked for; its prices are those of the bill."""
    async with page_on(tmp_path, standin, asked) as page:
        page.parameters = parameters
        answer = await page.ask("Hello")
        found, (*_, line) = usage(answer), answer.notices
    served = standin.responses[-1]
    assert found["model"] == (answered or MODEL)
    assert found["provider"]
    assert ("answered by" in line) == (answered is not None)
    assert found["cost"] == pytest.approx((served.usage or {})["cost"])


FALLBACK = {"models": [GEMINI], "provider": {"only": ["google"]}}


@pytest.mark.parametrize(
    ("asked", "rounds", "last", "names"),
    [
        (MODEL, [FALLBACK, {}], MODEL, "Google: Gemini 3 Flash"),
        (MODEL, [FALLBACK, FALLBACK], GEMINI, "Google: Gemini 3 Flash"),
        (AUTO, [route(GEMINI), {}], CLAUDE, "Google: Gemini 3 Flash, Anthropic: Claude Sonnet 4.5"),
    ],
)
async def test_an_answer_of_several_rounds_names_all_others_and_keeps_who_served_the_last(
    tmp_path: Path, standin: StandIn, asked: str, rounds: list[dict[str, Any]], last: str, names: str
) -> None:
    """The line has each once, in the order in which they answered; the next answer begins anew."""
    async with page_on(tmp_path, standin, asked) as page:
        page.parameters, then = rounds

        def look(_: dict[str, Any]) -> str:
            page.parameters = then
            return "seen"

        page._tools = {"look": look}
        answer = await page.ask("[[standin: call=look args={}]]")
        found, (*_, line) = usage(answer), answer.notices
        page.model, page.parameters = MODEL, {}
        (next_line,) = (await page.ask("Thank you")).notices
    assert found["model"] == last
    assert line.endswith(f" · answered by {names}")
    assert "answered by" not in next_line


@pytest.mark.parametrize(
    ("asked", "other", "unexpected"),
    [
        ("a/m", "b/n", "b/n"),
        ("a/m", "", ""),
        ("a/m:nitro", "a/m", ""),
        ("a/m:nitro", "b/n:free", "b/n:free"),
        *((router, "b/n", "") for router in ("openrouter/auto", "~a/m-latest", "@preset/x", "a/m@preset/x")),
    ],
)
def test_behind_a_router_nobody_is_unexpected(asked: str, other: str, unexpected: str) -> None:
    """Nor is a model that answers for its own variant."""
    assert unexpected_model(asked, other) == unexpected


async def test_another_model_is_named_once_in_a_chat(tmp_path: Path, standin: StandIn) -> None:
    """In a line of its own, and never in an arena, where usage has tokens alone and no costs are shown."""
    async with page_on(tmp_path, standin, MODEL) as page:
        page.parameters = FALLBACK
        first, second = [(await page.ask("Hello")).notices for _ in range(2)]
        page.chat_id, page.turns, page.metadata = "another", [], {"model": {"owned_by": "arena"}}
        guessed = await page.ask("Hello")
    line = notice("answered_by_other", model="Google: Gemini 3 Flash")
    assert [line in said for said in (first, second)] == [True, False]
    assert guessed.notices == []
    tokens = {"input_tokens", "output_tokens", "total_tokens", "prompt_tokens", "completion_tokens"}
    assert usage(guessed).keys() == tokens


async def test_the_line_is_said_in_each_language() -> None:
    """With the name as it is."""
    line = notice("cost_answered_by", model="Claude 4")
    said = {in_language(line, language) for language in LANGUAGES.values()}
    assert len(said) >= len(LANGUAGES) - 1  # two of them say the same
    assert all("Claude 4" in each for each in said)


async def test_reasoning_goes_back_to_whom_it_came_from(tmp_path: Path, standin: StandIn) -> None:
    """Within the turn also behind a router; then to the model that wrote it and its family, and to no other."""
    async with page_on(tmp_path, standin, AUTO) as page:
        await page.ask(CALLS)
        for model in (CLAUDE, AUTO, GEMINI, "anthropic/claude-opus-4.5"):
            page.model = model
            await page.ask("And then? [[standin: text=so]]")
        engine = page.app.worker.host.database  # type: ignore[attr-defined]
        table = engine.tables.artifact
        kept = {row[0] for row in await engine.fetch(sa.select(table.c.model).order_by(table.c.created))}
    assert thoughts(standin)[:3] == [0, 1, 2]
    assert thoughts(standin)[3:5] == [0, 0]
    assert thoughts(standin)[5] >= 2
    assert CLAUDE in kept
    assert AUTO not in kept
    assert [request.status for request in standin.responses] == [200] * 6


async def test_an_artifact_knows_its_provider(tmp_path: Path, standin: StandIn) -> None:
    """Of Gemini, whose signatures hold there alone, also where its text came after the reasoning was stored."""
    async with page_on(tmp_path, standin, GEMINI) as page:
        await page.ask(f"{THINKS} [[standin: text=so]]")
        app = page.app  # type: ignore[attr-defined]
        table = app.worker.host.database.tables.artifact
        ids = [row[0] for row in await app.worker.host.database.fetch(sa.select(table.c.id))]
        stores = [*app.worker._keyed_stores.values()]
        found = await stores[0].durable.load("user", ids)
    assert [(each.model, each.provider) for each in found.values()] == [(GEMINI, "Google")]


async def test_a_model_that_does_not_reason_is_sent_no_reasoning(tmp_path: Path, standin: StandIn) -> None:
    """Of one family, as the catalogue says; the model that wrote it gets it again."""
    async with page_on(tmp_path, standin, MODEL) as page:
        await page.ask(f"{THINKS} [[standin: text=so]]")
        for model in ("openai/gpt-4.1-mini", MODEL):
            page.model = model
            await page.ask("And? [[standin: text=so]]")
    assert thoughts(standin) == [0, 0, 1]


async def test_claude_gets_no_thinking_of_another_system_prompt(tmp_path: Path, standin: StandIn) -> None:
    """It goes with the prompt that was changed, never between two, so that all else is read from the cache."""
    async with page_on(tmp_path, standin, CLAUDE, STEADY_SYSTEM_PROMPT=False) as page:
        page.system = "Be brief."
        for _ in range(3):
            await page.ask(f"{THINKS} [[standin: text=so]]")
        page.system = "Be long."
        for _ in range(3):
            await page.ask(f"{THINKS} [[standin: text=so]]")
    assert thoughts(standin) == [0, 1, 2, 0, 1, 2]
    bodies = [request.body["input"] for request in standin.responses]
    for before, after in ((0, 1), (1, 2), (3, 4), (4, 5)):
        plain = [[{**each, "content": None} for each in bodies[at]] for at in (before, after)]
        assert plain[1][: len(plain[0])] == plain[0]


async def test_reasoning_of_a_fallback_leaves_with_its_turn_as_announced(
    tmp_path: Path, standin: StandIn
) -> None:
    """The next turn asks another maker's model, which gets none of it; no break is found that nobody made."""
    async with page_on(tmp_path, standin, MODEL) as page:
        page.parameters = {"models": [CLAUDE], "provider": {"only": ["anthropic"]}}
        await page.ask(CALLS)
        await page.ask("And then? [[standin: text=so]]")
        await page.app.worker.own.ledger.idle()  # type: ignore[attr-defined]
        database = page.app.worker.host.database  # type: ignore[attr-defined]
        found = await database.fetch(sa.select(database.tables.audit.c.break_position))
    assert (thoughts(standin), [row[0] for row in found]) == ([0, 1, 0], ["", "", ""])
