"""Imports a package from the text that carries it.

The builder copies everything below the line that says so into the bundle, which Open WebUI executes each time
its content changes. Every content runs under a package name of its own: an update takes effect at once, while
calls in flight end on the code they began with. The newest two stay importable, older ones are let go.
"""

from __future__ import annotations

# --- bundled from here ---
import hashlib
import importlib
import logging
import sys
from dataclasses import dataclass
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import CodeType, ModuleType

KEPT_VERSIONS = 2
VERSION_DIGITS = 12


@dataclass(frozen=True, slots=True)
class BundledModule:
    """One module of the package: its text, and the file that tracebacks name."""

    text: str
    file: str
    is_package: bool


class BundleFinder(MetaPathFinder, InspectLoader):
    """Finds and loads one version of a package; `sources` maps paths inside the package to their text."""

    def __init__(self, family: str, version: str, sources: dict[str, str]) -> None:
        self.family = family
        self.package = f"{family}_{version}"
        self._modules = {self._name(path): self._module(path, text) for path, text in sources.items()}

    def _name(self, path: str) -> str:
        inner = path.removesuffix(".py").removesuffix("__init__").rstrip("/")
        return ".".join([self.package, *inner.split("/")]) if inner else self.package

    def _module(self, path: str, text: str) -> BundledModule:
        return BundledModule(text, f"{self.package}/{path}", path.rpartition("/")[2] == "__init__.py")

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, _target: ModuleType | None = None, /
    ) -> ModuleSpec | None:
        """The spec of one of this version's modules; None for all others."""
        if (module := self._modules.get(fullname)) is None:
            return None
        spec = ModuleSpec(fullname, self, origin=module.file, is_package=module.is_package)
        spec.has_location = True  # gives the module its __file__
        return spec

    def is_package(self, fullname: str) -> bool:
        """Whether the module is a package."""
        return self._modules[fullname].is_package

    def get_source(self, fullname: str) -> str:
        """The module's text; tracebacks take their lines from here."""
        return self._modules[fullname].text

    def get_code(self, fullname: str) -> CodeType:
        """The module's code, free of the future statements of whoever executes the bundle."""
        module = self._modules[fullname]
        return compile(module.text, module.file, "exec", dont_inherit=True)


def digest_modules(modules: Mapping[str, str]) -> str:
    """Name what the modules say: the SHA-256 of their paths and texts, in 64 hexadecimal digits."""
    digest = hashlib.sha256()
    for path, text in sorted(modules.items()):
        digest.update(f"{path}\0{text}\0".encode())
    return digest.hexdigest()


def load_bundle(family: str, built: str, modules: dict[str, str], *, entry: str = "") -> ModuleType:
    """Import this version of the package, or give it back if it is here, and let go of all but the newest.

    `built` is the digest of the modules when the file was built: the log says if they are others now. `entry` is the
    module to return, by its path inside the package (".maintenance.pipe"); empty for the package itself.
    """
    digest = digest_modules(modules)
    if digest != built:
        logging.getLogger(__name__).warning(
            "%s is not as it was built: its modules were changed (%s, built as %s)",
            family,
            digest[:VERSION_DIGITS],
            built[:VERSION_DIGITS],
        )
    version = digest[:VERSION_DIGITS]
    known: list[Any] = [finder for finder in sys.meta_path if getattr(finder, "family", None) == family]
    ours = next((finder for finder in known if finder.package == f"{family}_{version}"), None)
    if ours is None:
        ours = BundleFinder(family, version, modules)
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
