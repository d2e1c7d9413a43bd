"""Calls of our own tools, through the whole pipe: answered here, shown to the host, and the same bytes ever after."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from open_webui_openrouter_pipe.recall.tool import RECALL_NAME
from open_webui_openrouter_pipe.turn.own_tools import LIMIT_REACHED, MAX_OWN_ROUNDS
from open_webui_openrouter_pipe.words.lines import notice
from scripts.harness.page import Page
from tests.support.wire import frames
from tests.turn.test_rounds_in_the_pipe import (
    MODEL,
    Json,
    Router,
    call,
    calls_of,
    completed,
    message,
    open_pipe,
    opened,
    reasoning,
    stream,
)

pytestmark = pytest.mark.anyio

EAGER = {"TOOL_OUTPUT_PRUNING": "every_turn", "TOOL_OUTPUT_RETENTION_TURNS": 1}
"""What a tool has returned is a fact as soon as the next turn begins."""
ROWS = json.dumps([{"id": at, "city": f"city {at}"} for at in range(400)])
TOOLS = {"look": lambda arguments: ROWS}


def recall(call_id: str = "recall_0", item_id: str = "fc_r", **arguments: Any) -> Json:
    return call(json.dumps(arguments), call_id=call_id, item_id=item_id, name=RECALL_NAME)


FIRST_TURN = (stream(call()), stream(message("There are 400 rows.")))


class Tools(Router):
    """A router that also keeps the names of the tools in each request."""

    def __init__(self, *bodies: bytes | AsyncIterator[bytes]) -> None:
        super().__init__(*bodies)
        self.tools: list[list[str]] = []
        self.bodies_sent: list[Json] = []

    async def __call__(self, request: Any) -> Any:
        if request.method == "POST":
            body = json.loads(request.content)
            self.bodies_sent.append(body)
            self.tools.append([tool["name"] for tool in body.get("tools", [])])
        return await super().__call__(request)


async def chat(folder: Path, router: Router, *questions: str, **valves: Any) -> Page:
    """Ask in one chat, of which tool results soon become facts."""
    async with open_pipe(folder, router, **{**EAGER, **valves}) as pipe:
        page = Page(pipe, MODEL, tools=TOOLS)
        for question in questions:
            await page.ask(question)
    return page


def outputs(sent: list[Json]) -> list[str]:
    return [item["output"] for item in sent if item["type"] == "function_call_output"]


async def test_a_call_of_ours_is_answered_within_the_answer(tmp_path: Path) -> None:
    """The model asks for a row that its request no longer has, gets it, and answers."""
    router = Tools(*FIRST_TURN, stream(recall(query="city 377")), stream(message("It is 377.")))
    page = await chat(tmp_path, router, "1", "2")
    assert router.tools == [["look"], ["look"], ["look", "recall"], ["look", "recall"]]
    assert "377" not in outputs(router.inputs[2])[0]
    assert "city 377" in outputs(router.inputs[3])[1]
    answer = page.turns[1][1]
    assert [item["type"] for item in answer.output] == ["function_call", "function_call_output", "message"]


CAPPED = {"TOOL_OUTPUT_PRUNING": "off", "CONTEXT_STRATEGY": "prune"}
"""In a small window the rows are cut in the middle on their arrival, and nothing changes later."""


def small_window(*bodies: bytes) -> Tools:
    router = Tools(*bodies)
    router.window_tokens = 24_000
    return router


ROUNDS = {
    "alone": [recall(turn=1)],
    "behind reasoning": [reasoning("rs_1"), recall(turn=1)],
    "behind text": [message("Let me look."), recall(turn=1)],
    "behind reasoning and text": [reasoning("rs_1"), message("Let me look."), recall(turn=1)],
    "with a phase": [reasoning("rs_1"), message("Let me look.", phase="commentary"), recall(turn=1)],
    "with two phases": [
        reasoning("rs_1"),
        message("Let me look.", phase="commentary"),
        message("It is late.", id="msg_2", phase="final_answer"),
        recall(turn=1),
    ],
    "twice": [reasoning("rs_1"), recall(turn=1), recall("recall_1", "fc_s", query="city 200")],
    "between texts": [message("One."), message("Two.", id="msg_2"), recall(turn=1)],
    "before text": [recall(turn=1), message("I look.")],
}


@pytest.mark.parametrize("items", ROUNDS.values(), ids=ROUNDS)
async def test_the_next_turn_begins_with_the_same_bytes(tmp_path: Path, items: list[Json]) -> None:
    """What the pipe has sent of its own rounds is what the host's chat becomes, so that the provider finds it."""
    router = small_window(
        *FIRST_TURN,
        stream(*items),
        stream(recall("recall_2", "fc_9", query="city 399")),
        stream(reasoning("rs_9"), message("It is 399.")),
        stream(message("Yes.")),
    )
    await chat(tmp_path, router, "1", "2", "3", **CAPPED)
    sent = [json.dumps(items)[:-1] for items in router.inputs[2:]]
    assert [later.startswith(earlier) for earlier, later in pairwise(sent)] == [True] * 3
    looked_up = 1 + sum(item.get("name") == RECALL_NAME for item in items)
    assert [len(outputs(sent)) for sent in router.inputs[4:]] == [1 + looked_up] * 2


