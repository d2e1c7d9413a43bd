"""Commands on a database with the host's tables, on SQLite and PostgreSQL: first a report, then the deed."""

from __future__ import annotations

import json
import secrets
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from redis.asyncio import Redis
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from open_webui_openrouter_pipe.history.markers import REFERENCE_TYPE
from open_webui_openrouter_pipe.host.platform import SECRET_FILE, Platform, SharedRedis
from open_webui_openrouter_pipe.maintenance import commands
from open_webui_openrouter_pipe.maintenance.commands import MaintenanceCommand, read_command
from open_webui_openrouter_pipe.maintenance.pipe import AUTHOR, TITLE, Pipe, answer
from open_webui_openrouter_pipe.store.schema import create_tables, define_tables

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from scripts.harness.servers import PostgresServer, RedisServer

pytestmark = pytest.mark.anyio

OURS, KEPT, OTHERS = "01AAAAAAAA0123456789", "01BBBBBBBB0123456789", "01CCCCCCCC0123456789"
NEW, OLD = "openrouter.openai/gpt-5.2", "old.openai/gpt-5.2"
PLAIN = "openai/gpt-5.2"
OFFERED = [NEW, "openrouter.z-ai/glm-4.6", "other.model"]


def host_tables(schema: str | None) -> sa.MetaData:
    """The columns of the host's tables that are used, and one that is not."""
    tables = sa.MetaData(schema=schema)
    json_columns = {
        "chat": ["chat"],
        "shared_chat": ["chat"],
        "chat_message": ["content", "output"],
        "folder": ["data"],
        "automation": ["data"],
        "user": ["settings"],
        "config": ["value"],
    }
    texts = {
        "chat": ["title"],
        "chat_message": ["model_id", "role"],
        "model": ["base_model_id", "name", "params", "meta"],
        "model_history": ["model_id"],
        "access_grant": ["resource_type", "resource_id", "principal_id"],
        "function": ["type", "meta", "valves"],
    }
    for name in {**json_columns, **texts}:
        columns: list[sa.Column[Any]] = [
            sa.Column("key" if name == "config" else "id", sa.Text, primary_key=True)
        ]
        columns += [sa.Column(column, sa.JSON) for column in json_columns.get(name, [])]
        columns += [sa.Column(column, sa.Text) for column in texts.get(name, [])]
        columns += [sa.Column("is_active", sa.Boolean)] if name == "function" else []
        sa.Table(name, tables, *columns)
    return tables


def marked(model: str, ulid: str) -> dict[str, Any]:
    """An answer with a marker."""
    return {
        "role": "assistant",
        "model": model,
        "content": f"[{ulid}]: #\n\nHello from {model}",
        "output": None,
    }


def chat(model: str, *answers: Mapping[str, Any]) -> dict[str, Any]:
    """A chat as the host stores it."""
    return {
        "models": [model],
        "history": {"messages": {str(number): each for number, each in enumerate(answers)}},
    }


def function(name: str, *, active: bool, author: str = AUTHOR) -> dict[str, Any]:
    """The row of a function, whose valves were set."""
    manifest = {"author": author, "title": TITLE}
    return {
        "id": name,
        "type": "pipe",
        "is_active": active,
        "meta": json.dumps({"manifest": manifest}),
        "valves": json.dumps({"API_KEY": name}) if name != "openrouter" else None,
    }


def hidden(model: str) -> dict[str, Any]:
    """An answer with a reference beside its reasoning."""
    details = [{"type": REFERENCE_TYPE, "id": OURS}]
    return {
        "role": "assistant",
        "model": model,
        "content": "Hi",
        "output": [{"type": "reasoning", "summary": [], "reasoning_details": details}],
    }


