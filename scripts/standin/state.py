"""What one stand-in remembers between requests.

Owns its clock, the log, the queue of ordered behaviours, how summaries are answered, and the prompt cache.
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
from .planner import read_directives
from .prompt import local_tokenizer
from .seal import Sealer

if TYPE_CHECKING:
    from collections.abc import Callable

    from .prompt import Tokenizer

RECORDED_REQUESTS = 5000
ACCOUNT_CHARS = 12
SECRET_HEADERS = frozenset({"authorization", "cookie"})


@dataclass(slots=True)
class RecordedRequest:
    """One request; ``status`` (0 until and unless it is sent) and what follows are filled in while it is answered.

    ``usage`` and ``output`` are those of the terminal event, ``disconnected`` says that the client left before the end,
    ``finished`` that the last byte was handed over, ``is_summary`` that it asks for a summary. The times are seconds
    on the stand-in's clock.
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


def account_of(bearer: str) -> str:
    """A name for the account of a bearer, from which the bearer cannot be found."""
    return hashlib.sha256(bearer.encode()).hexdigest()[:ACCOUNT_CHARS] if bearer else ""


class Service:
    """All that one stand-in remembers.

    ``pace_seconds`` is the pause between the deltas of an ordinary answer; ``orders`` says by a request's body what its
    answer is, in directives, in place of the queue.
    """

    def __init__(
        self,
        *,
        pace_seconds: float = 0.0,
        tokenizer: Tokenizer | None = None,
        orders: Callable[[Any], str] | None = None,
    ) -> None:
        self.pace_seconds, self.orders = pace_seconds, orders
        self.tokenizer = tokenizer or local_tokenizer()
        self.sealer = Sealer()
        self.reset()

    def reset(self) -> None:
        """Forget everything but the seals, which stay valid; the summaries are honest again."""
        self.log: deque[RecordedRequest] = deque(maxlen=RECORDED_REQUESTS)
        self.cache = PromptCache()
        self._queue: deque[str] = deque()
        self._advanced_seconds = 0.0
        self._summarizer = ""

    @property
    def requests(self) -> list[RecordedRequest]:
        """The requests since the start or the last reset, oldest first."""
        return list(self.log)

    @property
    def responses(self) -> list[RecordedRequest]:
        """The requests to /responses among them."""
        return [record for record in self.requests if record.path == "/responses"]

    @property
    def summarizer(self) -> str:
        """Directives for requests for a summary, which stand below those of the queue; empty for an honest one."""
        return self._summarizer

    @summarizer.setter
    def summarizer(self, directives: str) -> None:
        self._summarizer = bracketed(directives)
        read_directives(self._summarizer)  # there are such

    def now(self) -> float:
        """The time in seconds on the stand-in's own clock."""
        return time.time() + self._advanced_seconds

    def advance(self, seconds: float) -> None:
        """Move the clock on."""
        self._advanced_seconds += seconds

    def script(self, *orders: str, times: int = 1) -> None:
        """Queue behaviours for the next requests: directives with or without brackets."""
        self._queue += map(bracketed, orders * times)

    def queued(self) -> str:
        """The directives for this request, which are used up; empty where none are left."""
        return self._queue.popleft() if self._queue else ""
