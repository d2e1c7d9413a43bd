"""Blocks that a host or a model folded into assistant text: reasoning, tool calls, code interpreter.

Older versions of Open WebUI write what an answer did as `<details>` blocks with escaped attributes into its
text; some models write `<think>` tags. Owns taking them apart again. Only a block that begins a line, is
closed and stands outside of code blocks counts; anything else is text and stays to the byte.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..responses.text import json_text
from .markers import closed_fences, is_within

_OPENING = re.compile(
    r"^[ \t]*(?:(?P<details><details\s)(?P<attributes>[^<>]*)>"
    r"|(?P<symbol><(?:think|thinking|reason|reasoning|thought|Thought)>|<\|begin_of_thought\|>|◁think▷))",
    re.MULTILINE,
)
_SYMBOL_ENDS = {"<|begin_of_thought|>": "<|end_of_thought|>", "◁think▷": "◁/think▷"}
_DETAILS_END = "</details>"
_DETAILS_TAG = re.compile(rf"<details\b|{_DETAILS_END}")
_ATTRIBUTE = re.compile(r'(?<![\w-])([\w-]+)="([^"]*)"')
_SUMMARY_TAG, _SUMMARY_END = "<summary>", "</summary>"
_SYMBOL = "◁"


@dataclass(frozen=True, slots=True)
class FoldedCall:
    """A tool call with its result, None while it had none."""

    call_id: str
    name: str
    arguments: Any
    result: Any


Piece: TypeAlias = str | FoldedCall


@dataclass(frozen=True, slots=True)
class _Block:
    """A block's place in the text and what it stands for."""

    start: int
    end: int
    pieces: tuple[Piece, ...]


def unfold(text: str) -> list[Piece]:
    """Divide assistant text into plain text and the calls folded into it; folded reasoning is gone.

    Plain text loses the newlines that touch a block. Text without blocks comes back as it is.
    """
    blocks = list(_blocks(text)) if "<" in text or _SYMBOL in text else []
    if not blocks:
        return [text]
    pieces: list[Piece] = []
    done = 0
    for block in blocks:
        pieces.extend(_plain(text, done, block.start))
        pieces.extend(block.pieces)
        done = block.end
    pieces.extend(_plain(text, done, len(text)))
    return pieces


def _plain(text: str, start: int, end: int) -> Iterator[str]:
    """Text between blocks; newlines at the outer ends of the whole text stay."""
    plain = text[start:end]
    plain = plain.lstrip("\n") if start else plain
    plain = plain.rstrip("\n") if end < len(text) else plain
    if plain.strip():
        yield plain


def _blocks(text: str) -> Iterator[_Block]:
    openings = list(_OPENING.finditer(text))
    fences = closed_fences(text) if openings else []
    ends = _Ends(text)
    position = 0
    for opening in openings:
        if opening.start() < position or is_within(opening.start(), fences):
            continue
        block = _details(text, opening, ends) if opening["symbol"] is None else _thinking(opening, ends)
        if block:
            position = block.end
            yield block


def _thinking(opening: re.Match[str], ends: _Ends) -> _Block | None:
    end = ends.after(_SYMBOL_ENDS.get(opening["symbol"]) or f"</{opening['symbol'][1:]}", opening.end())
    return _Block(opening.start(), end, ()) if end else None


def _details(text: str, opening: re.Match[str], ends: _Ends) -> _Block | None:
    attributes = {name: html.unescape(value) for name, value in _ATTRIBUTE.findall(opening["attributes"])}
    reader = _READERS.get(attributes.get("type", ""))
    closing = ends.details.get(opening.start("details")) if reader else None
    if reader is None or closing is None:
        return None
    body = _without_summary(text[opening.end() : closing - len(_DETAILS_END)])
    return _Block(opening.start(), closing, reader(attributes, body))


def _without_summary(body: str) -> str:
    head, opened, rest = body.partition(_SUMMARY_TAG)
    _shown, closed, tail = rest.partition(_SUMMARY_END)
    return f"{head.rstrip()}{tail}" if opened and closed else body


class _Ends:
    """Where the tags of one text end; each question is answered without reading the text again and again."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._absent: set[str] = set()
        self.details: dict[int, int] = {}
        opened: list[int] = []
        for tag in _DETAILS_TAG.finditer(text):
            if tag[0] != _DETAILS_END:
                opened.append(tag.start())
            elif opened:
                self.details[opened.pop()] = tag.end()

    def after(self, end_tag: str, position: int) -> int | None:
        """The end of the next such tag, None when there is none."""
        place = -1 if end_tag in self._absent else self._text.find(end_tag, position)
        if place < 0:
            self._absent.add(end_tag)
            return None
        return place + len(end_tag)


def _tool_call(attributes: dict[str, str], body: str) -> tuple[Piece, ...]:
    """The result stands in an attribute, or in later versions in the body; `done="false"` means none yet."""
    inner = html.unescape(body.strip())
    encoded = attributes.get("result") or inner
    done = attributes.get("done") != "false" and ("result" in attributes or bool(inner))
    call = FoldedCall(
        call_id=attributes.get("id", ""),
        name=attributes.get("name", ""),
        arguments=_decoded(attributes.get("arguments", "")),
        result=_result(encoded) if done else None,
    )
    return (call,)


def _result(encoded: str) -> Any:
    """A tool may answer null, which is an answer."""
    decoded = _decoded(encoded)
    return "null" if decoded is None else decoded


def _code_interpreter(attributes: dict[str, str], body: str) -> tuple[Piece, ...]:
    """The code block in the body is text already; what it printed joins it."""
    output = _decoded(attributes.get("output", ""))
    if isinstance(output, dict):
        output = output.get("stdout") or output.get("result") or output.get("stderr") or ""
    shown = output if isinstance(output, str) else json_text(output)
    printed = _fenced(shown.rstrip()) if shown.strip() else ""
    text = "\n".join(filter(None, (body.strip("\n"), printed)))
    return (text,) if text else ()


def _fenced(text: str) -> str:
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}output\n{text}\n{fence}"


def _reasoning(_attributes: dict[str, str], _body: str) -> tuple[Piece, ...]:
    return ()


_READERS: dict[str, Callable[[dict[str, str], str], tuple[Piece, ...]]] = {
    "tool_calls": _tool_call,
    "code_interpreter": _code_interpreter,
    "reasoning": _reasoning,
}


def _decoded(text: str) -> Any:
    """JSON inside an attribute; text that is none stays text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
