"""No key, passphrase or password is shown by any object, log, traceback or pickle of a whole session."""

from __future__ import annotations

import asyncio
import copy
import gc
import importlib
import inspect
import json
import logging
import pickle
import pkgutil
import re
import traceback
import typing
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any, Final, cast

import httpx
import pytest
from fastapi.encoders import jsonable_encoder
from pydantic import TypeAdapter, ValidationError
from redis.asyncio import Redis

import open_webui_openrouter_pipe as package
from open_webui_openrouter_pipe.app import App
from open_webui_openrouter_pipe.conversation.masking import MASK, Secret
from open_webui_openrouter_pipe.errors import PipeError
from open_webui_openrouter_pipe.openrouter.client import ClientSettings, OpenRouterClient
from open_webui_openrouter_pipe.openrouter.transport import Transport
from open_webui_openrouter_pipe.pipe import Pipe
from open_webui_openrouter_pipe.settings import read_settings
from open_webui_openrouter_pipe.store.cache import GuardedRedis
from open_webui_openrouter_pipe.valves import HostValves, StoredUserValves, UserValves, Valves
from open_webui_openrouter_pipe.worker import Host
from scripts.harness.database import open_database
from scripts.harness.page import FakeRecords, Page

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from scripts.standin import StandIn

pytestmark = pytest.mark.anyio

ADMIN: Final = "sk-or-v1-71f0a3c5e9d2administrator"
OWN: Final = "sk-or-v1-8830b1d7c4e6own"
ENVIRONMENT: Final = "sk-or-v1-90c2f5a8b3d1environment"
PASSPHRASE: Final = "correct-horse-battery-91b7-staple"
HOST: Final = "c7d15e02b9a8-secret-of-the-host"
DATABASE: Final = "3ab9-password-of-the-database"
REDIS: Final = "6fd2-password-of-redis"
ALL: Final = (ADMIN, OWN, ENVIRONMENT, PASSPHRASE, HOST, DATABASE, REDIS)
KEEPING: Final = ("valves", "settings", "worker", "host.platform", "openrouter.client", "openrouter.controls")
"""The modules whose objects keep secrets; others hold what came over the wire."""
NAMED: Final = re.compile(r"(api_?key|secret(_key)?|pass(word|phrase)s?|dsn)$", re.IGNORECASE)
"""Fields that hold a secret by their names."""


@pytest.fixture(autouse=True)
def secret_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("settings", "valves"):
        monkeypatch.setattr(f"{package.__name__}.{module}.host_secret", lambda: Secret(HOST))


def shown_secrets(*texts: object) -> list[str]:
    """The secrets that stand in the texts."""
    return [secret for secret in ALL if any(secret in str(text) for text in texts)]


def with_locals(error: BaseException) -> str:
    """A traceback with the values of all variables, as some loggers write it."""
    return "".join(traceback.TracebackException.from_exception(error, capture_locals=True).format())


def classes() -> Iterator[type]:
    """All classes of the package."""
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not module.name.endswith("__main__"):
            for _, found in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
                if found.__module__ == module.name:
                    yield found


def test_a_secret_is_a_text_that_shows_itself_to_nobody() -> None:
    """Whoever uses it has the text: it is equal to it, is encoded, joined, cut and written into JSON as that."""
    secret = Secret(ADMIN)
    shown = [
        str(secret),
        repr(secret),
        f"{secret}",
        f"{secret:>60}",
        logging.LogRecord("", 0, "", 0, "%s %r", (secret, secret), None).getMessage(),
        f"{[secret]}",
    ]
    parts = [repr(secret[:20]), repr(secret[5]), repr(Secret(f" {ADMIN} ".replace(" ", "\n")).strip())]
    kept = [pickle.dumps(secret), pickle.dumps({"key": secret}, 0)]
    assert shown_secrets(*shown, *parts, *kept) == []
    assert all(MASK in each for each in shown)
    assert (secret, hash(secret), secret.encode(), "Bearer " + secret, ", ".join([secret, *"xy"])) == (
        *(ADMIN, hash(ADMIN), ADMIN.encode()),
        *(f"Bearer {ADMIN}", f"{ADMIN}, x, y"),
    )
    assert (json.dumps([secret]), secret[:9], Secret(f" {ADMIN} ").strip()) == (
        f'["{ADMIN}"]',
        "sk-or-v1-",
        ADMIN,
    )
    assert (copy.copy(secret), copy.deepcopy([secret]), Secret(secret)) == (ADMIN, [ADMIN], ADMIN)
    assert (str(Secret("")), repr(Secret(""))) == ("", "''")


