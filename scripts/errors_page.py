"""Writes docs/errors.md: what users and administrators read of each failure, by the table that decides.

`python -m scripts.errors_page`
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from open_webui_openrouter_pipe.notices import admin_notice, notice
from open_webui_openrouter_pipe.openrouter.errors import RULES, UNKNOWN
from scripts.paths import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

    from open_webui_openrouter_pipe.openrouter.errors import Rule

PAGE = ROOT / "docs" / "errors.md"

_HEAD = """# Errors

An answer that fails ends with one line: what happened, and what to do about it. What was written before stays. The
line ends with a reference of six letters, such as `(reference KTRWPB)`; the server's log has a line that begins with
the same letters, with what OpenRouter said and its own id of the request (`gen-...`). Who can change settings, an
administrator, reads other words where there is more that they can do.

This page is written by `python -m scripts.errors_page`.

## In which language, and how much

Status lines, errors, questions about a price and the answers of the status entry are in the user's language: English,
German, French, Spanish, Portuguese (Brazil), Chinese (simplified) or Japanese, with its numbers and money. For any
other language they are English. What counts, the first that is known:

1. the language that the page is set to, which it sends with each message;
2. in channels and for programs, what the request accepts (`Accept-Language`);
3. for automations, which have neither, the server's own `DEFAULT_LOCALE`.

Names in the list of models are English, since the host keeps one list for all users, and so are the log and everything
that a model reads: the language is never part of a request.

With their valve `STATUS_LINES`, users see all status lines, only `important` ones (what was cut, lost or not as they
wanted it), or `none`. Errors are always shown. "Press Continue Response" is said only to those who have that button: it
is under the last answer of a chat, unless an administrator has taken the permission away.

## When a request is asked again

Only before anything of the answer was shown, three tries at most in all, and no longer than the valve `RETRY_SECONDS`
says. OpenRouter's word counts (`Retry-After` in seconds, as a date or in milliseconds, `X-RateLimit-Reset`); without
one the pipe waits half a second for a lost connection and two seconds for a busy provider, and twice as long the next
time, always with a little added by chance. A status line counts down. What OpenRouter wants to have waited for longer
is an error at once, which says for how long.

A reasoning effort that the model does not know is replaced by the nearest one, and a parameter that it does not take is
omitted, each once; a status line says so. Parameters that guard money, privacy or the form of the answer are never
omitted.

After five connections in a row that failed, nothing is sent to that address for ten seconds, then longer, up to two
minutes; the error says when the next try is. Answers that are being written go on.

## When many requests run

`MAX_REQUESTS` and `MAX_REQUESTS_PER_USER` limit how many run at once in each server process. Up to 200 more wait, a
minute at most, with a status line: one user after the other, chats before titles, tags and follow-ups.
"""
_TABLE_HEAD = """
## Failures that OpenRouter reports

The first row that fits counts. Statuses are those of HTTP, or the same numbers and words inside a stream.

| recognized by | the user reads | an administrator reads | asked again |
|---|---|---|---|
"""
_WORDS = {"provider": "The provider", "quote": "", "wait": notice("wait_unknown")}


def render() -> str:
    """The whole page."""
    return _HEAD + _TABLE_HEAD + "".join(f"{_row(rule)}\n" for rule in (*RULES, UNKNOWN))


def main() -> None:
    """Write the page."""
    PAGE.write_text(render(), "utf-8")


def _row(rule: Rule) -> str:
    user, admin = (_line(say, rule.notice) for say in (notice, admin_notice))
    return f"| {_marks(rule)} | {user} | {'the same' if admin == user else admin} | {'yes' if rule.passes else 'no'} |"


def _line(say: Callable[..., str], name: str) -> str:
    words = {**_WORDS, "wait": notice("wait_tomorrow")} if name == "free_daily_limit" else _WORDS
    return re.sub(r"\s+", " ", say(name, **words)).strip()


def _marks(rule: Rule) -> str:
    if isinstance(rule.statuses, range):
        statuses = f"any other {rule.statuses[0] // 100}xx"
    else:
        statuses = ", ".join(map(str, sorted(rule.statuses)))
    words = ", ".join(f"`{code}`" for code in sorted(rule.codes))
    marks = [statuses, words, "its words" if rule.text else ""]
    if rule.notice in {"effort_rejected", "parameter_rejected"}:
        marks = [f"{statuses} that names it"]
    return "; ".join(filter(None, marks)) or "anything else"


if __name__ == "__main__":
    main()
