"""Commands on a database with the host's tables, on SQLite and PostgreSQL: first a report, then the deed.

What stands in the host's tables, and what becomes of it, is in `host.txt`.
"""

from __future__ import annotations

import json
import re
import secrets
import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

import pytest
import sqlalchemy as sa
from redis.asyncio import Redis, RedisCluster
from sqlalchemy.ext.asyncio import create_async_engine

from open_webui_openrouter_pipe.conversation.masking import Secret
from open_webui_openrouter_pipe.conversation.slash import COMMANDS
from open_webui_openrouter_pipe.host.platform import SECRET_FILE, Platform, SharedRedis
from open_webui_openrouter_pipe.maintenance import commands
from open_webui_openrouter_pipe.maintenance.commands import (
    MaintenanceCommand,
    Renaming,
    read_command,
    rename_choice,
    rename_ids,
    rename_setting,
)
from open_webui_openrouter_pipe.maintenance.pipe import Pipe, answer, asked
from open_webui_openrouter_pipe.money.audit import Bill, bill_json
from open_webui_openrouter_pipe.openrouter.recordings import Recordings
from open_webui_openrouter_pipe.pipe import Pipe as OpenRouterPipe
from open_webui_openrouter_pipe.store.database import Database
from open_webui_openrouter_pipe.store.ledger import SpendingLedger
from open_webui_openrouter_pipe.store.schema import create_tables, define_tables
from open_webui_openrouter_pipe.valves import changed_valves
from tests.support.rows import rows

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from open_webui_openrouter_pipe.app import App
    from scripts.harness.servers import PostgresServer

pytestmark = pytest.mark.anyio

TABLES = Path(__file__).with_name("host.txt")
NEW, PLAIN = "openrouter.openai/gpt-5.2", "openai/gpt-5.2"
OFFERED = [NEW, "openrouter.z-ai/glm-4.6", "other.model"]
COLUMNS = {
    "chat": "title chat:json",
    "shared_chat": "chat:json",
    "chat_message": "model_id role content:json output:json",
    "folder": "data:json",
    "automation": "data:json",
    "user": "settings:json",
    "config": "value:json",
    "model": "base_model_id name params meta",
    "model_history": "model_id",
    "access_grant": "resource_type resource_id principal_id",
    "prompt": "command user_id name content meta:json",
    "prompt_history": "prompt_id",
    "function": "user_id name type is_active:flag is_global:flag content meta valves",
    "function_history": "function_id",
}
"""Of the host's tables those that are used, and one that is not."""
TYPES = {"": sa.Text, "json": sa.JSON, "flag": sa.Boolean}


class Host:
    """A database with the host's tables and ours, as a test sees it."""

    def __init__(self, platform: Platform) -> None:
        self.platform = platform
        metadata = sa.MetaData(schema=platform.schema)
        self.tables = {
            name: sa.Table(
                name,
                metadata,
                sa.Column("key" if name == "config" else "id", sa.Text, primary_key=True),
                *(
                    sa.Column(column, TYPES[kind])
                    for column, _, kind in (each.partition(":") for each in columns.split())
                ),
            )
            for name, columns in COLUMNS.items()
        }

    async def do(self, *statements: sa.Executable) -> None:
        async with self.platform.engine.begin() as connection:
            for statement in statements:
                await connection.execute(statement)

    def insert(self, table: str, key: str, columns: dict[str, Any]) -> sa.Executable:
        primary = self.tables[table].c[0].name
        return sa.insert(self.tables[table]).values({primary: key, **columns})

    async def switch_off(self, name: str) -> None:
        functions = self.tables["function"]
        await self.do(sa.update(functions).where(functions.c.id == name).values(is_active=False))

    async def content(self) -> dict[str, Any]:
        """Everything in the host's tables, by table and key, without the key."""
        async with self.platform.engine.connect() as connection:
            return {
                name: {
                    key: dict(zip(table.c.keys()[1:], values, strict=True))
                    for key, *values in await connection.execute(sa.select(table))
                }
                for name, table in self.tables.items()
            }

    async def our_tables(self) -> list[str]:
        """The tables with our prefix."""
        async with self.platform.engine.connect() as connection:
            names = await connection.run_sync(
                lambda sync: sa.inspect(sync).get_table_names(self.platform.schema)
            )
        return sorted(name for name in names if name.startswith("openrouter_pipe_"))

    async def indexes(self) -> list[str]:
        """The indexes of the database."""
        async with self.platform.engine.connect() as connection:
            found = await connection.execute(sa.text("SELECT name FROM sqlite_master WHERE type = 'index'"))
        return [*found.scalars()]

    async def ask(self, text: str) -> str:
        """What is answered to a command."""
        return await answer(read_command(text), self.platform, OFFERED)

    async def changes(self, text: str) -> dict[str, int]:
        """How many of each kind a command names, first as a question and then as it is done."""
        before = await self.content()
        asked = await self.ask(text)
        assert await self.content() == before
        assert "Nothing has been changed yet" in asked
        done = counts(await self.ask(f"{text} now"))
        assert counts(asked) == done
        assert counts(await self.ask(text)) == {}
        return done


