r"""What a response will consist of, decided before its first byte, and the directives by which a chat orders it.

Owns the plan's vocabulary as frozen values, and the syntax of directives; what a directive means stands in
``planner``. The grammar:

    directive := "[[standin:" pair+ "]]"
    pair      := key ["=" value]            a key alone counts as true
    key       := letters, digits, "_"
    value     := a JSON string, object or array, or a bare word up to the next blank or "]]"

The first pair names the directive and its value; the others are its options. Any number of directives may
stand anywhere in one text, and each counts:

    [[standin: reasoning=summary text="Let me see."]] [[standin: call=get_weather args={"city": "Paris"}]]
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

if TYPE_CHECKING:
    from .errors import Refusal

ReasoningKind = Literal["summary", "raw", "encrypted"]
SearchKind = Literal["server", "native"]
Ending = Literal["completed", "max_output_tokens", "content_filter"]
BreakKind = Literal["failed", "response.error", "nested", "flat", "eof"]
T = TypeVar("T", str, int, float)

OPENING, CLOSING = "[[standin:", "]]"
PAIR = re.compile(r"\s*([A-Za-z0-9_]+)\s*(=\s*)?")
BARE_WORD = re.compile(r"(?:(?!\]\])\S)+")
END = re.compile(r"\s*\]\]")


@dataclass(frozen=True, slots=True)
class Reasoning:
    """A reasoning item: summary parts, raw text, or nothing that can be read."""

    kind: ReasoningKind
    parts: tuple[str, ...] = ()

    def text(self) -> str:
        """All that the model thought, readable or not."""
        return "\n\n".join(self.parts)


@dataclass(frozen=True, slots=True)
class Citation:
    """A source that the answer's text names."""

    url: str
    title: str


@dataclass(frozen=True, slots=True)
class Document:
    """A PDF that the router's parser has read."""

    name: str
    digest: str


@dataclass(frozen=True, slots=True)
class Message:
    """An assistant message; each word of its text is one delta."""

    text: str
    citations: tuple[Citation, ...] = ()
    documents: tuple[Document, ...] = ()
    refused: bool = False
    phase: Literal["commentary", "final_answer"] = "final_answer"


@dataclass(frozen=True, slots=True)
class Call:
    """A function call; the arguments are JSON text, or whatever a test wants in its place."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Search:
    """A web search that the router (server) or the provider (native) has run."""

    query: str
    kind: SearchKind
    url: str


@dataclass(frozen=True, slots=True)
class Fetch:
    """A web page that the router has read for the model."""

    url: str


@dataclass(frozen=True, slots=True)
class Image:
    """An image that the model has drawn, from another one where it was asked to edit that."""

    prompt: str
    edited: bytes | None = None
    aspect_ratio: str = "1:1"


@dataclass(frozen=True, slots=True)
class Unknown:
    """An item of a type that no client can know yet."""

    type: str = "standin_novelty"


Step = Reasoning | Message | Call | Search | Fetch | Image | Unknown


@dataclass(frozen=True, slots=True)
class Break:
    """Where and how a stream breaks: after so many deltas."""

    kind: BreakKind
    after_deltas: int = 2
    code: str = "server_error"
    message: str = "Provider disconnected mid-stream"
    error_type: str = "provider_unavailable"


@dataclass(frozen=True, slots=True)
class Delivery:
    """How the bytes travel: pauses in seconds, the framing, the oddities on the way, or that none ever does."""

    first_delay_seconds: float = 0.0
    delay_seconds: float = 0.0
    newline: str = "\n"
    split_bytes: int = 0
    comments: int = 2
    bare_comments: bool = False
    comment_every: int = 0
    done: bool = True
    late_seals: bool = False
    late_arguments: bool = False
    unknown_event: bool = False
    big_bytes: int = 0
    silent: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole response: its steps, how it ends, how it travels; or the refusal that takes its place."""

    steps: tuple[Step, ...] = ()
    ending: Ending = "completed"
    cut: Break | None = None
    delivery: Delivery = field(default_factory=Delivery)
    refusal: Refusal | None = None


# --- directives ---


class DirectiveError(ValueError):
    """A directive that cannot be read; says where."""


@dataclass(frozen=True, slots=True)
class Directive:
    """One directive: its name, its value, and its options by key."""

    name: str
    value: Any = True
    options: dict[str, Any] = field(default_factory=dict)

    def option(self, key: str, default: T) -> T:
        """An option in the default's type."""
        return type(default)(self.options.get(key, default))

    def said(self, default: str = "") -> str:
        """The directive's value as text; the default for a key that stands alone."""
        return default if self.value is True else str(self.value)

    def one_of(self, allowed: Any, default: str, key: str = "") -> Any:
        """The value, or an option, that is one of a Literal's.

        Raises:
            DirectiveError: It is none of them.
        """
        word = self.option(key, default) if key else self.said(default)
        if word not in get_args(allowed):
            raise DirectiveError(f"{word!r} is none of {', '.join(get_args(allowed))}")
        return word


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
    return text if OPENING in text else f"{OPENING} {text}{CLOSING}"


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
