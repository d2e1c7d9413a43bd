"""The pieces of a soak: the audit of chats, what is read of requests and stored chats, samples, and the picture."""

from __future__ import annotations

import asyncio
import io
import json
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image

from scripts.faults.audit import Report
from scripts.faults.chats import Outage, Stored, compare_chats, stored_in
from scripts.faults.curves import COLOURS, FAULT, HIGH, LEFT, RIGHT, WIDE, draw
from scripts.faults.probe import watch
from scripts.faults.run import read_log
from scripts.faults.samples import DESCRIPTORS, MEMORY, TASKS, leaks_in, slope
from scripts.faults.upstream import digest, tag, told, write_down
from scripts.faults.users import Asked, said_in
from scripts.launch.session import STANDIN_KEY
from scripts.standin import StandIn
from scripts.standin.state import RecordedRequest
from tests.support.waiting import eventually

Json = dict[str, Any]

AUTHORIZED = {"Authorization": f"Bearer {STANDIN_KEY}"}

FIRST, SECOND = "You said one.", "You said two."
REPLAYED = [("question", 1), ("answer", digest(FIRST)), ("question", 2)]


def request(items: list[Any], written: str, **fields: Any) -> Json:
    """A line of the stand-in's log; a question comes after the answer before it."""
    tags = [value for kind, value in items if kind == "question"]
    return {
        "path": "/responses",
        "kind": "answer",
        "user": "a",
        "tags": tags,
        "items": items,
        "written": written,
        "is_whole": True,
        "status": 200,
        "error": "",
        "warnings": [],
        "began": 60.0 + 40 * len(tags),
        "ended": 61.0 + 40 * len(tags),
        **fields,
    }


def violations(
    *,
    log: list[Json] | None = None,
    stored: list[Stored] | None = None,
    acts: frozenset[str] = frozenset(),
    outages: list[Outage] | None = None,
    **fields: Any,
) -> list[str]:
    """What is found in a chat of two questions, beside another user's, when something of it is otherwise."""
    asked = {
        1: Asked(1, "ada", (1,), "a/m"),
        2: Asked(2, "ada", (1, 2), "a/m", {*acts}, **fields),
        3: Asked(3, "eve", (3,), "a/m"),
    }
    true = [
        request([("question", 1)], FIRST),
        request(REPLAYED, SECOND),
        request([("question", 3)], FIRST, user="b"),
    ]
    kept = [Stored(1, FIRST), Stored(2, SECOND, FIRST), Stored(3, FIRST)]
    report = Report()
    compare_chats(asked, stored or kept, log or true, outages or [], report)
    return report.violations


