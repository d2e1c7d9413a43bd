"""The documentation is held against the tree."""

from __future__ import annotations

import re

import open_webui_openrouter_pipe
from scripts import errors_page, settings_page
from scripts.paths import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_the_settings_page_says_what_the_code_says() -> None:
    """If this fails, run `python -m scripts.settings_page`."""
    assert settings_page.PAGE.read_text("utf-8") == settings_page.render()


def test_the_errors_page_says_what_the_code_says() -> None:
    """If this fails, run `python -m scripts.errors_page`."""
    assert errors_page.PAGE.read_text("utf-8") == errors_page.render()


def test_links_between_pages_lead_somewhere() -> None:
    """Every relative link and picture of the documentation exists."""
    targets = [
        (page.name, target)
        for page in PAGES
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text("utf-8"))
        if not (page.parent / target).exists()
    ]
    assert targets == []


def test_the_readme_is_short() -> None:
    """A newcomer reads it in one go."""
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 120


def test_the_changelog_knows_the_version() -> None:
    """The version that is built has an entry."""
    changelog = (ROOT / "docs" / "changelog.md").read_text("utf-8")
    assert f"## {open_webui_openrouter_pipe.__version__}" in changelog
