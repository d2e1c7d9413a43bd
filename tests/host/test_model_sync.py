"""The rows of the offered models in the host's own tables, and when they are written."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from dataclasses import replace
from functools import partial
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe.host.model_rows import (
    AccessFor,
    ModelRows,
    ModelRowSettings,
    function_id,
    write_model_rows,
)
from open_webui_openrouter_pipe.ports import Model
from open_webui_openrouter_pipe.store.beside import Leases
from open_webui_openrouter_pipe.store.database import Database
from scripts.harness.database import open_database
from tests.support.inside import inside_open_webui

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence
    from pathlib import Path

FUNCTION = "openrouter"
MODELS = [
    Model(
        id=f"maker{number % 40}/m{number}",
        name=f"Maker {number % 40}: M {number}",
        context_tokens=200_000,
        input_modalities=frozenset({"text", "image"}),
        output_modalities=frozenset({"text"}),
        supported_parameters=frozenset({"tools"}),
        price_input=0.000001,
        price_output=0.000002,
        description="Writes.",
    )
    for number in range(700)
]
FEW = MODELS[:3]
GROUPS = ("A", "B b")
EVERYBODY = ("user", "*", "read")


def settings(*access: str, access_for: AccessFor = "new", sync_info: bool = True) -> ModelRowSettings:
    return ModelRowSettings(sync_info, access or ("private",), access_for)


def ids_of(function: str) -> list[str]:
    return [f"{function}.{model.id}" for model in MODELS]


def variables_of(folder: Path) -> dict[str, str]:
    return {"FROM_INIT_PY": "true", "STATIC_DIR": str(folder / "static")}


# --- in the host


class Statements(Counter[str]):
    """How many statements of each kind the host's database gets."""

    def __init__(self) -> None:
        import open_webui.config  # noqa: F401 - makes the tables
        import sqlalchemy as sa
        from open_webui.internal.db import async_engine

        super().__init__()
        sa.event.listen(async_engine.sync_engine, "before_cursor_execute", self._count)

    def _count(self, connection: object, cursor: object, statement: str, *_: object) -> None:
        self[statement.split(maxsplit=1)[0]] += 1

    def taken(self) -> dict[str, int]:
        """Those since the last time."""
        taken = dict(self)
        self.clear()
        return taken


async def grants_of(row_ids: Sequence[str]) -> list[set[tuple[str, str, str]]]:
    from open_webui.models.access_grants import AccessGrants

    found = await AccessGrants.get_grants_by_resources("model", list(row_ids))
    return [
        {(each.principal_type, each.principal_id, each.permission) for each in found[row_id]}
        for row_id in row_ids
    ]


async def row_of(row_id: str) -> dict[str, Any]:
    from open_webui.models.models import Models

    row = await Models.get_model_by_id(row_id)
    assert row is not None
    return dict(row.model_dump())


async def edit(row_id: str, **changes: Any) -> None:
    """Save a row as the host's editor does."""
    from open_webui.models.models import ModelForm, Models

    content = {**await row_of(row_id), **changes, "access_grants": None}
    await Models.update_model_by_id(row_id, ModelForm.model_validate(content))


async def install(function: str) -> None:
    """A function of an administrator."""
    from open_webui.models.functions import FunctionForm, FunctionMeta, Functions

    form = FunctionForm(id=function, name="OpenRouter", content="pass", meta=FunctionMeta())
    await Functions.insert_new_function("the admin", "pipe", form)


async def look_at_many(statements: Statements, function: str) -> list[Any]:
    """Seven hundred models: the statements of the first pass and of the second, and a row."""
    first = await write_model_rows(function, MODELS, settings())
    writes = statements.taken()
    second = await write_model_rows(function, MODELS, settings())
    return [dict(first), writes, dict(second), statements.taken(), await row_of(ids_of(function)[0])]


async def look_at_edited(statements: Statements, function: str) -> list[Any]:
    """Rows that an administrator has edited, hidden or disabled, and a catalogue that has changed since."""
    from open_webui.models.models import Models

    ids = ids_of(function)
    await write_model_rows(function, MODELS[:20], settings())
    meta = (await row_of(ids[0]))["meta"]
    await edit(ids[0], name="Ours", meta={**meta, "description": "Ask Ada.", "toolIds": ["calculator"]})
    await edit(ids[1], params={"temperature": 0.1}, meta={**(await row_of(ids[1]))["meta"], "hidden": True})
    await Models.toggle_model_by_id(ids[2])
    statements.clear()
    again = await write_model_rows(function, MODELS[:20], settings())
    unchanged = (dict(+Counter(again)), statements.taken())
    cheaper = [replace(model, price_input=0.0, price_output=0.0) for model in MODELS[:3]]
    updated = await write_model_rows(function, [*cheaper, *MODELS[3:10]], settings())
    writes = statements.taken()
    count = sum(row.id.startswith(f"{function}.") for row in await Models.get_base_models())
    return [unchanged, dict(updated), writes, [await row_of(row_id) for row_id in ids[:3]], count]