def rows() -> dict[str, list[dict[str, Any]]]:
    """A host with chats of our function under an old id, of another pipe, and of nobody we know."""
    ours, other = (
        chat(OLD, marked(OLD, KEPT), hidden(OLD)),
        chat("rbb.z-ai.glm-4.6", marked("rbb.z-ai.glm-4.6", OTHERS)),
    )
    filler = chat("other.model", marked("other.model", OTHERS))  # more of them than a page has rows
    many = [{"id": f"n{number:03}", "title": "", "chat": filler} for number in range(45)]
    return {
        "chat": [
            {"id": "a", "title": "a", "chat": ours},
            {"id": "b", "title": "b", "chat": other},
            {
                "id": "c",
                "title": "c",
                "chat": chat(PLAIN, {"role": "assistant", "model": PLAIN, "content": "x"}),
            },
            *many,
            {"id": "z", "title": "z", "chat": chat("other.model", marked("other.model", OURS))},
        ],
        "shared_chat": [{"id": "s", "chat": ours}],
        "chat_message": [
            {
                "id": "a-0",
                "role": "assistant",
                "model_id": OLD,
                "content": marked(OLD, KEPT)["content"],
                "output": None,
            },
            {
                "id": "a-1",
                "role": "assistant",
                "model_id": "preset",
                "content": "Hi",
                "output": hidden(OLD)["output"],
            },
            {
                "id": "b-0",
                "role": "assistant",
                "model_id": "rbb.z-ai.glm-4.6",
                "content": f"[{OTHERS}]: #\n\nx",
                "output": None,
            },
            {
                "id": "c-0",
                "role": "user",
                "model_id": None,
                "content": f"[{OURS}]: #\n\nWhat is this?",
                "output": None,
            },
        ],
        "folder": [{"id": "f", "data": {"model_ids": [OLD]}}, {"id": "g", "data": None}],
        "automation": [{"id": "t", "data": {"model_id": OLD, "prompt": OLD}}],
        "user": [
            {
                "id": "ada",
                "settings": {
                    "ui": {"models": [OLD]},
                    "functions": {"valves": {"old": {"API_KEY": "own"}, "x": {}}},
                },
            },
            {"id": "bob", "settings": None},
        ],
        "config": [
            {"key": "ui.default_models", "value": f"{OLD},x"},
            {"key": "openai.api_configs", "value": {"0": {"model_ids": [OLD, PLAIN]}}},
            {"key": "evaluation.arena.models", "value": [{"id": "arena", "meta": {"model_ids": [OLD]}}]},
        ],
        "model": [
            {"id": OLD, "base_model_id": None, "name": "mine", "params": "{}", "meta": "{}"},
            {"id": NEW, "base_model_id": None, "name": "made", "params": "{}", "meta": "{}"},
            {"id": "plain", "base_model_id": PLAIN, "name": "p", "params": "{}", "meta": "{}"},
            {"id": "preset", "base_model_id": OLD, "name": "p", "params": "{}", "meta": "{}"},
            {"id": "rbb.z-ai.glm-4.6", "base_model_id": None, "name": "r", "params": "{}", "meta": "{}"},
        ],
        "model_history": [{"id": "h1", "model_id": OLD}, {"id": "h2", "model_id": NEW}],
        "access_grant": [
            {"id": "g1", "resource_type": "model", "resource_id": OLD, "principal_id": "*"},
            {"id": "g2", "resource_type": "model", "resource_id": NEW, "principal_id": "x"},
            {"id": "g3", "resource_type": "tool", "resource_id": OLD, "principal_id": "x"},
        ],
        "function": [
            function("openrouter", active=True),
            function("old", active=False),
            function("rbb", active=False, author="somebody else"),
        ],
    }


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.servers)])
async def host(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Platform]:
    """A host's platform on each database, with its rows and ours."""
    schema = None
    if request.param == "sqlite":
        engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path}/webui.db")
    else:
        server: PostgresServer = request.getfixturevalue("postgres_server")
        engine = create_async_engine(server.url.replace("postgresql:", "postgresql+psycopg:"))
        schema = f"maintenance_{secrets.token_hex(6)}"
    async with engine.begin() as connection:
        if schema:
            await connection.execute(sa.schema.CreateSchema(schema))
        tables = host_tables(schema)
        await connection.run_sync(tables.create_all)
        for name, values in rows().items():
            await connection.execute(tables.tables[f"{schema}.{name}" if schema else name].insert(), values)
    ours = define_tables(schema)
    async with engine.begin() as connection:
        await connection.run_sync(create_tables, ours)
        await connection.execute(ours.artifact.insert(), [artifact()])
    (tmp_path / "cache" / "openrouter_pipe").mkdir(parents=True)
    (tmp_path / SECRET_FILE).write_text("secret", "utf-8")
    yield Platform(engine, schema, None, "key", tmp_path / "cache")
    await engine.dispose()


