"""Which reasoning goes back to which family of models."""

from __future__ import annotations

from typing import Any

import pytest

from open_webui_openrouter_pipe.history.reasoning import family, unusable
from tests.history.builders import reasoning, thinking


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
def test_family(model_id: str | None, expected: str | None) -> None:
    """The author names the family; aliases, variants and presets do not matter."""
    assert family(model_id) == expected


RAW: dict[str, Any] = {
    "type": "reasoning",
    "id": "r",
    "summary": [],
    "content": [{"text": "hm"}],
    "format": "unknown",
}
BARE: dict[str, Any] = {"type": "reasoning", "id": "r", "summary": []}
SUMMARY: dict[str, Any] = {**BARE, "summary": [{"type": "summary_text", "text": "t"}]}
FOREIGN = "written by another family of models"

CASES: list[tuple[dict[str, Any], str | None, str | None, str | None]] = [
    (reasoning("r"), "openai", "openai", None),
    (reasoning("r"), "openai", "anthropic", FOREIGN),
    (reasoning("r"), None, "anthropic", FOREIGN),
    (reasoning("r"), None, "openai", None),
    (reasoning("r"), "openrouter", "openai", None),
    (reasoning("r"), "openrouter", "openrouter", FOREIGN),
    (reasoning("r"), None, None, None),
    (reasoning("r", format="azure-openai-responses-v1"), None, "openai", None),
    (reasoning("r", format="xai-responses-v1"), None, "x-ai", None),
    (reasoning("r", encrypted_content=None), "openai", "openai", "has no encrypted content"),
    (SUMMARY, "openai", "openai", "has no encrypted content"),
    (RAW, "openai", "openai", None),
    (RAW, "deepseek", "deepseek", None),
    (RAW, "deepseek", "qwen", FOREIGN),
    (thinking("r"), "anthropic", "anthropic", None),
    (thinking("r", None), "anthropic", "anthropic", "has no signature"),
    (thinking("r", " "), "anthropic", "anthropic", "has no signature"),
    ({**thinking("r", None), "encrypted_content": "sealed"}, "anthropic", "anthropic", None),
    ({**RAW, "format": None}, "anthropic", "anthropic", "has no signature"),
    (SUMMARY, None, "openai", None),
    (BARE, None, None, "is empty"),
]


@pytest.mark.parametrize(("item", "writer", "target", "why"), CASES)
def test_unusable(item: dict[str, Any], writer: str | None, target: str | None, why: str | None) -> None:
    """Foreign seals, missing seals and empty reasoning are not sent; what cannot be judged is trusted."""
    assert unusable(item, writer=writer, target=target) == why
