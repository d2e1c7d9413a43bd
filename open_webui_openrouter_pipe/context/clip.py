"""Clipping: only the last messages of a chat are sent.

Owns the choice of the turn at which a clipped chat begins. It always begins with a user's message, so no
answer is left without its question and no output without its call; instructions are not messages and always
stay.
"""

from __future__ import annotations

from ..responses.items import is_message
from .fold import Bounds, Moment
from .forms import Form
from .turns import Turn


def clip(moment: Moment) -> Bounds:
    """At the beginning of a turn, leave out what is older than the last messages."""
    settings = moment.terms.settings
    limit = settings.clip_limit
    if limit is None or not moment.opens_turn:
        return moment.bounds
    counts = [messages_of(turn) for turn in moment.forms.turns[: moment.turn]]
    total = sum(counts) + 1
    if total < settings.clip_minimum_messages or total <= limit:
        return moment.bounds
    first, kept = moment.turn, 1
    while kept < limit and first > 0:
        first -= 1
        kept += counts[first]
    return moment.bounds.moved(Form.GONE, moment.forms.start_of(first))


def messages_of(turn: Turn) -> int:
    """Count messages as the chat shows them: what the user said, and the answer with all its rounds."""
    asked = sum(is_message(entry.item) and entry.item["role"] == "user" for entry in turn.entries)
    return asked + any(
        not is_message(entry.item) or entry.item["role"] == "assistant" for entry in turn.entries
    )
