"""Counts the values of a turn that a function takes.

A function outside a value's own package takes at most two of the values that `budgets.toml` names. It reads names
of annotations alone: no two classes of the package have the same name.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, TypeGuard

from scripts.budgets import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

MAX_CARRIERS = 2


def findings(package: Path, owners: Mapping[str, Sequence[str]]) -> Iterator[Finding]:
    """Functions that take too many, and values whose class their packages do not have yet."""
    trees = {path: ast.parse(path.read_text("utf-8")) for path in sorted(package.rglob("*.py"))}
    homes = {path: _home(path.relative_to(package)) for path in trees}
    classes = {
        (homes[path], node.name) for path, tree in trees.items() for node in tree.body if _is_class(node)
    }
    existing = {
        name for name, homes_of in owners.items() if any((home, name) in classes for home in homes_of)
    }
    for name in sorted(owners.keys() - existing):
        yield Finding(f"{', '.join(owners[name])} has no class {name} yet", fails=False)
    for path, tree in trees.items():
        counted = (
            existing - {name for name in existing if homes[path] in owners[name]} - _external_names(tree)
        )
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                taken = sorted(counted & _annotated(node.args))
                if len(taken) > MAX_CARRIERS:
                    where = f"{path.relative_to(package)}:{node.lineno}: {node.name}"
                    yield Finding(f"{where} takes {', '.join(taken)}; {MAX_CARRIERS} are allowed", fails=True)


def _home(inner: Path) -> str:
    """The package of a module, or `root`."""
    return inner.parts[0] if len(inner.parts) > 1 else "root"


def _is_class(node: ast.stmt) -> TypeGuard[ast.ClassDef]:
    return isinstance(node, ast.ClassDef)


def _external_names(tree: ast.Module) -> set[str]:
    """What comes from other distributions: their Request is not ours."""
    imports = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and not node.level)
    return {alias.asname or alias.name for node in imports for alias in node.names}


def _annotated(arguments: ast.arguments) -> set[str]:
    """The names in the annotations of all parameters."""
    positional = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    every = [*positional, *filter(None, (arguments.vararg, arguments.kwarg))]
    annotations = [argument.annotation for argument in every if argument.annotation]
    return {node.id for tree in annotations for node in ast.walk(tree) if isinstance(node, ast.Name)}
