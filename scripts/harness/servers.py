"""Private Redis and PostgreSQL servers for tests: real programs, own directories, ephemeral loopback ports.

A test may stop a server in the middle and start it again on the same port with the same data.
"""

from __future__ import annotations

import os
import pwd
import signal
import socket
import subprocess
from abc import ABC, abstractmethod
from pathlib import Path

from scripts.environment import find_program
from scripts.launch.process import Program

START_SECONDS = 300.0
STOP_SECONDS = 60.0


def missing_server_programs() -> list[str]:
    """The programs that the servers below need and this machine lacks."""
    return [name for name in ("redis-server", "postgres", "initdb") if find_program(name) is None]


def unused_port() -> int:
    """A loopback port that nobody listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Server(ABC):
    """A server that tests may stop and start again; its address and its data stay the same."""

    stop_signal = signal.SIGTERM

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._port = unused_port()
        self._program: Program | None = None
        self.start()

    @property
    @abstractmethod
    def url(self) -> str:
        """How clients reach it."""

    @abstractmethod
    def command(self) -> list[str]:
        """What runs it."""

    @abstractmethod
    def is_ready(self) -> bool:
        """Whether it accepts connections, once it runs."""

    def start(self) -> None:
        """Start it and wait until it accepts connections. Starting twice does no harm."""
        if self._program is None:
            self._program = Program(
                self.command(),
                log=self._directory / "server.log",
                directory=Path("/"),
                variables=os.environ,
                stop_signal=self.stop_signal,
                stop_seconds=STOP_SECONDS,
            )
            self._program.wait_until(self.is_ready, START_SECONDS, "is not ready")

    def stop(self) -> None:
        """Stop it and wait until it is gone. Stopping twice does no harm."""
        if self._program is not None:
            self._program.stop()
            self._program = None


class RedisServer(Server):
    """One redis-server that keeps its data in an append-only file."""

    @property
    def url(self) -> str:
        """A `redis://` address."""
        return f"redis://127.0.0.1:{self._port}/0"

    def command(self) -> list[str]:
        """With its port and its file."""
        words = ["--port", str(self._port), "--bind", "127.0.0.1", "--dir", str(self._directory)]
        return [_program("redis-server"), *words, "--appendonly", "yes", "--save", ""]

    def is_ready(self) -> bool:
        """Whether it serves; while it reads its file again, it listens already and answers `-LOADING`."""
        try:
            with socket.create_connection(("127.0.0.1", self._port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(16).startswith(b"+PONG")
        except OSError:
            return False


class PostgresServer(Server):
    """One PostgreSQL cluster with the superuser and database `postgres`, trusting loopback connections.

    Where the tests run as root the server runs as another account, which must be able to reach the directory. It is
    stopped without waiting for its clients; one that is just connecting must get on with it meanwhile: within an event
    loop, stop it in a thread.
    """

    stop_signal = signal.SIGINT

    def __init__(self, directory: Path) -> None:
        self._cluster = directory / "cluster"
        self._prefix = _unprivileged(directory)
        create = [_program("initdb"), "-D", str(self._cluster), "-U", "postgres", "-A", "trust"]
        words = ["-E", "UTF8", "--no-locale", "--no-sync"]
        subprocess.run([*self._prefix, *create, *words], cwd="/", check=True, capture_output=True)
        super().__init__(directory)

    @property
    def url(self) -> str:
        """A `postgresql://` address."""
        return f"postgresql://postgres@127.0.0.1:{self._port}/postgres"

    def command(self) -> list[str]:
        """With its port, without a socket file, and without waiting for the disk."""
        words = ["-D", str(self._cluster), "-p", str(self._port), "-h", "127.0.0.1", "-k", "", "-F"]
        return [*self._prefix, _program("postgres"), *words]

    def is_ready(self) -> bool:
        """Whether it serves; its pid file tells so in the last line, after it listened for a while already."""
        try:
            return (self._cluster / "postmaster.pid").read_text("ascii").split()[-1] == "ready"
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
    found = find_program(name)
    if found is None:
        raise FileNotFoundError(f"{name} is not installed")
    return str(found)
