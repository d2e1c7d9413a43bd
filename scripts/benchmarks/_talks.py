"""Chats of two people who tell each other of their lives for months, with questions that say it in other words.

Each is put together from pieces that are written by hand, in `recall_chats/talk_*.txt`, always the same: sessions with
a date, of which each has a greeting, some things that are told, some chatter and a farewell. In a piece that is told,
`a:` and `b:` begin what the two say, and each `?` line is a question with the numbers of the lines that answer it
behind `|`. Owns how the pieces are put together. It must not plan, count or search.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from scripts.benchmarks._recall_chats import Filler

SESSIONS = 20
TOLD, CHATTER = 3, 2
"""Pieces of a session."""
ROLES = "user", "assistant"


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, and the numbers of the messages that answer it."""

    text: str
    evidence: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Talk:
    """A chat as Open WebUI sends it: the first speaker writes as the user, the second one as the model."""

    name: str
    messages: tuple[dict[str, Any], ...]
    questions: tuple[Question, ...]

    tools: tuple[dict[str, Any], ...] = ()

    def lines_of(self, question: Question) -> list[str]:
        """The lines of the messages that answer a question."""
        return [line for at in question.evidence for line in self.messages[at]["content"].splitlines()]

    def ending_with(self, question: str) -> list[dict[str, Any]]:
        """The messages with one more of the user."""
        return [*self.messages, {"role": "user", "content": question}]


def write_talk(language: str, number: int) -> Talk:
    """Write one of the talks in a language."""
    return _Writer(language, number).talk()


class _Writer:
    def __init__(self, language: str, number: int) -> None:
        self._name = f"{language} {number}"
        self._rand = random.Random(self._name)  # noqa: S311 - a seeded simulation
        self._filler = Filler(f"talk_{language}", self._rand)
        self._speakers = self._filler.pieces("name", 2, 2)
        self._said: list[str] = []
        self._questions: list[Question] = []

    def talk(self) -> Talk:
        told = self._filler.pieces("told", SESSIONS * TOLD, SESSIONS * TOLD)
        chatter = self._filler.pieces("chatter", SESSIONS * CHATTER, SESSIONS * CHATTER)
        for session in range(SESSIONS):
            self._session(session, [*told[session::SESSIONS], *chatter[session::SESSIONS]])
        messages = ({"role": ROLES[number % 2], "content": said} for number, said in enumerate(self._said))
        return Talk(self._name, tuple(messages), tuple(self._questions))

    def _session(self, number: int, pieces: list[str]) -> None:
        self._rand.shuffle(pieces)
        first = len(self._said)
        date = f"2023-{number // 2 + 1:02}-{number % 2 * 14 + 3:02}"
        for piece in (self._filler.one("greeting"), *pieces, self._filler.one("farewell")):
            self._say(piece)
        self._said[first] = f"[{date}]\n{self._said[first]}"

    def _say(self, piece: str) -> None:
        """Add a piece; whoever has not spoken last begins it."""
        start = len(self._said)
        lines = piece.splitlines()
        starter = start % 2
        names = {"a": self._speakers[starter], "b": self._speakers[1 - starter]}

        def named(text: str) -> str:
            return text.replace("{a}", names["a"]).replace("{b}", names["b"])

        for line in (line for line in lines if not line.startswith("?")):
            speaker, _, text = line.partition(": ")
            assert names[speaker] == self._speakers[len(self._said) % 2], f"not in turn: {line}"
            self._said.append(f"{names[speaker]}: {named(text)}")
        for line in (line for line in lines if line.startswith("?")):
            text, _, answers = line.removeprefix("? ").rpartition(" | ")
            self._questions.append(
                Question(named(text), tuple(start + int(at) - 1 for at in answers.split()))
            )
