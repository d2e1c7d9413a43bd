"""What each release stores and reads, kept as data that nothing changes: `tests/data/releases/VERSION`.

Of each: its tables in both databases, rows that it has sealed and what they open to, answers that name artifacts, its
valves, what Open WebUI keeps of ours, and an update that it has signed. `python -m tests.golden --release` writes the
folder of the version that the package has, and prints its digest for `DIGESTS`.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from dataclasses import asdict
from datetime import UTC, date
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, get_args, get_origin

import sqlalchemy as sa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy.dialects import postgresql, sqlite

from open_webui_openrouter_pipe import __version__
from open_webui_openrouter_pipe.creation.video import read_stored_job, stored_job
from open_webui_openrouter_pipe.history.markers import (
    ANSWER_MARK,
    Reference,
    fleeting,
    item_id,
    leading_markers,
    name_call,
    standalone_markers,
    write_reference,
)
from open_webui_openrouter_pipe.host.model_rows import WRITTEN, RowInfo, model_fields, updated_row
from open_webui_openrouter_pipe.host.switches import AUTHOR, CHOSEN, SWITCHES
from open_webui_openrouter_pipe.maintenance import shortcuts
from open_webui_openrouter_pipe.maintenance.pipe import MaintenanceValves
from open_webui_openrouter_pipe.maintenance.updates import signed_text
from open_webui_openrouter_pipe.money.audit import Bill, read_bill
from open_webui_openrouter_pipe.money.limits import AccountLimit, Limit
from open_webui_openrouter_pipe.ports import Artifact, RequestOrigin
from open_webui_openrouter_pipe.responses.items import ITEM_KINDS
from open_webui_openrouter_pipe.store.artifacts import SealedArtifacts
from open_webui_openrouter_pipe.store.kept import SealedPrompts, SealedSummaries
from open_webui_openrouter_pipe.store.ledger import SpendingLedger
from open_webui_openrouter_pipe.store.schema import define_tables
from open_webui_openrouter_pipe.store.sealing import Keyring
from open_webui_openrouter_pipe.store.table import SqlRows
from open_webui_openrouter_pipe.store.tokens import StoredCalibrations
from open_webui_openrouter_pipe.valves import OWN_KEY_PURPOSE, Advanced, UserValves, Valves, text_of
from scripts.harness.database import open_database
from scripts.paths import ROOT
from tests.golden import seals, subjects
from tests.golden.cases import as_json
from tests.golden.network import Network, called, thought
from tests.host.test_model_rows import MODEL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

    from open_webui_openrouter_pipe.store.database import Database

    Json = dict[str, Any]

FOLDER = ROOT / "tests" / "data" / "releases"
DIGESTS = {
    "1.0.0": "4ebc3ffa1eb375a619b2f44696e168a01949d1cc68a42c0b0a6c2e6405972249",
}
"""By version, of all that its folder holds: who changes a released file changes what people have stored."""

DIALECTS: Mapping[str, Callable[[], sa.Dialect]] = {
    "sqlite": sqlite.dialect,
    "postgresql": postgresql.dialect,
}
WRITER = "openai/gpt-5.2"
PASSPHRASE = "correct horse battery staple"
_ARTIFACT = "openrouter_pipe_artifact"


def digest(folder: Path) -> str:
    """Of the names and contents of a folder's files."""
    found = sha256()
    for path in sorted(folder.iterdir()):
        found.update(f"{path.name}\0".encode() + path.read_bytes() + b"\0")
    return found.hexdigest()


def read(version: str, name: str) -> Any:
    """What one of a release's files holds."""
    text = (FOLDER / version / name).read_text("utf-8")
    return json.loads(text) if name.endswith(".json") else text


def write() -> None:
    """Write the folder of this version."""
    folder = FOLDER / __version__
    folder.mkdir(parents=True, exist_ok=True)
    files: Json = {f"{name}.sql": tables(name) for name in DIALECTS}
    rows, opened = subjects.run(_stored, days_later=0)
    files |= {"rows.json": rows, "opened.json": opened, "answers.json": subjects.run(_answers)}
    files |= {
        "valves.json": valves(),
        "settings.json": settings(),
        "host.json": host(),
        "update.json": update(),
    }
    for name, value in files.items():
        (folder / name).write_text(value if isinstance(value, str) else as_json(value) + "\n", "utf-8")
    print(f"{__version__}: {digest(folder)}")  # noqa: T201


# --- tables


