"""Writes docs/settings.md from the valves themselves: `python -m scripts.settings_page`.

A test compares the page with what this module would write, so the page cannot fall behind the code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args, get_origin

from open_webui_openrouter_pipe.settings import UserValves, Valves
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


def render() -> str:
    """The whole page."""
    sections = (("For the administrator", Valves), ("For each user", UserValves))
    return _HEAD + "".join(f"\n## {title}\n\n{_table(model)}" for title, model in sections)


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
