"""What Open WebUI loads for maintenance: a function with one model, which only administrators see and may ask."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any, Final, TypeAlias

from pydantic import BaseModel, BeforeValidator, Field

from ..errors import UpdateRefused
from ..host.platform import SECRET_FILE, HostFunctionCode, Platform, loaded_function, platform
from ..host.switches import AUTHOR
from ..openrouter.recordings import FOLDER, MAX_BYTES, Recordings
from ..responses.tools import ALLOWED, read_allowed
from ..responses.values import as_list, as_object
from ..store.bills import BillWriter
from ..store.database import Database
from . import commands
from .commands import MaintenanceCommand, Renaming, is_confirmation, read_command, report
from .host_tables import HostRow, HostTables, manifest_of
from .moving import move
from .removal import forget, remove
from .shortcuts import install, remove_shortcuts
from .updates import FOLDER as REPLACED
from .updates import Updates

TITLE: Final = "OpenRouter"
"""By this and our name, in its frontmatter, the pipe is known under whatever id it was installed."""

Load: TypeAlias = Callable[[str], Awaitable[Any]]

_CACHE_FOLDER: Final = "openrouter_pipe"

_AFTER_MOVING: Final = (
    "Reload the page, and look at some of the chats: they go on with `{target}`. Then what they left can be deleted "
    "or switched off."
)
_AFTER_INSTALLING: Final = (
    "Reload the page. The switches are in the menu of integrations below the message field; one that is on stands "
    "beside it, for this chat, until it is pressed again. They do what USER_CONTROLS and SERVER_TOOLS let users set."
)
_AFTER_REMOVAL: Final = (
    "What is left is to delete the functions, this one too, under Admin Panel → Functions. Restart Open WebUI before "
    "it is installed again."
)
_AFTER_FORGETTING: Final = "Copies in Redis expire within an hour. What Open WebUI itself has is not touched."
_PRESETS_STAY: Final = "Presets on top of its models: {count}. They stay, and need another base model."


_Text = Annotated[str, BeforeValidator(lambda value: value if isinstance(value, str) else "")]
"""Whatever is stored: the host makes the valves before each call, and one that raises would be none."""


class MaintenanceValves(BaseModel):
    """Where updates come from; without an address nothing is looked for, without a key nothing is installed."""

    UPDATE_ADDRESS: _Text = Field(
        default="",
        title="Updates · Address",
        description="Where the `update.json` of the newest release is, for the command `update`: `https://...`. "
        "Empty: nothing is looked for.",
    )
    UPDATE_KEY: _Text = Field(
        default="",
        title="Updates · Public Key",
        description="The Ed25519 key of those who publish the releases, in base64. Only what it has signed is "
        "installed; empty: nothing. Take it from another place than the address.",
    )


class MaintenancePipe:
    """Answers an administrator's commands in a chat."""

    Valves = MaintenanceValves

    def __init__(self) -> None:
        self.valves = MaintenanceValves()

    async def pipe(
        self,
        body: dict[str, Any],
        __user__: dict[str, Any] | None = None,
        __request__: Any = None,
        __task__: str | None = None,
    ) -> str:
        """Answer one message; a task of the host gets nothing."""
        if __task__:
            return ""
        user = __user__ or {}
        if user.get("role") != "admin":
            return commands.REFUSED
        command = read_command(asked(body))
        if command.name == "update":
            code = HostFunctionCode(__request__, str(user.get("id")))
            folder = platform().cache_folder / _CACHE_FOLDER / REPLACED
            own = self.valves
            return await update(
                command, Updates(code, folder, AUTHOR, own.UPDATE_ADDRESS.strip(), own.UPDATE_KEY.strip())
            )
        models = getattr(getattr(getattr(__request__, "app", None), "state", None), "MODELS", None) or {}
        load = partial(loaded_function, __request__)
        return await answer(command, platform(), [str(name) for name in models], load=load)


Pipe: Final = MaintenancePipe
"""The name that Open WebUI looks for."""


