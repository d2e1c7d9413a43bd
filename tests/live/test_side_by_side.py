"""Tools of a real Open WebUI that run side by side in the function: every kind at once, approvals, Stop, the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from selenium.webdriver.common.by import By

from open_webui_openrouter_pipe.host.native import INTERRUPTED
from tests.live.chats import talk
from tests.live.items import answers, each_continues, inputs, outputs_of, statuses
from tests.live.models import MODEL, SCRIPTED, Valves
from tests.live.test_waiting import pictures_of
from tests.support.host_source import is_older
from tests.support.tool_servers import MCP_TOOL, OPENAPI_TOOL, SERVERS, call_of, tool_servers
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scripts.harness.browser import Browser
    from scripts.harness.openwebui import Account, OpenWebUI
    from scripts.standin import StandIn
    from tests.live.models import Json

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("side_by_side")]

TOOL = "meetings"
CODE = '''
import asyncio

THREE = asyncio.Barrier(3)
DOT = (
    "data:image/png;base64,"
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR42mNgAAAAAgAB5Sfe/AAAAABJRU5ErkJggg=="
)


class Tools:
    async def meet(self, name: str) -> str:
        """
        Meet two others.
        """
        await THREE.wait()
        return f"{name} has met the others."

    async def draw_dot(self) -> str:
        """
        Draw a dot.
        """
        return DOT

    def fail(self) -> str:
        """
        Fail.
        """
        raise ValueError("It is broken.")

    async def wait_long(self) -> str:
        """
        Wait.
        """
        await asyncio.sleep(600)
        return "Done."

    async def wait_briefly(self, seconds: float) -> str:
        """
        Wait briefly.
        """
        await asyncio.sleep(seconds)
        return f"Waited {seconds} s."
'''
MEET = " ".join(call_of("meet", name=name) for name in ("Ann", "Bob", "Cy"))


@pytest.fixture
def side_by_side(open_webui: OpenWebUI, valves: Valves, accepted: None) -> Iterator[None]:
    """The function runs tools, and the administrator has some; every request is valid."""
    if is_older():
        pytest.skip("this Open WebUI runs all tools itself")
    open_webui.add_tool(TOOL, CODE)
    valves(TOOL_EXECUTION="pipe")
    yield accepted
    open_webui.admin.api.delete(f"/api/v1/tools/id/{TOOL}/delete")


def test_tools_of_all_kinds_run_at_once(admin: Account, standin: StandIn) -> None:
    """Three wait for each other; servers, a picture, a failure and one of the host's own beside them.

    The picture is a file of the host's. The next turn begins with the same bytes.
    """
    others = " ".join((call_of(MCP_TOOL, title="Emma"), call_of(OPENAPI_TOOL, title="Emma")))
    plain = " ".join(map(call_of, ("draw_dot", "fail", "get_current_timestamp")))
    with tool_servers(admin):
        first, _ = talk(
            admin, MODEL, f"{MEET} {others} {plain} What?", "Thank you.", tool_ids=[TOOL, *SERVERS]
        )
    assert len(answers(standin)) == 3
    said = str(outputs_of(inputs(standin)[1]))
    for text in ("Ann has met", "Cy has met", "floor 42", "2027-01-31", "It is broken.", "read successfully"):
        assert text in said
    returned = [item for item in first[1]["output"] if item["type"] == "function_call_output"]
    pictures = [part for item in returned for part in item["output"] if part["type"] == "input_image"]
    assert [each["image_url"].startswith("/api/v1/files/") for each in pictures] == [True]
    assert "input_image" in str(inputs(standin)[1][-1])
    assert each_continues(inputs(standin)[1:])


def test_what_is_to_be_approved_waits_for_the_user(admin: Account, standin: StandIn) -> None:
    """The host has the calls: one is approved and one is not, and the turn goes on with both answers."""

    def pending() -> Json | None:
        items = admin.message(sent).get("output") or []
        return next((item for item in items if item.get("status") == "pending"), None)

    config = admin.api.get("/api/v1/chats/config")
    admin.api.post("/api/v1/chats/config", {**config, "ENABLE_TOOL_PERMISSIONS": True})
    calls = f"{call_of('draw_dot')} {call_of('fail')}"
    sent = admin.send(MODEL, f"{calls} Please.", tool_ids=[TOOL], params={"tool_approval_mode": "ask"})
    path = f"/api/v1/chats/{sent.chat_id}/messages/{sent.message_id}/resolve"
    for action in ("approve", "reject"):
        call = wait_until(pending)
        admin.api.post(path, {"call_id": call["call_id"], "action": action})
    admin.wait(sent)
    admin.api.post("/api/v1/chats/config", config)
    admin.ask(MODEL, "And now?", after=sent)
    said = str(outputs_of(inputs(standin)[-1]))
    assert "read successfully" in said
    assert "It is broken." not in said


def test_stop_ends_the_tools(admin: Account, standin: StandIn) -> None:
    """The user and the model read that they were interrupted; the next turn is answered."""
    calls = f"{call_of('wait_long')} {call_of('draw_dot')} {call_of('wait_long')}"
    with admin.session() as tab:
        sent = admin.send(MODEL, f"{calls} Please.", tool_ids=[TOOL], session_id=tab.id)
        wait_until(lambda: "read successfully" in str(tab.events))
        admin.stop(sent)
        answer = wait_until(lambda: (found := admin.message(sent)).get("done") and found)
    admin.ask(MODEL, "And now?", after=sent)
    assert statuses(answer).count("wait_long was stopped.") == 2
    said = outputs_of(inputs(standin)[-1])
    assert [each == INTERRUPTED for each in said] == [False, True, True]


@pytest.mark.browser
def test_a_person_sees_each_tool_end(admin: Account, page: Browser, standin: StandIn) -> None:
    """A card for each call, with its result once it has ended; the same after a reload, and in the next turn."""
    brief = " ".join(f'[[standin: call=wait_briefly args={{"seconds":{each}}}]]' for each in (3, 25))
    sent = admin.send(SCRIPTED, f"{brief} Please.", tool_ids=[TOOL])
    page.open_chat(sent.chat_id)
    page.wait(lambda: "wait_briefly" in page.last_message(), 60)
    page.driver.find_elements(By.XPATH, "//*[contains(text(), 'Exploring')]")[-1].click()
    page.wait(lambda: "Tools are running... 8 s." in page.last_message(), 60)
    pictures_of(page, "side-by-side")
    page.wait_for_text("The tools answered")
    page.screenshot("side-by-side-answered")
    page.driver.refresh()
    page.wait_for_text("The tools answered")
    page.send("And now?")
    assert "And now?" in page.wait_for_answer()
    page.screenshot("side-by-side-next-turn")
    assert each_continues(inputs(standin)[1:])