def test_what_is_a_secret_by_its_name_has_the_type() -> None:
    """In every class of the package: a field that is named like a key can be no plain text."""
    wrong, checked = [], 0
    for found in classes():
        with suppress(NameError, TypeError):  # of names for the type checker alone
            for name, kind in typing.get_type_hints(found).items():
                if NAMED.search(name) and not issubclass(found, Valves | UserValves):
                    checked += 1
                    wrong += [f"{found.__name__}.{name}"] * (str in {kind, *typing.get_args(kind)})
    assert (wrong, checked > 4) == ([], True)


@pytest.mark.parametrize("model", [Valves, HostValves, UserValves, StoredUserValves])
def test_what_the_host_stores_of_valves_is_as_it_was_given(model: type[Valves]) -> None:
    """Plain JSON, by each way that the host writes it; of a user's key what is sealed."""
    given = {"API_KEY": ADMIN}
    valves = model(**given)
    assert shown_secrets(valves, repr(valves), pickle.dumps(valves), valves.model_dump()) == []
    stored = valves.model_dump(exclude_unset=True)
    written = json.loads(json.dumps(stored))
    assert written == json.loads(TypeAdapter(dict[str, Any]).dump_json(stored)) == jsonable_encoder(stored)
    assert written == json.loads(valves.model_dump_json(exclude_unset=True))
    assert (written == given) is issubclass(model, Valves)
    assert model(**written).API_KEY == valves.API_KEY
    assert valves.model_copy(deep=True).API_KEY == valves.API_KEY


def test_a_value_that_is_refused_is_not_shown() -> None:
    """Neither by the error nor by its traceback in our modules; the host logs both."""
    for given in ({"API_KEY": [ADMIN]}, {"API_KEY": ADMIN, "ZDR": "perhaps"}):
        with pytest.raises(ValidationError) as caught:
            Valves(**cast("Any", given))
        assert shown_secrets(str(caught.value), repr(caught.value)) == []
        assert shown_secrets(HostValves(**cast("Any", given))) == []


class Unfriendly(httpx.AsyncHTTPTransport):
    """The network to the stand-in, on which some questions go wrong; errors echo the key wherever they can."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: set[str] = set()
        """The headers with keys."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.sent.add(request.headers.get("authorization", ""))
        content = (await request.aread()).decode() if request.method == "POST" else ""
        if "ask: bug" in content:
            raise RuntimeError("a bug below us")
        header = request.headers.get("authorization", "")
        key = header.removeprefix("Bearer ")
        echo = {"code": 400, "message": f"bad {header}", "metadata": {"raw": key, "provider_name": key}}
        ids = {"x-generation-id": key, "x-request-id": key}
        if "ask: refuse" in content:
            return httpx.Response(400, json={"error": echo, "user_id": key}, headers=ids)
        if "ask: page" in content:
            return httpx.Response(502, html=f"<title>{header}</title>", headers=ids)
        if "ask: fail" in content:
            failed = {"id": key, "status": "failed", "error": {"code": "server_error", "message": key}}
            event = json.dumps({"type": "response.failed", "response": failed})
            headers = {**ids, "content-type": "text/event-stream"}
            return httpx.Response(200, text=f"data: {event}\n\n", headers=headers)
        if "ask: break" in content:
            raise httpx.WriteError(f"reset after {header}", request=request)
        return await super().handle_async_request(request)


QUESTIONS: Final = (
    "hello",
    "ask: refuse",
    "ask: page",
    "ask: fail",
    "ask: break",
    "ask: bug",
    "/context",
    "again",
)


