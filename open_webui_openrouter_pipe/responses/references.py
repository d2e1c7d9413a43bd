"""References to files of Open WebUI, in the place of their content: a path, as its page and its messages use it.

No such path may leave for a provider, nor come from one as an item: it could name any file of the user. One that an
answer shows by Markdown is read with the user's rights, and only if it is an image.
Source: `routers/files.py` of Open WebUI.
"""

from __future__ import annotations

import re
from typing import Final

HOST_FILES: Final = "/api/v1/files/"
"""Where Open WebUI shows the files of its users."""

_FILE: Final = re.compile(rf"{HOST_FILES}([A-Za-z0-9_-]{{1,64}})(?:/content)?")


def host_file_path(file_id: str) -> str:
    """Return the path of a file's content."""
    return f"{HOST_FILES}{file_id}/content"


def host_file_id(path: str) -> str | None:
    """Return the id of the file that a path names, None for any other text."""
    found = _FILE.fullmatch(path)
    return found[1] if found else None
