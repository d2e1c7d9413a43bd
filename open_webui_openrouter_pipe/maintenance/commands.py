"""What an administrator can write to the maintenance function, and the words of its reports. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

CommandName = Literal["help", "move", "forget", "uninstall"]
Object = Literal["", "connection", "user", "chat"]
"""What the name behind a command is the name of, where that is not a function."""

_NOW: Final = "now"

HELP: Final = """\
I change nothing before I have told you what I would change. Write one of these:

| command | what it does |
|---|---|
| `move FUNCTION` | chats, presets and access of another function's models, by its id, go over to those of `{target}` |
| `move connection` | the same for a connection to OpenRouter; `move connection PREFIX` if its models have one |
| `forget user ID`, `forget chat ID` | removes what the pipe keeps of a user or a chat: reasoning, summaries, costs |
| `uninstall` | removes the pipe's tables, its marks in chats, and everything else that it keeps |

Like this, each only reports what it would change. With `now` behind it, it is done, and cannot be undone: make a \
backup of the database before, and choose a time when nobody chats.

{functions}"""

REFUSED: Final = "Only an administrator can use this."
NO_TARGET: Final = (
    "There has to be exactly one function of the OpenRouter pipe that is switched on. Install it, set its API key, "
    "switch it on, switch any other one off, and ask again."
)
NO_MODELS: Final = "The function `{target}` offers no models yet. Reload the page, and ask again."
NO_SUCH_FUNCTION: Final = (
    "There is no function with the id `{source}`. If it was deleted, install it again and leave it switched off: it "
    "tells whose chats these are."
)
NO_FUNCTION_LEFT: Final = (
    "The pipe's function was deleted already. Install it again and leave it switched off: it tells which models, "
    "valves and marks are the pipe's."
)
STILL_ON: Final = (
    "The function `{source}` is switched on, and would go on writing. Switch it off under Admin Panel → Functions, and "
    "ask again."
)


@dataclass(frozen=True, slots=True)
class MaintenanceCommand:
    """A command; `source` is the function that chats leave, the prefix of a connection ("" for none), or an id."""

    name: CommandName
    source: str = ""
    object: Object = ""
    now: bool = False

    @property
    def text(self) -> str:
        """How it is written, without `now`."""
        return " ".join(word for word in (self.name, self.object, self.source) if word)


def read_command(text: str) -> MaintenanceCommand:
    """Read what was written; everything else is a question for help."""
    words = text.strip().strip("`/").split()[:5]
    now = len(words) > 1 and words[-1].lower() == _NOW
    words = words[:-1] if now else words
    match [word.lower() for word in words[:2]], words[2:]:
        case ["uninstall"], []:
            return MaintenanceCommand("uninstall", now=now)
        case ["forget", ("user" | "chat") as kind], [name]:
            return MaintenanceCommand("forget", name, "user" if kind == "user" else "chat", now=now)
        case ["move", "connection"], [] | [_]:
            return MaintenanceCommand("move", "".join(words[2:]), "connection", now=now)
        case ["move", source], []:
            return MaintenanceCommand("move", source, now=now)
        case _:
            return MaintenanceCommand("help")


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
        parts.append(f"To do it, write `{command.text} {_NOW}`. It cannot be undone.")
    return "\n\n".join(parts)
