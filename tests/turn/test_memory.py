"""What a worker remembers of the requests that it has sent, and what it logs for the administrator."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest

from open_webui_openrouter_pipe.money.prefix import Digests, FoundBreak, LastRequest, find_break
from open_webui_openrouter_pipe.money.prices import CacheRule, Prices
from open_webui_openrouter_pipe.responses.effects import Usage
from open_webui_openrouter_pipe.turn.memory import LOG_SECONDS, MOST_CHATS, MOST_REQUESTS, Memory, SeenOnce

RULE, PRICES = CacheRule("automatic"), Prices(input=1e-6, read=0.1e-6)
PROMPT = FoundBreak("instructions", "prompt", (), 10_000, 0.03)
SIZE = 10_240


def request(*items: int, answer: str = "1", tools: tuple[int, ...] = ()) -> Digests:
    """A request of instructions, and of messages of users."""
    return Digests(
        settings={},
        tools=tools,
        items=items,
        leading=min(1, len(items) - 1),
        completed=len(items) - 1,
        openings=[items[-1:]],
        lasting=len(items),
        tokens=[SIZE * count for count in range(1, len(items) + 2)],
        breaks=(),
        own_breaks=0,
        unchanged=len(items),
        omitted_tools=frozenset(),
        answer=answer,
        turns=[max(1, number) for number in range(len(items))],
    )


class Worker:
    """A worker's memory, and the time at which it is asked."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.memory = Memory(lambda: self.seconds)

    def looked(self, now: Digests, chat: str = "chat", preset: str = "the-preset") -> FoundBreak | None:
        """What is found, a minute after the last request."""
        last = self.memory.last_requests("ada", chat, "a/model")
        self.seconds += 60
        return find_break([each for each in last if each.preset == preset], now, now_seconds=self.seconds)

    def close(
        self,
        sent: Digests,
        found: FoundBreak | None = None,
        expected: int = 0,
        cached: int | None = None,
        chat: str = "chat",
        **changes: Any,
    ) -> None:
        """A request was answered; None is cached where it was read more than once."""
        usage, once = Usage(SIZE, cached or 0), cached is not None
        last = LastRequest(sent, "a/model", "the-preset", PRICES, RULE, usage, once, self.seconds)
        self.memory.keep("ada", chat, replace(last, **changes), found, expected)


def test_only_what_was_sent_is_compared() -> None:
    """By user, chat, model and preset; the first request, and one of another of these, is compared with nothing."""
    worker = Worker()
    assert worker.looked(request(1, 2)) is None
    worker.close(request(1, 2))
    assert worker.looked(request(1, 2, 3, answer="2")) is None
    lost_cost = 3 * SIZE * 1e-6 - SIZE * 1e-6 - 2 * SIZE * 0.1e-6
    expected = FoundBreak("instructions", "prompt", (), 2 * SIZE, round(lost_cost, 9))
    now = request(9, 2, 3, answer="2")
    found = worker.looked(now)
    assert found
    assert replace(found, lost_cost=round(found.lost_cost, 9)) == expected
    assert [worker.looked(now, preset="other"), worker.looked(now, chat="other")] == [None, None]
    others = ("eve", "chat"), ("ada", "chat", "b/model"), ("ada", "")
    assert not any(worker.memory.last_requests(*of) for of in others)


def test_some_answers_of_a_chat_are_remembered() -> None:
    """The last request of each: two answers beside each other both continue their own."""
    worker = Worker()
    worker.close(request(1, 2))
    for answer, second in (("2", 3), ("3", 4)):
        worker.close(request(1, 2, second, 5, answer=answer))
    assert worker.looked(request(1, 2, 3, 5, 6, answer="4")) is None
    assert worker.looked(request(1, 2, 4, 5, 6, answer="5")) is None
    for number in range(MOST_REQUESTS):
        worker.close(request(1, 7, answer=f"6{number}"))
    found = worker.looked(request(1, 2, 3, 5, 6, answer="7"))
    assert found
    assert found.position == "turn 1"


