"""Judges whether a single file is as it was built, without running any of it.

It takes the file of a release, what Open WebUI exports of an installed function, and what Open WebUI's page has
reformatted while it saved it: the files that it carries are compared to the byte, everything else by its meaning.
"""

from __future__ import annotations

import ast
import json
import re
import zlib
from dataclasses import dataclass
from typing import Any

from scripts.bundle import builder, loader
from scripts.bundle.builder import LINKS, MAINTENANCE, PIPE, BuildError, Package

_CALL = re.compile(
    r"""load_(packed|readable)\(\s*['"](\w+)['"],\s*['"](\w+)['"],\s*\w+,\s*entry=['"]([.\w]*)['"]"""
)
"""What a single file ends with: its kind, the package's name, the digest as built, and the entry."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found: the file's version and digest, and in `faults` what is not as it was built.

    `differing` are the files that are not those of the package it was compared with.
    """

    version: str
    digest: str
    files: int
    faults: tuple[str, ...]
    differing: tuple[str, ...]


def verify(text: str, package: Package) -> Verdict:
    """Judge a single file, or an export that holds one; `package` is what this tree would build.

    Raises BuildError for a text that is neither.
    """
    text = _content(text)
    if (found := _CALL.search(text)) is None:
        raise BuildError("this is not a single file that scripts/build wrote")
    kind, name, built, entry = found.groups()
    try:
        statements = ast.parse(text).body
        files = loader.unpack(loader.read_payload(text, built)) if kind == "packed" else _literals(statements)
    except (SyntaxError, ImportError, ValueError, zlib.error) as error:
        raise BuildError(str(error)) from error
    function = MAINTENANCE if entry else PIPE
    version = next(iter(re.findall(r"^version: (\S*)", text, re.MULTILINE)), "")
    digest = loader.digest_files(files)
    faults: tuple[str, ...] = (
        () if digest == built else (f"its files were changed: their digest is {digest}, not {built}",)
    )
    write = builder.pack if kind == "packed" else builder.readable
    expected = write(Package(name, version, files), function).replace(digest, built)
    if _meaning(statements) != _meaning(ast.parse(expected).body):
        faults += ("what stands around its files is not what this version of scripts/build writes",)
    ours = builder.part_of(package, function)
    paths = sorted({*files, *ours.files})
    differing = tuple(path for path in paths if files.get(path) != ours.files.get(path))
    return Verdict(version, digest, len(files), faults, differing)


def _content(text: str) -> str:
    """The function's text, out of Open WebUI's export if it is one of a single function."""
    if not text.lstrip().startswith("["):
        return text
    try:
        [exported] = json.loads(text)
        return str(exported["content"])
    except (ValueError, KeyError, TypeError) as error:
        raise BuildError("this is neither a single file nor an export of one function") from error


def _literals(statements: list[ast.stmt]) -> dict[str, str]:
    """The files of a readable file."""
    return {
        ast.literal_eval(target.slice): ast.literal_eval(value)
        for statement in statements
        if isinstance(statement, ast.Assign)
        for target, value in [(statement.targets[0], statement.value)]
        if isinstance(target, ast.Subscript)
    }


def _meaning(body: list[ast.stmt]) -> list[Any]:
    """Everything but the links of the frontmatter, and the blanks at its lines' ends."""
    fields, *statements = body
    match fields:
        case ast.Expr(value=ast.Constant(value=str(frontmatter))):
            lines = [line.strip() for line in frontmatter.splitlines() if line.strip()]
        case _:
            lines = [ast.dump(fields)]
    kept = [line for line in lines if line.partition(":")[0] not in LINKS]
    return [kept, *map(ast.dump, statements)]
