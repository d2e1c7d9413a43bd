"""A secret of our own, where the host has none: made once, whole, and for this account alone."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from open_webui_openrouter_pipe.host.platform import SECRET_FILE, own_secret, platform
from tests.support.inside import inside_open_webui

if TYPE_CHECKING:
    from pathlib import Path


def test_a_secret_is_made_once(tmp_path: Path) -> None:
    """Whoever asks later gets the same, nobody else may read it, and nothing else is left in the folder."""
    secret = own_secret(tmp_path)
    assert len(secret) >= 43
    assert own_secret(tmp_path) == secret
    assert [path.name for path in tmp_path.iterdir()] == [SECRET_FILE]
    assert stat.S_IMODE((tmp_path / SECRET_FILE).stat().st_mode) == 0o600


def test_workers_that_start_at_once_agree(tmp_path: Path) -> None:
    """One of them makes the secret, in each of many folders, and the others read it."""
    for number in range(20):
        folder = tmp_path / str(number)
        folder.mkdir()
        with ThreadPoolExecutor(8) as workers:
            assert len(set(workers.map(own_secret, [folder] * 8))) == 1


def test_without_a_folder_there_is_no_secret(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing raises; the log says once why nothing is sealed."""
    assert own_secret(tmp_path / "missing") == ""
    (tmp_path / SECRET_FILE).write_bytes(b"\xff")
    assert own_secret(tmp_path) == ""
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 2


def visit() -> str:
    """The secret that the store gets."""
    return platform().secret_key


@pytest.mark.live
def test_a_host_without_a_secret_key_gets_one_of_ours(tmp_path: Path) -> None:
    """Open WebUI allows that where it has no accounts."""
    found = inside_open_webui(tmp_path, {"WEBUI_SECRET_KEY": "", "WEBUI_AUTH": "False"}, visit)
    assert found == (tmp_path / SECRET_FILE).read_text("utf-8")
