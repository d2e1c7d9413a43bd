"""Chats whose every word is known beforehand, as turns of plain texts, and their items on the wire.

An agent's chat and a plain one of sizes in tokens, and seven chats of sizes in words with a fact planted in every turn.
They are always the same. Owns the texts and where the facts stand. It must not plan, price or count.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

from open_webui_openrouter_pipe.conversation.estimate import estimate_tokens
from scripts.paths import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from open_webui_openrouter_pipe.responses.items import Item

TOOL = "query"
SEED = 11

SYSTEM_TOKENS = 8_000
ROUNDS = 3
"""Calls of the tool in a turn of an agent's chat."""
AGENT_TOKENS = {"question": 196, "output": 1_970, "answer": 600}
PLAIN_TOKENS = {"question": 300, "answer": 1_500}

SYSTEM_WORDS = 5_000
"""About 8,000 tokens, as an agent's instructions and tools have."""
PASTED_WORDS = 4_000
OUTPUT_ROWS = 26
"""About 2,000 tokens."""

_VOCABULARY, *_LANGUAGES = (
    (ROOT / "scripts" / "benchmarks" / "recall_chats" / "words.txt").read_text("utf-8").splitlines()
)
_WORDS, _ENGLISH = _VOCABULARY.split(), _LANGUAGES[-1]


def message(role: Any, text: str) -> Item:
    """A message of the user or the system."""
    return {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}


def answer(item_id: str, text: str) -> Item:
    """A message of the model."""
    content: Any = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "role": "assistant", "id": item_id, "status": "completed", "content": content}


def call_and_output(call_id: str, tool: str, arguments: Any, output: str) -> list[Item]:
    """A call of a tool, and what it returned."""
    return [
        {"type": "function_call", "call_id": call_id, "name": tool, "arguments": json.dumps(arguments)},
        {"type": "function_call_output", "call_id": call_id, "output": output},
    ]


def text_of(item: Item) -> str:
    """All text that an item holds."""
    fields: Any = item
    content = fields.get("output") or fields.get("arguments") or fields.get("content") or ""
    return content if isinstance(content, str) else "\n".join(str(part.get("text", "")) for part in content)


@dataclass(frozen=True, slots=True)
class Turn:
    """What the user says, what the tool gives in one round after the other, and the model's answer, "" for none."""

    text: str
    outputs: tuple[str, ...] = ()
    answer: str = ""


@dataclass(frozen=True, slots=True)
class Fact:
    """A code name and an amount that stand in one sentence of a chat."""

    name: str
    amount: str

    def is_in(self, text: str) -> bool:
        """Whether a text holds both."""
        return self.name in text and self.amount in text


@dataclass(frozen=True, slots=True)
class Chat:
    """A whole chat, and the facts that are planted in it."""

    system: str
    turns: tuple[Turn, ...]
    facts: tuple[Fact, ...] = ()

    def outputs(self) -> dict[str, str]:
        """Every output of the tool by the query that asks for it."""
        return {
            f"select {number} {part}": output
            for number, turn in enumerate(self.turns)
            for part, output in enumerate(turn.outputs)
        }

    def items(self, number: int) -> list[Item]:
        """A turn on the wire."""
        turn = self.turns[number]
        items = [message("user", turn.text)]
        for part, output in enumerate(turn.outputs):
            arguments = {"query": f"select {number} {part}"}
            items += call_and_output(f"call_{number}_{part}", TOOL, arguments, output)
        return [*items, answer(f"msg_{number}", turn.answer)] if turn.answer else items

    def all_items(self) -> tuple[list[Item], list[int]]:
        """The chat on the wire, and the turn of each item."""
        turns = [self.items(number) for number in range(len(self.turns))]
        return list(chain.from_iterable(turns)), [at for at, items in enumerate(turns) for _ in items]


# --- sizes in tokens -----------------------------------------------------------------------------------------


def agent_chat(turns: int) -> Chat:
    """In each turn three tool outputs of about 2,000 tokens in as many rounds: four requests."""
    return _sized_chat(turns, AGENT_TOKENS)


def plain_chat(turns: int) -> Chat:
    """A chat without tools: questions of 300 tokens, answers of 1,500."""
    return _sized_chat(turns, PLAIN_TOKENS)


def _sized_chat(turns: int, tokens: Mapping[str, int]) -> Chat:
    rand = random.Random(SEED)  # noqa: S311 - a seeded simulation
    rounds = ROUNDS if "output" in tokens else 0
    system = _prose(rand, SYSTEM_TOKENS)

    def turn() -> Turn:
        question = _prose(rand, tokens["question"])
        outputs = tuple(_rows(rand, tokens["output"]) for _ in range(rounds))
        return Turn(question, outputs, _prose(rand, tokens["answer"]))

    return Chat(system, tuple(turn() for _ in range(turns)))


