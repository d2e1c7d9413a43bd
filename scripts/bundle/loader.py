"""Imports a package from the text that carries it: packed into comments, or readable in literals.

The builder copies everything below the line that says so into the single file, which Open WebUI executes each time its
content changes. Every content runs under a package name of its own: an update takes effect at once, while calls in
flight end on the code they began with. The newest two stay importable, older ones are let go.

Comments that are cut off anywhere are still Python, so that the code before them can say what is wrong. They are
compressed by zlib alone: lzma would save a quarter, but not each Python has it, and those would need a second way.
"""

from __future__ import annotations

# --- bundled from here ---
import base64
import hashlib
import importlib
import json
import logging
import os
import sys
import zlib
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import CodeType, ModuleType

KEPT_VERSIONS = 2
VERSION_DIGITS = 12
PACKED = "--- packed from here ---"


class BundleFinder(MetaPathFinder, InspectLoader):
    """Finds and loads one version of a package; `files` maps paths inside the package to their text."""

    def __init__(self, family: str, version: str, files: Mapping[str, str]) -> None:
        self.family = family
        self.package = f"{family}_{version}"
        self._files = {f"{self.package}/{path}": text for path, text in files.items()}
        self._modules = {
            path.removesuffix(".py").removesuffix("/__init__").replace("/", "."): path
            for path in self._files
            if path.endswith(".py")
        }

    def find_spec(self, fullname: str, _path: object, _target: object = None, /) -> ModuleSpec | None:
        """The spec of one of this version's modules; None for all others."""
        if (file := self._modules.get(fullname)) is None:
            return None
        spec = ModuleSpec(fullname, self, origin=file, is_package=self.is_package(fullname))
        spec.has_location = True  # gives the module its __file__
        return spec

    def is_package(self, fullname: str) -> bool:
        """Whether the module is a package."""
        return self._modules[fullname].endswith("/__init__.py")

    def get_source(self, fullname: str) -> str:
        """The module's text; tracebacks take their lines from here."""
        return self._files[self._modules[fullname]]

    def get_code(self, fullname: str) -> CodeType:
        """The module's code, free of the future statements of whoever executes the bundle."""
        return compile(self.get_source(fullname), self._modules[fullname], "exec", dont_inherit=True)

    def get_data(self, path: str) -> bytes:
        """A file beside a module, for `pkgutil.get_data`, which makes the path from the module's `__file__`."""
        return self._files[path.replace(os.sep, "/")].encode()


def digest_files(files: Mapping[str, str]) -> str:
    """Name what the files say: the SHA-256 of their paths and texts, in 64 hexadecimal digits."""
    digest = hashlib.sha256()
    for path, text in sorted(files.items()):
        digest.update(f"{path}\0{text}\0".encode())
    return digest.hexdigest()


def load_packed(family: str, built: str, file: str, *, entry: str) -> ModuleType:
    """Import the package that is packed into a file, whose digest is `built`; raises ImportError if it is damaged."""
    payload = read_payload(Path(file).read_text("utf-8"), built)
    return import_version(family, built, lambda: unpack(payload), entry=entry)


def load_readable(family: str, built: str, files: Mapping[str, str], *, entry: str) -> ModuleType:
    """Import the package as its files are now; the log says if their digest is not the one they were built with."""
    digest = digest_files(files)
    if digest != built:
        logging.getLogger(__name__).warning(
            "%s is not as it was built: its modules were changed (%s, built as %s)",
            family,
            digest[:VERSION_DIGITS],
            built[:VERSION_DIGITS],
        )
    return import_version(family, digest, lambda: files, entry=entry)


def read_payload(text: str, built: str) -> str:
    """What is packed into a file's comments, not yet unpacked; raises ImportError if it was cut off or changed."""
    lines = [line.strip().removeprefix("#").strip() for line in text.splitlines()]
    start = lines.index(PACKED) + 1 if PACKED in lines else len(lines)
    *payload, seal = [line for line in lines[start:] if line] or [""]
    if seal != seal_payload("".join(payload), built):
        raise ImportError(
            "This copy of the file is damaged: its packed lines were cut off or changed. Take the whole file again, "
            "with Import from URL or Import JSON if pasting does not keep it. To change its code, take the kind of the "
            "file that can be edited, which scripts/build --readable writes."
        )
    return "".join(payload)


def seal_payload(payload: str, built: str) -> str:
    """The last comment, which shows a change of what is packed, or of its digest, without unpacking it."""
    return f"SHA-256 {hashlib.sha256(f'{built}{payload}'.encode()).hexdigest()}"


def unpack(payload: str) -> dict[str, str]:
    """The files by their paths inside the package."""
    files: dict[str, str] = json.loads(zlib.decompress(base64.b85decode(payload)))
    return files


def run_as_program(family: str, built: str, file: str) -> None:
    """Write the files into a new folder: `python FILE unpack FOLDER`."""
    if len(sys.argv) != 3 or sys.argv[1] != "unpack":
        sys.exit(f"usage: python {sys.argv[0]} unpack FOLDER")
    folder = Path(sys.argv[2]) / family
    try:
        files = unpack(read_payload(Path(file).read_text("utf-8"), built))
        folder.mkdir(parents=True)
    except (ImportError, OSError) as error:
        sys.exit(f"error: {error}")
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(text.encode())
    print(f"{len(files)} files with the digest {built}, written into {folder}")


def import_version(
    family: str, digest: str, read: Callable[[], Mapping[str, str]], *, entry: str
) -> ModuleType:
    """Import this version of the package, or give it back if it is here, and let go of all but the newest.

    `read` gives the files, and is called only for a version that is not here. `entry` is the module to return, by its
    path inside the package (".maintenance.pipe"); empty for the package itself.
    """
    version = digest[:VERSION_DIGITS]
    known: list[Any] = [finder for finder in sys.meta_path if getattr(finder, "family", None) == family]
    ours = next((finder for finder in known if finder.package == f"{family}_{version}"), None)
    if ours is None:
        ours = BundleFinder(family, version, read())
    others = [finder for finder in known if finder is not ours]
    for stale in others[: 1 - KEPT_VERSIONS]:
        forget(stale.package)
    kept = others[1 - KEPT_VERSIONS :]
    sys.meta_path[:] = [finder for finder in sys.meta_path if finder not in known] + [*kept, ours]
    return importlib.import_module(ours.package + entry)


def forget(package: str) -> None:
    """Drop a package and its modules from the table of imported ones; what still runs keeps its objects."""
    for name in [name for name in sys.modules if name == package or name.startswith(f"{package}.")]:
        del sys.modules[name]
