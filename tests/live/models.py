"""What live tests ask with: models, tools, and orders to the stand-in; and the kinds of items of an answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Json = dict[str, Any]
Valves = Callable[..., None]

MODEL = "openrouter.openai/gpt-5.2"
CLAUDE = "openrouter.anthropic/claude-sonnet-4.5"
GEMINI = "openrouter.google/gemini-3-pro"
SCRIPTED = "openrouter.standin/script"
SMALL = "openrouter.standin/small"
"""A model with a window of 16,384 tokens."""

ORDERS = '''
import json


class Tools:
    def list_orders(self, page: int) -> str:
        """
        List 500 orders.

        :param page: The page.
        """
        return json.dumps([{"id": page * 500 + at, "customer": f"customer {at}"} for at in range(500)])
'''
CALL = '[[standin: call=get_weather args={"city": "Paris"}]]'
ROUND = ["reasoning", "function_call", "function_call_output"]
REPLAYED = ["user", "reasoning", "assistant", "user"]
FULL = ["user", *ROUND, *REPLAYED[1:]]
"""A turn with a call of a tool, and the next question."""
NO_TOOLS: Json = {"capabilities": {"builtin_tools": False}}
"""Of a preset without the host's many tools, whose tokens would count."""
