"""Chats whose every word is known beforehand.

Owns the texts, their form on the wire and the model's lines. It must not send or price anything.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scripts.benchmarks.context import AgentChat
from scripts.standin.prompt import text_of

if TYPE_CHECKING:
    from open_webui_openrouter_pipe.responses.items import Item

Json = dict[str, Any]

TOOL = "query"
PLAIN_USER_TOKENS = 300
PLAIN_ANSWER_TOKENS = 1_500
MANY_ROUNDS = 1_000_000
"""A call stands in each line that says so, however many calls the request holds."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What the user says, what the tool gives in one round after the other, and what the model answers."""

    text: str
    outputs: tuple[str, ...]
    answer: str


@dataclass(frozen=True, slots=True)
class Chat:
    """A whole chat."""

    system: str
    turns: tuple[Turn, ...]

    def arguments(self, number: int, part: int) -> Json:
        """What the tool is asked in a round of a turn."""
        return {"query": f"select {number} {part}"}

    def outputs(self) -> dict[str, str]:
        """Every output of the tool by the query that asks for it."""
        return {
            self.arguments(number, part)["query"]: output
            for number, turn in enumerate(self.turns)
            for part, output in enumerate(turn.outputs)
        }

    def lines(self, number: int) -> Iterator[str]:
        """What the model says in a turn, request by request, as the stand-in's directives."""
        turn = self.turns[number]
        for part in range(len(turn.outputs)):
            call = f"call={TOOL} args={json.dumps(self.arguments(number, part))}"
            yield f"[[standin: {call}]] [[standin: rounds={MANY_ROUNDS}]]"
        yield f"text={json.dumps(turn.answer)}"

    def items(self, number: int) -> list[Json]:
        """A turn on the wire."""
        turn = self.turns[number]
        items = [message("user", turn.text)]
        for part, output in enumerate(turn.outputs):
            call = {"call_id": f"call_{number}_{part}"}
            arguments = json.dumps(self.arguments(number, part))
            items.append({"type": "function_call", **call, "name": TOOL, "arguments": arguments})
            items.append({"type": "function_call_output", **call, "output": output})
        return [*items, answer(f"msg_{number}", turn.answer)]


def message(role: str, text: str) -> Json:
    """A message of the user or the system."""
    return {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}


def answer(item_id: str, text: str) -> Json:
    """A message of the model."""
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "role": "assistant", "id": item_id, "status": "completed", "content": content}


def agent_chat(turns: int) -> Chat:
    """The agent's chat of the context benchmark."""
    return _Script(turns).chat()


def plain_chat(turns: int) -> Chat:
    """A chat without tools: questions of 300 tokens, answers of 1,500."""
    return _PlainScript(turns).chat()


class _Script(AgentChat):
    """The words of an agent's chat."""

    def chat(self) -> Chat:
        """As turns of plain texts."""
        turns: dict[int, list[Item]] = {}
        for item, number in zip(self.items, self.turn_of_item, strict=True):
            turns.setdefault(number, []).append(item)
        system: Any = self._system
        return Chat(text_of(system), tuple(_turn(items) for items in turns.values()))


class _PlainScript(_Script):
    def _turn(self, turn: int) -> Iterator[Item]:
        question: Any = message("user", self._prose(PLAIN_USER_TOKENS))
        yield question
        reply: Any = answer(f"m{turn}", self._prose(PLAIN_ANSWER_TOKENS))
        yield reply


def _turn(items: Sequence[Item]) -> Turn:
    spoken: list[Any] = [item for item in items if item["type"] != "function_call"]
    texts = [text_of(item) for item in spoken]
    return Turn(texts[0], tuple(texts[1:-1]), texts[-1])
