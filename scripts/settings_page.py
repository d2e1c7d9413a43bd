"""Writes docs/settings.md from the valves themselves: `python -m scripts.settings_page`.

A test compares the page with what this module would write, so the page cannot fall behind the code.
"""

from __future__ import annotations

import json
from itertools import groupby
from typing import TYPE_CHECKING

from open_webui_openrouter_pipe.advanced import Advanced
from open_webui_openrouter_pipe.valve_fields import allowed, default_of
from open_webui_openrouter_pipe.valves import ADMIN_PROTECTIONS, UserValves, Valves
from scripts.paths import ROOT

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

PAGE = ROOT / "docs" / "settings.md"

_HEAD = """# Settings

All that administrators and users can set, with defaults and limits. Only `API_KEY` has to be set. Open WebUI calls
settings valves: the administrator's are under Admin Panel → Functions → the gear of the function, each user's own in a
chat under Controls → Valves. A change takes effect with the next message.

In the form, a click on "Default" beside a title opens a field, and one on "Custom" returns it to its default; a text
that is opened cannot be left empty. A value that is not allowed is not saved, and a line says what is wrong. A stored
value that an update no longer allows counts as unset, with a line in the server's log. But where it says who may see
chats or what may be spent, nothing is sent until it is set again: ADMIN_PROTECTIONS.

This page is written by `python -m scripts.settings_page`.
"""

_ADVANCED = """What few ever change is in one valve, `ADVANCED`, as JSON:

```json
{example}
```

The names are those below, and all others keep their defaults. A wrong name or value is not saved; a stored name that
is not known has no effect. Other pages name a setting without saying where it stands: what the form does not have goes
here. Whoever set one of these when it was a valve of its own finds it in `ADVANCED` after the next saving; it holds
before that, too.
"""

EXAMPLE = {"RETRY_SECONDS": 60, "WEB_FETCH": False, "PROVIDER_IGNORE": "deepinfra, together"}
"""What the page shows as an example of `ADVANCED`."""

_TAIL = """
## Parameters in a request

Open WebUI puts the parameters that an administrator sets for a model and those that a user sends, in the chat's
controls or over the API, into one body, which does not say whose they are. So what administrators have set is read
from Open WebUI's own tables: for all models, in the model's row, and as the options of its controls. It is always
sent, also where a user sends something else; only server tools are left to those who send tools of their own. Of the
rest, what can cost more or change who sees the data is omitted, and a status line says so once, unless
`USER_PARAMETERS` names it or the user is an administrator. What a filter function adds counts as the user's. Who may
create models in the workspace sets their parameters as well; that is a permission of Open WebUI.
"""


def render() -> str:
    """The whole page."""
    head = _HEAD.replace("ADMIN_PROTECTIONS", ", ".join(f"`{name}`" for name in ADMIN_PROTECTIONS))
    advanced = _ADVANCED.replace("{example}", json.dumps(EXAMPLE, indent=2))
    return "".join(
        [
            head,
            f"\n## For the administrator\n{_tables(Valves)}",
            f"\n## ADVANCED\n\n{advanced}{_tables(Advanced)}",
            f"\n## For each user\n{_tables(UserValves)}",
            _TAIL,
        ]
    )


def main() -> None:
    """Write the page."""
    PAGE.write_text(render(), "utf-8")


def _tables(model: type[BaseModel]) -> str:
    """One table for each group of fields, under its title."""
    groups = groupby(model.model_fields.items(), lambda each: _title(each[1])[0])
    return "".join(_table(group, [_row(*each) for each in rows]) for group, rows in groups)


def _table(group: str, rows: list[str]) -> str:
    return "\n".join(
        [f"\n### {group}\n", "| name | takes | default | what it does |", "|---|---|---|---|", *rows, ""]
    )


def _row(name: str, field: FieldInfo) -> str:
    title = _title(field)[1]
    shown = f"`{name}`" + (f"<br>{title}" if title else "")
    return f"| {shown} | {allowed(field)} | {default_of(field)} | {field.description} |"


def _title(field: FieldInfo) -> tuple[str, str]:
    group, _, title = (field.title or "").partition(" · ")
    return group, title


if __name__ == "__main__":
    main()
