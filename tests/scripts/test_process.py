"""Programs that run beside us: they end with all that they started, and say why when they do not start."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from scripts.launch.process import LaunchError, Program
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

PARENT = """
import signal, subprocess, sys, time
if "stubborn" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print(child.pid, flush=True)
time.sleep(60)
"""

LISTENER = """
import socket, sys, time
with socket.create_server(("127.0.0.1", int(sys.argv[1]))):
    time.sleep(60)
"""


def start(directory: Path, code: str, *words: str) -> Program:
    """A Python program with the words as its arguments."""
    command = [sys.executable, "-c", code, *words]
    return Program(
        command, log=directory / "log", directory=directory, variables=os.environ, stop_seconds=1.0
    )


def child_of(program: Program) -> int:
    """The process id that the parent wrote into its log."""
    while not (text := program.last_lines(1)):
        time.sleep(0.05)
    return int(text)


def lives(pid: int) -> bool:
    """Whether a process runs; one that has ended and only waits to be reaped does not."""
    shown = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return shown.stdout.strip() != "" and not shown.stdout.startswith("Z")


@pytest.mark.parametrize("manner", ["willing", "stubborn"])
def test_stopping_takes_the_children_along(tmp_path: Path, manner: str) -> None:
    """Neither the program nor its child lives on, even when both ignore the polite request."""
    with start(tmp_path, PARENT, manner) as program:
        child = child_of(program)
        assert (program.running, lives(child)) == (True, True)
    program.stop()  # twice does no harm
    assert not program.running
    wait_until(lambda: not lives(child))  # it ends a moment after it is told to


def test_waiting_for_a_port_ends_when_the_program_listens(tmp_path: Path, free_port: int) -> None:
    """The wait returns as soon as connections are accepted."""
    with start(tmp_path, LISTENER, str(free_port)) as program:
        program.wait_for_port(free_port, 10)
        socket.create_connection(("127.0.0.1", free_port), timeout=1).close()


@pytest.mark.parametrize(
    ("code", "seconds", "said"),
    [
        ("raise SystemExit('no such luck')", 10, "no such luck"),
        (PARENT, 0.2, "does not listen on port {port}"),
    ],
)
def test_waiting_for_a_port_says_why_it_was_in_vain(
    tmp_path: Path, free_port: int, code: str, seconds: float, said: str
) -> None:
    """With the end of the log of a program that has ended; one that never listens is given up on."""
    message = said.format(port=free_port)
    with start(tmp_path, code) as program, pytest.raises(LaunchError, match=message):
        program.wait_for_port(free_port, seconds)
