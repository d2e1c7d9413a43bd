"""What an administrator can write to the maintenance function, and the words of its reports. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, cast

from ..money.audit import Bill, read_bill
from ..openrouter.recordings import MAX_MINUTES
from ..responses.values import as_object

NewId: TypeAlias = Callable[[str], str | None]
"""What a model id becomes; None for one that stays."""

_ID_KEYS: Final = frozenset({
    "base_model_id", "model", "model_id", "model_ids", "models", "pinnedModels", "selectedModelId",
    "selected_model_id",
})  # fmt: skip
"""The names under which Open WebUI 0.12 keeps model ids, alone or in lists."""

SETTINGS: Final = (
    "ui.default_models", "ui.default_pinned_models", "ui.model_order_list", "task.model.default",
    "task.model.external", "evaluation.arena.models", "chat.context_compaction.model",
)  # fmt: skip
"""The administrator's settings that name models, by their keys in the table `config`."""


@dataclass(frozen=True, slots=True)
class Renaming:
    """From one function or connection to our function, by its id.

    `source` is a function's id, or the prefix of a connection's models, empty where it has none. `offered` are the ids
    of our function's models: nothing else moves, unless the source is the same pipe, which offers what we will.
    """

    source: str
    target: str
    offered: frozenset[str]
    of_connection: bool = False
    same_pipe: bool = False

    def new_id(self, model_id: str) -> str | None:
        """What a model is called under our function; None for one of somebody else, or that we cannot name.

        Another pipe writes `author.model` for OpenRouter's `author/model`.
        """
        prefix = f"{self.source}." if self.source else ""
        if not model_id.startswith(prefix):
            return None
        name = model_id.removeprefix(prefix)
        same, dotted = f"{self.target}.{name}", f"{self.target}.{name.replace('.', '/', 1)}"
        if same in self.offered:
            return same
        if prefix and "/" not in name and dotted in self.offered:
            return dotted
        return same if self.same_pipe and "/" in name else None


def rename_ids(value: Any, new_id: NewId, *, key: str = "") -> Any:
    """The JSON value with other model ids, wherever they stand under a name for ids; `key` is the value's own name."""
    match value:
        case dict():
            return {name: rename_ids(each, new_id, key=name) for name, each in value.items()}
        case list():
            return [rename_ids(each, new_id, key=key) for each in value]
        case str() if key in _ID_KEYS:
            return new_id(value) or value
        case _:
            return value


def rename_choice(chat: Mapping[str, Any], new_id: NewId) -> dict[str, Any]:
    """A chat that goes on with other models; its messages still name those that wrote them."""
    if "models" not in chat:
        return dict(chat)
    return {**chat, "models": rename_ids(chat["models"], new_id, key="models")}