async def look_at_access(statements: Statements, function: str) -> dict[str, Any]:
    """New models with each access; then all of them, after an administrator has opened one to a single user."""
    from open_webui.models.access_grants import AccessGrants
    from open_webui.models.groups import GroupForm, Groups

    groups = [await Groups.insert_new_group("admin", GroupForm(name=name, description="")) for name in GROUPS]
    seen: dict[str, Any] = {"groups": [group.id for group in groups if group]}
    ids, write = ids_of(function), partial(write_model_rows, function)
    await write(MODELS[0:1], settings())
    await write(MODELS[0:2], settings("public"))
    await write(MODELS[0:3], settings(*GROUPS, "nobody"))
    await write(MODELS[0:4], settings("nobody"))
    await write(MODELS[0:5], settings("public", sync_info=False))
    await write(MODELS[0:6], settings(sync_info=False))
    seen["new"] = await grants_of(ids[:6])
    seen["bare"] = (await row_of(ids[4]))["meta"]["description"]
    own = {"principal_type": "user", "principal_id": "ada", "permission": "read"}
    await AccessGrants.set_access_grants("model", ids[0], [own])
    await write(MODELS[0:5], settings("public"))
    seen["edited"] = await grants_of(ids[:1])
    seen["opened"] = dict(await write(MODELS[0:5], settings("public", access_for="all")))
    seen["open"] = await grants_of(ids[:5])
    statements.clear()
    await write(MODELS[0:5], settings("public", access_for="all"))
    seen["again"] = statements.taken()
    await write(MODELS[0:5], settings(access_for="all"))
    seen["closed"] = await grants_of(ids[:5])
    return seen


async def look_at_creation(_: Statements, function: str) -> list[Any]:
    """One of the rows is created by somebody else at that very moment; another id belongs to a workspace's model."""
    from open_webui.models.functions import Functions
    from open_webui.models.models import ModelForm, ModelMeta, ModelParams, Models

    ids, find = ids_of(function), Functions.get_function_by_id
    preset = {
        "id": ids[3],
        "base_model_id": "x",
        "name": "Preset",
        "meta": ModelMeta(),
        "params": ModelParams(),
    }
    await Models.insert_new_model(ModelForm(**preset), "admin")

    async def find_late(function_id: str) -> Any:
        Functions.get_function_by_id = find
        other = {**preset, "id": ids[1], "base_model_id": None, "name": "Saved"}
        await Models.insert_new_model(ModelForm(**other), "admin")
        return await find(function_id)

    Functions.get_function_by_id = find_late
    passes = [dict(await write_model_rows(function, MODELS[:4], settings("public"))) for _ in range(2)]
    await write_model_rows(function, MODELS[:4], settings("public", access_for="all"))
    return [passes, [(await row_of(row_id))["name"] for row_id in ids[:4]], await grants_of(ids[:4])]


async def look_at_unversioned(_: Statements, function: str) -> Any:
    """A row that is created in an Open WebUI that keeps no versions of rows."""
    name = "open_webui.models.model_history"
    history, sys.modules[name] = sys.modules[name], None  # type: ignore[assignment]
    try:
        await write_model_rows(function, FEW, settings("public"))
    finally:
        sys.modules[name] = history
    return await row_of(ids_of(function)[0])


async def look_at_two_workers(statements: Statements, function: str) -> Any:
    """Two workers with the same offer on one database; the one that comes too late tries again a minute later."""
    created: list[int] = []

    async def work(database: Database) -> None:
        seconds, passes, tasks = [0.0], [], []

        async def write(*arguments: Any) -> Any:
            passes.append(await write_model_rows(*arguments))
            return passes[-1]

        def start(work: Coroutine[Any, Any, None]) -> None:
            tasks.append(asyncio.create_task(work))

        rows = ModelRows(Leases(database), start, lambda: seconds[0], write)
        while not passes:
            rows.offer(function, MODELS[:60], settings("public"), listing=1)
            await asyncio.gather(*tasks)
            seconds[0] += 60
        created.append(passes[0].get("created", 0))

    with TemporaryDirectory() as folder:
        databases = [open_database(f"sqlite:///{folder}/store.db") for _ in range(2)]
        await asyncio.gather(*map(work, databases))
        for database in databases:
            await database.aclose()
    return [created, statements.taken()]


