"""What the pages that answer commands share: the document around one, its style and script, tables. Pure.

One text without external resources, which says all of it without its script too. No other script than the page's own
runs. `frame.css` and `frame.js` are in every page, those of its own name behind them. A page is as high as its content,
and has the theme that `data-theme` names, or else the browser's; as an embed of the same origin it follows the host's.
Source of what Open WebUI hears of an embed (`iframe:height`, `input:prompt:submit`): `FullHeightIframe.svelte` and
`Chat.svelte` of Open WebUI 0.12.
"""

from __future__ import annotations

import base64
import hashlib
import pkgutil
import re
from collections.abc import Iterable
from functools import cache
from html import escape
from typing import Final

from ..words.lines import Say

_CODE: Final = re.compile("`([^`]*)`")


def document(name: str, title: str, content: str, say: Say) -> str:
    """Return an HTML document with the style and the script of the page of this name."""
    style, script = (_read(name, kind) for kind in ("css", "js"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; style-src 'unsafe-inline'; "
        f"script-src 'sha256-{digest}'"
    )
    return (
        f'<!doctype html><html lang="{say("context_page_language")}"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{style}</style></head>"
        f"<body><main><h1>{title}</h1>{content}</main><script>{script}</script></body></html>"
    )


@cache
def _read(name: str, kind: str) -> str:
    """Return what all pages have, and what this one has besides."""
    files = (pkgutil.get_data(__package__, f"{each}.{kind}") or b"" for each in ("frame", name))
    return b"".join(files).decode()


def table(style: str, label: str, columns: Iterable[str], rows: Iterable[str]) -> str:
    """Return a table of rows that are written already."""
    header = "".join(f'<th scope="col">{words}' for words in columns)
    return f'<table class="{style}" aria-label="{label}"><thead><tr>{header}<tbody>{"".join(rows)}</table>'


def paragraph(words: str, style: str) -> str:
    """Return a paragraph."""
    return f'<p class="{style}">{words}</p>'


def marked(words: str) -> str:
    """Mark what users type in a line, which stands between backticks."""
    return _CODE.sub(r"<code>\1</code>", words)


def escaped(words: str) -> str:
    """Escape for the content of an element and for a quoted attribute; what no database keeps as text is replaced."""
    return escape(words.encode("utf-8", "replace").decode().replace("\0", "?"))
