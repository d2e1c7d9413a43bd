"""What a request and `/context` claim to be there word for word is there, and what they call shortened is not whole.

Everything is judged by the chat's own texts and by the bytes of `input[]`, read as a model or a user reads them: each
line of a chat bears a name of its own, so that it can be told where it stands. Planner, record and summaries are not
asked.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from html import unescape
from itertools import groupby
from typing import Any, Final

import pytest

from open_webui_openrouter_pipe.context.page import context_page
from open_webui_openrouter_pipe.context.report import ChatRecord, report_context
from open_webui_openrouter_pipe.conversation.budget import ContextOverflow
from open_webui_openrouter_pipe.planning.plan import Plan
from open_webui_openrouter_pipe.recall.tool import GAP, HEADING
from open_webui_openrouter_pipe.responses.items import Item
from open_webui_openrouter_pipe.summaries.completion import complete_summary
from open_webui_openrouter_pipe.summaries.segments import SummaryTarget
from open_webui_openrouter_pipe.summaries.summary import (
    SUMMARY_HEADER,
    Constraint,
    ModelSummary,
    Summary,
)
from tests.planning.language import Case
from tests.support.chats import History, Memory, answer, call, entries, history, output, reasoning, user

SHARE_OF_WINDOW: Final = {3: 1.2, 8: 0.4, 12: 0.9, 20: 1.5, 36: 3.0}
"""How large chats are, by their turns."""
STATES: Final = {"word for word", "shortened", "summarized", "left out"}
SHAPES: Final = ("plain", "asked", "tools", "outputs")
WINDOWS: Final = (4_096, 8_192, 16_384, 65_536, 200_000)
CUT: Final = re.compile(r"\n\[\.\.\. ([\d,]+) characters omitted \.\.\.(?: #\d{6})?\]\n")
NOTE: Final = re.compile(
    r"\[(\d+) earlier turns? (?:\((\d+)(?: to (\d+))?((?:, not \d+)*)\) )?omitted to fit the model's context window\.\]"
)
RECORD: Final = re.compile(r"\[What the user wrote in turns (\d+) to (\d+), oldest first; .*\]")
SAID: Final = re.compile(r"(The user wrote|A system message), turn (\d+):")
ROW: Final = re.compile(
    r'<th scope="row">(\d+)<td><div dir="auto">.*?</div>.*?<i class="\w+"></i>([\w ]+)<td>'
)
SHOWN: Final = re.compile(r'<div class="text" dir="auto">(.*?)</div>', re.DOTALL)
FORMS: Final = (
    "{name} the boat sails at noon.",
    "  {name} with blanks around it  ",
    "> {name} somebody else wrote this",
    "- {name}: `make all` and \u201equotes\u201c, caf\u00e9, \u6e2f",
    "```\n{name} = [1, 2]\n\n{name} += 3\n```",
    "| {name} | 12.50 | <b>a</b> |",
    "{name} ends in a carriage return\r",
    "",
)


def text(name: str, tokens: int, rand: random.Random) -> str:
    """A text of about so many tokens, in at most 60 lines of many forms; each but the empty ones has its own name."""
    count = min(60, max(1, tokens // 12))
    more = " more" * (tokens // count - 12)
    lines = (rand.choice(FORMS).format(name=f"{name}.{at}x{more}") for at in range(count))
    return "\n".join([f"{name}begin and {name}first", *lines, f"{name}end"])


def chat(shape: str, turns: int, tokens: int) -> History:
    """A chat with so many turns of about so many tokens each, and a question about one of them."""
    rand = random.Random(f"{shape} {turns} {tokens}")
    made: list[list[Item]] = []
    for turn in range(turns):
        shares = {"plain": (1, 0, 1), "asked": (6, 0, 1), "tools": (1, 4, 1), "outputs": (1, 24, 1)}[shape]
        each = tokens // sum(shares)
        sizes = [int(share * each * rand.choice([0.3, 1, 1, 2])) for share in shares]
        items: list[Item] = [user(text(f"t{turn}u", sizes[0], rand))]
        for at in range(2 if shares[1] and turn % 3 else 0):
            items += [reasoning(), answer(text(f"t{turn}c{at}", 12, rand), f"c{turn}_{at}")]
            items.append(call(f"{turn}_{at}", json.dumps({"q": text(f"t{turn}a{at}", 24, rand)})))
            items.append(output(f"{turn}_{at}", text(f"t{turn}o{at}", sizes[1] // 2, rand)))
        made.append([*items, answer(text(f"t{turn}m", sizes[2], rand), f"m{turn}")])
    names = [f"t{rand.randrange(turns)}{who}" for who in "mu"]
    asked = " and ".join(f"the {name}begin, the {name}first" for name in names)
    return history(*made, [user(f"What about {asked}?")])


@dataclass(frozen=True)
class Request:
    """What is sent of a chat, and what `/context` says of it."""

    chat: History
    plan: Plan
    page: str

    @property
    def turns(self) -> list[list[Item]]:
        """The items of each earlier turn as the chat has them."""
        pairs = groupby(self.chat.numbered, key=lambda pair: pair[1])
        return [[item for item, _ in group] for _, group in pairs][:-1]

    @property
    def sent(self) -> Counter[str]:
        """The bytes of each item that is sent."""
        return Counter(map(json.dumps, self.plan.items))

    def texts(self, start: str) -> Iterator[str]:
        """The texts of the user's messages that begin like this."""
        for item in self.plan.items:
            if item["type"] == "message" and texts_of(item)[0].startswith(start):
                yield from texts_of(item)

    @property
    def states(self) -> Mapping[int, str]:
        """What the page says of each turn, by its index."""
        return {int(number) - 1: state for number, state in ROW.findall(self.page)}


