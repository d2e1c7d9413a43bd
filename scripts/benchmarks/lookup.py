"""How long the look-up of a question in a long chat takes, and what its index takes in memory.

The chats are those of the other benchmarks (an agent's, plain talk, ten languages), repeated with other numbers until
they have that size, at four characters a token. `cold` is a first question, for which everything is indexed; `warm` the
next ones, their median; `new_turn` a question after one more text. Times are processor time.

Goals at a million tokens: 20 ms warm, 200 ms cold.
"""

from __future__ import annotations

import statistics
import time
import tracemalloc
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from open_webui_openrouter_pipe.recall.search import SourceText, TextIndex, make_query, new_index, search
from scripts.benchmarks._chats import SHAPES, text_of, write_chat

if TYPE_CHECKING:
    from collections.abc import Sequence

NAME = "lookup"

SIZES_TOKENS = (10_000, 100_000, 300_000, 1_000_000)
CHARACTERS_PER_TOKEN = 4
REPEATS = 15
QUESTION = "Which depot had the most refused deliveries in spring, and who was told about it?"
CONTEXT = (
    "The carriers' report is late again.",
    "Please compare the tariffs of both carriers for heavy parcels.",
)


def run() -> dict[str, Any]:
    """Measure all sizes; milliseconds and megabytes."""
    return {f"{size // 1000}k": measure(_texts(size)) for size in SIZES_TOKENS}


def measure(texts: Sequence[SourceText]) -> dict[str, float]:
    """Search one chat, first without an index."""
    index, query = new_index(), make_query(QUESTION, CONTEXT)

    def milliseconds(sources: Sequence[SourceText], into: TextIndex) -> float:
        start = time.process_time()
        search(sources, query, into)
        return round((time.process_time() - start) * 1000, 2)

    cold = milliseconds(texts[:-1], index)
    new_turn = milliseconds(texts, index)
    again = statistics.median(milliseconds(texts, index) for _ in range(REPEATS))
    tracemalloc.start()
    kept = new_index()
    search(texts, query, kept)
    megabytes = round(tracemalloc.get_traced_memory()[0] / 1e6, 1)
    tracemalloc.stop()
    passages = sum(len(found.starts) for each in texts if (found := kept.texts.get(each.digest)))
    return {
        "passages": passages,
        "cold_ms": cold,
        "warm_ms": again,
        "new_turn_ms": new_turn,
        "memory_mb": megabytes,
    }


def _texts(size_tokens: int) -> list[SourceText]:
    """What the chats say, again and again with other numbers, up to a size."""
    chats = [write_chat(SHAPES[name]) for name in ("agent 40", "plain 300", "ten languages 90")]
    said = [text for chat in chats for item in chat.items if (text := text_of(item).strip())]
    texts: list[SourceText] = []
    left = size_tokens * CHARACTERS_PER_TOKEN
    while left > 0:
        number = len(texts)
        text = f"{number} {said[number % len(said)]} {number * 7}"[:left]
        texts.append(SourceText(number, "user", text, sha256(text.encode()).digest()[:16]))
        left -= len(text)
    return texts