def tables(dialect: str) -> str:
    """The statements that make the tables and their indexes in an empty database."""
    found = []
    for table in define_tables(None).version.metadata.sorted_tables:
        indexes = sorted(table.indexes, key=lambda index: str(index.name))
        made: list[Any] = [sa.schema.CreateTable(table), *map(sa.schema.CreateIndex, indexes)]
        found += [str(each.compile(dialect=DIALECTS[dialect]())).strip() for each in made]
    return "".join(f"{statement};\n" for statement in found)


def lost_of_tables(old: str, new: str) -> Iterator[str]:
    """What of a release's tables is gone or changed, or was added so that it cannot be added to a table with rows."""
    made = {statement.partition(" (\n")[0]: statement for statement in new.split(";\n")}
    for statement in filter(None, old.split(";\n")):
        name = statement.partition(" (\n")[0]
        before, after = _lines(statement), _lines(made.get(name, ""))
        yield from (f"{name}: {line}" for line in before if line not in after)
        yield from (f"{name}: {line}" for line in after if line not in before and " DEFAULT " not in line)


def _lines(statement: str) -> list[str]:
    return [line.strip().rstrip(",") for line in statement.splitlines()]


def restore(version: str, dialect: str, url: str) -> None:
    """Make a release's tables in an empty database, with its rows in them."""
    engine, metadata = sa.create_engine(url), sa.MetaData()
    with engine.begin() as connection:
        for statement in filter(None, read(version, f"{dialect}.sql").split(";\n")):
            connection.exec_driver_sql(statement)
        metadata.reflect(connection)
        for name, rows in read(version, "rows.json").items():
            table = metadata.tables[name]
            for row in rows:
                is_bytes = {each.name for each in table.c if isinstance(each.type, sa.LargeBinary)}
                values = {key: bytes.fromhex(row[key]) if key in is_bytes else row[key] for key in row}
                connection.execute(table.insert().values(values))
    engine.dispose()


# --- rows


def items() -> list[Json]:
    """An item of each kind that is ever stored, the first three as models write them."""
    samples: dict[Any, Any] = {str: "text", dict: {"a": 1}, list: [{"a": 1}], object: "text"}
    kinds = {
        name: kind
        for name, kind in ITEM_KINDS.items()
        if name not in {"message", "reasoning", "function_call"}
    }
    odd = [
        {"type": name, **{field: samples[of] for field, of in (kind.required or {}).items()}}
        for name, kind in kinds.items()
    ]
    unknown = {"type": "openrouter:not_yet_known", "id": "x", "kept": {"as": ["it", "is"]}}
    large = called("large", query="x" * 9_000)  # which is compressed
    return [thought("1"), called("1", query="ü"), large, *odd, unknown, stored_job("job", "bill", 0.5, 1)]


async def _stored() -> tuple[Json, Json]:
    """The rows of a database that has everything, and what they open to."""
    async with subjects.open_pipe(Network()) as opened:
        await seals._asked_of(opened, "plain", seals.MODEL, seals._messages("It is ten."))
        written: Json = {}
        item: Any
        for passphrases, kept in (
            ((), items()),
            ((PASSPHRASE,), [thought("2"), called("2", query="x" * 9_000)]),
        ):
            keyring = Keyring((subjects.SECRET,), passphrases=passphrases)
            store, artifacts = SealedArtifacts(SqlRows(opened.database), keyring), []
            for item in kept:
                ulid = item_id(len(written), 0) if written else fleeting(item_id(0, 0))
                artifact = Artifact(
                    ulid, "ada", "chat", "message", item["type"], WRITER, item, "OpenAI", "prompt", "before"
                )
                written[ulid] = [WRITER, "OpenAI", "prompt", "before", item]
                artifacts.append(artifact)
            await store.put(artifacts)
        bill = Bill(
            id=item_id(99, 0), user_id="ada", chat_id="plain", model=WRITER, cost=0.25, accounts=("all",)
        )
        await opened.app.worker.own.ledger.hold(
            bill, 0.5, [AccountLimit(Limit("all", "", "day", 9.0), "all")]
        )
        await opened.close()
        rows = _rows_of(opened.path)
        opened.database = open_database(f"sqlite:///{opened.path}")
        found = await opens(opened.database, rows)
        assert found["artifacts"] == written
    return rows, found


def _rows_of(path: Path) -> Json:
    engine, metadata = sa.create_engine(f"sqlite:///{path}"), sa.MetaData()
    with engine.connect() as connection:
        metadata.reflect(connection)
        found = {
            table.name: [
                {key: value.hex() if isinstance(value, bytes) else value for key, value in row.items()}
                for row in connection.execute(sa.select(table)).mappings()
            ]
            for table in metadata.sorted_tables
        }
    engine.dispose()
    return found


