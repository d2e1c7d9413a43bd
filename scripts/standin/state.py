"""What one stand-in remembers between requests.

Owns its options, its clock, the log, the queue of ordered behaviours and the prompt cache.
Secrets stay out of the log: of the bearer only a digest is kept. It must not know HTTP.
"""

from __future__ import annotations

import hashlib
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .cache import PromptCache
from .plan import bracketed
from .prompt import Tokenizer
from .seal import Sealer

if TYPE_CHECKING:
    from collections.abc import Callable

RECORDED_REQUESTS = 5000
ACCOUNT_CHARS = 12
HONEST = "keep"
"""The kind of summarizer at the start."""
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
    usage: dict[str, Any] | None = None
    output: list[dict[str, Any]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    error: str = ""
    is_summary: bool = False
    disconnected: bool = False
    finished: bool = False
    ended_at: float | None = None
    connection: str = ""


def account_of(bearer: str) -> str:
    """A name for the account of a bearer, from which the bearer cannot be found."""
    return hashlib.sha256(bearer.encode()).hexdigest()[:ACCOUNT_CHARS] if bearer else ""


@dataclass(frozen=True, slots=True)
class Options:
    """How a stand-in runs; ``pace_seconds`` is the pause between the deltas of an ordinary answer.

    ``orders`` says by a request's body what its answer is, in directives, in place of the queue.
    """

    pace_seconds: float = 0.0
    tokenizer: Tokenizer | None = None
    orders: Callable[[Any], str] | None = None


@dataclass(slots=True)
class Queued:
    """Directives for the next requests to a path."""

    do: str
    times: int = 1
    path: str = "/responses"


@dataclass(slots=True)
class Service:
    """All that one stand-in remembers."""

    options: Options
    tokenizer: Tokenizer
    requests: deque[RecordedRequest] = field(default_factory=lambda: deque(maxlen=RECORDED_REQUESTS))
    queue: list[Queued] = field(default_factory=list)
    cache: PromptCache = field(default_factory=PromptCache)
    sealer: Sealer = field(default_factory=Sealer)
    advanced_seconds: float = 0.0
    summarizer: str = HONEST

    def now(self) -> float:
        """The time in seconds on the stand-in's own clock."""
        return time.time() + self.advanced_seconds

    def reset(self) -> None:
        """Forget everything but the seals, which stay valid; the summarizer is honest again."""
        self.requests.clear()
        self.queue.clear()
        self.cache.clear()
        self.advanced_seconds = 0.0
        self.summarizer = HONEST

    def queued(self, path: str) -> str:
        """The directives queued for a request to this path; each use counts."""
        entry = next((entry for entry in self.queue if entry.path == path), None)
        if entry is None:
            return ""
        entry.times -= 1
        if entry.times <= 0:
            self.queue.remove(entry)
        return bracketed(entry.do)
