"""What one stand-in remembers between requests.

Owns its clock, the log, the queue of ordered behaviours, how summaries are answered, the prompt cache, what is left of
an account, and which provider serves a conversation.
Secrets stay out of the log: of the bearer only a digest is kept. It must not know HTTP.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections import deque
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from .cache import PromptCache
from .plan import bracketed
from .planner import read_directives
from .prompt import local_tokenizer
from .seal import Sealer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .catalogue import Model
    from .prompt import Tokenizer
    from .rules import Asked
    from .videos import VideoJob

RECORDED_REQUESTS = 5000
ACCOUNT_CHARS = 12
STICKY_SECONDS = 600.0
"""How long a conversation that pauses stays with the provider that served it last."""
TELLING_SECONDS = 5.0
"""How long after its end a generation is not found."""
FUNDED = re.compile(r"sk-or-(credit|limit)-(\d+(?:\.\d+)?)")
"""Keys whose account, or whose own limit, has so many dollars."""
SECRET_HEADERS = frozenset({"authorization", "cookie"})


@dataclass(slots=True)
class RecordedRequest:
    """One request; ``status`` (0 until and unless it is sent) and what follows are filled in while it is answered.

    ``usage`` and ``output`` are those of the terminal event, ``billed`` is what was used in the end, and charged,
    whether or not the client has read it, ``disconnected`` says that the client left before the end,
    ``finished`` that the last byte was handed over, ``is_summary`` that it asks for a summary, ``written`` is what a
    stream has sent of the answer's text. The times are seconds on the stand-in's clock, and ``held`` the dollars that
    the answer may cost at most.
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
    billed: dict[str, Any] | None = None
    output: list[dict[str, Any]] = field(default_factory=list)
    written: str = ""
    warnings: list[str] = field(default_factory=list)
    error: str = ""
    held: Decimal = Decimal(0)
    is_summary: bool = False
    disconnected: bool = False
    finished: bool = False
    ended_at: float | None = None


@dataclass(frozen=True, slots=True)
class Credit:
    """What is left of an account, or of a key's own limit, and what its running requests may cost, in dollars."""

    dollars: Decimal
    held: Decimal
    is_of_key: bool

    def affordable(self, asked: Asked, *, beside_others: bool = False) -> int:
        """How many tokens of an answer can be paid, beside what is held for other requests or without them."""
        prices = asked.model.cached.prices
        left = self.dollars - asked.prompt.tokens * prices.prompt - (self.held if beside_others else 0)
        return max(0, int(left / prices.completion)) if prices.completion else asked.output


def account_of(bearer: str) -> str:
    """A name for the account of a bearer, from which the bearer cannot be found."""
    return hashlib.sha256(bearer.encode()).hexdigest()[:ACCOUNT_CHARS] if bearer else ""


class Service:
    """All that one stand-in remembers.

    ``pace_seconds`` is the pause between the deltas of an ordinary answer; ``orders`` says by a request's body what its
    answer is, in directives, in place of the queue. Of a generation nothing is told before ``telling_seconds``.
    """

    def __init__(
        self,
        *,
        pace_seconds: float = 0.0,
        tokenizer: Tokenizer | None = None,
        orders: Callable[[Any], str] | None = None,
        telling_seconds: float = TELLING_SECONDS,
    ) -> None:
        self.pace_seconds, self.orders, self.telling_seconds = pace_seconds, orders, telling_seconds
        self.tokenizer = tokenizer or local_tokenizer()
        self.sealer = Sealer()
        self.reset()

    def reset(self) -> None:
        """Forget everything but the seals, which stay valid; the summaries are honest again."""
        self.log: deque[RecordedRequest] = deque(maxlen=RECORDED_REQUESTS)
        self.forgotten = 0
        """How many of the oldest requests the log no longer holds."""
        self._serving: dict[tuple[str, str], tuple[str, float]] = {}
        self.cache = PromptCache()
        self._queue: deque[str] = deque()
        self._advanced_seconds = 0.0
        self._summarizer = ""
        self.videos: dict[str, VideoJob] = {}
        """The jobs since then, by their ids."""
        self.bills: dict[str, dict[str, Any]] = {}
        """All that was charged since then, by generation, as ``/generation`` tells it."""

    def record(self, request: RecordedRequest) -> None:
        """Note a request in the log, which may forget the oldest for it."""
        self.forgotten += len(self.log) == self.log.maxlen
        self.log.append(request)

    def charge(self, request: RecordedRequest, generation: str, used: dict[str, Any] | None) -> None:
        """Bill a request whose answer has ended, if that costs anything.

        The form is that of the documented ``GET /generation``; ``account``, ``told_at`` and ``user`` are ours.
        """
        request.billed = used
        if used is None:
            return
        is_byok, details = used["is_byok"], used["cost_details"]
        self.bills[generation] = {
            "id": generation,
            "model": request.body.get("model"),
            "total_cost": used["cost"],
            "usage": used["cost"],
            "is_byok": is_byok,
            "upstream_inference_cost": details["upstream_inference_cost"] if is_byok else 0,
            "native_tokens_prompt": used["input_tokens"],
            "native_tokens_completion": used["output_tokens"],
            "native_tokens_cached": used["input_tokens_details"]["cached_tokens"],
            "native_tokens_reasoning": used["output_tokens_details"]["reasoning_tokens"],
            "streamed": bool(request.body.get("stream")),
            "cancelled": request.disconnected,
            "account": request.account,
            "user": request.body.get("user"),
            "began_at": request.received_at,
            "told_at": self.now() + self.telling_seconds,
            "is_named": request.status != 0,
        }

    @property
    def requests(self) -> list[RecordedRequest]:
        """The requests since the start or the last reset, the newest RECORDED_REQUESTS of them, oldest first."""
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

    def credit(self, request: RecordedRequest, bearer: str) -> Credit | None:
        """What is left for a request; None where its key names no sum."""
        if (funded := FUNDED.match(bearer)) is None:
            return None
        others = [one for one in self.log if one.account == request.account and one is not request]
        spent = sum(Decimal(str((one.billed or {}).get("cost", 0))) for one in others)
        held = sum((one.held for one in others if one.ended_at is None), Decimal(0))
        return Credit(Decimal(funded[2]) - spent, held, funded[1] == "limit")

    def serving(self, model: Model, conversation: str, names: Sequence[str]) -> str:
        """Which of the providers serves a conversation: the one that did, and each new one another in turn."""
        key, now = (model.id, conversation), self.now()
        name, until = self._serving.get(key, ("", now))
        if name not in names or until <= now:
            name = names[len(self._serving) % len(names)]
        self._serving[key] = (name, now + STICKY_SECONDS)
        return name

    def script(self, *orders: str, times: int = 1) -> None:
        """Queue behaviours for the next requests: directives with or without brackets."""
        self._queue += map(bracketed, orders * times)

    def queued(self) -> str:
        """The directives for this request, which are used up; empty where none are left."""
        return self._queue.popleft() if self._queue else ""
