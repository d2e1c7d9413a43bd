"""Which text of an item may be cut, and what the item is then."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from open_webui_openrouter_pipe.planning.detail import excerpt_text, with_text
from open_webui_openrouter_pipe.responses.items import Item
from tests.support.chats import answer, call, output, reasoning, user

NOTES = "data:text/plain;base64," + base64.b64encode(b"first line of the notes").decode()
IMAGE = {"type": "input_image", "detail": "auto", "image_url": "https://host/ship.png"}
FILE = {"type": "input_file", "filename": "plan.pdf", "file_data": "data:application/pdf;base64,JVBERi0="}
TEXT_FILE = {"type": "input_file", "filename": "notes.txt", "file_data": NOTES}


def cut(text: str) -> str:
    """The first four characters."""
    return text[:4]


def shortened(item: Item) -> Item:
    """The item with its text cut."""
    text = excerpt_text(item, cut)
    assert text is not None
    return with_text(item, text)


def message(*parts: dict[str, Any]) -> Any:
    """A user's message of these parts."""
    return {**user(""), "content": list(parts)}


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        pytest.param(user("What is it?"), user("What"), id="question"),
        pytest.param(answer("It is late.", "msg_7"), answer("It i", "msg_7"), id="answer"),
        pytest.param(
            {**answer(""), "content": [{"type": "refusal", "refusal": "I cannot."}]},
            answer("I ca"),
            id="refusal",
        ),
        pytest.param(output("call_1", "12345678"), output("call_1", "1234"), id="output"),
        pytest.param(
            call("call_1", '{"path": "a.txt/b", "text": "größer", "edits": [{"new": "longer"}, 20]}'),
            call("call_1", '{"path": "a.tx", "text": "größ", "edits": [{"new": "long"}, 20]}'),
            id="arguments",
        ),
        pytest.param(call("call_1", "not JSON at all"), call("call_1", "not JSON at all"), id="no JSON"),
        pytest.param(
            message({"type": "input_text", "text": "Look here"}, IMAGE, FILE),
            user("Look\n[image omitted]\n[file omitted]"),
            id="media",
        ),
        pytest.param(message(TEXT_FILE), user("firs"), id="text file"),
    ],
)
def test_an_item_keeps_its_kind_its_ids_and_its_place(item: Item, expected: Item) -> None:
    """Texts are cut as one, arguments remain JSON, and media give way to a line that names them."""
    assert shortened(item) == expected


def test_arguments_remain_json_whatever_they_hold() -> None:
    """Quotes and lines in a cut text are escaped again."""
    item = call("call_1", json.dumps({"text": '"a"\n"b" and more'}))
    assert json.loads(str(dict(shortened(item))["arguments"])) == {"text": '"a"\n'}


def test_reasoning_has_no_text_to_cut() -> None:
    """It is sent as it is, or not at all."""
    assert excerpt_text(reasoning(), cut) is None
    assert with_text(reasoning(), "") == reasoning()
