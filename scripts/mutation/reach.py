"""Which tests reach a mutant, by what each test of a file reached when nothing was changed.

Owns the choice of tests and their order. It runs nothing.
"""

from __future__ import annotations

import ast
import json
from collections import defaultdict
from dataclasses import dataclass, fields
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from scripts.mutation.mutants import suites
from scripts.mutation.verdicts import file_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from scripts.mutation.mutants import Mutant

MAX_TESTS = 500
MAX_SECONDS = 6.0
"""Of one mutant's tests in one group of folders, by the processor time that they took before."""


@dataclass(frozen=True, slots=True)
class Piece:
    """What the tests of one file reach, of those that pass."""

    digest: str
    """Of the file."""
    modules: dict[str, str]
    """Path of each module of the package → its digest when the tests ran."""
    seconds: dict[str, float]
    """Test → its processor time."""
    suites: dict[str, list[str]]
    """`path:name` of a suite → the tests that reach it."""

    @classmethod
    def read(cls, file: Path) -> Piece | None:
        """None while there is none."""
        return cls(**json.loads(file.read_text("utf-8"))) if file.exists() else None

    def write(self, file: Path) -> None:
        """Write it as a whole or not at all."""
        file.parent.mkdir(parents=True, exist_ok=True)
        written = file.with_suffix(".part")
        row = {field.name: getattr(self, field.name) for field in fields(self)}
        written.write_text(json.dumps(row), "utf-8")
        written.replace(file)


def uses(package: Path, root: Path, names: Collection[str]) -> dict[str, set[str]]:
    """Each of the names → the suites that use it."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in package.rglob("*.py"):
        for suite, held in suites(ast.parse(path.read_text("utf-8"))).items():
            parts: Sequence[ast.AST] = [held.body] if isinstance(held, ast.Lambda) else held
            for node in (each for part in parts for each in ast.walk(part)):
                name = (
                    node.id
                    if isinstance(node, ast.Name)
                    else node.attr
                    if isinstance(node, ast.Attribute)
                    else ""
                )
                if name in names:
                    found[name].add(f"{path.relative_to(root).as_posix()}:{suite}")
    return found


def order(path: str, files: Collection[str]) -> list[list[str]]:
    """Where tests are looked for, the nearest to a module first: files named after it, their folder, all others."""
    folders = sorted({folder_of(file) for file in files})
    own = f"tests/{PurePosixPath(path).parts[1]}"
    near = {own} if own in folders else {"tests", "tests/app"}
    named = [file for file in sorted(files) if folder_of(file) in near and _is_named(file, path)]
    nearest = [own, *(["tests/app"] if own != "tests/app" else [])]
    others = [folder for folder in folders if folder not in {*nearest, "tests"}]
    # What stands in no folder tests whole chats, for long.
    last = ["tests"] if "tests" in folders else []
    return [
        group for group in (named, *([each] for each in nearest if each in folders), others, last) if group
    ]


def _is_named(file: str, path: str) -> bool:
    return PurePosixPath(path).stem in PurePosixPath(file).stem


def folder_of(test: str) -> str:
    """The folder that a test belongs to: the first below `tests`, or that itself."""
    return "/".join(PurePosixPath(file_of(test)).parent.parts[:2])


def chosen(
    mutant: Mutant,
    pieces: Collection[Piece],
    used: Mapping[str, Collection[str]],
    *,
    source: str,
    imported: bool,
) -> list[str]:
    """The tests to try a mutant with: those named after its module first, then the fastest.

    What an import runs is tried with the tests of its suite and of those that use its name, else of its module. What a
    test reached before the module's digest was `source` is known of functions as a whole.
    """
    wanted = {f"{mutant.path}:{mutant.suite}"} | (set(used.get(mutant.name, ())) if imported else set())
    function = f"{mutant.path}:{mutant.suite.partition('#')[0]}#"
    seconds: dict[str, float] = {}
    exact: set[str] = set()
    is_vague = imported
    for piece in pieces:
        seconds |= piece.seconds
        exact |= {test for suite in wanted for test in piece.suites.get(suite, ())}
        if mutant.suite and piece.modules.get(mutant.path) != source:
            is_vague = True
            exact |= _reaching(piece, function)
    if is_vague and not exact:
        exact = {test for piece in pieces for test in _reaching(piece, f"{mutant.path}:")}
    ordered = sorted(exact, key=lambda test: (not _is_named(file_of(test), mutant.path), seconds[test], test))
    return _bounded(ordered, seconds)


def _reaching(piece: Piece, begin: str) -> set[str]:
    """The tests that reach a suite whose name begins so."""
    return {test for suite, tests in piece.suites.items() if suite.startswith(begin) for test in tests}


def _bounded(tests: list[str], seconds: Mapping[str, float]) -> list[str]:
    """As many as there is time for, and always the first."""
    kept: list[str] = []
    total = 0.0
    for test in tests:
        if not kept or (len(kept) < MAX_TESTS and total + seconds[test] <= MAX_SECONDS):
            kept.append(test)
            total += seconds[test]
    return kept
