"""Tools of the host that their user stops: a line says so, and nothing of the tool changes."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

from open_webui_openrouter_pipe.host.tool_runs import watch_tools

pytestmark = pytest.mark.anyio


async def look(city: str, *, __user__: str = "") -> str:
    """Look at a city for as long as it likes."""
    await asyncio.sleep(0 if city == "Paris" else 1_000)
    return f"{__user__} {city}"


def bound(user: str) -> Any:
    """The callable of a tool, as `get_async_tool_function_and_apply_extra_params` of the host makes it."""

    async def call(**given: Any) -> str:
        return await look(**given, __user__=user)

    call.__function__ = look  # type: ignore[attr-defined]
    call.__extra_params__ = {"__user__": user}  # type: ignore[attr-defined]
    return call


async def unbound(city: str) -> str:
    return await look(city)


def used(tool: dict[str, Any]) -> Any:
    """What the host runs of a tool: `get_updated_tool_function`."""
    call = tool["callable"]
    function = getattr(call, "__function__", None)
    return call if function is None else lambda **given: function(**call.__extra_params__, **given)


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("make", [lambda: bound("Ann"), lambda: unbound])
async def test_a_tool_that_is_stopped_is_named_once(make: Any, times: int) -> None:
    """By whichever of its two functions it runs; the cancellation goes on, and what ends by itself is not named."""
    stopped = list[str]()

    async def say(name: str) -> None:
        await asyncio.sleep(0)
        stopped.append(name)

    tools = {"look": {"callable": make()}, "other": {"callable": (other := bound("Bob"))}}
    for _ in range(times):
        watch_tools(tools, ["look", "gone"], say)
    for run in (tools["look"]["callable"], used(tools["look"])):
        assert (await run(city="Paris")).endswith("Paris")
        assert stopped == []
        task = asyncio.create_task(run(city="London"))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert stopped == ["look"]
        stopped.clear()
    assert tools["other"]["callable"] is other


@pytest.mark.parametrize(
    "tools", [None, [], {"look": None}, {"look": {"direct": True}}, {"look": {"callable": 1}}]
)
async def test_what_does_not_run_here_stays_as_it_is(tools: Any) -> None:
    """Such as the tools of the page itself, and whatever else a filter may leave there."""
    before = repr(tools)
    watch_tools(tools, ["look"], pytest.fail)
    assert repr(tools) == before


async def test_the_signature_is_the_tools_own() -> None:
    """By it the host passes what the tool asks for."""
    tools: dict[str, Any] = {"look": {"callable": bound("Ann")}}
    watch_tools(tools, ["look"], pytest.fail)
    assert inspect.signature(tools["look"]["callable"].__function__) == inspect.signature(look)