def artifact() -> dict[str, Any]:
    """The one artifact that is still there."""
    texts = dict.fromkeys(("chat_id", "message_id", "kind", "model", "key_id"), "")
    return {"user_id": "ada", "id": OURS, **texts, "packing": 0, "payload": b"", "created": 0, "last_used": 0}


async def content(engine: AsyncEngine, schema: str | None) -> dict[str, Any]:
    """Everything in the host's tables, by table and key."""
    tables = host_tables(schema)
    async with engine.connect() as connection:
        return {
            table.name: {row[0]: dict(row._mapping) for row in await connection.execute(sa.select(table))}
            for table in tables.tables.values()
        }


async def our_tables(host: Platform) -> list[str]:
    """The tables with our prefix."""
    async with host.engine.connect() as connection:
        names = await connection.run_sync(lambda sync: sa.inspect(sync).get_table_names(host.schema))
    return sorted(name for name in names if name.startswith("openrouter_pipe_"))


async def ask(host: Platform, text: str) -> str:
    """What is answered to a command."""
    return await answer(read_command(text), host, OFFERED)


async def switch_off(host: Platform, name: str) -> None:
    """Deactivate a function."""
    table = next(table for table in host_tables(host.schema).tables.values() if table.name == "function")
    async with host.engine.begin() as connection:
        await connection.execute(sa.update(table).where(table.c.id == name).values(is_active=False))


def counts(report: str) -> dict[str, int]:
    """The table of a report."""
    cells = [line.strip("| ").split(" | ") for line in report.splitlines() if line.startswith("| ")]
    return {name: int(count.replace(",", "")) for name, count in cells[1:] if set(name) != {"-"}}


async def test_a_question_changes_nothing(host: Platform) -> None:
    """What it names is what is then done."""
    before = await content(host.engine, host.schema)
    for question in ("move old", "move rbb", "move connection", "help", "anything"):
        assert "`now`" in await ask(host, question) or "Nothing has been changed yet" in await ask(
            host, question
        )
    assert await content(host.engine, host.schema) == before
    asked, done = await ask(host, "move old"), await ask(host, "move old now")
    assert counts(asked) == counts(done)
    assert "Nothing has been changed yet" in asked
    assert counts(await ask(host, "move old")) == {}