async def update(command: MaintenanceCommand, updates: Updates) -> str:
    """Look for a newer release or for the former one, and install it if the command says so."""
    try:
        return await (updates.back if command.source else updates.look)(install=command.now)
    except UpdateRefused as error:
        return error.user_message


async def answer(
    command: MaintenanceCommand, host: Platform, model_ids: Sequence[str], *, load: Load | None = None
) -> str:
    """Carry out a command, or report what it would do; `model_ids` are those that the host offers.

    `load` returns a function of the host by its id, None where it cannot.
    """
    tables = HostTables(host.engine, host.schema, writes=command.now)
    await tables.open()
    functions = await tables.rows("function", "id", "user_id", "is_active", "type", "meta")
    ours = [row["id"] for row in functions if _is_ours(row)]
    match command.name:
        case "settings":
            text = await _settings(_target(functions), load)
        case "move":
            text = await _move(command, tables, functions, model_ids)
        case "forget":
            forgotten = await forget(tables, command.object, command.source)
            is_done = command.now and any(forgotten.values())
            text = report(command, forgotten, [_AFTER_FORGETTING] if is_done else [])
        case "record":
            text = await asyncio.to_thread(_record, command, host)
        case "enter":
            text = await _enter(command, Database(host.engine, schema=host.schema))
        case "install":
            text = await _install(command, tables, functions, load)
        case "uninstall":
            text = await _uninstall(command, host, tables, functions)
        case "help" | "update":
            text = _help(functions, ours)
    return text


def _help(functions: Sequence[HostRow], ours: Sequence[str]) -> str:
    others = [
        row["id"] for row in functions if row["type"] == "pipe" and manifest_of(row).get("author") != AUTHOR
    ]
    listed, named = (", ".join(f"`{name}`" for name in ids) for ids in (ours, others))
    lines = f"OpenRouter functions: {listed or 'none is installed'}. "
    lines += f"Other functions with models: {named or 'none'}."
    return commands.HELP.format(target=_target(functions) or "openrouter", functions=lines)


async def _move(
    command: MaintenanceCommand, tables: HostTables, functions: Sequence[HostRow], model_ids: Sequence[str]
) -> str:
    of_connection = command.object == "connection"
    source = next((row for row in functions if row["id"] == command.source), None)
    target = _target(functions, but=command.source)
    if not target:
        return commands.NO_TARGET
    if not of_connection and source is None:
        return commands.NO_SUCH_FUNCTION.format(source=command.source)
    if source is not None and source["is_active"] and not of_connection:
        return commands.STILL_ON.format(source=command.source)
    offered = frozenset(name for name in model_ids if name.startswith(f"{target}.") and "/" in name)
    same_pipe = source is not None and not of_connection and _is_ours(source)
    if not (offered or same_pipe):  # without the key, which moves too, it offers nothing yet
        return commands.NO_MODELS.format(target=target)
    renaming = Renaming(command.source, target, offered, of_connection=of_connection, same_pipe=same_pipe)
    moved = await move(tables, renaming)
    remarks = [_AFTER_MOVING.format(target=target)]
    return report(command, moved, remarks if command.now else [])


async def _install(
    command: MaintenanceCommand, tables: HostTables, functions: Sequence[HostRow], load: Load | None
) -> str:
    ours = {row["id"]: row["user_id"] for row in functions if _is_ours(row)}
    if not (target := _target(functions)):
        return commands.NO_TARGET
    describe = await _describer(target, load)
    valves = (await describe())[0] if describe else {}
    allowed = read_allowed(valves.get("SERVER_TOOLS", ALLOWED))
    installed, remarks = await install(tables, functions, ours[target], ours, allowed)
    is_done = command.now and any(installed.values())
    return report(command, installed, [*remarks, _AFTER_INSTALLING] if is_done else remarks)


async def _settings(target: str, load: Load | None) -> str:
    """What the running pipe says of its own settings: each release knows its own."""
    if not target:
        return commands.NO_TARGET
    describe = await _describer(target, load)
    return (
        commands.settings_report(target, *await describe())
        if describe
        else commands.NO_SETTINGS.format(target=target)
    )


