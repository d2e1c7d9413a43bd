"""What a round does with odd answers, through the whole pipe; tables in `rounds.txt`."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest

from open_webui_openrouter_pipe.history.markers import erase_markers, serialize_marker
from open_webui_openrouter_pipe.host.native import NOTICE
from open_webui_openrouter_pipe.words.lines import notice
from scripts.harness.page import Page
from tests.support.files import PICTURES
from tests.support.rows import rows
from tests.support.wire import frames
from tests.turn.pipe import (
    MODEL,
    Json,
    Router,
    call,
    calls_of,
    chat,
    completed,
    delta,
    failed,
    message,
    open_pipe,
    opened,
    reasoning,
    stream,
)

pytestmark = pytest.mark.anyio

TABLES = Path(__file__).parent / "rounds.txt"
PNG = base64.b64encode(PICTURES["image/png"]).decode()
REJECTED = "messages.1.content.0: Invalid `signature` in `thinking` block"
TOO_LONG = "This endpoint's maximum context length is 9000 tokens. However, you requested about 9999 tokens."


def whole(items: list[Json]) -> list[Json]:
    """The items with what every item has."""
    return [
        {**message("one"), **item} if item["type"] == "message" else {"status": "completed", **item}
        for item in items
    ]


@pytest.mark.parametrize(("items", "is_empty"), rows(TABLES, "answers", {"PNG": PNG}))
async def test_the_user_reads_that_an_answer_is_empty(
    tmp_path: Path, items: list[Json], is_empty: int
) -> None:
    """Rather than be left before an empty message; text, a refusal and a picture are answers."""
    ((_, answer),) = (await chat(tmp_path, Router(stream(*whole(items))), "1")).turns
    lines = [line for line in answer.notices if line not in {notice("searching"), notice("searched")}]
    assert (lines, answer.error) == ([notice("answer_empty")] * is_empty, None)


@pytest.mark.parametrize(("items", "name", "expected"), rows(TABLES, "sent back"))
async def test_only_what_a_provider_takes_is_sent_back(
    tmp_path: Path, items: list[Json], name: str, expected: list[Any]
) -> None:
    """Anything else would have each later request refused."""
    router = Router(stream(*whole(items)), stream(message("two")))
    await chat(tmp_path, router, "1", "2")
    assert [item.get(name) for item in router.inputs[1]] == expected


_BARE, _LATE = reasoning("rs_1", encrypted_content=None), reasoning("rs_1", encrypted_content="late")
_HALF = call('{"city": "Par')
_CUT_OFF = completed(_HALF, status="incomplete", incomplete_details={"reason": "max_output_tokens"})
STREAMS = {
    "thought": reasoning("rs_1"),
    "second thought": reasoning("rs_2"),
    "one": message("one"),
    "two": message("two"),
    "three": message("three"),
    "long": message("word " * 2_000),
    "long text": " ".join(["word"] * 2_000),
    "call": call(),
    "rejected": frames(failed(REJECTED)),
    "rejected late": frames(delta("one two"), failed(REJECTED)),
    "too long late": frames(delta("one two"), failed(TOO_LONG)),
    "sealed late": frames(*opened(_BARE, message("one")), completed(_LATE, message("one"))),
    "half a call": frames(*opened(_HALF), {**_CUT_OFF, "type": "response.incomplete"}),
    "reasoning rejected": notice("asked_without_reasoning"),
    "at its limit": notice("answer_at_output_limit"),
}


@pytest.mark.parametrize(("streams", "valves", "sent", "said"), rows(TABLES, "chats", STREAMS))
async def test_what_a_provider_has_refused_or_cut_off_is_answered(
    tmp_path: Path, streams: list[Any], valves: Json, sent: list[list[str]], said: list[Any]
) -> None:
    """Each request has the reasoning, each question its text, its lines and maybe a failure; no half call is run."""
    router = Router(*(each if isinstance(each, bytes) else stream(*each) for each in streams))
    page = await chat(tmp_path, router, *map(str, range(len(said))), **valves)
    thoughts = [[item["encrypted_content"] for item in items] for items in router.sent("reasoning")]
    answers = [answer for _, answer in page.turns]
    assert thoughts == sent
    assert [[erase_markers(each.text).strip(), each.notices, bool(each.error)] for each in answers] == said
    assert [arguments for each in answers for _, arguments in calls_of(each) if arguments != "{}"] == []


async def test_reasoning_is_sent_once_however_often_it_is_marked(tmp_path: Path) -> None:
    """A marker may stand in the text as well as beside the reasoning."""
    router = Router(stream(reasoning("rs_1"), message("one")), stream(message("two")))
    async with open_pipe(tmp_path, router) as pipe:
        page = Page(pipe, MODEL)
        output = (await page.ask("1")).output
        (ulid,) = re.findall(r'"id": "(\w{20})"', json.dumps(output))
        part = output[-1]["content"][0]
        part["text"] = f"{serialize_marker(ulid)}\n{part['text']}"
        await page.ask("2")
    assert [item["id"] for item in router.sent("reasoning")[1]] == ["rs_1"]


async def test_a_repeated_call_id_is_compared_with_the_whole_chat(tmp_path: Path) -> None:
    """The host keeps a call that the request leaves out, and would take the new one for it."""
    text = stream(message("word"))
    router = Router(stream(call()), text, text, text, stream(call()), stream(message("end")))
    clip: Json = {"CONTEXT_STRATEGY": "clip", "CLIP_LAST_MESSAGES": 2, "PERSIST_TOOL_RESULTS": False}
    page = await chat(tmp_path, router, "1", "2", "3", "4", **clip)
    assert router.sent("function_call")[4] == []
    ids = [call_id for _, answer in page.turns for call_id, _ in calls_of(answer)]
    assert (ids[0], len(set(ids))) == ("call_0", 2)


@pytest.mark.parametrize("levels", [50, 400, 700, 900, 100_000])
async def test_however_deep_an_item_is_nested_all_items_are_closed(tmp_path: Path, levels: int) -> None:
    """The text that was shown stays; how deep Python's parser reads depends on its version."""
    item = {"type": "openrouter:novelty", "id": "x", "status": "completed", "value": "DEEP"}
    begun, done = opened(message("one two"))[0], {**opened(item)[1], "output_index": 1}
    body = frames(begun, delta("one two"), done, completed())
    router = Router(body.replace(b'"DEEP"', b"[" * levels + b"]" * levels))
    ((_, answer),) = (await chat(tmp_path, router, "1")).turns
    ends: list[tuple[str, str | None]] = [("completed", None)] * (levels < 1_000)
    ends += [("incomplete", notice("unreadable_event"))] * (levels > 500)
    assert (answer.output[0]["status"], answer.error) in ends
    assert ({item["type"] for item in answer.output} - {NOTICE}, answer.text) == ({"message"}, "one two")
