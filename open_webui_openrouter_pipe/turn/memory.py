"""What a worker remembers of all its turns: what users were informed of, what was refused, and what was sent last.

What a change of a chat's prefix is, and its price, is decided in `money/prefix`; here the administrator is told when it
happens for no reason of ours. A worker compares with what it has sent itself: of a chat whose requests went through
another one, and after a restart, it knows nothing and says nothing. Of what was sent it holds numbers, and its log
lines hold ids of models alone: no word of anyone.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ..conversation.conversation import ContentCache, cache_key
from ..money.prefix import BreakCause, FoundBreak, LastRequest
from ..money.prices import dollars
from ..planning.plan import Reduction

MOST_CHATS: Final = 1_024
MOST_REQUESTS: Final = 8
"""Of each chat, the last answers: one may be written anew, or beside others by other models."""
LOG_SECONDS: Final = 24 * 60 * 60.0
"""A cause is logged once in so long."""
MISSES_BEFORE_LOG: Final = 3
MISSED_SHARE: Final = 0.5
"""Of the tokens that were expected to be cached: with fewer, a request has missed the cache."""

log = logging.getLogger(__name__)


class SeenOnce:
    """Names met before, for each user apart; of many, those not met recently are forgotten."""

    def __init__(self, limit: int = 10_000) -> None:
        """Remember at most `limit` names of all users together."""
        self._seen = ContentCache[bool](limit)

    def add(self, user_id: str, names: Iterable[str]) -> list[str]:
        """Remember the names; return those that were not known before."""
        new = [name for name in names if not self.contains(user_id, name)]
        for name in new:
            self._seen.put(cache_key(user_id, name), value=True)
        return new

    def contains(self, user_id: str, name: str) -> bool:
        """Whether the name was met before."""
        return self._seen.get(cache_key(user_id, name)) or False

    def forget(self, user_id: str, name: str) -> None:
        """Let the name be new again."""
        if self.contains(user_id, name):
            self._seen.put(cache_key(user_id, name), value=False)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Memory:
    """Of one worker, bounded; `clock` gives epoch seconds."""

    clock: Callable[[], float] = time.time
    reported: SeenOnce = field(default_factory=SeenOnce)
    rejected: SeenOnce = field(default_factory=SeenOnce)
    """The ids of reasoning that its provider has refused; another worker is refused it as well, and learns it so."""
    tried: SeenOnce = field(default_factory=SeenOnce)
    """What was tried against a refusal in a turn, and what has helped: its next requests are sent so from the start."""
    agreed: SeenOnce = field(default_factory=SeenOnce)
    """The messages to whose price their user has agreed."""
    declined: SeenOnce = field(default_factory=SeenOnce)
    """The chats whose last message was declined: no task is to be run for it."""
    _lacking: ContentCache[tuple[Reduction, ...]] = field(default_factory=ContentCache)
    """What the last request of each chat lacked, and its user was therefore informed of."""
    _sent: ContentCache[tuple[LastRequest, ...]] = field(default_factory=lambda: ContentCache(MOST_CHATS))
    """By chat, the newest first."""
    _breaks: dict[BreakCause, tuple[float, int, float]] = field(default_factory=dict)
    """By cause: when it was last logged, and its requests and dollars since."""
    _misses: ContentCache[tuple[float, int]] = field(default_factory=lambda: ContentCache(MOST_CHATS))
    """By model: when it was last logged, and how many requests in a row have missed the cache."""

    def new_lines(self, user_id: str, chat_id: str, lines: Mapping[str, str]) -> list[str]:
        """Remember lines about a chat by their names; return those of names that were not met in it before."""
        return [line for name, line in lines.items() if self.reported.add(user_id, [f"{chat_id}\n{name}"])]

    def new_reductions(self, chat: bytes, reductions: tuple[Reduction, ...]) -> list[Reduction]:
        """Return what a chat's last request did not lack, and remember that its user is informed of it now."""
        reported = self._lacking.get(chat) or ()
        self._lacking.put(chat, reductions)
        return [each for each in reductions if each not in reported]

    def last_requests(self, user_id: str, chat_id: str, model: str = "") -> Sequence[LastRequest]:
        """Return what was sent in a chat, to one model or to any, the newest first; nothing of one without an id."""
        sent = self._sent.get(cache_key(user_id, chat_id)) or () if chat_id else ()
        return [each for each in sent if each.model == model] if model else sent

    def may_be_cached(self, user_id: str, chat_id: str, model: str) -> bool:
        """Whether the provider may still have the chat in its cache."""
        return any(self.clock() < each.cached_until for each in self.last_requests(user_id, chat_id, model))

    def keep(
        self, user_id: str, chat_id: str, sent: LastRequest, found: FoundBreak | None, expected_tokens: int
    ) -> None:
        """Remember a request that was answered, and log what there is to say of what was expected of it."""
        key, name = cache_key(user_id, chat_id), (sent.model, sent.preset, sent.digests.answer)
        earlier = self._sent.get(key) or ()
        others = [each for each in earlier if (each.model, each.preset, each.digests.answer) != name]
        self._sent.put(key, (sent, *others)[:MOST_REQUESTS])
        if found and found.lost_tokens:
            self._log_break(found, sent.preset)
        if sent.was_read_once and expected_tokens:
            self._judge(sent.model, expected_tokens, sent.usage.cached_tokens)

    def _log_break(self, found: FoundBreak, preset: str) -> None:
        now = self.clock()
        logged, requests, cost = self._breaks.get(found.cause, (now - LOG_SECONDS, 0, 0.0))
        requests, cost = requests + 1, cost + found.lost_cost
        if now - logged < LOG_SECONDS:
            self._breaks[found.cause] = logged, requests, cost
            return
        self._breaks[found.cause] = now, 0, 0.0
        log.warning(
            "A request to %r begins otherwise than the last one of its chat (%s), so that %d tokens were not read from "
            "the provider's cache. Cause %r; %d such requests since this was last said, about %s.",
            preset,
            f"{found.position}: {', '.join(found.names)}" if found.names else found.position,
            found.lost_tokens,
            found.cause,
            requests,
            dollars(cost),
        )

    def _judge(self, model: str, expected: int, cached: int) -> None:
        """Count the requests in a row of which the provider has read less from its cache than it should have."""
        key, now = cache_key(model), self.clock()
        logged, misses = self._misses.get(key) or (now - LOG_SECONDS, 0)
        misses = misses + 1 if cached < MISSED_SHARE * expected else 0
        is_due = misses >= MISSES_BEFORE_LOG and now - logged >= LOG_SECONDS
        self._misses.put(key, (now if is_due else logged, misses))
        if is_due:
            log.warning(
                "The last %d requests to %r began as those before them, and yet the provider read less than half of "
                "what was expected from its cache: the last time %d tokens of %d. Some providers do not keep what they "
                "say they do, and with `provider.order` or fallback models requests go to several: look at where they "
                "are sent.",
                misses,
                model,
                cached,
                expected,
            )
