"""The scribe: how a summary is asked for, how often, and what is made of the answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from open_webui_openrouter_pipe.engine.summary_writer import THINKING_TOKENS
from open_webui_openrouter_pipe.errors import PaymentRequired, PipeError, ProviderUnavailable, RateLimited
from tests.engine.bureau import COST, GOOD, TOLD, Bureau, Reply, live, response, scribe, stretch
from tests.support.chats import call, reasoning

pytestmark = pytest.mark.anyio


def by(bureau: Bureau) -> list[str]:
    """Who asked, request by request."""
    return [body["by"] for body in bureau.asked]


async def test_the_live_request_is_asked_with_the_instruction_behind_it() -> None:
    """With its marks, so that its cached beginning is found; the bill and the summary's size come back."""
    bureau, part = Bureau(GOOD), stretch()
    request = live(part)
    written = await scribe(bureau).write(part, request)
    (asked,) = bureau.asked
    assert (asked["by"], asked["marks"]) == ("live", request.marks)
    assert tuple(asked["input"][:-1]) == request.items
    assert "Question 0." in asked["input"][-1]["content"][0]["text"]
    assert written.summary is not None
    assert written.summary.told.key_facts == ("one fact",)
    (attempt,) = written.attempts
    assert (attempt.failure, attempt.usage is not None, written.tokens > 0) == ("", True, True)


@pytest.mark.parametrize(
    ("request_of", "options"),
    [
        (lambda part: None, {}),
        (live, {"rides": False}),
        (lambda part: live(stretch(start=4)), {}),
        (lambda part: live(part, tokens=79_990), {}),
        (lambda part: live(part, tokens=75_000), {"reasons": True}),
    ],
    ids=["cold", "does not pay", "not shown there", "no room for the answer", "no room for thinking"],
)
async def test_otherwise_it_has_a_request_of_its_own(request_of: Any, options: dict[str, Any]) -> None:
    """The transcript alone, as data behind an instruction."""
    bureau, part = Bureau(GOOD), stretch()
    written = await scribe(bureau, **options).write(part, request_of(part))
    (asked,) = bureau.asked
    assert (asked["by"], asked["marks"], [item["role"] for item in asked["input"]]) == (
        "own",
        None,
        ["system", "user"],
    )
    assert written.summary is not None


async def test_what_fails_in_the_live_request_is_asked_once_more_by_itself() -> None:
    """Both attempts are told, the failed one with its reason and its bill."""
    bureau, part = Bureau("no JSON", GOOD), stretch()
    written = await scribe(bureau).write(part, live(part))
    assert by(bureau) == ["live", "own"]
    assert [attempt.failure for attempt in written.attempts] == ["malformed", ""]
    assert [attempt.usage.cost for attempt in written.attempts if attempt.usage] == [COST, COST]
    assert written.summary is not None


@pytest.mark.parametrize(
    ("reply", "failure"),
    [
        ("no JSON", "malformed"),
        (" ", "empty"),
        (response(reasoning()), "reasoning only"),
        (response(call("c")), "calls a tool"),
        (
            {**response(), "status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
            "cut off",
        ),
        ({**response(), "status": "failed", "error": {"code": "x", "message": "boom"}}, "pipe error"),
        (ProviderUnavailable("away"), "provider unavailable"),
        (None, "timed out"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_what_is_no_summary_is_tried_twice(reply: Reply, failure: str) -> None:
    """And then given up, with the reason of each."""
    bureau = Bureau(reply)
    written = await scribe(bureau, seconds=0.1).write(stretch(), None)
    assert (len(bureau.asked), written.summary) == (2, None)
    assert [attempt.failure for attempt in written.attempts] == [failure] * 2


@pytest.mark.parametrize("error", [PaymentRequired("pay"), RateLimited("wait")], ids=str)
async def test_what_would_fail_again_is_tried_once(error: PipeError) -> None:
    """Money and limits do not come back within a second."""
    bureau = Bureau(error, GOOD)
    written = await scribe(bureau).write(stretch(), None)
    assert (len(bureau.asked), len(written.attempts), written.summary) == (1, 1, None)


async def test_a_small_window_is_asked_in_parts() -> None:
    """Each part is told by itself; together they are one summary."""
    bureau = Bureau(GOOD)
    written = await scribe(bureau, own_window=8_000).write(stretch(8, characters=8_000), None)
    assert len(bureau.asked) > 1
    told = [body["input"][1]["content"][0]["text"] for body in bureau.asked]
    assert [sum(f"Question {at}." in text for text in told) for at in range(8)] == [1] * 8
    assert written.summary is not None
    assert written.summary.told.summary_text.count("They talked.") == len(bureau.asked)


async def test_a_part_that_fails_ends_the_attempt() -> None:
    """The next attempt begins with the first part."""
    bureau = Bureau(GOOD, "no JSON", GOOD)
    written = await scribe(bureau, own_window=8_000).write(stretch(8, characters=8_000), None)
    parts = len(bureau.asked) - 2
    assert [attempt.failure for attempt in written.attempts] == ["", "malformed", *[""] * parts]
    assert written.summary is not None


async def test_a_part_may_not_be_told_at_more_length_than_itself() -> None:
    """Although all parts together are longer."""
    told = json.dumps({**TOLD, "summary_text": "word " * 4_000})
    bureau = Bureau(told)
    written = await scribe(bureau, own_window=8_000).write(stretch(16, characters=8_000), None)
    assert [attempt.failure for attempt in written.attempts] == ["longer than its source"] * 2


async def test_the_time_limit_is_for_all_parts_of_an_attempt() -> None:
    """Or a claim would end before the work does."""
    bureau = Bureau(GOOD)
    written = await scribe(bureau, own_window=8_000, seconds=0.015).write(stretch(16, characters=8_000), None)
    assert written.summary is None
    assert [attempt.failure for attempt in written.attempts].count("timed out") == 2


async def test_who_thinks_may_say_more() -> None:
    """The limit holds for thinking and answer together."""
    limits = []
    for reasons in (False, True):
        bureau = Bureau(GOOD)
        await scribe(bureau, reasons=reasons).write(stretch(), None)
        limits += [body["limit"] for body in bureau.asked]
    assert limits[1] - limits[0] == THINKING_TOKENS


async def test_what_states_figures_of_nobody_alone_is_tried_twice() -> None:
    """It is no summary, and billed all the same."""
    lie = json.dumps({**TOLD, "summary_text": "It took 7341 ms.", "key_facts": ["It cost $9,120.55."]})
    bureau = Bureau(lie, GOOD)
    part = stretch()
    written = await scribe(bureau).write(part, live(part))
    assert by(bureau) == ["live", "own"]
    assert [(attempt.failure, attempt.usage and attempt.usage.cost) for attempt in written.attempts] == [
        ("not founded in its source", COST),
        ("", COST),
    ]
    assert written.summary is not None
    again = await scribe(Bureau(lie)).write(part, live(part))
    assert (again.summary, [attempt.failure for attempt in again.attempts]) == (
        None,
        ["not founded in its source"] * 2,
    )
