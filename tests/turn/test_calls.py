"""Calls get ids that are unique within a conversation, and searches their status lines; tables in `calls.txt`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from open_webui_openrouter_pipe.ports import Notice, ToolAnswered, ToolsBegan
from open_webui_openrouter_pipe.responses.effects import ItemFinished, ItemStarted, TextDelta
from open_webui_openrouter_pipe.responses.items import FunctionCall, OpaqueItem, Reasoning
from open_webui_openrouter_pipe.turn.own_tools import OwnCalls
from open_webui_openrouter_pipe.turn.recorder import Persistence, Recorder
from open_webui_openrouter_pipe.turn.round import search_lines, waiting_line
from tests.support.rows import rows
from tests.turn.turns import ORIGIN, FakeStore

TABLES = Path(__file__).parent / "calls.txt"
THOUGHT = Reasoning(type="reasoning", id="rs", summary=[])
SEARCH = OpaqueItem(type="web_search_call")


def call(call_id: str, name: str = "f") -> FunctionCall:
    return FunctionCall(type="function_call", call_id=call_id, name=name, arguments="{}")


def recorder_of(new_id: Any, names: Any = None, *taken: str, own_ids: bool = False) -> Recorder:
    return Recorder(
        FakeStore(), ORIGIN, Persistence("disabled", tools=own_ids), new_id, {*taken}, names or {}
    )


@pytest.mark.parametrize(("taken", "items", "ids"), rows(TABLES, "ids"))
def test_an_id_that_is_taken_is_replaced_by_the_same_new_one_each_time(
    taken: list[str], items: list[tuple[str, str, int]], ids: list[str]
) -> None:
    """Pairs stay pairs."""
    calls = recorder_of(lambda: "NEW", {}, *taken)
    given: list[Any] = [{"type": kind, "call_id": call_id} for kind, call_id, _ in items]
    found = [dict(calls.for_host(index, item)) for item, (_, _, index) in zip(given, items, strict=True)]
    assert [item["call_id"] for item in found] == ids


def test_a_renamed_tool_gets_the_hosts_name() -> None:
    """The host finds its tool by the name that it gave; what is no call stays the same object."""
    calls, thought = recorder_of(str, {"a_b": "a.b"}), Reasoning(type="reasoning", id="rs", summary=[])
    assert calls.for_host(0, call("c", "a_b")) == call("c", "a.b")
    assert calls.for_host(1, thought) is thought


@pytest.mark.anyio
async def test_own_ids_name_the_artifacts_of_calls() -> None:
    """The same id at each sight of a call, with the phase of the text before it; the store gets the provider's.

    The host hands back no others than those of function calls.
    """
    ulids = iter(["0000000000000000000A", "0000000000000000000B"])
    calls = recorder_of(lambda: next(ulids), own_ids=True)
    unnamed = FunctionCall({"type": "function_call", "name": "f", "arguments": ""})  # type: ignore[typeddict-item]
    first = [calls.for_host(0, unnamed), calls.for_host(0, call("call_0"))]
    calls.phase = "commentary"
    second = calls.for_host(1, call("call_0"))
    assert [dict(item)["call_id"] for item in (*first, second)] == [
        *["call_0000000000000000000A"] * 2,
        "call_0000000000000000000B_commentary",
    ]
    assert calls.ulids == {0: "0000000000000000000A", 1: "0000000000000000000B"}
    calls.keep(1, second, call("call_0"))
    assert (await calls.save(), calls.saved[1].item) == (("0000000000000000000B",), call("call_0"))
    shell = OpaqueItem(type="shell_call", call_id="free")  # type: ignore[typeddict-unknown-key]
    assert calls.for_host(2, shell) is shell


@pytest.mark.anyio
async def test_calls_of_ours_are_answered_in_their_order_when_they_are_whole() -> None:
    """A few providers name a call at its end; one that proves to be the host's begins as it would have."""

    async def answer(asked: FunctionCall) -> str:
        return f"answer to {asked['call_id']}"

    own, names = OwnCalls(answer), ("recall", "", "recall", "", "f")
    started = [ItemStarted(at, call(f"c{at}", name)) for at, name in enumerate(names)]
    assert [own.hold(each) for each in started] == [True, True, True, True, False]
    first, second, cut_off = (call(f"c{at}", "recall") for at in range(3))
    first["status"] = second["status"] = "completed"
    cut_off["status"] = "incomplete"
    ends = [own.finish(3, call("c3")), own.finish(2, cut_off), own.finish(1, second), own.finish(0, first)]
    assert ends == [started[3], None, None, None]
    assert await own.answered() == [ToolAnswered(first, "answer to c0"), ToolAnswered(second, "answer to c1")]


@pytest.mark.parametrize(("when", "item", "line"), rows(TABLES, "searches"))
def test_a_search_is_announced_and_ended(when: str, item: Any, line: str) -> None:
    """With what was sought or read, or that it failed; nothing is said of all else."""
    effect = ItemStarted(0, item) if when == "begins" else ItemFinished(0, item)
    assert list(search_lines(effect)) == ([Notice(line, done=when == "ends")] if line else [])
    assert not list(search_lines(TextDelta(0, 0, "Searching")))


@pytest.mark.parametrize(
    ("latest", "said"),
    [
        (None, "Waiting for the model..."),
        (Notice("Two turns were left out."), "Waiting for the model..."),
        (ItemFinished(0, THOUGHT), "Waiting for the model..."),
        (TextDelta(0, 0, "Hi"), "Waiting for the model..."),
        (Notice("Many are waiting...", done=False), "Many are waiting..."),
        (ItemStarted(0, THOUGHT), "The model is thinking..."),
        (TextDelta(0, 0, "Hm", "summary_text"), "The model is thinking..."),
        (ItemStarted(0, SEARCH), "Searching the web..."),
        (ToolsBegan((call("c"),)), None),
        (ToolAnswered(call("c"), "Yes."), None),
    ],
)
def test_a_silence_is_said_with_what_is_known(latest: Any, said: str) -> None:
    """By what came last: a wait that goes on, thinking, a search, tools; otherwise only the model is waited for."""
    line = f"{said} 20 s. Stop is safe." if said else "Tools are running... 20 s."
    assert waiting_line(latest, 20.0) == Notice(line, done=False)
