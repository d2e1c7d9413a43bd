"""Shortened tool outputs."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from open_webui_openrouter_pipe.history.pruning import prune_tool_output
from tests.history.builders import output, text

LONG = "head" + "x" * 1000 + "tail"
SHORT = "head\n[… 1000 characters of this tool result left out …]\ntail"


def prune(item: dict[str, Any]) -> Any:
    return prune_tool_output(item, head_chars=4, tail_chars=4)  # type: ignore[arg-type]


def test_head_and_tail_stay() -> None:
    """The rest of the item, and of its key order, is untouched."""
    item = {
        "type": "function_call_output",
        "id": "fco_1",
        "call_id": "c1",
        "output": LONG,
        "status": "completed",
    }
    pruned = prune(item)
    assert pruned == {**item, "output": SHORT}
    assert list(pruned) == list(item)


def test_parts_are_pruned_one_by_one() -> None:
    """Texts are cut, images and files are named."""
    image = {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,AA"}
    assert prune(output("c1", [text(LONG), image, text("short")])) == output(
        "c1", [text(SHORT), text("[image left out]"), text("short")]
    )


def test_no_tail() -> None:
    """A tail of nothing is nothing, not everything."""
    item: Any = output("c1", LONG)
    pruned: Any = prune_tool_output(item, head_chars=4, tail_chars=0)
    assert pruned["output"] == "head\n[… 1004 characters of this tool result left out …]\n"


@given(st.text(max_size=200))
def test_never_longer(value: str) -> None:
    """What gains nothing is the same object."""
    item = output("c1", value)
    pruned = prune(item)
    assert pruned is item or len(pruned["output"]) < len(value)
