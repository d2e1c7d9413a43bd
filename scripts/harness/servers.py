"""Private Redis and PostgreSQL servers for tests: real programs, own directories, ephemeral loopback ports.

A test may stop a server in the middle and start it again on the same port with the same data.
"""

from __future__ import annotations

import os
import pwd
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from scripts import machine

if TYPE_CHECKING:
    from collections.abc import Callable

START_SECONDS = 300.0
STOP_SECONDS = 60.0


def missing_server_programs() -> list[str]:
    """The programs that the servers below need and this machine lacks."""
    return [name for name in ("redis-server", "postgres", "initdb") if machine.find(name) is None]


def unused_port() -> int:
    """A loopback port that nobody listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Server(Protocol):
    """A server that tests may stop and start again; its address and its data stay the same."""

    @property
    def url(self) -> str:
        """How clients reach it."""

    def start(self) -> None:
        """Start it and wait until it accepts connections. Starting twice does no harm."""

    def stop(self) -> None:
        """Stop it and wait until it is gone. Stopping twice does no harm."""


class RedisServer:
    """One redis-server that keeps its data in an append-only file."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._port = unused_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        """A `redis://` address."""
        return f"redis://127.0.0.1:{self._port}/0"

    def start(self) -> None:
        """Start it and wait until it accepts connections. Starting twice does no harm."""
        if self._process is not None:
            return
        words = ["--port", str(self._port), "--bind", "127.0.0.1", "--dir", str(self._directory)]
        with (self._directory / "redis.log").open("ab") as log:
            self._process = subprocess.Popen(
                [_program("redis-server"), *words, "--appendonly", "yes", "--save", ""],
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        _wait(self._answers, self._process, self._directory / "redis.log")

    def stop(self) -> None:
        """Stop it and wait until it is gone. Stopping twice does no harm."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(STOP_SECONDS)
            self._process = None

    def _answers(self) -> bool:
        """Whether it serves; while it reads its file again, it listens already and answers `-LOADING`."""
        try:
            with socket.create_connection(("127.0.0.1", self._port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(16).startswith(b"+PONG")
        except OSError:
            return False


class PostgresServer:
    """One PostgreSQL cluster with the superuser and database `postgres`, trusting loopback connections.

    Where the tests run as root the server runs as another account, which must be able to reach the directory.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._port = unused_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._pid_file = directory / "cluster" / "postmaster.pid"
        self._prefix = _unprivileged(directory)
        cluster = [_program("initdb"), "-D", str(directory / "cluster"), "-U", "postgres", "-A", "trust"]
        words = ["-E", "UTF8", "--no-locale", "--no-sync"]
        subprocess.run([*self._prefix, *cluster, *words], cwd="/", check=True, capture_output=True)
        self.start()

    @property
    def url(self) -> str:
        """A `postgresql://` address."""
        return f"postgresql://postgres@127.0.0.1:{self._port}/postgres"

    def start(self) -> None:
        """Start it and wait until it accepts connections. Starting twice does no harm."""
        if self._process is not None:
            return
        words = ["-D", str(self._directory / "cluster"), "-p", str(self._port), "-h", "127.0.0.1"]
        settings = ["-k", "", "-F"]
        with (self._directory / "postgres.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._prefix, _program("postgres"), *words, *settings],
                cwd="/",
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        _wait(self._is_ready, self._process, self._directory / "postgres.log")

    def stop(self) -> None:
        """Stop it without waiting for its clients (a fast shutdown), and wait until it is gone.

        A client that is just connecting must get on with it meanwhile: within an event loop, call this in a thread.
        """
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(STOP_SECONDS)
            self._process = None

    def _is_ready(self) -> bool:
        """Whether it serves; its pid file tells so in the last line, after it listened for a while already."""
        try:
            return self._pid_file.read_text("ascii").split()[-1] == "ready"
        except (FileNotFoundError, IndexError):
            return False


def _unprivileged(directory: Path) -> list[str]:
    """PostgreSQL refuses to run as root: give the directory to another account; return how to become it."""
    if os.geteuid() != 0:
        return []
    names = {entry.pw_name for entry in pwd.getpwall()}
    account = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
    os.chown(directory, account.pw_uid, account.pw_gid)
    return ["setpriv", f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups"]


def _program(name: str) -> str:
    found = machine.find(name)
    if found is None:
        raise FileNotFoundError(f"{name} is not installed")
    return str(found)


def _wait(ready: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not ready():
        if process.poll() is not None:
            raise RuntimeError(f"{process.args!r} ended at once:\n{log.read_text('utf-8', 'replace')}")
        if time.monotonic() > deadline:
            raise TimeoutError(f"not ready after {START_SECONDS} s; see {log}")
        time.sleep(0.05)
