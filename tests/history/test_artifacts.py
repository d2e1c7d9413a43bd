"""Stored items on their way back: whole ones unchanged, others repaired or rejected."""

from __future__ import annotations

from typing import Any

import pytest

from open_webui_openrouter_pipe.history.artifacts import (
    model_family,
    normalize_persisted_item,
    reasoning_problem,
)
from open_webui_openrouter_pipe.responses.items import ITEM_KINDS
from scripts.standin import sdk_schema
from tests.history.builders import assert_valid, call, output, reasoning, text, thinking

STORED_PICTURE = "/api/v1/files/7f/content"

WHOLE: list[dict[str, Any]] = [
    reasoning("rs_1"),
    thinking("rs_2"),
    {**reasoning("rs_3"), "encrypted_content": None, "content": None, "signature": None, "format": None},
    call("c1", '{"a": 1}', id="fc_1", status="completed"),
    output("c1", "text"),
    output("c1", [text("a"), {"type": "input_image", "detail": "auto", "image_url": "https://x.org/a.png"}]),
    {
        "type": "web_search_call",
        "id": "ws_1",
        "status": "completed",
        "action": {"type": "open_page", "url": "u"},
    },
    {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "AAAA"},
    {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": STORED_PICTURE},
    {"type": "openrouter:image_generation", "status": "completed", "result": STORED_PICTURE},
    {"type": "openrouter:image_generation", "status": "completed", "imageUrl": STORED_PICTURE},
    {"type": "openrouter:web_search", "id": "st_1", "status": "completed"},
    {"type": "compaction", "encrypted_content": "sealed"},
]


@pytest.mark.parametrize("item", WHOLE, ids=lambda item: item["type"])
def test_whole_items_come_back_as_they_are(item: dict[str, Any]) -> None:
    """A valid item is the same object, so its bytes cannot differ."""
    assert normalize_persisted_item(item) is item
    assert sdk_schema.item_issues(item, ()) == []


REPAIRED: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    (
        "reasoning without lists",
        {"type": "reasoning", "id": "rs_1", "summary": "why", "content": ["hm", None, {"text": "so"}]},
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "why"}],
            "content": [{"type": "reasoning_text", "text": "hm"}, {"type": "reasoning_text", "text": "so"}],
        },
    ),
    (
        "reasoning with a null status and a seal of a wrong type",
        {"type": "reasoning", "id": "rs_1", "summary": [], "status": None, "signature": 5},
        {"type": "reasoning", "id": "rs_1", "summary": [], "signature": None},
    ),
    ("an id of a wrong type", call("c1", id=5, status="completed"), call("c1", status="completed")),
    ("arguments as an object", call("c1", {"a": 1}), call("c1", '{"a":1}')),  # type: ignore[arg-type]
    ("arguments cut off", call("c1", '{"a": 1'), call("c1", '{"input":"{\\"a\\": 1"}')),
    ("arguments of another kind", call("c1", "[1]"), call("c1", '{"input":"[1]"}')),
    ("arguments missing", {"type": "function_call", "call_id": "c1", "name": "f"}, call("c1", "{}", "f")),
    ("a name with spaces", call("c1", "{}", "my tool é"), call("c1", "{}", "my_tool___dd3b30ba")),
    ("a name too long", call("c1", "{}", "x" * 70), call("c1", "{}", "x" * 55 + "_c71bd109")),
    ("no name", call("c1", "{}", ""), call("c1", "{}", "unnamed_tool")),
    ("a status of the provider's own", call("c1", status="failed"), call("c1", status="incomplete")),
    ("nulls", call("c1", id=None, status=None, namespace=None), call("c1")),
    ("a null output", output("c1", None), output("c1", "")),
    ("an output that is an object", output("c1", {"a": 1}), output("c1", '{"a":1}')),
    ("an empty output list", output("c1", []), output("c1", "")),
    (
        "an image without detail, and audio, which outputs cannot hold",
        output("c1", [{"type": "input_image", "image_url": "https://x.org/a.png"}, {"type": "input_audio"}]),
        output(
            "c1",
            [
                {"type": "input_image", "detail": "auto", "image_url": "https://x.org/a.png"},
                text("[audio omitted]"),
            ],
        ),
    ),
    (
        "a status that hosted tools cannot take back",
        {"type": "web_search_call", "id": "ws_1", "status": "searching"},
        {"type": "web_search_call", "id": "ws_1", "status": "failed"},
    ),
    (
        "an error of null",
        {"type": "openrouter:web_search", "status": "completed", "error": None},
        {"type": "openrouter:web_search", "status": "completed"},
    ),
    (
        "a number that JSON does not have",
        call("c1", '{"a":NaN,"b":[-Infinity]}'),
        call("c1", '{"a":null,"b":[null]}'),
    ),
    (
        "such a number in a field",
        {"type": "openrouter:web_search", "status": "completed", "score": float("nan")},
        {"type": "openrouter:web_search", "status": "completed"},
    ),
    ("such a number in an output", output("c1", {"a": float("-inf")}), output("c1", '{"a":null}')),
    ("dirty text", output("c1", "a\0\ud83d"), output("c1", "a\ufffd")),
]


@pytest.mark.parametrize(
    ("item", "repaired"), [case[1:] for case in REPAIRED], ids=[case[0] for case in REPAIRED]
)
def test_repaired(item: dict[str, Any], repaired: dict[str, Any]) -> None:
    """Only what the schema refuses changes, and the result is what the schema accepts."""
    found = normalize_persisted_item(item)
    assert found == repaired
    assert sdk_schema.item_issues(repaired, ()) == []