async def test_a_call_beside_one_of_the_hosts_leaves_that_to_the_host(tmp_path: Path) -> None:
    """Ours is answered in the stream, the other by the host, and the next request has both pairs."""
    both = stream(recall(turn=1), call(call_id="call_7", item_id="fc_7"))
    router = small_window(*FIRST_TURN, both, stream(message("Done.")), stream(message("Yes.")))
    page = await chat(tmp_path, router, "1", "2", "3", **CAPPED)
    kinds = [(item["type"], item["call_id"]) for item in router.inputs[3] if "call_id" in item][2:]
    assert kinds == [
        ("function_call", "call_7"),
        ("function_call", "recall_0"),
        ("function_call_output", "recall_0"),
        ("function_call_output", "call_7"),
    ]
    assert len(router.inputs) == 5
    assert [arguments for _, arguments in calls_of(page.turns[1][1])] == ["{}", '{"turn": 1}']
    later = json.dumps(router.inputs[4])
    assert later.startswith(json.dumps(router.inputs[3])[:-1])


async def test_only_so_many_rounds_are_looked_up(tmp_path: Path) -> None:
    """Then the answer asks the model to stop; and one that calls all the same may call nothing any more."""
    again = [
        stream(recall(f"recall_{number}", f"fc_{number}", turn=1)) for number in range(MAX_OWN_ROUNDS + 1)
    ]
    router = Tools(*FIRST_TURN, *again, stream(message("I give up.")))
    await chat(tmp_path, router, "1", "2")
    answers = outputs(router.inputs[-1])[1:]
    assert [answer == LIMIT_REACHED for answer in answers] == [False] * MAX_OWN_ROUNDS + [True]
    choices = [body.get("tool_choice") for body in router.bodies_sent]
    assert choices == [None] * (len(choices) - 1) + ["none"]


async def test_usage_is_of_all_rounds(tmp_path: Path) -> None:
    """The host adds up what is billed, and judges the length of the chat by the last round."""
    usage = {"input_tokens": 100, "output_tokens": 10, "cost": 0.5}
    more = {"input_tokens": 300, "output_tokens": 20, "cost": 0.25}
    asked, said = recall(turn=1), message("Yes.")
    router = Tools(
        *FIRST_TURN,
        frames(*opened(asked), completed(asked, usage=usage)),
        frames(*opened(said), completed(said, usage=more)),
    )
    page = await chat(tmp_path, router, "1", "2")
    ends = [
        event["response"] for event in page.turns[1][1].events if event.get("type") == "response.completed"
    ]
    (end,) = ends
    names = ("input_tokens", "output_tokens", "prompt_tokens", "completion_tokens", "cost")
    assert [end["usage"][name] for name in names] == [400, 30, 300, 20, 0.75]


async def test_a_failure_keeps_what_was_looked_up_and_what_it_cost(tmp_path: Path) -> None:
    """The pair stays in the chat, so that the next turn has it; the bill of the first round is reported."""
    asked = recall(turn=1)
    usage = {"input_tokens": 100, "output_tokens": 10, "cost": 0.5}
    failed = {"status": "failed", "error": {"code": 400, "message": "no"}, "output": []}
    router = Tools(
        *FIRST_TURN,
        frames(*opened(asked), completed(asked, usage=usage)),
        frames({"type": "response.failed", "response": failed}),
        stream(message("Now it works.")),
    )
    page = await chat(tmp_path, router, "1", "2", "3")
    answer = page.turns[1][1]
    assert answer.error
    kept = [item["type"] for item in answer.output if item["type"].startswith("function_call")]
    assert kept == ["function_call", "function_call_output"]
    (end,) = [event["response"] for event in answer.events if event.get("type") == "response.completed"]
    assert end["usage"]["cost"] == 0.5
    assert len(outputs(router.inputs[-1])) == 2


