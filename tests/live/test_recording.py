"""Recording in a real Open WebUI: how an administrator begins it, what is read meanwhile, and the file."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from selenium.webdriver.common.by import By

from open_webui_openrouter_pipe.replay.recordings import read_recording
from open_webui_openrouter_pipe.words.lines import notice
from scripts.bundle import builder
from scripts.harness.openwebui import TOOL
from scripts.paths import PACKAGE
from tests.live.items import statuses
from tests.live.models import CALL, MODEL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scripts.harness.browser import Browser
    from scripts.harness.openwebui import Account, OpenWebUI
    from scripts.standin import StandIn

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("admin")]

MAINTENANCE = builder.MAINTENANCE.id
NAME = "OpenRouter maintenance"
LINE = notice("recorded")
PAGE_PATHS = re.compile(r"/cache/openrouter_pipe/recordings/[\w-]+\.jsonl")
SECRET = "Ophelia"
FETCH = "const [path, done] = arguments; fetch(path).then(answer => done(answer.status))"
"""As a click on the link does, by the cookie of the page."""


@pytest.fixture
def maintenance(admin: Account) -> Iterator[str]:
    """The function for maintenance, which is deleted after the test; no recording runs then."""
    part = builder.part_of(builder.read_package(PACKAGE), builder.MAINTENANCE)
    admin.api.install_function(MAINTENANCE, NAME, builder.pack(part, builder.MAINTENANCE))
    model = next(name for name in admin.api.models() if name.startswith(f"{MAINTENANCE}"))
    yield model
    admin.ask(model, "record stop")
    admin.api.delete(f"/api/v1/functions/id/{MAINTENANCE}/delete")
    admin.api.models()


@pytest.mark.browser
def test_an_administrator_records_what_users_chat(
    maintenance: str, page: Browser, admin: Account, open_webui: OpenWebUI, standin: StandIn
) -> None:
    """Begun and ended in a chat; a user reads the line above an answer with a tool; the file has its form alone."""
    page.pick_model(NAME)
    for text, said in (("record 10", "Nothing is recorded yet"), ("record 10 now", "It records until")):
        page.send(text)
        assert said in page.wait_for_answer()
    page.new_chat()
    page.pick_model("OpenAI: GPT-5.2")
    page.send(f"Where is {SECRET}?")
    page.wait_for_answer()
    page.wait(lambda: "recording this answer" in page.last_message())
    page.screenshot("recorded")
    sent, answer = admin.ask(MODEL, f"{CALL} {SECRET}", tool_ids=[TOOL])
    assert statuses(answer).count(LINE) == 1
    _, ended = admin.ask(maintenance, "record stop")
    path = PAGE_PATHS.search(ended["content"])
    assert path is not None, ended["content"]
    page.new_chat()
    page.pick_model(NAME)
    page.send("record")
    assert "Nothing is being recorded" in page.wait_for_answer()
    link = page.find(By.CSS_SELECTOR, f"a[href$='{path[0].rpartition('/')[2]}']")
    assert str(link.get_attribute("href")) == f"{open_webui.url}{path[0]}"
    page.screenshot("recordings")
    assert page.driver.execute_async_script(FETCH, path[0]) == 200
    written = admin.api.content(path[0]).decode()
    found = [SECRET, SECRET.lower(), "Paris", "degrees", admin.api.get("/api/v1/auths/")["id"], sent.chat_id]
    assert [word for word in found if word in written] == []
    lines: list[Any] = [json.loads(line) for line in written.splitlines()]
    exchanges = read_recording(lines)
    assert exchanges is not None
    kinds = [[item["type"] for item in exchange.as_json()["items"]] for exchange in exchanges]
    assert ["reasoning", "function_call"] in kinds
    assert len(kinds) <= len(standin.responses)
    before = len(lines)
    admin.ask(MODEL, "Hello")
    assert len(admin.api.content(path[0]).decode().splitlines()) == before
