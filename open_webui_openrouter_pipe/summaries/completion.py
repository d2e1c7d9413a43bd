"""Completing a summary with what no model is trusted with.

Owns what is added to a model's words (facts of tool calls, files and links, exact details), which of the constraints
that it names the user did write, and what is omitted when the allowance is small. It must not ask a model, nor change
words of the user.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, zip_longest
from typing import Any, TypeVar

from ..conversation.conversation import Turn
from ..conversation.own_words import possible_instructions, stands_in_own_words
from ..conversation.tokens import truncate_to_tokens
from ..conversation.user_record import quote_lines
from .details import (
    UNVERIFIED,
    exact_details,
    mark_ungrounded,
    mentioned_paths,
    missing_details,
    stands_alone,
)
from .prompt import SummaryAssignment, all_texts, attachment_names, open_points, tool_lines, turn_text
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
    merge_constraints,
    one_line,
    render_part,
    render_summary,
)
from .tool_lines import group_tool_lines

TEXT_SHARE = 0.6
GOAL_SHARE = 0.25
"""Of the state of the chat."""
SHARES = {"constraints": 0.75, "entries": 0.5, "tool_facts": 0.6, "details": 0.75, "mentioned": 1.0}
"""How much of the remaining tokens each kind may take before the next one had its turn."""
ENTRY_OVERHEAD_TOKENS = 4
"""What an entry costs beside its words: its mark and its line's end, or the separator from the next one."""
CLOSING_TOKENS = 60
"""What the lines that count omitted details and marked statements take, at most."""

MAX_OMITTED_LISTED = 500
MAX_OMITTED_CHARACTERS = 300
"""What a summary lists of the details that it omits, however many its source has."""

_Value = TypeVar("_Value")
ListEntry = tuple[str, object]
"""The name of a list, and one of its entries."""


def complete_summary(
    model_summary: ModelSummary,
    assignment: SummaryAssignment,
    *,
    count: Callable[[str], int],
    max_tokens: int,
) -> Summary:
    """Add to a model's words facts of tool calls, files and links, and exact details that they miss.

    What is shown of the segment renders within `max_tokens`, in this order: constraints that the user did write, the
    text, entries of the model's lists, facts of the newest calls, details (those of answers before the user's), files
    and links; what does not fit is counted, and the first of it listed. The state of the chat has an allowance of its
    own beside it. Statements with details that stand nowhere in the turns are marked. Raises SummaryRefused when the
    turns support none of the statements.
    """
    turns, points = assignment.turns, open_points(assignment.earlier)
    every_call = tool_lines(turns)
    calls = group_tool_lines(every_call)
    attached = attachment_names(entry.item for turn in turns for entry in turn.entries)
    paths = dict.fromkeys([*attached, *_read_in_turns(turns, mentioned_paths)])
    details = {detail: words for detail, words in _details_with_words(turns).items() if detail not in paths}
    known = _with_known_turns(model_summary, assignment)
    sources = chain(all_texts(turns), every_call, paths, assignment.earlier.texts)
    marked, ungrounded = mark_ungrounded(known, [*sources])
    base = Summary(
        ModelSummary(""),
        resolved=tuple(points[number] for number in model_summary.resolved if number in points),
        first_turn=assignment.first_turn,
        last_turn=assignment.last_turn,
    )
    filling = _Filling(count, max_tokens - count(render_part(base)) - CLOSING_TOKENS)
    state = _Filling(count, int(max_tokens * STATE_SHARE) - CLOSING_TOKENS)
    # A model that reads many turns at once, or not all of them, misses rules that summaries of the parts hold.
    named = (*assignment.earlier.own_constraints, *model_summary.constraints)
    verified = merge_constraints(_verified(named, assignment))
    constraints = tuple(sorted(verified, key=lambda each: each.turn))
    filling.take((("constraints", each) for each in constraints), SHARES["constraints"])
    text = filling.take_text("summary_text", marked.summary_text, TEXT_SHARE)
    goal = state.take_text("goal", marked.goal, GOAL_SHARE)
    by_model = {name: getattr(marked, name) for name in MODEL_LISTS}
    added: dict[str, Iterable[Any]] = {
        "constraints": constraints,
        "tool_facts": calls,
        "mentioned": paths,
        "details": dict.fromkeys(details.values()),
    }

    def assembled() -> Summary:
        lists = filling.chosen(by_model), state.chosen(by_model)
        both = {name: lists[name in STATE_LISTS][name] for name in MODEL_LISTS}
        more: dict[str, Any] = filling.chosen(added)
        return replace(base, by_model=ModelSummary(text, goal=goal, **both), **more)

    entries, state_entries = (
        [*_interleave([(name, entry) for entry in by_model[name]] for name in names)]
        for names in (PART_LISTS, ("action_items", "open_questions", "done"))
    )
    state.take(state_entries, 1.0)
    newest_calls = [("tool_facts", line) for line in reversed(calls)]
    filling.take(entries, SHARES["entries"])
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


