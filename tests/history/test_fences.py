"""Closed code blocks and what only looks like one."""

from __future__ import annotations

import pytest

from open_webui_openrouter_pipe.history.markers import closed_fences

CASES = {
    "```\nx\n```": ["```\nx\n```"],
    "a\n~~~py\nx\n~~~\nb": ["~~~py\nx\n~~~"],
    "   ```\nx\n  ```": ["   ```\nx\n  ```"],
    "```\nx\n````": ["```\nx\n````"],
    "````\n```\nx\n```\n````": ["````\n```\nx\n```\n````"],
    "```\n~~~\n```\n~~~": ["```\n~~~\n```"],
    "```a\nx\n```\ny\n```b\nz\n```  ": ["```a\nx\n```", "```b\nz\n```  "],
    "```\nx": [],
    "    ```\nx\n    ```": [],
    "```inline``` text\nx\n": [],
    "```\nx\n``` y": [],
    "``\nx\n``": [],
    "": [],
}


@pytest.mark.parametrize("text", CASES)
def test_blocks(text: str) -> None:
    """A block reaches from its opening line to the end of a closing line of its own kind."""
    assert [text[start:end] for start, end in closed_fences(text)] == CASES[text]
