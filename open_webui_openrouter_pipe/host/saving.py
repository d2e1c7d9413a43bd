"""Saving valves: whether the host is doing so, and an error whose text its dialog shows.

The host makes valves by the same call when a form is saved, when they are loaded for a request, and when code is
updated. Whatever fails on saving, its dialog shows "Error updating function valves": `_error_message` replaces the text
of every exception, once it has looked whether the exception is true.
Source: `routers/functions.py` and `constants.py` of Open WebUI 0.12.
"""

from __future__ import annotations

import sys
from typing import Final

SAVING_FUNCTIONS: Final = frozenset({"update_function_valves_by_id", "update_function_user_valves_by_id"})


def is_saving() -> bool:
    """Return whether the constructor that asks was called by the host's function for saving a form."""
    return sys._getframe(2).f_code.co_name in SAVING_FUNCTIONS  # noqa: SLF001 - nothing else tells it


class NotSaved(ValueError):
    """Values are refused. Where the host would replace the text, an HTTP response has it instead."""

    def __bool__(self) -> bool:
        from fastapi import HTTPException

        raise HTTPException(status_code=400, detail=str(self))
