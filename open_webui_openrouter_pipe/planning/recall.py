"""What of the removed turns a request quotes behind the question, so that nothing has to be asked for.

Follows from what the request lacks of earlier turns: within a turn it changes only where the prefix does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from ..conversation.budget import ContextSettings
from ..conversation.conversation import DigestedItem, Tool, Turn, digest_item
from ..conversation.record import own_words
from ..conversation.tokens import MESSAGE_OVERHEAD_TOKENS, TokenCounter
from ..recall.search import (
    ChatPassage,
    SearchedTexts,
    SourceText,
    TextIndex,
    gather,
    gather_turns,
    item_text,
    make_query,
    search,
    texts_of_entries,
)
from ..recall.tool import (
    MAX_EXCERPTS,
    RECALL_NAME,
    SentTexts,
    choose_excerpts,
    excerpts_message,
    is_meant,
    max_excerpts_tokens,
)
from ..recall.words import TermsOfWords
from ..responses.items import is_message
from .detail import Part, PartsByDetail
from .simulate import Cutoffs, PrefixBreak

RUN_TURNS = 32
"""How many turns that are not sent are searched as one."""
UNOFFERED = frozenset({RECALL_NAME})
"""The tools that a chat has no use for which lacks nothing."""


@dataclass(frozen=True, slots=True)
class Recalled:
    """The passages that a request quotes, the message that does, if there is one, and its size in tokens."""

    passages: tuple[ChatPassage, ...] = ()
    entries: tuple[DigestedItem, ...] = ()
    tokens: int = 0


NOTHING_RECALLED = Recalled()


def max_recalled_tokens(settings: ContextSettings, budget_tokens: int) -> int:
    """Return how much quoted passages may take in an input budget; 0 where nothing is removed, or none are wanted."""
    return max_excerpts_tokens(budget_tokens) if settings.recall and settings.may_recall else 0


def quote_passages(
    removed: Iterable[SearchedTexts],
    before: Iterable[DigestedItem],
    message: str,
    *,
    counter: TokenCounter,
    max_tokens: int,
) -> Recalled:
    """Return what a message may ask for of the texts that were removed and `before` does not say.

    It takes at most `max_tokens`.
    """
    query = make_query(message)
    found = search([*removed] if query else (), query, limit=MAX_EXCERPTS)
    if not is_meant(found, message):
        return NOTHING_RECALLED
    passages = choose_excerpts(
        found.passages,
        SentTexts(item_text(entry.item) for entry in before),
        count=counter.text,
        max_tokens=max_tokens - MESSAGE_OVERHEAD_TOKENS,
    )
    if not passages:
        return NOTHING_RECALLED
    entry = digest_item(excerpts_message(passages))
    return Recalled(passages, (entry,), counter.entry(entry).tokens)


def removed_texts(parts: PartsByDetail, cutoffs: Cutoffs, index: TextIndex) -> Iterator[SearchedTexts]:
    """Yield what earlier turns say that is not sent as it is: by turn, or by runs of turns that are not sent at all.

    The postings of a run are kept by the name of the chat up to its end.
    """
    terms, turns = TermsOfWords(), parts.turns

    def texts(turn: int) -> list[SourceText]:
        removed = parts_removed(parts, cutoffs, parts.start_of(turn), parts.start_of(turn + 1))
        entries = [entry for _, entries in removed for entry in entries]
        return [*texts_of_entries(turn, turns[turn], entries)]

    whole = parts.parts[min(cutoffs.dropped, parts.current, *cutoffs.restored)].turn // RUN_TURNS * RUN_TURNS
    for start in range(0, whole, RUN_TURNS):
        run = range(start, start + RUN_TURNS)
        yield gather(index, turns[run[-1]].sent_chain + b"run", run, texts, terms)
    rest = chain.from_iterable(map(texts, range(whole, len(turns) - 1)))
    yield from gather_turns(index, rest, terms)


def parts_removed(
    parts: PartsByDetail, cutoffs: Cutoffs, start: int, end: int
) -> Iterator[tuple[Part, list[DigestedItem]]]:
    """Yield the parts from `start` to before `end` that are not sent as they are, with their items that are not."""
    for number, part in enumerate(parts.parts[start:end], start):
        sent = parts.entries(cutoffs.level_of(number), number)
        if sent != part.entries:
            kept = {entry.digest for entry in sent}
            yield part, [entry for entry in part.entries if entry.digest not in kept]


def asked_in(turn: Turn) -> str:
    """Return what the user wrote in a turn in their own words, or all of it where nothing is."""
    items = [entry.item for entry in turn.rounds[0]]
    text = "\n".join(item_text(item) for item in items if is_message(item) and item["role"] == "user")
    return own_words(text).strip() or text


def without_tools(tools: Sequence[Tool], names: Collection[str] = UNOFFERED) -> tuple[Tool, ...]:
    """Return the tools but those of these names, ours where none are given."""
    return tuple(tool for tool in tools if tool.get("name") not in names)


def with_arrival(breaks: Sequence[PrefixBreak], parts: PartsByDetail) -> tuple[PrefixBreak, ...]:
    """Return the changes of a chat that is offered the tool, with its arrival.

    It needs none of its own where it came with another change, as it does unless the first thing that a request
    lacked was the middle of a long output on its arrival.
    """
    first = parts.first_cut
    if first == len(parts.parts):
        return tuple(breaks)
    ends = range(first + 1, len(parts.parts) + 1)
    request = next((end for end in ends if parts.parts[end - 1].awaits_answer), len(parts.parts))
    earlier = (each.request < request and each.reason != "tools" for each in breaks)
    if any(earlier) or any(each.request == request for each in breaks):
        return tuple(breaks)
    return PrefixBreak(request, parts.parts[request - 1].turn, "recall", 0), *breaks
