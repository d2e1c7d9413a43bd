"""The worked example of docs/history.md is what the code does."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

_PAGE = Path(__file__).parents[2] / "docs" / "history.md"


def test_example() -> None:
    """The page's messages and artifacts, run through the page's code, become the page's items."""
    page = _PAGE.read_text("utf-8")
    blocks = dict(re.findall(r"^```json (\w+)\n(.*?)^```", page, re.DOTALL | re.MULTILINE))
    names: dict[str, Any] = {name: json.loads(block) for name, block in blocks.items()}
    code = re.search(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert code is not None
    exec(code[1], names)
    assert list(names["history"].wanted) == list(names["artifacts"])
    assert json.dumps(names["built"].items) == json.dumps(names["items"])
