"""What OpenRouter says of an API key: GET /key.

Pure. Amounts are US dollars. Source: `GetCurrentKeyData` of the official SDK.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from ..notices import notice
from ..responses.wire import as_number, as_object, as_text

KEY_PATH: Final = "/key"
_RESETS: Final = {"daily": "resets_daily", "weekly": "resets_weekly", "monthly": "resets_monthly"}


@dataclass(frozen=True, slots=True)
class KeyFacts:
    """What a key may spend and has spent; None where there is no limit, or it is not known.

    `resets` is how often the limit begins anew ("daily", "weekly", "monthly"), `expires` the time at which the key
    ends (ISO 8601), both empty where there is none. On the free tier no credits have ever been bought.
    """

    limit: float | None
    remaining: float | None
    used: float | None
    used_this_month: float | None
    used_today: float | None
    resets: str = ""
    expires: str = ""
    is_free_tier: bool = False

    @property
    def is_used_up(self) -> bool:
        """Whether nothing is left of its limit."""
        return self.remaining is not None and self.remaining <= 0

    def lines(self) -> list[str]:
        """Return what an administrator should know, one line for each thing."""
        lines = [
            notice(
                "key_used",
                total=self.used or 0,
                month=self.used_this_month or 0,
                today=self.used_today or 0,
            )
        ]
        remaining = self.remaining or 0
        if self.limit is None:
            lines.append(notice("key_without_limit"))
        elif self.resets:
            lines.append(
                notice("key_limit_resets", limit=self.limit, remaining=remaining, period=_period(self.resets))
            )
        else:
            lines.append(notice("key_limit", limit=self.limit, remaining=remaining))
        if self.is_free_tier:
            lines.append(notice("key_free_tier"))
        if self.expires:
            lines.append(notice("key_expires", time=self.expires))
        return lines


def _period(resets: str) -> str:
    name = _RESETS.get(resets)
    return notice(name) if name else resets


def read_key(wire: Any) -> KeyFacts | None:
    """Read the response of GET /key; None when it says nothing of a key."""
    data = as_object(as_object(wire).get("data"))
    if not data:
        return None
    return KeyFacts(
        limit=as_number(data.get("limit")),
        remaining=as_number(data.get("limit_remaining")),
        used=as_number(data.get("usage")),
        used_this_month=as_number(data.get("usage_monthly")),
        used_today=as_number(data.get("usage_daily")),
        resets=as_text(data.get("limit_reset")),
        expires=as_text(data.get("expires_at")),
        is_free_tier=data.get("is_free_tier") is True,
    )
