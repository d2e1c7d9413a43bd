"""Makes the virtual environments that the other scripts run in.

Owns what is installed and when it is up to date; the versions stand in pyproject.toml. Standard library only,
since it runs before anything is installed.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

from scripts.paths import LIGHT_VENV, ROOT, VENV


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


def _install(python: Path, *groups: str) -> None:
    """Install the package's dependencies and these groups of pyproject.toml in one resolution."""
    chosen = [word for group in groups for word in ("--group", group)]
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


if __name__ == "__main__":
    prepare()
