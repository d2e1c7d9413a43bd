"""What callers get of an answer: events for a page or a channel, chunks, completions; cases in `writers.txt`."""

from __future__ import annotations

import copy
import json
import re
from itertools import count
from numbers import Number
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe import errors, ports
from open_webui_openrouter_pipe.host.chunks import ChunkWriter, CompletionWriter, error_response
from open_webui_openrouter_pipe.host.native import (
    ChannelWriter,
    NativeWriter,
    PageWriter,
    UsageShown,
    host_usage,
)
from open_webui_openrouter_pipe.host.tagged_code import TaggedCodeWriter, find_code
from open_webui_openrouter_pipe.ports import Failed, Notice
from open_webui_openrouter_pipe.responses import effects
from open_webui_openrouter_pipe.responses.effects import ItemStarted
from open_webui_openrouter_pipe.responses.failure import Failure
from open_webui_openrouter_pipe.responses.items import OpaqueItem, Reasoning
from tests.support.host_source import host_source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from open_webui_openrouter_pipe.ports import Output

Events = list[dict[str, Any]]

CLASSES = {**vars(errors), **vars(ports), **vars(effects), "Failure": Failure}
THOUGHT = Reasoning(type="reasoning", id="rs", summary=[])
TEXT = OpaqueItem(type="message")
HEAD = {"id": "chatcmpl-1", "object": "", "created": 7, "model": "openai/gpt-5"}
CODE = '<code_interpreter type="code" lang="python">'


def made(value: Any) -> Any:
    """A value of a case: a dictionary of one class's name is an object of it."""
    if isinstance(value, list):
        return [made(member) for member in value]
    if not isinstance(value, dict):
        return value
    name, given = next(iter(value.items()))
    if len(value) > 1 or name not in CLASSES:
        return value
    return CLASSES[name](**given) if isinstance(given, dict) else CLASSES[name](*map(made, given))


def cases() -> Iterator[Any]:
    """Of each case the writer, its outputs and the events, by its name."""
    names: dict[str, str] = {}

    def read(line: str) -> Any:
        return json.loads(re.sub(r'"\$(\w+)"', lambda found: names[found[1]], line))

    for block in Path(__file__).with_name("writers.txt").read_text("utf-8").strip().split("\n\n")[1:]:
        if "\n> " not in block:
            for name, text in (line.split(" = ", 1) for line in block.split("\n")):
                names[name] = json.dumps(read(text))
            continue
        head, *lines = block.split("\n")
        writer, _, name = head.partition(": ")
        given = [read(line[2:]) for line in lines if line.startswith("> ")]
        outputs = [each for one in given for each in (one if isinstance(one, list) else [one])]
        expected = [read(line) for line in lines if not line.startswith("> ")]
        yield pytest.param(writer, outputs, expected, id=f"{writer}: {name}")


def native(writer: type[NativeWriter] = NativeWriter, continued_text: str = "") -> NativeWriter:
    """One whose ids are numbers, and whose clock moves by three seconds."""
    ids, seconds = count(1), count(0, 3)
    return writer(
        new_id=lambda: f"N{next(ids)}", clock=lambda: float(next(seconds)), continued_text=continued_text
    )


def rendered(writer: Any, outputs: Sequence[Output]) -> Events:
    return [copy.deepcopy(event) for output in outputs for event in writer.render(output)]


def completed(outputs: Sequence[Output], *, with_output: bool) -> Events:
    writer = CompletionWriter(native(), HEAD)
    for output in outputs:
        writer.take(output)
    return [writer.result(with_output=with_output)]


WRITERS: dict[str, Callable[[Sequence[Output]], Events]] = {
    "page": lambda outputs: rendered(native(PageWriter), outputs),
    "internal": lambda outputs: rendered(native(), outputs),
    "continued": lambda outputs: rendered(native(continued_text="One\n two."), outputs),
    "channel": lambda outputs: rendered(native(ChannelWriter), outputs),
    "tagged": lambda outputs: rendered(TaggedCodeWriter(native(PageWriter), new_id=lambda: "C"), outputs),
    "chunks": lambda outputs: rendered(ChunkWriter(HEAD), outputs),
    "chunks with usage": lambda outputs: rendered(ChunkWriter(HEAD, include_usage=True), outputs),
    "completion": lambda outputs: completed(outputs, with_output=False),
    "completion of a page": lambda outputs: completed(outputs, with_output=True),
}


