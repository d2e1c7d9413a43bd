"""The words that users see: status lines and error lines, by name. Ready for translation, and kept nowhere else.

Owns the texts and their plural forms. It must not decide when a line is shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_ENGLISH: Final[Mapping[str, str]] = MappingProxyType(
    {
        # Summaries: why one could not be made, as the end of "The conversation could not be summarized: ...".
        "summary_failure_empty": "the model's answer was empty",
        "summary_failure_malformed": "the model's answer did not have the expected form",
        "summary_failure_longer_than_its_source": "the summary was longer than what it summarizes",
        "summary_failure_repeats_its_prompt": "the model repeated its instructions",
        "summary_failure_cut_off": "the model's answer was cut off",
        "summary_failure_calls_a_tool": "the model called a tool",
        "summary_failure_reasoning_only": "the model only reasoned and did not answer",
        "summary_failure_refused": "the model refused",
        "summary_failure_not_grounded": "the summary contained figures not found in the chat",
        "summary_failure_timed_out": "the model took too long",
        "summary_failure_claimed_elsewhere": "another server process is already doing it",
        "summary_failure_database_unavailable": "the database is unavailable",
        "summary_failure_unexpected_error": "unexpected error",
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
