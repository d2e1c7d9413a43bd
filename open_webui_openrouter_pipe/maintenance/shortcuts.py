"""Installs what people reach for: switches beside the message field, and our commands in the page's list of `/`.

Switches are toggle filters, which the rows of our models name; commands are prompts that everybody may read. What
somebody else has under the same name stays theirs. Source: `models/functions.py` and `models/prompts.py` of Open
WebUI 0.12.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Container, Mapping, Sequence
from typing import Any, Final
from uuid import uuid4

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from ..conversation.slash import COMMANDS
from ..host.switches import AUTHOR, SWITCHES, Switch, with_switches
from ..responses.values import as_list, as_object, as_text
from ..words.lines import LANGUAGES, notice, speaker
from .host_tables import HostRow, HostTables, manifest_of

MARK: Final = "openrouter_pipe"
"""The key in the `meta` of a prompt that is ours, and of a model's row under which is what we have written of it."""
_FILTER: Final = '''"""
title: OpenRouter: {name}
author: {author}
description: {help}
"""


class Filter:
    """A switch beside the message field; the function of the pipe reads what it notes."""

    def __init__(self):
        self.toggle = True
        self.icon = "data:image/svg+xml,{icon}"

    def inlet(self, body: dict, __model__: dict | None = None) -> dict:
        # A connection, to which a preset may have gone over, would pass on what it does not know.
        if "pipe" in (__model__ or {{}}):
            held = body.get("openrouter_pipe")
            body["openrouter_pipe"] = {{**(held if isinstance(held, dict) else {{}}), "{key}": "{value}"}}
        return body
'''
_SVG: Final = (
    "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 24 24' fill='none' stroke='black' stroke-width='1.75' "
    "stroke-linecap='round' stroke-linejoin='round'>{}</svg>"
)
_TAKEN: Final = "Somebody else has these under the same name, and they stay: {names}."


async def install(
    tables: HostTables,
    functions: Sequence[HostRow],
    owner: str,
    ours: Collection[str],
    allowed: Container[str],
) -> tuple[dict[str, int], list[str]]:
    """Install what is missing for the models of `ours`, ids of functions, in the name of `owner`.

    Of the switches for OpenRouter's tools, those that are `allowed`.

    Return how much of each kind, and remarks.
    """
    authors = {row["id"]: manifest_of(row).get("author") for row in functions}
    switches = [each for each in SWITCHES if each.valve or each.name in allowed]
    taken = [each.id for each in switches if authors.get(each.id, AUTHOR) != AUTHOR]
    new = [each for each in switches if each.id not in authors]
    prompts = {row["command"]: row for row in await tables.rows("prompt", "id", "command", "meta")}
    named = (
        [name for name in COMMANDS if name not in prompts]
        if tables.table("prompt", "meta") is not None
        else []
    )
    taken += [f"/{name}" for name in COMMANDS if name in prompts and not _is_our_prompt(prompts[name])]
    async with tables.engine.begin() as connection:
        for switch in new:
            await tables.insert(connection, "function", {**_function(switch), "user_id": owner})
        for name in named:
            row = _prompt(name)
            await tables.insert(connection, "prompt", {**row, "user_id": owner})
            await tables.insert(connection, "access_grant", _everybody(row["id"]))
    installed = {each.id for each in switches} - {*taken}
    metas = {row["id"]: as_object(row["meta"]) for row in await tables.rows("model", "id", "meta")}

    async def with_ours(_: AsyncConnection, row: HostRow) -> HostRow | None:
        base, meta = row["base_model_id"] or row["id"], as_object(row["meta"])
        if base.partition(".")[0] not in ours:
            return None
        changed = with_switches(meta, installed, _tags(metas.get(base, {})))
        return {"meta": changed} if changed != meta else None

    counts = {
        "switches beside the message field": len(new),
        "commands in the list of `/`": len(named),
        "models with switches": await tables.rewrite("model", ["id", "base_model_id", "meta"], with_ours),
    }
    return counts, [_TAKEN.format(names=", ".join(f"`{name}`" for name in taken))] if taken else []