CASES = [*cases()]


@pytest.mark.parametrize(("writer", "outputs", "expected"), CASES)
def test_what_a_caller_gets(writer: str, outputs: Events, expected: Events) -> None:
    """Every event whole, in order."""
    assert WRITERS[writer](made(outputs)) == expected


@pytest.mark.parametrize(
    ("given", "line", "shown"),
    [
        ([], "Stopped.", ["> Stopped."]),
        ([], "", []),
        ([Notice("Wait.", done=False)], "Stopped.", [None, "> Stopped."]),
        ([Notice("Wait.", done=False)], "", [None]),
        ([Notice("Cut.", weight=1)], "Stopped.", ["> Cut.\n>\n> Stopped."]),
        ([ItemStarted(0, THOUGHT)], "Stopped.", ["> Stopped."]),
        ([ItemStarted(0, TEXT)], "Stopped.", []),
        ([ItemStarted(0, TEXT), Notice("Wait.", done=False)], "Stopped.", [None]),
    ],
)
def test_a_stop_ends_what_is_shown(given: list[Output], line: str, shown: list[str | None]) -> None:
    """A wait is hidden (null here); an answer without text says that it was stopped, below what it lacks."""
    writer = native(PageWriter)
    rendered(writer, given)
    events = writer.stop(line)
    items = [event["item"]["content"][0]["text"] if "item" in event else None for event in events]
    hidden = [event["event"]["data"] for event in events if "event" in event]
    assert items == shown
    assert hidden == [{"description": "", "done": True, "hidden": True}] * shown.count(None)


def test_a_stop_of_tagged_code_adds_its_line_at_the_end() -> None:
    """The host has items before these, of which an index knows nothing."""
    writer = TaggedCodeWriter(native(PageWriter), new_id=lambda: "C")
    (event,) = writer.stop("Stopped.")
    assert (event["type"], "output_index" in event) == ("response.output_item.added", False)


@pytest.mark.live
@pytest.mark.parametrize(
    ("writer", "outputs"),
    [
        pytest.param(writer, outputs, id=case.id)
        for case in CASES
        for writer, outputs, _ in [case.values]
        if writer in {"page", "tagged"} and "ResponseFinished" in outputs[-1]
    ],
)
def test_the_host_has_the_same_items(writer: str, outputs: Events) -> None:
    """By its own reducer; of code between tags it gets only what is new, and a call that has no end goes at the end."""
    names = ("handle_responses_streaming_event", "deep_merge")
    try:
        response = host_source("utils/response", *names)
    except KeyError:  # before 0.12
        response = host_source("utils/middleware", *names)
    before: Events = [{"type": "open_webui:code_interpreter", "id": "run"}] if writer == "tagged" else []
    reduced, last = before, dict[str, Any]()
    for event in WRITERS[writer](made(outputs)):
        if "type" in event:
            reduced, _ = response.handle_responses_streaming_event(copy.deepcopy(event), reduced)
        items = event.get("response", {}).get("output", [event.get("item")])
        last |= {item["id"]: item for item in items if item}
        if writer == "page" and event.get("type") == "response.completed":
            last = {item["id"]: last[item["id"]] for item in items}
    assert reduced == [*before, *last.values()]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"See.\n\n{CODE}\nprint(6*7)\n</code_interpreter>\nIt is 41.", ("See.", "print(6*7)")),
        ('<code_interpreter lang="python" type="code">1</code_interpreter>', ("", "1")),
        (f"{CODE} </code_interpreter>", None),
        (f"{CODE}print(1)", None),
        ("<code_interpreter>print(1)</code_interpreter>", None),
        ("None here.", None),
    ],
)
def test_code_stands_between_tags_that_say_so(text: str, found: tuple[str, str] | None) -> None:
    """The host runs nothing else either."""
    assert find_code(text) == found


@pytest.mark.anyio
@pytest.mark.parametrize("error", [errors.RateLimited("No."), None])
async def test_an_error_is_a_response_with_its_status(error: errors.PipeError | None) -> None:
    """The host hands on a streamed one as it is, and reads the body for its own log."""
    response = error_response(Failed("No.", error))
    sent = b"".join([part async for part in response.body_iterator])
    assert (response.status_code, response.media_type, response.body) == (
        error.status if error else 500,
        "application/json",
        sent,
    )
    assert [json.loads(sent)] == rendered(ChunkWriter(HEAD), [Failed("No.", error)])