class Said:
    """An app that finds one thing wrong."""

    async def problems(self, _: object) -> list[str]:
        return ["`MODELS`: wrong."]


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.servers)])
async def host(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Host]:
    """On each database, with its rows and ours."""
    schema = None
    if request.param == "sqlite":
        engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path}/webui.db")
    else:
        server: PostgresServer = request.getfixturevalue("postgres_server")
        engine = create_async_engine(server.url.replace("postgresql:", "postgresql+psycopg:"))
        schema = f"maintenance_{secrets.token_hex(6)}"
    host, ours = (
        Host(Platform(engine, schema, None, Secret("key"), tmp_path / "cache")),
        define_tables(schema),
    )
    texts = dict.fromkeys(("chat_id", "message_id", "kind", "model", "key_id"), "")
    artifact = {"user_id": "ada", "id": "01AAAAAAAA0123456789", **texts, "packing": 0, "payload": b""}
    async with engine.begin() as connection:
        if schema:
            await connection.execute(sa.schema.CreateSchema(schema))
        await connection.run_sync(host.tables["chat"].metadata.create_all)
        await connection.run_sync(create_tables, ours)
        await connection.execute(ours.artifact.insert(), [{**artifact, "created": 0, "last_used": 0}])
    given = [row.values for row in rows(TABLES, "rows")]
    other = next(columns for table, key, columns in given if (table, key) == ("chat", "b"))
    filler = {**other, "chat": {**other["chat"], "models": ["other.model"]}}
    many = [("chat", f"n{number:03}", filler) for number in range(45)]  # more than a page has rows
    await host.do(*(host.insert(*row) for row in (*given, *many)))
    (tmp_path / "cache" / "openrouter_pipe").mkdir(parents=True)
    (tmp_path / SECRET_FILE).write_text("secret", "utf-8")
    yield host
    await engine.dispose()


def counts(report: str) -> dict[str, int]:
    """The table of a report."""
    cells = [line.strip("| ").split(" | ") for line in report.splitlines() if line.startswith("| ")]
    return {name: int(count.replace(",", "")) for name, count in cells[1:] if set(name) != {"-"}}


@pytest.mark.parametrize(("command", "kinds"), rows(TABLES, "commands"))
async def test_what_a_question_names_is_then_done(host: Host, command: str, kinds: dict[str, int]) -> None:
    """And nothing else: all other rows are as they were."""
    if command == "uninstall":
        await host.switch_off("openrouter")
    expected = await host.content()
    for row in rows(TABLES, command):
        table, key, columns = row.values
        if columns is None:
            del expected[table][key]
        else:
            expected[table][key] = {**expected[table].get(key, {}), **columns}
    assert await host.changes(command) == kinds
    assert await host.content() == expected


@pytest.mark.parametrize("host", ["sqlite"], indirect=True)
async def test_a_removal_that_ends_early_leaves_no_index(host: Host) -> None:
    """Nor does a report: whoever writes artifacts would pay for it."""
    await host.switch_off("openrouter")

    def fail(*details: Any) -> None:
        if "FROM chat_message" in details[2]:
            raise ConnectionError

    sa.event.listen(host.platform.engine.sync_engine, "before_cursor_execute", fail)
    for command in ("uninstall", "uninstall now"):
        with pytest.raises(ConnectionError):
            await host.ask(command)
        assert [name for name in await host.indexes() if "removal" in name] == []


