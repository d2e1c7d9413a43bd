"""The words that users see: status lines and error lines, by name. Ready for translation, and kept nowhere else.

Owns the texts and their plural forms. It must not decide when a line is shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_ENGLISH: Final[Mapping[str, str]] = MappingProxyType({})
"""Templates of `str.format` by name. With a `count`, `NAME.one` is preferred to `NAME` when the count is 1."""


def notice(name: str, /, **values: object) -> str:
    """Return the line of this name with its values filled in.

    Raises:
        KeyError: There is no such line, or it needs a value that is missing.
    """
    singular = f"{name}.one"
    template = _ENGLISH[singular if values.get("count") == 1 and singular in _ENGLISH else name]
    return template.format(**values)
