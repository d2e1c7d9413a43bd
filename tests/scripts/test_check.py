"""The check for text that Open WebUI would rewrite in a function."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scripts.bundle.builder import REWRITTEN_BY_HOST
from scripts.check import host_rewrites

if TYPE_CHECKING:
    from pathlib import Path


def test_each_rewritten_text_is_found_with_its_place(tmp_path: Path) -> None:
    """Code and prose alike are found; relative imports of the same names are not."""
    texts = [f'"""Taken {text} there."""\n' for text in REWRITTEN_BY_HOST]
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "prose.py").write_text("".join(texts), "utf-8")
    (tmp_path / "fine.py").write_text("from .config import x\n", "utf-8")
    assert list(host_rewrites(tmp_path)) == [
        f"inner/prose.py:{number}: {text.strip()}" for number, text in enumerate(texts, start=1)
    ]


def test_the_texts_are_the_four_of_the_host() -> None:
    """Open WebUI replaces imports of these four modules, and nothing else."""
    hosts = ("utils", "apps", "main", "config")
    assert [text.split() for text in REWRITTEN_BY_HOST] == [["from", host] for host in hosts]
