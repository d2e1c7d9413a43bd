"""Seven chats of known sizes, with a fact planted in every turn.

Owns the texts and where the facts stand. It must not plan, price or count.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from open_webui_openrouter_pipe.responses.items import Item

Position = Literal["question", "output", "answer"]

SYSTEM_WORDS = 5_000
"""About 8,000 tokens, as an agent's instructions and tools have."""

_ENGLISH = (
    "account active after amount answer are before board build by call cancelled carrier change chat city cost "
    "customer date day deliver email every file first for harbour have invoice is item last late list message "
    "month name north of on open order paid parcel pending position price reason report request return route sent "
    "ship shop signed south state stock store sum table team that the this time total transfer under user value "
    "wait was weight with without"
)
_LANGUAGES = (
    "der Vertrag wurde gestern unterschrieben aber die Lieferung verzögert sich wegen des schlechten Wetters",
    "le navire est arrivé au port avant midi et la cargaison doit être déchargée sans attendre demain",
    "el informe explica por qué los costes subieron durante el invierno y qué haremos ahora",
    "договор был подписан вчера но поставка задерживается из за плохой погоды на севере страны",
    "dün sözleşme geldi ancak teslimat kötü hava nedeniyle gecikiyor ve ekip hâlâ bekliyor",
    "العقد تم توقيعه أمس لكن التسليم تأخر بسبب سوء الأحوال الجوية في الشمال",
    "अनुबंध कल हस्ताक्षरित हुआ लेकिन खराब मौसम के कारण डिलीवरी में देरी हो रही है",
    "合同 昨天 已经 签署 但是 由于 天气 原因 货物 的 交付 推迟 到 下周",
    "契約は 昨日 署名されました しかし 悪天候の ため 配送が 遅れて います",
    _ENGLISH,
)


@dataclass(frozen=True, slots=True)
class Fact:
    """A code name and an amount that stand in one sentence of a chat, and the number of the item that holds it."""

    item: int
    name: str
    amount: str

    def is_in(self, text: str) -> bool:
        """Whether a text holds both."""
        return self.name in text and self.amount in text


@dataclass(frozen=True, slots=True)
class PlantedChat:
    """Items with the turn of each, the last one a question without an answer, and the facts."""

    system: Item
    items: tuple[Item, ...]
    turn_of_item: tuple[int, ...]
    facts: tuple[Fact, ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """How large the turns of a chat are, in words, and how many; `outputs` are the rounds of a turn."""

    turns: int
    question: int = 130
    answer: int = 400
    outputs: int = 0
    pasted_every: int = 0
    languages: bool = False
    positions: tuple[Position, ...] = ("question", "answer")


ROUNDS = 3
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
PASTED_WORDS = 4_000
OUTPUT_ROWS = 26
"""About 2,000 tokens."""


def write_chat(shape: Shape) -> PlantedChat:
    """Write the chat; always the same for the same shape."""
    return _Writer(shape).chat()


class _Writer:
    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._rand = random.Random(11)  # noqa: S311 - a seeded simulation
        self._items: list[Item] = []
        self._turns: list[int] = []
        self._facts: list[Fact] = []

    def chat(self) -> PlantedChat:
        shape = self._shape
        system = message("system", self._prose(SYSTEM_WORDS, _ENGLISH))
        for turn in range(shape.turns - 1):
            self._write_turn(turn)
        last = shape.turns - 1
        if shape.turns == 2:  # the current turn is the long one
            self._write_turn(last)
            del self._items[-1], self._turns[-1]
        else:
            self._add(last, message("user", "And now?"))
        return PlantedChat(system, tuple(self._items), tuple(self._turns), tuple(self._facts))

    def _write_turn(self, turn: int) -> None:
        shape = self._shape
        vocabulary = _LANGUAGES[turn % len(_LANGUAGES)] if shape.languages else _ENGLISH
        position = shape.positions[turn % len(shape.positions)]
        outputs = shape.outputs if len(shape.positions) > 1 or turn else 1
        question = self._prose(shape.question, vocabulary)
        if shape.pasted_every and turn % shape.pasted_every == 0:
            question += "\n\n" + self._prose(PASTED_WORDS, vocabulary)
        self._add_with_fact(turn, partial(message, "user"), question, planted=position == "question")
        for number in range(outputs):
            call_id = f"call_{turn}_{number}"
            arguments = json.dumps({"query": f"select {turn} {number}"})
            self._add(
                turn, {"type": "function_call", "call_id": call_id, "name": "query", "arguments": arguments}
            )
            planted = position == "output" and (number == 1 or (outputs > ROUNDS and number % 6 == 0))
            self._add_with_fact(turn, partial(_output, call_id), self._rows(), planted=planted)
        answer = self._prose(shape.answer, vocabulary)
        self._add_with_fact(turn, partial(_answer, f"m{turn}"), answer, planted=position == "answer")

    def _add(self, turn: int, item: Item) -> None:
        self._items.append(item)
        self._turns.append(turn)

    def _add_with_fact(self, turn: int, build: Callable[[str], Item], text: str, *, planted: bool) -> None:
        if planted:
            number = len(self._facts)
            name = f"{self._rand.choice(_ENGLISH.split()).title()}-{1000 + 7 * number}"
            amount = f"{self._rand.randrange(1_000, 9_999):,}"
            self._facts.append(Fact(len(self._items), name, amount))
            middle = text.index(" ", len(text) // 2)
            text = f"{text[:middle]}.\nThe limit of {name} is {amount} EUR.\n{text[middle + 1 :]}"
        self._add(turn, build(text))

    def _prose(self, words: int, vocabulary: str) -> str:
        choices = vocabulary.split()
        sentences: list[str] = []
        while words > 0:
            length = min(words, self._rand.randint(8, 16))
            sentences.append(" ".join(self._rand.choices(choices, k=length)))
            words -= length
        return ". ".join(sentences) + "."

    def _rows(self) -> str:
        rows: list[dict[str, Any]] = [
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


def message(role: Any, text: str) -> Item:
    """A message of the user or the system."""
    return {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}


def _answer(item_id: str, text: str) -> Item:
    content: Any = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "role": "assistant", "id": item_id, "status": "completed", "content": content}


def _output(call_id: str, text: str) -> Item:
    return {"type": "function_call_output", "call_id": call_id, "output": text}


def text_of(item: Item) -> str:
    """All text that an item holds."""
    fields: Any = item
    content = fields.get("output") or fields.get("arguments") or fields.get("content") or ""
    return content if isinstance(content, str) else "\n".join(str(part.get("text", "")) for part in content)


def sentences_with_details(text: str) -> Iterator[str]:
    """The lines of a text that name an amount with its currency, as a planted fact does."""
    return (line for line in text.splitlines() if line.startswith("The limit of "))
