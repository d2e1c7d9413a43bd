"""Judges whether a single file is as it was built, without running any of it.

It takes the file of a release, what Open WebUI exports of an installed function, and what Open WebUI's page has
reformatted while it saved it: module texts are compared to the byte, everything else by its meaning.
"""

from __future__ import annotations

import ast
import json
from dataclasses import dataclass
from typing import Any

from scripts.bundle import builder, loader
from scripts.bundle.builder import LINKS, MAINTENANCE, PIPE, BuildError, Package


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found: the file's version and digest, and in `faults` what is not as it was built.

    `differing` are the modules that are not those of the package it was compared with.
    """

    version: str
    digest: str
    modules: int
    faults: tuple[str, ...]
    differing: tuple[str, ...]


def verify(text: str, package: Package) -> Verdict:
    """Judge a single file, or an export that holds one; `package` is what this tree would build.

    Raises BuildError for a text that is neither.
    """
    text = _content(text)
    name, built, entry, sources = _parts(text)
    function = MAINTENANCE if entry else PIPE
    version = builder.version_of(text)
    digest = loader.digest_modules(sources)
    faults: tuple[str, ...] = (
        () if digest == built else (f"its modules were changed: their digest is {digest}, not {built}",)
    )
    expected = builder.bundle(Package(name, version, sources), function).replace(digest, built)
    if _meaning(text) != _meaning(expected):
        faults += ("what stands around its modules is not what this version of scripts/build writes",)
    ours = builder.part_of(package, entry) if entry else package
    paths = sorted({*sources, *ours.sources})
    differing = tuple(path for path in paths if sources.get(path) != ours.sources.get(path))
    return Verdict(version, digest, len(sources), faults, differing)


def _content(text: str) -> str:
    """The function's text, out of Open WebUI's export if it is one of a single function."""
    if not text.lstrip().startswith("["):
        return text
    try:
        [exported] = json.loads(text)
        return str(exported["content"])
    except (ValueError, KeyError, TypeError) as error:
        raise BuildError("this is neither a single file nor an export of one function") from error


def _parts(text: str) -> tuple[str, str, str, dict[str, str]]:
    """The package's name, the digest and the entry that the file states, and its modules."""
    try:
        statements = ast.parse(text).body
    except SyntaxError as error:
        raise BuildError(f"line {error.lineno}: this is not Python") from error
    sources: dict[str, str] = {}
    stated: tuple[str, str, str] | None = None
    for statement in statements:
        match statement:
            case ast.Assign(
                targets=[ast.Subscript(value=ast.Name(id="MODULES"), slice=ast.Constant(value=str(path)))],
                value=ast.Constant(value=str(module)),
            ):
                sources[path] = module
            case ast.Assign(
                targets=[ast.Name(id="Pipe")],
                value=ast.Attribute(
                    value=ast.Call(
                        args=[ast.Constant(value=str(name)), ast.Constant(value=str(built)), ast.Name()],
                        keywords=[ast.keyword(arg="entry", value=ast.Constant(value=str(entry)))],
                    )
                ),
            ):
                stated = name, built, entry
            case _:
                pass
    if stated is None or not sources:
        raise BuildError("this is not a single file that scripts/build wrote")
    return *stated, sources


def _meaning(text: str) -> list[Any]:
    """Everything but the links of the frontmatter, and the blanks at its lines' ends."""
    fields, *statements = ast.parse(text).body
    match fields:
        case ast.Expr(value=ast.Constant(value=str(frontmatter))):
            lines = [line.strip() for line in frontmatter.splitlines() if line.strip()]
        case _:
            lines = [ast.dump(fields)]
    kept = [line for line in lines if line.partition(":")[0] not in LINKS]
    return [kept, *map(ast.dump, statements)]
