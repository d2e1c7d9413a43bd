"""What the host's tables say of users, chats and prompts; whose artifacts chats name stands in `lookups.txt`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
import sqlalchemy as sa

from open_webui_openrouter_pipe.history.markers import REFERENCE_TYPE, item_id, leading_markers
from open_webui_openrouter_pipe.host.call import Call, read_call
from open_webui_openrouter_pipe.host.lookups import Records, chat_pauses, folded_answers, template_digest
from tests.host.tables import seen_inside, write_chat
from tests.host.test_documents import KNOWN as KNOWN_OF_DOCUMENTS
from tests.support.rows import rows

if TYPE_CHECKING:
    from scripts.harness.servers import PostgresServer

pytestmark = pytest.mark.live

NOW = 1_760_000_000
TIMES = {"milliseconds": NOW * 1000, "zero": 0, "null": None}
REFERENCES, TREE = (
    [row.values for row in rows(Path(__file__).with_name("lookups.txt"), name)]
    for name in ("References", "Tree")
)
ULIDS = {row[0]: item_id((NOW + number) * 10**9, number) for number, row in enumerate(REFERENCES)}


def call(chat_id: str, message_id: str = "", task: str | None = None) -> Call:
    metadata = {"chat_id": chat_id, "message_id": "answer", "user_message_id": message_id}
    return read_call({"model": "a/b", "messages": []}, user={"id": "ada"}, metadata=metadata, task=task)


async def look_for_artifacts() -> dict[str, Any]:
    """Who exists, and which chats name the artifacts; also, how SQLite finds the messages."""
    from open_webui.internal.db import async_engine

    for chat_id, owner, writer, place, *times in REFERENCES:
        created, updated = (TIMES[time] if isinstance(time, str) else NOW + time for time in times[:2])
        ulid = ULIDS[chat_id]
        text = leading_markers([ulid]) + "Ä" if place == "text" else ""
        output = [{"type": "reasoning", "reasoning_details": [{"type": REFERENCE_TYPE, "id": ulid}]}]
        message = {"content": text, "output": None if text else output, "user_id": writer}
        message |= {"created_at": created, "updated_at": updated}
        await write_chat(chat_id, [message], owner, archived=chat_id == "archived")
    records = Records(async_engine)
    ids = [*ULIDS.values()]
    plan = []
    if async_engine.dialect.name == "sqlite":
        statement = records._messages_with("0001", "ada", NOW)
        words = statement.compile(async_engine.sync_engine, compile_kwargs={"literal_binds": True})
        async with async_engine.connect() as connection:
            lines = await connection.execute(sa.text(f"EXPLAIN QUERY PLAN {words}"))
            plan = [str(line[-1]) for line in lines if "SCAN" in line[-1]]
    return {
        "users who exist": await records.existing_users(["eve", "ada", "bob"]),
        "chats that exist": await records.existing_chats(["clone", "archived", "deleted"]),
        "artifacts that ada's chats name": await records.naming_chats("ada", ids),
        "artifacts that eve's chats name": await records.naming_chats("eve", ids),
        "one artifact": await records.naming_chats("ada", [ULIDS["fork"]]),
        "no artifact": await records.naming_chats("ada", []),
        "what is read from end to end for it": plan,
    }


async def look_at_pauses() -> dict[str, Any]:
    """Those of two branches and of the first question, and of what is no saved chat."""
    from open_webui.internal import db

    await write_chat(
        "tree",
        (
            {"id": f"tree-{name}", "parent_id": parent, "role": role, "created_at": at, "updated_at": at}
            for name, parent, role, at in TREE
        ),
    )
    asked = [call("tree", name) for name in ("q3", "q2b", "q1", "")]
    asked += [call("tree", "q3", "title_generation"), call("temporary:1", "q3")]
    found = [await chat_pauses(each) for each in asked]
    with patch.object(db, "get_async_db_context", side_effect=sa.exc.OperationalError("", {}, OSError())):
        return {"pauses": found, "pauses that cannot be read": await chat_pauses(asked[0])}


async def look_at_folded_answers() -> dict[str, Any]:
    """The texts of answers without items: of chats that are saved and not, and where they cannot be read."""
    from open_webui.models.chats import Chats

    text = '<details type="tool_calls" id="c1">\n</details>'
    items = [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}]
    written = ({"content": text}, {"content": f"{text}!", "output": []}, {"content": text, "output": items})
    await write_chat("folded", [*written, {"role": "user", "content": f"{text}?"}])
    found = [await folded_answers(call(chat_id)) for chat_id in ("folded", "gone", "temporary:1", "")]
    with patch.object(Chats, "get_messages_map_by_chat_id", side_effect=RuntimeError):
        found.append(await folded_answers(call("folded")))
    return {"folded answers": [[each.replace(text, "text") for each in texts] for texts in found]}


async def look_at_templates() -> dict[str, Any]:
    """Digests of system prompts as they are edited, one after the other, each by the first like it."""
    from open_webui.models.config import Config
    from open_webui.models.models import ModelForm, ModelMeta, ModelParams, Models

    written = {"messages": [{"role": "system", "content": "{{CURRENT_TIME}}"}], "params": {"system": "Hi."}}

    async def digest(prompt: str = "10:00", **changes: Any) -> str:
        metadata = {"chat_context": {**written, **changes}, "model": {"id": "f.a/m"}}
        body = {"model": "f.a/m", "messages": [{"role": "system", "content": prompt}]}
        return await template_digest(read_call(body, user={}, metadata=metadata, task=None))

    def form(**params: Any) -> ModelForm:
        return ModelForm(id="f.a/m", name="M", meta=ModelMeta(), params=ModelParams(**params))

    found = [await digest()]
    await Models.insert_new_model(form(system="Be kind."), "admin")
    found += [await digest(), await digest("10:05")]
    await Models.update_model_by_id("f.a/m", form(system="Be kind.", temperature=1))
    found.append(await digest())
    await Models.update_model_by_id("f.a/m", form(system="Be cruel."))
    found += [await digest(), await digest(params={})]
    await Config.upsert({"models.default_params": {"system": "Be all."}})
    found.append(await digest(params={}))
    await Config.upsert({"models.default_params": {}})
    with patch.object(Models, "get_model_by_id", side_effect=RuntimeError):
        return {"templates": [*map(found.index, found)], "an unknown template": await digest()}


async def look() -> dict[str, Any]:
    return {
        **await look_for_artifacts(),
        **await look_at_pauses(),
        **await look_at_folded_answers(),
        **await look_at_templates(),
    }


def named_by(user_id: str) -> dict[str, str]:
    return {ULIDS[row[0]]: row[0] for row in REFERENCES if row[-1] == user_id}


NOTHING: frozenset[str] = frozenset()
KNOWN: dict[str, Any] = {
    "users who exist": {"ada", "eve"},
    "chats that exist": {"clone", "archived"},
    "artifacts that ada's chats name": named_by("ada"),
    "artifacts that eve's chats name": named_by("eve"),
    "one artifact": {ULIDS["fork"]: "fork"},
    "no artifact": {},
    "what is read from end to end for it": [],
    "pauses": [[9_999_000, 1_000], [4_000], [], (), (), ()],
    "pauses that cannot be read": (),
    "folded answers": [["text", "text!"], [], [], [], []],
    "templates": [0, 1, 1, 1, 4, 5, 6],
    "an unknown template": "",
}


@pytest.mark.parametrize("asked", KNOWN)
def test_the_tables_say(seen: dict[str, Any], asked: str) -> None:
    """In the user's own chats alone, whoever wrote the messages and whenever; nothing raises."""
    assert seen[__name__][asked] == KNOWN[asked]


@pytest.mark.servers
def test_the_tables_say_the_same_in_a_schema_of_postgresql(
    tmp_path: Path, postgres_server: PostgresServer, postgres_schema: str
) -> None:
    """Of documents as well."""
    url = postgres_server.url.replace("postgresql:", "postgresql+psycopg:")
    variables = {"DATABASE_URL": url, "DATABASE_SCHEMA": postgres_schema}
    found = seen_inside(tmp_path, "test_lookups", "test_documents", **variables)
    assert found == {__name__: KNOWN, "tests.host.test_documents": KNOWN_OF_DOCUMENTS}
