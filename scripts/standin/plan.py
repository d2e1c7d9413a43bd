r"""What a response will consist of, decided before its first byte, and the directives by which a chat orders it.

Owns the output items as they are planned, the plan's other values, and the syntax of directives; what a directive means
stands in ``planner``. The grammar:

    directive := "[[standin:" pair+ "]]"
    pair      := key ["=" value]            a key alone counts as true
    key       := letters, digits, "_"
    value     := a JSON string, object or array, or a bare word up to the next blank or "]]"

The first pair names the directive and its value; the others are its options. Any number of directives may
stand anywhere in one text, and each counts:

    [[standin: reasoning=summary text="Let me see."]] [[standin: call=get_weather args={"city": "Paris"}]]
"""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from .drawing import draw

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .errors import RefusalError

Item = dict[str, Any]
ReasoningKind = Literal["summary", "raw", "encrypted"]
Ending = Literal["completed", "max_output_tokens", "content_filter"]
BreakKind = Literal["failed", "response.error", "nested", "flat", "eof"]

ANSWER = "final_answer"
OPENING, CLOSING = "[[standin:", "]]"
PAIR = re.compile(r"\s*([A-Za-z0-9_]+)\s*(=\s*)?")
BARE_WORD = re.compile(r"(?:(?!\]\])\S)+")
END = re.compile(r"\s*\]\]")


# --- the output items, as yet without id and status ---


def reasoning(kind: ReasoningKind, *parts: str) -> Item:
    """Thoughts as summary parts, as raw text, or as nothing that can be read."""
    summary = [{"type": "summary_text", "text": text} for text in parts if kind == "summary"]
    raw = {"content": [{"type": "reasoning_text", "text": text} for text in parts]} if kind == "raw" else {}
    return {"type": "reasoning", "summary": summary, **raw}


def thought(item: Item) -> str:
    """What of a reasoning item can be read."""
    return "\n\n".join(part["text"] for part in item.get("content") or item["summary"])


def message(text: str, citations: Sequence[Item] = (), *, refused: bool = False, phase: str = ANSWER) -> Item:
    """A message; each word of its text is one delta, and the sources of its citations are named in it."""
    part = {"type": "output_text", "text": text, "annotations": [*citations], "logprobs": []}
    refusal = {"type": "refusal", "refusal": text}
    return {
        "type": "message",
        "role": "assistant",
        "content": [refusal if refused else part],
        "phase": phase,
    }


def citation(url: str, title: str) -> Item:
    """A source of a message."""
    return {"type": "url_citation", "url": url, "title": title}


def call(name: str, arguments: str) -> Item:
    """A function call; the arguments are JSON text, or whatever a test wants in its place."""
    return {"type": "function_call", "name": name, "arguments": arguments}


def search(query: str, url: str) -> Item:
    """A web search that the router has run."""
    action = {"type": "search", "query": query, "sources": [{"type": "url", "url": url}]}
    return {"type": "openrouter:web_search", "action": action}


SERVER_CALLS: dict[str, Item] = {
    "web_fetch": {
        "url": "https://example.org/a",
        "title": "A page",
        "content": "The text.",
        "httpStatus": 200,
    },
    "datetime": {"datetime": "2026-11-28T10:00:00+00:00", "timezone": "UTC"},
    "image_generation": {"prompt": "A boat"},
    "shell": {
        "action": {"commands": ["echo 42"]},
        "call_id": "call_shell",
        "output": [{"stdout": "42\n", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}],
    },
    "advisor": {"model": "openai/gpt-5.2", "prompt": "Which one?", "advice": "Take the first one."},
    "subagent": {
        "model": "openai/gpt-5.2",
        "task_name": "count",
        "task_description": "Count the boats.",
        "outcome": "There are three.",
    },
    "fusion": {"responses": [{"model": "openai/gpt-5.2", "content": "Three."}]},
}
"""The fields of a call by the name of its tool, in the shapes of the SDK."""


def server_call(name: str, **fields: Any) -> Item:
    """A call of a tool that the router has run."""
    return {"type": f"openrouter:{name}", **SERVER_CALLS.get(name, {}), **fields}


def image(prompt: str, edited: bytes | None = None, aspect_ratio: str = "1:1") -> Item:
    """An image that the model has drawn, from another one where it was asked to edit that."""
    picture = base64.b64encode(draw(prompt, edited, aspect_ratio)).decode()
    return {"type": "image_generation_call", "prompt": prompt, "result": picture}


# --- the plan ---


@dataclass(frozen=True)
class Break:
    """Where and how a stream breaks: after so many deltas."""

    kind: BreakKind
    after_deltas: int = 2
    code: str = "server_error"
    message: str = "Provider disconnected mid-stream"
    error_type: str = "provider_unavailable"


@dataclass(slots=True)
class Plan:
    """A whole response: its items, how it ends, how it travels; or the refusal that takes its place.

    It travels with pauses in seconds, and with its seals and arguments late, or an unknown event, or never.
    """

    items: list[Item] = field(default_factory=list)
    ending: Ending = "completed"
    cut: Break | None = None
    refusal: RefusalError | None = None
    first_delay_seconds: float = 0.0
    delay_seconds: float = 0.0
    late: bool = False
    unknown_event: bool = False
    silent: bool = False


# --- directives ---


class DirectiveError(ValueError):
    """A directive that cannot be read; says where."""


@dataclass(frozen=True, slots=True)
class Directive:
    """One directive: its name, its value, and its options by key."""

    name: str
    value: Any = True
    options: dict[str, Any] = field(default_factory=dict)


def parse(text: str) -> tuple[tuple[Directive, ...], str]:
    """All directives of a text in order, and the text without them, as a person would have written it.

    Raises:
        DirectiveError: A directive is opened but has no readable pair or no end.
    """
    found: list[Directive] = []
    plain: list[str] = []
    end = 0
    while (at := text.find(OPENING, end)) >= 0:
        plain.append(text[end:at])
        directive, end = _directive(text, at + len(OPENING))
        found.append(directive)
    return tuple(found), "".join([*plain, text[end:]]).strip() if found else text


def plain_text(text: str) -> str:
    """A text without its directives, if all of them can be read."""
    try:
        return parse(text)[1]
    except DirectiveError:
        return text


def bracketed(text: str) -> str:
    """The text as directives, whether or not it has their brackets."""
    return text if not text or OPENING in text else f"{OPENING} {text}{CLOSING}"


def _directive(text: str, at: int) -> tuple[Directive, int]:
    pairs: list[tuple[str, Any]] = []
    while not (end := END.match(text, at)):
        pair = PAIR.match(text, at)
        if pair is None:
            raise DirectiveError(f"no key at {at}: {text[at : at + 30]!r}")
        value, at = _value(text, pair.end()) if pair[2] else (True, pair.end())
        pairs.append((pair[1], value))
    if not pairs:
        raise DirectiveError(f"empty directive at {at}")
    (name, value), *options = pairs
    return Directive(name, value, dict(options)), end.end()


def _value(text: str, at: int) -> tuple[Any, int]:
    if text.startswith(('"', "{", "["), at):
        try:
            return json.JSONDecoder(strict=False).raw_decode(text, at)
        except json.JSONDecodeError as error:
            raise DirectiveError(f"bad JSON at {at}: {error}") from error
    word = BARE_WORD.match(text, at)
    if word is None:
        raise DirectiveError(f"no value at {at}")
    return word.group(), word.end()
