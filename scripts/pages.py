"""Keeps the tables of docs/settings.md, docs/errors.md and docs/privacy.md: `python -m scripts.pages [NAME...]`.

The tables of settings and errors are written from the code that decides. Those of privacy are written by hand, except
what each field is sent with: they are compared with what the stand-in's log holds after two sessions, and a field, a
header or a request that is sent and not explained there, or explained and not sent, is an error. All else on these
pages is written by hand, too. Tests compare the pages with what this module would write.
"""

from __future__ import annotations

import argparse
import re
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal, cast, get_args, get_origin

from open_webui_openrouter_pipe.openrouter.errors import (
    RULES,
    UNKNOWN,
    WORDINGS,
    Wordings,
)
from open_webui_openrouter_pipe.valves import (
    ADMIN_PROTECTIONS,
    STRICT_ADMIN,
    STRICT_ADVANCED,
    Advanced,
    UserValves,
    Valves,
    default_of,
    range_of,
    text_of,
)
from open_webui_openrouter_pipe.words.lines import for_admins, notice
from scripts import privacy_session
from scripts.paths import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from collections.abc import Set as AbstractSet

    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

    from open_webui_openrouter_pipe.openrouter.errors import Rule
    from scripts.standin.state import RecordedRequest

PAGES = {name: ROOT / "docs" / f"{name}.md" for name in ("settings", "errors", "privacy")}
BEGIN, END = "<!-- {}: kept by `python -m scripts.pages` -->\n\n", "\n\n<!-- end of {} -->"


def main() -> None:
    """Write the named pages, or all."""
    parser = argparse.ArgumentParser(prog="python -m scripts.pages", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which pages (all): {', '.join(PAGES)}")
    for name in parser.parse_args().names or PAGES:
        text = PAGES[name].read_text("utf-8")
        PAGES[name].write_text(render(name, text), "utf-8")


def render(name: str, text: str) -> str:
    """A page with its tables written anew."""
    if name == "privacy":
        return privacy(text, *privacy_session.sessions())
    return settings(text) if name == "settings" else errors(text)


def _split(text: str, section: str) -> tuple[str, str, str]:
    """What stands before, in and behind a section that is kept here."""
    begin, end = BEGIN.format(section), END.format(section)
    before, rest = text.split(begin)
    inside, after = rest.split(end)
    return before + begin, inside, end + after


def _replaced(text: str, section: str, lines: Iterable[str]) -> str:
    before, _, after = _split(text, section)
    return before + "\n".join(lines) + after


# --- settings ------------------------------------------------------------------------------------------------


def settings(text: str) -> str:
    """The page with its tables of valves."""
    text = _replaced(text, "protections", [", ".join(f"`{name}`" for name in ADMIN_PROTECTIONS)])
    strict = {**STRICT_ADMIN, **STRICT_ADVANCED}
    text = _replaced(
        text, "strict", [", ".join(f"`{name}` as `{_shown(value)}`" for name, value in strict.items())]
    )
    for section, model in (("administrator", Valves), ("advanced", Advanced), ("users", UserValves)):
        text = _replaced(text, section, _tables(model))
    return text


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:f}" if isinstance(value, float) else str(value)


def _tables(model: type[BaseModel]) -> Iterator[str]:
    """One table for each group of fields, under its title."""
    groups = groupby(model.model_fields.items(), lambda each: _title(model, each[0])[0])
    for number, (group, fields) in enumerate(groups):
        yield from [""] * bool(number)
        yield from (f"### {group}\n", "| name | takes | default | what it does |", "|---|---|---|---|")
        for name, field in fields:
            title, text = _title(model, name)[1], text_of(model, name).help
            shown = f"`{name}`" + (f"<br>{title}" if title else "")
            yield f"| {shown} | {_allowed(field)} | {default_of(model, name)} | {text} |"


def _allowed(field: FieldInfo) -> str:
    """Which values a field takes, as words."""
    if get_origin(field.annotation) is Literal:
        return "one of " + ", ".join(map(str, get_args(field.annotation)))
    words = {bool: "true or false", int: "a whole number", float: "a number"}
    limits = range_of(field)
    return words.get(cast("type", field.annotation), "text") + (f", {limits}" if limits else "")