async def remove_shortcuts(tables: HostTables, functions: Sequence[HostRow]) -> dict[str, int]:
    """Remove all that `install` has installed, and return how much of each kind."""
    authors = {row["id"]: manifest_of(row).get("author") for row in functions}
    ids = {each.id for each in SWITCHES if authors.get(each.id, AUTHOR) == AUTHOR}
    switches = [name for name in ids if name in authors]
    prompts = [row["id"] for row in await tables.rows("prompt", "id", "meta") if _is_our_prompt(row)]

    async def without_ours(_: AsyncConnection, row: HostRow) -> HostRow | None:
        meta = as_object(row["meta"])
        lists = {name: as_list(meta[name]) for name in ("filterIds", "defaultFilterIds") if name in meta}
        left = {name: [each for each in held if each not in ids] for name, held in lists.items()}
        others = {name: value for name, value in meta.items() if name not in lists}
        return (
            None
            if left == lists
            else {"meta": {**others, **{name: each for name, each in left.items() if each}}}
        )

    async with tables.engine.begin() as connection:
        for table, column, gone in (
            ("function", "id", switches),
            ("function_history", "function_id", switches),
            ("prompt", "id", prompts),
            ("prompt_history", "prompt_id", prompts),
            ("access_grant", "resource_id", prompts),
        ):
            if (found := tables.table(table, column)) is not None:
                await tables.execute(connection, sa.delete(found).where(found.c[column].in_(gone)))
    return {
        "switches beside the message field": len(switches),
        "commands in the list of `/`": len(prompts),
        "models with switches": await tables.rewrite("model", ["id", "meta"], without_ours),
    }


def _tags(meta: Mapping[str, Any]) -> list[str]:
    """The tags of a model, as far as they are kept up to date; one without such may think, and take tools."""
    if "tags" not in as_object(meta.get(MARK)):
        return [each.needs for each in SWITCHES]
    return [as_text(as_object(tag).get("name")) for tag in as_list(meta.get("tags"))]


def _is_our_prompt(row: HostRow) -> bool:
    return bool(as_object(row["meta"]).get(MARK))


def _function(switch: Switch) -> dict[str, Any]:
    """The row of a switch's filter, with its name and help in all languages, as the page looks for them."""
    texts = {
        code: {
            "name": speaker(language)(f"switch_{switch.name}"),
            "description": speaker(language)(switch.help),
        }
        for code, language in LANGUAGES.items()
    }
    name, description = texts["en"].values()
    icon = _SVG.format(switch.icon).replace("<", "%3C").replace(">", "%3E")
    content = _FILTER.format(
        name=name, author=AUTHOR, help=description, icon=icon, key=switch.key, value=switch.value
    )
    manifest = {"title": f"OpenRouter: {name}", "author": AUTHOR, "description": description}
    return {
        "id": switch.id,
        "name": name,
        "type": "filter",
        "content": content,
        "meta": {"description": description, "manifest": manifest, "i18n": texts},
        "is_active": True,
        "is_global": False,
        **_times(),
    }


def _prompt(name: str) -> dict[str, Any]:
    """The row of a command. The blank behind it closes the page's list: the next Enter sends it."""
    explained = re.sub(r"^`/[^:]*: ", "", notice(f"help_{name}")).replace("`", "")
    return {
        "id": str(uuid4()),
        "command": name,
        "name": f"OpenRouter: {explained}",
        "content": f"/{name} ",
        "data": {},
        "meta": {MARK: name},
        "tags": [],
        "is_active": True,
        **_times(),
    }


def _everybody(prompt_id: str) -> dict[str, Any]:
    return {
        "id": str(uuid4()),
        "resource_type": "prompt",
        "resource_id": prompt_id,
        "principal_type": "user",
        "principal_id": "*",
        "permission": "read",
        **_times(),
    }


def _times() -> dict[str, int]:
    now = int(time.time())
    return {"created_at": now, "updated_at": now}
