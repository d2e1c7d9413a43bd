"""docs/privacy.md names exactly what the stand-in's log has: every request, header and field of two sessions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from open_webui_openrouter_pipe.openrouter.fields import PARAMETERS
from scripts import privacy_session
from scripts.pages import PAGES, explained, privacy

if TYPE_CHECKING:
    from scripts.standin.state import RecordedRequest

PAGE = PAGES["privacy"].read_text("utf-8")
NEVER_SENT = {"metadata"}
"""A field of the Responses API that the pipe knows, and that Open WebUI keeps for itself: `host/call.py`."""


@pytest.fixture(scope="module")
def sessions() -> tuple[list[RecordedRequest], list[RecordedRequest]]:
    """The requests of the ordinary session, and of the one with everything."""
    return privacy_session.sessions()


def test_the_page_says_what_is_sent(
    sessions: tuple[list[RecordedRequest], list[RecordedRequest]],
) -> None:
    """If this fails, explain there what is new, and run `python -m scripts.pages privacy`."""
    assert privacy(PAGE, *sessions) == PAGE


def test_what_is_not_explained_is_an_error(
    sessions: tuple[list[RecordedRequest], list[RecordedRequest]],
) -> None:
    """A field that is sent and not on the page, and a header; so the test above cannot pass beside one."""
    ordinary, everything = sessions
    field = replace(ordinary[-1], body={**ordinary[-1].body, "nickname": "Ada"})
    header = replace(ordinary[-1], headers={**ordinary[-1].headers, "cookie": ""})
    for wrong, name in ((field, "nickname"), (header, "cookie")):
        with pytest.raises(ValueError, match=f"sent and not explained: .'{name}'."):
            privacy(PAGE, [*ordinary, wrong], everything)
    with pytest.raises(ValueError, match=r"explained and not sent: .'GET /endpoints/zdr'"):
        privacy(PAGE, ordinary, ordinary)


def test_every_field_that_can_be_sent_is_on_the_page() -> None:
    """The fields of the table by which bodies are written, whatever the sessions do."""
    fields = explained(PAGE, "fields") | explained(PAGE, "further fields")
    named = {name.partition(".")[0].partition("[")[0] for name in fields}
    assert named - {"stream"} == {each.field for each in PARAMETERS} - NEVER_SENT


def test_ids_are_not_sent(
    sessions: tuple[list[RecordedRequest], list[RecordedRequest]],
) -> None:
    """Those that Open WebUI has for the user, the chat and the message, in no body and no header."""
    ids = (privacy_session.USER_ID, privacy_session.CHAT_ID, "message-1")
    for request in (each for session in sessions for each in session):
        sent = request.raw.decode() + str(request.headers)
        assert [name for name in ids if name in sent] == []