def change_function_valves(settings: Any, change: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> Any:
    """A user's settings with other valves of functions, by the functions' ids."""
    functions = as_object(as_object(settings).get("functions"))
    if not isinstance(valves := functions.get("valves"), dict):
        return settings
    return {**settings, "functions": {**functions, "valves": change(valves)}}


def rename_setting(value: Any, new_id: NewId) -> Any:
    """An administrator's setting with other ids: one id, several with commas between them, or a list."""
    if isinstance(value, str):
        return ",".join(new_id(part) or part for part in value.split(","))
    return rename_ids(value, new_id, key="models")


CommandName = Literal[
    "help", "settings", "move", "forget", "record", "update", "install", "uninstall", "enter"
]
Object = Literal["", "connection", "user", "chat", "shortcuts", "bill"]
"""What the name behind a command is the name of, where that is not a function."""

_NOW: Final = "now"
_ENTER: Final = "enter bill"

HELP: Final = """\
I change nothing before I have told you what I would change. Write one of these:

| command | what it does |
|---|---|
| `settings` | says which settings are not at their defaults, and what is wrong with them |
| `move FUNCTION` | chats, presets and access of another function's models, by its id, go over to those of `{target}` |
| `move connection` | the same for a connection to OpenRouter; `move connection PREFIX` if its models have one |
| `record MINUTES` | records requests and answers for a while, without their texts, to report a problem |
| `record`, `record stop` | says whether it records, and where the files are; ends it at once |
| `update`, `update back` | looks for a newer release and says what is new; goes back to what ran before |
| `forget user ID`, `forget chat ID` | removes what is kept of a user or a chat: reasoning, summaries, costs |
| `enter bill LINES` | enters bills that could not be written, from lines of the log that say `bill not written`; one \
that is there already stays |
| `install shortcuts` | installs switches beside the message field (answer fast, think harder, web search), and the \
chat's commands in the list that opens when somebody types `/` |
| `uninstall shortcuts` | removes these again |
| `uninstall` | removes the tables, the marks in chats, the shortcuts, and everything else that is kept |

Like this, each only reports what it would change. With `now` behind it, or as the next message, it is done, and \
cannot be undone: make a backup of the database before, and choose a time when nobody chats.

New users begin with the first model of the list, unless you choose one for all: Admin Panel → Settings → Models → the \
model's menu → Set as Selected Model. One that costs little is named by the entry "OpenRouter: ready" of the list of \
models, which `{{"STATUS_ENTRY": "always"}}` in the valve *More Settings* shows.

{functions}"""

REFUSED: Final = "Only an administrator can use this."
NO_TARGET: Final = (
    "There has to be exactly one OpenRouter function that is switched on. Install it, set its API key, "
    "switch it on, switch any other one off, and ask again."
)
NO_MODELS: Final = "The function `{target}` offers no models yet. Reload the page, and ask again."
NO_SUCH_FUNCTION: Final = (
    "There is no function with the id `{source}`. If it was deleted, install it again and leave it switched off: it "
    "tells whose chats these are."
)
NO_FUNCTION_LEFT: Final = (
    "The OpenRouter function was deleted already. Install it again and leave it switched off: it tells which models, "
    "valves and marks are its own."
)
STILL_ON: Final = (
    "The function `{source}` is switched on, and would go on writing. Switch it off under Admin Panel → Functions, and "
    "ask again."
)

NO_SETTINGS: Final = (
    "The function `{target}` does not say its settings: it cannot be loaded, or is of an older release."
)
ALL_DEFAULTS: Final = "All settings of `{target}` have their defaults."
CHANGED: Final = "Settings of `{target}` that are not at their defaults:"
ALL_RIGHT: Final = "Nothing is wrong with them."
WRONG: Final = (
    "**To be corrected under Admin Panel → Functions → the gear of `{target}`.** Until then what is wrong has no "
    "effect, and limits and access are read as strictly as possible:"
)
_VALUE_CHARACTERS: Final = 200

WOULD_RECORD: Final = (
    "**`record {minutes}` would record for {minutes} minutes. Nothing is recorded yet.** Of each chat of each user the "
    "requests to OpenRouter and the answers are written into a file on this server: their form, ids and numbers. All "
    "texts, names, addresses, files and keys are replaced by placeholders. Whoever chats reads in a line above the "
    "answer that it is recorded. It ends by itself, at the latest when its files have {megabytes} MB."
)
TO_DO_IT: Final = f"To do it, write `{{command}} {_NOW}`."
UNDONE_BY: Final = "`uninstall shortcuts` undoes it."
TO_ENTER: Final = "To do it, write `now`."
NO_BILLS: Final = "Write `enter bill`, and behind it whole lines of the log that say `bill not written`."
ENTERED_DOLLARS: Final = (
    "They come to ${0:.6f} at OpenRouter and, where a provider's own key was used, ${1:.6f} there."
)
UNREADABLE_BILLS: Final = "Lines with something else than a bill: {count}. They are passed over."
DELETES_RECORDING: Final = "The files of the last recording are deleted: {count}."
IS_RECORDING: Final = "**It records until {until:%H:%M} UTC.** `record stop` ends it."
NOT_RECORDING: Final = "Nothing is being recorded."
NO_FILES: Final = "There are no files."
FILES: Final = "Files of the last recording, in `{folder}`; look at them before you pass them on:"


@dataclass(frozen=True, slots=True)
class MaintenanceCommand:
    """A command; `source` is the function that chats leave, the prefix of a connection ("" for none), or an id.

    To record it is minutes, "stop", or nothing; to update it is "back", or nothing.
    """

    name: CommandName
    source: str = ""
    object: Object = ""
    now: bool = False
    bills: tuple[Bill | None, ...] = ()
    """What is to be entered, None for each line that holds no bill."""

    @property
    def text(self) -> str:
        """How it is written, without `now`."""
        return " ".join(word for word in (self.name, self.object, self.source) if word)


def is_confirmation(text: str) -> bool:
    """Whether a message says nothing but that the command before it is to be done."""
    return text.strip("` \n").lower() == _NOW


def read_command(text: str) -> MaintenanceCommand:
    """Read what was written, or the bills of logged lines, whatever stands before them; all else asks for help."""
    if not text.strip("`/ \n").lower().startswith(_ENTER):
        return _read_words(text)
    found = [line[line.find("{") : line.rfind("}") + 1] for line in text.splitlines() if "{" in line]
    now = text.rsplit(maxsplit=1)[-1].lower() == _NOW
    return MaintenanceCommand("enter", "", "bill", now, tuple(map(read_bill, found)))


def _read_words(text: str) -> MaintenanceCommand:
    words = text.strip().strip("`/").split()[:5]
    now = len(words) > 1 and words[-1].lower() == _NOW
    words = words[:-1] if now else words
    match [word.lower() for word in words[:2]], words[2:]:
        case [("install" | "uninstall") as name, *rest], [] if rest in ([], ["shortcuts"]):
            kind: Object = "shortcuts" if rest or name == "install" else ""
            return MaintenanceCommand(cast("CommandName", name), "", kind, now=now)
        case [("record" | "update" | "settings") as name, *rest], [] if _is_word_of(name, "".join(rest)):
            return MaintenanceCommand(cast("CommandName", name), "".join(rest), now=now)
        case ["forget", ("user" | "chat") as kind], [name]:
            return MaintenanceCommand("forget", name, cast("Object", kind), now=now)
        case ["move", "connection"], [] | [_]:
            return MaintenanceCommand("move", "".join(words[2:]), "connection", now=now)
        case ["move", source], []:
            return MaintenanceCommand("move", source, now=now)
        case _:
            return MaintenanceCommand("help")


def _is_word_of(name: str, word: str) -> bool:
    """Whether the word may stand behind the command."""
    words = {"update": {"", "back"}, "record": {"", "stop"}, "settings": {""}}
    is_minutes = word.isascii() and word.isdecimal() and 1 <= int(word[:4]) <= MAX_MINUTES
    return word in words[name] or (name == "record" and is_minutes)


def settings_report(target: str, changed: Mapping[str, str], problems: Sequence[str]) -> str:
    """Say which settings are not at their defaults, with what is stored of them, and what is wrong."""
    if not changed:
        return ALL_DEFAULTS.format(target=target)
    values = {
        name: " ".join(value.split()).replace("`", "'").replace("|", "\\|") for name, value in changed.items()
    }
    lines = [f"| `{name}` | `{value[:_VALUE_CHARACTERS] or ' '}` |" for name, value in values.items()]
    table = "\n".join(["| setting | value |", "|---|---|", *lines])
    wrong = (
        [WRONG.format(target=target), "\n".join(f"- {line}" for line in problems)]
        if problems
        else [ALL_RIGHT]
    )
    return "\n\n".join([*wrong, CHANGED.format(target=target), table])


def recording_report(until: datetime | None, folder: Path, files: Mapping[Path, int]) -> str:
    """Say whether it records, and which files there are, with a link to each."""
    state = IS_RECORDING.format(until=until) if until else NOT_RECORDING
    if not files:
        return f"{state} {NO_FILES}"
    lines = [
        f"- [{path.name}](/cache/{path.relative_to(folder.parents[1])}), {size:,} bytes"
        for path, size in files.items()
    ]
    return "\n\n".join([state, FILES.format(folder=folder), "\n".join(lines)])


def report(command: MaintenanceCommand, counts: Mapping[str, int], remarks: Sequence[str]) -> str:
    """Say what was done, or would be, and what comes next."""
    lines = [f"| {name} | {count:,} |" for name, count in counts.items() if count]
    table = "\n".join(["| what | how many |", "|---|---:|", *lines])
    if not lines:
        parts = [f"`{command.text}`: there is nothing to do.", *remarks]
    elif command.now:
        parts = [f"**Done: `{command.text}`.**", table, *remarks]
    else:
        parts = [f"**`{command.text}` would change this. Nothing has been changed yet.**", table, *remarks]
        undone = UNDONE_BY if command.name == "install" else "It cannot be undone."
        parts.append(f"{TO_ENTER if command.bills else TO_DO_IT.format(command=command.text)} {undone}")
    return "\n\n".join(parts)
