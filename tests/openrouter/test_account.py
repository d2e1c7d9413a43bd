"""What OpenRouter says of a key."""

from __future__ import annotations

from typing import Any

import pytest

from open_webui_openrouter_pipe.openrouter.catalog import KeyFacts, read_key

DATA = {
    "label": "sk-or-v1-abc...xyz",
    "limit": 10,
    "limit_remaining": 3.206,
    "limit_reset": "monthly",
    "usage": 1234.5,
    "usage_monthly": 6.794,
    "usage_daily": 0.1,
    "is_free_tier": False,
    "expires_at": "2027-01-01T00:00:00Z",
}
FACTS = KeyFacts(
    limit=10,
    remaining=3.206,
    used=1234.5,
    used_this_month=6.794,
    used_today=0.1,
    resets="monthly",
    expires="2027-01-01T00:00:00Z",
)
NOTHING = KeyFacts(None, None, None, None, None)


@pytest.mark.parametrize(
    ("wire", "facts"),
    [
        ({"data": DATA}, FACTS),
        ({"data": {"label": "x", "limit": "none", "limit_reset": 3, "is_free_tier": "yes"}}, NOTHING),
        ({"data": {"is_free_tier": True}}, KeyFacts(None, None, None, None, None, is_free_tier=True)),
        ({"data": {}}, None),
        ({"data": []}, None),
        ([], None),
        (None, None),
    ],
)
def test_a_key_is_read(wire: Any, facts: KeyFacts | None) -> None:
    """What is missing or of another type is not known; an answer that says nothing of a key is none."""
    assert read_key(wire) == facts


@pytest.mark.parametrize(("remaining", "used_up"), [(None, False), (0.01, False), (0.0, True), (-0.2, True)])
def test_a_key_is_used_up_when_nothing_is_left(remaining: float | None, used_up: bool) -> None:  # noqa: FBT001
    """One without a limit never is."""
    assert KeyFacts(10, remaining, 10, 1, 1).is_used_up is used_up


def test_an_administrator_reads_what_a_key_may_spend() -> None:
    """In dollars; its label is left to OpenRouter's own page."""
    assert FACTS.lines() == [
        "The API key has used $1,234.50: $6.79 this month, $0.10 today.",
        "Its limit is $10.00 a month; $3.21 are left.",
        "It expires at 2027-01-01T00:00:00Z.",
    ]
    assert KeyFacts(None, None, 0, 0, 0, is_free_tier=True).lines() == [
        "The API key has used $0.00: $0.00 this month, $0.00 today.",
        "It has no limit of its own; the account's credits limit it.",
        (
            "No credits have been bought yet: only free models can be used, with few requests a day. Credits are at "
            "https://openrouter.ai/settings/credits."
        ),
    ]
