"""Automations of a real Open WebUI: chats that it begins by itself, with nobody at a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.live.chats import MODEL, REPLAYED, end_of, kinds
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from scripts.harness.openwebui import OpenWebUI
    from scripts.standin import StandIn

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("live_pipe")]

PATIENT = "patient"
PATIENCE = """
from open_webui.utils import recurrence

recurrence.RRULE_TIMEOUT_SECONDS = 900


class Filter:
    pass
"""


@pytest.fixture(scope="module", autouse=True)
def schedules_are_read_however_long_it_takes(open_webui: OpenWebUI) -> None:
    """Open WebUI starts a process to read one, and gives it two seconds: too few on a busy machine."""
    api = open_webui.admin.api
    api.install_function(PATIENT, PATIENT, PATIENCE)
    api.delete(f"/api/v1/functions/id/{PATIENT}/delete")


def run(host: OpenWebUI, prompt: str) -> dict[str, Any]:
    """Have an automation run now, and return what the host says of it."""
    data = {"prompt": prompt, "model_id": MODEL, "rrule": "RRULE:FREQ=DAILY;BYHOUR=8;BYMINUTE=0"}
    api = host.admin.api
    created = api.post("/api/v1/automations/create", {"name": "Morning", "data": data})
    try:
        api.post(f"/api/v1/automations/{created['id']}/run")
        wait_until(lambda: api.get(f"/api/v1/automations/{created['id']}/runs"))
        (done,) = api.get(f"/api/v1/automations/{created['id']}/runs")
    finally:
        api.delete(f"/api/v1/automations/{created['id']}/delete")
    return dict(done)


def test_an_automation_is_answered_and_may_go_on(open_webui: OpenWebUI, standin: StandIn) -> None:
    """Its variables are filled; a user who goes on in its chat has the reasoning replayed."""
    done = run(open_webui, "Good morning, {{USER_NAME}}.")
    assert (done["status"], done["error"]) == ("success", None)
    open_webui.admin.ask(MODEL, "And now?", after=end_of(open_webui.admin, done["chat_id"]))
    first, second = (request.body["input"] for request in standin.responses)
    assert first[-1]["content"][0]["text"] == "Good morning, Admin."
    assert kinds(second) == REPLAYED


def test_a_failed_automation_says_why(open_webui: OpenWebUI, standin: StandIn) -> None:
    """In the host's list of runs, and in the chat."""
    standin.script({"do": "error=402", "times": 5})
    done = run(open_webui, "Good morning.")
    assert done["status"] == "error"
    assert "too few credits" in done["error"]


def test_nobody_is_asked_about_the_price(
    open_webui: OpenWebUI, standin: StandIn, valves: Callable[..., None]
) -> None:
    """Since nobody is there; the limits hold all the same."""
    # what runs under a limit is held until its bill is written, so the next one is refused however soon it comes
    valves(CONFIRM_ABOVE_DOLLARS=0.000001, SPENDING_LIMITS="all: 1000000/day")
    assert run(open_webui, "Good morning.")["status"] == "success"
    valves(CONFIRM_ABOVE_DOLLARS=None, SPENDING_LIMITS="all: 0.000001/day")
    done = run(open_webui, "Good morning.")
    assert "spending limit" in done["error"]
    assert len(standin.responses) == 1
