"""What a message must be to be a command, and what its arguments mean: see `slash.txt`."""

from __future__ import annotations

from pathlib import Path

import pytest

from open_webui_openrouter_pipe.conversation.slash import (
    MAX_COMMAND_CHARACTERS,
    Misused,
    covers,
    read_command,
)
from tests.support.rows import rows


@pytest.mark.parametrize(("text", "command"), rows(Path(__file__).with_name("slash.txt"), "messages"))
def test_a_message_that_is_nothing_else_is_a_command(text: str, command: str) -> None:
    """In upper and lower case, with space around it; of arguments that mean nothing, nothing is guessed."""
    assert str(read_command(text)) == command


def test_a_command_has_a_length() -> None:
    """Of characters, and of turns."""
    assert read_command(f"/compact {'x' * MAX_COMMAND_CHARACTERS}") is None
    assert read_command(f"/restore {' '.join(['1'] * 60)}") == Misused("restore")


def test_turns_are_counted_from_one_and_none_means_all() -> None:
    """As users see them; the package counts from zero."""
    assert [turn for turn in range(9) if covers((range(3, 5), range(8, 9)), turn)] == [2, 3, 7]
    assert all(covers((), turn) for turn in range(9))
