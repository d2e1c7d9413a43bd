"""Private Redis and PostgreSQL servers for tests: real programs, own directories, ephemeral loopback ports.

A test may stop a server in the middle and start it again on the same port with the same data.
"""

from __future__ import annotations

import os
import pwd
import re
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from pathlib import Path

from redis import Redis

from scripts.environment import find_program, prepare_programs
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


class _RedisNode(RedisServer):
    """One node of a cluster."""

    def __init__(self, directory: Path) -> None:
        self.bus_port = unused_port()
        super().__init__(directory)

    def command(self) -> list[str]:
        """With a port for the other nodes."""
        return [*super().command(), "--cluster-enabled", "yes", "--cluster-port", str(self.bus_port)]


class RedisNodes:
    """A Redis cluster of three nodes with a third of all slots each."""

    def __init__(self, directory: Path) -> None:
        self._nodes = list[_RedisNode]()
        for number, first in enumerate(ends := (0, 5461, 10923)):
            (folder := directory / f"node-{number}").mkdir()
            self._nodes.append(_RedisNode(folder))
            last = (*ends, 16384)[number + 1] - 1
            self._tell(number, "ADDSLOTSRANGE", first, last)
            for other in self._nodes[:number]:
                port, bus_port = other.url.rpartition("/")[0].rpartition(":")[2], other.bus_port
                self._tell(number, "MEET", "127.0.0.1", port, bus_port)
        while not all(b"cluster_slots_ok:16384" in self._tell(number, "INFO") for number in range(len(ends))):
            time.sleep(0.05)

    @property
    def url(self) -> str:
        """A `redis://` address, that of the first node."""
        return self._nodes[0].url

    def stop(self) -> None:
        """Stop all nodes."""
        for node in self._nodes:
            node.stop()

    def _tell(self, number: int, *words: object) -> bytes:
        with Redis.from_url(self._nodes[number].url) as client:
            answer: bytes = client.execute_command("CLUSTER", *words)
            return answer


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


class Pooler(Server):
    """A pgbouncer that gives each transaction any of its connections to a PostgreSQL server, of which it has two.

    From 1.22 on it keeps prepared statements apart; `prepares` says whether it does.
    """

    stop_signal = signal.SIGINT

    def __init__(self, directory: Path, server: PostgresServer) -> None:
        self._prefix, self._settings = _unprivileged(directory), directory / "pgbouncer.ini"
        self._target = server.url
        said = subprocess.run(
            [_program("pgbouncer"), "--version"], check=True, capture_output=True, text=True
        )
        version = re.search(r"(\d+)\.(\d+)", said.stdout)
        self.prepares = version is not None and tuple(map(int, version.groups())) >= (1, 22)
        super().__init__(directory)

    @property
    def url(self) -> str:
        """A `postgresql://` address."""
        return f"postgresql://postgres@127.0.0.1:{self._port}/postgres"

    def command(self) -> list[str]:
        """With its settings, which are written anew."""
        port = self._target.rpartition("/")[0].rpartition(":")[2]
        settings = {
            "listen_addr": "127.0.0.1",
            "listen_port": self._port,
            "unix_socket_dir": "",
            "auth_type": "any",
            "pool_mode": "transaction",
            "default_pool_size": 2,
            "max_client_conn": 500,
            **({"max_prepared_statements": 200} if self.prepares else {}),
        }
        lines = ["[databases]", f"* = host=127.0.0.1 port={port} user=postgres", "[pgbouncer]"]
        lines += [f"{name} = {value}" for name, value in settings.items()]
        self._settings.write_text("\n".join(lines), "utf-8")
        self._settings.chmod(0o644)
        return [*self._prefix, _program("pgbouncer"), str(self._settings)]

    def is_ready(self) -> bool:
        """Whether it listens."""
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._port)) == 0


def _unprivileged(directory: Path) -> list[str]:
    """PostgreSQL refuses to run as root: give the directory to another account; return how to become it."""
    if os.geteuid() != 0:
        return []
    names = {entry.pw_name for entry in pwd.getpwall()}
    account = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
    os.chown(directory, account.pw_uid, account.pw_gid)
    return ["setpriv", f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups"]


def _program(name: str) -> str:
    if find_program(name) is None:
        prepare_programs()
    found = find_program(name)
    if found is None:
        raise FileNotFoundError(f"{name} is not installed")
    return str(found)
