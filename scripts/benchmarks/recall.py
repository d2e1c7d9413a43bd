"""How much of what a long chat said still stands in a request that asks for it, and how often something is quoted.

`chats`: three chats of 250,000 to 272,000 tokens (see `_recall_chats`), each with eighty facts. Each fact is asked for
in other words by the chat's last message, in five windows, with the settings as they are by default; what counts is
whether its exact words stand in the request, or in what the recall tool then answers: to the question as it stands, or
to a query that a language model made of it. `shares_no_word` are the facts whose question shares no content word with
the passage. `held_out` is every second fact: what is tuned is tuned for the others.

`talks`: chats of two people of 11,000 to 14,000 tokens (see `_talks`) in three languages, in small windows. A question
counts where every message that answers it stands in the request, word for word.

`cost` is what recall adds to what a chat's input costs, as a share: the first turns of the three chats, with messages
of which every tenth, or every one, asks for something that was said more than ten turns before, and the others for
nothing. At each list of prices an ideal cache holds the request before. `beyond` is the same without the quoted tokens,
each written once.

`ordinary` is the share of the 500 messages of `ordinary_turns.txt`, in five languages, for which anything is quoted:
nothing of a chat belongs to them. The summaries are the pipe's own, with a stand-in for the model's part: sentences of
the segment, taken evenly from it, whatever they say.
"""

from __future__ import annotations

import json
import re
import statistics
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import pairwise, takewhile
from multiprocessing import get_context
from operator import eq
from typing import TYPE_CHECKING, Any

from open_webui_openrouter_pipe.conversation.budget import ContextSettings
from open_webui_openrouter_pipe.conversation.conversation import ContentCache, DigestedItem
from open_webui_openrouter_pipe.conversation.tokens import TokenCounter
from open_webui_openrouter_pipe.history.build import Options, build_input
from open_webui_openrouter_pipe.history.reading import read_history
from open_webui_openrouter_pipe.planning.plan import Plan
from open_webui_openrouter_pipe.planning.planner import AvailableSummaries, ModelTerms, PlanCaches, plan
from open_webui_openrouter_pipe.planning.recall import (
    NOTHING_RECALLED,
    Recalled,
    asked_in,
    max_recalled_tokens,
    quote_passages,
)
from open_webui_openrouter_pipe.planning.simulate import CachePrices
from open_webui_openrouter_pipe.recall.search import gather_turns, texts_of_turns
from open_webui_openrouter_pipe.recall.tool import LookUp
from open_webui_openrouter_pipe.recall.words import TermsOfWords
from open_webui_openrouter_pipe.responses.items import is_message
from open_webui_openrouter_pipe.summaries.completion import complete_summary
from open_webui_openrouter_pipe.summaries.summary import Entry, ModelSummary, Summary
from scripts.benchmarks._chats import text_of
from scripts.benchmarks._recall_chats import ORDINARY_TURNS, STYLES, Fact, RecallChat, write_chat
from scripts.benchmarks._talks import Talk, write_talk
from scripts.benchmarks.aims import LISTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from open_webui_openrouter_pipe.conversation.conversation import Conversation
    from open_webui_openrouter_pipe.summaries.segments import Segment, SummaryTarget

WORKERS = 2
RECALLING = replace(ContextSettings(), recall=True)
WINDOWS_TOKENS = (200_000, 128_000, 64_000, 32_000, 16_000)
LANGUAGES, TALKS, TALK_WINDOWS_TOKENS = ("english", "german", "chinese"), 6, (16_384, 8_192)
COST_WINDOWS_TOKENS, COST_TURNS, ASKED_EVERY, TURNS_BEFORE = (32_000, 128_000), 60, (10, 1), 10
MODEL_SHARE = 0.5
"""Of a summary's size: what the model itself writes of it; the pipe adds the rest."""
SENTENCE_CHARACTERS = (30, 300)

_SENTENCE = re.compile(r"(?<=[.!?।])\s+|(?<=[。\uff01\uff1f])|\n")


def run() -> dict[str, Any]:
    """Measure all chats in all windows; shares are of one, sizes are tokens."""
    with ProcessPoolExecutor(WORKERS, get_context("spawn")) as pool:
        chats = [(name, window) for name in STYLES for window in WINDOWS_TOKENS]
        talks = [(name, window) for name in LANGUAGES for window in TALK_WINDOWS_TOKENS]
        costs = [(name, window) for name in STYLES for window in COST_WINDOWS_TOKENS]
        jobs = [
            *(("cost", *each, pool.submit(measure_costs, *each)) for each in costs),
            *(("chats", *each, pool.submit(measure, *each)) for each in chats),
            *(("talks", *each, pool.submit(measure_talks, *each)) for each in talks),
        ]
        found: dict[str, Any] = {"cost": {}, "chats": {}, "talks": {}}
        for kind, name, window, job in jobs:
            found[kind].setdefault(name, {})[f"{window // 1000}k"] = job.result()
        return found


