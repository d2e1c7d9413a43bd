"""scripts/start from its first line to its last: ready to chat, and nothing left behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from scripts.harness.servers import unused_port
from scripts.launch.api import Api
from scripts.paths import ROOT
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.live

STOP_SECONDS = 120.0


class Start:
    """A run of scripts/start without a key."""

    def __init__(self, data: Path, log: Path) -> None:
        self.log = log
        variables = {name: value for name, value in os.environ.items() if name != "OPENROUTER_API_KEY"}
        ports = ["--port", str(unused_port()), "--standin-port", str(unused_port())]
        command = [sys.executable, "-m", "scripts.start", *ports, "--data", str(data)]
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                command, cwd=ROOT, env=variables, stdout=output, stderr=subprocess.STDOUT
            )

    @property
    def said(self) -> str:
        """Its output so far."""
        return self.log.read_text("utf-8")

    def wait_until_ready(self) -> None:
        """Wait for its last line before it watches its servers."""

        def is_ready() -> bool:
            assert self.process.poll() is None, self.said
            return "Ctrl-C stops it" in self.said

        wait_until(is_ready)

    def descendants(self) -> list[int]:
        """The processes that it has started."""
        shown = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True)
        pairs = [tuple(map(int, line.split())) for line in shown.stdout.splitlines()]
        return [pid for pid, parent in pairs if parent == self.process.pid]


@pytest.fixture
def run(tmp_path: Path, artifacts: Path) -> Iterator[Start]:
    """A run that is ready."""
    start = Start(tmp_path / "data", artifacts / "start.log")
    try:
        start.wait_until_ready()
        yield start
    finally:
        start.process.terminate()
        start.process.wait(STOP_SECONDS)


def test_it_is_ready_to_chat_and_leaves_nothing_behind(run: Start) -> None:
    """The login that it prints works and the pipe's models are there; after Ctrl-C no server is."""
    found = re.search(r"(http://\S+)\s+email\s+(\S+)\s+password\s+(\S+)", run.said)
    assert found is not None, run.said
    with Api(found[1]) as anyone, anyone.sign_in(found[2], found[3]) as admin:
        models = [model for model in admin.models() if model.startswith("openrouter.")]
    assert models
    assert f"ready, with {len(models)} models of the pipe" in run.said
    servers = run.descendants()
    assert len(servers) == 2
    run.process.send_signal(signal.SIGINT)
    assert run.process.wait(STOP_SECONDS) == 0
    shown = subprocess.run(
        ["ps", "-o", "pid=", "-p", ",".join(map(str, servers))], capture_output=True, text=True, check=False
    )
    assert shown.stdout == ""
