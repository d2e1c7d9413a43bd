"""Bodies as a pipe received them on Open WebUI 0.12.4, replayed with artifacts for their markers.

The probe that recorded them wrote placeholders; they are rewritten as our markers and references first. The
expected inputs stand in `tests/data/history`.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from open_webui_openrouter_pipe.history.markers import REFERENCE_TYPE
from tests.history.builders import assert_valid, build, call, reasoning, ulid

_DATA = Path(__file__).parents[1] / "data"
_CAPTURES = sorted(path.stem for path in (_DATA / "host").glob("*.json"))
_PLACEHOLDER = re.compile(r"^\[01JX0{21}(\d)\]: #$", re.MULTILINE)
_REFERENCES = {"REFB": 11, "REF_0": 12, "REF_1": 13, "REF_FINAL": 14, "01JXXXXXXXXXXXXXXXXXXXXXXX": 15}
_ARTIFACTS: dict[int, Any] = {
    1: reasoning("rs_1"),
    2: call("call_1", '{"city": "Paris"}', name="get_weather", id="fc_1", status="completed"),
    4: reasoning("rs_4"),
    **{number: reasoning(f"rs_{number}") for number in _REFERENCES.values()},
}


def ours(message: dict[str, Any]) -> dict[str, Any]:
    """The message as it would be if we had written it."""
    message = dict(message)
    if isinstance(message["content"], str):
        message["content"] = _PLACEHOLDER.sub(lambda found: f"[{ulid(int(found[1]))}]: #", message["content"])
    if "reasoning_details" in message:
        message["reasoning_details"] = [
            {"type": REFERENCE_TYPE, "id": ulid(_REFERENCES[detail["id"]])}
            if detail["type"] == "pipe.ref"
            else detail
            for detail in message["reasoning_details"]
        ]
    return message


@pytest.mark.parametrize("name", _CAPTURES)
def test_capture(name: str) -> None:
    """The whole input is the expected one."""
    capture = json.loads((_DATA / "host" / f"{name}.json").read_text("utf-8"))
    built = build(
        [ours(message) for message in capture["body"]["messages"]],
        _ARTIFACTS,
        model_id="openai/gpt-5",
        base_system_prompt=capture["metadata"].get("base_system_prompt"),
        base_user_prompt=capture["metadata"].get("base_user_prompt"),
    )
    assert_valid(built.items)
    expected = json.loads((_DATA / "history" / f"{name}.json").read_text("utf-8"))
    assert {"items": built.items, "turns": list(built.turns)} == expected
