"""Turns the package into one file that Open WebUI accepts as a function: packed, or its files as they are.

The same tree gives the same digest, and the same bytes as far as libdeflate is the same, whose bytes zlib reads. This
module writes no files and knows no Open WebUI beyond what its page and its server do to a function's text.
"""

from __future__ import annotations

import ast
import base64
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import deflate

from scripts.bundle import loader

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

LICENSE = "MIT"
OLDEST_OPEN_WEBUI = "0.11.4"
"""The page refuses to save the function on an older one; the server does not look at it."""

PAGE_CHARACTERS = 2_500_000
"""What "Import from URL" can carry from one page to the next: browsers keep 5 MB for a tab, at two bytes a character.
The server itself has no limit."""

REWRITTEN_BY_HOST = tuple(f"from {module}" for module in ("utils", "apps", "main", "config"))
"""Open WebUI replaces these in every function's text, prose included (`open_webui/utils/plugin.py`)."""

_ICON = (
    "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 24 24' fill='none' stroke='%236467f2' stroke-width='2'>"
    "<circle cx='5' cy='12' r='2'/><path d='M7 12c6 0 4-6 10-6M7 12c6 0 4 6 10 6M7 12h10'/></svg>"
)
LINKS = ("author_url", "git_url")
"""The fields of the frontmatter that name the project's page."""

AUTHOR = "the open-webui-openrouter-pipe authors"
_FOR_TYPES = "TYPE_CHECKING"
_THOROUGH = 12
"""Of libdeflate's levels the last: about 5 % less than zlib's."""
_LINE = 1_000
"""Characters in a line of packed text: editors are quick with such lines, and each break takes four bytes."""
_START = "# --- bundled from here ---\n"
_VERSION = re.compile(r'^__version__\s*=\s*"([^"]+)"', re.MULTILINE)


class BuildError(Exception):
    """The package holds what a single file cannot carry; the message says what and where."""


@dataclass(frozen=True, slots=True)
class Function:
    """How a function is called in Open WebUI, and the module of the package that has its `Pipe`.

    `id` is part of the id of every model that it offers. `entry` is a path inside the package, empty for the package.
    Of all texts beside the modules it may need only those `lines` of the languages, by the beginnings of their names.
    """

    id: str
    title: str
    description: str
    entry: str = ""
    lines: tuple[str, ...] = ()


PIPE = Function("openrouter", "OpenRouter", "Every OpenRouter model, over the Responses API")
MAINTENANCE = Function(
    "openrouter_maintenance",
    "OpenRouter maintenance",
    "Moves chats to the function openrouter, updates it, and removes what it leaves behind",
    ".maintenance.pipe",
    ("help_", "switch_"),
)


@dataclass(frozen=True, slots=True)
class Package:
    """A package as text: its import name, its version, and its files by their path inside it.

    `links` are addresses of the project by the names that Open WebUI and its community use (`author_url`, `git_url`).
    """

    name: str
    version: str
    files: dict[str, str]
    links: Mapping[str, str] = field(default_factory=dict)


