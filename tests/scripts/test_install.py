"""The package from pip: it installs into a bare environment with what it declares, and the replay command runs."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from scripts.paths import ROOT, VENV

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.index

UV = VENV / "bin" / "uv"
REPLAY = (
    "-m",
    "open_webui_openrouter_pipe.replay",
    str(ROOT / "tests" / "data" / "exports" / "weather.json"),
)


def run(program: str | Path, *arguments: str | Path, directory: Path) -> str:
    """What a program prints; it knows nothing of the repository but what its arguments name."""
    hidden = {"PYTHONPATH", "VIRTUAL_ENV"}
    variables = {name: value for name, value in os.environ.items() if name not in hidden}
    done = subprocess.run(
        [program, *arguments], cwd=directory, env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module", params=["highest", "lowest-direct"])
def bare_python(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a fresh environment with the built wheel and what it requires, in the newest or oldest versions."""
    folder = tmp_path_factory.mktemp("install")
    run(UV, "build", "--quiet", "--wheel", "--out-dir", folder, ROOT, directory=folder)
    run(UV, "venv", "--quiet", "--python", sys.executable, folder / "venv", directory=folder)
    python = folder / "venv" / "bin" / "python"
    install = ("pip", "install", "--quiet", "--python", python, "--resolution", request.param)
    run(UV, *install, *folder.glob("*.whl"), directory=folder)
    return python


def test_the_replay_command_runs(bare_python: Path, tmp_path: Path) -> None:
    """It prints what it prints in the development environment."""
    expected = run(sys.executable, *REPLAY, directory=ROOT)
    assert "get_weather" in expected
    assert run(bare_python, *REPLAY, directory=tmp_path) == expected


def test_the_pipe_is_importable(bare_python: Path, tmp_path: Path) -> None:
    """All modules import without Open WebUI, and the pipe can be created."""
    code = (
        "import importlib, pkgutil, open_webui_openrouter_pipe as package\n"
        "for module in pkgutil.walk_packages(package.__path__, package.__name__ + '.'):\n"
        "    if not module.name.endswith(('__main__', '.transport')):\n"  # its parser is Open WebUI's
        "        importlib.import_module(module.name)\n"
        "print(package.Pipe().valves.BASE_URL)\n"
    )
    assert run(bare_python, "-c", code, directory=tmp_path) == "https://openrouter.ai/api/v1\n"