LOG = [request([("question", 1)], FIRST), request(REPLAYED, SECOND)]
KEPT = [Stored(1, FIRST), Stored(2, SECOND, FIRST), Stored(3, FIRST)]
AGAIN = request(REPLAYED, SECOND)
TASK = request([("question", 1)], "A title", kind="task")


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({}, ""),
        ({"log": [*LOG, TASK]}, ""),
        ({"log": [*LOG, AGAIN], "stored": [*KEPT, KEPT[1]]}, ""),
        ({"log": [*LOG, AGAIN]}, "question 2 was answered, and that is not stored"),
        ({"stored": [KEPT[0], KEPT[2]]}, "question 2 was answered, and that is not stored"),
        ({"stored": [KEPT[0], Stored(2, SECOND[:5], FIRST), KEPT[2]]}, "question 2 was answered, and that"),
        ({"stored": [KEPT[0], Stored(2, SECOND * 2, FIRST), KEPT[2]]}, "question 2: no answer was"),
        ({"stored": [*KEPT, Stored(2, "Other words.", FIRST)]}, "question 2: no answer was"),
        ({"log": [LOG[0], request([("question", 2)], SECOND)]}, "question 2 was sent as [2], and is [1, 2]"),
        (
            {"log": [LOG[0], request([("question", 1), *REPLAYED], SECOND)]},
            "question 2 was sent as [1, 1, 2], and is [1, 2]",
        ),
        (
            {"log": [LOG[0], request([REPLAYED[0], REPLAYED[2]], SECOND)]},
            "question 2 was sent with other answers before 2",
        ),
        (
            {"log": [LOG[0], request([*REPLAYED[:2], *REPLAYED[1:]], SECOND)]},
            "question 2 was sent with other answers before 2",
        ),
        (
            {
                "log": [request([("question", 1)], ""), request([REPLAYED[0], REPLAYED[2]], SECOND)],
                "stored": [Stored(1, ""), Stored(2, SECOND, ""), KEPT[2]],
            },
            "",
        ),
        ({"log": [LOG[0], request([REPLAYED[0], REPLAYED[2]], SECOND, began=110.0)]}, ""),
        ({"log": [LOG[0], request(REPLAYED, SECOND, tags=[1, 2, 3])]}, "a request has words of several"),
        ({"log": [LOG[0], request(REPLAYED, SECOND, user="c")]}, "ada is named ['a', 'c']"),
        ({"log": [*LOG, request([("question", 3)], FIRST)]}, "a names several users"),
        ({"log": [*LOG, {**TASK, "status": 400, "error": "No."}]}, "refused or warned of: 400 No."),
        ({"log": [*LOG, {**TASK, "warnings": ["Odd."]}]}, "refused or warned of: 200 ['Odd.']"),
    ],
)
def test_what_is_lost_doubled_or_anothers_is_found(found: Json, expected: str) -> None:
    """Of questions, of answers that are stored, and of answers that are sent again; the rest of the audit is silent."""
    wrong = violations(**found)
    assert [each[: len(expected)] for each in wrong] == ([expected] if expected else [])


@pytest.mark.parametrize(
    ("excuse", "count"),
    [
        ({}, 1),
        ({"acts": frozenset({"stop"})}, 0),
        ({"outages": [Outage("kill", 141.0, 141.0)]}, 0),
        ({"outages": [Outage("kill", 190.0, 190.0)]}, 1),
        ({"heard": SECOND}, 0),
        ({"acts": frozenset({"temporary"})}, 0),
        ({"heard": SECOND[:5]}, 1),
        ({"heard": f"[01KXAAAAAA0123456789]: #\n\n{SECOND}"}, 0),
    ],
)
def test_an_answer_may_be_missing_for_a_reason(excuse: Json, count: int) -> None:
    """A person who left, a server that was away, or a program that has read it itself."""
    wrong = violations(stored=[KEPT[0], KEPT[2]], **excuse)
    assert len(wrong) == count


@pytest.mark.parametrize(("text", "count"), [("It is not available.", 0), (f"You said {tag(1)}", 1)])
def test_what_is_stored_without_an_answer_is_ours(text: str, count: int) -> None:
    """Such as an error, unless it is the answer to another question."""
    assert (
        len(
            violations(
                log=[LOG[0], request([("question", 3)], FIRST, user="b")],
                stored=[KEPT[0], Stored(2, text, FIRST), KEPT[2]],
            )
        )
        == count
    )


CUT, THIRD = ("answer", digest("You said [...]")), ("question", 3)
ANSWERED = ("answer", digest(SECOND))


@pytest.mark.parametrize(
    ("items", "count"),
    [
        ([*REPLAYED, ANSWERED, THIRD], 0),
        ([REPLAYED[2], ANSWERED, THIRD], 0),
        ([REPLAYED[0], CUT, REPLAYED[2], ANSWERED, THIRD], 0),
        ([*REPLAYED, CUT, THIRD], 1),
        ([*REPLAYED[2:], *REPLAYED, ANSWERED, THIRD], 1),
    ],
)
def test_only_in_a_narrow_window_a_chats_beginning_is_cut(items: list[Any], count: int) -> None:
    """What is sent stands in its order there, too, and the last answer is whole."""
    asked = {
        number: Asked(number, "ada", tuple(range(1, number + 1)), "mistralai/mistral-small-8k")
        for number in (1, 2, 3)
    }
    kept = [Stored(1, FIRST), Stored(2, SECOND, FIRST), Stored(3, "Three.", SECOND)]
    report = Report()
    compare_chats(asked, kept, [*LOG, request(items, "Three.")], [], report)
    assert len(report.violations) == count