@pytest.mark.parametrize("host", ["sqlite"], indirect=True)
async def test_a_removal_finds_artifacts_by_an_index(host: Host) -> None:
    """Of its own, which a report leaves behind as little as a removal: nothing else looks for them by id alone."""
    await host.switch_off("openrouter")
    plans: list[str] = []

    def explain(*details: Any) -> None:
        if re.search(r"FROM openrouter_pipe_artifact\s+WHERE .* IN ", details[2]):
            with closing(sqlite3.connect(str(host.platform.engine.url.database))) as connection:
                found = connection.execute(f"EXPLAIN QUERY PLAN {details[2]}", details[3])
                plans.extend(line for *_, line in found)

    sa.event.listen(host.platform.engine.sync_engine, "before_cursor_execute", explain)
    for command in ("uninstall", "uninstall now"):
        await host.ask(command)
        assert [name for name in await host.indexes() if "removal" in name] == []
    assert {plan.partition(" (")[0] for plan in plans} == {
        "SEARCH openrouter_pipe_artifact USING COVERING INDEX openrouter_pipe_removal"
    }


async def test_shortcuts_are_installed_and_removed_without_a_trace(host: Host) -> None:
    """Twice does no harm, what somebody else has under a name stays, and a thoughtless model without tools has none."""
    functions, meta = host.tables["function"], {"tags": [], "openrouter_pipe": {"tags": "x"}}
    row = {"base_model_id": None, "name": "t", "params": "{}", "meta": json.dumps(meta)}
    await host.do(host.insert("model", "openrouter.a/thoughtless", row))
    before = await host.content()
    counted = {
        "switches beside the message field": 3,
        "commands in the list of `/`": len(COMMANDS) - 1,
        "models with switches": 3,
    }
    assert "stay: `openrouter_web_search`, `/help`." in await host.ask("install")
    assert await host.changes("install") == counted
    installed = await host.content()
    lists = {key: json.loads(row["meta"]).get("filterIds") for key, row in installed["model"].items()}
    both = ["openrouter_answer_fast", "openrouter_think_harder", "openrouter_datetime"]
    assert {key: held for key, held in lists.items() if held} == {
        NEW: both,
        "preset": both,
        "old.openai/gpt-5.2": ["theirs", *both],
    }
    grants = [each for each in installed["access_grant"].values() if each["resource_type"] == "prompt"]
    prompts = installed["prompt"]
    assert {prompts[each["resource_id"]]["content"] for each in grants} == {
        f"/{name} " for name in COMMANDS if name != "help"
    }
    assert {installed["function"][name]["user_id"] for name in both} == {"ada"}
    assert await host.changes("uninstall shortcuts") == counted
    assert await host.content() == before
    await host.do(sa.delete(functions).where(functions.c.id == "openrouter_web_search"))
    assert (await host.changes("install"))["models with switches"] == 4


async def test_a_connection_keeps_what_was_set_for_its_models(host: Host) -> None:
    """Ours get copies, whatever stands in them: the connection still offers its own."""
    row = {"base_model_id": None, "name": "theirs", "params": "{}", "meta": "no JSON"}
    grant = {"resource_type": "model", "resource_id": PLAIN, "principal_id": "ada"}
    await host.do(host.insert("model", PLAIN, row), host.insert("access_grant", "g4", grant))
    asked = counts(await host.ask("move connection"))
    assert asked == counts(await host.ask("move connection now"))
    assert (asked["models with what was set for them"], asked["grants of models"]) == (1, 1)
    after = await host.content()
    assert after["model"][PLAIN] == after["model"][NEW] == row
    granted = [each for each in after["access_grant"].values() if each["resource_id"] in {PLAIN, NEW}]
    assert granted == [grant, {**grant, "resource_id": NEW}]


async def test_what_must_be_there_first(host: Host) -> None:
    """Each thing that is missing, or still runs, is one line, and nothing is done."""
    before = await host.content()
    assert await host.ask("move nobody now") == commands.NO_SUCH_FUNCTION.format(source="nobody")
    assert await host.ask("uninstall now") == commands.STILL_ON.format(source="openrouter")
    assert "`now`" in await host.ask("anything")
    command = read_command("move rbb now")
    nothing_offered = await answer(command, host.platform, ["openrouter.status", "other.model"])
    assert nothing_offered == commands.NO_MODELS.format(target="openrouter")
    await host.switch_off("openrouter")
    assert await host.ask("move old now") == commands.NO_TARGET
    before["function"]["openrouter"]["is_active"] = False
    assert await host.content() == before