async def look_at_conflict(_: Statements, function: str) -> list[Any]:
    """An administrator saves a row at the very moment in which it is being updated."""
    import sqlalchemy as sa
    from open_webui.models.models import Model as Row
    from open_webui.models.models import Models

    ids = ids_of(function)
    await write_model_rows(function, FEW, settings())
    write = Models._write_model

    async def write_late(session: Any, form: Any, user_id: str, current: Any = None, *rest: Any) -> Any:
        if form.id == ids[0]:
            saving = sa.update(Row).filter_by(id=ids[0]).values(version_id="another", name="Saved")
            await session.execute(saving.execution_options(synchronize_session=False))
        return await write(session, form, user_id, current, *rest)

    Models._write_model = write_late
    updated = await write_model_rows(function, [replace(model, name="New") for model in FEW], settings())
    return [dict(updated), [(await row_of(row_id))["name"] for row_id in ids[:3]]]


def visit(*functions: str) -> dict[str, Any]:
    """What each of these functions has seen, by its name; every one has rows of its own."""

    async def look() -> dict[str, Any]:
        statements, seen = Statements(), {}
        for name in functions:
            await install(name)
            statements.clear()
            seen[name] = await globals()[name](statements, name)
        return seen

    return asyncio.run(look())


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What was seen in an Open WebUI of these tests."""
    folder = tmp_path_factory.mktemp("host")
    names = [name for name in globals() if name.startswith("look_at_")]
    return inside_open_webui(folder, variables_of(folder), visit, *names)


@pytest.mark.live
def test_seven_hundred_models_are_written_once(seen: dict[str, Any]) -> None:
    """The second pass reads all rows in one query, and writes nothing."""
    first, writes, second, statements, row = seen["look_at_many"]
    assert first == {"created": 700}
    assert writes == {"SELECT": 3, "INSERT": 2 * 700 / 50}  # fifty rows at once, and their first versions
    assert (+Counter(second), statements) == (Counter(), {"SELECT": 2})
    assert (row["user_id"], row["name"], row["access_grants"]) == ("the admin", "Maker 0: M 0", [])
    assert row["meta"]["profile_image_url"].startswith("data:image/png;base64,")
    assert row["meta"]["description"].startswith("Context: 200,000 tokens.")
    assert row["meta"]["capabilities"]["vision"] is True


@pytest.mark.live
def test_an_edited_row_stays(seen: dict[str, Any]) -> None:
    """Only what nobody has edited follows the catalogue; rows of models that are gone stay where they are."""
    unchanged, updated, writes, (named, hidden, disabled), count = seen["look_at_edited"]
    assert unchanged == ({}, {"SELECT": 2})
    assert +Counter(updated) == {"updated": 3}
    assert (writes["INSERT"], writes["UPDATE"]) == (3, 3)  # a version of each row, and the row
    assert "DELETE" not in writes
    assert (named["name"], named["meta"]["description"]) == ("Ours", "Ask Ada.")
    assert named["meta"]["toolIds"] == ["calculator"]
    assert {"name": "free"} in named["meta"]["tags"]
    assert hidden["meta"]["hidden"] is True
    assert hidden["params"]["temperature"] == 0.1
    assert hidden["meta"]["description"].startswith("Context: 200,000 tokens. Free.")
    assert (disabled["is_active"], named["is_active"]) == (False, True)
    assert count == 20


@pytest.mark.live
def test_access_of_new_models_and_of_all(seen: dict[str, Any]) -> None:
    """Set once for a new one; for all only where that is chosen; a group that does not exist opens nothing."""
    access = seen["look_at_access"]
    of_groups = {("group", group_id, "read") for group_id in access["groups"]}
    assert access["new"][:5] == [set(), {EVERYBODY}, of_groups, set(), {EVERYBODY}]
    assert access["bare"] is None
    assert access["edited"] == [{("user", "ada", "read")}]
    assert access["opened"]["access"] == 3
    assert access["open"] == [{EVERYBODY}] * 5
    assert access["again"] == {"SELECT": 3}
    assert access["closed"] == [set()] * 5


@pytest.mark.live
def test_a_row_that_somebody_else_creates_is_theirs(seen: dict[str, Any]) -> None:
    """What was to be created with it is created by the next pass; a workspace's own model is not touched."""
    passes, names, grants = seen["look_at_creation"]
    assert [+Counter(each) for each in passes] == [{}, {"created": 2, "updated": 1}]
    assert names == ["Maker 0: M 0", "Saved", "Maker 2: M 2", "Preset"]
    assert grants == [{EVERYBODY}] * 3 + [set()]


