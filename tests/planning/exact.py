"""Chats and models whose sizes are round numbers: a token is a word, the budget is 100,000 tokens.

The instructions and the last question are 100 tokens together, each earlier turn is 1,000 tokens unless a test
says otherwise. So the size of a request can be read off the number of its turns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from open_webui_openrouter_pipe.planning.planner import ModelTerms
from open_webui_openrouter_pipe.planning.simulate import CachePrices
from tests.support.chats import History, Memory, answer, history, user

if TYPE_CHECKING:
    from collections.abc import Sequence

BUDGET_TOKENS = 100_000
MODEL = ModelTerms("vendor/model", 110_000, output_tokens=4_500, prices=CachePrices(0.1, 1.25))
"""5 % of the window are kept back, 4,500 tokens are for the output."""
CACHED, UNCACHED = MODEL.prices, CachePrices()
QUESTION_TOKENS = 91
MESSAGE_TOKENS = 4
"""What a message costs beside its words."""


def split_words(text: str) -> Sequence[int]:
    """One token a word."""
    return range(len(text.split()))


def new_memory() -> Memory:
    """The caches of one worker, with a tokenizer that counts words."""
    return Memory(encode=split_words)


def words(count: int, first: str = "") -> str:
    """So many words, of which the first may be given."""
    return " ".join([first, *["word"] * (count - 1)] if first else ["word"] * count)


def talk(turns: int, tokens: int = 1_000, *, longer: Mapping[int, int] = MappingProxyType({})) -> History:
    """Questions and answers of so many tokens a turn, `longer` ones by their numbers, and a last question."""
    said = [
        [
            user(words(QUESTION_TOKENS - MESSAGE_TOKENS, f"Q{at}")),
            answer(words(longer.get(at, tokens) - QUESTION_TOKENS - MESSAGE_TOKENS, f"A{at}"), f"m{at}"),
        ]
        for at in range(turns)
    ]
    return history(*said, [user(words(QUESTION_TOKENS - MESSAGE_TOKENS, f"Q{turns}"))])


def with_window(window_tokens: int) -> ModelTerms:
    """The model with another window."""
    return replace(MODEL, window_tokens=window_tokens)