def test_a_chat_stays_in_the_providers_cache_as_long_as_its_rule_says() -> None:
    """Five minutes, or an hour; for the model that it was sent to, and never for a chat without an id."""
    worker = Worker()
    worker.close(request(1, 2))
    worker.close(request(1, 2), model="b/model", rule=replace(RULE, is_kept_long=True))
    worker.close(request(1, 2), chat="")
    asked = ("chat", "a/model"), ("chat", "b/model"), ("chat", "c"), ("", "a/model")
    known = []
    for worker.seconds in (299.0, 300.0, 3600.0):
        known.append([worker.memory.may_be_cached("ada", *each) for each in asked])
    assert known == [[True, True, False, False], [False, True, False, False], [False] * 4]


def test_a_cause_is_logged_once_a_day(caplog: pytest.LogCaptureFixture) -> None:
    """At once, and then once a day what has come together since; each by itself, and not what costs nothing."""
    worker = Worker()
    edited = replace(PROMPT, cause="edit")
    parameters = FoundBreak("settings", "settings", ("reasoning", "tool_choice"), 5, 0.1)
    free = replace(PROMPT, cause="tools", lost_tokens=0, lost_cost=0.0)
    for worker.seconds, found in (
        *((0.0, PROMPT), (5.0, PROMPT), (LOG_SECONDS - 1, PROMPT), (6.0, edited)),
        *((6.0, free), (7.0, parameters), (LOG_SECONDS, PROMPT)),
    ):
        worker.close(request(1), found)
    first, _, named, last = caplog.messages
    begins = "A request to 'the-preset' begins otherwise than the last one of its chat (instructions)"
    assert first.startswith(begins)
    assert "10000 tokens were not read" in first
    assert first.endswith("Cause 'prompt'; 1 such requests since this was last said, about $0.03.")
    assert "(settings: reasoning, tool_choice)" in named
    assert last.endswith("3 such requests since this was last said, about $0.09.")
    assert {record.levelno for record in caplog.records} == {logging.WARNING}


def test_a_cache_that_is_missed_three_times_in_a_row_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Once a day for a model; one that is hit in between, and what cannot be judged, begins anew or counts nothing."""
    worker = Worker()
    for cached in (0, 3999, 4000, 0, None, 100):
        worker.close(request(1), expected=8000, cached=cached)
    worker.close(request(1), cached=0)
    assert caplog.messages == []
    worker.close(request(1), expected=8000, cached=3999)
    (line,) = caplog.messages
    assert line.startswith("The last 3 requests to 'a/model' began as those before them")
    assert "3999 tokens of 8000" in line
    for seconds, lines in ((LOG_SECONDS - 1, 1), (LOG_SECONDS, 2)):
        worker.seconds = seconds
        worker.close(request(1), expected=8000, cached=0)
        assert len(caplog.messages) == lines
    worker.close(request(1), expected=8000, cached=0, model="b/model")
    assert len(caplog.messages) == 2


def test_the_memory_is_bounded() -> None:
    """However many chats there are, and however many answers each of them gets."""
    worker = Worker()
    for number in range(3000):
        worker.close(request(1, answer=str(number)), chat=str(number))
        worker.close(request(1, answer=str(number)))
    assert sum(bool(worker.memory.last_requests("ada", str(number))) for number in range(3000)) <= MOST_CHATS
    assert len(worker.memory.last_requests("ada", "chat")) == MOST_REQUESTS


def test_names_are_remembered_for_each_user() -> None:
    """What one user has read, another has not; one that is forgotten is new again; old ones make room."""
    seen = SeenOnce(limit=4)
    assert [seen.add(user, ["outage"]) for user in ("a", "b", "a")] == [["outage"], ["outage"], []]
    seen.add("a", ["one", "two"])
    seen.forget("a", "one")
    assert [seen.contains("a", name) for name in ("one", "two", "three")] == [False, True, False]
    assert seen.add("a", ["one", "two"]) == ["one"]
    names = [*map(str, range(10))]
    for name in names:
        seen.add("a", [name])
    known = [seen.contains("a", name) for name in names]
    assert (known[0], known[-1], sum(known) <= 4) == (False, True, True)