def test_reasoning_without_an_id_gets_one_of_its_content() -> None:
    """The id is required; the same content always gets the same one."""
    item = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "t"}]}
    found: Any = normalize_persisted_item(item)
    assert found == normalize_persisted_item(dict(item))
    assert found["id"].startswith("rs_")
    assert_valid([found, {"type": "message", "role": "user", "content": "x"}])


DEEP: list[Any] = []
for _ in range(100_000):
    DEEP = [DEEP]

UNUSABLE: list[Any] = [
    call("c1", DEEP),  # type: ignore[arg-type]
    None,
    "text",
    [],
    {},
    {"type": 5},
    {"type": "function_call", "name": "f", "arguments": "{}"},
    {"type": "function_call", "call_id": " ", "name": "f", "arguments": "{}"},
    {"type": "function_call_output", "output": "x"},
    {"type": "web_search_call", "status": "completed"},
    {"type": "custom_tool_call_output", "call_id": "c1"},
    {"type": "something_new", "id": "x"},
    {"type": "message", "role": "assistant", "content": []},
    {"type": "message", "role": "assistant", "content": [], "phase": "x"},
    call("\0"),
    call(" \0"),
    {"type": "custom_tool_call", "call_id": "\0", "input": "x", "name": "f"},
    {"type": "custom_tool_call_output", "call_id": " ", "output": "y"},
    {"type": "shell_call", "call_id": "", "action": {}},
    {"type": "file_search_call", "id": " \0", "queries": [], "status": "completed"},
]


@pytest.mark.parametrize("item", UNUSABLE, ids=range(len(UNUSABLE)))
def test_unusable(item: Any) -> None:
    """What lacks its call id, its required fields or a type that input accepts is not sent."""
    assert normalize_persisted_item(item) is None


def test_required_fields_are_those_of_the_sdk() -> None:
    """For every item type passed on as it is, the official SDK accepts it with no less than what is required here."""
    known = sdk_schema._input_classes()
    repaired = {"message", "reasoning", "function_call", "function_call_output"}
    for kind, required in ((name, row.required) for name, row in ITEM_KINDS.items() if name not in repaired):
        fields = {
            field.alias or name
            for name, field in known[kind][0].model_fields.items()
            if field.is_required() and name != "type"
        }
        assert set(required or ()) == fields, kind


# --- to whom reasoning may be sent ---


@pytest.mark.parametrize(
    ("model_id", "expected"),
    [
        ("openai/gpt-5", "openai"),
        ("openai/gpt-5:online", "openai"),
        ("openai/gpt-5@preset/x", "openai"),
        ("~anthropic/claude-latest", "anthropic"),
        ("Anthropic/claude", "anthropic"),
        ("meta-llama/llama-4", "meta"),
        ("meta/muse", "meta"),
        ("@preset/mine", None),
        ("gpt-5", None),
        ("", None),
        (None, None),
    ],
)
def test_model_family(model_id: str | None, expected: str | None) -> None:
    """The author names the family; aliases, variants and presets do not matter."""
    assert model_family(model_id) == expected


RAW: dict[str, Any] = {
    "type": "reasoning",
    "id": "r",
    "summary": [],
    "content": [{"text": "hm"}],
    "format": "unknown",
}
BARE: dict[str, Any] = {"type": "reasoning", "id": "r", "summary": []}
SUMMARY: dict[str, Any] = {**BARE, "summary": [{"type": "summary_text", "text": "t"}]}
OTHER_FAMILY = "written by another family of models"

CASES: list[tuple[dict[str, Any], str | None, str | None, str | None]] = [
    (reasoning("r"), "openai", "openai", None),
    (reasoning("r"), "openai", "anthropic", OTHER_FAMILY),
    (reasoning("r"), None, "anthropic", OTHER_FAMILY),
    (reasoning("r"), None, "openai", None),
    (reasoning("r"), "openrouter", "openai", None),
    (reasoning("r"), "openrouter", "openrouter", OTHER_FAMILY),
    (RAW, "deepseek", "openrouter", None),
    (RAW, "openrouter", "qwen", None),
    (reasoning("r"), None, None, None),
    (reasoning("r", format="azure-openai-responses-v1"), None, "openai", None),
    (reasoning("r", format="xai-responses-v1"), None, "x-ai", None),
    (reasoning("r", encrypted_content=None), "openai", "openai", "has no encrypted content"),
    (SUMMARY, "openai", "openai", "has no encrypted content"),
    (RAW, "openai", "openai", None),
    (RAW, "deepseek", "deepseek", None),
    (RAW, "deepseek", "qwen", OTHER_FAMILY),
    (thinking("r"), "anthropic", "anthropic", None),
    (thinking("r", None), "anthropic", "anthropic", "has no signature"),
    (thinking("r", " "), "anthropic", "anthropic", "has no signature"),
    ({**thinking("r", None), "encrypted_content": "sealed"}, "anthropic", "anthropic", None),
    ({**RAW, "format": None}, "anthropic", "anthropic", "has no signature"),
    (SUMMARY, None, "openai", None),
    (BARE, None, None, "is empty"),
]


@pytest.mark.parametrize(("item", "writer", "target", "why"), CASES)
def test_reasoning_problem(
    item: dict[str, Any], writer: str | None, target: str | None, why: str | None
) -> None:
    """Seals of other families, missing seals and empty reasoning are not sent; what cannot be judged is trusted."""
    assert reasoning_problem(item, writer=writer, target=target) == why