def measure(name: str, window_tokens: int) -> dict[str, Any]:
    """Ask a chat for every fact without recall and with it, and say all that asks for nothing."""
    chat = write_chat(name)
    stage, facts = Stage(chat, window_tokens), chat.facts
    needed, questions = [[fact.words] for fact in facts], [fact.question for fact in facts]
    without, planned = stage.held_by(stage.plan(recall=False), needed), stage.plan(recall=True)
    recalled = stage.recalled(planned, questions)
    held = stage.held_by(planned, needed, recalled)

    def looked_up(queries: Sequence[str]) -> list[bool]:
        found = zip(held, stage.looked_up(planned, queries), facts, strict=True)
        return [known or fact.words in text for known, text, fact in found]

    return {
        **_shares("without", facts, without),
        **_shares("with", facts, held),
        **_shares("question_looked_up", facts, looked_up(questions)),
        **_shares("after_one_call", facts, looked_up([fact.query for fact in facts])),
        "added_tokens_mean": round(statistics.mean(each.tokens for each in recalled)),
        "added_tokens_most": max(each.tokens for each in recalled),
        "ordinary": _share(bool(each.tokens) for each in stage.recalled(planned, ORDINARY_TURNS)),
        "missed": [fact.question for fact, known in zip(facts, held, strict=True) if not known],
    }


def measure_talks(language: str, window_tokens: int) -> dict[str, Any]:
    """Ask several talks every question without recall and with it, and say all that asks for nothing."""
    without, held, ordinary, added = list[bool](), list[bool](), list[bool](), list[int]()
    for number in range(TALKS):
        talk = write_talk(language, number)
        stage, needed = Stage(talk, window_tokens), [talk.lines_of(each) for each in talk.questions]
        without += stage.held_by(stage.plan(recall=False), needed)
        planned = stage.plan(recall=True)
        recalled = stage.recalled(planned, [each.text for each in talk.questions])
        held += stage.held_by(planned, needed, recalled)
        added += [each.tokens for each in recalled]
        ordinary += [bool(each.tokens) for each in stage.recalled(planned, ORDINARY_TURNS)]
    return {
        "questions": len(held),
        "without": _share(without),
        "with": _share(held),
        "added_tokens_mean": round(statistics.mean(added)),
        "ordinary": _share(ordinary),
    }


def measure_costs(name: str, window_tokens: int) -> dict[str, Any]:
    """Say what recall adds to a chat's cost at each list of prices, as shares of the cost without it."""
    found: dict[str, Any] = {}
    for every in ASKED_EVERY:
        chat = _asking(write_chat(name), every)
        for prices_name, prices in LISTS.items():
            without, with_recall = (
                _input_cost(chat, window_tokens, prices, recall=recall) for recall in (False, True)
            )
            added = with_recall[0] / without[0] - 1
            beyond = added - with_recall[1] * prices.write / without[0]
            found[f"one in {every}, {prices_name}"] = {"added": round(added, 4), "beyond": round(beyond, 4)}
    return found


def _asking(chat: RecallChat, every: int) -> RecallChat:
    """The first turns of a chat, of which one in so many asks for something of long before, the others for nothing."""
    messages, turn, facts = list[Any](), -1, [*chat.facts]
    for each in chat.messages:
        text = each["content"]
        if each["role"] == "user":
            turn += 1
            if turn == COST_TURNS:
                break
            text = ORDINARY_TURNS[turn]
            told = [fact for fact in facts if fact.turn <= turn - TURNS_BEFORE]
            if told and turn % every == 0:
                text = told[0].question
                facts.remove(told[0])
                facts.append(told[0])
            said = [fact.passage for fact in chat.facts if fact.turn == turn and fact.kind == "user"]
            text = "\n".join([*said, text])
        messages.append({**each, "content": text})
    return replace(chat, messages=tuple(messages))


