"""What scripts/start decides before and around the servers: login, environment, refusals."""

from __future__ import annotations

import socket
import subprocess
import sys
from typing import TYPE_CHECKING

from scripts.launch import openwebui
from scripts.launch.process import require_free_port
from scripts.paths import ROOT
from tests.support.waiting import LIMIT_SECONDS

if TYPE_CHECKING:
    from pathlib import Path


def test_the_login_is_made_once_and_kept_private(tmp_path: Path) -> None:
    """A data directory keeps its login and key, readable by its owner alone; another gets others."""
    first, again = openwebui.Secrets.of(tmp_path / "a"), openwebui.Secrets.of(tmp_path / "a")
    other = openwebui.Secrets.of(tmp_path / "b")
    assert first == again
    assert {first.password, first.secret_key}.isdisjoint({other.password, other.secret_key})
    assert (tmp_path / "a" / "login.json").stat().st_mode & 0o077 == 0


def test_a_taken_port_is_refused_before_anything_starts(tmp_path: Path, free_port: int) -> None:
    """The exit code is 1, the message names the port and the remedy, and no data are made."""
    data = tmp_path / "data"
    words = ["--port", str(free_port), "--data", str(data)]
    with socket.create_server(("127.0.0.1", free_port)):
        done = subprocess.run(
            [sys.executable, "-m", "scripts.start", *words],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
            check=False,
        )
    assert done.returncode == 1
    assert f"error: port {free_port} on 127.0.0.1 cannot be used" in done.stderr
    assert not data.exists()
    require_free_port("127.0.0.1", free_port, "it is free again")


def test_an_open_address_is_shown_as_this_machine() -> None:
    """A browser cannot open 0.0.0.0, so the address that is shown is the loopback one."""
    assert openwebui.Address(8080, "0.0.0.0").url == "http://127.0.0.1:8080"