async def opens(database: Database, rows: Json) -> Json:
    """What these rows of a database are to who reads them."""
    keyring = Keyring((subjects.SECRET,), passphrases=(PASSPHRASE,))
    ids = [row["id"] for row in rows[_ARTIFACT]]
    loaded: Any = await SealedArtifacts(SqlRows(database), keyring).load("ada", ids)
    ends = [
        bytes.fromhex(row[end])
        for row in rows["openrouter_pipe_summary"]
        for end in ("start_chain", "end_chain")
    ]
    summaries = await SealedSummaries(database, keyring).find("ada", ends, chat_id="")
    prompts = SealedPrompts(database, keyring)
    ledger, calibrations = SpendingLedger(database), StoredCalibrations(database)
    origins = [
        RequestOrigin("ada", row["chat_id"], "", "", row["model"]) for row in rows["openrouter_pipe_prompt"]
    ]
    days = date(2026, 1, 1), date(2030, 1, 1)
    found = {
        "artifacts": {
            key: [each.model, each.provider, each.prompt, each.before, each.item]
            for key, each in loaded.items()
        },
        "jobs": [
            read_stored_job(each.item) for each in loaded.values() if each.kind == "openrouter_pipe.video_job"
        ],
        "summaries": {
            f"{segment.start.hex()} {segment.end.hex()} {segment.turns}": summary.as_json()
            for segment, summary in summaries.items()
        },
        "prompts": [asdict(cast("Any", await prompts.find(origin))) for origin in origins],
        "ledger": [
            asdict(await ledger.of_chat(row["user_id"], row["chat_id"]))
            for row in rows["openrouter_pipe_ledger"]
        ],
        "usage": sorted([*map(list, await ledger.usage(days, UTC, ""))]),
        "calibrations": {
            row["model"]: cast("Any", await calibrations.find(row["model"])).as_json()
            for row in rows["openrouter_pipe_calibration"]
        },
        "held": [asdict(cast("Any", read_bill(row["estimate"]))) for row in rows["openrouter_pipe_hold"]],
    }
    return cast("Json", json.loads(json.dumps(found)))


# --- answers


def answers() -> list[Json]:
    """Answers of the host's, with artifacts named in every way."""
    first, called_, third, searched, gone = (item_id(number, 0) for number in range(1, 6))
    references = (Reference(0, first), Reference(0, phase="commentary"), Reference(4, third))
    name = name_call(called_, "commentary")
    call = {"id": name, "type": "function", "function": {"name": "query", "arguments": "{}"}}
    first_text = f"{leading_markers([first])}Text.{standalone_markers([searched])}"
    return [
        {"content": f"{first_text}\n{leading_markers([third])}More."},
        {"content": "Text.\n\nMore.", "reasoning_details": [*map(write_reference, references)]},
        {"content": "Text.", "tool_calls": [call]},
        {"content": f"```\n{leading_markers([first])}```\nText."},
        {"content": f"{leading_markers([gone])}Of one that is gone."},
    ]


async def sent(answer: Json) -> list[Any]:
    """The input of a chat with this answer."""
    search = {"type": "web_search_call", "id": "ws_4", "status": "completed"}
    stored = [thought("1"), called("2", query="x"), thought("3"), search]
    kept = {item_id(number, 0): item for number, item in enumerate(stored, start=1)}
    calls = [each["id"] for each in answer.get("tool_calls", ())]
    results = [{"role": "tool", "tool_call_id": each, "content": "out"} for each in calls]
    user = {"role": "user", "content": "A?"}
    return await subjects.transformed([user, {"role": "assistant", **answer}, *results, user], kept)


async def _answers() -> list[Json]:
    return [{"answer": answer, "sent": await sent(answer)} for answer in answers()]


# --- valves


def valves() -> Json:
    """Type, limits and default of all valves, by function or user."""
    groups: Mapping[str, Sequence[type[BaseModel]]] = {
        "pipe": (Valves, Advanced),
        "user": (UserValves,),
        "maintenance": (MaintenanceValves,),
    }
    return {
        group: {name: _described(field) for model in models for name, field in model.model_fields.items()}
        for group, models in groups.items()
    }


def _described(field: FieldInfo) -> Json:
    """A choice by its choices, anything else by its type."""
    kind: Any = field.annotation
    limits = {
        name: getattr(each, name)
        for each in field.metadata
        for name in ("ge", "gt", "le")
        if hasattr(each, name)
    }
    taken = [*get_args(kind)] if get_origin(kind) is Literal else kind.__name__
    return {"takes": taken, "default": field.default, **({"limits": limits} if limits else {})}


