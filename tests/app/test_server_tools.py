"""The tools that OpenRouter runs: switched on beside the message field, shown, sent again, billed and limited."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe.host.switches import CHOSEN
from open_webui_openrouter_pipe.responses.tools import SEARCH, SERVER_TOOLS
from open_webui_openrouter_pipe.store.ledger import SpendingLedger
from open_webui_openrouter_pipe.words.lines import notice
from scripts.harness.page import Page, PipeInProcess
from scripts.standin.output import ADVICE_DOLLARS
from tests.app.chat import sent
from tests.app.test_served import usage
from tests.turn.pipe import Router, message, open_pipe, stream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from open_webui_openrouter_pipe.pipe import Pipe
    from scripts.standin import StandIn

pytestmark = pytest.mark.anyio

TOOLS = [name for name in SERVER_TOOLS if name != SEARCH.name]
THINKS, WRITES = "openai/gpt-5.2", "openai/gpt-4o"
ADVICE = "[[standin: tool=advisor]] Which one?"


@pytest.fixture
async def pipe(tmp_path: Path, standin: StandIn) -> AsyncIterator[Pipe]:
    async with PipeInProcess(tmp_path, base_url=standin.base_url) as pipe:
        yield pipe


def allow(pipe: Pipe, *names: str, **others: Any) -> None:
    """Have the administrator allow these tools."""
    advanced = {"SERVER_TOOLS": ", ".join(names) or "none", **others}
    pipe.valves = type(pipe.valves)(**{**pipe.valves.model_dump(exclude_unset=True), **advanced})


def switch_on(page: Page, *names: str) -> None:
    page.parameters = {CHOSEN: dict.fromkeys(names, "on")}


def offered(standin: StandIn) -> list[str]:
    return [each["type"].removeprefix("openrouter:") for each in sent(standin).get("tools", [])]


def calls_of(items: Any) -> list[Any]:
    return [item for item in items if item["type"].startswith("openrouter:")]


@pytest.mark.parametrize("model", [THINKS, WRITES])
async def test_calls_are_cards_and_go_back_as_they_were(pipe: Pipe, standin: StandIn, model: str) -> None:
    """One card with its result for each, and its item in the next turn, where it stood, once: the request is valid."""
    allow(pipe, *TOOLS)
    page = Page(pipe, model)
    switch_on(page, *TOOLS)
    orders = " ".join(f"[[standin: tool={name}]]" for name in TOOLS)
    answer = await page.ask(f"{orders} [[standin: text=Done.]] Please.")
    assert offered(standin) == sorted(TOOLS)
    cards = [item for item in answer.output if item["type"].startswith("function_call")]
    assert [(item["type"], item.get("name")) for item in cards] == [
        each for name in TOOLS for each in (("function_call", name), ("function_call_output", None))
    ]
    assert [one["call_id"] for one in cards[::2]] == [one["call_id"] for one in cards[1::2]]
    await page.ask("Thank you.")
    given, back = calls_of(standin.responses[0].output), calls_of(sent(standin)["input"])
    ids = [{name: value for name, value in item.items() if name != "id"} for item in given]
    assert [{name: value for name, value in item.items() if name != "id"} for item in back] == ids
    assert "function_call" not in {item["type"] for item in sent(standin)["input"]}
    assert [each.status for each in standin.responses] == [200, 200]


async def test_what_is_not_kept_goes_back_as_the_host_shows_it(pipe: Pipe, standin: StandIn) -> None:
    """So does what has failed: a call of a function, and what came of it."""
    allow(pipe, "advisor", PERSIST_TOOL_RESULTS=False)
    for chat_id, order in (
        ("one", ADVICE),
        ("two", '[[standin: tool=advisor item={"status": "failed", "advice": "No."}]] Which one?'),
    ):
        page = Page(pipe, WRITES, chat_id=chat_id)
        switch_on(page, "advisor")
        await page.ask(order)
        await page.ask("Thank you.")
        kinds = [item["type"] for item in sent(standin)["input"]]
        assert kinds == ["message", "function_call", "function_call_output", "message", "message"]
        allow(pipe, "advisor", PERSIST_TOOL_RESULTS=True)
    assert [each.status for each in standin.responses] == [200] * 4


async def test_only_what_is_allowed_is_offered(pipe: Pipe, standin: StandIn) -> None:
    """A line says once what is not; by default it is all that may cost, or show anything to anybody."""
    page = Page(pipe, THINKS)
    switch_on(page, *TOOLS)
    (line,) = (await page.ask("Hello")).notices
    refused = [notice(f"switch_{name}") for name in TOOLS if name != "datetime"]
    assert line == notice("parameters_omitted", names=refused)
    assert offered(standin) == ["datetime"]
    allow(pipe)
    await page.ask("Hello")
    assert offered(standin) == []


async def test_none_is_offered_where_nothing_may_be_kept(pipe: Pipe, standin: StandIn) -> None:
    """But for what keeps nothing; a line names the others."""
    allow(pipe, "advisor", "shell", "datetime", ZDR=True)
    page = Page(pipe, "anthropic/claude-sonnet-4.5")
    switch_on(page, "advisor", "shell", "datetime")
    (line,) = (await page.ask("Hello")).notices
    assert line == notice("tools_keep_data", names=[notice("switch_shell"), notice("switch_advisor")])
    assert offered(standin) == ["datetime"]


async def test_the_hosts_tool_for_the_same_makes_room(pipe: Pipe, standin: StandIn) -> None:
    """Only one of both is offered, and others stay."""
    allow(pipe, *TOOLS)
    replaced = {name: str for tool in SERVER_TOOLS.values() for name in tool.replaces if name != "search_web"}
    page = Page(pipe, THINKS, tools={**replaced, "look": str})
    switch_on(page, *TOOLS)
    await page.ask("Hello")
    assert [each["name"] for each in sent(standin)["tools"] if "name" in each] == ["look"]


async def test_tools_are_named_with_what_they_have_cost(pipe: Pipe, standin: StandIn) -> None:
    """On the line where it is on, and with the usage; what nothing was paid for is not."""
    allow(pipe, "advisor", "datetime", COST_LINE="cost")
    page = Page(pipe, THINKS)
    switch_on(page, "advisor", "datetime")
    (line,) = (answer := await page.ask(ADVICE)).notices
    assert f" · Advisor ${ADVICE_DOLLARS:.3f}" in line
    assert usage(answer)["tools"] == f"Advisor ${ADVICE_DOLLARS:.3f}"
    assert usage(answer)["cost"] > float(ADVICE_DOLLARS)
    (line,) = (answer := await page.ask("[[standin: tool=datetime]] And now?")).notices
    assert (" · " in line, "tools" in usage(answer)) == (False, False)


@pytest.mark.parametrize(("searches", "said"), [(1, "Web search $0.007"), (0, None)])
async def test_a_search_of_a_plugin_is_named_too(tmp_path: Path, searches: int, said: str | None) -> None:
    """It has no item; what nothing names has no part of its own."""
    parts = {"upstream_inference_input_cost": 0.0006, "upstream_inference_output_cost": 0.000037}
    counts = {"web_search_requests": searches, "tool_calls_executed": 1}
    sizes = {"input_tokens": 9, "output_tokens": 3, "total_tokens": 12}
    bill = {**sizes, "cost": 0.007637, "cost_details": parts, "server_tool_use_details": counts}
    router = Router(stream(message("Found."), usage=bill))
    async with open_pipe(tmp_path, router, COST_LINE="cost") as pipe:
        answer = await Page(pipe, router.model).ask("What is new?")
    assert usage(answer).get("tools") == said
    assert [" · " in line for line in answer.notices] == [said is not None]


@pytest.mark.parametrize("dollars", [0.02, 0.01])
async def test_an_answer_has_so_many_dollars_for_tools(pipe: Pipe, standin: StandIn, dollars: float) -> None:
    """What a round of it has cost is gone for the next one; with nothing left, none are offered."""
    allow(pipe, "advisor", SERVER_TOOL_DOLLARS=dollars, SERVER_TOOL_STEPS=3)
    page = Page(pipe, THINKS, tools={"look": lambda _: "Seen."})
    switch_on(page, "advisor")
    standin.script("[[standin: tool=advisor]] [[standin: call=look]]")
    await page.ask("Which one?")
    await page.ask("And then?")
    stops = [each.body.get("stop_server_tools_when") for each in standin.responses]
    whole, rest, anew = (stop and stop[0]["max_cost_in_dollars"] for stop in stops)
    assert (whole, stops[0][1], anew) == (dollars, {"type": "step_count_is", "step_count": 3}, dollars)
    first = standin.responses[0].usage
    assert first
    left = dollars - first["cost"]
    assert rest == (pytest.approx(left, abs=1e-6) if left > 0 else None)


async def test_under_a_limit_their_dollars_are_held(
    pipe: Pipe, standin: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside all else that the request may cost."""
    amounts, hold = list[float](), SpendingLedger.hold

    async def note(ledger: SpendingLedger, estimate: Any, amount: float, under: Any) -> bool:
        amounts.append(amount)
        return await hold(ledger, estimate, amount, under)

    monkeypatch.setattr(SpendingLedger, "hold", note)
    allow(pipe, "advisor", SERVER_TOOL_DOLLARS=0.25, SPENDING_LIMITS="user: 5/day")
    for chat_id, names in (("one", []), ("two", ["advisor"])):
        page = Page(pipe, THINKS, chat_id=chat_id)
        switch_on(page, *names)
        await page.ask("Hello")
    plain, with_tools = amounts
    assert with_tools == pytest.approx(plain + 0.25, rel=0.02)
