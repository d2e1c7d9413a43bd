"""The summary writer: how a summary is asked for, how often, and what becomes of the answers."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe.errors import PaymentRequired, PipeError, ProviderUnavailable, RateLimited
from open_webui_openrouter_pipe.summaries.summary import EarlierState, Entry
from open_webui_openrouter_pipe.turn.summaries import THINKING_TOKENS, SummaryModel
from tests.support.chats import call, reasoning
from tests.turn.summary_fakes import (
    COST,
    FIELDS,
    GOOD,
    FakeProvider,
    FakeRequests,
    Reply,
    cached_prefix,
    count_tokens,
    response,
    summary_writer,
    target,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from open_webui_openrouter_pipe.ports import RequestBody

pytestmark = [pytest.mark.anyio, pytest.mark.skips_time]

BAKING = (
    "Anna and her grandmother baked almond cookies with cinnamon, honey and roasted walnuts for Christmas "
    "while the children decorated the garden with lanterns, candles and paper stars, and afterwards "
    "everybody listened to ancient records beside the fireplace until midnight, drinking hot chocolate."
)
"""A summary of another conversation."""


def by(provider: FakeProvider) -> list[str]:
    """Return which kind each request is."""
    return [body["by"] for body in provider.requests]


async def test_the_suffix_follows_the_cached_request() -> None:
    """It keeps its marks, so that its cached beginning is found; the bill and the size are returned."""
    provider, part = FakeProvider(GOOD), target()
    request = cached_prefix(part)
    attempts = await summary_writer(provider).write(part, request, time_limit_seconds=5.0)
    (asked,) = provider.requests
    assert (asked["by"], asked["marks"]) == ("suffix", request.marks)
    assert tuple(asked["input"][:-1]) == request.items
    assert "Question 0." in asked["input"][-1]["content"][0]["text"]
    assert attempts[-1].summary is not None
    assert attempts[-1].summary.by_model.key_facts == (Entry("one fact"),)
    (attempt,) = attempts
    assert (attempt.failure, attempt.usage.cost, attempt.tokens > 0) == (None, COST, True)


@pytest.mark.parametrize(
    ("request_of", "options"),
    [
        (lambda part: None, {}),
        (cached_prefix, {"uses_suffix": False}),
        (lambda part: cached_prefix(target(start=4)), {}),
        (lambda part: cached_prefix(part, tokens=79_990), {}),
        (lambda part: cached_prefix(part, tokens=75_000), {"reasons": True}),
    ],
    ids=["not cached", "does not pay", "not in the prefix", "no room for the answer", "no room for thinking"],
)
async def test_otherwise_the_request_is_standalone(request_of: Any, options: dict[str, Any]) -> None:
    """It has the transcript alone, as data behind an instruction."""
    provider, part = FakeProvider(GOOD), target()
    attempts = await summary_writer(provider, **options).write(part, request_of(part), time_limit_seconds=5.0)
    (asked,) = provider.requests
    assert (asked["by"], asked["marks"], [item["role"] for item in asked["input"]]) == (
        "standalone",
        None,
        ["system", "user"],
    )
    assert attempts[-1].summary is not None


@pytest.mark.parametrize("uses_suffix", [True, False])
async def test_what_earlier_parts_leave_open_is_shown(*, uses_suffix: bool) -> None:
    """In both kinds of requests, with the turns' own numbers; the answer may resolve it."""
    reply = json.dumps({**FIELDS, "resolved": [1], "decisions": [{"turn": 6, "text": "Go."}]})
    provider, part = FakeProvider(reply), replace(target(start=4), first_turn=5)
    earlier = EarlierState(open_points=(Entry("Why so late?", 2),))
    writer = summary_writer(provider, uses_suffix=uses_suffix)
    attempts = await writer.write(part, cached_prefix(part), earlier, time_limit_seconds=5.0)
    (asked,) = provider.requests
    text = asked["input"][-1]["content"][0]["text"]
    assert "1. Why so late?" in text
    assert ("- turn 5: Question 4." if uses_suffix else '<user turn="5">\nQuestion 4.') in text
    assert attempts[-1].summary is not None
    assert (attempts[-1].summary.resolved, attempts[-1].summary.first_turn) == (("Why so late?",), 5)
    assert attempts[-1].summary.by_model.decisions == (Entry("Go.", 6),)


async def test_a_failed_suffix_is_followed_by_a_standalone_request() -> None:
    """Both attempts are returned, the failed one with its reason and its bill."""
    provider, part = FakeProvider("no JSON", GOOD), target()
    attempts = await summary_writer(provider).write(part, cached_prefix(part), time_limit_seconds=5.0)
    assert by(provider) == ["suffix", "standalone"]
    assert [attempt.failure for attempt in attempts] == ["malformed", None]
    assert [attempt.usage.cost for attempt in attempts] == [COST, COST]
    assert attempts[-1].summary is not None


