"""What a worker remembers of the requests that it has sent, and what it logs for the administrator."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest

from open_webui_openrouter_pipe.money.audit import PrefixNote
from open_webui_openrouter_pipe.money.prefix import FoundBreak, RequestDigests
from open_webui_openrouter_pipe.money.prices import CacheRule, Prices
from open_webui_openrouter_pipe.turn.memory import (
    LOG_SECONDS,
    MOST_CHATS,
    MOST_REQUESTS,
    PrefixWatch,
    Watched,
)

WATCHED = Watched(b"ada\nchat", "a/model", "the-preset")
RULE, PRICES = CacheRule("automatic"), Prices(input=1e-6, read=0.1e-6)
PROMPT = FoundBreak("instructions", "prompt", (), 10_000, 0.03)
SIZE = 10_240


def request(*items: int, answer: str = "1", tools: tuple[int, ...] = ()) -> RequestDigests:
    """A request of instructions, and of messages of users."""
    return RequestDigests(
        settings={},
        tools=tools,
        items=items,
        kinds="s" + "u" * (len(items) - 1),
        completed=len(items) - 1,
        openings=[items[-1:]],
        tokens=[SIZE * count for count in range(1, len(items) + 2)],
        breaks=(),
        own_breaks=0,
        unchanged=len(items),
        omitted_tools=frozenset(),
        answer=answer,
        turns=[max(1, number) for number in range(len(items))],
    )


def looked(watch: PrefixWatch, now: RequestDigests, watched: Watched = WATCHED) -> FoundBreak | None:
    """What is found, a minute after the last request."""
    return watch.compare(watched, now, RULE, PRICES, now_seconds=60)


def close(watch: PrefixWatch, sent: RequestDigests, prefix: PrefixNote | None = None, **given: Any) -> None:
    """A request was answered."""
    cached_tokens, now_seconds = given.get("cached_tokens"), given.get("now_seconds", 0.0)
    watched = given.get("watched", WATCHED)
    watch.close(watched, sent, prefix or PrefixNote(), cached_tokens, now_seconds=now_seconds)


def test_only_what_was_sent_is_compared() -> None:
    """By user, chat, model and preset; the first request, and one of another of these, is compared with nothing."""
    watch = PrefixWatch()
    assert looked(watch, request(1, 2)) is None
    assert looked(watch, request(9, 2)) is None  # nothing was answered yet
    close(watch, request(1, 2))
    assert looked(watch, request(1, 2, 3, answer="2")) is None
    lost_cost = 3 * SIZE * 1e-6 - SIZE * 1e-6 - 2 * SIZE * 0.1e-6
    expected = FoundBreak("instructions", "prompt", (), 2 * SIZE, round(lost_cost, 9))
    found = looked(watch, request(9, 2, 3, answer="2"))
    assert found is not None
    assert replace(found, lost_cost=round(found.lost_cost, 9)) == expected
    others = (replace(WATCHED, preset="other"), replace(WATCHED, chat=b"eve\nchat"))
    assert [looked(watch, request(9, 2, 3, answer="2"), other) for other in others] == [None, None]


def test_some_answers_of_a_chat_are_remembered() -> None:
    """The last request of each: two answers beside each other both continue their own."""
    watch = PrefixWatch()
    close(watch, request(1, 2))
    for answer, second in (("2", 3), ("3", 4)):
        close(watch, request(1, 2, second, 5, answer=answer))
    assert looked(watch, request(1, 2, 3, 5, 6, answer="4")) is None
    assert looked(watch, request(1, 2, 4, 5, 6, answer="5")) is None
    for number in range(MOST_REQUESTS):
        close(watch, request(1, 7, answer=f"6{number}"))
    found = looked(watch, request(1, 2, 3, 5, 6, answer="7"))
    assert found is not None
    assert found.position == "turn 1"


def test_a_cause_is_logged_once_a_day(caplog: pytest.LogCaptureFixture) -> None:
    """At once, and then once a day what has come together since; each cause by itself."""
    watch = PrefixWatch()
    for seconds in (0.0, 5.0, LOG_SECONDS - 1):
        close(watch, request(1), PrefixNote(PROMPT), now_seconds=seconds)
    (line,) = caplog.messages
    assert line.startswith(
        "A request to 'the-preset' begins otherwise than the last one of its chat (instructions)"
    )
    assert "10000 tokens were not read" in line
    assert line.endswith("Cause 'prompt'; 1 such requests since this was last said, about $0.03.")
    edit = replace(PROMPT, cause="edit")
    close(watch, request(1), PrefixNote(edit), now_seconds=6)
    close(watch, request(1), PrefixNote(PROMPT), now_seconds=LOG_SECONDS)
    assert len(caplog.messages) == 3
    assert caplog.messages[-1].endswith("3 such requests since this was last said, about $0.09.")
    assert {record.levelno for record in caplog.records} == {logging.WARNING}


def test_what_costs_nothing_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A change that comes when the cache is cold is in the audit alone."""
    close(PrefixWatch(), request(1), PrefixNote(replace(PROMPT, lost_tokens=0, lost_cost=0.0)))
    assert caplog.messages == []


def test_parameters_are_named(caplog: pytest.LogCaptureFixture) -> None:
    """Those that differ."""
    found = FoundBreak("settings", "settings", ("reasoning", "tool_choice"), 5, 0.1)
    close(PrefixWatch(), request(1), PrefixNote(found))
    assert "(settings: reasoning, tool_choice)" in caplog.messages[0]


def test_a_cache_that_is_missed_three_times_in_a_row_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Once a day for a model; one that is hit in between, and what cannot be judged, begins anew or counts nothing."""
    watch, expected = PrefixWatch(), PrefixNote(expected_cached_tokens=8000)
    for cached in (0, 3999, 4000, 0, None, 100):
        close(watch, request(1), expected, cached_tokens=cached)
    close(watch, request(1), PrefixNote(), cached_tokens=0)
    assert caplog.messages == []
    close(watch, request(1), expected, cached_tokens=3999)
    (line,) = caplog.messages
    assert line.startswith("The last 3 requests to 'a/model' began as those before them")
    assert "3999 tokens of 8000" in line
    close(watch, request(1), expected, cached_tokens=0, now_seconds=LOG_SECONDS - 1)
    assert len(caplog.messages) == 1
    close(watch, request(1), expected, cached_tokens=0, now_seconds=LOG_SECONDS)
    assert len(caplog.messages) == 2
    other = replace(WATCHED, model="b/model")
    close(watch, request(1), expected, cached_tokens=0, watched=other)
    assert len(caplog.messages) == 2


def test_the_memory_is_bounded() -> None:
    """However many chats there are, and however many answers each of them gets."""
    watch = PrefixWatch()
    for number in range(3000):
        close(watch, request(1, answer=str(number)), watched=replace(WATCHED, chat=b"%d" % number))
    assert len(watch._sent) <= MOST_CHATS