def test_a_request_is_told_by_its_tags_questions_and_answers() -> None:
    """A note beside a question is none, though its tags are told; of answers the spaces do not count."""
    said = [
        {"type": "message", "role": "user", "content": f"{tag(7)} Hi."},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "You  said\nHi."}],
        },
        {"type": "message", "role": "user", "content": f"[Of earlier: {tag(9)}]"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": tag(8)}]},
    ]
    body = {"model": "a/m", "user": "u", "input": said}
    raw = json.dumps(body).encode()
    record = RecordedRequest("POST", "/responses", "", {}, "", raw, body, 1.0, written="Yes.", status=200)
    line = told(record)
    assert line["items"] == [("question", 7), ("answer", digest("You said Hi.")), ("question", 8)]
    assert (line["tags"], line["kind"], line["written"]) == ([7, 8, 9], "answer", "Yes.")
    task = [{"type": "message", "role": "user", "content": f"### Task:\nA title for {tag(7)}"}]
    record = RecordedRequest("POST", "/responses", "", {}, "", b"", {"input": task}, 1.0)
    assert told(record)["kind"] == "task"


def test_what_has_ended_is_written_down_and_forgotten() -> None:
    """In its order; what is still being answered, and what came after it, waits."""
    file = io.StringIO()
    with StandIn() as standin, httpx.Client(base_url=standin.base_url, headers=AUTHORIZED) as client:
        for text in ("one", "two"):
            client.post("/responses", json={"model": "standin/plain", "input": f"{tag(5)} {text}"})
        client.get("/models")
        standin.log[1].ended_at = None
        write_down(standin, file)
        assert [json.loads(line)["tags"] for line in file.getvalue().splitlines()] == [[5]]
        standin.log[0].ended_at = 1.0
        write_down(standin, file)
    assert [json.loads(line)["status"] for line in file.getvalue().splitlines()] == [200, 200]
    assert not standin.log


def test_of_a_stored_chat_the_models_words_are_read() -> None:
    """Without markers and pictures, each with the answer before its question; an answer to nobody is passed over."""
    mark = "[01KXAAAAAA0123456789]: #"
    items = [{"type": "reasoning"}, {"type": "message", "content": [{"text": f"{mark}\n\nOne.\n\n{mark}"}]}]
    messages = {
        "q1": {"role": "user", "parentId": None, "content": tag(1)},
        "a1": {"role": "assistant", "parentId": "q1", "content": "", "output": items},
        "q2": {"role": "user", "parentId": "a1", "content": [{"text": tag(2)}]},
        "a2": {"role": "assistant", "parentId": "q2", "content": "Two. ![A boat](/api/v1/files/f/content)"},
        "a3": {"role": "assistant", "parentId": None, "content": "Hello."},
    }
    assert [*stored_in({"history": {"messages": messages}})] == [
        Stored(1, "One."),
        Stored(2, "Two. ", "One."),
    ]


def test_an_error_that_nobody_expected_is_found_in_the_log() -> None:
    """What the pipe has words for, such as a bill that is not written, is counted alone."""
    report = Report()
    read_log("1 bill not written, lost: {}\n2 AB12: unexpected error\nTraceback\n", report)
    assert report.violations == ["2 AB12: unexpected error"]
    assert report.figures["log: bill not written"] == 1


def test_a_program_hears_the_deltas() -> None:
    """Whatever else the stream has."""
    chunks = [{"choices": [{"delta": {"content": "One "}}]}, {"choices": [{"delta": {}}]}, {"choices": []}]
    lines = [f"data: {json.dumps(each)}" for each in (*chunks, {"choices": [{"delta": {"content": "two"}}]})]
    assert said_in([": a comment", *lines, "", "data: [DONE]"]) == "One two"


