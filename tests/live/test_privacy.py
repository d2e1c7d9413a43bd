"""What leaves a real Open WebUI in an ordinary session: nothing but what docs/privacy.md names."""

from __future__ import annotations

from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from scripts.harness.openwebui import Account
from scripts.pages import PAGES, explained
from scripts.privacy_session import PDF, PNG, fields_of, headers_of, kind_of
from scripts.standin import StandIn

pytestmark = pytest.mark.live

MODEL = "openrouter.openai/gpt-5.2"
TASKS = {"title_generation": True, "tags_generation": True, "follow_up_generation": True}
FILES = {"a.png": (PNG, "image/png"), "b.pdf": (PDF, "application/pdf"), "c.txt": (b"A heron.", "text/plain")}


def test_a_session_sends_what_the_page_names(admin: Account, standin: StandIn) -> None:
    """Two turns with files, built-in tools and thinking, their tasks, and the list of models; no name and no id."""
    files = [admin.upload(name, *content) for name, content in FILES.items()]
    with admin.session() as tab:
        fields: dict[str, Any] = {"session_id": tab.id, "background_tasks": TASKS}
        sent, _ = admin.ask(MODEL, "[[standin: reasoning=summary]] What is it?", files=files, **fields)
        tab.wait_for("chat:message:follow_ups")
        tab.wait_for("chat:tags")
        admin.ask(MODEL, "[[standin: call=get_current_timestamp]] And now?", after=sent, session_id=tab.id)
    me = admin.api.get("/api/v1/auths/")
    requests = standin.requests
    page = PAGES["privacy"].read_text("utf-8")
    paths = {name.partition("?")[0] for name in explained(page, "requests")}
    assert {f"{each.method} {each.path}" for each in requests} <= paths
    assert set(headers_of(requests)) <= explained(page, "headers").keys()
    fields = explained(page, "fields") | explained(page, "further fields")
    assert set(fields_of(requests)) <= fields.keys()
    assert Counter(map(kind_of, standin.responses))["answer"] == 3
    everything = "".join(each.raw.decode() + str(each.headers) for each in requests)
    private = (me["id"], me["email"], me["name"], sent.chat_id, sent.message_id, admin.api.token)
    assert [name for name in private if name in everything] == []


def test_the_hosts_page_asks_google_for_the_icons_of_cited_sites() -> None:
    """As the page says; it is no part of the pipe, but administrators should know."""
    spec = find_spec("open_webui")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    chunks = Path(spec.submodule_search_locations[0], "frontend", "_app").rglob("*.js")
    assert any("https://www.google.com/s2/favicons" in chunk.read_text("utf-8") for chunk in chunks)
