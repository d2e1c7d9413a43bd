"""From messages to input in one call, with the summaries of others as the engine sends them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe.history.build import Options
from open_webui_openrouter_pipe.history.markers import Reference, name_call, write_reference
from open_webui_openrouter_pipe.replay.exports import transform_messages_to_input
from open_webui_openrouter_pipe.summaries.summary import summary_message
from tests.history.builders import (
    answered,
    assert_valid,
    assistant,
    call,
    mark,
    reasoning,
    said,
    system,
    tool,
    tool_call,
    ulid,
    user,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

pytestmark = pytest.mark.anyio

SUMMARIZED = [
    system("Be brief.\n[CONVERSATION SUMMARY]\nFoxes.\nSources: x"),
    user("1"),
    assistant("a"),
    user("Template\n2"),
]
MIXED_IN = Options(
    base_system_prompt="Be brief.\n[CONVERSATION SUMMARY]\nFoxes.", base_user_prompt="2", chat_id="chat"
)


async def test_summaries_of_others_are_one_message_behind_the_instructions() -> None:
    """It is the message that the engine sends, so nothing of the chat is missing."""
    built = await transform_messages_to_input(SUMMARIZED, artifact_loader=None, options=MIXED_IN)
    assert_valid(built.items)
    assert [(_without_id(item), turn) for item, turn in zip(built.items, built.turns, strict=True)] == [
        (said("system", "Be brief."), 0),
        (summary_message((), ["Foxes."]), 0),
        (said("user", "1"), 0),
        (answered("a"), 0),
        (said("system", "Sources: x"), 1),
        (said("user", "2", "Template"), 1),
    ]
    assert (built.external_summaries, len(built.origins)) == ((), len(built.items))


async def test_summaries_of_others_stand_before_the_sources_of_the_first_turn() -> None:
    """The host's additions are not instructions, so a changed source leaves the summary where it is."""
    chat = [system("[CONVERSATION SUMMARY]\nFoxes.\nSources: x"), user("1")]
    options = Options(base_system_prompt="[CONVERSATION SUMMARY]\nFoxes.")
    built = await transform_messages_to_input(chat, artifact_loader=None, options=options)
    assert built.items == [summary_message((), ["Foxes."]), said("system", "Sources: x"), said("user", "1")]
    assert [entry.item for entry in built.conversation.volatile] == [said("system", "Sources: x")]


class Loader:
    """Counts its calls and remembers what was asked."""

    def __init__(self, artifacts: dict[str, Any]) -> None:
        self.artifacts = artifacts
        self.asked: list[tuple[str | None, str | None, tuple[str, ...]]] = []

    async def __call__(
        self, chat: str | None, message: str | None, ulids: Sequence[str]
    ) -> Mapping[str, Any]:
        self.asked.append((chat, message, tuple(ulids)))
        return {ulid_: self.artifacts[ulid_] for ulid_ in ulids}


async def test_one_load_for_all_messages() -> None:
    """However many messages hold markers, the loader is asked once."""
    numbers = range(1, 101)
    chat = [message for n in numbers for message in (user("q"), assistant(f"{mark(n)}\nA"))]
    loader = Loader({ulid(n): reasoning(f"rs_{n}") for n in numbers})
    built = await transform_messages_to_input(
        chat, artifact_loader=loader, chat_id="chat", message_id="message"
    )
    assert loader.asked == [("chat", "message", tuple(ulid(n) for n in numbers))]
    assert len(built.replayed) == 100


async def test_one_load_for_all_carriers() -> None:
    """Markers in the text, beside the reasoning and in the ids of calls are asked for together."""
    named = name_call(ulid(3))
    chat = [
        *[user("q"), assistant(f"{mark(1)}\nA"), user("q")],
        assistant("B", tool_call(named), reasoning_details=[write_reference(Reference(0, ulid(2)))]),
        tool(named, "out"),
    ]
    stored = {ulid(1): reasoning("rs_1"), ulid(2): reasoning("rs_2"), ulid(3): call("call_0")}
    loader = Loader(stored)
    built = await transform_messages_to_input(chat, artifact_loader=loader)
    assert [ulids for _, _, ulids in loader.asked] == [tuple(stored)]
    assert [item for item in built.items if item in stored.values()] == [*stored.values()]


async def test_no_load_without_markers() -> None:
    """A chat without markers asks for nothing."""
    loader = Loader({})
    await transform_messages_to_input([user("q")], artifact_loader=loader)
    assert loader.asked == []


async def test_mappings_serve_as_loader() -> None:
    """Available artifacts need no loader."""
    chat = [user("q"), assistant(f"{mark(1)}\nA")]
    built = await transform_messages_to_input(
        chat, artifact_loader={ulid(1): reasoning("rs_1")}, chat_id="chat"
    )
    assert built.items[1] == reasoning("rs_1")
    assert [(each.chat_id, each.artifact_id) for each in built.replayed] == [("chat", ulid(1))]


def _without_id(item: Any) -> Any:
    return {key: value for key, value in item.items() if key != "id"}
