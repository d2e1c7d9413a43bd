"""Completing a summary with what no model is trusted with.

Owns what is added to a model's words (facts of tool calls, names of attachments), which of the constraints that it
names the user did write, and what is omitted when the allowance is small. It must not ask a model, nor change words of
the user.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import zip_longest
from typing import Any, TypeVar

from ..conversation.masking import mask_secrets
from ..conversation.record import quote_lines, stands_in_own_words
from ..conversation.tokens import truncate_to_tokens
from .prompt import attachment_names, open_points, tool_lines, user_text
from .segments import SummaryTarget
from .summary import (
    HEADINGS,
    MODEL_LISTS,
    PART_LISTS,
    STATE_LISTS,
    STATE_SHARE,
    Constraint,
    Entry,
    ModelSummary,
    Summary,
    all_constraints,
    merge_constraints,
    render_part,
)

TEXT_SHARE = 0.6
GOAL_SHARE = 0.25
"""Of the state of the chat."""
CONSTRAINTS_SHARE, ENTRIES_SHARE, TOOL_FACTS_SHARE = 0.75, 0.5, 0.6
"""How much of the remaining tokens each kind may take before the next one had its turn."""
ENTRY_OVERHEAD_TOKENS = 4
"""What an entry costs beside its words: its mark and its line's end, or the separator from the next one."""
CLOSING_TOKENS = 40
"""What stands around the entries, with the line that counts what is omitted, takes at most."""

_Value = TypeVar("_Value")
ListEntry = tuple[str, object]
"""The name of a list, and one of its entries."""


def complete_summary(
    model_summary: ModelSummary,
    target: SummaryTarget,
    *,
    count: Callable[[str], int],
    max_tokens: int,
) -> Summary:
    """Add to a model's words facts of tool calls, and names of attachments.

    What is shown of the segment renders within `max_tokens`, in this order: constraints that the user did write, the
    text, entries of the model's lists, facts of the newest calls, attachments; what does not fit is counted. The
    state of the chat has an allowance of its own beside it.
    """
    turns, points = target.turns, open_points(target.earlier)
    calls = tool_lines(turns)
    attached = attachment_names(entry.item for turn in turns for entry in turn.entries)
    base = Summary(
        ModelSummary(""),
        resolved=tuple(points[number] for number in model_summary.resolved if number in points),
        first_turn=target.first_turn,
        last_turn=target.last_turn,
    )
    filling = _Filling(count, max_tokens - count(render_part(base)) - CLOSING_TOKENS)
    state = _Filling(count, int(max_tokens * STATE_SHARE) - CLOSING_TOKENS)
    # A model that reads many turns at once, or not all of them, misses rules that summaries of the parts hold.
    named = (*all_constraints(target.earlier.parts), *model_summary.constraints)
    verified = merge_constraints(_verified(named, target))
    constraints = sorted(verified, key=lambda each: each.turn)
    filling.take((("constraints", each) for each in constraints), CONSTRAINTS_SHARE)
    text = filling.take_text("summary_text", mask_secrets(model_summary.summary_text), TEXT_SHARE)
    goal = state.take_text("goal", mask_secrets(model_summary.goal), GOAL_SHARE)
    by_model = {name: _checked(getattr(model_summary, name), target) for name in MODEL_LISTS}
    entries, state_entries = (
        [*_interleave([(name, entry) for entry in by_model[name]] for name in names)]
        for names in (PART_LISTS, ("action_items", "open_questions", "done"))
    )
    state.take(state_entries, 1.0)
    newest_calls = [("tool_facts", line) for line in reversed(calls)]
    files = [("mentioned", name) for name in attached]
    shares = ((entries, ENTRIES_SHARE), (newest_calls, TOOL_FACTS_SHARE), (files, 1.0))
    for listed, share in (*shares, (entries, 1.0), (newest_calls, 1.0)):
        filling.take(listed, share)
    lists = {
        name: (state if name in STATE_LISTS else filling).chosen(name, by_model[name]) for name in MODEL_LISTS
    }
    summary = replace(
        base,
        by_model=ModelSummary(text, goal=goal, **lists),
        constraints=filling.chosen("constraints", constraints),
        tool_facts=filling.chosen("tool_facts", calls),
        mentioned=filling.chosen("mentioned", attached),
    )
    shown = len(summary.tool_facts) + len(summary.mentioned)
    return replace(summary, omitted=len(calls) + len(attached) - shown)


def _checked(entries: Iterable[Entry], target: SummaryTarget) -> tuple[Any, ...]:
    """Return a model's entries without secrets, and without turns that do not exist."""
    turns = range(1, target.last_turn + 1)
    checked = (Entry(mask_secrets(each.text), each.turn if each.turn in turns else 0) for each in entries)
    return tuple(dict.fromkeys(checked))


def _verified(constraints: Iterable[Constraint], target: SummaryTarget) -> Iterator[Constraint]:
    """Yield constraints whose quotation stands in the user's own words, with the turn in which it stands.

    One of an earlier part is there to be revoked. A revocation counts only in the user's own words as well.
    """
    turns = enumerate(target.turns, target.first_turn)
    said = {number: user_text(turn) for number, turn in turns}
    words = {number: _plain(text) for number, text in said.items()}
    # A request shows them on one line each.
    earlier = {(each.turn, _plain(each.quote)): each.quote for each in target.earlier.constraints}

    def turn_of(quotation: str, first_guess: int) -> int:
        found = (turn for turn in said if _plain(quotation) in words[turn])
        guesses = sorted(found, key=lambda turn: turn != first_guess)
        return next((turn for turn in guesses if stands_in_own_words(quotation, said[turn])), 0)

    for each in constraints:
        revoked_in_turn = turn_of(each.revoked_by, each.revoked_in_turn) if each.revoked_by else 0
        revoked_by = each.revoked_by if revoked_in_turn else ""
        verified = replace(each, revoked_in_turn=revoked_in_turn, revoked_by=revoked_by)
        if known := earlier.get((each.turn, _plain(each.quote))):
            if revoked_in_turn:
                yield replace(verified, quote=known)
        elif turn := turn_of(each.quote, each.turn):
            yield replace(verified, turn=turn)


def _plain(text: str) -> str:
    return " ".join(text.split())


class _Filling:
    """What was chosen so far for a summary, and the tokens that are left; headings have their price."""

    def __init__(self, count: Callable[[str], int], tokens: int) -> None:
        self._count = count
        self._left = max(0, tokens)
        self._chosen: set[ListEntry] = set()
        self._headings: set[str] = set()

    def take_text(self, name: str, text: str, share: float) -> str:
        """Return the text within a share of what is left, truncated in the middle if it is longer."""

        def cost(shown: str) -> int:
            return self._count("\n".join(quote_lines(shown)))

        heading = self._count(HEADINGS[name])
        shown = truncate_to_tokens(text, int(self._left * share) - heading, cost) if text else ""
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
            cost = self._count(str(entry)) + ENTRY_OVERHEAD_TOKENS
            if name not in self._headings:
                cost += self._count(HEADINGS[name])
            if cost <= available:
                self._chosen.add((name, entry))
                self._headings.add(name)
                self._left -= cost
                available -= cost

    def chosen(self, name: str, entries: Iterable[_Value]) -> tuple[_Value, ...]:
        """Return what was chosen of a list, in the list's order."""
        return tuple(entry for entry in entries if (name, entry) in self._chosen)


def _interleave(lists: Iterable[Iterable[_Value]]) -> Iterator[_Value]:
    """Yield the first entry of each list, then the second of each, and so on."""
    return (entry for row in zip_longest(*lists) for entry in row if entry is not None)
