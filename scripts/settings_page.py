"""Writes docs/settings.md from the valves themselves: `python -m scripts.settings_page`.

A test compares the page with what this module would write, so the page cannot fall behind the code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args, get_origin

from open_webui_openrouter_pipe.valves import UserValves, Valves
from scripts.paths import ROOT

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

PAGE = ROOT / "docs" / "settings.md"

_HEAD = """# Settings

Open WebUI calls them valves. The administrator's are under Admin Panel → Functions → the gear of the function; each
user's own are in a chat under Controls → Valves. A change takes effect with the next message.

This page is written by `python -m scripts.settings_page`.
"""

_TAIL = """
## Parameters in a request

Open WebUI puts the parameters that an administrator sets for a model and those that a user sends, in the chat's
controls or over the API, into one body, which does not say whose they are. So what administrators have set is read
from Open WebUI's own tables: for all models, in the model's row, and as the options of its controls. It is always
sent, also where a user sends something else; only server tools are left to those who send tools of their own. Of the
rest, what can cost more or change who sees the data is omitted, and a status line says so once, unless
`USER_PARAMETERS` names it or the user is an administrator. What a filter function adds counts as the user's. Who may
create models in the workspace sets their parameters as well; that is a permission of Open WebUI.

## Callers of Open WebUI's API

A caller without a chat gets Chat Completions, and errors in the form of OpenAI's API, an `error` with `message`,
`type`, `param` and `code`. Without streaming the HTTP status is that of the error. A stream has the status 200 in any
case, since Open WebUI begins it before it calls the pipe; an error is its last chunk.
"""


def render() -> str:
    """The whole page."""
    sections = (("For the administrator", Valves), ("For each user", UserValves))
    return _HEAD + "".join(f"\n## {title}\n\n{_table(model)}" for title, model in sections) + _TAIL


def main() -> None:
    """Write the page."""
    PAGE.write_text(render(), "utf-8")


def _table(model: type[BaseModel]) -> str:
    rows = [_row(name, field) for name, field in model.model_fields.items()]
    return "\n".join(["| valve | default | what it does |", "|---|---|---|", *rows, ""])


def _row(name: str, field: FieldInfo) -> str:
    default = "" if field.default in ("", None) else f"`{field.default}`"
    return f"| `{name}`{_choices(field)} | {default} | {field.description} |"


def _choices(field: FieldInfo) -> str:
    if get_origin(field.annotation) is not Literal:
        return ""
    return "<br>" + ", ".join(f"`{choice}`" for choice in get_args(field.annotation))


if __name__ == "__main__":
    main()
