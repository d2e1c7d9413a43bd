"""The arithmetic of the window."""

from __future__ import annotations

import pytest

from open_webui_openrouter_pipe.conversation.budget import (
    Budget,
    ContextOverflow,
    ContextSettings,
    ContextShare,
    WindowTooSmall,
    smallest_known,
    split_window,
)
from open_webui_openrouter_pipe.planning.planner import ModelTerms
from tests.support.chats import SYSTEM, history, planned, user


@pytest.mark.parametrize(
    ("window", "output", "budget"),
    [
        (128_000, 4096, Budget(128_000, 4096, 6400)),
        (200_000, 64_000, Budget(200_000, 50_000, 10_000)),
        (1_000_000, 64_000, Budget(1_000_000, 64_000, 50_000)),
        (1_000_000, None, Budget(1_000_000, 16_384, 50_000)),
        (8192, 8192, Budget(8192, 2048, 409)),
        (8192, None, Budget(8192, 2048, 409)),
        (8192, 500, Budget(8192, 500, 409)),
        (4096, 0, Budget(4096, 1024, 256)),
    ],
)
def test_the_window_is_divided(window: int, output: int | None, budget: Budget) -> None:
    """At most a quarter for the output, a twentieth but at least 256 tokens for overhead, the rest for input."""
    split = split_window(window, output_tokens=output)
    assert split == budget
    assert split.input_tokens == window - budget.output_reserve_tokens - budget.overhead_reserve_tokens


@pytest.mark.parametrize("window", [4_096, 6_144, 8_192, 16_384, 131_072, 1_048_576])
def test_the_overhead_covers_what_the_count_may_miss(window: int) -> None:
    """A count that is 5 % too low, and 64 tokens of a template around messages and tools, beside a whole answer."""
    split = split_window(window, output_tokens=window)
    provider_tokens = split.input_tokens / 0.95 + 64
    assert provider_tokens + split.output_reserve_tokens <= window


def test_a_window_without_room_is_refused() -> None:
    """A budget of nothing or less with half of the reserves is an error, unless the provider is to decide."""
    tiny, chat = ModelTerms("vendor/model", 128, output_tokens=32), history([user("Hello")])
    with pytest.raises(WindowTooSmall, match=r"no room .* Choose a model with a larger window\."):
        planned(chat, model=tiny)
    assert planned(chat, ContextSettings(context_strategy="off"), tiny).items == (SYSTEM, *chat.items)


@pytest.mark.parametrize(
    ("largest", "advice"),
    [
        ("summaries", "Start a new chat, or choose"),
        ("note on omitted turns", "Start a new chat, or choose"),
        ("tools", "Switch off tools"),
    ],
)
def test_the_advice_is_about_what_is_largest(largest: str, advice: str) -> None:
    """Of what stands for earlier turns it is the same as of these."""
    shares = [
        ContextShare("latest message", 10, droppable=False),
        ContextShare(largest, 500, droppable=False),
    ]
    assert ContextOverflow(split_window(8_192), 100, shares).advice.startswith(advice)


def test_the_smallest_known_of_all_models_counts() -> None:
    """Of all models that may serve, the smallest; one of which it is unknown does not decide for the others."""
    assert smallest_known([200_000, 128_000]) == 128_000
    assert smallest_known([200_000, None]) == 200_000
    assert smallest_known([None]) is None
