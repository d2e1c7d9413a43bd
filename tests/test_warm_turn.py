"""How much of the package one turn of a warm worker runs, held to `[turn]` in `budgets.toml`."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from scripts import budgets
from scripts.harness.page import Page, PipeInProcess
from scripts.paths import PACKAGE
from tests.support.profiling import calls_noted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import CodeType, FrameType

    from scripts.standin import StandIn

pytestmark = pytest.mark.anyio

TOOLS = {f"tool_{number}": lambda _: "It rains." for number in range(36)}
"""As many as Open WebUI 0.12 offers by itself."""

MODEL = "openai/gpt-5.2"
EARLIER_TURNS = 9
QUESTION = "Please go on with the story of the lighthouse and its keeper. " * 65
"""Nine of them, and the stand-in's answers that repeat them, are a chat of 16,000 tokens."""


@contextmanager
def entered() -> Iterator[set[CodeType]]:
    """The functions of the package that are entered meanwhile, in any thread that starts meanwhile, too.

    Comprehensions do not count: from Python 3.12 on they are no functions.
    """
    codes: set[CodeType] = set()
    folder = f"{PACKAGE}/"

    def note(frame: FrameType) -> None:
        code = frame.f_code
        if code.co_filename.startswith(folder) and not code.co_name.endswith("comp>"):
            codes.add(code)

    with calls_noted(note):
        yield codes


@contextmanager
def executed() -> Iterator[list[str]]:
    """The statements that databases receive meanwhile."""
    statements: list[str] = []

    def note(*details: Any) -> None:
        statements.append(details[2])

    sa.event.listen(sa.Engine, "before_cursor_execute", note)
    try:
        yield statements
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", note)


def worker(folder: Path, standin: StandIn) -> PipeInProcess:
    """A pipe as it is by default."""
    return PipeInProcess(folder, base_url=standin.base_url)


async def test_a_warm_turn_runs_no_more_than_its_budget(tmp_path: Path, standin: StandIn) -> None:
    """The tenth turn of a chat of 16,000 tokens with the host's 36 tools, one of which it calls.

    Until the worker has closed: it writes some rows later, together.
    """
    with ExitStack() as watching:
        driver = worker(tmp_path, standin)
        async with driver as pipe:
            page = Page(pipe, MODEL, tools=TOOLS)
            for _ in range(EARLIER_TURNS):
                await page.ask(QUESTION)
            await driver.app.idle()  # a worker sweeps its tables once
            codes = watching.enter_context(entered())
            answer = await page.ask("What is the weather? [[standin: call=tool_7 args={}]]")
    calls = [item for item in answer.output if item["type"] == "function_call"]
    assert (len(calls), len(standin.responses)) == (1, EARLIER_TURNS + 2)
    used = {"functions": len(codes), "modules": len({code.co_filename for code in codes})}
    assert over_budget(used) == {}


async def test_a_lone_turn_sends_no_more_statements_than_its_budget(tmp_path: Path, standin: StandIn) -> None:
    """A worker starts, goes on with a chat by one turn, and closes: no batch hides what the turn writes."""
    async with worker(tmp_path, standin) as pipe:
        earlier = Page(pipe, MODEL, tools=TOOLS)
        await earlier.ask(QUESTION)
    with executed() as statements:
        async with worker(tmp_path, standin) as pipe:
            page = Page(pipe, MODEL, tools=TOOLS)
            page.turns = earlier.turns
            await page.ask("And then?")
    assert over_budget({"statements": len(statements)}) == {}, statements


def over_budget(used: dict[str, int]) -> dict[str, int]:
    """What is used beyond `[turn]`."""
    budget = budgets.read()["turn"]
    return {name: value for name, value in used.items() if value > budget[name]}
