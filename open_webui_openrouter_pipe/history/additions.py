"""What the host and filters add to a chat before the pipe sees it, and taking it out again.

A prompt cache holds a request as far as its bytes stay the same. The host writes retrieved sources and its own summary
into the system prompt, and a template around the user's latest words; the metadata's `base_system_prompt` and
`base_user_prompt` say what was there before. So what changes from request to request is separated from what stays, and
summaries are neither instructions nor turns. The memories that fit a question are in the base prompt itself, and known
by their form; what else the host writes there (skills, MCP servers, tools, attached knowledge) are instructions.

Recognition is strict, since anyone may quote a summary's mark: a block begins and ends with a line of system text.
Sources: Open WebUI 0.12, `utils/context_compaction.py` and `utils/middleware.py`; a filter's published form.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from ..responses.items import InputPart, InputText
from ..responses.values import clean_text
from .markers import erase_markers
from .parts import text_part

SUMMARY_HEADING = "[CONVERSATION SUMMARY]"
"""The line with which the host begins its own summary of earlier messages. It has no end of its own."""

_CLOSINGS: Mapping[str, str] = {
    "<openwebui_context_summary>": "</openwebui_context_summary>",
    "[Previous conversation summary]\n": "[End of summary - recent messages follow]",
}
"""Blocks of system text that say where they end: of newer hosts, and of a summarizing filter."""

_MOST_COMPARED = 50

_APPENDED = (
    "<memory_context>\n",
    "##### Pyodide Environment\n",
    '<skill (?:id|name)="',
    "<available_skills>\n",
    r'MCP server "[^"\n]*" instructions:\n',
    "<attached_knowledge>\n",
    "<available_tools>\n",
)
"""Patterns of the lines that the host writes behind its summary and its memories, and that begin instructions."""

_MEMORY = re.compile(
    r"^<memory_context>\n(?=\[(?:User Memory|Memory Neighborhood|Relevant Context)\]\n- )", re.MULTILINE
)
_MEMORY_END = re.compile(r"^</memory_context>$", re.MULTILINE)
"""The lines around the user's memories, which the host looks up for each question: `utils/memory.py`."""

_PICTURE = re.compile(
    r"^<context>(?:The requested image has been|Image generation was) [^\n]*</context>(?:\n|\Z)", re.MULTILINE
)
"""The line about a picture that was drawn for a question: `chat_image_generation_handler` in `utils/middleware.py`."""

_BEHIND_MEMORY = re.compile(rf"\s*\Z|\n+(?:{'|'.join(_APPENDED)})")
_OPENINGS = "|".join(map(re.escape, (f"{SUMMARY_HEADING}\n", *_CLOSINGS)))
_OPENING = re.compile(rf"^(?:{_OPENINGS})", re.MULTILINE)
_BEHIND_SUMMARY = re.compile(rf"\n(?=(?:{_OPENINGS}|{'|'.join(_APPENDED)}))")


@dataclass(frozen=True, slots=True)
class SplitPrompt:
    """A system prompt in parts: what stays, the summaries in it, and what changes with each question."""

    stable: str
    summaries: tuple[str, ...]
    volatile: str


def split_prompt(text: str, base_prompt: str | None) -> SplitPrompt:
    """Split a system prompt. `base_prompt` is the host's: "" for none, None when that is unknown."""
    base = text if base_prompt is None else clean_text(base_prompt)
    offset = text.find(base)
    base_end = offset + len(base) if offset >= 0 else len(text)
    stable, early = split_summaries(text[:base_end])
    volatile, late = split_summaries(text[base_end:].lstrip("\n"))
    return SplitPrompt(_unless_blank(stable), (*early, *late), _unless_blank(volatile))


def split_memories(text: str) -> tuple[str, str]:
    """Take the host's block of memories out of system text; return the text as it would be without it, and the block.

    The host writes it behind what it was given, and only its own blocks behind it; one that stands elsewhere is quoted.
    Its line about a picture, which is about one question as well, is taken out with it.
    """
    picture = _PICTURE.search(text)
    if picture is None:
        return _split_block(text)
    before, after = text[: picture.start()], text[picture.end() :]
    without, memories = _split_block(before + after if after else before.removesuffix("\n"))
    return without, "\n".join(filter(None, (picture[0].rstrip("\n"), memories)))