def test_a_slope_is_that_of_the_second_half() -> None:
    """An hour's growth; what a start takes does not count."""
    start = [(float(at), at * 100.0) for at in range(0, 100, 10)]
    late = [(float(at), 1000 + at / 36) for at in range(100, 220, 10)]
    assert slope([*start, *late]) == pytest.approx(100.0)
    assert slope(start[:2]) == 0.0


@pytest.mark.parametrize(
    ("panel", "first", "last", "is_left"),
    [
        (MEMORY, 100.0, 155.0, True),
        (MEMORY, 100.0, 145.0, False),
        (TASKS, 40.0, 51.0, True),
        (TASKS, 40.0, 50.0, False),
        (DESCRIPTORS, 40.0, 101.0, True),
        (DESCRIPTORS, 40.0, 100.0, False),
    ],
)
def test_what_a_worker_does_not_give_back_is_found(
    panel: str, first: float, last: float, *, is_left: bool
) -> None:
    """Memory by the hour, tasks and descriptors at the end; not of a worker that was killed, nor of a young one."""

    def line(end: float) -> list[tuple[float, float]]:
        return [(float(at), first + (last - first) * at / 3600) for at in range(0, int(end) + 1, 600)]

    until = {panel: {"1": line(3600)}} if panel == MEMORY else {panel: {"1": [(0.0, first), (3600.0, last)]}}
    steady = {MEMORY: {"2": [(0.0, 1.0), (3600.0, 1.0)]}}
    found = [*leaks_in({**steady, **until})]
    assert len(found) == is_left
    gone = {panel: {"1": [(0.0, first), (2600.0, last * 9)]}}
    assert [*leaks_in({**steady, **gone})] == []


@pytest.mark.anyio
async def test_a_probe_tells_how_late_a_loop_is(tmp_path: Path) -> None:
    """The longest time for which nothing else could run, how many tasks there are, and what they do."""
    path = tmp_path / "1.jsonl"
    watching = asyncio.create_task(watch(path, step=0.01, period=0.05))
    await asyncio.sleep(0.02)
    time.sleep(0.3)  # noqa: ASYNC251 - what the probe is for
    await eventually(path.exists)
    watching.cancel()
    line = json.loads(path.read_text("utf-8").splitlines()[0])
    assert line["lag_ms"] > 200
    assert (line["tasks"], line["kinds"]["watch"]) == (len(asyncio.all_tasks()), 1)


def _most_like(colour: tuple[int, int, int], pixels: list[Any]) -> int:
    """Where in a row a pixel comes nearest to a colour."""

    def distance(at: int) -> int:
        return sum(abs(one - other) for one, other in zip(colour, pixels[at], strict=True))

    return min(range(len(pixels)), key=distance)


def test_the_picture_has_a_panel_for_each_unit_and_a_line_for_each_fault(tmp_path: Path) -> None:
    """A line ends at the right where its last value stands; nothing was measured: an empty picture, not an error."""
    path = tmp_path / "soak.png"
    curves = {
        "memory": {"1": [(0.0, 0.0), (60.0, 100.0)]},
        "tasks": {"1": [(0.0, 5.0), (60.0, 5.0)]},
        "rows": {},
    }
    draw(curves, [(30.0, "kill")], path)
    with Image.open(path) as picture:
        assert picture.size == (2 * WIDE, 2 * HIGH)
        across = [picture.convert("RGB").getpixel((x, HIGH // 3)) for x in range(WIDE)]
    assert _most_like(FAULT, across) == LEFT + (WIDE - LEFT - RIGHT) // 2
    assert _most_like(COLOURS[0], across[: WIDE - RIGHT]) > WIDE // 2
    draw({}, [], path)
    with Image.open(path) as picture:
        assert picture.size == (2 * WIDE, HIGH)
