"""The documentation is held against the tree."""

from __future__ import annotations

import re
from datetime import date
from urllib.parse import urlsplit

import pytest

import open_webui_openrouter_pipe
from open_webui_openrouter_pipe.money.prices import dollars
from open_webui_openrouter_pipe.valves import UserValves, text_of
from open_webui_openrouter_pipe.words.lines import notice
from scripts import pages
from scripts.paths import ROOT
from tests.support.pages import PAGES, anchors, links, name_of

STATUS_LINES = [
    notice(
        "summarized_cost",
        line=notice("summarized", before_tokens=43_113, after_tokens=9_128),
        cost=dollars(0.0312),
    ),
    notice("lacking_shortened", count=6, of=9, tokens=5_800),
    notice("lacking_facts", count=3, tokens=12_000),
    notice("lacking_clipped", count=4),
    notice("attachments_not_sent", count=1, reason=notice("attachment_no_image")),
    notice(
        "document_as_excerpts",
        name="minutes.docx",
        reason=notice("attachment_kind", kind=notice("kind_word")),
    ),
    notice("images_omitted", count=2),
    notice("answer_at_output_limit"),
    notice("artifacts_missing", count=2, details=notice("artifact_missing", count=2)),
    notice(
        "limit_near",
        whose=notice("limit_of_user"),
        amount="$2.00",
        period=notice("period_day"),
        when=notice("on_day_at", day=date(2026, 11, 29), clock="00:00"),
    ),
]
"""What docs/user-guide.md explains."""


@pytest.mark.parametrize("name", ["settings", "errors"])
def test_the_page_says_what_the_code_says(name: str) -> None:
    """If this fails, run `python -m scripts.pages`."""
    page = pages.PAGES[name].read_text("utf-8")
    assert pages.render(name, page) == page


def test_links_lead_somewhere() -> None:
    """Each file that is linked exists, with the heading that the link names; those to the web have a host and TLS."""
    wrong = []
    for page, target in links():
        if re.match(r"[a-z]+:", target):
            address = urlsplit(target)
            is_right = address.scheme == "https" and "." in (address.hostname or "")
        else:
            path, _, anchor = target.partition("#")
            file = page.parent / path if path else page
            is_right = file.is_file() and (not anchor or anchor in anchors(file))
        if not is_right:
            wrong.append((name_of(page), target))
    assert wrong == []


def test_every_page_begins_with_a_paragraph() -> None:
    """What its reader gets stands directly under its title, before the first heading or table."""
    beginnings = {name_of(page): page.read_text("utf-8").split("\n\n")[:2] for page in PAGES}
    wrong = [
        name
        for name, (title, first) in beginnings.items()
        if not title.startswith("# ") or len(first) < 60 or first.startswith(("#", "|", "-", "```", "!"))
    ]
    assert wrong == []


@pytest.mark.parametrize("page", ["README.md", "docs/user-guide.md"])
def test_what_everybody_reads_is_one_page(page: str) -> None:
    """A newcomer, or an ordinary user, reads it in one go."""
    assert len((ROOT / page).read_text("utf-8").splitlines()) <= 120


def test_the_user_guide_quotes_lines_that_exist() -> None:
    """Each line of its table is what users read."""
    page = (ROOT / "docs" / "user-guide.md").read_text("utf-8").partition("## Lines beside an answer")[2]
    quoted = re.findall(r"^\| `(.+?)` \|", page.partition("\n## ")[0], re.MULTILINE)
    assert quoted == STATUS_LINES


def test_the_user_guide_names_settings_as_the_form_does() -> None:
    """Each in its table is the title of one of the user's valves, without the group before it."""
    page = (ROOT / "docs" / "user-guide.md").read_text("utf-8").partition("## Your own settings")[2]
    named = re.findall(r"^\| ([A-Z][\w ,]+) \|", page.partition("\n## ")[0], re.MULTILINE)
    titles = {text_of(UserValves, name).title.partition(" · ")[2] for name in UserValves.model_fields}
    assert len(named) > 5
    assert {name for names in named for name in names.split(", ")} - titles == set()


def test_the_changelog_begins_with_what_is_built() -> None:
    """The first section is that of the version, or says that it is not released."""
    first = (ROOT / "CHANGELOG.md").read_text("utf-8").split("\n## ")[1].splitlines()[0]
    assert first in {open_webui_openrouter_pipe.__version__, "Unreleased"}


def test_the_list_of_pages_names_each_once() -> None:
    """With its link, in the tables of docs/README.md."""
    listed = re.findall(
        r"^\| \[[^\]]+\]\(([\w-]+\.md)\)", (ROOT / "docs" / "README.md").read_text("utf-8"), re.MULTILINE
    )
    pages = {page.name for page in PAGES if page.parent == ROOT / "docs"}
    assert sorted(listed) == sorted(pages - {"README.md"})
