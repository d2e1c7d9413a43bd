"""What is installed into the host, and what is left of it there: nothing, once it is removed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe.history.markers import ANSWER_MARK
from open_webui_openrouter_pipe.host.model_rows import ModelRowSettings, write_model_rows
from open_webui_openrouter_pipe.host.platform import platform
from open_webui_openrouter_pipe.host.switches import SWITCHES, switched_on
from open_webui_openrouter_pipe.maintenance.commands import read_command
from open_webui_openrouter_pipe.maintenance.pipe import answer
from open_webui_openrouter_pipe.responses.tools import SERVER_TOOLS
from open_webui_openrouter_pipe.store.database import Database
from scripts.bundle import builder
from tests.host.tables import write_chat
from tests.host.test_model_rows import MODEL
from tests.support.host_source import is_older

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MANIFEST = {"author": builder.AUTHOR, "title": builder.PIPE.title}
SHORTCUTS = [each.id for each in SWITCHES]
AT_LEAST = [each.id for each in SWITCHES if not each.needs]


def told(seen: dict[str, Any], name: str) -> Any:
    return seen[__name__][name]


def test_everything_installed_is_removed(seen: dict[str, Any]) -> None:
    """Every table of the host has the same rows as before, and no table of ours is left."""
    assert told(seen, "changed while it was installed") >= {
        *("access_grant", "function", "model", "prompt", "user", "chat_message", "chat"),
        *("openrouter_pipe_artifact", "openrouter_pipe_ledger"),
        *(() if is_older() else ("model_history",)),
    }
    assert told(seen, "changed after its removal") == {}


def test_what_is_installed_is_said_once(seen: dict[str, Any]) -> None:
    """As it is done; somebody else's prompt has the name of one command."""
    lines = told(seen, "report").splitlines()
    assert f"| switches beside the message field | {len(SWITCHES)} |" in lines
    assert lines[-3:-2] == ["Somebody else has these under the same name, and they stay: `/help`."]
    assert "there is nothing to do" in told(seen, "again")


def test_rows_name_the_switches_that_change_something(seen: dict[str, Any]) -> None:
    """Those that were there, a preset on top of one, and new ones; one that neither thinks nor calls is let search."""
    assert told(seen, "switches of rows") == {
        "preset-of-ours": SHORTCUTS,
        "ours.a/thinks": SHORTCUTS,
        "ours.a/plain": AT_LEAST,
        "ours.b/new": SHORTCUTS,
        "ours.b/new-plain": AT_LEAST,
    }


@pytest.mark.parametrize("switch", SWITCHES, ids=lambda switch: switch.name)
def test_a_filter_notes_the_valve_that_its_switch_stands_for(seen: dict[str, Any], switch: Any) -> None:
    """In the host's own loader it is a toggle with an icon; beside others, whatever a caller wrote before.

    A preset that goes over to a connection, which would pass on a field of ours, sends none.
    """
    is_toggle, icon, *bodies, of_connection, unknown = told(seen, "filters")[switch.id]
    assert (is_toggle, icon.startswith("data:image/svg+xml,%3Csvg ")) == (True, True)
    noted = {switch.key: switch.value}
    assert bodies == [{"openrouter_pipe": noted}, {"openrouter_pipe": {"x": 1, **noted}}]
    assert [switched_on(body["openrouter_pipe"]) for body in bodies] == [(switch,), (switch,)]
    assert of_connection == unknown == {}


@pytest.mark.parametrize("given", ["yes", None, {"WEB_SEARCH": "off"}, {"API_KEY": "x"}, {"WEB_SEARCH": []}])
def test_nothing_else_can_be_chosen(given: Any) -> None:
    """A caller may write anything into a body."""
    assert switched_on(given) == ()


# --- in the host


async def dump() -> dict[str, list[str]]:
    """All rows of all tables, as texts; JSON is compared by what it says."""
    import sqlalchemy as sa
    from open_webui.internal.db import async_engine

    def text(value: Any) -> str:
        try:
            return json.dumps(json.loads(value), sort_keys=True)
        except (TypeError, ValueError):
            return repr(value)

    def read(connection: sa.Connection) -> dict[str, list[str]]:
        names = sa.inspect(connection).get_table_names()
        tables = {name: connection.execute(sa.text(f'SELECT * FROM "{name}"')) for name in names}
        return {name: sorted(", ".join(map(text, row)) for row in rows) for name, rows in tables.items()}

    async with async_engine.connect() as connection:
        found: dict[str, list[str]] = await connection.run_sync(read)
    return found


class AllowsAll:
    """A running pipe whose administrator lets users switch on all tools."""

    async def changed_settings(self) -> tuple[dict[str, str], list[str]]:
        return {"SERVER_TOOLS": ", ".join(SERVER_TOOLS)}, []


async def ask(text: str) -> str:
    async def load(_: str) -> AllowsAll:
        return AllowsAll()

    return await answer(read_command(text), platform(), ["ours.a/thinks"], load=load)