@pytest.mark.parametrize(
    ("reply", "failure"),
    [
        ("no JSON", "malformed"),
        (" ", "empty"),
        (response(reasoning()), "reasoning_only"),
        (response(call("c")), "calls_a_tool"),
        (
            {**response(), "status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
            "cut_off",
        ),
        ({**response(), "status": "failed", "error": {"code": "x", "message": "boom"}}, "pipe error"),
        (ProviderUnavailable("away"), "provider unavailable"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_an_answer_that_is_not_a_summary_is_asked_for_twice(reply: Reply, failure: str) -> None:
    """After that it has failed, with the reason of each attempt."""
    provider = FakeProvider(reply)
    attempts = await summary_writer(provider).write(target(), None, time_limit_seconds=5.0)
    assert (len(provider.requests), attempts[-1].summary) == (2, None)
    assert [attempt.detail or attempt.failure for attempt in attempts] == [failure] * 2
    assert {attempt.failure for attempt in attempts} == {"provider" if " " in failure else failure}


@pytest.mark.parametrize("error", [PaymentRequired("pay"), RateLimited("wait")], ids=str)
async def test_an_error_that_would_occur_again_ends_the_attempts(error: PipeError) -> None:
    """Money and limits do not come back within a second."""
    provider = FakeProvider(error, GOOD)
    attempts = await summary_writer(provider).write(target(), None, time_limit_seconds=5.0)
    assert (len(provider.requests), len(attempts), attempts[-1].summary) == (1, 1, None)


async def test_a_transcript_is_truncated_to_a_small_window() -> None:
    """Its beginning and its end are summarized in one request."""
    provider = FakeProvider(GOOD)
    attempts = await summary_writer(provider, standalone_window=8_000).write(
        target(8, characters=8_000), None, time_limit_seconds=5.0
    )
    (request,) = provider.requests
    text = request["input"][1]["content"][0]["text"]
    assert ("Question 0." in text, "Question 4." in text) == (True, False)
    assert text.rstrip().endswith("Now answer with the JSON object.")
    assert "</assistant>\n</conversation>" in text
    assert count_tokens(text) < 8_000
    assert attempts[-1].summary is not None


async def test_an_answer_that_takes_too_long_is_not_asked_for_again() -> None:
    """Whoever waits has waited long enough."""
    provider = FakeProvider(None, GOOD)
    attempts = await summary_writer(provider).write(target(), None, time_limit_seconds=0.05)
    assert ([attempt.failure for attempt in attempts], attempts[-1].summary) == (["timed_out"], None)


async def test_both_attempts_share_the_time_limit() -> None:
    """The second one has what the first has left of it."""
    limit_seconds, first_seconds = 4.0, 2.0
    took_seconds: list[float] = []

    class SlowProvider(FakeProvider):
        async def create(self, body: RequestBody) -> Mapping[str, Any]:
            start = asyncio.get_running_loop().time()
            try:
                if not took_seconds:
                    await asyncio.sleep(first_seconds)
                return await super().create(body)
            finally:
                took_seconds.append(asyncio.get_running_loop().time() - start)

    provider = SlowProvider("no JSON", None)
    attempts = await summary_writer(provider).write(target(), None, time_limit_seconds=limit_seconds)
    assert [attempt.failure for attempt in attempts] == ["malformed", "timed_out"]
    assert sum(took_seconds) == pytest.approx(limit_seconds)


@pytest.mark.parametrize(
    ("text", "failure"),
    [
        ("...", "empty"),
        ('{"summary_text": "They talked."}', "malformed"),
        ("what happened, in the order of events", "repeats_its_prompt"),
    ],
)
async def test_an_answer_without_content_is_asked_for_twice(text: str, failure: str) -> None:
    """Its form is right, and it is billed; what remains is the reason."""
    empty = json.dumps({**FIELDS, "summary_text": text, "key_facts": []})
    provider, part = FakeProvider(empty, GOOD), target()
    attempts = await summary_writer(provider).write(part, None, time_limit_seconds=5.0)
    assert [attempt.failure for attempt in attempts] == [failure, None]
    assert attempts[-1].summary is not None


async def test_a_summary_as_long_as_its_source_is_asked_for_twice() -> None:
    """In the form in which it would be sent: it would make the request no smaller."""
    (whole,) = await summary_writer(FakeProvider(GOOD)).write(target(), None, time_limit_seconds=5.0)
    tokens = whole.tokens
    results = [
        await summary_writer(FakeProvider(GOOD)).write(
            replace(target(), source_tokens=source_tokens), None, time_limit_seconds=5.0
        )
        for source_tokens in (tokens, tokens + 1)
    ]
    assert [[attempt.failure for attempt in result] for result in results] == [
        ["longer_than_its_source"] * 2,
        [None],
    ]


@pytest.mark.parametrize(
    ("window_tokens", "summary_tokens", "answer", "with_thinking"),
    [(100_000, 100, 1_024, 1_024 + 8_192), (100_000, 600, 1_200, 1_200 + 8_192), (16_000, 600, 1_200, 3_200)],
)
def test_the_length_of_an_answer_follows_from_the_summarys(
    window_tokens: int, summary_tokens: int, answer: int, with_thinking: int
) -> None:
    """Twice its length and no less than 1,024 tokens; thinking is at most an eighth of the window."""
    models = [SummaryModel("m", FakeRequests("m"), window_tokens, reasons) for reasons in (False, True)]
    assert [model.max_output_tokens(summary_tokens) for model in models] == [answer, with_thinking]


async def test_a_model_that_reasons_may_answer_at_more_length() -> None:
    """The limit holds for thinking and answer together."""
    limits = []
    for reasons in (False, True):
        provider = FakeProvider(GOOD)
        await summary_writer(provider, reasons=reasons).write(target(), None, time_limit_seconds=5.0)
        limits += [body["limit"] for body in provider.requests]
    assert limits[1] - limits[0] == THINKING_TOKENS
