"""Turns the package into one file that Open WebUI accepts as a function: the modules as they are, compressed.

The same tree gives the same bytes. This module writes no files and knows no Open WebUI.
"""

from __future__ import annotations

import ast
import base64
import hashlib
import json
import re
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from scripts.bundle import loader

if TYPE_CHECKING:
    from collections.abc import Iterator

TITLE = "OpenRouter"
AUTHOR = "the open-webui-openrouter-pipe authors"
DESCRIPTION = "Every OpenRouter model, over the Responses API"
LICENSE = "MIT"
OLDEST_OPEN_WEBUI = "0.11.4"

_START = "# --- bundled from here ---\n"
_LINE_CHARACTERS = 108
_NOT_CARRIED = {"py.typed"}
_VERSION = re.compile(r'^__version__\s*=\s*"([^"]+)"', re.MULTILINE)


class BuildError(Exception):
    """The package holds what a single file cannot carry; the message says what and where."""


@dataclass(frozen=True, slots=True)
class Package:
    """A package as text: its import name, its version, and its modules by their path inside it."""

    name: str
    version: str
    sources: dict[str, str]


def read_package(directory: Path) -> Package:
    """Read the package in a directory; raises BuildError for what cannot be bundled."""
    files = sorted(
        path for path in directory.rglob("*") if path.is_file() and "__pycache__" not in path.parts
    )
    sources: dict[str, str] = {}
    for path in files:
        inner = path.relative_to(directory).as_posix()
        if path.suffix == ".py":
            sources[inner] = path.read_text("utf-8")
        elif path.name not in _NOT_CARRIED:
            raise BuildError(f"{inner}: a bundle carries modules only")
    for inner, text in sources.items():
        for found in absolute_imports(directory.name, inner, text):
            raise BuildError(found)
    version = _VERSION.search(sources.get("__init__.py", ""))
    if version is None:
        raise BuildError(f"{directory.name}/__init__.py has no line __version__ = ...")
    return Package(directory.name, version[1], sources)


def bundle(package: Package) -> str:
    """The single file: frontmatter, the loader, and the compressed modules."""
    plain = json.dumps(package.sources, sort_keys=True, ensure_ascii=False).encode()
    version = hashlib.sha256(plain).hexdigest()[:12]
    encoded = base64.b85encode(zlib.compress(plain, 9)).decode()
    starts = range(0, len(encoded), _LINE_CHARACTERS)
    payload = "\n".join(encoded[start : start + _LINE_CHARACTERS] for start in starts)
    load = f'load_bundle(\n    "{package.name}",\n    "{version}",\n    """\n{payload}\n""",\n)'
    return f"{frontmatter(package)}\n{_loader_text()}\n\nPipe = {load}.Pipe\n"


def stub(package: Package) -> str:
    """The function for servers where the package is installed with pip."""
    return f'{frontmatter(package)}\nfrom {package.name} import Pipe\n\n__all__ = ["Pipe"]\n'


def frontmatter(package: Package) -> str:
    """The docstring that Open WebUI reads; its first line must be the three quotes alone."""
    fields = {
        "title": TITLE,
        "author": AUTHOR,
        "description": DESCRIPTION,
        "version": package.version,
        "license": LICENSE,
        "required_open_webui_version": OLDEST_OPEN_WEBUI,
    }
    lines = "".join(f"{key}: {value}\n" for key, value in fields.items())
    return f'"""\n{lines}"""\n'


def _loader_text() -> str:
    text = Path(loader.__file__).read_text("utf-8")
    return f"from __future__ import annotations\n\n{text.partition(_START)[2]}"


def absolute_imports(package: str, path: str, text: str) -> Iterator[str]:
    """Where a module imports its own package by name, which under a bundle's name is another one or none."""
    for node in ast.walk(ast.parse(text, path)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module or ""]
        else:
            continue
        if any(name.partition(".")[0] == package for name in names):
            yield f"{path}:{node.lineno}: imports {package} by name; import relatively"
