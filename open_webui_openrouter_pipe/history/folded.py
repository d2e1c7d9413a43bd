"""Blocks that a host or a model folded into assistant text: reasoning, tool calls, code interpreter.

Older versions of Open WebUI write what an answer did as `<details>` blocks with escaped attributes into its text; some
models write `<think>` tags. Owns parsing them. Only a block that begins a line, is closed and stands outside of code
blocks counts; anything else is text and stays to the byte.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..responses.text import json_text
from .markers import closed_fences, is_within
from .parts import read_call_id

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
    """A block's offsets in the text and what it holds."""

    start: int
    end: int
    pieces: tuple[Piece, ...]


def any_call(_call_id: str) -> bool:
    """Whether a block with this id is a call, where nothing says that it is not."""
    return True


def unfold(text: str, is_call: Callable[[str], bool] = any_call) -> list[Piece]:
    """Divide assistant text into plain text and the calls folded into it; folded reasoning is omitted.

    The block of an id that is no call's is text. Plain text loses the newlines that touch a block. Text without blocks
    is returned as it is.
    """
    blocks = list(_blocks(text, is_call)) if "<" in text or _SYMBOL in text else []
    if not blocks:
        return [text]
    pieces: list[Piece] = []
    done = 0
    for block in [*blocks, _Block(len(text), len(text), ())]:
        plain = text[done : block.start]  # newlines at the outer ends of the whole text stay
        plain = plain.lstrip("\n") if done else plain
        plain = plain.rstrip("\n") if block.start < len(text) else plain
        pieces += [plain] if plain.strip() else []
        pieces += block.pieces
        done = block.end
    return pieces


def _blocks(text: str, is_call: Callable[[str], bool]) -> Iterator[_Block]:
    openings = list(_OPENING.finditer(text))
    if not openings:
        return
    fences, ends = closed_fences(text), _BlockEnds(text)
    done = 0
    for opening in openings:
        if opening.start() < done or is_within(opening.start(), fences):
            continue
        if (symbol := opening["symbol"]) is None:
            block = _details(text, opening, ends)
        else:
            end = ends.after(_SYMBOL_ENDS.get(symbol) or f"</{symbol[1:]}", opening.end())
            block = _Block(opening.start(), end, ()) if end else None
        if block:
            done = block.end  # of one that is text everything is text
            if all(isinstance(piece, str) or is_call(piece.call_id) for piece in block.pieces):
                yield block


def _details(text: str, opening: re.Match[str], ends: _BlockEnds) -> _Block | None:
    attributes = {name: html.unescape(value) for name, value in _ATTRIBUTE.findall(opening["attributes"])}
    read = _READERS.get(attributes.get("type", ""))
    end = ends.details.get(opening.start("details"))
    if read is None or end is None:
        return None
    body = text[opening.end() : end - len(_DETAILS_END)]
    head, opened, rest = body.partition(_SUMMARY_TAG)
    _shown, closed, tail = rest.partition(_SUMMARY_END)
    return _Block(
        opening.start(), end, read(attributes, f"{head.rstrip()}{tail}" if opened and closed else body)
    )


class _BlockEnds:
    """Where the tags of one text end, found without reading the text again for each opening."""

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

    def after(self, end_tag: str, offset: int) -> int | None:
        """The end of the next such tag, None when there is none."""
        found = -1 if end_tag in self._absent else self._text.find(end_tag, offset)
        if found < 0:
            self._absent.add(end_tag)
            return None
        return found + len(end_tag)


def _tool_call(attributes: Mapping[str, str], body: str) -> tuple[Piece, ...]:
    """The result stands in an attribute, or in later versions in the body; `done="false"` means none yet."""
    inner = html.unescape(body.strip())
    done = attributes.get("done") != "false" and ("result" in attributes or bool(inner))
    result = _decoded(attributes.get("result") or inner) if done else None
    result = "null" if done and result is None else result  # a tool may return null, which is a result
    arguments = _decoded(attributes.get("arguments", ""))
    return (FoldedCall(read_call_id(attributes.get("id")), attributes.get("name", ""), arguments, result),)


def _code_interpreter(attributes: Mapping[str, str], body: str) -> tuple[Piece, ...]:
    """The code block in the body is text already; what it printed joins it."""
    output = _decoded(attributes.get("output", ""))
    if isinstance(output, dict):
        output = output.get("stdout") or output.get("result") or output.get("stderr") or ""
    shown = (output if isinstance(output, str) else json_text(output)).rstrip()
    longest = max((len(run) for run in re.findall(r"`{3,}", shown)), default=2)
    fence = "`" * (longest + 1)
    printed = f"{fence}output\n{shown}\n{fence}" if shown else ""
    text = "\n".join(filter(None, (body.strip("\n"), printed)))
    return (text,) if text else ()


_READERS: Mapping[str, Callable[[Mapping[str, str], str], tuple[Piece, ...]]] = {
    "tool_calls": _tool_call,
    "code_interpreter": _code_interpreter,
    "reasoning": lambda _attributes, _body: (),
}


def _decoded(text: str) -> Any:
    """JSON inside an attribute; other text stays text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