@pytest.mark.live
def test_rows_without_versions(seen: dict[str, Any]) -> None:
    """They are created all the same."""
    row = seen["look_at_unversioned"]
    assert (row["name"], row["version_id"]) == ("Maker 0: M 0", None)
    assert row["meta"]["capabilities"]["vision"] is True


@pytest.mark.live
def test_somebody_elses_edit_at_the_same_moment_wins(seen: dict[str, Any]) -> None:
    """The host refuses ours with a conflict, and the other rows are written all the same."""
    updated, names = seen["look_at_conflict"]
    assert updated["updated"] == 2
    assert names[1:] == ["New", "New"]
    assert names[0] != "New"


@pytest.mark.live
def test_two_workers_at_once_write_once(seen: dict[str, Any]) -> None:
    """One of them writes all rows; the other waits for its turn, and then finds nothing to write."""
    created, statements = seen["look_at_two_workers"]
    assert sorted(created) == [0, 60]
    assert statements["INSERT"] == 3 * 2  # rows, versions and grants, fifty at once


# --- when they are written


class FakeClaims:
    """A claim that this worker gets, or another one has."""

    def __init__(self) -> None:
        self.free = True
        self.calls: list[str] = []

    async def take(self, name: str, seconds: float) -> bool:
        self.calls.append("take")
        return self.free

    async def release(self, name: str) -> None:
        self.calls.append("release")


class Worker:
    """One worker's passes, of which it keeps what was written; `seconds` is its clock."""

    def __init__(self) -> None:
        self.claims = FakeClaims()
        self.seconds = 0.0
        self.passes: list[tuple[str, int, ModelRowSettings]] = []
        self.error: Exception | None = None
        self._tasks: list[Coroutine[Any, Any, None]] = []
        self._rows = ModelRows(self.claims, self._tasks.append, lambda: self.seconds, self._write)

    async def offer(
        self, models: Sequence[Model] = FEW, *, access: str = "private", listing: int = 1, by: str = FUNCTION
    ) -> int:
        """Offer models, wait for the pass if there is one, and return how many there have been."""
        self._rows.offer(by, list(models), settings(access), listing=listing)
        while self._tasks:
            await self._tasks.pop()
        return len(self.passes)

    async def _write(self, by: str, models: Sequence[Model], settings: ModelRowSettings) -> Any:
        self.passes.append((by, len(models), settings))
        if self.error:
            raise self.error
        return {}


@pytest.mark.anyio
async def test_an_offer_is_written_once() -> None:
    """Another pass comes with another list, other models, other settings, or another function."""
    worker = Worker()
    assert [await worker.offer(), await worker.offer()] == [1, 1]
    assert await worker.offer(listing=2) == 2
    assert await worker.offer(MODELS[:2], listing=2) == 3
    assert await worker.offer(MODELS[:2], access="public", listing=2) == 4
    assert await worker.offer(MODELS[:2], access="public", listing=2, by="another") == 5
    assert await worker.offer(MODELS[:2], access="public", listing=2) == 5
    assert worker.passes[-1] == ("another", 2, settings("public"))
    assert worker.claims.calls == ["take", "release"] * 5


@pytest.mark.anyio
async def test_while_another_worker_writes_nothing_is_done() -> None:
    """It is tried again after a minute, by the next listing."""
    worker = Worker()
    worker.claims.free = False
    assert await worker.offer() == 0
    worker.claims.free = True
    worker.seconds = 59
    assert await worker.offer() == 0
    worker.seconds = 60
    assert [await worker.offer(), await worker.offer()] == [1, 1]
    assert worker.claims.calls == ["take", "take", "release"]


@pytest.mark.anyio
async def test_after_an_error_it_is_tried_again() -> None:
    """The claim is given back, a later listing tries again, and a success ends the waiting."""
    worker = Worker()
    worker.error = OSError("the database is away")
    assert [await worker.offer(), await worker.offer()] == [1, 1]
    worker.error, worker.seconds = None, 60
    assert await worker.offer() == 2
    assert await worker.offer(listing=2) == 3
    assert worker.claims.calls == ["take", "release"] * 3


def test_the_functions_id_is_that_of_the_loaded_object(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two functions with the same code each finds its own; a replaced one and one without a host find none."""
    first, second, replaced = object(), object(), object()
    assert function_id(first) is None
    loaded = SimpleNamespace(app=SimpleNamespace(state=SimpleNamespace(FUNCTIONS={"a": first, "b": second})))
    monkeypatch.setitem(sys.modules, "open_webui.main", loaded)
    assert [function_id(each) for each in (first, second, replaced)] == ["a", "b", None]
