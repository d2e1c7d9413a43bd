"""What a user reads when a turn fails, and what the log has of it, with a short reference in both."""

from __future__ import annotations

import logging
import secrets
from typing import Final

from ..errors import PipeError
from ..notices import notice
from ..ports import Failed

_LETTERS: Final = "BCDFGHJKLMNPQRSTVWXZ"
"""Without vowels, so that they make no words."""
_REFERENCE_LETTERS: Final = 6

log = logging.getLogger(__name__)


def report_failure(error: Exception, *, for_admin: bool) -> Failed:
    """Log the error, and return it as the last output; whoever can change settings reads words of their own."""
    reference = "".join(secrets.choice(_LETTERS) for _ in range(_REFERENCE_LETTERS))
    if not isinstance(error, PipeError):
        log.error("%s: unexpected error", reference, exc_info=error)
        return Failed(_with_reference(notice("unexpected_error"), reference))
    log.warning("%s: %s; generation %s", reference, error, error.generation_id or "unnamed")
    line = error.admin_message if for_admin else error.user_message
    return Failed(_with_reference(line, reference) if error.has_reference else line, error)


def _with_reference(line: str, reference: str) -> str:
    return notice("with_reference", line=line, reference=reference)