OWN_KEY = effects.Usage(10, cost=0.01, provider_cost=0.2, byok_requests=1)
ASKED, OTHER = effects.Served("a/m", "One"), effects.Served("b/n-2026", "Two", other_model="b/n")


@pytest.mark.parametrize(
    ("rounds", "expected"),
    [
        ([(OWN_KEY, ASKED), (OWN_KEY, ASKED)], (0.02, 0.42, True, "a/m", "One")),
        ([(OWN_KEY, OTHER), (effects.Usage(10, cost=0.05), ASKED)], (0.06, 0.26, True, "a/m", "One")),
        ([(effects.Usage(10, cost=0.05), ASKED), (OWN_KEY, OTHER)], (0.06, 0.26, True, "b/n", "Two")),
        ([(OWN_KEY, OTHER), (OWN_KEY, effects.Served("a/m"))], (0.02, 0.42, True, "a/m", "")),
        ([(effects.Usage(10, cost=0.05), effects.UNKNOWN)] * 2, (0.1, 0.1, None, None, None)),
    ],
)
def test_open_webui_sums_what_an_answer_has_cost_and_names_who_served_its_last_round(
    rounds: Sequence[tuple[effects.Usage, effects.Served]], expected: tuple[Any, ...]
) -> None:
    """Also what a provider is paid, whose own key was used in all rounds, or in some."""
    host = host_source(
        "utils/response",
        *("merge_usage", "normalize_usage", "_is_numeric_usage_value", "_merge_numeric_usage_map"),
        *("USAGE_TOKEN_KEYS", "USAGE_COST_KEYS", "USAGE_SUMMABLE_KEYS", "USAGE_DETAIL_KEYS"),
        Number=Number,
    )
    merged: dict[str, Any] = {}
    for usage, served in rounds:
        merged = host.merge_usage(merged, host_usage(usage, served=served))
    cost, total, *said = expected
    assert (merged["cost"], merged["total_cost"]) == pytest.approx((cost, total))
    assert [merged.get(name) for name in ("is_byok", "model", "provider")] == said


@pytest.mark.parametrize(
    ("shown", "first"),
    [
        ("all", ["price", "provider_price", "seconds", "requests", "model", "provider", "input_tokens"]),
        ("no_cost", ["seconds", "requests", "model", "provider", "input_tokens", "output_tokens"]),
        ("tokens", ["input_tokens", "output_tokens", "total_tokens", "prompt_tokens", "completion_tokens"]),
    ],
)
def test_usage_begins_with_what_people_look_for(shown: UsageShown, first: list[str]) -> None:
    """The page shows it in this order; nothing of money where that is not kept, and tokens alone in an arena."""
    writer = NativeWriter(new_id=str, clock=float, usage_shown=shown)
    spent = ports.AnswerCost(effects.Usage(cost=0.012, provider_cost=0.31, byok_requests=1), 3, 7.26)
    events = rendered(writer, [spent, effects.ResponseFinished(usage=OWN_KEY, served=ASKED)])
    usage = events[-1]["response"]["usage"]
    assert [*usage][: len(first)] == first
    assert len(usage) == len(first) or shown != "tokens"
    said = {"price": "$0.012", "provider_price": "$0.31", "seconds": 7.3, "requests": 3}
    assert said.items() & usage.items() == {each for each in said.items() if each[0] in first}
    money = {"cost", "total_cost", "is_byok"}
    assert money & usage.keys() == (money if shown == "all" else set())


def test_of_a_long_result_the_chat_has_the_beginning() -> None:
    """The model has the whole of what a tool of OpenRouter's has found."""
    item: Any = {"type": "openrouter:advisor", "status": "completed", "advice": "x" * 4_001}
    writer = NativeWriter(new_id=str, clock=float)
    *_, output = rendered(writer, [effects.ItemStarted(0, item), effects.ItemFinished(0, item)])
    assert output["item"]["output"] == [{"type": "input_text", "text": "x" * 4_000}]


def test_programs_are_told_what_a_provider_is_paid() -> None:
    """As OpenRouter says it, and only where the provider's own key was used."""
    for usage, paid in ((OWN_KEY, {"upstream_inference_cost": 0.2}), (effects.Usage(10, cost=0.01), None)):
        (answer,) = completed([effects.ResponseFinished(usage=usage)], with_output=False)
        assert answer["usage"].get("cost_details") == paid
