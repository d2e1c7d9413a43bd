"""The mutants of a module: small changes of its code that a test should notice.

Owns which kinds there are and what is never changed: docstrings, annotations, what only type checkers read, log
lines, `__slots__`, `__all__`, prose, and what says that something never happens. It reads sources and runs nothing.
"""

from __future__ import annotations

import ast
import copy
import itertools
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeGuard

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_OPPOSITES: tuple[tuple[type[ast.cmpop], type[ast.cmpop]], ...] = (
    (ast.Eq, ast.NotEq), (ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Is, ast.IsNot), (ast.In, ast.NotIn)
)  # fmt: skip
_COMPARISONS = {one: other for pair in _OPPOSITES for one, other in (pair, pair[::-1])}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
}
"""`|` is omitted: most often it joins types."""

Node = ast.expr | ast.stmt
Suite = list[ast.stmt] | ast.Lambda

_PROSE_WORDS = 4
_LOG_METHODS = {"debug", "info", "warning", "error", "exception", "critical", "log"}
_NEVER_CHANGED = {"__slots__", "__all__", "__match_args__"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change: the characters from `start` to `end` of the module become `text`, on as many lines."""

    path: str
    line: int
    code: str
    """The line's text, without the space around it."""
    start: int
    end: int
    text: str
    change: str
    """What becomes of what, shortened."""
    where: str
    """The class and function that it stands in."""
    name: str
    """What the statement binds: when it is run by an import, whoever uses the name depends on it."""
    suite: str
    """The name of the innermost of `suites` that holds it; empty for what an import runs."""

    @property
    def key(self) -> str:
        """Its name for as long as the line says the same, wherever it stands in its function."""
        return f"{self.path} | {self.where} | {self.code} | {self.change}"

    def applied(self, source: str) -> str:
        """The source of the module with this change."""
        return source[: self.start] + self.text + source[self.end :]


def mutants(path: str, source: str) -> list[Mutant]:
    """All mutants of a module, in the order of its lines."""
    tree = ast.parse(source)
    finder = _Finder(path, source, tree)
    finder.visit(tree)
    return sorted(finder.found, key=lambda mutant: (mutant.start, mutant.end, mutant.text))


def suites(tree: ast.Module) -> dict[str, Suite]:
    """What is run as a whole inside functions: lists of statements, and the bodies of lambdas; outer ones first.

    Each has the name of its function, and a number in it.
    """
    numbers: Counter[str] = Counter()
    found: dict[str, Suite] = {}
    for where, suite in _suites(tree, "", inside=False):
        found[f"{where}#{numbers[where]}"] = suite
        numbers[where] += 1
    return found


def _suites(node: ast.AST, where: str, *, inside: bool) -> Iterator[tuple[str, Suite]]:
    if isinstance(node, ast.Lambda):
        yield where, node
    for name, value in ast.iter_fields(node):
        within, held = where, inside and not isinstance(node, ast.ClassDef)
        if name == "body" and isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            within = f"{where}.{node.name}" if where else node.name
            held = not isinstance(node, ast.ClassDef)
        children = value if isinstance(value, list) else [value]
        if held and children and isinstance(children[0], ast.stmt):
            yield within, children
        for child in children:
            if isinstance(child, ast.AST):
                yield from _suites(child, within, inside=held)


class _Finder(ast.NodeVisitor):
    """Walks a module and notes what could be changed in it."""

    def __init__(self, path: str, source: str, tree: ast.Module) -> None:
        self.found: list[Mutant] = []
        self._path = path
        self._lines = source.split("\n")
        self._starts = [0, *itertools.accumulate(len(line) + 1 for line in self._lines)]
        self._suites = {name: self._span(suite) for name, suite in suites(tree).items()}
        self._where: list[str] = []
        self._name = ""

    def visit(self, node: ast.AST) -> None:
        """Skip what is never changed; else note the node's mutants and go on inside."""
        if isinstance(node, ast.JoinedStr) or any(
            omits(node) for omits in (_is_bare_string, _is_log_line, _is_type, _is_assertion)
        ):
            return
        for old, new in (*_changed_expressions(node), *_changed_statements(node)):
            self._note(old, new)
        super().visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Decorators and defaults belong to its name, its body to whoever calls it; annotations to neither."""
        defaults = (*node.args.defaults, *filter(None, node.args.kw_defaults))
        self._visit_named(node.name, *node.decorator_list, *defaults)
        self._where.append(node.name)
        for child in node.body:
            self.visit(child)
        self._where.pop()

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        """As any other."""
        self.visit_FunctionDef(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """What stands in a class belongs to the class, where it has no name of its own."""
        self._where.append(node.name)
        self._visit_named(node.name, *node.decorator_list, *node.bases, *node.keywords, *node.body)
        self._where.pop()

    def visit_If(self, node: ast.If) -> None:
        """Omit what only type checkers read."""
        for child in node.orelse if _is_for_types(node) else ast.iter_child_nodes(node):
            self.visit(child)

    def visit_Assign(self, node: ast.Assign) -> None:
        """The value belongs to the name that it gets."""
        name = _name(node.targets[0])
        if name not in _NEVER_CHANGED:
            self._visit_named(name, node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """The same, without the annotation."""
        self._visit_named(_name(node.target), *([node.value] if node.value else []))

    def visit_Call(self, node: ast.Call) -> None:
        """The type of a cast is an annotation."""
        if isinstance(node.func, ast.Name) and node.func.id == "cast":
            self.visit(node.args[1])
        else:
            self.generic_visit(node)

    def _visit_named(self, name: str, *nodes: ast.AST) -> None:
        outside, self._name = self._name, name or self._name
        for node in nodes:
            self.visit(node)
        self._name = outside

    def _note(self, old: Node, new: Node) -> None:
        start, end = self._span([old])
        written = ast.unparse(new)
        # What follows keeps its lines, so that the code of one function alone differs.
        text = written + "\n" * ((old.end_lineno or old.lineno) - old.lineno - written.count("\n"))
        holding = [name for name, span in self._suites.items() if span[0] <= start and end <= span[1]]
        self.found.append(
            Mutant(
                path=self._path,
                line=old.lineno,
                code=self._lines[old.lineno - 1].strip(),
                start=start,
                end=end,
                text=f"({text})" if isinstance(new, ast.expr) else text,
                change=f"{_shortened(ast.unparse(old))} → {_shortened(written)}",
                where=".".join(self._where),
                name=self._name,
                suite=holding[-1] if holding else "",
            )
        )

    def _span(self, suite: Sequence[Node] | ast.Lambda) -> tuple[int, int]:
        """Where it begins and ends in the source."""
        first, last = (suite.body, suite.body) if isinstance(suite, ast.Lambda) else (suite[0], suite[-1])
        end = self._offset(last.end_lineno or last.lineno, last.end_col_offset or 0)
        return self._offset(first.lineno, first.col_offset), end

    def _offset(self, line: int, column: int) -> int:
        """Where a position lies in the source; the syntax tree counts columns in bytes."""
        return self._starts[line - 1] + len(self._lines[line - 1].encode()[:column].decode())


def _changed_expressions(node: ast.AST) -> Iterator[tuple[Node, Node]]:
    """What could stand in place of an operation or a constant, as pairs of old and new."""
    match node:
        case ast.Compare():
            for index, operator in enumerate(node.ops):
                compared = copy.deepcopy(node)
                compared.ops[index] = _COMPARISONS[type(operator)]()
                yield node, compared
        case ast.BoolOp():
            yield node, ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
        case ast.UnaryOp(op=ast.Not()):
            yield node, node.operand
        case ast.BinOp() | ast.AugAssign() if type(node.op) in _ARITHMETIC:
            calculated = copy.deepcopy(node)
            calculated.op = _ARITHMETIC[type(node.op)]()
            yield node, calculated
        case ast.Constant():
            yield from ((node, ast.Constant(value)) for value in _other_values(node.value))


def _changed_statements(node: ast.AST) -> Iterator[tuple[Node, Node]]:
    """What could stand in place of a statement or of its condition."""
    match node:
        case ast.Return(value=ast.Constant(value=None)):
            return
        case ast.Return(value=ast.expr()):
            yield node, ast.Return(ast.Constant(None))
        case ast.Expr(value=ast.Call() | ast.Await(value=ast.Call())):
            yield node, ast.Pass()
        case ast.Break():
            yield node, ast.Continue()
        case ast.Continue():
            yield node, ast.Break()
        case ast.If() | ast.While() | ast.IfExp() if not _is_for_types(node):
            yield from _negated(node.test)
        case ast.comprehension():
            for condition in node.ifs:
                yield from _negated(condition)


def _negated(condition: ast.expr) -> Iterator[tuple[Node, Node]]:
    """The opposite, unless a comparison or a `not` is changed into it anyway."""
    if not isinstance(condition, (ast.Compare, ast.UnaryOp)):
        yield condition, ast.UnaryOp(ast.Not(), condition)


def _other_values(value: object) -> list[str | bytes | int | float]:
    match value:
        case bool():
            return [not value]
        case int():
            return [value + 1, value - 1]
        case float():
            return [value + 1.0]
        case str() if not _is_prose(value):
            return ["" if value else "changed"]
        case bytes():
            return [b"" if value else b"changed"]
        case _:
            return []


def _is_prose(text: str) -> bool:
    """True for what a person or a model reads: four words, or letters beyond ASCII."""
    return len(text.split()) >= _PROSE_WORDS or not text.isascii()


def _is_bare_string(node: ast.AST) -> TypeGuard[ast.Expr]:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_log_line(node: ast.AST) -> bool:
    """True for a statement that calls a method of a logger."""
    if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        return False
    function = node.value.func
    if not (isinstance(function, ast.Attribute) and function.attr in _LOG_METHODS):
        return False
    return "log" in ast.unparse(function.value).lower()


def _is_type(node: ast.AST) -> bool:
    """True for annotations and for what only declares a type."""
    match node:
        case ast.arg() | ast.Subscript(value=ast.Name("Literal")):
            return True
        case ast.Call(func=ast.Name("TypeVar" | "ParamSpec" | "NewType" | "TypeAliasType")):
            return True
        case _:
            return False


def _is_assertion(node: ast.AST) -> bool:
    """True for what only says that something never happens: `frozen`, `slots`, and the `strict` of a zip."""
    return (
        isinstance(node, ast.keyword)
        and node.arg in {"frozen", "slots", "strict"}
        and ast.unparse(node.value) == "True"
    )


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}


def _name(target: ast.expr) -> str:
    """The name that an assignment binds, the first where there are several."""
    return next((node.id for node in ast.walk(target) if isinstance(node, ast.Name)), "")


def _shortened(text: str, length: int = 70) -> str:
    one_line = " ".join(text.split())
    return one_line if len(one_line) <= length else f"{one_line[: length - 1]}…"
