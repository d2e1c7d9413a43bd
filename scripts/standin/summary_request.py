"""Whether a request asks for a summary, and of which part of the conversation.

Owns the signs of such a request and the reading of its source. It writes no summary: that is for
``summarizers``. A request is one when its last user message, or what the system says, names all five fields.
There are two forms:

* the end of a live chat, whose last user message quotes how the part's first and last user messages begin,
  in ``<first_user_message>`` and ``<last_user_message>``, up to 200 characters each; XML escapes, blanks and
  a trailing ellipsis do not matter. An exact match goes before a beginning, and the earliest before a later.
* a request of its own, whose user message holds the part between ``<conversation>`` and ``</conversation>``.
  A line that begins with ``user``, ``assistant`` or ``tool``, marks around it and a ``:``, ``]`` or ``>``
  behind it (``user:``, ``[tool get_weather]``, ``<assistant>``), says who speaks from there on.

Without quotes and tags the whole chat before the last user message is the part.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from .directives import DirectiveError, spoken
from .prompt import input_items, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Speaker = Literal["user", "assistant", "tool", "anyone"]

FIELDS = ("summary_text", "key_facts", "open_questions", "decisions", "action_items")
QUOTES = tuple(
    re.compile(rf"<{name}>(.*?)</{name}>", re.DOTALL) for name in ("first_user_message", "last_user_message")
)
CONVERSATION = re.compile(r"<conversation>(.*)</conversation>", re.DOTALL)
SPEAKING = re.compile(
    r"^[^\w\n]{0,4}(user|assistant|tool)\b[^\n:\]>]{0,80}[:\]>]", re.IGNORECASE | re.MULTILINE
)
SPEAKERS: dict[str, Speaker] = {"user": "user", "assistant": "assistant", "tool": "tool"}
CUT_ENTITY = re.compile(r"&\w*$")


@dataclass(frozen=True, slots=True)
class Passage:
    """What one of them said, directives left out; ``anyone`` where the transcript does not tell."""

    speaker: Speaker
    text: str


@dataclass(frozen=True, slots=True)
class SummaryRequest:
    """A request for a summary: what it tells the model to do, and the part to summarise."""

    instruction: str
    source: tuple[Passage, ...]

    @classmethod
    def of(cls, body: dict[str, Any]) -> SummaryRequest | None:
        """Read an accepted request; None when it asks for no summary.

        Raises:
            DirectiveError: No user message begins as the request says.
        """
        if not is_asked(body):
            return None
        items = input_items(body)
        last = _last_user(items)
        told = text_of(items[last]) if last >= 0 else ""
        system = _system_text(body, items)
        framed = CONVERSATION.search(told)
        quotes = [quote.search(told) for quote in QUOTES]
        if framed and (_names_all(system) or not all(quotes)):
            outside = told[: framed.start()] + told[framed.end() :]
            return cls(system if _names_all(system) else outside, tuple(_transcribed(framed.group(1))))
        chat = items[:last] if last >= 0 else items
        part = _part(chat, *(quote.group(1) for quote in quotes if quote)) if all(quotes) else chat
        return cls(told if _names_all(told) else system, tuple(_passages(part)))

    def said_by(self, *speakers: Speaker) -> list[str]:
        """What these said, in order; a text whose speaker is not known counts for each."""
        return [passage.text for passage in self.source if passage.speaker in {*speakers, "anyone"}]

    def text(self) -> str:
        """All of the part."""
        return "\n".join(passage.text for passage in self.source)


def is_asked(body: dict[str, Any]) -> bool:
    """Whether an accepted request asks for a summary."""
    items = input_items(body)
    last = _last_user(items)
    return _names_all(_system_text(body, items)) or (last >= 0 and _names_all(text_of(items[last])))


def _names_all(text: str) -> bool:
    return all(field in text for field in FIELDS)


def _last_user(items: Sequence[dict[str, Any]]) -> int:
    return max((at for at, item in enumerate(items) if item.get("role") == "user"), default=-1)


def _system_text(body: dict[str, Any], items: Sequence[dict[str, Any]]) -> str:
    said = [text_of(item) for item in items if item.get("role") in {"system", "developer"}]
    return "\n".join([body.get("instructions") or "", *said])


# --- the end of a live chat ---


def _part(chat: Sequence[dict[str, Any]], first: str, last: str) -> Sequence[dict[str, Any]]:
    users = [(at, _tidy(text_of(item))) for at, item in enumerate(chat) if item.get("role") == "user"]
    start = _place(users, first)
    end = _place([(at, text) for at, text in users if at >= start], last)
    return chat[start : next((at for at, _ in users if at > end), len(chat))]


def _place(users: Sequence[tuple[int, str]], quoted: str) -> int:
    wanted = _tidy(CUT_ENTITY.sub("", quoted))
    exact = (at for at, text in users if text == wanted)
    begun = (at for at, text in users if text.startswith(wanted.rstrip("….")))
    place = next(exact, next(begun, None))
    if place is None:
        raise DirectiveError(f"no user message begins with {quoted!r}")
    return place


def _tidy(text: str) -> str:
    """The text without blanks, and without escapes however often it was escaped."""
    plain = html.unescape(text)
    while plain != text:
        text, plain = plain, html.unescape(plain)
    return "".join(plain.split())


def _passages(items: Sequence[dict[str, Any]]) -> Iterator[Passage]:
    for item in items:
        called = "tool" if item.get("type") == "function_call_output" else item.get("role")
        if called in SPEAKERS:
            yield Passage(SPEAKERS[called], spoken(text_of(item)))


# --- a request of its own ---


def _transcribed(transcript: str) -> Iterator[Passage]:
    transcript = spoken(transcript)
    speaker: Speaker = "anyone"
    start = 0
    for turn in SPEAKING.finditer(transcript):
        if said := transcript[start : turn.start()].strip():
            yield Passage(speaker, said)
        speaker, start = SPEAKERS[turn.group(1).lower()], turn.end()
    if said := transcript[start:].strip():
        yield Passage(speaker, said)
