"""Makes what the other scripts need: virtual environments, tiktoken's vocabularies, and servers and a browser.

Owns what is installed and when it is up to date; the versions stand in pyproject.toml. Standard library only,
since it runs before anything is installed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path, PurePosixPath

from scripts.paths import CACHE, HOST_VENVS, LIGHT_VENV, ROOT, VENV


def prepare() -> None:
    """Bring `.venv` up to date with pyproject.toml: the package's dependencies, the tools and Open WebUI."""
    python = VENV / "bin" / "python"
    stamp = _stamp(python, "host")
    if stamp.exists():
        return
    print("installing the environment; the first time this takes some minutes", flush=True)
    _run(python, "-m", "pip", "install", "--quiet", "--upgrade", "pip", "uv")
    _install(python, "dev", "host")
    _set(stamp)


def prepare_light() -> Path | None:
    """Bring `.venv312` up to date: Python 3.12 without Open WebUI. None where there is no Python 3.12."""
    python = LIGHT_VENV / "bin" / "python"
    if not python.exists():
        base = _find_python312()
        if base is None:
            return None
        _run(base, "-m", "venv", "--without-pip", str(LIGHT_VENV))
    stamp = _stamp(python, "light")
    if not stamp.exists():
        _install(python, "dev")
        _set(stamp)
    return python


def prepare_host(version: str) -> Path:
    """Make an environment with this version of Open WebUI in the place of the pinned one; return its Python."""
    folder = HOST_VENVS / version
    python, override = folder / "bin" / "python", folder / "override.txt"
    if not python.exists():
        _run(VENV / "bin" / "python", "-m", "venv", "--without-pip", str(folder))
    stamp = _stamp(python, "host")
    if not stamp.exists():
        print(f"installing Open WebUI {version} into {folder}; that takes some minutes", flush=True)
        override.write_text(f"open-webui=={version}\n", "utf-8")
        _install(python, "dev", "host", override=override)
        _set(stamp)
    return python


def _install(python: Path, *groups: str, override: Path | None = None) -> None:
    """Install the package's dependencies and these groups of pyproject.toml in one resolution.

    What a file `override` names has the version that it names.
    """
    chosen = [word for group in groups for word in ("--group", group)]
    if override:
        chosen += ["--override", str(override)]
    uv = VENV / "bin" / "uv"
    _run(uv, "pip", "install", "--quiet", "--python", str(python), "-r", "pyproject.toml", *chosen)


def _find_python312() -> Path | None:
    """The first Python 3.12 that runs; a version manager's shim may exist and refuse to."""
    managed = sorted((Path.home() / ".pyenv" / "versions").glob("3.12*/bin/python3.12"))
    for candidate in [Path("python3.12"), *managed]:
        try:
            subprocess.run([candidate, "-c", "import venv"], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            continue
        return candidate
    return None


def _stamp(python: Path, name: str) -> Path:
    """The file that exists when this environment was made from today's pyproject.toml by today's Python."""
    digest = hashlib.sha256((ROOT / "pyproject.toml").read_bytes())
    digest.update(str(python.resolve()).encode())
    return python.parent.parent / f".{name}-{digest.hexdigest()[:16]}.stamp"


def _set(stamp: Path) -> None:
    for old in stamp.parent.glob(f"{stamp.name.rsplit('-', 1)[0]}-*.stamp"):
        old.unlink()
    stamp.touch()


def _run(program: Path, *arguments: str) -> None:
    print("+", Path(program).name, " ".join(arguments), flush=True)
    finished = subprocess.run([program, *arguments], cwd=ROOT, check=False)
    if finished.returncode != 0:
        sys.exit(f"error: this failed with exit code {finished.returncode}; see above")


# --- tiktoken's vocabularies ---

VOCABULARIES = CACHE / "tiktoken"
_SOURCE = "https://openaipublic.blob.core.windows.net/encodings/{}.tiktoken"
_NAMES = ("cl100k_base", "o200k_base")


def prepare_vocabularies() -> None:
    """Fetch tiktoken's vocabularies unless they are there; without them some counts are tested by estimate alone.

    The wheel of litellm carries copies under the very file names of tiktoken's cache; it is never installed.
    """
    wanted = {hashlib.sha1(_SOURCE.format(name).encode()).hexdigest() for name in _NAMES}  # noqa: S324 - tiktoken's naming
    if all((VOCABULARIES / name).exists() for name in wanted):
        return
    VOCABULARIES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
        subprocess.run([*command, "--dest", directory, "litellm"], check=False)
        for wheel in Path(directory).glob("*.whl"):
            with zipfile.ZipFile(wheel) as archive:
                for member in archive.namelist():
                    if (name := PurePosixPath(member).name) in wanted:
                        (VOCABULARIES / name).write_bytes(archive.read(member))
    if absent := sorted(name for name in wanted if not (VOCABULARIES / name).exists()):
        print(f"warning: no tiktoken vocabulary could be had ({', '.join(absent)})", flush=True)


# --- programs of the operating system ---

PACKAGES = {
    "redis-server": "redis-server",
    "postgres": "postgresql",
    "pgbouncer": "pgbouncer",
    "chromium": "chromium",
    "chromedriver": "chromium-driver",
}
"""Program → the Debian package that brings it."""


def find_program(program: str) -> Path | None:
    """The program on the PATH, or in a directory that Debian keeps off it, as PostgreSQL's own."""
    if found := shutil.which(program) or shutil.which(program, path="/usr/sbin"):
        return Path(found)
    return next(iter(sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{program}"), reverse=True)), None)


def prepare_programs() -> None:
    """Install what is missing of Debian's packages, or end with a message that names it."""
    missing = [package for program, package in PACKAGES.items() if find_program(program) is None]
    if not missing:
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        sys.exit(f"error: the tests need these programs; please install them: {', '.join(missing)}")
    print(f"installing with apt-get: {', '.join(missing)}", flush=True)
    variables = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    for words in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", *missing]):
        subprocess.run(["apt-get", *words], env=variables, stdin=subprocess.DEVNULL, check=True)


if __name__ == "__main__":
    prepare()
