"""The usage figures in the form that Open WebUI stores, sums over rounds and shows in its popover."""

from __future__ import annotations

from typing import Any

from ..responses.usage import Usage


def host_usage(usage: Usage) -> dict[str, Any]:
    """Write the usage of one round.

    Open WebUI sums token and cost figures over the rounds of a turn, but keeps the last round's `prompt_tokens` and
    `completion_tokens`, by which its own compaction judges the length of the chat.
    """
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "input_tokens_details": {
            "cached_tokens": usage.cached_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
        },
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "cost": usage.cost,
    }
