"""Whether the host saves valves, and an error whose text its dialog shows, by the host's own functions."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from open_webui_openrouter_pipe.host.platform import SAVING_FUNCTIONS, NotSaved, is_saving
from tests.support.inside import inside_open_webui

LINE = "Not saved. RETRY_SECONDS takes a number, 0 or more."


class Asked:
    """Valves that keep whether the host was saving when they were made."""

    def __init__(self) -> None:
        self.was_saving = is_saving()


def update_function_valves_by_id() -> Asked:
    """Named like the host's."""
    return Asked()


def update_function_user_valves_by_id() -> Asked:
    """Named like the host's."""
    return Asked()


def test_only_the_function_that_saves_a_form_is_known() -> None:
    """By its name, one call above the constructor."""
    saving = (update_function_valves_by_id, update_function_user_valves_by_id)
    assert {function.__name__ for function in saving} == SAVING_FUNCTIONS
    assert [function().was_saving for function in saving] == [True, True]
    assert not Asked().was_saving


def visit_the_host() -> tuple[set[str], int, str]:
    """The functions that the host has of these, and what it answers to a refusal."""
    from fastapi import HTTPException
    from open_webui import constants

    source = (Path(constants.__file__).parent / "routers" / "functions.py").read_text("utf-8")
    functions = {node.name for node in ast.parse(source).body if isinstance(node, ast.AsyncFunctionDef)}
    refused = NotSaved(LINE)
    try:
        text = constants.ERROR_MESSAGES.DEFAULT(refused, "Error updating function valves")
    except HTTPException as error:
        return functions & SAVING_FUNCTIONS, error.status_code, error.detail
    return functions & SAVING_FUNCTIONS, 0, text


@pytest.mark.live
def test_the_host_shows_why(tmp_path: Path) -> None:
    """In place of its own words, which name neither the valve nor the reason."""
    assert inside_open_webui(tmp_path, {}, visit_the_host) == (set(SAVING_FUNCTIONS), 400, LINE)
    assert str(NotSaved(LINE)) == LINE