def texts_of(item: Any) -> list[str]:
    """What an item says: the parts of a message, arguments or an output."""
    if item["type"] == "message":
        return [part["text"] for part in item["content"]]
    return [item.get("arguments") or item.get("output") or ""]


def written(target: SummaryTarget) -> Summary:
    """What becomes of a model's answer that names demands of the user, invents one, and says something of each turn."""
    numbers = range(target.first_turn, target.first_turn + len(target.turns))
    said = ModelSummary(
        f"They spoke of {numbers}.",
        decisions=entries(*(f"Decided {at}." for at in numbers)),
        dead_ends=entries(*(f"Failed {at}." for at in numbers)),
        constraints=(
            Constraint(numbers[0], "Always fly."),
            *(Constraint(at, "somebody else wrote this") for at in numbers),
            *(Constraint(at, f"t{at - 1}ubegin") for at in numbers),
        ),
    )
    return complete_summary(said, target, count=lambda text: len(text) // 4, max_tokens=target.max_tokens)


def requests() -> Iterator[Any]:
    """Chats of all shapes, by windows, settings and commands."""
    commands = (
        "",
        "; {half} /compact",
        "; {half} /compact; {last} /restore 2-3",
        "; {last} /restore",
        "; 2 /aim thrifty",
    )
    terms = (
        "recall=True recall_tool=True",
        "skip",
        "recall=True context_strategy=prune",
        "recall=True context_strategy=clip clip_last_messages=5",
        "recall=True",
    )
    for window in WINDOWS:
        for at in range(10 if window < 20_000 else 3):
            shape, told, chosen = SHAPES[at % 4], commands[at % 5], terms[(at + at // 5) % 5]
            yield pytest.param(window, shape, f"{chosen}{told}", id=f"{window} {shape} {chosen}{told}")


def planned(window: int, shape: str, terms: str) -> Iterator[Request]:
    """The requests of a chat at several lengths: it fits, or is up to three times as large as its window."""
    memory = Memory()
    for turns, share in SHARE_OF_WINDOW.items():
        found = chat(shape, turns, int(window * share) // turns)
        when = f"now window={window} {terms.format(half=turns // 2, last=turns)}"
        case = Case.read(when, found)
        with suppress(ContextOverflow):
            required = case.plan(memory).required_summaries
            memory.summaries.update({each.segment: written(each) for each in required})
            sent = case.plan(memory)
            report = report_context(sent, ChatRecord(), model="A model", settings=case.settings)
            yield Request(found, sent, context_page(report))


@pytest.mark.parametrize(("window", "shape", "terms"), [*requests()])
def test_what_is_claimed_is_there(window: int, shape: str, terms: str) -> None:
    """In every request, for every law."""
    for request in planned(window, shape, terms):
        for law in LAWS:
            law(request)


def test_the_chats_have_all_that_is_judged() -> None:
    """Each frame of quotations with its lines for what is missing, each state of a turn, restored turns in a note."""
    found = [each for case in requests() if case.values[0] == 8_192 for each in planned(*case.values)]
    said = "\n".join(text for each in found for item in each.plan.items for text in texts_of(item))
    for mark in (
        CUT,
        NOTE,
        RECORD,
        SAID,
        re.compile(re.escape(HEADING)),
        re.compile(r"^- turn \d+: \"t", re.MULTILINE),
    ):
        assert mark.search(said)
    assert all(
        each in said
        for each in (" characters omitted]", " omitted here for length.]", ", not ", "[End of this")
    )
    assert {state for each in found for state in each.states.values()} == STATES


def a_turn_is_sent_as_the_page_says(request: Request) -> None:
    """Word for word: all of it, byte for byte, in its order; otherwise not all, and of an unsent one not an item."""
    sent = [*map(json.dumps, request.plan.items)]
    states = request.states
    for at, turn in enumerate(request.turns):
        whole = [*map(json.dumps, turn)]
        start = sent.index(whole[0]) if whole[0] in sent else len(sent)
        is_whole = sent[start : start + len(whole)] == whole
        assert is_whole == (states[at] == "word for word")
        named = {json.dumps(item) for item in turn if item["type"] != "reasoning"}
        unsent = states[at] in {"summarized", "left out"}
        assert not unsent or not named & set(sent)
        assert set(states.values()) <= STATES


def what_stands_for_an_item_is_its_head_and_tail(request: Request) -> None:
    """Around the true number of characters between them; facts of tools are judged elsewhere."""
    originals = {json.dumps(item) for item in request.chat.items}
    said = [texts_of(item)[0] for item in request.chat.items]
    for item in request.plan.items:
        text = texts_of(item)[0]
        if json.dumps(item) not in originals and CUT.search(text) and not text.startswith("[Tool: "):
            head, omitted, tail = CUT.split(text)
            kept = len(head) + len(tail)
            whole = [each for each in said if each.startswith(head) and each.endswith(tail)]
            assert int(omitted.replace(",", "")) in [len(each) - kept for each in whole]


def quotations_stand_in_the_messages_that_they_name(request: Request) -> None:
    """In summaries and notes: all lines but empty ones of a message, or fewer where some are said to be omitted."""
    for text in (*request.texts(SUMMARY_HEADER), *request.texts("[")):
        found = RECORD.search(text)
        if not found:
            continue
        first, last = int(found[1]), int(found[2])
        lines = text[found.end() :].strip().splitlines()
        omitted = int(lines.pop(0)[1:].split()[0]) if " omitted here for length." in lines[0] else 0
        marks = [at for at, line in enumerate(lines) if SAID.fullmatch(line)]
        assert not lines or marks[0] == 0
        assert omitted + len(marks) == last - first + 1
        for start, end in zip(marks, [*marks[1:], len(lines)], strict=True):
            turn = int(SAID.fullmatch(lines[start])[2])  # type: ignore[index]
            assert first <= turn <= last
            original = [line for line in texts_of(request.turns[turn - 1][0])[0].splitlines() if line.strip()]
            quoted = [line[2:] for line in lines[start + 1 : end] if line.startswith("> ")]
            others = [line for line in lines[start + 1 : end] if not line.startswith("> ")]
            assert all(re.fullmatch(r"\[[\d,]+ characters omitted\]", line) for line in others)
            assert (quoted == original) == (not others)
            rest = iter(original)
            assert all(any(line in each for each in rest) for line in joined(quoted, original))


def joined(quoted: Sequence[str], original: Sequence[str]) -> Sequence[str]:
    """The quoted lines, without the second of two that are pieces of one line."""
    return [
        line for at, line in enumerate(quoted) if line in original or at == 0 or quoted[at - 1] in original
    ]


def a_note_counts_what_is_not_there(request: Request) -> None:
    """As many turns as the page calls left out, and the ones that it names."""
    notes = [found for text in request.texts("[") if (found := NOTE.match(text))]
    left_out = [at + 1 for at, state in request.states.items() if state == "left out"]
    assert len(notes) <= 1
    for count, first, last, sent in (note.groups() for note in notes):
        assert int(count) == len(left_out)
        named = {*range(int(first), int(last or first) + 1)} if first else set(left_out)
        assert sorted(named - {*map(int, re.findall(r"\d+", sent or ""))}) == left_out


def what_was_looked_up_stands_where_it_says(request: Request) -> None:
    """Each line behind its mark is a piece of a line of an item in that turn, by that author, byte for byte."""
    for text in request.texts(HEADING):
        said: list[str] = []
        for line in text.removeprefix(HEADING).strip("\n").split("\n"):
            if named := re.fullmatch(r"Turn (\d+), (user|assistant|tool) ?\w*:", line):
                said = [each for item in request.turns[int(named[1]) - 1] for each in texts_of(item)]
            elif line != GAP:
                assert line.startswith("> ")
                assert any(line[2:] in each for each in said)


def a_summary_is_shown_as_it_is_sent(request: Request) -> None:
    """Each line that the page and its text show of summaries stands in the request, in the same order."""
    sent = "\n".join(request.texts(SUMMARY_HEADER))
    for shown in SHOWN.findall(request.page):
        for part in unescape(shown).split("[End of this summary]\n"):
            assert part.removesuffix("[End of this summary]") in sent
    shown_lines = {line for shown in SHOWN.findall(request.page) for line in unescape(shown).splitlines()}
    summaries = sent.partition("[Summary of ")
    assert {*"".join(summaries[1:]).splitlines()} == shown_lines


def a_demand_is_what_the_user_wrote(request: Request) -> None:
    """In the turn that is named, not what they quoted, and nothing that a model invented."""
    for text in request.texts(SUMMARY_HEADER):
        for turn, quote in re.findall(r'^- turn (\d+): "(.*)"$', text, re.MULTILINE):
            assert quote in texts_of(request.turns[int(turn) - 1][0])[0]
            assert quote != "somebody else wrote this"


LAWS: Final = (
    a_turn_is_sent_as_the_page_says,
    what_stands_for_an_item_is_its_head_and_tail,
    quotations_stand_in_the_messages_that_they_name,
    a_note_counts_what_is_not_there,
    what_was_looked_up_stands_where_it_says,
    a_summary_is_shown_as_it_is_sent,
    a_demand_is_what_the_user_wrote,
)
