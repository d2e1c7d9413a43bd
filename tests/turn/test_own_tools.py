"""Calls of our own tools, through the whole pipe: answered here, shown to the host, and the same bytes ever after."""

from __future__ import annotations

import json
from contextlib import aclosing
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from open_webui_openrouter_pipe.host.native import NOTICE
from open_webui_openrouter_pipe.recall.tool import RECALL_NAME
from open_webui_openrouter_pipe.turn.own_tools import LIMIT_REACHED, MAX_OWN_ROUNDS
from open_webui_openrouter_pipe.words.lines import notice
from scripts.harness.page import Page
from tests.support.rows import rows
from tests.support.wire import frames
from tests.turn import pipe
from tests.turn.pipe import MODEL, Json, Router, call, calls_of, failed, message, open_pipe, reasoning, stream

pytestmark = pytest.mark.anyio

EAGER: Json = {"TOOL_OUTPUT_PRUNING": "every_turn", "TOOL_OUTPUT_RETENTION_TURNS": 1}
"""What a tool has returned is a fact as soon as the next turn begins."""
CAPPED: Json = {"TOOL_OUTPUT_PRUNING": "off", "CONTEXT_STRATEGY": "prune"}
"""In a small window the rows are cut in the middle on their arrival, and nothing changes later."""
ROWS = json.dumps([{"id": at, "city": f"city {at}"} for at in range(400)])
TOOLS = {"look": lambda arguments: ROWS}
USAGE = {"input_tokens": 100, "output_tokens": 10, "cost": 0.5}
FIRST_TURN = (stream(call()), stream(message("There are 400 rows.")))


def recall(call_id: str = "recall_0", item_id: str = "fc_r", **arguments: Any) -> Json:
    return call(json.dumps(arguments), call_id=call_id, item_id=item_id, name=RECALL_NAME)


ROUNDS = {
    "recall": recall(turn=1),
    "second recall": recall("recall_1", "fc_s", query="city 200"),
    "thought": reasoning("rs_1"),
    "text": message("Let me look."),
    "second text": message("Two.", id="msg_2"),
    "two parts": message(
        "", content=[{"type": "output_text", "text": "Let me"}, {"type": "refusal", "refusal": " not."}]
    ),
    "commentary": message("Let me look.", phase="commentary"),
    "final answer": message("It is late.", id="msg_2", phase="final_answer"),
}
chat = partial(pipe.chat, tools=TOOLS)
"""Ask in one chat with a tool of the host."""


def outputs(sent: list[Json]) -> list[str]:
    return [item["output"] for item in sent if item["type"] == "function_call_output"]


def offered(router: Router) -> list[list[str]]:
    """The names of the tools in each request."""
    return [[tool["name"] for tool in request.get("tools", [])] for request in router.requests]


async def test_a_call_of_ours_is_answered_within_the_answer(tmp_path: Path) -> None:
    """The model asks for a row that its request no longer has, gets it, and answers."""
    router = Router(*FIRST_TURN, stream(recall(query="city 377")), stream(message("It is 377.")))
    page = await chat(tmp_path, router, "1", "2", **EAGER)
    assert offered(router) == [["look"], ["look"], ["look", "recall"], ["look", "recall"]]
    assert ["377" in outputs(sent)[-1] for sent in router.inputs[2:]] == [False, True]
    shown = [item["type"] for item in page.turns[1][1].output]
    assert shown == [NOTICE, "function_call", "function_call_output", "message"]


@pytest.mark.parametrize("items", rows(Path(__file__).parent / "rounds.txt", "own rounds", ROUNDS))
async def test_the_next_turn_begins_with_the_same_bytes(tmp_path: Path, items: list[Json]) -> None:
    """What the pipe has sent of its own rounds is what the host's chat becomes, so that the provider finds it."""
    router = Router(
        *FIRST_TURN,
        stream(*items),
        stream(recall("recall_2", "fc_9", query="city 399")),
        stream(reasoning("rs_9"), message("It is 399.")),
        stream(message("Yes.")),
        window_tokens=24_000,
    )
    await chat(tmp_path, router, "1", "2", "3", **CAPPED)
    sent = [json.dumps(items)[:-1] for items in router.inputs[2:]]
    assert [later.startswith(earlier) for earlier, later in pairwise(sent)] == [True] * 3
    looked_up = 1 + sum(item.get("name") == RECALL_NAME for item in items)
    assert [len(outputs(sent)) for sent in router.inputs[4:]] == [1 + looked_up] * 2


async def test_a_call_beside_one_of_the_hosts_leaves_that_to_the_host(tmp_path: Path) -> None:
    """Ours is answered in the stream, the other by the host, and the next request has both pairs."""
    both = stream(recall(turn=1), call(call_id="call_7", item_id="fc_7"))
    router = Router(
        *FIRST_TURN, both, stream(message("Done.")), stream(message("Yes.")), window_tokens=24_000
    )
    page = await chat(tmp_path, router, "1", "2", "3", **CAPPED)
    kinds = [(item["type"], item["call_id"]) for item in router.inputs[3] if "call_id" in item][2:]
    assert kinds == [
        ("function_call", "call_7"),
        ("function_call", "recall_0"),
        ("function_call_output", "recall_0"),
        ("function_call_output", "call_7"),
    ]
    assert [arguments for _, arguments in calls_of(page.turns[1][1])] == ["{}", '{"turn": 1}']
    before, later = map(json.dumps, router.inputs[3:])
    assert later.startswith(before[:-1])


