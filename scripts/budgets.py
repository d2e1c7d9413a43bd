"""Holds the tree to `budgets.toml`: how large each package may be, and what shape its code keeps.

Over a row fails. Well under it warns, and fails with `--closing`, until `scripts/check --ratchet` has lowered the
row: what was won stays won. Raising a row needs, in the same commit, a `why` of its own beside it.
"""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from scripts.paths import PACKAGE, ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

FILE = ROOT / "budgets.toml"
MIN_REASON_CHARACTERS = 40

_TEXTS = {".py", ".txt", ".css", ".js"}
_SLACK_SHARE = 0.04
_LINE_TOLERANCE = 1.03
_LONG_LINE, _LONG_FUNCTION = 110, 60
_MAX_CARRIERS = 2
_TABLES = ("packages", "others")

Rows = dict[str, dict[str, Any]]


class Finding(NamedTuple):
    """What does not agree with the file, or what whoever reads the check should know."""

    text: str
    fails: bool


def size(paths: Iterable[Path]) -> Counter[str]:
    """Modules, lines, non-blank lines, characters of stripped lines, and nodes of the syntax trees."""
    counted: Counter[str] = Counter(modules=0, lines=0, nonblank=0, characters=0, nodes=0)
    for path in paths:
        source = path.read_text("utf-8")
        stripped = [line.strip() for line in source.splitlines()]
        counted.update(
            lines=len(stripped), nonblank=sum(map(bool, stripped)), characters=sum(map(len, stripped))
        )
        if path.suffix == ".py":
            counted.update(modules=1, nodes=sum(1 for _ in ast.walk(ast.parse(source))))
    return counted


def measured(root: Path, package: Path, uncounted: Iterable[str]) -> dict[str, Rows]:
    """The rows that the file should have, with today's numbers."""
    folders = sorted(path for path in package.iterdir() if path.is_dir() and path.name != "__pycache__")
    packages = {
        "root": size(_texts(package.glob("*"))),
        **{each.name: size(_texts(each.rglob("*"))) for each in folders},
    }
    packages["total"] = sum(packages.values(), Counter())
    omitted = [root / folder for folder in uncounted]
    others: Rows = {}
    for name in ("tests", "scripts"):
        texts = _texts((root / name).rglob("*"))
        counted = (
            path for path in texts if name == "scripts" or path.suffix == ".py"
        )  # tests' texts are cases
        others[name] = size(path for path in counted if not any(map(path.is_relative_to, omitted)))
    pages = list((root / "docs").glob("*.md"))
    others["docs"] = {
        "pages": len(pages),
        "words": sum(len(page.read_text("utf-8").split()) for page in pages),
    }
    return {"packages": dict(packages), "others": others}


def compared(rows: Rows, sizes: Rows, *, closing: bool) -> Iterator[Finding]:
    """Rows that are missing, stale, exceeded or too wide."""
    for name in sorted({*rows, *sizes}):
        if name not in rows:
            yield Finding(f"no row for {name}; it measures: {_line(name, sizes[name])}", fails=True)
        elif name not in sizes:
            yield Finding(f"the row {name} stands for nothing that exists", fails=True)
        else:
            for column, now in sizes[name].items():
                allowed = rows[name].get(column, 0)
                if now > allowed:
                    yield Finding(f"{name}: {now:,} {column}, allowed are {allowed:,}", fails=True)
                elif now < allowed * (1 - _SLACK_SHARE):
                    text = f"{name}: {now:,} {column} of {allowed:,}; scripts/check --ratchet lowers the row"
                    yield Finding(text, fails=closing)


def raised(rows: Rows, earlier: Rows) -> Iterator[Finding]:
    """Rows above their earlier values, which need a reason that was not there before."""
    for name, row in rows.items():
        before, why = earlier.get(name, {}), row.get("why", "")
        higher = [column for column in before if column != "why" and row.get(column, 0) > before[column]]
        if higher and (len(why) < MIN_REASON_CHARACTERS or why == before.get("why")):
            text = f"{name}: raised in {', '.join(higher)} without a new why of {MIN_REASON_CHARACTERS} characters"
            yield Finding(text, fails=True)
        elif why:
            yield Finding(f"{name}: {why}", fails=False)


