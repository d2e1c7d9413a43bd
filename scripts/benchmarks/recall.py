"""How much of what a long chat said still stands in a request that asks for it.

Three chats of 250,000 to 272,000 tokens (see `_recall_chats`), each with eighty facts. Each fact is asked for in other
words by the chat's last message, in five windows, with the settings as they are by default; what counts is whether its
exact words stand in the request, or in what the recall tool then answers: to the question as it stands, or to a query
that a language model made of it. `shares_no_word` are the facts whose question shares no content word with the passage.
`held_out` is every second fact: what is tuned is tuned for the others. Small talk ends each chat ten times more:
nothing should be recalled for it. The summaries are the pipe's own, with a stand-in for the model's part: sentences of
the segment, taken evenly from it, whatever they say.
"""

from __future__ import annotations

import json
import re
import statistics
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

from open_webui_openrouter_pipe.conversation.budget import ContextSettings
from open_webui_openrouter_pipe.conversation.conversation import ContentCache
from open_webui_openrouter_pipe.conversation.tokens import TokenCounter
from open_webui_openrouter_pipe.history.build import Options, build_input
from open_webui_openrouter_pipe.history.reading import read_history
from open_webui_openrouter_pipe.planning.plan import Plan
from open_webui_openrouter_pipe.planning.planner import AvailableSummaries, ModelTerms, PlanCaches, plan
from open_webui_openrouter_pipe.planning.recall import (
    NOTHING_RECALLED,
    Recalled,
    max_recalled_tokens,
    question_of,
    quote_passages,
)
from open_webui_openrouter_pipe.recall.search import texts_of_turns
from open_webui_openrouter_pipe.recall.tool import LookUp
from open_webui_openrouter_pipe.responses.items import is_message
from open_webui_openrouter_pipe.summaries.completion import complete_summary
from open_webui_openrouter_pipe.summaries.prompt import SummaryAssignment
from open_webui_openrouter_pipe.summaries.summary import Entry, ModelSummary, Summary
from scripts.benchmarks._chats import text_of
from scripts.benchmarks._recall_chats import SMALL_TALK, STYLES, Fact, RecallChat, write_chat

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from open_webui_openrouter_pipe.conversation.conversation import Conversation
    from open_webui_openrouter_pipe.summaries.segments import Segment, SummaryTarget

WORKERS = 2
RECALLING = replace(ContextSettings(), recall=True)
WINDOWS_TOKENS = (200_000, 128_000, 64_000, 32_000, 16_000)
MODEL_SHARE = 0.5
"""Of a summary's size: what the model itself writes of it; the pipe adds the rest."""
SENTENCE_CHARACTERS = (30, 300)

_SENTENCE = re.compile(r"(?<=[.!?।])\s+|(?<=[。\uff01\uff1f])|\n")


@dataclass(frozen=True, slots=True)
class Held:
    """What of the facts one way of asking holds, and what it adds to the request."""

    facts: tuple[Fact, ...]
    found: tuple[bool, ...]
    added_tokens: tuple[int, ...]

    def shares(self, name: str) -> dict[str, float]:
        """The shares under a name: of all, of those that are held out, and of those that share no word."""
        both = list(zip(self.facts, self.found, strict=True))
        chosen = {
            name: self.found,
            f"{name}_held_out": [found for fact, found in both if fact.is_held_out],
            f"{name}_shares_no_word": [found for fact, found in both if not fact.shares_words],
        }
        return {each: round(statistics.mean(found), 3) for each, found in chosen.items()}

    def missed(self) -> Iterator[Fact]:
        """Yield the facts that are not held."""
        return (fact for fact, found in zip(self.facts, self.found, strict=True) if not found)


def run(windows_tokens: Sequence[int] = WINDOWS_TOKENS) -> dict[str, Any]:
    """Measure all chats in all windows; shares are of one, sizes are tokens."""
    with ProcessPoolExecutor(WORKERS, get_context("spawn")) as pool:
        jobs = {
            name: {f"{window // 1000}k": pool.submit(measure, name, window) for window in windows_tokens}
            for name in STYLES
        }
        return {name: {each: job.result() for each, job in of_chat.items()} for name, of_chat in jobs.items()}


def measure(name: str, window_tokens: int) -> dict[str, Any]:
    """Ask a chat for every fact without recall and with it, and say every word of small talk."""
    stage = Stage(write_chat(name), window_tokens)
    without, questions = stage.held_by(stage.plan(recall=False)), [fact.question for fact in stage.chat.facts]
    planned = stage.plan(recall=True)
    held = stage.held_by(planned, stage.recalled(planned, questions))
    talk = zip(SMALL_TALK, stage.recalled(planned, SMALL_TALK), strict=True)
    return {
        **without.shares("without"),
        **held.shares("with"),
        **stage.looked_up(planned, held, questions).shares("question_looked_up"),
        **stage.looked_up(planned, held, [fact.query for fact in held.facts]).shares("after_one_call"),
        "added_tokens_mean": round(statistics.mean(held.added_tokens)),
        "added_tokens_most": max(held.added_tokens),
        "small_talk_with_excerpts": [text for text, recalled in talk if recalled.tokens],
        "missed": [fact.question for fact in held.missed()],
    }