async def test_what_a_round_cost_is_said_even_if_the_next_one_breaks(tmp_path: Path) -> None:
    """Nothing of the next one has arrived, not even its end."""

    async def broken() -> AsyncIterator[bytes]:
        yield b": hello\n\n"
        raise RuntimeError("not an error of HTTP")

    asked = recall(turn=1)
    usage = {"input_tokens": 100, "output_tokens": 10, "cost": 0.5}
    router = Tools(*FIRST_TURN, frames(*opened(asked), completed(asked, usage=usage)), broken())
    answer = (await chat(tmp_path, router, "1", "2")).turns[1][1]
    (end,) = [event["response"] for event in answer.events if event.get("type") == "response.completed"]
    assert (answer.error, end["usage"]["cost"]) == (notice("unexpected_error"), 0.5)


@pytest.mark.parametrize("kind", ["function_call", "function_call_output"])
async def test_stop_between_rounds_leaves_no_half(tmp_path: Path, kind: str) -> None:
    """Stopped after the call or after its answer: the next turn has both or neither, and is answered."""
    router = Tools(*FIRST_TURN, stream(recall(turn=1)), stream(message("Late.")), stream(message("Yes.")))
    async with open_pipe(tmp_path, router, **EAGER) as pipe:
        page = Page(pipe, MODEL, tools=TOOLS)
        await page.ask("1")
        async with aclosing(page.stream("2")) as events:
            async for event in events:
                if event.get("item", {}).get("type") == kind:
                    break
        answer = await page.ask("3")
    assert answer.error is None
    calls, answered = router.sent("function_call")[-1], outputs(router.inputs[-1])
    assert len(calls) == len(answered) == 1 + (kind != "function_call")


async def test_an_unreadable_call_is_answered_in_words(tmp_path: Path) -> None:
    """Nothing that a model writes as arguments ends the turn."""
    bad = call("{", call_id="recall_0", item_id="fc_r", name=RECALL_NAME)
    router = Tools(*FIRST_TURN, stream(bad), stream(message("Oh.")))
    page = await chat(tmp_path, router, "1", "2")
    assert page.turns[1][1].error is None
    assert outputs(router.inputs[3])[1].startswith("The arguments could not be read")


async def test_a_tool_of_the_same_name_is_the_hosts(tmp_path: Path) -> None:
    """The user chose it; ours is not offered beside it."""
    router = Tools(*FIRST_TURN, stream(recall(turn=1)), stream(message("Oh.")))
    async with open_pipe(tmp_path, router, **EAGER) as pipe:
        page = Page(pipe, MODEL, tools={**TOOLS, RECALL_NAME: lambda arguments: "the host's"})
        await page.ask("1")
        await page.ask("2")
    assert router.tools == [["look", "recall"]] * 4
    assert outputs(router.inputs[3])[1] == "the host's"


async def test_switched_off_nothing_is_offered_or_named(tmp_path: Path) -> None:
    """The fact is as it was without the tool."""
    router = Tools(*FIRST_TURN, stream(message("Oh.")))
    await chat(tmp_path, router, "1", "2", RECALL_TOOL=False)
    assert router.tools == [["look"]] * 3
    assert "#" not in outputs(router.inputs[2])[0]


@pytest.mark.parametrize("streams", [True, False])
async def test_a_caller_of_the_bare_api_sees_the_answer_alone(tmp_path: Path, *, streams: bool) -> None:
    """Neither our call nor its output is handed to them, and the usage is of all rounds."""
    usage = {"input_tokens": 100, "output_tokens": 10, "cost": 0.5}
    asked, said = recall(turn=1), message("It is 377.")
    router = Tools(
        *FIRST_TURN,
        frames(*opened(message("Hm."), asked), completed(message("Hm."), asked, usage=usage)),
        frames(*opened(said), completed(said, usage=usage)),
    )
    async with open_pipe(tmp_path, router, **EAGER) as pipe:
        page = Page(pipe, MODEL, tools=TOOLS)
        await page.ask("1")
        page.turns.append(("2", type(page.turns[0][1])()))
        body = {**page.body(), "stream": streams}
        answered = await pipe.pipe(body, __user__={"id": "user"}, __metadata__={})
        if streams:
            lines = [line async for line in answered.body_iterator]
            chunks = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
            text = "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks)
            whole, last = json.dumps(chunks), chunks[-1]
        else:
            text, whole, last = answered["choices"][0]["message"]["content"], json.dumps(answered), answered
    assert text == "Hm.\nIt is 377."
    assert "recall" not in whole
    assert last["choices"][0]["finish_reason"] == "stop"
    assert last["usage"]["prompt_tokens"] == 200
