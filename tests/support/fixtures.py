"""Fixtures for every test module, registered as a plugin by tests/conftest.py."""

from __future__ import annotations

import secrets
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from scripts.harness.servers import PostgresServer, RedisNodes, RedisServer, unused_port
from scripts.paths import ARTIFACTS, ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scripts.harness.browser import Browser
    from scripts.harness.openwebui import OpenWebUI
    from scripts.standin import StandIn

SERVED_SCHEMA = "open_webui"
"""Where the Open WebUI on PostgreSQL keeps its tables."""
PLAIN_VALVES = {"COST_LINE": "off", "SYNC_MODEL_INFO": False}
"""Of the session's servers: answers without a line about their cost, and models without rows, so that a page lets
users attach what a model cannot read."""


@pytest.fixture(scope="session")
def redis_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """The session's Redis; tests take `redis_server`, which is running at the start of each."""
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    yield server
    server.stop()


@pytest.fixture(scope="session")
def redis_cluster_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A cluster of three nodes: use keys of your own."""
    nodes = RedisNodes(tmp_path_factory.mktemp("cluster"))
    yield nodes.url
    nodes.stop()


@pytest.fixture(scope="session")
def postgres_session() -> Iterator[PostgresServer]:
    """The session's PostgreSQL; tests take `postgres_server`, which is running at the start of each."""
    with tempfile.TemporaryDirectory(prefix="postgres-") as directory:  # pytest's own are closed to others
        server = PostgresServer(Path(directory))
        yield server
        server.stop()


@pytest.fixture
def redis_server(redis_session: RedisServer) -> RedisServer:
    """A running Redis. Its data are those that earlier tests left: use keys of your own."""
    redis_session.start()
    return redis_session


@pytest.fixture
def postgres_server(postgres_session: PostgresServer) -> PostgresServer:
    """A running PostgreSQL that earlier tests may have used: use `postgres_url` or `postgres_schema`."""
    postgres_session.start()
    return postgres_session


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> str:
    """The address of a database that nobody else uses."""
    return postgres_server.url.removesuffix("postgres") + _created(postgres_server, "DATABASE")


@pytest.fixture
def postgres_schema(postgres_server: PostgresServer) -> str:
    """The name of a schema that nobody else uses."""
    return _created(postgres_server, "SCHEMA")


def _created(server: PostgresServer, kind: str, name: str = "") -> str:
    """Create something under this name, or under a new one, which is returned."""
    name = name or f"test_{secrets.token_hex(6)}"
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f'CREATE {kind} "{name}"')
    return name


@pytest.fixture
def free_port() -> int:
    """A loopback port that nobody listened on a moment ago."""
    return unused_port()


@pytest.fixture(scope="session")
def artifacts() -> Path:
    """The directory whose content is kept after the tests: logs and screenshots."""
    ARTIFACTS.mkdir(exist_ok=True)
    return ARTIFACTS


@pytest.fixture(scope="session")
def open_webui(tmp_path_factory: pytest.TempPathFactory, artifacts: Path) -> Iterator[OpenWebUI]:
    """The session's Open WebUI, on SQLite, with an administrator and nothing else; mark such tests `live`."""
    from scripts.harness.openwebui import OpenWebUI

    server = OpenWebUI(tmp_path_factory.mktemp("open-webui"))
    try:
        yield server
    finally:
        server.close()
        (artifacts / "open-webui.log").write_bytes(server.log.read_bytes())


@pytest.fixture(scope="session")
def standin_session() -> Iterator[StandIn]:
    """The session's stand-in for OpenRouter; tests take `standin`, whose log is empty at the start of each."""
    from scripts.standin import StandIn

    with StandIn() as server:
        yield server


@pytest.fixture
def standin(standin_session: StandIn) -> StandIn:
    """A stand-in for OpenRouter without requests in its log and without anything scripted."""
    standin_session.reset()
    return standin_session


@pytest.fixture(scope="session")
def byte_standin_session() -> Iterator[StandIn]:
    """The session's stand-in that bills four bytes as a token, whatever vocabulary the machine has."""
    from scripts.standin import StandIn
    from scripts.standin.prompt import ByteTokenizer

    with StandIn(tokenizer=ByteTokenizer()) as server:
        yield server


@pytest.fixture
def byte_standin(byte_standin_session: StandIn) -> StandIn:
    """A stand-in that bills less than the pipe counts, without requests in its log and anything scripted."""
    byte_standin_session.reset()
    return byte_standin_session


def _install(host: OpenWebUI, standin: StandIn, folder: Path) -> list[str]:
    """Install our pipe, as a single file, on the stand-in: the ids of its models."""
    from scripts import build
    from scripts.launch import session

    content = build.build(target=folder).read_text("utf-8")
    return session.install(
        host.admin.api, content, API_KEY=session.STANDIN_KEY, BASE_URL=standin.base_url, **PLAIN_VALVES
    )


@pytest.fixture(scope="session")
def live_pipe(
    open_webui: OpenWebUI, standin_session: StandIn, tmp_path_factory: pytest.TempPathFactory
) -> list[str]:
    """Our pipe in the session's Open WebUI: the ids of its models."""
    return _install(open_webui, standin_session, tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="session")
def served_session(
    postgres_session: PostgresServer,
    redis_session: RedisServer,
    standin_session: StandIn,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[OpenWebUI]:
    """The session's Open WebUI on PostgreSQL (in a schema) and Redis, with our pipe; tests take `served`.

    Its environment holds the package too, and it encrypts valves.
    """
    from scripts.harness.openwebui import OpenWebUI

    postgres_session.start()
    redis_session.start()
    _created(postgres_session, "SCHEMA", SERVED_SCHEMA)
    variables = {
        "DATABASE_URL": postgres_session.url.replace("postgresql:", "postgresql+psycopg:"),
        "DATABASE_SCHEMA": SERVED_SCHEMA,
        "ENABLE_VALVE_ENCRYPTION": "true",
        "PYTHONPATH": str(ROOT),
        "REDIS_URL": redis_session.url,
        "REDIS_KEY_PREFIX": SERVED_SCHEMA,
    }
    server = OpenWebUI(tmp_path_factory.mktemp("served"), variables)
    try:
        _install(server, standin_session, tmp_path_factory.mktemp("dist"))
        yield server
    finally:
        server.close()


@pytest.fixture
def served(
    served_session: OpenWebUI, postgres_server: PostgresServer, redis_server: RedisServer
) -> OpenWebUI:
    """An Open WebUI on running servers; mark such tests `live` and `servers`."""
    return served_session


@pytest.fixture
def browser(open_webui: OpenWebUI, tmp_path: Path) -> Iterator[Browser]:
    """A fresh Chromium at the session's Open WebUI, not logged in; mark such tests `browser`."""
    from scripts.harness.browser import Browser

    with Browser(open_webui.url, tmp_path / "profile") as browser:
        yield browser
