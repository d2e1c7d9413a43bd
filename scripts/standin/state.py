"""What one stand-in remembers between requests.

Owns its options, its clock, the log, the queue of ordered behaviours, the prompt cache and the generations.
Secrets stay out of the log: of the bearer only a digest is kept. It must not know HTTP.
"""

from __future__ import annotations

import base64
import hashlib
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .cache import PromptCache
from .directives import bracketed
from .seal import Sealer
from .tokens import Tokenizer

RECORDED_REQUESTS = 5000
ACCOUNT_CHARS = 12
SECRET_HEADERS = frozenset({"authorization", "cookie"})


@dataclass(slots=True)
class RecordedRequest:
    """One request; ``status`` (0 until and unless it is sent) and what follows are filled in while it is answered.

    ``usage`` and ``output`` are those of the terminal event, ``disconnected`` says that the client left before the end,
    ``finished`` that the last byte was handed over, ``is_summary`` that it asks for a summary. The times are seconds
    on the stand-in's clock. ``connection`` is the client's address and port: the same for all requests of a connection.
    """

    method: str
    path: str
    query: str
    headers: dict[str, str]
    account: str
    raw: bytes
    body: Any
    received_at: float
    status: int = 0
    response_id: str = ""
    usage: dict[str, Any] | None = None
    output: list[dict[str, Any]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    error: str = ""
    is_summary: bool = False
    disconnected: bool = False
    finished: bool = False
    ended_at: float | None = None
    connection: str = ""

    def wire(self) -> dict[str, Any]:
        """The record as JSON values; the raw bytes as base64."""
        shown = {name: getattr(self, name) for name in self.__slots__ if name != "raw"}
        return {**shown, "raw_base64": base64.b64encode(self.raw).decode()}


def public_headers(headers: dict[str, str]) -> dict[str, str]:
    """Headers without the values of those that hold secrets."""
    return {name: "" if name in SECRET_HEADERS else value for name, value in headers.items()}


def account_of(bearer: str) -> str:
    """A name for the account of a bearer, from which the bearer cannot be found."""
    return hashlib.sha256(bearer.encode()).hexdigest()[:ACCOUNT_CHARS] if bearer else ""


@dataclass(frozen=True, slots=True)
class Options:
    """How a stand-in runs.

    ``pace_seconds`` is the pause between the deltas of an ordinary answer, ``summarizer`` how requests for a
    summary are answered (the kinds: ``summarizers``).
    """

    pace_seconds: float = 0.0
    clock: Callable[[], float] = time.time
    tokenizer: Tokenizer | None = None
    summarizer: str = "keep"


@dataclass(slots=True)
class Queued:
    """Directives for the next requests to a path."""

    do: str
    times: int
    path: str


@dataclass(slots=True)
class Service:
    """All that one stand-in remembers."""

    options: Options
    tokenizer: Tokenizer
    requests: deque[RecordedRequest] = field(default_factory=lambda: deque(maxlen=RECORDED_REQUESTS))
    queue: list[Queued] = field(default_factory=list)
    cache: PromptCache = field(default_factory=PromptCache)
    generations: dict[str, dict[str, Any]] = field(default_factory=dict)
    sealer: Sealer = field(default_factory=lambda: Sealer(first_serial=time.time_ns()))
    advanced_seconds: float = 0.0
    summarizer: str = field(init=False)

    def __post_init__(self) -> None:
        self.summarizer = self.options.summarizer

    def now(self) -> float:
        """The time in seconds on the stand-in's own clock."""
        return self.options.clock() + self.advanced_seconds

    def reset(self) -> None:
        """Forget everything but the seals, which stay valid; the summarizer is that of the options again."""
        self.requests.clear()
        self.queue.clear()
        self.cache.clear()
        self.generations.clear()
        self.advanced_seconds = 0.0
        self.summarizer = self.options.summarizer

    def queued(self, path: str) -> str:
        """The directives queued for a request to this path; each use counts."""
        entry = next((entry for entry in self.queue if entry.path == path), None)
        if entry is None:
            return ""
        entry.times -= 1
        if entry.times <= 0:
            self.queue.remove(entry)
        return bracketed(entry.do)
