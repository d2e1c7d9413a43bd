"""The arithmetic of the window."""

from __future__ import annotations

import pytest

from open_webui_openrouter_pipe.conversation.budget import (
    Budget,
    ContextSettings,
    WindowTooSmall,
    smallest_window,
    split_window,
)
from open_webui_openrouter_pipe.planning.plan import ModelTerms
from tests.support.chats import SYSTEM, history, planned, user


@pytest.mark.parametrize(
    ("window", "asked", "budget"),
    [
        (128_000, 2048, Budget(128_000, 2048, 6400)),
        (8192, 2048, Budget(8192, 1638, 1024)),
        (8192, 500, Budget(8192, 500, 1024)),
        (1_000_000, 64_000, Budget(1_000_000, 64_000, 50_000)),
    ],
)
def test_the_window_is_divided(window: int, asked: int, budget: Budget) -> None:
    """At most a fifth for the output, a twentieth but at least 1,024 tokens for overhead, the rest for input."""
    split = split_window(window, output_tokens=asked)
    assert split == budget
    assert split.input_tokens == window - budget.output_reserve_tokens - budget.overhead_reserve_tokens


def test_a_window_without_room_is_refused() -> None:
    """A budget of nothing or less with half of the reserves is an error, unless the provider is to decide."""
    tiny, chat = ModelTerms("vendor/model", 512, output_tokens=100), history([user("Hello")])
    with pytest.raises(WindowTooSmall, match=r"no room .* \(context_budget_exceeded\)"):
        planned(chat, model=tiny)
    assert planned(chat, ContextSettings(context_strategy="off"), tiny).items == (SYSTEM, *chat.items)


def test_the_smallest_window_of_all_models_counts() -> None:
    """Of all models that may serve, the smallest; one of which it is unknown does not decide for the others."""
    assert smallest_window([200_000, 128_000]) == 128_000
    assert smallest_window([200_000, None]) == 200_000
    assert smallest_window([None]) is None
