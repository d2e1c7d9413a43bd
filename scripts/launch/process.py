"""A program that runs beside us, and its end. Owns process groups and ports, not what is run."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

STOP_SECONDS = 10.0
POLL_SECONDS = 0.1


class LaunchError(Exception):
    """Something could not be started; the message is for the person at the terminal."""


def require_free_port(host: str, port: int, remedy: str) -> None:
    """Raise LaunchError with the remedy when another program listens on the port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise LaunchError(f"port {port} on {host} cannot be used ({error.strerror}); {remedy}") from error


class Program:
    """A running program with a process group of its own and a log file; leaving the context stops it."""

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        log: Path,
        directory: Path,
        variables: Mapping[str, str],
        stop_signal: signal.Signals = signal.SIGTERM,
        stop_seconds: float = STOP_SECONDS,
    ) -> None:
        self.log = log
        self._stop_signal, self._stop_seconds = stop_signal, stop_seconds
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                cwd=directory,
                env=dict(variables),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def running(self) -> bool:
        """Whether the program has not ended yet."""
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        """The program's process id, which is its group's too."""
        return self._process.pid

    def last_lines(self, count: int) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text("utf-8", "replace").splitlines()[-count:])

    def wait_for_port(self, port: int, seconds: float) -> None:
        """Wait until it accepts connections, as `wait_until` does."""
        self.wait_until(lambda: _accepts(port), seconds, f"does not listen on port {port}")

    def wait_until(self, ready: Callable[[], bool], seconds: float, failure: str) -> None:
        """Wait until it is ready; nothing is left running where that fails.

        Raises:
            LaunchError: It has ended first, or takes too long; `failure` says what it does not do then.
        """
        words: Any = self._process.args
        name, deadline = " ".join(map(str, words[:3])), time.monotonic() + seconds
        with ExitStack() as when_it_fails:
            when_it_fails.callback(self.stop)  # after an interrupt, too
            while not ready():
                if not self.running:
                    raise LaunchError(f"{name} ended at once; the end of {self.log}:\n{self.last_lines(30)}")
                if time.monotonic() > deadline:
                    raise LaunchError(f"{name} {failure} after {seconds:.0f} s; see {self.log}")
                time.sleep(POLL_SECONDS)
            when_it_fails.pop_all()

    def stop(self) -> None:
        """Ask the whole group to end, then make it; returns when the program is gone."""
        self._signal(self._stop_signal)
        try:
            self._process.wait(self._stop_seconds)
        except subprocess.TimeoutExpired:
            pass
        finally:
            self._signal(signal.SIGKILL)
            self._process.wait(STOP_SECONDS)

    def _signal(self, number: signal.Signals) -> None:
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            return


def _accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


@contextmanager
def printing_server(module: str, *arguments: str) -> Iterator[str]:
    """Run a module that prints its address and serves until the block ends; the address."""
    command = [sys.executable, "-m", module, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        try:
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


def resident_kb(pid: int | str = "self") -> int:
    """The kilobytes that a process holds in memory (Linux, pages of 4 KB)."""
    return int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1]) * 4
