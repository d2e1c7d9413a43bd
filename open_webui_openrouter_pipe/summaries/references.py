"""The messages that a summary's entries refer to, word for word, as far as there is room for them.

Owns which messages come first: those of the turns that most entries name, then the newest. They stand in the message
that replaces old turns, so that they are the first to stay and the last to go: no policy shortens that message, and its
size is counted before it is written. It must not judge an entry.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from ..conversation.conversation import Turn
from ..conversation.record import frame_excerpt, quote_lines
from .prompt import turn_text
from .summary import MODEL_LISTS, ModelSummary

HEADING = "[Messages that the entries refer to, word for word]"
MESSAGE_SHARE = 0.5
"""Of the room that is left: what one message takes at most, so that several have some."""
MIN_MESSAGE_TOKENS = 60
"""Less of a message would say nothing."""
OVERHEAD_TOKENS = 12
"""What stands around a message at most."""


def referenced_messages(
    turns: Sequence[Turn], summary: ModelSummary, *, count: Callable[[str], int], max_tokens: int, shown: str
) -> str:
    """Return the messages of the turns (the first is number one) to which entries refer, "" when there is no room.

    What is `shown` already is not repeated. Of long messages the head and the tail stay.
    """
    entries = (entry for name in MODEL_LISTS for entry in getattr(summary, name))
    numbers = Counter(entry.turn for entry in entries if 1 <= entry.turn <= len(turns))
    left_tokens = max_tokens - count(HEADING)
    chosen: dict[tuple[int, int], str] = {}
    for number in sorted(numbers, key=lambda number: (-numbers[number], -number)):
        for order, (author, text) in enumerate(_messages(turns[number - 1])):
            room_tokens = int(left_tokens * MESSAGE_SHARE) - OVERHEAD_TOKENS
            if "\n".join(quote_lines(text)) in shown or room_tokens < MIN_MESSAGE_TOKENS:
                continue
            framed = frame_excerpt(text, room_tokens, count)
            chosen[number, order] = f"{author} wrote, turn {number}:\n{framed}"
            left_tokens -= count(framed) + OVERHEAD_TOKENS
    return "\n".join([HEADING, *(chosen[key] for key in sorted(chosen))]) if chosen else ""


def _messages(turn: Turn) -> Iterator[tuple[str, str]]:
    """Yield who wrote what in a turn."""
    for author, text in (
        ("The user", turn_text(turn, "user")),
        ("The assistant", turn_text(turn, "assistant")),
    ):
        if text.strip():
            yield author, text
