"""What a message must be to be a command, and what its arguments mean."""

from __future__ import annotations

import pytest

from open_webui_openrouter_pipe.conversation.slash import (
    MAX_COMMAND_CHARACTERS,
    Command,
    Compact,
    Discard,
    Help,
    Misused,
    Restore,
    SetAim,
    ShowContext,
    covers,
    read_command,
)


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("/context", ShowContext()),
        ("  /CONTEXT\n", ShowContext()),
        ("/help", Help()),
        ("/compact", Compact()),
        ("/compact the names\nand the numbers", Compact("the names and the numbers")),
        ("/compact\tthe names", Compact("the names")),
        ("/compact\r\nthe names", Compact("the names")),
        ("/Restore", Restore()),
        ("/restore 3-8", Restore((range(3, 9),))),
        ("/restore 3, 5-7 12", Restore((range(3, 4), range(5, 8), range(12, 13)))),
        ("/discard 2\u20134", Discard((range(2, 5),))),
        ("/aim thrifty", SetAim("thrifty")),
        ("/aim FAITHFUL", SetAim("faithful")),
    ],
)
def test_a_message_that_is_nothing_else_is_a_command(text: str, command: Command) -> None:
    """In upper and lower case, with space around it."""
    assert read_command(text) == command


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        "/contextual",
        "/context/x",
        "context",
        "What does /context do?",
        "> /context",
        "/ context",
        f"/compact {'x' * MAX_COMMAND_CHARACTERS}",
    ],
)
def test_any_other_message_is_not_one(text: str) -> None:
    """Whatever it mentions."""
    assert read_command(text) is None


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("/context now", "context"),
        ("/help me", "help"),
        ("/aim", "aim"),
        ("/aim low", "aim"),
        ("/restore all", "restore"),
        ("/restore 8-3", "restore"),
        ("/restore 0", "restore"),
        ("/discard 3-", "discard"),
        (f"/restore {' '.join(['1'] * 60)}", "restore"),
    ],
)
def test_arguments_that_mean_nothing_are_said_to(text: str, name: str) -> None:
    """Nothing is guessed."""
    assert read_command(text) == Misused(name)


def test_turns_are_counted_from_one_and_none_means_all() -> None:
    """As users see them; the package counts from zero."""
    assert [turn for turn in range(9) if covers((range(3, 5), range(8, 9)), turn)] == [2, 3, 7]
    assert all(covers((), turn) for turn in range(9))
