"""What a response will consist of, decided before its first byte.

Owns the plan's vocabulary (steps, ending, break, delivery) as frozen values. It decides nothing and sends
nothing: ``script`` makes plans, ``stream`` carries them out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from .errors import Refusal


ReasoningKind = Literal["summary", "raw", "encrypted"]
SearchKind = Literal["server", "native"]
Ending = Literal["completed", "max_output_tokens", "content_filter"]
BreakKind = Literal["failed", "response.error", "nested", "flat", "eof"]
Newline = Literal["\n", "\r\n"]
Silence = Literal["no", "comments", "whole"]


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
    """How the bytes travel: pauses in seconds, the framing, and the oddities on the way.

    A ``silence`` takes the place of an answer: nothing but comments without end, or nothing at all.
    """

    first_delay_seconds: float = 0.0
    delay_seconds: float = 0.0
    newline: Newline = "\n"
    split_bytes: int = 0
    comments: int = 2
    bare_comments: bool = False
    comment_every: int = 0
    done: bool = True
    late_seals: bool = False
    late_arguments: bool = False
    unknown_event: bool = False
    big_bytes: int = 0
    silence: Silence = "no"


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole response: its steps, how it ends, how it travels; or the refusal that takes its place."""

    steps: tuple[Step, ...] = ()
    ending: Ending = "completed"
    cut: Break | None = None
    delivery: Delivery = field(default_factory=Delivery)
    refusal: Refusal | None = None
