"""Completing a summary with what no model is trusted with.

Owns what is added to a model's words (facts of tool calls, files and links, exact details), which of the constraints
that it names the user did write, and what is omitted when the allowance is small. It must not ask a model, nor change
words of the user.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain, zip_longest
from typing import Any, Final, TypeVar

from ..conversation.conversation import Turn
from ..conversation.record import possible_instructions, quote_lines, stands_in_own_words
from ..conversation.tokens import truncate_to_tokens
from .details import (
    UNVERIFIED,
    exact_details,
    mark_ungrounded,
    mentioned_paths,
    missing_details,
    stands_alone,
)
from .prompt import (
    INSTRUCTION,
    SummaryAssignment,
    all_texts,
    attachment_names,
    open_points,
    tool_lines,
    turn_text,
)
from .summary import (
    HEADINGS,
    MODEL_FIELDS,
    MODEL_LISTS,
    PART_LISTS,
    STATE_LISTS,
    STATE_SHARE,
    Constraint,
    Entry,
    ModelSummary,
    Summary,
    SummaryRefused,
    merge_constraints,
    one_line,
    render_part,
    render_summary,
)

MIN_GROUPED: Final = 4
"""Fewer lines are all shown: the first and the newest are in any case."""

_FACT: Final = re.compile(r": (?=(?:[^\n]{0,600}? ⏎ )?\[Tool: )")
_FIRST_ROW: Final = re.compile(r" \| (?:first: .*|\{.*)")
"""An example of the rows, or an object's values: what differs between calls of the same kind."""
_VALUES: Final = re.compile(
    r"(\"(?:[^\"\\]|\\.)*+\"?+\s*+:)|\"(?:[^\"\\]|\\.)*+\"?+|\d[\d.,]*+|\b(?:null|true|false)\b"
)
"""The name of a field, which is kept; or a value."""


def group_tool_lines(lines: Sequence[str]) -> tuple[str, ...]:
    """Return the lines; of those that say nearly the same the first and the newest, which says how many there are."""
    groups: dict[str, list[int]] = {}
    for number, line in enumerate(lines):
        groups.setdefault(_form(line) or f"{number}", []).append(number)
    omitted, counts = set[int](), dict[int, int]()
    for numbers in groups.values():
        if len(numbers) >= MIN_GROUPED:
            omitted.update(numbers[1:-1])
            counts[numbers[-1]] = len(numbers) - 2
    return tuple(
        f"{line} (and {counts[number]} more like it)" if number in counts else line
        for number, line in enumerate(lines)
        if number not in omitted
    )


def _form(line: str) -> str | None:
    """Return what lines that say nearly the same have in common; None for a line that stands for itself."""
    fact = _FACT.search(line)
    if fact is None:
        return None
    call, stated = line[: fact.end()], _FIRST_ROW.sub("", line[fact.end() :])
    return "".join(_VALUES.sub(lambda match: match[1] or "0", text) for text in (call, stated))


MIN_SHARE: Final = 0.02
MIN_TOKENS: Final = 60
"""A summary has so much of its source, and at least so many tokens where the source has enough for that."""
MIN_OVERLAP: Final = 0.30
"""Of the rare words of a summary: how many occur in a source of the same language."""
TOP_WORDS: Final = 10
MIN_TOP_SHARE: Final = 0.30
"""Of the most frequent short words of a source: how many a summary in its language uses at least, whatever it is of."""
MIN_JUDGED_WORDS: Final = 20
"""Fewer rare words prove nothing."""
MIN_SCRIPT_SHARE: Final = 0.1
"""Words in a script that the source hardly uses cannot occur in it."""
MIN_ECHO_CHARACTERS: Final = 20

_LETTERS_ONLY: Final = re.compile(r"[\W_]+")
_PLACEHOLDER_WORDS: Final = (
    "na none null nil nothing tbd todo empty string text summary unknown nosummary notapplicable noinformation keine "
    "keines nichts leer zusammenfassung aucun aucune rien néant vide résumé ninguno ninguna nada vacío resumen nenhum "
    "nenhuma vazio resumo nessuno nessuna niente vuoto riassunto нет ничего пусто 无 無 没有 空 なし 特になし 없음"
)
_PLACEHOLDERS: Final = frozenset(_PLACEHOLDER_WORDS.split())
_NESTED: Final = re.compile(r"[\s`]*+(?:json)?\s*+\{\s*+\"")
_FORM: Final = re.compile(
    r"[^\w<]*+(?:<?(?:a |an |the )?(?:list of )?strings?\b[:;,.]|<[a-z_ ]{1,100}+>\W*+\Z)"
)
_REFUSAL: Final = re.compile(
    r"\W*(?:(?:i['\u2019]?m|i am|we['\u2019]re) (?:very |so |really )?(?:sorry|afraid|unable|not able)\b"
    r"|(?:sorry|apologies)\b[^.]{0,30}\b(?:can(?:no|['\u2019])t|unable)|my apologies"
    r"|i (?:can(?:no|['\u2019])t|can not|won['\u2019]t|will not|must decline|am not able|do not feel)\b"
    r"|as an ai(?: (?:language )?(?:model|assistant))?,"
    r"|(?:es )?tut mir (?:sehr )?leid|ich (?:kann|darf|werde) (?:dies|das|diese|dabei|dazu|leider|ihnen|dir|nicht)"
    r"|(?:leider|entschuldigung)\b[^.]{0,20}\bkann ich|als ki(?:-\w+)?,"
    r"|(?:je suis |désolée?,? je suis )?désolée?\b|je (?:ne peux|ne suis) pas|je regrette|en tant qu['\u2019]ia,"
    r"|lo siento|no puedo|lamento|como (?:una )?ia,|desculpe|sinto muito|não posso|mi dispiace|non posso"
    r"|(?:很|非常)?(?:抱歉|对不起|對不起)|我(?:无法|無法|不能|没有办法|沒有辦法)|作为(?:一个)?(?:AI|人工智能)"
    r"|(?:大変)?(?:申し訳|すみません|ごめんなさい)|(?:죄송|미안)|(?:к сожалению|извините|простите),? ?(?:но )?я не"
    r"|я не могу|het spijt me|ik kan (?:dit|dat|niet)|przykro mi|nie mogę|üzgünüm|ne yaz\u0131k ki)",
    re.IGNORECASE,
)
"""How an answer begins in which a model speaks of itself instead of the conversation."""
_WORD: Final = re.compile(r"[^\W_]+")
_RARE_CHARACTERS: Final = 5
"""A word as long as this is rarely a function word; words with one beginning of this length are taken as one."""
_UNSPACED: Final = frozenset({"CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN"})