async def test_only_so_many_rounds_are_looked_up(tmp_path: Path) -> None:
    """Then the answer asks the model to stop; and one that calls all the same may call nothing any more."""
    again = [recall(f"recall_{number}", f"fc_{number}", turn=1) for number in range(MAX_OWN_ROUNDS + 1)]
    router = Router(*FIRST_TURN, *map(stream, again), stream(message("I give up.")))
    await chat(tmp_path, router, "1", "2", **EAGER)
    answers = outputs(router.inputs[-1])[1:]
    assert [answer == LIMIT_REACHED for answer in answers] == [False] * MAX_OWN_ROUNDS + [True]
    choices = [request.get("tool_choice") for request in router.requests]
    assert choices == [None] * (len(choices) - 1) + ["none"]


@pytest.mark.parametrize(
    ("second", "error", "billed"),
    [
        (
            stream(message("Yes."), usage={"input_tokens": 300, "output_tokens": 20, "cost": 0.25}),
            None,
            [400, 30, 300, 20, 0.75],
        ),
        (frames(failed("no", 403)), "no", [100, 10, 100, 10, 0.5]),
        ([b": hello\n\n", RuntimeError("a bug")], notice("unexpected_error"), [100, 10, 100, 10, 0.5]),
    ],
    ids=["ends", "fails", "breaks"],
)
async def test_usage_is_of_all_rounds_however_the_last_one_ends(
    tmp_path: Path, second: Any, error: str | None, billed: list[float]
) -> None:
    """The host adds up what is billed, and judges the chat's length by the last round; the pair stays in the chat."""
    router = Router(*FIRST_TURN, stream(recall(turn=1), usage=USAGE), second, stream(message("It works.")))
    page = await chat(tmp_path, router, "1", "2", "3", **EAGER)
    answer = page.turns[1][1]
    (end,) = [event["response"] for event in answer.events if event.get("type") == "response.completed"]
    names = ("input_tokens", "output_tokens", "prompt_tokens", "completion_tokens", "cost")
    assert [end["usage"][name] for name in names] == billed
    assert error in (answer.error or "") if error else answer.error is None
    assert len(outputs(router.inputs[-1])) == 2


@pytest.mark.parametrize("kind", ["function_call", "function_call_output"])
async def test_stop_between_rounds_leaves_no_half(tmp_path: Path, kind: str) -> None:
    """Stopped after the call or after its answer: the next turn has both or neither, and is answered."""
    router = Router(*FIRST_TURN, stream(recall(turn=1)), stream(message("Late.")), stream(message("Yes.")))
    async with open_pipe(tmp_path, router, **EAGER) as opened:
        page = Page(opened, MODEL, tools=TOOLS)
        await page.ask("1")
        async with aclosing(page.stream("2")) as events:
            async for event in events:
                if event.get("item", {}).get("type") == kind:
                    break
        answer = await page.ask("3")
    assert answer.error is None
    calls, answered = router.sent("function_call")[-1], outputs(router.inputs[-1])
    assert len(calls) == len(answered) == 1 + (kind != "function_call")


@pytest.mark.parametrize(
    ("called", "tools", "valves", "are_offered", "answer"),
    [
        (recall(turn=1), {RECALL_NAME: lambda arguments: "the host's"}, EAGER, 4, "the host's"),
        (message("Oh."), {}, {**EAGER, "RECALL_TOOL": False}, 0, None),
    ],
    ids=["a tool of the host has its name", "switched off"],
)
async def test_recall_is_offered_where_it_is_ours_and_answers_in_words(
    tmp_path: Path, called: Json, tools: Json, valves: Json, are_offered: int, answer: str | None
) -> None:
    """A tool that the user chose goes before it; switched off nothing names it."""
    router = Router(*FIRST_TURN, stream(called), stream(message("Oh.")))
    page = await chat(tmp_path, router, "1", "2", tools={**TOOLS, **tools}, **valves)
    assert [RECALL_NAME in names for names in offered(router)].count(True) == are_offered
    assert page.turns[1][1].error is None
    if answer is None:
        assert "#" not in outputs(router.inputs[2])[0]
    else:
        assert outputs(router.inputs[3])[1].startswith(answer)


@pytest.mark.parametrize("streams", [True, False])
async def test_a_caller_of_the_bare_api_sees_the_answer_alone(tmp_path: Path, *, streams: bool) -> None:
    """Neither our call nor its output is handed to them, and the usage is of all rounds."""
    router = Router(
        *FIRST_TURN,
        stream(message("Hm."), recall(turn=1), usage=USAGE),
        stream(message("It is 377."), usage=USAGE),
    )
    async with open_pipe(tmp_path, router, **EAGER) as opened:
        page = Page(opened, MODEL, tools=TOOLS)
        await page.ask("1")
        page.turns.append(("2", type(page.turns[0][1])()))
        body = {**page.body(), "stream": streams}
        answered = await opened.pipe(body, __user__={"id": "user"}, __metadata__={})
        if streams:
            lines = [line async for line in answered.body_iterator]
            chunks = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
            text = "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks)
        else:
            chunks, text = [answered], answered["choices"][0]["message"]["content"]
    assert (text, "recall" in json.dumps(chunks)) == ("Hm.\nIt is 377.", False)
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
    assert chunks[-1]["usage"]["prompt_tokens"] == 200
