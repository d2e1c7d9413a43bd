"""Remembers how requests began, and tells the administrator when that changes for no reason of ours.

What a change is, and its price, is decided in `planning.prefix`. A worker compares with what it has sent itself: of a
chat whose requests went through another one, and after a restart, it knows nothing and says nothing. Its memory holds
numbers, and its log lines ids of models alone: no word of anyone.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Final

from ..conversation.conversation import ContentCache
from ..money.audit import PrefixNote
from ..money.prefix import BreakCause, FoundBreak, RequestDigests, find_break, nearest, price_break
from ..money.prices import CacheRule, Prices, dollars

MOST_CHATS: Final = 512
MOST_REQUESTS: Final = 4
"""Of each chat, model and preset, the last answers: an answer may be written anew, or beside another."""
LOG_SECONDS: Final = 24 * 60 * 60.0
"""A cause is logged once in so long."""
MISSES_BEFORE_LOG: Final = 3
MISSED_SHARE: Final = 0.5
"""Of the tokens that were expected to be cached: with fewer, a request has missed the cache."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Watched:
    """Whose requests these are: the key of their user, chat and model, the model's id, and that of the preset of it."""

    chat: bytes
    model: str
    preset: str

    @property
    def key(self) -> bytes:
        """The name of the requests that continue each other."""
        return self.chat + b"\n" + self.preset.encode("utf-8", "surrogatepass")


@dataclass(slots=True)
class _Logged:
    """When a cause was last logged, and its requests and dollars since."""

    seconds: float
    requests: int = 0
    cost: float = 0.0


@dataclass(frozen=True, slots=True)
class PrefixWatch:
    """What one worker knows of the requests that it has sent."""

    _sent: ContentCache[tuple[RequestDigests, ...]] = field(default_factory=lambda: ContentCache(MOST_CHATS))
    """The newest first."""
    _logged: dict[BreakCause, _Logged] = field(default_factory=dict)
    _misses: ContentCache[int] = field(default_factory=lambda: ContentCache(MOST_CHATS))
    """By model: how many requests in a row have missed the cache."""
    _logged_misses: ContentCache[float] = field(default_factory=lambda: ContentCache(MOST_CHATS))

    def compare(
        self, watched: Watched, now: RequestDigests, rule: CacheRule, prices: Prices, *, now_seconds: float
    ) -> FoundBreak | None:
        """Return the change that nobody announced, with its price; None where there is none, or nothing to compare."""
        compared = nearest(self._sent.get(watched.key) or (), now)
        found = find_break(compared, now, watched.model)
        if compared is None or found is None:
            return None
        return price_break(found, compared, now, rule=rule, prices=prices, now_seconds=now_seconds)

    def close(
        self,
        watched: Watched,
        sent: RequestDigests,
        prefix: PrefixNote,
        cached_tokens: int | None,
        *,
        now_seconds: float,
    ) -> None:
        """Remember a request that was answered, and log what there is to say.

        `cached_tokens` is what the provider says it has read from its cache, None where it read more than once.
        """
        others = (each for each in self._sent.get(watched.key) or () if each.answer != sent.answer)
        self._sent.put(watched.key, (sent, *others)[:MOST_REQUESTS])
        if prefix.found and prefix.found.lost_tokens:
            self._log_break(prefix.found, watched, now_seconds)
        if cached_tokens is not None and prefix.expected_cached_tokens:
            self._judge(watched.model, prefix.expected_cached_tokens, cached_tokens, now_seconds)

    def _log_break(self, found: FoundBreak, watched: Watched, now_seconds: float) -> None:
        logged = self._logged.setdefault(found.cause, _Logged(now_seconds - LOG_SECONDS))
        logged.requests, logged.cost = logged.requests + 1, logged.cost + found.lost_cost
        if now_seconds - logged.seconds < LOG_SECONDS:
            return
        self._logged[found.cause] = _Logged(now_seconds)
        where = found.position if not found.names else f"{found.position}: {', '.join(found.names)}"
        _log.warning(
            "A request to %r begins otherwise than the last one of its chat (%s), so that %d tokens were not read from "
            "the provider's cache. Cause %r; %d such requests since this was last said, about %s.",
            watched.preset,
            where,
            found.lost_tokens,
            found.cause,
            logged.requests,
            dollars(logged.cost),
        )

    def _judge(self, model: str, expected: int, cached: int, now_seconds: float) -> None:
        """Count the requests in a row of which the provider has read less from its cache than it should have."""
        key = model.encode("utf-8", "surrogatepass")
        missed = cached < MISSED_SHARE * expected
        misses = self._misses.put(key, (self._misses.get(key) or 0) + 1 if missed else 0)
        logged = self._logged_misses.get(key)
        if misses < MISSES_BEFORE_LOG or (logged is not None and now_seconds - logged < LOG_SECONDS):
            return
        self._logged_misses.put(key, now_seconds)
        _log.warning(
            "The last %d requests to %r began as those before them, and yet the provider read less than half of what "
            "was expected from its cache: the last time %d tokens of %d. Some providers do not keep what they say they "
            "do, and with `provider.order` or fallback models requests go to several: look at where they are sent.",
            misses,
            model,
            cached,
            expected,
        )
