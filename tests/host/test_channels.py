"""The writer for channels: an error is a line of the answer, since a channel shows no other."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

from open_webui_openrouter_pipe.host.native import ChannelWriter
from open_webui_openrouter_pipe.ports import Failed
from open_webui_openrouter_pipe.responses.effects import ItemFinished, ItemStarted, TextDelta
from tests.host.test_native import CALL, CALL_BEGUN, TEXT, TEXT_BEGUN

if TYPE_CHECKING:
    from open_webui_openrouter_pipe.ports import Output


def last_output(*outputs: Output) -> list[dict[str, Any]]:
    """The items of the answer when it ended, which the host then has the channel show."""
    ids = count(1)
    writer = ChannelWriter(new_id=lambda: f"N{next(ids)}", clock=lambda: 0.0)
    events = [event for output in outputs for event in writer.render(output)]
    assert not [event for event in events if "error" in event]
    items: list[dict[str, Any]] = events[-1]["response"]["output"]
    return items


def test_an_error_is_a_line_of_the_answer() -> None:
    """Alone, where there is no answer."""
    (line,) = last_output(Failed("No."))
    assert line["content"][0]["text"] == "> No."


def test_what_was_written_stays_above_the_error() -> None:
    """But not the calls, which the host would run."""
    begun: list[Output] = [ItemStarted(0, TEXT_BEGUN), TextDelta(0, 0, "Hi"), ItemFinished(0, TEXT)]
    items = last_output(*begun, ItemStarted(1, CALL_BEGUN), ItemFinished(1, CALL), Failed("No."))
    assert [item["content"][0]["text"] for item in items] == ["Hi", "> No."]