async def test_settings_are_told_by_the_pipe_that_runs(host: Host) -> None:
    """What is not at its default, without keys, and what is wrong; an older pipe, or none, says neither."""
    pipe = OpenRouterPipe(lambda: cast("App", Said()))
    loaded: list[str] = []

    async def load(function_id: str) -> object:
        loaded.append(function_id)
        return pipe

    async def load_older(_: str) -> object:
        return Pipe()

    command = read_command("settings")
    assert await answer(command, host.platform, [], load=load) == commands.ALL_DEFAULTS.format(
        target="openrouter"
    )
    advanced = '{"RETRY_SECONDS": 5, "WEB_FETCH": true, "FOO": 1}'
    pipe.valves = pipe.Valves(
        API_KEY="sk-or-v1-secret",
        MODELS="a|b, `c`",
        MODEL_FILTERS=" ",
        COST_LINE="lots",
        ADVANCED=advanced,
    )
    report = await answer(command, host.platform, [], load=load)
    rows_of_table = [
        "`API_KEY` | `…`",
        "`MODELS` | `a\\|b, 'c'`",
        "`MODEL_FILTERS` | ` `",
        "`COST_LINE` | `lots`",
        "`RETRY_SECONDS` | `5`",
    ]
    table = "\n".join(f"| {row} |" for row in [*rows_of_table, "`FOO` | `1`"])
    assert report.startswith(commands.WRONG.format(target="openrouter") + "\n\n- `MODELS`: wrong.\n\n")
    assert report.endswith(f"| setting | value |\n|---|---|\n{table}")
    broken = pipe.Valves(ADVANCED='{"RETRY_SECONDS"')
    assert changed_valves(broken) == {"ADVANCED": '{"RETRY_SECONDS"'}
    key = f"sk-or-v1-{'a1' * 32}"  # in the wrong place
    for wrong in (f'{{"KEY": "{key}"}}', f"{key}"):
        assert key not in str(changed_valves(pipe.Valves(ADVANCED=wrong)))
    assert loaded == ["openrouter", "openrouter"]
    older = [await answer(command, host.platform, [], load=each) for each in (load_older, None)]
    assert older == [commands.NO_SETTINGS.format(target="openrouter")] * 2
    await host.switch_off("openrouter")
    assert await answer(command, host.platform, [], load=load) == commands.NO_TARGET


async def test_uninstalling_needs_the_function(host: Host) -> None:
    """Without it nothing says which models, valves and marks are ours: nothing is removed."""
    functions = host.tables["function"]
    await host.do(sa.delete(functions).where(functions.c.id != "rbb"))
    before = await host.content()
    for question in ("uninstall", "uninstall now"):
        assert await host.ask(question) == commands.NO_FUNCTION_LEFT
    assert await host.content() == before
    assert await host.our_tables()


async def test_uninstalling_leaves_no_table_and_no_file(host: Host, tmp_path: Path) -> None:
    """What others have in the folders stays, as do presets, which are named."""
    await host.switch_off("openrouter")
    await host.ask("uninstall")
    assert len(await host.our_tables()) == 11
    assert "Presets on top of its models: 1." in await host.ask("uninstall now")
    assert await host.our_tables() == []
    left = [path.exists() for path in (tmp_path / SECRET_FILE, tmp_path / "cache" / "openrouter_pipe")]
    assert (left, (tmp_path / "cache").exists()) == ([False, False], True)


