"""Annotations are brought into one form."""

from __future__ import annotations

from typing import Any

import pytest

from open_webui_openrouter_pipe.responses.drafts import flat_annotation

FLAT = {"type": "url_citation", "url": "https://a.test", "title": "A", "start_index": 1, "end_index": 2}


@pytest.mark.parametrize(
    ("wire", "expected"),
    [
        (FLAT, FLAT),
        ({"type": "url_citation", "url_citation": {key: FLAT[key] for key in FLAT if key != "type"}}, FLAT),
        (
            {
                "type": "url_citation",
                "url": "https://a.test",
                "title": None,
                "start_index": "x",
                "end_index": -3,
            },
            {**FLAT, "title": "https://a.test", "start_index": 0, "end_index": 0},
        ),
        ({"type": "file_citation", "file_id": "f"}, {"type": "file_citation", "file_id": "f"}),
        ({"type": "url_citation", "url": 7}, None),
        ({"type": ["url_citation"]}, None),
        ("https://a.test", None),
    ],
)
def test_flat_annotation(wire: Any, expected: dict[str, Any] | None) -> None:
    """Nested and flat citations become flat ones with a title; what cannot be one is omitted."""
    assert flat_annotation(wire) == expected
