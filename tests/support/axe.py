"""axe, which finds what keeps people with disabilities from using a page: fetched from npm once, installed nowhere."""

from __future__ import annotations

import hashlib
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from scripts.paths import CACHE

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

VERSION = "4.14.1"
SHA256 = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"
RUN_SECONDS = 600.0
_RUN = """
const done = arguments[arguments.length - 1];
axe.run(document, {resultTypes: ["violations"]}).then((found) => done(found), (error) => done(String(error)));
"""


def load_axe() -> str:
    """Return axe's script; skip the test where npm cannot fetch it."""
    path = CACHE / f"axe-core-{VERSION}.min.js"
    if not path.exists():
        script = _fetch()
        if hashlib.sha256(script).hexdigest() != SHA256:
            raise ValueError(f"axe-core {VERSION} is another one than before")
        path.write_bytes(script)
    return path.read_text("utf-8")


def findings(driver: Chrome, script: str) -> list[str]:
    """Return what axe finds in the document or frame that the driver looks at: rule, impact, and where."""
    driver.set_script_timeout(RUN_SECONDS)
    driver.execute_script(script)
    found: Any = driver.execute_async_script(_RUN)
    assert isinstance(found, dict), found
    assert found["passes"], "axe has looked at nothing"
    return [
        f"{rule['id']} ({rule['impact']}): {node['target']} {node.get('failureSummary')}"
        for rule in found["violations"]
        for node in rule["nodes"]
    ]


def _fetch() -> bytes:
    with tempfile.TemporaryDirectory() as directory:
        command = ["npm", "pack", "--silent", "--pack-destination", directory, f"axe-core@{VERSION}"]
        try:
            subprocess.run(command, check=True, capture_output=True, cwd=directory)
        except (OSError, subprocess.CalledProcessError):
            pytest.skip("npm cannot fetch axe-core")
        with tarfile.open(next(Path(directory).glob("*.tgz"))) as archive:
            member = archive.extractfile("package/axe.min.js")
            assert member is not None
            return member.read()