async def test_chats_of_the_same_pipe_move_with_their_answers(host: Platform) -> None:
    """Chats, answers, presets, grants, settings and valves name the new function, and nothing else has changed."""
    before = await content(host.engine, host.schema)
    assert counts(await ask(host, "move old now")) == {
        "chats": 1,
        "shared copies of chats": 1,
        "answers": 1,
        "folders": 1,
        "automations": 1,
        "users' own settings": 1,
        "settings of Open WebUI": 2,
        "valves of the function": 1,
        "models with what was set for them": 1,
        "grants of models": 1,
        "presets": 1,
    }
    moved = chat(
        NEW, *({**each, "model": NEW} for each in before["chat"]["a"]["chat"]["history"]["messages"].values())
    )
    expected = json.loads(json.dumps(before))
    expected["chat"]["a"]["chat"] = expected["shared_chat"]["s"]["chat"] = moved
    expected["chat_message"]["a-0"]["model_id"] = NEW
    expected["folder"]["f"]["data"] = {"model_ids": [NEW]}
    expected["automation"]["t"]["data"] = {"model_id": NEW, "prompt": OLD}
    valves = {"openrouter": {"API_KEY": "own"}, "x": {}}
    expected["user"]["ada"]["settings"] = {"ui": {"models": [NEW]}, "functions": {"valves": valves}}
    expected["config"]["ui.default_models"]["value"] = f"{NEW},x"
    expected["config"]["evaluation.arena.models"]["value"][0]["meta"]["model_ids"] = [NEW]
    expected["function"]["openrouter"]["valves"] = '{"API_KEY": "old"}'
    expected["model"] = {
        NEW: {**before["model"][OLD], "id": NEW},
        "preset": {**before["model"]["preset"], "base_model_id": NEW},
        "rbb.z-ai.glm-4.6": before["model"]["rbb.z-ai.glm-4.6"],
        "plain": before["model"]["plain"],
    }
    expected["model_history"] = {"h1": {"id": "h1", "model_id": NEW}}
    expected["access_grant"] = {
        "g1": {**before["access_grant"]["g1"], "resource_id": NEW},
        "g3": before["access_grant"]["g3"],
    }
    assert await content(host.engine, host.schema) == expected


async def test_chats_of_another_pipe_go_on_with_ours(host: Platform) -> None:
    """The chat's model changes, and its answers still name who wrote them."""
    before = await content(host.engine, host.schema)
    done = counts(await ask(host, "move rbb now"))
    assert done == {"chats": 1, "models with what was set for them": 1}
    after = await content(host.engine, host.schema)
    new = "openrouter.z-ai/glm-4.6"
    assert after["chat"]["b"]["chat"] == {**before["chat"]["b"]["chat"], "models": [new]}
    assert after["chat_message"] == before["chat_message"]
    assert after["function"] == before["function"]
    assert new in after["model"]


async def test_chats_of_a_connection_go_on_with_ours(host: Platform) -> None:
    """What our function offers too moves; the connection keeps its own list of models."""
    before = await content(host.engine, host.schema)
    assert counts(await ask(host, "move connection now")) == {"chats": 1, "presets": 1}
    expected = json.loads(json.dumps(before))
    expected["chat"]["c"]["chat"]["models"] = [NEW]
    expected["model"]["plain"]["base_model_id"] = NEW
    assert await content(host.engine, host.schema) == expected


async def test_a_connection_keeps_what_was_set_for_its_models(host: Platform) -> None:
    """Ours get copies: the connection still offers its own."""
    tables = host_tables(host.schema)
    name = f"{host.schema}." if host.schema else ""
    row = {"id": PLAIN, "base_model_id": None, "name": "theirs", "params": "{}", "meta": "{}"}
    grant = {"id": "g4", "resource_type": "model", "resource_id": PLAIN, "principal_id": "ada"}
    async with host.engine.begin() as connection:
        await connection.execute(tables.tables[f"{name}model"].insert(), row)
        await connection.execute(tables.tables[f"{name}access_grant"].insert(), grant)
    asked = counts(await ask(host, "move connection"))
    assert asked == counts(await ask(host, "move connection now"))
    assert (asked["models with what was set for them"], asked["grants of models"]) == (1, 1)
    after = await content(host.engine, host.schema)
    assert (after["model"][PLAIN]["name"], after["model"][NEW]["name"]) == ("theirs", "theirs")
    granted = [(each["resource_id"], each["principal_id"]) for each in after["access_grant"].values()]
    assert [each for each in granted if each[0] in {PLAIN, NEW}] == [(PLAIN, "ada"), (NEW, "ada")]


async def test_what_must_be_there_first(host: Platform) -> None:
    """Each thing that is missing, or still runs, is one line, and nothing is done."""
    before = await content(host.engine, host.schema)
    assert await ask(host, "move nobody now") == commands.NO_SUCH_FUNCTION.format(source="nobody")
    assert await ask(host, "uninstall now") == commands.STILL_ON.format(source="openrouter")
    nothing_offered = await answer(read_command("move rbb now"), host, ["openrouter.status", "other.model"])
    assert nothing_offered == commands.NO_MODELS.format(target="openrouter")
    await switch_off(host, "openrouter")
    assert await ask(host, "move old now") == commands.NO_TARGET
    await switch_off(host, "nobody")
    before["function"]["openrouter"]["is_active"] = False
    assert await content(host.engine, host.schema) == before


