"""What became of each mutant, in a file that a later run goes on with.

A verdict holds as long as the module and the tests that it rests on are the same; what noticed a mutant before is
tried first afterwards. Owns no trial.
"""

from __future__ import annotations

import functools
import hashlib
import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from scripts.mutation.mutants import Mutant


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is known of one mutant."""

    key: str
    source: str
    """The digest of the mutant's module."""
    by: str = ""
    """The test that fails or hangs; empty while none does."""
    test: str = ""
    """The digest of that test's file."""
    tried: dict[str, str] = field(default_factory=dict)
    """File or folder of tests that do not notice it → its digest."""


class Verdicts:
    """The verdicts of a file about the tree in `root`."""

    def __init__(self, root: Path, file: Path) -> None:
        self._root = root
        self._file = file
        rows = file.read_text("utf-8").splitlines() if file.exists() else []
        self._known = {row["key"]: Verdict(**row) for row in map(json.loads, rows)}

    def known(self, mutant: Mutant) -> Verdict:
        """What still holds of what is known: the test that notices it, or the folders without one."""
        source = self.digest(mutant.path)
        verdict = self._known.get(mutant.key, Verdict(mutant.key, source))
        if verdict.source != source:
            return Verdict(mutant.key, source)
        if verdict.by and self.digest(file_of(verdict.by)) == verdict.test:
            return verdict
        tried = {folder: digest for folder, digest in verdict.tried.items() if self.digest(folder) == digest}
        return Verdict(mutant.key, source, tried=tried)

    def hint(self, mutant: Mutant) -> str:
        """The test that noticed it when its module or the test was another; may be empty."""
        return verdict.by if (verdict := self._known.get(mutant.key)) else ""

    def note(self, verdict: Verdict) -> None:
        """Keep a verdict at once."""
        self._known[verdict.key] = verdict
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(verdict), ensure_ascii=False) + "\n")

    def keep(self, mutants: Iterable[Mutant]) -> None:
        """Write the file anew with the last verdict of each of these."""
        rows = [self._known[key] for key in sorted({mutant.key for mutant in mutants} & self._known.keys())]
        lines = [json.dumps(asdict(row), ensure_ascii=False) + "\n" for row in rows]
        self._file.write_text("".join(lines), "utf-8")

    @functools.cache  # noqa: B019 - there is one for each run
    def digest(self, path: str) -> str:
        """Names what stands in a file and in the tables beside it that it names, or in a folder; empty without one."""
        target = self._root / path
        if target.is_file():
            text = target.read_text("utf-8")
            files = [target, *(table for table in sorted(target.parent.glob("*.txt")) if table.name in text)]
        else:
            files = sorted(target.glob("*" if path == "tests" else "**/*"))
        found = hashlib.sha256()
        for file in files:
            if file.is_file() and file.suffix != ".pyc":
                found.update(f"{file.relative_to(self._root)}\0".encode() + file.read_bytes())
        return found.hexdigest()[:12] if files else ""


def file_of(test: str) -> str:
    """The file of a test, by its name."""
    return test.partition("::")[0]
