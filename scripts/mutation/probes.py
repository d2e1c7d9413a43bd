"""Which suites of the package run: a probe at the beginning of each, put in when the package is imported.

Owns the import hook, and how a function that is loaded gets the code of a mutant.
"""

from __future__ import annotations

import ast
import builtins
import gc
import importlib
import importlib.machinery
import importlib.util
import pkgutil
from collections import defaultdict
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING

from scripts.mutation.mutants import suites

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scripts.mutation.mutants import Mutant

_PROBE = "_reached_"
_CO_OPTIMIZED = 1
"""The flag of a function's code; that of modules and classes lacks it."""

Place = tuple[str, str, int]
"""Where a function stands: file, qualified name, first line."""


class Loader(importlib.machinery.SourceFileLoader):
    """Compiles a module with its probes each time, and keeps no bytecode that others could find."""

    def get_code(self, fullname: str) -> CodeType:
        """The module with a probe in each suite."""
        path = self.get_filename(fullname)
        return compile(probed(Path(path).read_text("utf-8"), path), path, "exec", dont_inherit=True)


class Finder:
    """Finds the modules of one package, and gives them probes that add to `reached`."""

    def __init__(self, package: str) -> None:
        self.reached: set[str] = set()
        self._package = package
        vars(builtins)[_PROBE] = self.reached.add

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The ordinary module with another loader."""
        if fullname.partition(".")[0] != self._package:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.origin is not None:
            spec.loader = Loader(fullname, spec.origin)
        return spec

    def load_all(self) -> None:
        """Import what would be imported in the middle of a test."""
        package = importlib.import_module(self._package)
        for module in pkgutil.walk_packages(package.__path__, f"{self._package}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)


def probed(source: str, path: str) -> ast.Module:
    """The module with a probe at the beginning of each suite; what it adds is the path and the suite's name."""
    tree = ast.parse(source)
    for name, suite in suites(tree).items():
        probe = ast.parse(f"{_PROBE}({f'{path}:{name}'!r})", mode="eval").body
        if isinstance(suite, ast.Lambda):
            place: ast.AST = suite.body
            suite.body = ast.BoolOp(ast.Or(), [probe, suite.body])
            ast.copy_location(suite.body, place)
        else:
            place = suite[0]
            documented = isinstance(place, ast.Expr) and isinstance(place.value, ast.Constant)
            suite.insert(int(documented), ast.copy_location(ast.Expr(probe), place))
        for node in ast.walk(probe):
            ast.copy_location(node, place)
    return ast.fix_missing_locations(tree)


class Functions:
    """The functions of the package that are loaded, to be given other code."""

    def __init__(self) -> None:
        self._by_place: dict[Place, list[FunctionType]] = defaultdict(list)
        for found in gc.get_objects():
            if isinstance(found, FunctionType):
                self._by_place[_place(found.__code__)].append(found)

    def patch(self, mutant: Mutant, path: Path) -> bool:
        """Give the function that holds the mutant its code; False where only an import can."""
        source = path.read_text("utf-8")
        codes = (
            [*_functions(compile(text, str(path), "exec", dont_inherit=True))]
            for text in (source, mutant.applied(source))
        )
        changed = [(old, new) for old, new in zip(*codes, strict=True) if old != new]
        if len(changed) != 1:
            return False
        [(old, new)] = changed
        found = self._by_place[_place(old)]
        if len({each.__code__ for each in found}) != 1 or found[0].__code__.co_freevars != new.co_freevars:
            return False
        for each in found:
            each.__code__ = new
        return True


def _place(code: CodeType) -> Place:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def _functions(code: CodeType) -> Iterator[CodeType]:
    """The code of the outermost functions of a module, those of its classes too."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            if constant.co_flags & _CO_OPTIMIZED:
                yield constant
            else:
                yield from _functions(constant)