async def test_uninstalling_needs_the_function(host: Platform) -> None:
    """Without it nothing says which models, valves and marks are ours: nothing is removed."""
    before = await content(host.engine, host.schema)
    table = host_tables(host.schema).tables[f"{host.schema}.function" if host.schema else "function"]
    async with host.engine.begin() as connection:
        await connection.execute(sa.delete(table).where(table.c.id != "rbb"))
    for question in ("uninstall", "uninstall now"):
        assert await ask(host, question) == commands.NO_FUNCTION_LEFT
    after = await content(host.engine, host.schema)
    assert {**after, "function": before["function"]} == before
    assert await our_tables(host)


async def test_uninstalling_leaves_a_host_that_never_had_us(host: Platform, tmp_path: Path) -> None:
    """Tables, markers, rows, valves and files are gone; other people's markers and chats are as they were."""
    await switch_off(host, "openrouter")
    before = await content(host.engine, host.schema)
    asked = await ask(host, "uninstall")
    assert await content(host.engine, host.schema) == before
    assert len(await our_tables(host)) == 10
    done = await ask(host, "uninstall now")
    assert counts(asked) == counts(done)
    after = await content(host.engine, host.schema)
    assert await our_tables(host) == []
    assert not (tmp_path / SECRET_FILE).exists()
    assert not (tmp_path / "cache" / "openrouter_pipe").exists()
    assert (tmp_path / "cache").exists()
    expected = json.loads(json.dumps(before))
    first, second = expected["chat"]["a"]["chat"]["history"]["messages"].values()
    first["content"] = f"Hello from {OLD}"
    second["output"] = [{"type": "reasoning", "summary": []}]
    expected["shared_chat"]["s"]["chat"] = expected["chat"]["a"]["chat"]
    expected["chat"]["z"]["chat"]["history"]["messages"]["0"]["content"] = "Hello from other.model"
    expected["chat_message"]["a-0"]["content"] = f"Hello from {OLD}"
    expected["chat_message"]["a-1"]["output"] = [{"type": "reasoning", "summary": []}]
    expected["user"]["ada"]["settings"]["functions"]["valves"] = {"x": {}}
    del expected["model"][OLD], expected["model"][NEW]
    del expected["access_grant"]["g1"], expected["access_grant"]["g2"]
    expected["model_history"] = {}
    assert after == expected
    assert "models of the pipe: 1." in done
    assert counts(await ask(host, "uninstall")) == {}


@pytest.mark.servers
async def test_uninstalling_empties_our_part_of_redis(host: Platform, redis_server: RedisServer) -> None:
    """Keys with our prefix go, and no others."""
    await switch_off(host, "openrouter")
    prefix = f"host[{secrets.token_hex(4)}]*"
    async with Redis.from_url(redis_server.url) as client:
        names = [f"{prefix}:openrouter_pipe:{number}" for number in range(3)]
        for name in (*names, f"{prefix}:another"):
            await client.set(name, b"x")
        with_redis = replace(host, redis=SharedRedis(client, f"{prefix}:openrouter_pipe"))
        asked = await ask(with_redis, "uninstall")
        assert counts(asked)["keys in Redis"] == 3
        assert await client.exists(*names) == 3
        await ask(with_redis, "uninstall now")
        assert await client.exists(*names) == 0
        assert await client.exists(f"{prefix}:another") == 1