def split_user_parts(parts: Sequence[InputPart], base_prompt: str | None) -> list[InputPart]:
    """Put the user's own words first and what the host wrote around them last.

    The host writes the same text before each text part; it is kept once.
    """
    base = clean_text(base_prompt) if base_prompt else ""
    first = next((index for index, part in enumerate(parts) if part["type"] == "input_text"), None)
    if first is None or not base.strip():
        return list(parts)
    around = _text_around(cast("InputText", parts[first])["text"], base)
    if around is None:
        return list(parts)
    before, after = around
    others = [
        text_part(part["text"].removeprefix(before)) if part["type"] == "input_text" else part
        for part in parts[first + 1 :]
        if part != text_part(before)  # a message without words
    ]
    injected = "\n".join(
        filter(None, (_unless_blank(before.rstrip("\n")), _unless_blank(after.lstrip("\n"))))
    )
    return [*parts[:first], text_part(base), *others, *([text_part(injected)] if injected else [])]


def split_summaries(text: str) -> tuple[str, tuple[str, ...]]:
    """Take the summaries out of system text; return the text as it would be without them, and the summaries."""
    kept: list[str] = []
    summaries: list[str] = []
    done = 0
    openings = list(_OPENING.finditer(text))
    closings = {
        mark: [found.start() for found in re.finditer(re.escape(_CLOSINGS[mark]), text)]
        for mark in {each[0] for each in openings} & _CLOSINGS.keys()
    }
    for opening in openings:
        if opening.start() < done or not (ends := _summary_ends(text, opening, closings)):
            continue
        summary_end, block_end = ends
        kept.append(text[done : opening.start()])
        summaries.append(text[opening.end() : summary_end])
        done = block_end + text.startswith("\n", block_end)
    if not summaries:
        return text, ()
    rest = text[done:]
    stable = "".join([*kept, rest])
    return stable if rest else stable.removesuffix("\n"), tuple(summaries)


def unique_summaries(summaries: Iterable[str]) -> tuple[str, ...]:
    """Return the plain texts in their order, without markers, blank ones and those that another one contains.

    More than a summarizer ever leaves are only compared as wholes.
    """
    texts = [text for text in dict.fromkeys(erase_markers(text).strip() for text in summaries) if text]
    if len(texts) > _MOST_COMPARED:
        return tuple(texts)
    return tuple(text for text in texts if not any(text != other and text in other for other in texts))


def _split_block(text: str) -> tuple[str, str]:
    """Take the block of memories alone out of system text."""
    openings = [opening.start() for opening in _MEMORY.finditer(text)]
    end = _MEMORY_END.search(text, openings[-1]) if openings else None
    if end is None or not _BEHIND_MEMORY.match(text, end.end()):
        return text, ""
    before, after = text[: openings[-1]], text[end.end() :]
    without = before.removesuffix("\n") + after if before else after.removeprefix("\n")
    return _unless_blank(without), text[openings[-1] : end.end()]


def _text_around(text: str, base: str) -> tuple[str, str] | None:
    """What stands before and after the base, if it stands on lines of its own."""
    from_end = text[::-1].find(base[::-1])  # rfind reads again and again what repeats one character
    if from_end < 0 or text == base:
        return None
    offset = len(text) - from_end - len(base)
    before, after = text[:offset], text[offset + len(base) :]
    on_own_lines = (not before or before.endswith("\n")) and (not after or after.startswith("\n"))
    return (before, after) if on_own_lines else None


def _summary_ends(
    text: str, opening: re.Match[str], closings: Mapping[str, list[int]]
) -> tuple[int, int] | None:
    """The offsets at which the summary and its block end; None when it is not a block."""
    offsets = closings.get(opening[0])
    if offsets is None:
        behind = _BEHIND_SUMMARY.search(text, opening.end() - 1)
        summary = text[opening.end() : behind.start() if behind else len(text)].rstrip("\n")
        return (end := opening.end() + len(summary)), end
    index = bisect_left(offsets, opening.end())
    if index == len(offsets):
        return None
    end = offsets[index] + len(_CLOSINGS[opening[0]])
    ends_line = end == len(text) or text.startswith("\n", end)
    return (offsets[index], end) if ends_line else None


def _unless_blank(text: str) -> str:
    return text if text.strip() else ""
