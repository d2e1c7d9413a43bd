"""Where things lie in the repository. Owns no behaviour."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "open_webui_openrouter_pipe"
DIST = ROOT / "dist"
CACHE = ROOT / ".cache"
DATA = ROOT / ".data"
ARTIFACTS = ROOT / ".artifacts"
VENV = ROOT / ".venv"
LIGHT_VENV = ROOT / ".venv312"
HOST_VENVS = CACHE / "hosts"