class RedisInMemory(set[str]):
    """The names of a Redis, as far as they are looked for and removed."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """There is nothing to close."""

    async def set(self, name: str, _: bytes) -> None:
        self.add(name)

    async def delete(self, name: str) -> None:
        self.remove(name)

    async def exists(self, *names: str) -> int:
        return len(self.intersection(names))

    async def scan_iter(self, match: str, count: int) -> AsyncIterator[str]:
        """Those that fit, with a character behind a backslash as it is."""
        assert count > 1
        wanted = "".join(".*" if each == "*" else re.escape(each[-1]) for each in re.findall(r"\\.|.", match))
        for name in [name for name in self if re.fullmatch(wanted, name)]:
            yield name


@pytest.mark.parametrize(
    "kind",
    ["memory", *(pytest.param(kind, marks=pytest.mark.servers) for kind in ("plain", "cluster"))],
)
async def test_uninstalling_empties_our_part_of_redis(
    host: Host, kind: str, request: pytest.FixtureRequest
) -> None:
    """Keys with our prefix go, and no others, on whichever node they are."""
    connected: Any
    if kind == "memory":
        connected = RedisInMemory()
    elif kind == "plain":
        connected = Redis.from_url(request.getfixturevalue("redis_server").url)
    else:
        connected = RedisCluster.from_url(request.getfixturevalue("redis_cluster_url"))
    await host.switch_off("openrouter")
    prefix = f"host[{secrets.token_hex(4)}]*"
    async with connected as client:
        names = [f"{prefix}:openrouter_pipe:{number}" for number in range(3)]
        for name in (*names, f"{prefix}:another"):
            await client.set(name, b"x")
        shared = SharedRedis(client, f"{prefix}:openrouter_pipe")
        host.platform = replace(host.platform, redis=shared)
        assert counts(await host.ask("uninstall"))["keys in Redis"] == 3
        assert await client.exists(*names) == 3
        await host.ask("uninstall now")
        assert await client.exists(*names) == 0
        assert await client.exists(f"{prefix}:another") == 1


@pytest.mark.parametrize(
    ("kind", "left"),
    [("user", {"user_id": "eve", "chat_id": "one", "account": "chat:ada"}), ("chat", {"chat_id": "two"})],
)
async def test_a_user_or_a_chat_is_forgotten(host: Host, kind: str, left: dict[str, str]) -> None:
    """In every table that names users, chats or their accounts; of all others everything stays."""
    tables = define_tables(host.platform.schema)
    owned = {"user_id": "ada", "chat_id": "one", "account": "user:ada"}
    of_nobody = {tables.calibration, tables.lease, tables.version}
    naming = [table for table in tables.artifact.metadata.sorted_tables if table not in of_nobody]
    statements: list[sa.Executable] = [sa.delete(tables.artifact)]
    for table in naming:
        empty = {
            column.name: [] if isinstance(column.type, sa.JSON) else column.type.python_type()
            for column in table.c
        }
        for number, names in enumerate((owned, {**owned, **left})):
            keys = {"id": str(number), "day": number, "quarter": number, "end_chain": str(number)}
            row = {**empty, **names, **keys}
            values = {name: value for name, value in row.items() if name in table.c}
            statements.append(sa.insert(table).values(**values))
    await host.do(*statements)
    command, column = f"forget {kind} {owned[f'{kind}_id']}", f"{kind}_id"
    expected = {
        f"rows of the table {table.name}": 1
        for table in naming
        if column in table.c or ("account" in table.c and kind == "user")
    }
    assert await host.changes(command) == expected
    assert await host.ask(f"{command} now") == f"`{command}`: there is nothing to do."
    async with host.platform.engine.connect() as connection:
        for table in naming:
            size = await connection.scalar(sa.select(sa.func.count()).select_from(table))
            assert size == 2 - expected.get(f"rows of the table {table.name}", 0)


async def test_recording_begins_when_it_is_confirmed_and_ends_when_it_is_stopped(host: Host) -> None:
    """A question deletes nothing and begins nothing; the next recording deletes the files of the last one."""
    recordings = Recordings(host.platform.cache_folder / "openrouter_pipe" / "recordings")
    asked = await host.ask("record 10")
    assert "`record 10 now`" in asked
    assert (recordings.running(time.time()), "deleted" in asked) == (None, False)
    before = time.time()
    assert "`record stop` ends it" in await host.ask("record 10 now")
    running = recordings.running(time.time())
    assert running is not None
    assert before + 600 <= running.until <= time.time() + 600
    assert recordings.folder is not None
    (recordings.folder / "a.jsonl").write_text("{}\n", "utf-8")
    assert "The files of the last recording are deleted: 1." in await host.ask("record 60")
    link = "[a.jsonl](/cache/openrouter_pipe/recordings/a.jsonl), 3 bytes"
    assert link in await host.ask("record")
    stopped = await host.ask("record stop")
    assert (commands.NOT_RECORDING in stopped, link in stopped) == (True, True)
    assert recordings.running(time.time()) is None
    assert "There are no files" not in stopped
    await host.ask("record 1 now")
    assert recordings.files() == {}


async def test_bills_of_the_log_are_entered_once(host: Host) -> None:
    """Whatever stands before them; what is no bill is named, and what is there already stays."""
    bill = Bill(id="b1", user_id="ada", chat_id="c", accounts=("all",), cost=0.5, provider_cost=0.25)
    lines = [
        f"2026-11-28 04:23:20.824 | ERROR | store.bills:lose:115 - bill not written, the worker ends: {bill_json(each)}"
        for each in (replace(bill, estimated=True, cost=2.0), bill, replace(bill, id="b2"))
    ]
    first, second = f"enter bill {lines[0]}", "\n".join(["Enter bill", *lines[1:], "x {}"])
    database = Database(host.platform.engine, schema=host.platform.schema)
    ledger = SpendingLedger(database)
    assert await host.ask("enter bill") == commands.NO_BILLS
    for text, count, cost in ((first, 1, 2.0), (second, 2, 1.0)):
        asked = await host.ask(text)
        assert f"| bills | {count} |" in asked
        assert commands.TO_ENTER in asked
        before = await ledger.of_chat("ada", "c")
        assert before.cost != cost
        done = await host.ask(f"{text}\nnow")
        assert done.startswith("**Done: `enter bill`.**")
        assert (await ledger.of_chat("ada", "c")).cost == cost
        assert "there is nothing to do" in await host.ask(f"{text}\nnow")
        assert (await ledger.of_chat("ada", "c")).cost == cost
    assert commands.ENTERED_DOLLARS.format(1.0, 0.5) in asked
    assert commands.UNREADABLE_BILLS.format(count=1) in asked
    await database.aclose()


@pytest.mark.parametrize(("text", "command"), rows(TABLES, "questions"))
async def test_only_what_is_written_exactly_is_done(text: str, command: list[Any]) -> None:
    """Everything else asks for help."""
    name, source, kind, now = command
    assert read_command(text) == MaintenanceCommand(name, source, kind, now=now)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (["move old", "now"], "move old\nnow"),
        (["enter bill {}", "`Now`"], "enter bill {}\n`Now`"),
        (["uninstall", "help"], "help"),
        (["uninstall", "help", "now"], "help\nnow"),
        (["now"], "now"),
        ([], ""),
    ],
)
async def test_a_message_that_only_confirms_goes_with_the_one_before(said: list[str], expected: str) -> None:
    """Of the user's messages; so that lines of the log need not be written twice."""
    between = {"role": "assistant", "content": "uninstall"}
    messages = [each for text in said for each in ({"role": "user", "content": text}, between)]
    assert asked({"messages": messages}) == expected
    assert read_command("move old\nnow") == read_command("move old now")


