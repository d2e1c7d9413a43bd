"""Damaged inputs at every border: some in each run, thousands in a thorough one, and what was once found again."""

from __future__ import annotations

import ast
import sys
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any
from unittest.mock import ANY

import pytest

from open_webui_openrouter_pipe.conversation.facts import state_fact
from open_webui_openrouter_pipe.creation.video import read_job
from open_webui_openrouter_pipe.history.folded import FoldedCall, quoted_calls, unfold, unfold_output
from open_webui_openrouter_pipe.host.call import read_call
from open_webui_openrouter_pipe.openrouter.errors import retry_after
from open_webui_openrouter_pipe.openrouter.request import Composer
from open_webui_openrouter_pipe.openrouter.server_tools import ServerToolSettings, with_server_tools
from open_webui_openrouter_pipe.replay.exports import read_artifacts
from open_webui_openrouter_pipe.replay.recordings import read_recording
from open_webui_openrouter_pipe.responses.failure import read_failure
from open_webui_openrouter_pipe.valves import HostValves
from tests.fuzz import borders, mutation
from tests.fuzz.borders import BORDERS, findings

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

FEW, MANY = 25, 2_000
DIGITS = "9" * 5_000
"""More than Python reads as a number."""
ENTITY = f"&#{DIGITS};"
SEARCHES = ServerToolSettings("auto", fetches=False)
NOW = datetime(2026, 11, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "numbers", [range(FEW), pytest.param(range(FEW, MANY), marks=pytest.mark.thorough)], ids=["few", "many"]
)
@pytest.mark.parametrize("border", BORDERS)
def test_what_is_damaged_does_no_harm(border: str, numbers: range) -> None:
    """Nothing is raised but what is promised, and the laws of the border hold; a case is the same each time."""
    assert findings(border, numbers) == []


def test_each_law_is_reached() -> None:
    """A border that refuses all that it is given, or is given nothing, finds nothing."""
    tree = ast.parse(Path(borders.__file__).read_text("utf-8"))
    laws = [each.test for each in ast.walk(tree) if isinstance(each, ast.Assert)]
    reached, before = set[int](), sys.gettrace()

    def trace(frame: FrameType, _event: str, _argument: Any) -> Any:
        if frame.f_code.co_filename != borders.__file__:
            return None
        reached.add(frame.f_lineno)
        return trace

    sys.settrace(trace)
    try:
        for border in BORDERS:
            findings(border, range(FEW))
    finally:
        sys.settrace(before)
    assert [each.lineno for each in laws if each.lineno not in reached] == []


def test_damage_is_done_and_can_be_repeated() -> None:
    """Most inputs are changed, and the same dice change them alike."""
    texts = [mutation.text(Random(number), "a text of some words") for number in range(50)]
    values = [mutation.value(Random(number), {"a": ["b", 1]}) for number in range(50)]
    assert texts == [mutation.text(Random(number), "a text of some words") for number in range(50)]
    assert repr(values) == repr([mutation.value(Random(number), {"a": ["b", 1]}) for number in range(50)])
    assert len(set(texts)) > 25
    assert len(set(map(repr, values))) > 25
    assert len({mutation.data(Random(number), b"some bytes") for number in range(50)}) > 25


LONG = "word " * 2_000
BODY = {"model": "p.openai/gpt-5", "messages": []}
RECORDED = {"format": 1, "request_headers": {}, "events": [{"type": {}}, 5, {"type": "error"}]}
FOUND: dict[str, tuple[Callable[[], object], object]] = {
    "a quoted call beside an endless number": (
        lambda: quoted_calls(f"{ENTITY} &lt;details id=&quot;c1&quot;"),
        ["c1"],
    ),
    "a folded call named by an endless number": (
        lambda: unfold(f'<details type="tool_calls" done="true" id="c1" name="{ENTITY}">{ENTITY}</details>'),
        [FoldedCall("c1", "\ufffd", "", "\ufffd")],
    ),
    "a result with an endless number": (
        lambda: state_fact(f"&quot;a&quot; {ENTITY} {LONG}").splitlines()[1].split()[:3],
        ['"a"', "\ufffd", "word"],
    ),
    "a diff of endless lines": (
        lambda: state_fact(f"--- a/x\n+++ b/x\n@@ -1,{DIGITS} +1,1 @@\n{LONG}").partition(" ")[0],
        "[Tool:",
    ),
    "a page with an endless number": (
        lambda: read_failure(502, f"<title>Bad {ENTITY}</title>").message,
        "Bad \ufffd",
    ),
    "a wait until an endless year": (
        lambda: retry_after({"retry-after": "Mon, 01 Jan 99999999999999999999 00:00:00 GMT"}, now=NOW),
        None,
    ),
    "a wait in an endless zone": (
        lambda: retry_after({"retry-after": "Mon, 01 Jan 2024 00:00:00 +9999999999999999"}, now=NOW),
        None,
    ),
    "a stored call whose status is an object": (
        lambda: unfold_output([{"type": "function_call", "call_id": "c1", "status": {}}]),
        [],
    ),
    "an artifact that is a text": (lambda: read_artifacts({"0" * 20: "x"}), {}),
    "half a character in the id of a chat": (
        lambda: read_call(BODY, user=None, metadata={"chat_id": "local:\ud800\0"}, task=None).chat_id,
        "local:\ufffd",
    ),
    "half a character as the name of a valve": (
        lambda: [each.valve for each in HostValves(ADVANCED='{"\\ud800": 1, "VARIANTS": ""}').problems],
        ["ADVANCED"],
    ),
    "a recorded event whose type is an object": (
        lambda: [each.as_json()["items"] for each in read_recording([RECORDED]) or ()],
        [[]],
    ),
    "a video at an address that is none of the web": (
        lambda: read_job({"id": "1", "urls": ["javascript:alert(1)", 5, "https://x.org/a.mp4"]}).addresses,
        ("https://x.org/a.mp4",),
    ),
    "a plugin that is named by an object": (
        lambda: Composer({"plugins": [{"id": {}}]}, model=None, model_id="a/b").build([]).body["plugins"],
        [{"id": {}}],
    ),
    "tools that are named by lists": (
        lambda: with_server_tools(
            {"tools": [{"type": [], "name": []}]}, SEARCHES, "", model=None, model_id="a/b"
        )["tools"],
        [{"type": [], "name": []}, {"type": "openrouter:web_search", "parameters": ANY}],
    ),
}
"""What was found once, and what is read of it."""


@pytest.mark.parametrize("name", FOUND)
def test_what_was_found_is_not_found_again(name: str) -> None:
    """By its own reader, without dice."""
    read, expected = FOUND[name]
    found: Any = read()
    assert found == expected
