"""Completing a summary with what no model is trusted with.

Owns what is added to a model's words (the user's rules, facts of tool calls, files and links, exact details),
that words with figures of nobody's are left out, and what gives way when there is little room. It must not ask a
model, and it takes no rule out of its words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest

from ..conversation.conversation import Turn
from ..conversation.rules import user_rules
from .details import drop_ungrounded, exact_details, mentioned_paths, missing_details
from .summary import MODEL_HEADINGS, MODEL_LISTS, ModelSummary, Summary, SummaryRefused, render_summary
from .transcript import all_texts, attachment_names, tool_lines, truncate_to_tokens, turn_text

TEXT_SHARE = 0.6
TOLD_SHARE = 0.5
FACTS_SHARE = 0.6
DETAILS_SHARE = 0.75
"""How much of what is left each kind may take before the next one had its turn."""
BEYOND_RULES_SHARE = 0.25
"""What is added all the same where the rules alone are larger than the room."""
ENTRY_OVERHEAD_TOKENS = 3
HEADINGS_TOKENS = 120
"""What the headings and the count of what is lost take, at most."""

ListEntry = tuple[str, str]
"""The name of a list, and what stands in it."""


@dataclass(slots=True)
class _Filling:
    """Entries chosen so far with what each costs, and the tokens that are left."""

    count: Callable[[str], int]
    left: int
    chosen: dict[ListEntry, int] = field(default_factory=dict)

    def fill(self, entries: Iterable[ListEntry], share: float = 1.0) -> None:
        """Choose what has room in a share of what is left; what comes first goes first."""
        room = int(self.left * share)
        for entry in entries:
            if room <= ENTRY_OVERHEAD_TOKENS:
                break
            cost = 0 if entry in self.chosen else self.count(entry[1]) + ENTRY_OVERHEAD_TOKENS
            if 0 < cost <= room:
                self.chosen[entry] = cost
                self.left -= cost
                room -= cost

    def give_back(self, tokens: int) -> None:
        """Let go of what was chosen last."""
        while tokens > 0 and self.chosen:
            tokens -= self.chosen.popitem()[1]

    def of(self, name: str, entries: Iterable[str]) -> tuple[str, ...]:
        """What was chosen of a list, in the list's order."""
        return tuple(entry for entry in entries if (name, entry) in self.chosen)


@dataclass(frozen=True, slots=True)
class _Source:
    """What a segment holds beside a model's words, each in the order in which it is preferred or stands."""

    rules: tuple[str, ...]
    calls: tuple[str, ...]
    places: tuple[str, ...]
    details: tuple[str, ...]


def complete_summary(
    told: ModelSummary, turns: Sequence[Turn], *, count: Callable[[str], int], max_tokens: int
) -> Summary:
    """Add to a model's words the rules, facts of tool calls, files and links, and exact details they miss.

    The rules stay, all of them. All else renders within `max_tokens` together with them: first the text,
    then facts of the newest calls, details over the whole segment, the user's before the model's, and files
    and links. What has no room is `lost`. Words with figures that stand nowhere in the turns are left out as
    `unfounded`; raises SummaryRefused when no others are left.
    """
    source = _source(turns)
    told, unfounded = drop_ungrounded(told, [*all_texts(turns), *source.calls, *source.places])
    if unfounded and told == ModelSummary(""):
        raise SummaryRefused("not founded in its source")
    alone = count(render_summary(Summary(ModelSummary(""), source.rules)))
    limit = max_tokens if alone <= max_tokens else alone + int(max_tokens * BEYOND_RULES_SHARE)
    left = limit - alone - HEADINGS_TOKENS
    told = replace(told, summary_text=truncate_to_tokens(told.summary_text, int(left * TEXT_SHARE), count))
    filling = _Filling(count, left - _cost_of_text(told, count))
    _fill(filling, told, source)
    summary = _assembled(filling, told, source, unfounded)
    while (excess := count(render_summary(summary)) - limit) > 0 and (filling.chosen or told.summary_text):
        if not filling.chosen:
            shorter = count(told.summary_text) - excess - ENTRY_OVERHEAD_TOKENS
            told = replace(told, summary_text=truncate_to_tokens(told.summary_text, shorter, count))
        filling.give_back(excess)
        summary = _assembled(filling, told, source, unfounded)
    return summary


def _source(turns: Sequence[Turn]) -> _Source:
    asked = [turn_text(turn, "user") for turn in turns]
    answered = [turn_text(turn, "assistant") for turn in turns]
    texts = (asked, answered)
    places = dict.fromkeys([*attachment_names(turns), *_fairly(texts, mentioned_paths)])
    details = dict.fromkeys(_fairly(texts, exact_details))
    return _Source(
        tuple(dict.fromkeys(rule for turn in turns for rule in user_rules(turn))),
        tool_lines(turns),
        tuple(places),
        tuple(detail for detail in details if detail not in places),
    )


def _fairly(sides: Iterable[Sequence[str]], read: Callable[[str], Sequence[str]]) -> Iterator[str]:
    """What is read in the texts of each side: the first of every text, then the second, and so on."""
    for texts in sides:
        for row in zip_longest(*map(read, texts)):
            yield from (detail for detail in row if detail is not None)


def _cost_of_text(told: ModelSummary, count: Callable[[str], int]) -> int:
    return count("\n> ".join(told.summary_text.splitlines()))


def _fill(filling: _Filling, told: ModelSummary, source: _Source) -> None:
    """Give each kind its share in the order of its worth, and then what the others left over."""
    entries = _told_entries(told)
    calls = [("tool_facts", line) for line in reversed(source.calls)]
    filling.fill(entries, TOLD_SHARE)
    filling.fill(calls, FACTS_SHARE)
    seen = render_summary(_assembled(filling, told, source))
    details = [("details", detail) for detail in missing_details(source.details, seen)]
    filling.fill(details, DETAILS_SHARE)
    filling.fill(("mentioned", place) for place in source.places)
    for rest in (entries, calls, details):
        filling.fill(rest)


def _told_entries(told: ModelSummary) -> list[ListEntry]:
    """The entries of a model's lists, the first of each list before the second of any."""
    lists = ([(name, entry) for entry in getattr(told, name)] for name in MODEL_HEADINGS)
    return [entry for row in zip_longest(*lists) for entry in row if entry is not None]


def _assembled(
    filling: _Filling, told: ModelSummary, source: _Source, unfounded: tuple[str, ...] = ()
) -> Summary:
    summary = Summary(
        ModelSummary(told.summary_text, *(filling.of(name, getattr(told, name)) for name in MODEL_LISTS)),
        source.rules,
        filling.of("tool_facts", source.calls),
        filling.of("mentioned", source.places),
        filling.of("details", source.details),
        unfounded=unfounded,
    )
    shown = render_summary(summary)
    gone = missing_details((*source.places, *source.details), shown)
    return replace(summary, lost=(*gone, *(line for line in source.calls if line not in summary.tool_facts)))
