"""A user's own API key, from the host's form to the request's settings, in a process with Open WebUI's secret."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe.settings import read_settings
from open_webui_openrouter_pipe.valves import UserValves, Valves
from tests.support.inside import inside_open_webui

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.live

KEY = "sk-or-v1-0123456789abcdef"


def visit(key: str) -> dict[str, Any]:
    """What the host stores of a key, what it stores when its page sends that back, and what requests use."""
    first = UserValves(API_KEY=key).model_dump(exclude_unset=True)
    second = UserValves(**first).model_dump(exclude_unset=True)
    hiding = Valves(USER_CONTROLS="WEB_SEARCH")
    return {
        "first": first,
        "second": second,
        "used": read_settings(Valves(), UserValves(**second)).controls.own_api_key,
        "hidden": read_settings(hiding, UserValves(**second)).controls.own_api_key,
        "none": UserValves(API_KEY="").model_dump(exclude_unset=True),
    }


def refused(fields: dict[str, Any]) -> str:
    """What the host logs of a form that it does not take."""
    try:
        UserValves(**fields)
    except ValueError as error:
        return f"{error!r} {error}"
    return ""


def test_a_key_is_stored_sealed(tmp_path: Path) -> None:
    """Saving it again changes nothing; requests get the key, unless the valve is hidden or the secret is another."""
    found = inside_open_webui(tmp_path, {}, visit, f" {KEY}\n")
    stored = found["first"]["API_KEY"]
    assert stored.startswith("sealed:")
    assert KEY[:12] not in stored
    assert found["second"] == found["first"]
    assert (found["used"], found["hidden"], found["none"]) == (KEY, None, {"API_KEY": ""})
    elsewhere = inside_open_webui(tmp_path, {"WEBUI_SECRET_KEY": "another"}, visit, stored)
    assert (elsewhere["first"], elsewhere["used"]) == (found["first"], "")


def test_no_error_of_the_form_repeats_a_key(caplog: pytest.LogCaptureFixture) -> None:
    """The host writes them to its log."""
    caplog.set_level(logging.DEBUG)
    for fields in ({"API_KEY": [KEY]}, {"API_KEY": KEY.encode() + b"\xff"}):
        said = refused(fields)
        assert "API_KEY" in said
        assert KEY not in said
