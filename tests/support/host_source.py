"""Functions and constants of the installed Open WebUI, without importing the modules that hold them.

Importing its middleware takes most of a minute, and reads the environment once and for all.
"""

from __future__ import annotations
import __future__

import ast
import importlib.util
from functools import cache
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any


def is_older() -> bool:
    """Whether the installed Open WebUI is from before 0.12, and has not all that is looked at."""
    return importlib.util.find_spec("open_webui") is not None and version("open-webui") < "0.12"


def host_source(module: str, *names: str, **given: Any) -> SimpleNamespace:
    """Return what the module (a path without suffix) defines under these names; `given` is what it uses beside."""
    nodes = [node for node in _statements(module) if _defined_name(node) in names]
    flags = __future__.annotations.compiler_flag  # their annotations name what is not imported here
    namespace: dict[str, Any] = dict(given)
    exec(compile(ast.Module(nodes, []), module, "exec", flags), namespace)
    return SimpleNamespace(**{name: namespace[name] for name in names})


@cache
def _statements(module: str) -> list[ast.stmt]:
    spec = importlib.util.find_spec("open_webui")
    folders = spec.submodule_search_locations if spec else None
    assert folders
    return ast.parse(Path(folders[0], f"{module}.py").read_text("utf-8")).body


def _defined_name(node: ast.stmt) -> str:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return node.name
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name
    return ""