def shape(paths: Iterable[Path]) -> dict[str, float]:
    """How dense the code is, and how long its functions are; that what is public is documented is the linter's."""
    sources = [path.read_text("utf-8") for path in paths]
    lines = [line for source in sources for line in source.splitlines() if line.strip()]
    nodes = (node for source in sources for node in ast.walk(ast.parse(source)))
    functions = [node for node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    long = [each for each in functions if (each.end_lineno or each.lineno) - each.lineno >= _LONG_FUNCTION]
    return {
        "mean_line": sum(len(line.strip()) for line in lines) / len(lines),
        "long_lines_share": sum(len(line) > _LONG_LINE for line in lines) / len(lines),
        "long_functions_share": len(long) / len(functions),
        "long_functions_complexity": sum(map(_complexity, long)) / max(1, len(long)),
    }


def reshaped(limits: Mapping[str, float], now: Mapping[str, float]) -> Iterator[Finding]:
    """Measures of shape that are worse than the file says."""
    for name, value in now.items():
        limit = limits[name] * (_LINE_TOLERANCE if name == "mean_line" else 1)
        if value > limit:
            yield Finding(f"{name}: {value:.4f}, the limit is {limit:.4f}", fails=True)


def read() -> dict[str, Any]:
    """The file as it stands."""
    return tomllib.loads(FILE.read_text("utf-8"))


def findings(*, closing: bool) -> Iterator[Finding]:
    """Everything in which this tree and its file do not agree."""
    budgets = read()
    sizes, earlier = measured(ROOT, PACKAGE, budgets["uncounted"]["folders"]), _earlier()
    for table in _TABLES:
        yield from compared(budgets[table], sizes[table], closing=closing)
        yield from raised(budgets[table], earlier.get(table, {}))
    yield from reshaped(budgets["shape"], shape(PACKAGE.rglob("*.py")))
    yield from carriers(PACKAGE, budgets["carriers"])


def ratchet() -> None:
    """Lower every row to what the tree measures; no row is raised, added or taken out."""
    text = FILE.read_text("utf-8")
    budgets = tomllib.loads(text)
    sizes = measured(ROOT, PACKAGE, budgets["uncounted"]["folders"])
    for table in _TABLES:
        for name, now in sizes[table].items():
            if row := budgets[table].get(name):
                lower = {column: min(now[column], row[column]) for column in now} | {
                    column: value for column, value in row.items() if column not in now
                }
                text = text.replace(_found(text, name), _line(name, lower))
    FILE.write_text(text, "utf-8")


def _found(text: str, name: str) -> str:
    found = re.search(rf"^{re.escape(name)} = \{{.*\}}$", text, re.MULTILINE)
    if not found:
        raise ValueError(f"the row {name} does not stand on one line")
    return found[0]


def _line(name: str, row: Mapping[str, Any]) -> str:
    values = (
        f'{column} = "{value}"' if isinstance(value, str) else f"{column} = {value:_}"
        for column, value in row.items()
    )
    return f"{name} = {{ {', '.join(values)} }}"


def _texts(paths: Iterable[Path]) -> list[Path]:
    return sorted(path for path in paths if path.suffix in _TEXTS)


def _earlier() -> dict[str, Rows]:
    """The file of the last commit, or of the one before where it has not changed since; empty where there is none."""
    for commit in ("HEAD", "HEAD~1"):
        command = ["git", "show", f"{commit}:{FILE.name}"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode == 0 and done.stdout != FILE.read_text("utf-8"):
            return tomllib.loads(done.stdout)
    return {}


def _complexity(function: ast.AST) -> int:
    """A function's cyclomatic complexity as ruff counts it."""
    return sum(map(_paths, ast.walk(function)))


def _paths(node: ast.AST) -> int:
    """How many ways a statement adds to those through its function; a function within counts as one."""
    match node:
        case ast.Try(orelse=[_, *_]):
            return 1
        case ast.Match(cases=[*_, ast.match_case(pattern=ast.MatchAs(pattern=None), guard=None)]):
            return len(node.cases) - 1
        case ast.Match():
            return len(node.cases)
        case ast.If() | ast.For() | ast.AsyncFor() | ast.While() | ast.ExceptHandler():
            return 1
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return 1
        case _:
            return 0


# --- the values that carry a turn ---


def carriers(package: Path, owners: Mapping[str, Sequence[str]]) -> Iterator[Finding]:
    """Functions that take more than two of a turn's values, and values whose class their packages do not have yet.

    A value's own package may take all. Only names of annotations are read: no two classes of the package have the same.
    """
    trees = {path: ast.parse(path.read_text("utf-8")) for path in sorted(package.rglob("*.py"))}
    homes = {path: _home(path.relative_to(package)) for path in trees}
    classes = {
        (homes[path], node.name)
        for path, tree in trees.items()
        for node in tree.body
        if isinstance(node, ast.ClassDef)
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
                if len(taken) > _MAX_CARRIERS:
                    where = f"{path.relative_to(package)}:{node.lineno}: {node.name}"
                    yield Finding(
                        f"{where} takes {', '.join(taken)}; {_MAX_CARRIERS} are allowed", fails=True
                    )


def _home(inner: Path) -> str:
    """The package of a module, or `root`."""
    return inner.parts[0] if len(inner.parts) > 1 else "root"


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
