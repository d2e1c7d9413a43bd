"""What the package exports at its root."""

from __future__ import annotations

import pytest

import open_webui_openrouter_pipe as package
from open_webui_openrouter_pipe.history.markers import serialize_marker
from open_webui_openrouter_pipe.responses.items import Reasoning
from open_webui_openrouter_pipe.turn.recorder import generate_item_id

pytestmark = pytest.mark.anyio

THOUGHT = Reasoning(type="reasoning", id="rs_1", summary=[], encrypted_content="sealed")


async def test_a_chat_is_replayed_with_artifacts_of_ones_own() -> None:
    """A marker is found again, and its artifact replaces it, by names of the root alone."""
    ulid = generate_item_id()
    answer = f"{serialize_marker(ulid)}\n\nHi"
    messages = [{"role": "user", "content": "one"}, {"role": "assistant", "content": answer}]
    transformed = await package.transform_messages_to_input(
        messages, artifact_loader={ulid: THOUGHT}, chat_id="c"
    )
    assert package.extract_marker_ulid(answer.splitlines()[0]) == ulid
    assert [item["type"] for item in transformed.items] == ["message", "reasoning", "message"]
    assert [(each.chat_id, each.artifact_id) for each in transformed.replayed] == [("c", ulid)]


def test_later_ids_sort_later() -> None:
    """Ids begin with the time."""
    first, second = generate_item_id(), generate_item_id()
    assert len(first) == len(second) == 20
    assert first[:16] <= second[:16]


def test_every_public_name_is_there() -> None:
    """All names in `__all__` exist."""
    assert [name for name in package.__all__ if not hasattr(package, name)] == []