async def _describer(target: str, load: Load | None) -> Callable[[], Awaitable[Any]] | None:
    """What returns the settings of the running pipe that are not by default, None where it cannot be asked."""
    return getattr(await load(target) if load else None, "changed_settings", None)


async def _enter(command: MaintenanceCommand, database: Database) -> str:
    """Enter bills of the log, on the way of all bills."""
    writer = BillWriter(database)
    bills = await writer.lacking([bill for bill in command.bills if bill])
    remarks = []
    if bills:
        sums = (sum(getattr(bill, name) for bill in bills) for name in ("cost", "provider_cost"))
        remarks = [commands.ENTERED_DOLLARS.format(*sums)]
    if unread := command.bills.count(None):
        remarks.append(commands.UNREADABLE_BILLS.format(count=unread))
    if not command.bills:
        return commands.NO_BILLS
    if bills and command.now:
        await writer.enter(bills)
    return report(command, {"bills": len(bills)}, remarks)


def _record(command: MaintenanceCommand, host: Platform) -> str:
    folder = host.cache_folder / _CACHE_FOLDER / FOLDER
    recordings, now = Recordings(folder), time.time()
    if command.source == "stop":
        recordings.end()
    elif command.source and command.now:
        recordings.begin(now, minutes=int(command.source))
    elif command.source:
        megabytes, deleted = MAX_BYTES // 1024**2, len(recordings.files())
        lines = [commands.WOULD_RECORD.format(minutes=command.source, megabytes=megabytes)]
        lines += [commands.DELETES_RECORDING.format(count=deleted)] if deleted else []
        return "\n\n".join([*lines, commands.TO_DO_IT.format(command=command.text)])
    running = recordings.running(now)
    until = datetime.fromtimestamp(running.until, UTC) if running else None
    return commands.recording_report(until, folder, recordings.files())


async def _uninstall(
    command: MaintenanceCommand, host: Platform, tables: HostTables, functions: Sequence[HostRow]
) -> str:
    if command.object == "shortcuts":
        return report(command, await remove_shortcuts(tables, functions), [])
    ours = [row for row in functions if _is_ours(row)]
    if not ours:
        return commands.NO_FUNCTION_LEFT
    for row in ours:
        if row["is_active"]:
            return commands.STILL_ON.format(source=row["id"])
    ids = {row["id"] for row in ours}
    files = (host.cache_folder / _CACHE_FOLDER, host.cache_folder.parent / SECRET_FILE)
    bases = [str(row["base_model_id"]) for row in await tables.rows("model", "id", "base_model_id")]
    presets = sum(base.partition(".")[0] in ids for base in bases)
    removed = await remove_shortcuts(tables, functions)
    removed |= await remove(tables, ids, redis=host.redis, files=files)
    remarks = [_PRESETS_STAY.format(count=presets)] if presets else []
    return report(command, removed, [*remarks, _AFTER_REMOVAL] if command.now else remarks)


def _target(functions: Sequence[HostRow], *, but: str = "") -> str:
    """The id of the pipe that is switched on; empty where there is none, or more than one."""
    active = [row["id"] for row in functions if _is_ours(row) and row["is_active"] and row["id"] != but]
    return active[0] if len(active) == 1 else ""


def _is_ours(row: HostRow) -> bool:
    manifest = manifest_of(row)
    return (manifest.get("author"), manifest.get("title")) == (AUTHOR, TITLE)


def asked(body: Mapping[str, Any]) -> str:
    """The words of the last message; where these are the confirmation alone, behind those of the user's before."""
    messages = [each for each in map(as_object, as_list(body.get("messages"))) if each.get("role") == "user"]
    words = [_words(each.get("content")) for each in messages[-2:]]
    return "\n".join(words if words and is_confirmation(words[-1]) else words[-1:])


def _words(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in map(as_object, content))
    return str(content)
