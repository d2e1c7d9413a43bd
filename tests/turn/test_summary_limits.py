"""The limits of summaries that nothing else would miss: each of these fails when its limit moves."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from open_webui_openrouter_pipe.conversation.conversation import build_conversation
from open_webui_openrouter_pipe.ports import RequestOrigin
from open_webui_openrouter_pipe.store.kept import MemorySummaries
from open_webui_openrouter_pipe.summaries.summary import ModelSummary, SummaryRefused, parse_model_summary
from open_webui_openrouter_pipe.turn.summaries import Summarizer, SummarizerState
from tests.support.chats import answer, history, user
from tests.turn.summary_fakes import (
    FIELDS,
    GOOD,
    FakeProvider,
    cached_prefix,
    count_tokens,
    summary_writer,
    target,
    when_needed,
)

if TYPE_CHECKING:
    from open_webui_openrouter_pipe.summaries.segments import Segment

pytestmark = [pytest.mark.anyio, pytest.mark.skips_time]


class NotingSummaries(MemorySummaries):
    """Notes for how long claims are wanted."""

    def __init__(self) -> None:
        super().__init__()
        self.leases_seconds: list[float] = []

    async def claim(self, user_id: str, segment: Segment, *, seconds: float) -> bool:
        """Note and claim."""
        self.leases_seconds.append(seconds)
        return await super().claim(user_id, segment, seconds=seconds)


async def test_a_claim_outlasts_all_attempts() -> None:
    """Which share one time limit, with time to store the summary: else a second worker would pay for the same one."""
    summaries = NotingSummaries()
    summarizer = Summarizer(
        summaries,
        when_needed(summary_writer(FakeProvider(GOOD))),
        SummarizerState(lambda work: work.close(), lambda: 1.0),
        origin=RequestOrigin("ada", "chat", "message", "vendor/chat"),
        time_limit_seconds=60.0,
        record=lambda row: None,
    )
    await summarizer.make([target()], None)
    assert summaries.leases_seconds == [pytest.approx(60.0 + 30.0)]


async def test_turns_that_only_read_like_those_of_the_prefix_are_sent_by_themselves() -> None:
    """The prefix may hold an earlier summary that quotes how they begin; a suffix would name that."""
    part, provider = target(), FakeProvider(GOOD)
    prefix = cached_prefix(part)
    quoted = replace(prefix, items=copy.deepcopy(prefix.items))
    await summary_writer(provider).write(part, quoted, time_limit_seconds=5.0)
    await summary_writer(provider).write(part, prefix, time_limit_seconds=5.0)
    assert [body["by"] for body in provider.requests] == ["standalone", "suffix"]


async def test_a_summary_that_completion_makes_longer_than_its_source_is_refused() -> None:
    """What the model wrote is short; with what is added to it, the turns themselves are shorter."""
    details = " ".join(f"order-{number:05}" for number in range(40))
    chat = history([user(details), answer("Noted.")], [user("Next?"), answer("Done.")])
    turns = build_conversation(chat.items, chat.turn_of_item).turns
    small = replace(target(), turns=turns, source_tokens=60)
    writer = summary_writer(FakeProvider(GOOD))
    attempts = await writer.write(small, None, time_limit_seconds=5.0)
    assert attempts[-1].summary is None
    assert {attempt.failure for attempt in attempts} == {"longer_than_its_source"}
    large = replace(small, source_tokens=900)
    assert (await writer.write(large, None, time_limit_seconds=5.0))[-1].summary is not None


@pytest.mark.parametrize(("echoes", "refused"), [(2, False), (3, True)])
def test_an_answer_may_hold_two_sentences_of_its_instruction(echoes: int, refused: bool) -> None:  # noqa: FBT001
    """A third one says that it repeats its prompt."""
    sentences = [
        f"Sentence number {at} of an instruction that is longer than sixty characters." for at in range(6)
    ]
    reply = json.dumps({**FIELDS, "summary_text": " ".join(["They talked.", *sentences[:echoes]])})

    def parse() -> ModelSummary:
        return parse_model_summary(
            reply, source_tokens=9_000, count=count_tokens, instruction=" ".join(sentences)
        )

    if refused:
        with pytest.raises(SummaryRefused, match="repeats_its_prompt"):
            parse()
    else:
        assert parse().summary_text.startswith("They talked.")
