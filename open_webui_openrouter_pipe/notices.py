"""The words that users see: status lines and error lines, by name. Ready for translation, and kept nowhere else.

Owns the texts and their plural forms. It must not decide when a line is shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_ENGLISH: Final[Mapping[str, str]] = MappingProxyType(
    {
        # responses: what arrives from OpenRouter
        "unreadable_event": "OpenRouter sent something that is not part of an answer. Please try again.",
        # engine: a turn and its rounds
        "unexpected_error": "The pipe met an unexpected error; the server's log has the details.",
        "reasoning_rejected": "The provider did not accept the earlier reasoning; answering without it.",
        "context_shortened": "The provider counted more tokens than fit; answering with less of the chat.",
        "answer_not_saved": "Parts of this answer could not be saved; later turns continue without its reasoning.",
        "answer_at_output_limit": "The answer stopped at the output limit. Ask to continue, or raise max_tokens.",
        "answer_filtered": "The provider's content filter stopped the answer.",
        "answer_cut_off": "The provider cut the answer off.",
        "answer_empty": "The model ended its turn without an answer. Ask again, or choose another model.",
        # engine: stored items that could not be reloaded
        "artifacts_unavailable": "{count} stored items could not be reloaded: the database is unavailable.",
        "artifacts_unavailable.one": "{count} stored item could not be reloaded: the database is unavailable.",
        "artifacts_missing": "{count} stored items could not be reloaded ({details}).",
        "artifacts_missing.one": "{count} stored item could not be reloaded ({details}).",
        "artifacts_not_found": "{count} no longer stored",
        "artifacts_unreadable": "{count} sealed with another key, or damaged",
        "artifacts_too_large": "{count} over the size limit",
    }
)
"""Templates of `str.format` by name. With a `count`, `NAME.one` is preferred to `NAME` when the count is 1."""


def notice(name: str, /, **values: object) -> str:
    """Return the line of this name with its values filled in.

    Raises:
        KeyError: There is no such line, or it needs a value that is missing.
    """
    singular = f"{name}.one"
    template = _ENGLISH[singular if values.get("count") == 1 and singular in _ENGLISH else name]
    return template.format(**values)