def lost_of_valves(old: Json, new: Json, changes: str) -> Iterator[str]:
    """Which valves do not take what a release has stored, or have a default that `changes` does not tell of."""
    for group, name in [(group, name) for group, held in old.items() for name in held]:
        before, after = old[group][name], new[group].get(name)
        if after is None:
            yield f"{group} {name} is gone"
            continue
        if isinstance(before["takes"], list) and isinstance(after["takes"], list):
            yield from (
                f"{group} {name}: no {each}" for each in before["takes"] if each not in after["takes"]
            )
        elif before["takes"] != after["takes"]:
            yield f"{group} {name}: {before['takes']} is {after['takes']}"
        if _range(before) != _range(after) and not _within(_range(before), _range(after)):
            yield f"{group} {name}: not all of its range"
        if before["default"] != after["default"] and f"`{name}`" not in changes:
            yield f"{group} {name}: its default is another, and the changelog does not name it"


def _range(described: Json) -> tuple[tuple[float, bool], float]:
    limits = described.get("limits", {})
    low = limits.get("gt", limits.get("ge", float("-inf")))
    return (low, "gt" in limits), limits.get("le", float("inf"))


def _within(inner: tuple[tuple[float, bool], float], outer: tuple[tuple[float, bool], float]) -> bool:
    return inner[0] >= outer[0] and inner[1] <= outer[1]


def settings() -> Json:
    """What Open WebUI has stored of all valves, each other than by default."""
    stored = {
        group: {name: _other(model, name) for name in model.model_fields if name != "ADVANCED"}
        for group, model in (("pipe", Valves), ("advanced", Advanced), ("user", UserValves))
    }
    keys = [subjects.sealed_key("sk-or-own", owner) for owner in ("", "ada")]
    stored["user"]["API_KEY"] = keys[1]
    stored["pipe"]["ADVANCED"] = json.dumps(stored.pop("advanced"))
    return {**stored, "keys": keys}


_TEXTS = {
    "NEW_MODEL_ACCESS": "Staff",
    "USER_CONTROLS": "ZDR, API_KEY",
    "BASE_URL": "https://proxy.example/api/v1",
    "SERVER_TOOLS": "shell, advisor",
    "TIME_ZONE": "Europe/Berlin",
    "ARTIFACT_ENCRYPTION_KEY": PASSPHRASE,
    "API_KEY": "sk-or-v1-key",
    "HTTP_REFERER": "https://chat.example",
    "APP_TITLE": "Chat",
}


def _other(model: type[BaseModel], name: str) -> Any:
    """Another value than a valve's default."""
    field = model.model_fields[name]
    found = re.search(r"such as `([^`]+)`", text_of(model, name).help)
    described = _described(field)
    match described["takes"]:
        case [*choices]:
            return next(each for each in reversed(choices) if each != field.default)
        case "bool":
            return not field.default
        case "int" | "float":
            return min(field.default + 1, described.get("limits", {}).get("le", 1_000)) or 1
        case _:
            return _TEXTS.get(name) or (found[1] if found else name)


# --- what the host keeps, and updates


def host() -> Json:
    """A row of a model as we write it, what a switch notes, and by what ours is known for ours."""
    fields = {**model_fields(MODEL, {})}
    row = cast("RowInfo", updated_row(RowInfo("", {}), fields))
    return {
        "fields": fields,
        "row": {"name": row.name, "meta": row.meta},
        "switches": {each.id: {each.key: each.value} for each in SWITCHES},
        "names": [AUTHOR, WRITTEN, CHOSEN, shortcuts.MARK, OWN_KEY_PURPOSE, ANSWER_MARK],
    }


def update() -> Json:
    """A release as its key has signed it, which installed functions must go on to take."""
    key = Ed25519PrivateKey.generate()
    files = {name: f"{name}, as it is" for name in ("openrouter.py", "openrouter_maintenance.py")}
    digests = {name: sha256(text.encode()).hexdigest() for name, text in files.items()}
    release = {
        "version": __version__,
        "changelog": "- Ünique.",
        "files": {name: {"bytes": len(files[name]), "sha256": digests[name]} for name in files},
        "signature": b64encode(key.sign(signed_text(__version__, "- Ünique.", digests))).decode(),
    }
    return {"key": b64encode(key.public_key().public_bytes_raw()).decode(), "release": release}
