"""What of a user's message is in the user's own words, and what is material: quoted, fenced or tagged.

Owns which lines of a message are the user's own, and whether a quotation stands in the user's own words. That goes
by the marks of Markdown and of tags, which need no knowledge of a language; text that was pasted without any counts as
the user's own. It runs in linear time; it must not shorten or drop anything.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Literal, NamedTuple, TypeAlias

from ..responses.items import InputMessage, Message, is_message
from .conversation import ContentCache, Turn, content_digest
from .tokens import TokenCounter, TokenCounts, head_and_tail

MIN_QUOTE_CHARACTERS = 4
NO_QUOTE = "\0"
"""In place of what stands in quotation marks."""

_FENCE = re.compile(r"([ \t]{0,40})(?:(?:[-*+]|\d{1,9}[.)])[ \t]{1,4})?(`{3,}(?=[^`]*+$)|~{3,})")
"""An opening fence of CommonMark, also in a list, and at any indentation: what is deeper is code all the same."""
_CLOSING_FENCE = re.compile(r"([ \t]*+)(`{3,}|~{3,})[ \t]*+$")
_CLOSING_INDENTATION = 3
_TAG = re.compile(r"(?:<|\[)([A-Za-z][\w.:-]{0,60})(?=[\s>\]=/])")
_CLOSING_TAG = re.compile(r"(?:</|\[/)([A-Za-z][\w.:-]{0,60})[ \t]{0,3}[>\]]")
_MATERIAL_LINE = re.compile(r"[ \t]{0,40}(?:(?:[-*+]|\d{1,9}[.)])[ \t]{1,4})?[>\uff1e]|(?: {4}|\t)")
"""A quoted line, or indented code."""
_QUOTED = re.compile(
    r"\"[^\"]{2,}+\"|“[^“”]{2,}+”|„[^„“”]{2,}+[“”]|«[^«»]{2,}+»|「[^「」]{2,}+」|『[^『』]{2,}+』"
    r"|»[^«»]{2,}+«|\u2039[^\u2039\u203a]{2,}+\u203a|\u203a[^\u2039\u203a]{2,}+\u2039|„[^„«»]{2,}+«|”[^“”]{2,}+”|`[^`]{2,}+`"
    r"|(?<!\w)['\u2018](?=\S)[^'\u2018\u2019]{2,}+['\u2019](?!\w)"
)


def own_words(text: str) -> str:
    """Return the lines of a user's message that are in the user's own words, and the empty ones."""
    lines = text.splitlines()
    return "\n".join(
        line
        for line, is_framed in zip(lines, _framed(lines), strict=True)
        if not line.strip() or not (is_framed or _MATERIAL_LINE.match(line))
    )


def stands_in_own_words(quotation: str, text: str) -> bool:
    """Whether a quotation stands in the user's own words; white space does not matter.

    It may hold what stands in quotation marks, but says something beside that, and neither begins nor ends in it.
    """
    wanted, words = (" ".join(each.split()) for each in (quotation, own_words(text)))
    beside, words_beside = (_QUOTED.sub(NO_QUOTE, each) for each in (wanted, words))
    is_more = len(beside.replace(NO_QUOTE, "")) >= MIN_QUOTE_CHARACTERS
    return is_more and wanted in words and beside in words_beside


def _framed(lines: list[str]) -> Iterator[bool]:
    """Yield for each line whether it stands in a fence or between tags."""
    tagged_until = _tagged_until(lines)
    tag_end, fence, indentation = -1, "", 0
    for number, line in enumerate(lines):
        tag_end = max(tag_end, tagged_until.get(number, -1))
        if fence:
            yield True
            closing = _CLOSING_FENCE.match(line)
            is_deeper = closing and len(closing[1]) > indentation + _CLOSING_INDENTATION
            if closing and not is_deeper and closing[2].startswith(fence):
                fence = ""
        elif opening := _FENCE.match(line):
            fence, indentation = opening[2], len(opening[1])
            yield True
        else:
            yield number <= tag_end


def _tagged_until(lines: list[str]) -> dict[int, int]:
    """Return by the line of each opening tag the line of the last closing tag of its name, if one follows."""
    last = {
        tag[1].lower(): number for number, line in enumerate(lines) for tag in _CLOSING_TAG.finditer(line)
    }
    ends: dict[int, int] = {}
    for number, line in enumerate(lines):
        for tag in _TAG.finditer(line):
            end = last.get(tag[1].lower(), -1)
            if end >= number:
                ends[number] = max(end, ends.get(number, -1))
    return ends


RECORD_SHARE = 0.08
MAX_RECORD_TOKENS = 20_000
LEAST_TOKENS = 40
"""What is kept of a message in any case, unless it is omitted: a sentence or two."""
HEADING_TOKENS = 12
"""What stands around a message at most: its author."""
LINE_OVERHEAD_TOKENS = 3

_AUTHORS = {"user": "The user wrote", "system": "A system message", "developer": "A system message"}

Text: TypeAlias = Sequence[str | int]
"""Pieces of a message: text as it is, and numbers of characters that are omitted between them."""


def max_record_tokens(budget_tokens: int) -> int:
    """Return how large the record beside summaries may be in an input budget."""
    return min(MAX_RECORD_TOKENS, int(budget_tokens * RECORD_SHARE))


def max_note_tokens(budget_tokens: int) -> int:
    """Return how large the note for omitted turns may be: half as much, since it stays and no summary follows it."""
    return max_record_tokens(budget_tokens) // 2


def quote_lines(text: str) -> Iterator[str]:
    """Yield each line that is not empty behind a mark, so that none can pass for a heading."""
    return (f"> {line}" for line in text.splitlines() if line.strip())


class _Message(NamedTuple):
    """A message with its turn, counted from one, the digest of its item, and its size in its frame."""

    turn: int
    author: str
    text: str
    digest: bytes
    tokens: int


@dataclass(frozen=True, slots=True)
class UserRecord:
    """What users and system messages said in a conversation's turns; `texts` caches shortened messages by content."""

    turns: Sequence[Turn]
    counter: TokenCounter
    texts: ContentCache[str] = field(default_factory=ContentCache)
    _of_turn: dict[int, tuple[_Message, ...]] = field(default_factory=dict, compare=False, repr=False)

    def text(self, turns: range, max_tokens: int) -> str:
        """Return the record of some turns, by index; "" when nobody wrote anything in them, or nothing fits.

        All messages are whole if they fit. Otherwise the longest are shortened; at last only the newest remain. How
        many are omitted is said.
        """
        if not turns:
            return ""
        key = self.turns[turns.stop - 1].sent_chain + b"record%d,%d" % (turns.start, max_tokens)
        return self.texts.get_or_compute(key + self.counter.method, partial(self._write, turns, max_tokens))

    def _write(self, turns: range, max_tokens: int) -> str:
        messages = [message for turn in turns for message in self._messages(turn)]
        numbers = f"{turns.start + 1} to {turns.stop}"
        heading = f'[What the user wrote in turns {numbers}, oldest first; the messages stand behind ">".]'
        free_tokens = max_tokens - self.counter.text(heading)
        while messages and free_tokens > 0:
            text = "\n".join([heading, *self._lines(messages, free_tokens)])
            # Pieces that are counted one by one may together be a little larger.
            excess_tokens = self.counter.text(text) - max_tokens
            if excess_tokens <= 0:
                return text
            free_tokens -= excess_tokens + LINE_OVERHEAD_TOKENS
        return ""

    def tokens(self, turns: range, max_tokens: int) -> int:
        """Return the record's size; cached by content."""
        text, counts = self.text(turns, max_tokens), self.counter.counts
        count = counts.get_or_compute(content_digest(text), lambda: TokenCounts(self.counter.text(text)))
        return count.tokens

    def _messages(self, turn: int) -> tuple[_Message, ...]:
        if turn not in self._of_turn:
            self._of_turn[turn] = tuple(self._read(turn))
        return self._of_turn[turn]

    def _read(self, turn: int) -> Iterator[_Message]:
        for entry in self.turns[turn].entries:
            if is_message(entry.item) and (text := _text(entry.item)):
                size = partial(self._size, text)
                tokens = self.counter.counts.get_or_compute(entry.digest + b"quoted", size).tokens
                yield _Message(turn + 1, entry.item["role"], text, entry.digest, tokens)

    def _size(self, text: str) -> TokenCounts:
        return TokenCounts(self._count([text]))

    def _count(self, text: Text) -> int:
        return self.counter.text(_render(text))

    def _lines(self, messages: Sequence[_Message], max_tokens: int) -> Iterator[str]:
        """Yield the framed messages as they fit, and how many are omitted."""
        free_tokens = max_tokens - HEADING_TOKENS * len(messages)
        room = max(LEAST_TOKENS, max_tokens if free_tokens >= 0 else 0)
        while room > LEAST_TOKENS and sum(min(each.tokens, room) for each in messages) > free_tokens:
            room = max(LEAST_TOKENS, room // 2)
        kept, left_tokens = set[int](), max_tokens
        for number in reversed(range(len(messages))):
            if left_tokens < HEADING_TOKENS:
                break
            tokens = min(messages[number].tokens, room) + HEADING_TOKENS
            if tokens <= left_tokens:
                kept.add(number)
                left_tokens -= tokens
        if omitted := len(messages) - len(kept):
            yield f"[{omitted} {'message is' if omitted == 1 else 'messages are'} omitted here for length.]"
        for number in sorted(kept):
            message = messages[number]
            yield f"{_AUTHORS[message.author]}, turn {message.turn}:"
            yield self._within(message, room)

    def _within(self, message: _Message, room: int) -> str:
        """Return the message in its frame, shortened to so many tokens."""
        text = message.text
        if message.tokens <= room:
            return _render([text])

        def shorten() -> str:
            pieces = head_and_tail(text, room, lambda *pieces: self._count(pieces))
            return _render(pieces or [len(text)])

        key = message.digest + self.counter.method + b"%d" % room
        return self.texts.get_or_compute(key, shorten)


def _render(text: Text) -> str:
    """Return a message in its frame; what is omitted is said outside of it."""
    shown = (
        quote_lines(piece) if isinstance(piece, str) else [f"[{piece:,} characters omitted]"]
        for piece in text
        if piece
    )
    return "\n".join(chain.from_iterable(shown))


def _text(message: Message) -> str:
    """Return what an input message says, without attachments; "" for a model's own message."""
    texts = (part["text"] for part in message["content"] if part["type"] == "input_text")
    return "\n".join(texts).strip()


# --- the note for omitted turns ---

Note: TypeAlias = Literal["words", "count", "nothing"]
"""What stands in for omitted turns: what the user wrote in them, only how many they are, or nothing at all."""


def omission_note(turns: int, words: str, numbers: str = "") -> InputMessage:
    """Return the message that stands in for so many omitted turns: what the user wrote in them, and their numbers."""
    ending = "" if turns == 1 else "s"
    heading = f"[{turns} earlier turn{ending}{numbers} omitted to fit the model's context window.]"
    text = "\n".join(filter(None, [heading, words]))
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def turn_numbers(turns: range, restored: Collection[int]) -> str:
    """Return the numbers of omitted turns, for their note, and which of them are restored; all are given by index."""
    numbers = f"{turns.start + 1} to {turns.stop}" if len(turns) > 1 else f"{turns.stop}"
    return f" ({', '.join([numbers, *(f'not {turn + 1}' for turn in sorted(restored))])})"