def _with_known_turns(summary: ModelSummary, assignment: SummaryAssignment) -> ModelSummary:
    """Return the same without turns that do not exist."""

    def known(entry: Entry) -> Entry:
        return entry if 1 <= entry.turn <= assignment.last_turn else replace(entry, turn=0)

    lists: dict[str, Any] = {
        name: tuple(dict.fromkeys(map(known, getattr(summary, name)))) for name in MODEL_LISTS
    }
    return replace(summary, **lists)


def _verified(constraints: Iterable[Constraint], assignment: SummaryAssignment) -> Iterator[Constraint]:
    """Yield constraints whose quotation stands in the user's own words, with the turn in which it stands.

    One of an earlier part is there to be revoked. A revocation counts only in the user's own words as well.
    """
    said = {
        number: turn_text(turn, "user") for number, turn in enumerate(assignment.turns, assignment.first_turn)
    }
    # A request shows them on one line each.
    earlier = {
        (each.turn, " ".join(each.quote.split())): each.quote for each in assignment.earlier.constraints
    }

    words = {number: " ".join(text.split()) for number, text in said.items()}

    def turn_of(quotation: str, first_guess: int) -> int:
        wanted = " ".join(quotation.split())
        guesses = sorted(
            (turn for turn in said if wanted in words[turn]), key=lambda turn: turn != first_guess
        )
        return next((turn for turn in guesses if stands_in_own_words(quotation, said[turn])), 0)

    for each in constraints:
        revoked_in_turn = turn_of(each.revoked_by, each.revoked_in_turn) if each.revoked_by else 0
        verified = replace(
            each, revoked_in_turn=revoked_in_turn, revoked_by=each.revoked_by if revoked_in_turn else ""
        )
        if known := earlier.get((each.turn, " ".join(each.quote.split()))):
            if revoked_in_turn:
                yield replace(verified, quote=known)
        elif turn := turn_of(each.quote, each.turn):
            yield replace(verified, turn=turn)


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

    def chosen(self, lists: Mapping[str, Iterable[_Value]]) -> dict[str, tuple[_Value, ...]]:
        """Return what was chosen of each list, in the list's order."""
        return {
            name: tuple(entry for entry in entries if (name, entry) in self._chosen)
            for name, entries in lists.items()
        }


def _read_in_turns(turns: Sequence[Turn], read: Callable[[str], Iterable[_Value]]) -> Iterator[_Value]:
    """Yield what is read in the models' texts, then in the users', which are shown anyway.

    Each time the first of every turn comes first.
    """
    for role in ("assistant", "user"):
        yield from _interleave(read(turn_text(turn, role)) for turn in turns)


def _details_with_words(turns: Sequence[Turn]) -> Mapping[str, str]:
    """Return the exact details of the turns, each with what is shown of it: those of answers, then those of users.

    Those of answers are shown in the words around them. A user may have pasted a text of others, and words of it
    would stand here without the message around them: of users' details, and of words that may be an order, only the
    detail is shown, and "" where that alone says nothing.
    """
    answered = _interleave(exact_details(turn_text(turn, "assistant")).items() for turn in turns)
    written = _interleave(dict.fromkeys(exact_details(turn_text(turn, "user")), "").items() for turn in turns)
    details: dict[str, str] = {}
    for detail, words in chain(answered, written):
        is_shown = bool(words) and not possible_instructions(words)
        shown = words if is_shown else detail if stands_alone(detail) else ""
        details[detail] = details.get(detail) or shown
    return details


def _interleave(lists: Iterable[Iterable[_Value]]) -> Iterator[_Value]:
    """Yield the first entry of each list, then the second of each, and so on."""
    return (entry for row in zip_longest(*lists) for entry in row if entry is not None)
