"""Completing a summary with what no model is trusted with.

Owns what is added to a model's words (the user's rules, facts of tool calls, files and links, exact details) and
what is omitted when the allowance is small. It must not ask a model, nor change the words of a rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import TypeVar

from ..conversation.conversation import Turn
from ..conversation.rules import user_rules
from ..conversation.tokens import truncate_to_tokens
from .details import UNVERIFIED, exact_details, mark_ungrounded, mentioned_paths, missing_details
from .prompt import all_texts, attachment_names, tool_lines, turn_text
from .summary import HEADINGS, MODEL_LISTS, ModelSummary, Summary, one_line, render_summary
from .tool_lines import group_tool_lines

TEXT_SHARE = 0.6
SHARES = {**dict.fromkeys(MODEL_LISTS, 0.5), "tool_facts": 0.6, "details": 0.75, "mentioned": 1.0}
"""How much of the remaining tokens each kind may take before the next one had its turn."""
BEYOND_RULES_SHARE = 0.25
"""What is added all the same, as a share of the allowance, where the rules alone are larger than the allowance."""
ENTRY_OVERHEAD_TOKENS = 4
"""What an entry costs beside its words: its mark and its line's end, or the separator from the next one."""
CLOSING_TOKENS = 60
"""What the lines that count omitted details and marked statements take, at most."""

MAX_OMITTED_LISTED = 500
MAX_OMITTED_CHARACTERS = 300
"""What a summary lists of the details that it omits, however many its source has."""

Entry = TypeVar("Entry")
ListEntry = tuple[str, str]
"""The name of a list, and one of its entries."""


def complete_summary(
    model_summary: ModelSummary, turns: Sequence[Turn], *, count: Callable[[str], int], max_tokens: int
) -> Summary:
    """Add to a model's words the rules, facts of tool calls, files and links, and exact details they miss.

    The rules stay, all of them. All else renders within `max_tokens` together with them, in this order: the
    text, entries of the model's lists, facts of the newest calls, details (the model's before the user's), files
    and links; what does not fit is counted, and the first of it listed. Statements with details that stand
    nowhere in the turns are marked. Raises SummaryRefused when the turns support none of the statements.
    """
    rules = tuple(dict.fromkeys(rule for turn in turns for rule in user_rules(turn)))
    every_call = tool_lines(turns)
    calls = group_tool_lines(every_call)
    attached = attachment_names(entry.item for turn in turns for entry in turn.entries)
    paths = dict.fromkeys([*attached, *_read_in_turns(turns, mentioned_paths)])
    found = dict(_read_in_turns(turns, lambda text: exact_details(text).items()))
    details = {detail: words for detail, words in found.items() if detail not in paths}
    marked, ungrounded = mark_ungrounded(model_summary, [*all_texts(turns), *every_call, *paths])
    fixed = count(render_summary(Summary(ModelSummary(""), rules))) + CLOSING_TOKENS
    available = max_tokens - fixed if fixed <= max_tokens else int(max_tokens * BEYOND_RULES_SHARE)
    filling = _Filling(count, available)
    text = filling.take_text(marked.summary_text)
    by_model = {name: getattr(marked, name) for name in MODEL_LISTS}
    added = {"tool_facts": calls, "mentioned": paths, "details": dict.fromkeys(details.values())}

    def assembled() -> Summary:
        chosen = filling.chosen({**by_model, **added})
        written = ModelSummary(text, *(chosen[name] for name in by_model))
        return Summary(written, rules, chosen["tool_facts"], chosen["mentioned"], chosen["details"])

    entries = [*_interleave([(name, entry) for entry in by_model[name]] for name in MODEL_LISTS)]
    newest_calls = [("tool_facts", line) for line in reversed(calls)]
    filling.take(entries, SHARES[MODEL_LISTS[0]])
    filling.take(newest_calls, SHARES["tool_facts"])
    words = (details[detail] for detail in missing_details(details, render_summary(assembled())))
    missing = [("details", each) for each in dict.fromkeys(words) if each]
    filling.take(missing, SHARES["details"])
    filling.take([("mentioned", path) for path in paths], SHARES["mentioned"])
    for rest in (entries, newest_calls, missing):
        filling.take(rest, 1.0)

    summary = assembled()
    shown = render_summary(summary)
    omitted = missing_details((*paths, *details), shown)
    omitted += tuple(line for line in calls if line not in summary.tool_facts)
    unverified = (each for each in ungrounded if one_line(f"{each} {UNVERIFIED}") in shown)
    return replace(
        summary,
        details_omitted=tuple(each[:MAX_OMITTED_CHARACTERS] for each in omitted[:MAX_OMITTED_LISTED]),
        details_not_listed=max(0, len(omitted) - MAX_OMITTED_LISTED),
        unverified=tuple(unverified),
    )


class _Filling:
    """What was chosen so far for a summary, and the tokens that are left; headings have their price."""

    def __init__(self, count: Callable[[str], int], tokens: int) -> None:
        self._count = count
        self._left = max(0, tokens)
        self._chosen: set[ListEntry] = set()
        self._headings: set[str] = set()

    def take_text(self, text: str) -> str:
        """Return the text within its share, truncated in the middle if it is longer."""

        def cost(shown: str) -> int:
            return self._count("\n".join(f"> {line}" for line in shown.splitlines()))

        heading = self._count(HEADINGS["summary_text"])
        shown = truncate_to_tokens(text, int(self._left * TEXT_SHARE) - heading, cost)
        self._left -= cost(shown) + heading if shown else 0
        return shown

    def take(self, entries: Iterable[ListEntry], share: float) -> None:
        """Choose the entries that fit into a share of what is left, the first ones first."""
        available = int(self._left * share)
        for name, entry in entries:
            if available <= ENTRY_OVERHEAD_TOKENS:
                break
            if (name, entry) in self._chosen:
                continue
            cost = self._count(entry) + ENTRY_OVERHEAD_TOKENS
            if name not in self._headings:
                cost += self._count(HEADINGS[name])
            if cost <= available:
                self._chosen.add((name, entry))
                self._headings.add(name)
                self._left -= cost
                available -= cost

    def chosen(self, lists: Mapping[str, Iterable[str]]) -> dict[str, tuple[str, ...]]:
        """Return what was chosen of each list, in the list's order."""
        return {
            name: tuple(entry for entry in entries if (name, entry) in self._chosen)
            for name, entries in lists.items()
        }


def _read_in_turns(turns: Sequence[Turn], read: Callable[[str], Iterable[Entry]]) -> Iterator[Entry]:
    """Yield what is read in the models' texts, then in the users'; each time the first of every turn first."""
    for role in ("assistant", "user"):
        yield from _interleave(read(turn_text(turn, role)) for turn in turns)


def _interleave(lists: Iterable[Iterable[Entry]]) -> Iterator[Entry]:
    """Yield the first entry of each list, then the second of each, and so on."""
    return (entry for row in zip_longest(*lists) for entry in row if entry is not None)