def require_content(summary: Summary) -> None:
    """Raise SummaryRefused when a summary, stored or new, says nothing: cheap, and by its own words alone."""
    _require_words(summary.by_model.summary_text)


def judge_content(
    summary: ModelSummary, source: Iterable[str], *, source_tokens: int, count: Callable[[str], int]
) -> None:
    """Raise SummaryRefused when an answer in the right form is not a summary of its source."""
    _require_words(summary.summary_text)
    texts = [*summary.texts]
    if sum(map(count, texts)) < min(MIN_TOKENS, MIN_SHARE * source_tokens):
        raise SummaryRefused("too short")
    if not _shares_words(texts, source):
        raise SummaryRefused("not about its source")


def _require_words(text: str) -> None:
    letters = _LETTERS_ONLY.sub("", text).casefold()
    if not letters or letters in _PLACEHOLDERS or letters in _FIELD_NAMES:
        raise SummaryRefused("no content")
    plain = " ".join(text.split())
    if _NESTED.match(plain):
        raise SummaryRefused("malformed")
    if _FORM.match(plain) or (len(plain) >= MIN_ECHO_CHARACTERS and plain.rstrip(".;") in _PLAIN_INSTRUCTION):
        raise SummaryRefused("repeats its prompt")
    if _REFUSAL.match(plain):
        raise SummaryRefused("refused")


_FIELD_NAMES: Final = frozenset(_LETTERS_ONLY.sub("", name) for name in MODEL_FIELDS)
_PLAIN_INSTRUCTION: Final = " ".join(INSTRUCTION.split())


# --- words in common ---


@dataclass(frozen=True, slots=True)
class _Vocabulary:
    """The words of some texts: how often each short one occurs, and the rare ones, each with its script.

    Where no spaces divide words, pairs of characters are the rare words.
    """

    short: Counter[str]
    rare: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, texts: Iterable[str]) -> _Vocabulary:
        words = Counter(word for text in texts for word in _WORD.findall(text.casefold()))
        short, rare = Counter[str](), set[tuple[str, str]]()
        for word, times in words.items():
            script = _script(word[0])
            if script in _UNSPACED:
                rare.update((_script(word[at]), word[at : at + 2]) for at in range(len(word) - 1))
            elif len(word) >= _RARE_CHARACTERS or (script == "DIGIT" and len(word) > 1):
                rare.add((script, word[:_RARE_CHARACTERS]))
            else:
                short[word] += times
        return cls(short, frozenset(rare))

    @property
    def scripts(self) -> frozenset[str]:
        """The scripts of a good part of the rare words."""
        counts = Counter(script for script, _ in self.rare)
        return frozenset(script for script in counts if counts[script] >= MIN_SCRIPT_SHARE * len(self.rare))


def _shares_words(texts: Iterable[str], source_texts: Iterable[str]) -> bool:
    """Whether enough of the rare words of a summary occur in its source.

    Where the two differ in language, one name, number or loan word is enough; where they differ in script, words are
    not judged at all.
    """
    summary, source = _Vocabulary.of(texts), _Vocabulary.of(source_texts)
    judged = {word for word in summary.rare if word[0] in source.scripts}
    unspaced = _UNSPACED & (summary.scripts | source.scripts)
    if len(judged) < MIN_JUDGED_WORDS or not unspaced <= (summary.scripts & source.scripts):
        return True
    top = [word for word, _ in source.short.most_common(TOP_WORDS)]
    is_same_language = bool(unspaced) or sum(word in summary.short for word in top) >= MIN_TOP_SHARE * len(
        top
    )
    return len(judged & source.rare) >= (MIN_OVERLAP * len(judged) if is_same_language else 1)


@cache
def _script(character: str) -> str:
    """Return the script of a character by its name in Unicode."""
    return "DIGIT" if character.isdigit() else unicodedata.name(character, "UNKNOWN").split()[0]


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