def _input_cost(
    chat: RecallChat, window_tokens: int, prices: CachePrices, *, recall: bool
) -> tuple[float, int]:
    """What the input of all requests of a chat costs, in tokens of plain input, and how many of them are quoted."""
    stage, cost, quoted = Stage(chat, window_tokens, prices), 0.0, 0
    sent, tools = list[DigestedItem](), frozenset[str]()
    for end, (each, following) in enumerate(pairwise([*chat.messages, {"role": "user"}]), start=1):
        if each["role"] not in {"user", "tool"} or following["role"] == "tool":
            continue
        planned = stage.plan_of(stage.read(chat.messages[:end]), recall=recall)
        is_continued = bool(sent) and tools == planned.absent_tools
        same = sum(takewhile(bool, map(eq, planned.entries, sent))) if is_continued else 0
        new_tokens = stage.counter.entries(planned.entries[same:]).tokens if same else planned.tokens
        cost += (planned.tokens - new_tokens) * prices.read + new_tokens * prices.write
        quoted += planned.recalled.tokens if each["role"] == "user" else 0
        sent, tools = [*planned.entries], planned.absent_tools
    return cost, quoted


def _share(found: Iterable[bool]) -> float:
    return round(statistics.mean(found), 3)


def _shares(name: str, facts: Sequence[Fact], found: Sequence[bool]) -> dict[str, float]:
    """The shares under a name: of all, of those that are held out, and of those that share no word."""
    both = list(zip(facts, found, strict=True))
    return {
        name: _share(found),
        f"{name}_held_out": _share(known for fact, known in both if fact.is_held_out),
        f"{name}_shares_no_word": _share(known for fact, known in both if not fact.shares_words),
    }


class Stage:
    """A chat before a window, and the summaries that were written for it.

    The last message changes nothing before it: one request stands for all that only end in other ones, and recall is
    asked what it adds.
    """

    def __init__(
        self,
        chat: RecallChat | Talk,
        window_tokens: int,
        prices: CachePrices = CachePrices(),  # noqa: B008
    ) -> None:
        self.chat = chat
        self._model = ModelTerms("vendor/model", window_tokens, prices=prices)
        self.counter, self._caches = TokenCounter(ContentCache(1_000_000)), PlanCaches()
        self._summaries: dict[Segment, Summary] = {}
        self._conversation = self.conversation(ORDINARY_TURNS[0])

    def held_by(
        self, planned: Plan, needed: Sequence[Sequence[str]], recalled: Sequence[Recalled] = ()
    ) -> list[bool]:
        """Whether requests hold all lines that each needs, with what is recalled for it."""
        said = request_text(planned)
        quoted = [
            "\n".join(text_of(entry.item) for entry in each.entries)
            for each in recalled or [NOTHING_RECALLED] * len(needed)
        ]
        return [
            all(line in said or line in quotes for line in lines)
            for lines, quotes in zip(needed, quoted, strict=True)
        ]

    def recalled(self, planned: Plan, texts: Sequence[str]) -> list[Recalled]:
        """What a request quotes when its last message is each of these."""
        *earlier, _ = self._conversation.turns
        unsent = (each for each in texts_of_turns(earlier) if each.digest not in _digests(planned))
        removed = [*gather_turns(self._caches.passages, unsent, TermsOfWords())]

        def recalled_for(text: str) -> Recalled:
            asked = build_input(
                read_history([{"role": "user", "content": text}]), {}, Options()
            ).conversation()
            return quote_passages(
                removed,
                planned.entries[: planned.marks.completed],
                asked_in(asked.turns[-1]),
                counter=self.counter,
                max_tokens=max_recalled_tokens(RECALLING, planned.budget.input_tokens),
            )

        return list(map(recalled_for, texts))

    def looked_up(self, planned: Plan, queries: Sequence[str]) -> list[str]:
        """What the model reads on the first page when it looks queries up with the recall tool."""
        look_up = LookUp(self._conversation, _digests(planned), self.counter.text, self._caches.passages)
        return [look_up.answer(json.dumps({"query": query})) for query in queries]

    def plan(self, text: str = "", *, recall: bool) -> Plan:
        """The plan of the request whose last message is this text, with all summaries that it requires."""
        return self.plan_of(self.conversation(text) if text else self._conversation, recall=recall)

    def plan_of(self, conversation: Conversation, *, recall: bool) -> Plan:
        """The plan of a request for a conversation."""
        while True:
            planned = plan(
                conversation,
                replace(RECALLING, recall=recall),
                model=self._model,
                counter=self.counter,
                caches=self._caches,
                summaries=AvailableSummaries(self._summaries, "request"),
            )
            for target in planned.required_summaries:
                self._summaries[target.segment] = write_summary(target, self.counter)
            if not planned.required_summaries:
                return planned

    def conversation(self, text: str) -> Conversation:
        """The chat with this last message, as the pipe reads it."""
        return self.read(self.chat.ending_with(text))

    def read(self, messages: Sequence[dict[str, Any]]) -> Conversation:
        """Messages as the pipe reads them."""
        built = build_input(read_history(list(messages)), {}, Options())
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
    return complete_summary(model, target, count=counter.text, max_tokens=target.max_tokens)


BENCHMARKS = {"recall": run}
