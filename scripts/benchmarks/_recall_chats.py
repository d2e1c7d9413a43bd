"""Three long chats in different styles, each with eighty facts and a question for each, asked in other words.

The facts and the pieces of all other text are written by hand, in `recall_chats/`; here they are put together, always
the same. The other text has the names, places, amounts and numbers of the facts' kinds with other values. Owns the
texts and where the facts stand. It must not plan, count or search.

A block of a file of facts is a passage, with who or what says it and its exact words in brackets, and the question. A
question after `??` shares no word with the passage but such as stand in every text. Behind `~` stands how a language
model words the search for it, without what only the answer says. In a file of other text each
section holds pieces, one a line, or in double brackets one a block; `%name%` is replaced by a piece of that section,
`%3..9%` by a number. With `!` it is the same piece throughout the text, with `^` it begins with a capital.
"""

from __future__ import annotations

import json
import random
import re
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from scripts.paths import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Json = dict[str, Any]

DIRECTORY = ROOT / "scripts" / "benchmarks" / "recall_chats"
SEED = 15

_MARKED = re.compile("⟦(.+?)⟧")
_SLOT = re.compile(r"%(?:(?P<low>\d+)\.\.(?P<high>\d+)|(?P<name>[a-z_]+)(?P<same>!?)(?P<capital>\^?))%")
_SECTION = re.compile(r"^(\[\[?)([a-z_]+)\]\]?\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Fact:
    """A passage that stands once in a chat: its exact words, who or which tool says it, and what is asked about it.

    `query` is how a model words the search. What is tuned is tuned for those that are not held out, every second one.
    """

    words: str
    passage: str
    kind: str
    question: str
    query: str
    shares_words: bool
    is_held_out: bool = False
    turn: int = 0


@dataclass(frozen=True, slots=True)
class RecallChat:
    """A chat as Open WebUI sends it, without a question at its end; a fact's turn is counted from zero."""

    name: str
    messages: tuple[Json, ...]
    tools: tuple[Json, ...]
    facts: tuple[Fact, ...]

    def ending_with(self, question: str) -> list[Json]:
        """The messages with one more of the user."""
        return [*self.messages, {"role": "user", "content": question}]


@dataclass(frozen=True, slots=True)
class Style:
    """How a chat is divided: its turns, how many tools are called in each, and how much everybody says, in pieces.

    `results` are the kinds of tool results, each with the name of its tool and how many pieces it has.
    """

    system: str
    turns: int
    answer: tuple[int, int]
    calls: int = 0
    results: Mapping[str, tuple[str, int, int]] = field(default_factory=dict)


STYLES: Mapping[str, Style] = {
    "agent": Style(
        "You are the operations assistant of Fernhill Supply. Use the tools, name your sources, and be brief.",
        turns=110,
        answer=(5, 9),
        calls=3,
        results={
            "log": ("read_log", 20, 45),
            "rows": ("query", 14, 34),
            "table": ("read_sheet", 18, 40),
            "page": ("fetch_page", 14, 30),
            "file": ("read_file", 25, 60),
        },
    ),
    "plain": Style(
        "You are a kind and practical companion for everyday questions. Answer in the language of the user.",
        turns=530,
        answer=(22, 40),
    ),
    "coding": Style(
        "You are a senior engineer on the Tidewatch repository. Read before you change, and keep changes small.",
        turns=170,
        answer=(5, 10),
        calls=2,
        results={"file": ("read_file", 8, 18), "run": ("run_command", 14, 40)},
    ),
}
LANGUAGES = ("german", "french", "spanish", "chinese", "japanese", "hindi", "russian")
LANGUAGE_EVERY = 6
"""Of the plain chat's turns: how often one is in another language than English."""
SEPARATORS = {"rows": ",\n", "page": "\n\n", "file": "\n"}


@cache
def write_chat(name: str) -> RecallChat:
    """Write the chat of a style; always the same."""
    return _Writer(name).chat()


def read_facts(name: str) -> list[Fact]:
    """The facts of a chat in the order of their file, with the number of no turn yet."""
    blocks = (DIRECTORY / f"{name}_facts.txt").read_text("utf-8").strip().split("\n\n")
    return [replace(_read_fact(block), is_held_out=bool(at % 2)) for at, block in enumerate(blocks)]


def _read_fact(block: str) -> Fact:
    *lines, query = block.splitlines()
    asked = [line for line in lines if line.startswith("?")]
    kind, _, marked = "\n".join(line for line in lines if line not in asked).partition(": ")
    (words,), (question,) = _MARKED.findall(marked), asked
    return Fact(
        words,
        passage=_MARKED.sub(r"\1", marked),
        kind=kind,
        question=question.lstrip("? "),
        query=query.removeprefix("~ "),
        shares_words=not question.startswith("??"),
    )


class Filler:
    """Text from the pieces of a file."""

    def __init__(self, name: str, rand: random.Random) -> None:
        self._rand = rand
        text = (DIRECTORY / f"{name}.txt").read_text("utf-8")
        _, *fields = _SECTION.split(text)
        self._pieces = {
            section: body.strip("\n").split("\n\n" if brackets == "[[" else "\n")
            for brackets, section, body in zip(fields[::3], fields[1::3], fields[2::3], strict=True)
        }

    def pieces(self, section: str, least: int, most: int) -> list[str]:
        """So many pieces of a section; none comes again before all of them have."""
        wanted, found = self._rand.randint(least, most), list[str]()
        while len(found) < wanted:
            pieces = self._pieces[section]
            found += self._rand.sample(pieces, min(len(pieces), wanted - len(found)))
        return list(map(self._filled, found))

    def one(self, section: str) -> str:
        """A piece of a section."""
        return self.pieces(section, 1, 1)[0]

    def _filled(self, text: str) -> str:
        same: dict[str, str] = {}

        def fill(slot: re.Match[str]) -> str:
            if slot["low"]:
                return str(self._rand.randint(int(slot["low"]), int(slot["high"])))
            name = slot["name"]
            piece = (same.get(name) if slot["same"] else None) or self.one(name)
            if slot["same"]:
                same[name] = piece
            return piece[0].upper() + piece[1:] if slot["capital"] else piece

        return _SLOT.sub(fill, text)


class _Writer:
    """Writes one chat."""

    def __init__(self, name: str) -> None:
        self._name, self._style = name, STYLES[name]
        self._rand = random.Random(SEED)  # noqa: S311 - a seeded simulation
        self._filler = Filler(f"{name}_filler", self._rand)

    def chat(self) -> RecallChat:
        style, facts = self._style, read_facts(self._name)
        self._rand.shuffle(facts)
        turns = [int((number + 0.5) * style.turns / len(facts)) for number in range(len(facts))]
        messages: list[Json] = [{"role": "system", "content": style.system}]
        for turn in range(style.turns):
            here = [fact for fact, at in zip(facts, turns, strict=True) if at == turn]
            messages += self._turn(turn, here)
        found = [replace(each, turn=turn) for each, turn in zip(facts, turns, strict=True)]
        tools = tuple(_tool(tool) for tool, _, _ in style.results.values())
        return RecallChat(self._name, tuple(messages), tools, tuple(found))

    def _turn(self, turn: int, facts: Sequence[Fact]) -> Iterator[Json]:
        said = {kind: [fact.passage for fact in facts if fact.kind == kind] for kind in ("user", "answer")}
        question, answer = self._plain() if self._name == "plain" else self._working()
        separator = " " if self._name == "plain" else "\n\n"
        yield {"role": "user", "content": separator.join(self._mixed(question, said["user"]))}
        for number, kind in enumerate(self._kinds(facts)):
            planted = [fact.passage for fact in facts if fact.kind == kind]
            yield from self._call(f"call_{turn}_{number}", kind, planted)
        yield {"role": "assistant", "content": _paragraphs(self._mixed(answer, said["answer"]))}

    def _plain(self) -> tuple[list[str], list[str]]:
        """A question and an answer of everyday life, with some of two topics."""
        filler, (least, most) = self._filler, self._style.answer
        if self._rand.randrange(LANGUAGE_EVERY) == 0:
            language = self._rand.choice(LANGUAGES)
            return filler.pieces(language, 1, 3), filler.pieces(language, 5, 9)
        topic, other = filler.pieces("topic", 2, 2)
        question = [*filler.pieces(f"{topic}_user", 0, 1), *filler.pieces("bulk", 1, 4)]
        answer = [*filler.pieces(f"{topic}_answer", 2, 4), *filler.pieces(f"{other}_answer", 1, 2)]
        return question, self._shuffled([*answer, *filler.pieces("bulk", least, most)])

    def _working(self) -> tuple[list[str], list[str]]:
        """A question and an answer of somebody's work."""
        filler, (least, most) = self._filler, self._style.answer
        question = [*filler.pieces("question", 1, 1), *filler.pieces("bulk", 1, 3)]
        return question, self._shuffled([*filler.pieces("answer", 2, 4), *filler.pieces("bulk", least, most)])

    def _shuffled(self, pieces: list[str]) -> list[str]:
        self._rand.shuffle(pieces)
        return pieces

    def _kinds(self, facts: Sequence[Fact]) -> list[str]:
        """The kinds of the turn's tool results: those of its facts, and others."""
        possible = sorted(self._style.results)
        kinds = list(dict.fromkeys(fact.kind for fact in facts if fact.kind in possible))
        others = self._rand.choices(possible, k=self._style.calls) if possible else []
        kinds += [kind for kind in others if kind not in kinds][: max(0, self._style.calls - len(kinds))]
        self._rand.shuffle(kinds)
        return kinds

    def _call(self, call_id: str, kind: str, planted: Sequence[str]) -> Iterator[Json]:
        """A call of a tool with its result."""
        tool, least, most = self._style.results[kind]
        pieces = self._mixed(self._filler.pieces(kind, least, most), planted)
        result = SEPARATORS.get(kind, "\n").join(pieces)
        arguments = json.dumps({"name": self._filler.one(ARGUMENTS[self._name]), "limit": len(pieces)})
        function = {"name": tool, "arguments": arguments}
        call = {"id": call_id, "type": "function", "function": function}
        yield {"role": "assistant", "content": "", "tool_calls": [call]}
        yield {
            "role": "tool",
            "tool_call_id": call_id,
            "content": f"[\n{result}\n]" if kind == "rows" else result,
        }

    def _mixed(self, pieces: Sequence[str], planted: Sequence[str]) -> list[str]:
        """The pieces with the planted ones anywhere among them."""
        mixed = list(pieces)
        for each in planted:
            mixed.insert(self._rand.randint(0, len(mixed)), each)
        return mixed


ARGUMENTS = {"agent": "word", "coding": "module"}
"""The section that names what a tool is asked for."""


def _paragraphs(sentences: Sequence[str]) -> str:
    """A text of paragraphs of four sentences; code stands alone."""
    if any("\n" in each for each in sentences):
        return "\n\n".join(sentences)
    return "\n\n".join(" ".join(sentences[at : at + 4]) for at in range(0, len(sentences), 4))


def _tool(name: str) -> Json:
    """The definition of a tool."""
    properties = {
        "name": {"type": "string", "description": "What to read: a name, a path or a query."},
        "limit": {"type": "integer", "description": "The most lines or rows to return."},
    }
    parameters = {"type": "object", "properties": properties, "required": ["name"]}
    description = f"{name.replace('_', ' ').capitalize()} and return it as text."
    return {"type": "function", "name": name, "description": description, "parameters": parameters}


ORDINARY_TURNS = tuple((DIRECTORY / "ordinary_turns.txt").read_text("utf-8").splitlines())
"""Last messages to which nothing of a chat belongs, as many in each of five languages."""
