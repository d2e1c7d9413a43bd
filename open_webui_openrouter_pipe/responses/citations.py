"""Annotations of output text, brought into the flat form that the Responses schema documents.

Some providers nest the citation under its own type name and omit the title; on replay the schema requires
title and both indexes. Owns the form of one annotation and what makes two of them the same.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

_KIND = "url_citation"


def flat_annotation(wire: Any) -> dict[str, Any] | None:
    """Give the annotation flat and with a title, or None when it is no annotation at all."""
    if not isinstance(wire, dict) or not isinstance(wire.get("type"), str):
        return None
    if wire["type"] != _KIND:
        return wire
    nested = wire.get(_KIND)
    flat = {"type": _KIND, **nested} if isinstance(nested, dict) else wire
    url = flat.get("url")
    if not isinstance(url, str) or not url:
        return None
    title = flat.get("title")
    return {
        **flat,
        "type": _KIND,
        "title": title if isinstance(title, str) and title else url,
        "start_index": _position(flat.get("start_index")),
        "end_index": _position(flat.get("end_index")),
    }


def identity(annotation: dict[str, Any]) -> Hashable:
    """What two mentions of one annotation share; a citation may gain its excerpt later."""
    if annotation["type"] == _KIND:
        return annotation["url"], annotation["start_index"], annotation["end_index"]
    return repr(annotation)


def _position(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