def _prose(rand: random.Random, tokens: int) -> str:
    words: list[str] = []
    while estimate_tokens(" ".join(words)) < tokens:
        words += rand.choices(_WORDS, k=max(1, tokens // 20))
    return " ".join(words)


def _rows(rand: random.Random, tokens: int) -> str:
    rows: list[dict[str, Any]] = []
    while estimate_tokens(json.dumps(rows)) < tokens:
        rows += [row(rand) for _ in range(3)]
    return json.dumps(rows)


def row(rand: random.Random) -> dict[str, Any]:
    """A row of a table."""
    return {
        "id": rand.randrange(10**6),
        "customer_name": f"{rand.choice(_WORDS).title()} {rand.choice(_WORDS).title()}",
        "email": f"{rand.choice(_WORDS)}.{rand.choice(_WORDS)}@example.com",
        "total": round(rand.uniform(1, 5000), 2),
        "status": rand.choice(["paid", "open", "cancelled"]),
        "created_at": f"2026-{rand.randint(1, 12):02}-{rand.randint(1, 28):02}T{rand.randint(0, 23):02}:15:00Z",
        "note": " ".join(rand.choices(_WORDS, k=6)),
    }


def log_line(rand: random.Random) -> str:
    """A line of a server's log."""
    level = rand.choice(["INFO", "WARNING", "ERROR", "DEBUG"])
    address = ".".join(str(rand.randint(1, 254)) for _ in range(4))
    said = " ".join(rand.choices(_WORDS, k=5))
    return (
        f"2026-11-{rand.randint(1, 28):02} 0{rand.randint(0, 9)}:{rand.randint(10, 59)}:{rand.randint(10, 59)},"
        f"{rand.randint(100, 999)} {level} [worker-{rand.randint(1, 9)}] {address} - {said} "
        f"id={rand.randrange(10**6)} took {rand.uniform(1, 900):.2f}ms"
    )


# --- facts in every turn -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Shape:
    """How large the turns of a chat are, in words, and how many; `outputs` are the rounds of a turn.

    The chat ends with a question that has no answer yet, one of two turns in the middle of the second.
    """

    turns: int
    question: int = 130
    answer: int = 400
    outputs: int = 0
    pasted_every: int = 0
    languages: bool = False
    positions: tuple[Literal["question", "output", "answer"], ...] = ("question", "answer")


SHAPES: Mapping[str, Shape] = {
    **{
        f"agent {turns}": Shape(turns, outputs=ROUNDS, positions=("question", "output", "answer"))
        for turns in (40, 80, 200)
    },
    "plain 300": Shape(300, question=200, answer=1_000),
    "documents 60": Shape(60, answer=600, pasted_every=3),
    "one turn of 60 rounds": Shape(2, outputs=60, positions=("output",)),
    "ten languages 90": Shape(90, question=130, answer=500, languages=True),
}


def write_chat(shape: Shape) -> Chat:
    """Write the chat of a shape, with facts."""
    return _Planter(shape).chat()


class _Planter:
    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._rand = random.Random(SEED)  # noqa: S311 - a seeded simulation
        self._facts: list[Fact] = []

    def chat(self) -> Chat:
        shape = self._shape
        system = self._prose(SYSTEM_WORDS, _ENGLISH)
        turns = [self._turn(number) for number in range(shape.turns - 1)]
        last = Turn("And now?") if shape.turns > 2 else replace(self._turn(1), answer="")
        return Chat(system, (*turns, last), tuple(self._facts))

    def _turn(self, turn: int) -> Turn:
        shape = self._shape
        vocabulary = _LANGUAGES[turn % len(_LANGUAGES)] if shape.languages else _ENGLISH
        position = shape.positions[turn % len(shape.positions)]
        rounds = shape.outputs if len(shape.positions) > 1 or turn else 1
        question = self._prose(shape.question, vocabulary)
        if shape.pasted_every and turn % shape.pasted_every == 0:
            question += "\n\n" + self._prose(PASTED_WORDS, vocabulary)
        question = self._planted(question) if position == "question" else question
        outputs = []
        for number in range(rounds):
            output = self._table()
            holds_fact = position == "output" and (number == 1 or (rounds > ROUNDS and number % 6 == 0))
            outputs.append(self._planted(output) if holds_fact else output)
        said = self._prose(shape.answer, vocabulary)
        return Turn(question, tuple(outputs), self._planted(said) if position == "answer" else said)

    def _planted(self, text: str) -> str:
        """The text with a new fact in its middle."""
        name = f"{self._rand.choice(_ENGLISH.split()).title()}-{1000 + 7 * len(self._facts)}"
        amount = f"{self._rand.randrange(1_000, 9_999):,}"
        self._facts.append(Fact(name, amount))
        middle = text.index(" ", len(text) // 2)
        return f"{text[:middle]}.\nThe limit of {name} is {amount} EUR.\n{text[middle + 1 :]}"

    def _prose(self, words: int, vocabulary: str) -> str:
        choices = vocabulary.split()
        sentences: list[str] = []
        while words > 0:
            length = min(words, self._rand.randint(8, 16))
            sentences.append(" ".join(self._rand.choices(choices, k=length)))
            words -= length
        return ". ".join(sentences) + "."

    def _table(self) -> str:
        rows = [
            {
                "id": self._rand.randrange(10**6),
                "customer": " ".join(self._rand.choices(_ENGLISH.split(), k=2)).title(),
                "total": round(self._rand.uniform(1, 5000), 2),
                "status": self._rand.choice(["paid", "open", "cancelled"]),
                "created_at": f"2026-{self._rand.randint(1, 12):02}-{self._rand.randint(1, 28):02}T10:15:00Z",
                "note": " ".join(self._rand.choices(_ENGLISH.split(), k=6)),
            }
            for _ in range(OUTPUT_ROWS)
        ]
        return json.dumps(rows)


def sentences_with_details(text: str) -> Iterator[str]:
    """The lines of a text that name an amount with its currency, as a planted fact does."""
    return (line for line in text.splitlines() if line.startswith("The limit of "))