def _title(model: type[BaseModel], name: str) -> tuple[str, str]:
    group, _, title = text_of(model, name).title.partition(" · ")
    return group, title


# --- errors --------------------------------------------------------------------------------------------------

_WORDS = {"provider": "The provider", "quote": "", "wait": notice("wait_unknown")}


def errors(text: str) -> str:
    """The page with what users and administrators read of each failure, by the table that decides."""
    head = ("| recognized by | the user reads | an administrator reads | asked again |", "|---|---|---|---|")
    return _replaced(text, "failures", [*head, *map(_failure, (*RULES, UNKNOWN))])


def _failure(rule: Rule) -> str:
    words = {**_WORDS, "wait": notice("wait_tomorrow")} if rule.notice == "free_daily_limit" else _WORDS
    line = notice(rule.notice, **words)
    user, admin = (re.sub(r"\s+", " ", each).strip() for each in (line, for_admins(line)))
    return f"| {_marks(rule)} | {user} | {'the same' if admin == user else admin} | {'yes' if rule.passes else 'no'} |"


def _marks(rule: Rule) -> str:
    if isinstance(rule.statuses, range):
        statuses = f"any other {rule.statuses[0] // 100}xx"
    else:
        statuses = ", ".join(map(str, sorted(rule.statuses)))
    wordings = WORDINGS.get(rule.section, Wordings())
    words = ", ".join(f"`{code}`" for code in sorted(wordings.codes))
    statuses += " that names it" if rule.condition else ""
    return (
        "; ".join(filter(None, [words, "its words" if wordings.texts else "", statuses])) or "anything else"
    )


# --- privacy -------------------------------------------------------------------------------------------------

EVERY, ANSWERS = "every request", "`POST /responses`"
"""What the headers of an ordinary session are sent with."""


def explained(text: str, section: str) -> dict[str, list[str]]:
    """What a table of the page says about each name in its first column, in the others."""
    rows = [line.strip("| ").split(" | ") for line in _split(text, section)[1].splitlines()[2:]]
    return {name.strip("`"): cells for name, *cells in rows}


def privacy(text: str, ordinary: list[RecordedRequest], everything: list[RecordedRequest]) -> str:
    """The page with what its fields and headers are sent with in the requests of both sessions.

    Raises:
        ValueError: What is sent, and what the page explains, differ.
    """
    requests = [*ordinary, *everything]
    _compare("requests", explained(text, "requests"), {_request(each) for each in requests})
    headers, sent_headers = explained(text, "headers"), privacy_session.headers_of(requests)
    _compare("headers", headers, sent_headers)
    always = [name for name, (_, when) in headers.items() if when in {EVERY, ANSWERS}]
    _compare("headers of an ordinary session", always, privacy_session.headers_of(ordinary))
    fields, further = (explained(text, section) for section in ("fields", "further fields"))
    sent_fields = privacy_session.fields_of(ordinary)
    _compare("fields", fields | further, privacy_session.fields_of(requests))
    _compare("fields of an ordinary session", fields, sent_fields)
    when = {name: ", ".join(sorted(sent_fields[name])) for name in fields}
    text = _completed(text, "fields", when)
    return _completed(
        text, "headers", {name: EVERY if "/models/user" in sent_headers[name] else ANSWERS for name in always}
    )


def _completed(text: str, section: str, last_cells: dict[str, str]) -> str:
    """The page with other last cells in one of its tables."""
    head = _split(text, section)[1].splitlines()[:2]
    rows = [
        f"| `{name}` | {what} | {last_cells.get(name, when)} |"
        for name, (what, when) in explained(text, section).items()
    ]
    return _replaced(text, section, [*head, *rows])


def _request(request: RecordedRequest) -> str:
    query = request.query.partition("gen-")[0]  # a generation's id differs each time
    path = re.sub(r"gen-[\w-]+|(?<=/images/models/).+(?=/endpoints)", "ID", request.path)
    return f"{request.method} {path}{'?' if query else ''}{query}"


def _compare(what: str, names: Iterable[str], sent: AbstractSet[str] | dict[str, Any]) -> None:
    unexplained, unsent = sorted(set(sent) - set(names)), sorted(set(names) - set(sent))
    if unexplained or unsent:
        raise ValueError(f"{what}: sent and not explained: {unexplained}; explained and not sent: {unsent}")


if __name__ == "__main__":
    main()