@pytest.mark.parametrize(
    ("kind", "left"),
    [("user", {"user_id": "eve", "chat_id": "one", "account": "chat:ada"}), ("chat", {"chat_id": "two"})],
)
async def test_a_user_or_a_chat_is_forgotten(host: Platform, kind: str, left: dict[str, str]) -> None:
    """In every table that names users, chats or their accounts; of all others everything stays."""
    tables = define_tables(host.schema)
    owned = {"user_id": "ada", "chat_id": "one", "account": "user:ada"}
    of_nobody = {tables.calibration, tables.lease, tables.version}
    naming = [table for table in tables.artifact.metadata.sorted_tables if table not in of_nobody]
    async with host.engine.begin() as connection:
        await connection.execute(sa.delete(tables.artifact))
        for table in naming:
            empty = {
                column.name: [] if isinstance(column.type, sa.JSON) else column.type.python_type()
                for column in table.c
            }
            for number, names in enumerate((owned, {**owned, **left})):
                row = {**empty, **names, "id": str(number), "day": number, "end_chain": str(number)}
                values = {name: value for name, value in row.items() if name in table.c}
                await connection.execute(sa.insert(table).values(**values))
    column = f"{kind}_id"
    expected = {
        f"rows of the table {table.name}": 1
        for table in naming
        if column in table.c or ("account" in table.c and kind == "user")
    }
    asked = await ask(host, f"forget {kind} {owned[column]}")
    assert counts(asked) == expected
    done = await ask(host, f"forget {kind} {owned[column]} now")
    assert counts(done) == expected
    again = await ask(host, f"forget {kind} {owned[column]} now")
    assert again == f"`forget {kind} {owned[column]}`: there is nothing to do."
    async with host.engine.connect() as connection:
        sizes = {
            f"rows of the table {table.name}": await connection.scalar(
                sa.select(sa.func.count()).select_from(table)
            )
            for table in naming
        }
    assert sizes == {name: 2 - expected.get(name, 0) for name in sizes}


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("move old", MaintenanceCommand("move", "old")),
        (" `Move Old NOW` ", MaintenanceCommand("move", "old", now=True)),
        ("/move connection", MaintenanceCommand("move", object="connection")),
        ("move connection now", MaintenanceCommand("move", object="connection", now=True)),
        ("move connection or now", MaintenanceCommand("move", "or", "connection", now=True)),
        ("forget user Ada-1", MaintenanceCommand("forget", "Ada-1", "user")),
        ("Forget CHAT a now", MaintenanceCommand("forget", "a", "chat", now=True)),
        ("forget user", MaintenanceCommand("help")),
        ("forget ada now", MaintenanceCommand("help")),
        ("forget user a b", MaintenanceCommand("help")),
        ("uninstall", MaintenanceCommand("uninstall")),
        ("uninstall now", MaintenanceCommand("uninstall", now=True)),
        ("uninstall now please", MaintenanceCommand("help")),
        ("do not uninstall now", MaintenanceCommand("help")),
        ("move", MaintenanceCommand("help")),
        ("move a b now", MaintenanceCommand("help")),
        ("now", MaintenanceCommand("help")),
        ("", MaintenanceCommand("help")),
    ],
)
async def test_commands(text: str, command: MaintenanceCommand) -> None:
    """Only what is written exactly is done; everything else asks for help."""
    assert read_command(text) == command


async def test_nobody_but_an_administrator_is_answered() -> None:
    """A task of the host gets nothing, a user one line, and neither reaches the database."""
    body = {"messages": [{"role": "user", "content": "uninstall now"}]}
    assert await Pipe().pipe(body, {"role": "user"}) == commands.REFUSED
    assert await Pipe().pipe(body, None) == commands.REFUSED
    assert await Pipe().pipe(body, {"role": "admin"}, __task__="title_generation") == ""


@pytest.mark.parametrize("now", [True, False])
def test_where_there_is_nothing_to_do_no_change_is_announced(now: bool) -> None:  # noqa: FBT001 - the case
    """A report that would change nothing neither says what it changes, nor how to do it."""
    command = MaintenanceCommand("uninstall", now=now)
    said = commands.report(command, {"chats": 0}, ["Presets stay."])
    assert said == "`uninstall`: there is nothing to do.\n\nPresets stay."