async def test_nobody_but_an_administrator_is_answered() -> None:
    """A task of the host gets nothing, a user one line, and neither reaches the database."""
    body = {"messages": [{"role": "user", "content": "uninstall now"}]}
    assert await Pipe().pipe(body, {"role": "user"}) == commands.REFUSED
    assert await Pipe().pipe(body, None) == commands.REFUSED
    assert await Pipe().pipe(body, {"role": "admin"}, __task__="title_generation") == ""


@pytest.mark.parametrize("now", [True, False])
async def test_where_there_is_nothing_to_do_no_change_is_announced(now: bool) -> None:  # noqa: FBT001 - the case
    """A report that would change nothing neither says what it changes, nor how to do it."""
    command = MaintenanceCommand("uninstall", now=now)
    said = commands.report(command, {"chats": 0}, ["Presets stay."])
    assert said == "`uninstall`: there is nothing to do.\n\nPresets stay."


RENAMED = frozenset({"openrouter.openai/gpt-5.2", "openrouter.z-ai/glm-4.6:free"})
RENAMINGS = {
    "function": Renaming("old", "openrouter", RENAMED),
    "same pipe": Renaming("old", "openrouter", RENAMED, same_pipe=True),
    "connection": Renaming("", "openrouter", RENAMED, of_connection=True),
    "prefixed connection": Renaming("or", "openrouter", RENAMED, of_connection=True),
}
PLACES: dict[str, Callable[[Any, Any], Any]] = {
    "chat of ours": rename_ids,
    "another chat": rename_choice,
    "setting": rename_setting,
}


@pytest.mark.parametrize(("renaming", "old", "new"), rows(TABLES, "ids", RENAMINGS))
async def test_an_id_is_what_our_function_calls_the_model(
    renaming: Renaming, old: str, new: str | None
) -> None:
    """An id that our function does not offer stays."""
    assert renaming.new_id(old) == new


@pytest.mark.parametrize(("place", "value", "renamed"), rows(TABLES, "places"))
async def test_ids_are_renamed_where_ids_stand(place: str, value: Any, renamed: Any) -> None:
    """As Open WebUI keeps chats, default models, the order of models, and arenas."""
    assert PLACES[place](value, RENAMINGS["function"].new_id) == renamed
