"""Cases, their digests in files, and what differs.

A group has a file of digests. Cases are made one by one, so that a quick run may take a tenth of them.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any, TypeAlias

from scripts.paths import ARTIFACTS
from tests.golden.subjects import run

FOLDER = Path(__file__).parent
FOUND = ARTIFACTS / "golden"
SHARES = 10
_ULID = re.compile(r"(?<![0-9A-Z])[0-9A-HJKMNP-TV-Z]{20}(?![0-9A-Z])")

Texts: TypeAlias = "Iterator[tuple[str, Callable[[], str | Coroutine[Any, Any, str]]]]"
"""The name of each case, and what makes its text."""


@dataclass(frozen=True, slots=True)
class Group:
    """Cases of one kind; `texts` lists them without making any."""

    name: str
    texts: Callable[[], Texts]
    quick_shares: int = SHARES
    """How many tenths of its cases a quick run makes."""

    @property
    def path(self) -> Path:
        """Where the digests are."""
        return FOLDER / f"{self.name}.txt"

    def expected(self) -> dict[str, str]:
        """The digests by case."""
        lines = self.path.read_text("utf-8").splitlines() if self.path.exists() else []
        return dict(line.rsplit(" ", 1) for line in lines)

    def made(self, shares: Iterable[int] = range(SHARES)) -> Iterator[tuple[str, str]]:
        """The cases of these shares, with their texts."""
        chosen = set(shares)
        for name, make in self.texts():
            if share_of(name) in chosen:
                yield name, str(run(make) if iscoroutinefunction(make) else make())

    def differing(self, shares: Iterable[int]) -> list[str]:
        """The cases that are new, gone, or other than before, whose texts are then written down."""
        chosen = set(shares)
        expected = {name: each for name, each in self.expected().items() if share_of(name) in chosen}
        wrong = []
        for name, text in self.made(chosen):
            if digest(text) != expected.pop(name, ""):
                wrong.append(name)
                write(FOUND, self.name, name, text)
        return [*wrong, *(f"{name} (is gone)" for name in expected)]


def share_of(name: str) -> int:
    """Which tenth of its group a case is in."""
    return zlib.crc32(name.encode()) % SHARES


def digest(text: str) -> str:
    """The digest of a text, whatever characters it has."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def write(folder: Path, group: str, name: str, text: str) -> None:
    """Write a case's whole text into a folder."""
    path = folder / group / f"{re.sub(r'[^0-9A-Za-z.-]+', '_', name)}.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode("utf-8", "surrogatepass"))


def as_json(value: Any) -> str:
    """A value as JSON in the order of its keys, a line for each of its members."""
    return json.dumps(value, ensure_ascii=False, indent=1)


def numbered(text: str) -> str:
    """The text with each new id by the order in which it occurs, and without times and references of errors."""
    names: dict[str, str] = {}
    text = _ULID.sub(lambda found: names.setdefault(found[0], f"ULID-{len(names) + 1}"), text)
    text = re.sub(r"(?<=\(reference )[A-Z]{6}(?=\))", "REFERE", text)
    text = re.sub(r'"seconds": \d+\.\d', '"seconds": 0.0', text)
    return re.sub(r'"created": \d{9,}', '"created": 0', text)