def read_package(directory: Path, links: Mapping[str, str] | None = None) -> Package:
    """Read the package in a directory; raises BuildError for what cannot be bundled."""
    files: dict[str, str] = {}
    for path in sorted(directory.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts and path.name != "py.typed":
            inner = path.relative_to(directory).as_posix()
            try:
                files[inner] = path.read_text("utf-8")
            except UnicodeDecodeError as error:
                raise BuildError(f"{inner}: a bundle carries text alone") from error
    for inner, text in files.items():
        imports = absolute_imports(directory.name, inner, text) if inner.endswith(".py") else ()
        for found in (*imports, *host_rewrites(inner, text)):
            raise BuildError(found)
    version = _VERSION.search(files.get("__init__.py", ""))
    if version is None:
        raise BuildError(f"{directory.name}/__init__.py has no line __version__ = ...")
    return Package(directory.name, version[1], files, links or {})


def part_of(package: Package, function: Function) -> Package:
    """The modules that a function needs, as a package of its own.

    The other files of their folders come with them, or the function's lines of these. Where the package is not its own
    entry, its `__init__`, which imports everything, is left empty.
    """
    entry = function.entry.strip(".")
    needed: dict[str, str] = {"__init__.py": '"""Part of a package."""\n'} if entry else {}
    waiting = [_path_of(package, entry.split("."))] if entry else ["__init__.py"]
    while waiting:
        path = waiting.pop()
        if path not in needed:
            needed[path] = package.files[path]
            waiting += _imported_modules(package, path)
    folders = {path.rpartition("/")[0] for path in needed}
    texts = {
        path: text
        for path, text in package.files.items()
        if not path.endswith(".py") and path.rpartition("/")[0] in folders
    }
    if function.lines:
        kept = {
            path: "".join(line for line in text.splitlines(keepends=True) if line.startswith(function.lines))
            for path, text in texts.items()
        }
        texts = {path: text for path, text in kept.items() if text}
    needed |= texts
    name = package.name + function.entry.rpartition(".")[0].replace(".", "_")
    return Package(name, package.version, needed, package.links)


def pack(package: Package, function: Function = PIPE) -> str:
    """The single file as people install it: a head to read, the code that unpacks, and the files as packed lines."""
    content = json.dumps(package.files, ensure_ascii=False, sort_keys=True).encode()
    payload = base64.b85encode(deflate.zlib_compress(content, _THOROUGH)).decode()
    digest = loader.digest_files(package.files)
    about = (
        f"This is a function for Open WebUI. The comments at its end are the {len(package.files)} files that it runs,\n"
        "packed. Any Python from 3.11 on writes them into a folder, as they are, and runs none of them:\n\n"
        f"    python {function.id}.py unpack FOLDER\n\n"
        "Packed lines that were changed are refused. scripts/build --readable writes a file that can be edited.\n"
    )
    named = f"{package.name!r}, {digest!r}, __file__"
    code = (
        f"if __name__ == '__main__':\n    run_as_program({named})\n"
        f"else:\n    Pipe = load_packed({named}, entry={function.entry!r}).Pipe\n"
    )
    lines = [loader.PACKED, *re.findall(f".{{1,{_LINE}}}", payload), loader.seal_payload(payload, digest)]
    comments = "".join(f"# {line}\n" for line in lines)
    return f"{frontmatter(package, function, about)}\n{_loader_text()}\n\n{code}\n{comments}"


def readable(package: Package, function: Function = PIPE) -> str:
    """The single file with its files as they are, to be edited. Raises BuildError where the page cannot take it."""
    about = f"This is a function for Open WebUI. It holds the {len(package.files)} files that it runs as they are.\n"
    files = "".join(
        f"\n# {'-' * 20} {path}\nFILES[{path!r}] = {quoted(path, text)}\n"
        for path, text in sorted(package.files.items())
    )
    named = f"{package.name!r}, {loader.digest_files(package.files)!r}, FILES"
    load = f"Pipe = load_readable({named}, entry={function.entry!r}).Pipe\n"
    code = f"FILES: dict[str, str] = {{}}\n{files}\n\n{load}"
    text = f"{frontmatter(package, function, about)}\n{_loader_text()}\n\n{code}"
    if (characters := len(json.dumps(text, ensure_ascii=False))) > PAGE_CHARACTERS:
        raise BuildError(
            f"{function.id}.py: {characters:,} characters, and the page takes {PAGE_CHARACTERS:,}"
        )
    return text


def quoted(path: str, text: str) -> str:
    """A literal of the text in which it can be read. Raises BuildError where there is none."""
    pieces = text.split("'''")
    literal = "\n    \"'''\"\n    ".join(f"r'''{piece}'''" for piece in pieces)
    literal = f"(\n    {literal}\n)" if len(pieces) > 1 else literal
    try:
        if ast.literal_eval(literal) == text:
            return literal
    except (SyntaxError, ValueError):
        pass
    raise BuildError(f"{path}: its quotes and backslashes cannot be put into a raw string")


def stub(package: Package) -> str:
    """The function for servers where the package is installed with pip."""
    return f'{frontmatter(package, PIPE)}\nfrom {package.name} import Pipe\n\n__all__ = ["Pipe"]\n'


def import_file(package: Package, function: Function, content: str) -> str:
    """What "Import JSON" takes: a list of one function."""
    about = {"description": function.description, "manifest": manifest_fields(package, function)}
    entry = {"id": function.id, "name": function.title, "type": "pipe", "content": content, "meta": about}
    return json.dumps([entry], ensure_ascii=False, indent=1) + "\n"


def manifest_fields(package: Package, function: Function) -> dict[str, str]:
    """What the function says of itself; the icon is part of it, so that no page fetches one."""
    return {
        "title": function.title,
        "id": function.id,
        "author": AUTHOR,
        **package.links,
        "description": function.description,
        "version": package.version,
        "license": LICENSE,
        "required_open_webui_version": OLDEST_OPEN_WEBUI,
        "icon_url": f"data:image/svg+xml;utf8,{_ICON}",
        "digest": loader.digest_files(package.files),
    }


def frontmatter(package: Package, function: Function, about: str = "") -> str:
    """The docstring that Open WebUI reads; its first line must be the three quotes alone."""
    lines = "".join(f"{key}: {value}\n" for key, value in manifest_fields(package, function).items())
    return f'"""\n{lines}\n{about}"""\n' if about else f'"""\n{lines}"""\n'


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


def host_rewrites(path: str, text: str) -> Iterator[str]:
    """Where a file holds a text that Open WebUI would replace."""
    for number, line in enumerate(text.splitlines(), start=1):
        if any(rewritten in line for rewritten in REWRITTEN_BY_HOST):
            yield f"{path}:{number}: {line.strip()}"


def _imported_modules(package: Package, path: str) -> Iterator[str]:
    """The paths of the modules that a module imports as it runs, and of the folders that they lie in."""
    folder = path.split("/")[:-1]
    yield from ("/".join([*folder[: depth + 1], "__init__.py"]) for depth in range(len(folder)))
    tree = ast.parse(package.files[path], path)
    blocks = [
        node for node in ast.walk(tree) if isinstance(node, ast.If) and ast.unparse(node.test) == _FOR_TYPES
    ]
    for_types = {node for block in blocks for node in ast.walk(block)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level and node not in for_types:
            base = [*folder[: len(folder) + 1 - node.level], *(node.module or "").split(".")]
            base = [name for name in base if name]
            for names in ([*base, alias.name] for alias in node.names):
                yield _path_of(package, names) or _path_of(package, base)


def _path_of(package: Package, names: list[str]) -> str:
    """The path of a module by the names on the way to it; empty where there is none."""
    inner = "/".join(names)
    return next((path for path in (f"{inner}.py", f"{inner}/__init__.py") if path in package.files), "")