class Stage:
    """A chat before a window, and the summaries that were written for it.

    The last message changes nothing before it: one request stands for all that only end in other ones, and recall is
    asked what it adds.
    """

    def __init__(self, chat: RecallChat, window_tokens: int) -> None:
        self.chat = chat
        self._model = ModelTerms("vendor/model", window_tokens)
        self._counter, self._caches = TokenCounter(ContentCache(1_000_000)), PlanCaches()
        self._summaries: dict[Segment, Summary] = {}
        self._conversation = self.conversation(SMALL_TALK[0])

    def held_by(self, planned: Plan, recalled: Sequence[Recalled] = ()) -> Held:
        """What requests hold that each ask for one fact, with what is recalled for each."""
        said, facts = request_text(planned), self.chat.facts
        added = recalled or [NOTHING_RECALLED] * len(facts)
        found = tuple(
            fact.words in said or any(fact.words in text_of(entry.item) for entry in each.entries)
            for fact, each in zip(facts, added, strict=True)
        )
        return Held(facts, found, tuple(each.tokens for each in added))

    def recalled(self, planned: Plan, texts: Sequence[str]) -> list[Recalled]:
        """What a request quotes when its last message is each of these."""
        *earlier, _ = self._conversation.turns
        removed = [text for text in texts_of_turns(earlier) if text.digest not in _digests(planned)]

        def recalled_for(text: str) -> Recalled:
            asked = build_input(
                read_history([{"role": "user", "content": text}]), {}, Options()
            ).conversation()
            return quote_passages(
                removed,
                planned.entries[: planned.marks.completed],
                question_of([*earlier, *asked.turns]),
                counter=self._counter,
                index=self._caches.passages,
                max_tokens=max_recalled_tokens(RECALLING, planned.budget.input_tokens),
            )

        return list(map(recalled_for, texts))

    def looked_up(self, planned: Plan, held: Held, queries: Sequence[str]) -> Held:
        """What is held when the model looks queries up with the recall tool, and reads the first page."""
        look_up = LookUp(self._conversation, _digests(planned), self._counter.text, self._caches.passages)
        texts = [look_up.answer(json.dumps({"query": query})) for query in queries]
        found = [
            known or fact.words in text
            for fact, known, text in zip(self.chat.facts, held.found, texts, strict=True)
        ]
        return replace(held, found=tuple(found))

    def plan(self, text: str = SMALL_TALK[0], *, recall: bool) -> Plan:
        """The plan of the request whose last message is this text, with all summaries that it requires."""
        conversation = self._conversation if text == SMALL_TALK[0] else self.conversation(text)
        while True:
            planned = plan(
                conversation,
                replace(RECALLING, recall=recall),
                model=self._model,
                counter=self._counter,
                caches=self._caches,
                summaries=AvailableSummaries(self._summaries, "request"),
            )
            for target in planned.required_summaries:
                self._summaries[target.segment] = write_summary(target, self._counter)
            if not planned.required_summaries:
                return planned

    def conversation(self, text: str) -> Conversation:
        """The chat with this last message, as the pipe reads it."""
        built = build_input(read_history(self.chat.ending_with(text)), {}, Options())
        return replace(built.conversation(), tools=self.chat.tools)


def _digests(planned: Plan) -> set[bytes]:
    """What a request holds in its own words."""
    return {entry.digest for entry in planned.entries}


def request_text(planned: Plan) -> str:
    """All text that a request holds."""
    return "\n".join(map(text_of, planned.items))


def write_summary(target: SummaryTarget, counter: TokenCounter) -> Summary:
    """The pipe's summary of a segment, with sentences taken evenly from it in place of a model's words."""
    sentences = [
        Entry(sentence, number)
        for number, turn in enumerate(target.turns, target.first_turn)
        for entry in turn.entries
        if is_message(entry.item)
        for sentence in _SENTENCE.split(text_of(entry.item))
        if SENTENCE_CHARACTERS[0] <= len(sentence) <= SENTENCE_CHARACTERS[1]
    ]
    tokens = sum(counter.text(entry.text) + 4 for entry in sentences)
    step = max(1, -(-tokens // max(1, round(MODEL_SHARE * target.max_tokens))))
    model = ModelSummary(f"{len(target.turns)} turns of the chat.", tuple(sentences[::step]))
    assignment = SummaryAssignment(target.turns, target.first_turn)
    return complete_summary(model, assignment, count=counter.text, max_tokens=target.max_tokens)


BENCHMARKS = {"recall": run}