async def chat(app: App, standin: StandIn, **valves: Any) -> Pipe:
    """A session with the administrator's key, and one with a user's own, and of each an answer that is not streamed."""
    pipe = Pipe(lambda: app)
    pipe.valves = HostValves(
        BASE_URL=standin.base_url, RETRY_SECONDS=0, ARTIFACT_ENCRYPTION_KEY=PASSPHRASE, **valves
    )
    await pipe.pipes()
    for number, own in enumerate((StoredUserValves(), StoredUserValves(API_KEY=OWN))):
        for question in QUESTIONS:
            page = Page(pipe, "openai/gpt-5.2", chat_id=question, user_id=f"user-{number}", valves=own)
            await page.ask(question)
            with suppress(Exception):
                await page.complete(question)
        await page.title()
    await pipe.changed_settings()
    await app.idle()
    return pipe


async def test_a_whole_session_shows_no_secret(
    standin: StandIn, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every log at DEBUG with the variables of its tracebacks, and every object of ours, but what OpenRouter wrote."""
    monkeypatch.setenv("OPENROUTER_API_KEY", ENVIRONMENT)
    transport = Unfriendly()
    link = GuardedRedis(Redis.from_url(f"redis://:{REDIS}@127.0.0.1:1"), prefix="x")
    away = open_database(f"postgresql+psycopg://ada:{DATABASE}@127.0.0.1:1/rows")
    near = open_database(f"sqlite:///{tmp_path}/rows.db")
    with caplog.at_level(logging.DEBUG):
        for database, valves in ((near, {"API_KEY": ADMIN}), (away, {})):
            host = Host(database, FakeRecords(), Secret(HOST), redis=link, cache_folder=tmp_path)
            async with aclosing(App(host, transport=transport)) as app:
                pipe = await chat(app, standin, **valves)
                gc.collect()
                ours = [
                    each
                    for each in gc.get_objects()
                    if str(type(each).__module__).startswith(package.__name__)
                ]
                for each in ours:
                    if (
                        ".responses." not in type(each).__module__
                    ):  # what a provider wrote; it is logged redacted
                        assert shown_secrets(repr(each), str(each)) == [], type(each)
                    if type(each).__module__.removeprefix(f"{package.__name__}.") in KEEPING:
                        with suppress(AttributeError, TypeError, pickle.PicklingError):  # most cannot be
                            assert shown_secrets(pickle.dumps(each)) == [], type(each)
                seen = {type(each).__name__ for each in (pipe, *ours)}
                assert {
                    "ClientSettings",
                    "ControlSettings",
                    "StoreSettings",
                    "Settings",
                    "Host",
                    "HostValves",
                } <= seen
    texts = [record.getMessage() for record in caplog.records]
    errors = [record.exc_info[1] for record in caplog.records if record.exc_info and record.exc_info[1]]
    assert shown_secrets(*texts, *map(with_locals, errors)) == []
    assert sum("unexpected error" in text for text in texts) == sum(
        "a bug below us" in str(error) for error in errors
    )
    assert len(errors) >= 4
    assert any("[redacted]" in text for text in texts)
    assert transport.sent >= {f"Bearer {key}" for key in (ADMIN, OWN, ENVIRONMENT)}


async def test_errors_of_the_network_hold_no_variables_of_a_library() -> None:
    """These hold the headers; whoever logs our errors with their variables sees neither."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.transport.abort()

    running = await asyncio.start_server(serve, "127.0.0.1", 0)
    addresses = ("127.0.0.1:1", f"127.0.0.1:{running.sockets[0].getsockname()[1]}", "no host")
    async with httpx.AsyncClient(transport=Transport()) as http:
        for address in addresses:
            settings = ClientSettings(f"http://{address}", Secret(ADMIN), timeout_seconds=60)
            client = OpenRouterClient(http, settings)
            with pytest.raises(PipeError) as caught:
                async with client.stream({"model": "a/m", "input": "x" * 5_000_000}):
                    pass
            assert shown_secrets(with_locals(caught.value)) == []
    running.close()


def test_settings_of_the_environment_are_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """And a key of the valves comes before that."""
    monkeypatch.setenv("OPENROUTER_API_KEY", f" {ENVIRONMENT}\n")
    found = [read_settings(each).client.api_key for each in (Valves(), Valves(API_KEY=ADMIN))]
    assert found == [ENVIRONMENT, ADMIN]
    assert [type(each) for each in found] == [Secret, Secret]