async def write(*ids: str) -> None:
    """A pass over models of these ids; the plain ones do not think, and call no tools."""
    plain = {"reasons": False, "supported_parameters": frozenset({"temperature"})}
    models = [replace(MODEL, id=name, **(plain if "plain" in name else {"reasons": True})) for name in ids]
    await write_model_rows("ours", models, ModelRowSettings(access=("public",)))


async def mark(prefix: str, suffix: str) -> None:
    """Give a chat's answers what ours have around their words."""
    import sqlalchemy as sa
    from open_webui.internal.db import async_engine
    from open_webui.models.chat_messages import ChatMessage
    from open_webui.models.chats import Chat

    text = f"{prefix}Said.{suffix}"
    message = {"role": "assistant", "model": "ours.a/thinks", "content": text}
    output = [{"type": "message", "content": [{"type": "output_text", "text": text}]}]
    async with async_engine.begin() as connection:
        chat = {"history": {"messages": {"0": message}}}
        await connection.execute(sa.update(Chat).where(Chat.id == "talk").values(chat=chat))
        changed = sa.update(ChatMessage).where(ChatMessage.chat_id == "talk")
        await connection.execute(changed.values(content=text, output=output))


async def prepare() -> None:
    """What people have of their own, and a chat whose answers hold nothing of ours yet."""
    from open_webui.models.functions import Functions
    from open_webui.models.models import ModelForm, ModelMeta, ModelParams, Models
    from open_webui.models.prompts import PromptForm, Prompts

    await Prompts.insert_new_prompt("root", PromptForm(command="help", name="Theirs", content="Help."))
    fields = {"id": "preset-of-ours", "name": "P", "base_model_id": "ours.a/thinks"}
    await Models.insert_new_model(ModelForm(**fields, meta=ModelMeta(), params=ModelParams()), "root")
    for _ in range(2):  # the host's own form of a user's settings comes with the second change
        await Functions.update_user_valves_by_id_and_user_id("theirs", "eve", {"x": 1})
    await write_chat("talk", [{"model_id": "ours.a/thinks"}])
    await mark("", "")


async def switches_of_rows() -> dict[str, list[str]]:
    from open_webui.models.models import Models

    rows = [*await Models.get_base_models(), *await Models.get_models()]
    return {
        row.id: ids for row in rows if (ids := (row.meta.model_dump() if row.meta else {}).get("filterIds"))
    }


async def filters() -> dict[str, list[Any]]:
    """What the host's loader makes of them, and what they make of bodies."""
    from open_webui.utils.plugin import load_function_module_by_id

    found = {}
    for name in SHORTCUTS:
        module = (await load_function_module_by_id(name))[0]
        bodies = [
            module.inlet(body, {"pipe": {"type": "pipe"}})
            for body in ({"openrouter_pipe": "x"}, {"openrouter_pipe": {"x": 1}})
        ]
        bodies += [module.inlet({}, {"id": "gpt"}), module.inlet({})]
        found[name] = [module.toggle, module.icon, *bodies]
    return found


async def look() -> dict[str, Any]:
    import sqlalchemy as sa
    from open_webui.models.functions import FunctionForm, FunctionMeta, Functions

    await prepare()
    before = await dump()
    form = FunctionForm(id="ours", name="OpenRouter", content="pass", meta=FunctionMeta(manifest=MANIFEST))
    await Functions.insert_new_function("root", "pipe", form)
    await Functions.update_function_by_id("ours", {"is_active": True})
    database = Database(platform().engine, schema=None)
    await database.fetch(sa.select(database.tables.artifact.c.id))
    await Functions.update_user_valves_by_id_and_user_id("ours", "eve", {"COST_LINE": "cost"})
    await mark(ANSWER_MARK, "\n\n[01AAAAAAAA0123456789]: #\n")
    await write("a/thinks", "a/plain")
    report = await ask("install now")
    await write("a/thinks", "a/plain", "b/new", "b/new-plain")
    seen = {
        "report": report,
        "again": await ask("install now"),
        "switches of rows": await switches_of_rows(),
        "filters": await filters(),
    }
    installed = await dump()
    await Functions.update_function_by_id("ours", {"is_active": False})
    await ask("uninstall now")
    await Functions.delete_function_by_id("ours")
    return {
        **seen,
        "changed while it was installed": {name for name in installed if installed[name] != before.get(name)},
        "changed after its removal": differences(before, await dump()),
    }


def differences(
    before: Mapping[str, Sequence[str]], after: Mapping[str, Sequence[str]]
) -> dict[str, list[str]]:
    """Rows that are in one of the two alone, by their table."""
    found = {
        name: sorted({*before.get(name, ["no table"])} ^ {*after.get(name, ["no table"])})
        for name in before.keys() | after.keys()
    }
    return {name: rows for name, rows in found.items() if rows}
