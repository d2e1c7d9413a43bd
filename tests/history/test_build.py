"""From chats to input: what each kind of message, marker and artifact becomes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from open_webui_openrouter_pipe.errors import InvalidHistory
from open_webui_openrouter_pipe.history.artifacts import LoadedArtifact, MissingArtifact
from open_webui_openrouter_pipe.history.build import Options, ReplayedReasoning, build_input
from open_webui_openrouter_pipe.history.folded import TOOL_IMAGES_TEXT
from open_webui_openrouter_pipe.history.markers import REFERENCE_TYPE
from open_webui_openrouter_pipe.history.reading import EMPTY_MESSAGE, Origin, Repair, read_history
from tests.history.builders import (
    CLAUDE,
    OPENAI,
    answered,
    assert_valid,
    assistant,
    build,
    call,
    compact,
    items,
    mark,
    output,
    reasoning,
    said,
    system,
    text,
    thinking,
    tool,
    tool_call,
    ulid,
    user,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from open_webui_openrouter_pipe.conversation.conversation import DigestedItem
    from open_webui_openrouter_pipe.history.build import BuiltHistory

PNG = "data:image/png;base64,AAAA"
IMAGE = {"type": "input_image", "detail": "auto", "image_url": PNG}


# --- roles and turns ---


def test_plain_chat() -> None:
    """Each message becomes one item."""
    chat = [system("Be brief."), user("Hi"), assistant("Hello"), user("Bye")]
    assert items(chat) == [
        said("system", "Be brief."),
        said("user", "Hi"),
        answered("Hello"),
        said("user", "Bye"),
    ]


def test_media_of_earlier_turns_stay() -> None:
    """An image is sent in its own position in every later request and every round, not only in the latest message."""
    shown = user([{"type": "text", "text": "Look"}, {"type": "image_url", "image_url": {"url": PNG}}])
    chat = [shown, assistant("A cat."), user("Sure?"), assistant("", tool_call("c1")), tool("c1", "yes")]
    assert items(chat)[0] == said("user", "Look", IMAGE)


def test_instructions_gather_before_the_next_user_turn() -> None:
    """System and developer messages become one item directly before the next user message; trailing ones the last."""
    chat = [
        system("A"),
        {"role": "developer", "content": [{"type": "text", "text": "B"}]},
        user("Hi"),
        {"role": "developer", "content": "C"},
        assistant("Hello"),
        user("Bye"),
        system("D"),
    ]
    assert items(chat) == [
        said("system", "A\n\nB"),
        said("user", "Hi"),
        answered("Hello"),
        said("developer", "C"),
        said("user", "Bye"),
        said("system", "D"),
    ]


def test_instructions_stay_first_where_the_host_has_cut_off_the_first_question() -> None:
    """A chat that begins with an answer, as after the host's own compaction, has its system prompt before it.

    What stands before the first question belongs to the first turn, and volatile text stands before the whole turn.
    """
    chat = [system("S\nV"), assistant("a"), system("T"), user("q")]
    assert items(chat, base_system_prompt="S") == [
        said("system", "S"),
        said("system", "V"),
        answered("a"),
        said("system", "T"),
        said("user", "q"),
    ]


def test_empty_turns() -> None:
    """An empty user message is named, empty instructions and answers are nothing."""
    chat = [system(""), user(""), assistant(None), user([]), assistant(" \n"), user(None)]
    assert items(chat) == [said("user", EMPTY_MESSAGE)] * 3


def test_turns_begin_at_user_messages() -> None:
    """The first turn also holds what stands before it; instructions belong to the turn that they precede."""
    chat = [assistant("Welcome"), system("S"), user("1"), assistant("a"), system("T"), user("2"), system("U")]
    built = build(chat)
    assert built.turns == (0, 0, 0, 0, 1, 1, 1)
    assert [origin.message for origin in built.origins] == [0, 1, 2, 3, 4, 5, 6]


def test_tool_images_do_not_begin_a_turn() -> None:
    """The user message that the host makes up for images of tools stays within its turn."""
    handed = user([text(TOOL_IMAGES_TEXT), {"type": "image_url", "image_url": {"url": PNG}}])
    chat = [user("q"), assistant("", tool_call("c1")), tool("c1", "done"), handed, assistant("A cat.")]
    assert build(chat).turns == (0,) * 5
    assert items(chat) == [
        said("user", "q"),
        call("c1"),
        output("c1", "done"),
        said("user", TOOL_IMAGES_TEXT, IMAGE),
        answered("A cat."),
    ]


def test_tool_images_that_a_stored_output_holds_are_not_sent_twice() -> None:
    """With the whole output the host's copy of its images is omitted."""
    handed = user([text(TOOL_IMAGES_TEXT), {"type": "image_url", "image_url": {"url": PNG}}])
    chat = [user("q"), assistant(f"\n{mark(1, 2)}", tool_call("c1")), tool("c1", "[image]"), handed]
    stored = {1: call("c1"), 2: output("c1", [text("done"), IMAGE])}
    assert items(chat, stored) == [said("user", "q"), call("c1"), output("c1", [text("done"), IMAGE])]


def test_a_user_who_types_the_hosts_words_begins_a_turn() -> None:
    """Only the host's own form, text with images, is its own."""
    assert build([user("q"), assistant("a"), user(TOOL_IMAGES_TEXT)]).turns == (0, 0, 1)


@pytest.mark.parametrize("junk", [None, 5, "text", [], {"role": 5}, {"role": "tool", "content": "x"}, {}])
def test_junk_messages(junk: Any) -> None:
    """A message that cannot be read never breaks a chat; it is noted."""
    built = build([user("Hi"), junk, user("Bye")])
    assert_valid(built.items)
    assert built.items[0] == said("user", "Hi")
    assert built.items[-1] == said("user", "Bye")
    assert len(built.repairs) == 1


def test_unknown_roles_are_read_as_the_users() -> None:
    """What an unknown role says is kept."""
    assert items([{"role": "narrator", "content": "Once"}]) == [said("user", "Once")]


@pytest.mark.parametrize("messages", [None, "text", {}, [], [None, 5], [assistant("")]])
def test_a_chat_with_nothing_to_send_is_an_error(messages: Any) -> None:
    """Without a single thing to send there is a typed error."""
    with pytest.raises(InvalidHistory):
        build_input(read_history(messages), {}, Options())


def test_assistant_messages_hold_text_alone() -> None:
    """Parts, refusals and images of an assistant become text; a phase is kept."""
    chat = [
        user("q"),
        {
            "role": "assistant",
            "content": [text("a"), {"type": "refusal", "refusal": "no"}, IMAGE],
            "phase": "commentary",
        },
        {"role": "assistant", "content": None, "refusal": "never"},
    ]
    assert items(chat) == [
        said("user", "q"),
        answered("a", phase="commentary"),
        answered("no", phase="commentary"),
        answered("[image omitted]", phase="commentary"),
        answered("never"),
    ]


# --- markers ---


def test_a_round_as_the_host_shows_it() -> None:
    """Reasoning, text and calls return to their positions; outputs follow; the original arguments win."""
    content = f"{mark(1)}\nLet me look.\n\n{mark(2, 3)}".rstrip()
    chat = [
        user("q"),
        assistant(content, tool_call("c1", '{"a":1}'), tool_call("c2", '{"a":2}')),
        tool("c1", "one"),
        tool("c2", "two"),
    ]
    stored = {
        1: reasoning("rs_1"),
        2: call("c1", '{"a": 1}', id="fc_1"),
        3: call("c2", '{"a": 2}', id="fc_2"),
    }
    assert items(chat, stored, model_id=OPENAI) == [
        said("user", "q"),
        stored[1],
        answered("Let me look."),
        stored[2],
        stored[3],
        output("c1", "one"),
        output("c2", "two"),
    ]


def test_references_and_markers_in_the_text() -> None:
    """References in reasoning_details stand before the text; the same id in both counts once."""
    details = [{"type": REFERENCE_TYPE, "id": ulid(n)} for n in (1, 2)]
    others = [{"type": "reasoning.text", "text": "x"}, {"type": REFERENCE_TYPE, "id": "short"}, None]
    chat = [user("q"), assistant(f"A\n\n{mark(2)}", reasoning_details=[*details, *others])]
    stored = {1: reasoning("rs_1"), 2: reasoning("rs_2")}
    assert items(chat, stored) == [said("user", "q"), stored[1], stored[2], answered("A")]
    assert read_history(chat).wanted == (ulid(1), ulid(2))


def test_text_around_markers_is_kept_to_the_byte() -> None:
    """Only the newlines that belong to a run go with it."""
    chat = [user("q"), assistant(f"{mark(1)}\n  a\t\n\n\n{mark(2)}\n\n  \nb \n")]
    stored = {1: reasoning("rs_1"), 2: reasoning("rs_2")}
    assert items(chat, stored)[1:] == [stored[1], answered("  a\t\n"), stored[2], answered("\n  \nb \n")]


def test_markers_of_users_tools_and_code_are_text() -> None:
    """Only assistant text outside of code is searched."""
    line = mark(1).rstrip()
    code = f"```\n{line}\n```"
    chat = [user(line), assistant(code, tool_call("c1")), tool("c1", line), system(line)]
    assert items(chat) == [
        said("user", line),
        answered(code),
        call("c1"),
        output("c1", line),
        said("system", line),
    ]


def test_a_marker_in_code_counts_if_its_artifact_exists() -> None:
    """An answer that was cut within a code block and continued has its second marker between the fences."""
    shown = ulid(9)
    chat = [user("q"), assistant(f"{mark(1)}\n```\na\n{mark(2)}\nb\n[{shown}]: #\n```\n`{mark(3).rstrip()}`")]
    stored = {1: reasoning("rs_1"), 2: reasoning("rs_2"), 3: MissingArtifact("reasoning", "unreadable")}
    assert items(chat, stored)[1:] == [
        stored[1],
        answered("```\na"),
        stored[2],
        answered(f"b\n[{shown}]: #\n```\n`"),
        answered("`"),
    ]
    assert read_history(chat).wanted == (ulid(1), ulid(2), shown, ulid(3))
    built = build(chat, stored)
    assert built.missing == {ulid(3): stored[3]}
    assert built.origins[3] == Origin(1, "assistant", ulid(2))


def test_an_artifact_has_one_place() -> None:
    """The first of its markers, in code or not; the others are gone from the text."""
    chat = [
        user("q"),
        assistant(f"```\na\n{mark(1)}b\n```\n{mark(1)}{mark(2)}{mark(2)}c"),
        user("r"),
        assistant(f"{mark(2)}d", reasoning_details=[{"type": REFERENCE_TYPE, "id": ulid(1)}]),
    ]
    stored = {1: reasoning("rs_1"), 2: reasoning("rs_2")}
    assert items(chat, stored) == [
        said("user", "q"),
        answered("```\na"),
        stored[1],
        answered("b\n```"),
        stored[2],
        answered("c"),
        said("user", "r"),
        answered("d"),
    ]


def test_an_edited_marker_is_found() -> None:
    """With blanks at its end, of another system's lines, or joined with words; the words stay."""
    edited = f"{mark(1).rstrip()} \r\n\nA {mark(2).rstrip()} B {mark(3)}"
    stored = {number: reasoning(f"rs_{number}") for number in (1, 2, 3)}
    assert items([user("q"), assistant(edited), user("r")], stored)[1:-1] == [
        stored[1],
        answered("A "),
        stored[2],
        answered(" B "),
    ]


def test_only_known_phases_are_sent() -> None:
    """A strict provider refuses any other, at each later turn."""
    unknown = {"type": "message", "role": "assistant", "phase": "x", "content": []}
    chat = [
        user("q"),
        assistant("A", phase="x"),
        assistant("B", phase="commentary"),
        assistant(f"{mark(1)}C"),
    ]
    assert items(chat, {1: unknown})[1:] == [
        answered("A"),
        answered("B", phase="commentary"),
        answered("C"),
    ]


def test_a_phase_stays_in_its_message() -> None:
    """A stored message whose text is gone lends its phase to no other."""
    stored = {1: {"type": "message", "role": "assistant", "phase": "commentary", "content": []}}
    chat = [user("q"), assistant(mark(1)), assistant("A", tool_call("c1")), tool("c1", "out")]
    assert items(chat, stored)[1] == answered("A")


def test_a_stored_message_lends_its_phase() -> None:
    """The text is the chat's, as the user may have edited it; the phase comes from the store."""
    chat = [user("q"), assistant(f"{mark(1)}\nEdited."), assistant("Next.")]
    stored = {1: {"type": "message", "role": "assistant", "phase": "final_answer", "content": []}}
    assert items(chat, stored)[1:] == [answered("Edited.", phase="final_answer"), answered("Next.")]


def test_other_items_keep_their_position() -> None:
    """Hosted tools and whatever else was stored stand where their marker stood."""
    search = {"type": "openrouter:web_search", "id": "st_1", "status": "completed"}
    chat = [user("q"), assistant(f"A\n\n{mark(1, 2)}\nB")]
    stored = {1: reasoning("rs_1"), 2: search}
    assert items(chat, stored)[1:] == [answered("A"), stored[1], search, answered("B")]


# --- pictures ---


@pytest.mark.parametrize("model", [OPENAI, "anthropic/claude", None], ids=["same", "other", "unknown"])
def test_a_stored_picture_stays_the_path_of_its_file(
    model: str | None,
) -> None:
    """On each later turn, whoever reads it; its bytes are put in its place when the request is sent."""
    path = "/api/v1/files/7f/content"
    picture = {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": path}
    chat = [user("Draw."), assistant(f"{mark(1)}\nHere."), user("Make it blue."), assistant("B"), user("q")]
    stored = {1: LoadedArtifact(cast("Any", picture), OPENAI)}
    for turns in (3, 5):
        sent = items(chat[:turns], stored, model_id=model)
        assert sent[1] == {**picture, "id": sent[1]["id"]}
        assert sent[2] == answered("Here.")


# --- missing artifacts ---


def test_a_missing_artifact_of_unknown_kind_leaves_no_note() -> None:
    """It counts as reasoning: nothing is sent, it is reported."""
    built = build([user("q"), assistant(f"{mark(1)}\nA")])
    assert [item["type"] for item in built.items] == ["message", "message"]
    assert built.missing == {ulid(1): MissingArtifact()}


def test_missing_artifacts_of_known_kind_leave_a_note() -> None:
    """A missing result, image or other item leaves a constant text in its position."""
    chat = [user("q"), assistant(f"A\n\n{mark(1, 2, 3, 4)}\nB\n\n{mark(5, 6)}\nC")]
    stored = {
        1: MissingArtifact("reasoning"),
        2: MissingArtifact("function_call", "unreadable"),
        3: MissingArtifact("function_call_output", "too_large"),
        4: MissingArtifact("image_generation_call", "unavailable"),
        5: {"type": "web_search_call"},
        6: LoadedArtifact("damaged", OPENAI),  # type: ignore[arg-type]
    }
    assert items(chat, stored)[1:] == [
        answered("A"),
        answered("[The stored result of a tool call is no longer available.]"),
        answered("[A stored image is no longer available.]"),
        answered("B"),
        answered("[A stored item is no longer available.]"),
        answered("C"),
    ]
    assert build(chat, stored).missing == {
        ulid(1): MissingArtifact("reasoning"),
        ulid(2): MissingArtifact("function_call", "unreadable"),
        ulid(3): MissingArtifact("function_call_output", "too_large"),
        ulid(4): MissingArtifact("image_generation_call", "unavailable"),
        ulid(5): MissingArtifact("web_search_call", "unreadable"),
        ulid(6): MissingArtifact(None, "unreadable"),
    }


@pytest.mark.parametrize("lost", [None, MissingArtifact("function_call_output")], ids=["unknown", "known"])
def test_a_stored_call_whose_result_is_missing_is_named(lost: Any) -> None:
    """The call cannot be sent without its output; its name tells the model what is missing, once."""
    stored = {1: call("c1", name="get_weather"), **({2: lost} if lost else {})}
    assert items([user("q"), assistant(f"{mark(1, 2)}\nA")], stored)[1:] == [
        answered("[The result of the tool get_weather is no longer available.]"),
        answered("A"),
    ]


def test_only_as_many_calls_are_named_as_results_are_missing() -> None:
    """A call whose result was never stored is omitted without a note."""
    chat = [user("q"), assistant(f"{mark(1, 2, 3)}\nA")]
    stored = {
        1: call("c1", name="first"),
        2: call("c2", name="second"),
        3: MissingArtifact("function_call_output"),
    }
    assert items(chat, stored)[1:] == [
        answered("[The result of the tool first is no longer available.]"),
        answered("A"),
    ]


def test_a_missing_result_of_an_open_call_of_the_host_leaves_its_note() -> None:
    """The host shows neither the result nor, without it, the call."""
    chat = [user("q"), assistant(f"\n{mark(1)}", tool_call("c1"))]
    assert items(chat, {1: MissingArtifact("function_call_output")})[1:] == [
        answered("[The stored result of a tool call is no longer available.]")
    ]


def test_what_the_host_shows_replaces_a_missing_result() -> None:
    """The preview in the chat is sent without a note between the call and it; a result of another call is named."""
    chat = [
        user("q"),
        assistant(f"\n{mark(1, 2, 3)}", tool_call("c1")),
        tool("c1", "the wh..."),
        assistant("A"),
    ]
    stored = {
        1: call("c1"),
        2: MissingArtifact("function_call_output"),
        3: MissingArtifact("function_call_output"),
    }
    assert items(chat, stored)[1:] == [
        call("c1"),
        answered("[The stored result of a tool call is no longer available.]"),
        output("c1", "the wh..."),
        answered("A"),
    ]
    assert items(chat, {1: stored[1], 2: stored[2], 3: reasoning("rs_3")})[1:] == [
        call("c1"),
        reasoning("rs_3"),
        output("c1", "the wh..."),
        answered("A"),
    ]


def test_a_missing_call_is_sent_as_the_host_shows_it() -> None:
    """Where our artifact is missing, the host's words are sent."""
    chat = [user("q"), assistant(f"\n{mark(1)}", tool_call("c1", '{"a":1}')), tool("c1", "out")]
    assert items(chat)[1:] == [call("c1", '{"a":1}'), output("c1", "out")]


def test_a_missing_call_takes_no_thinking_along() -> None:
    """Only missing reasoning breaks the turn that Anthropic verifies as a whole; the host shows a missing call."""
    chat = [
        user("q"),
        assistant(f"{mark(1, 2)}\nA", tool_call("c1")),
        tool("c1", "out"),
        assistant(f"{mark(3)}\nB"),
    ]
    stored = {1: thinking("t1"), 2: MissingArtifact("function_call", "unreadable"), 3: thinking("t3")}
    assert items(chat, stored, model_id=CLAUDE)[1:] == [
        stored[1],
        answered("A"),
        call("c1"),
        output("c1", "out"),
        stored[3],
        answered("B"),
    ]
    stored[2] = MissingArtifact("reasoning", "unreadable")
    assert not [item for item in items(chat, stored, model_id=CLAUDE) if item["type"] == "reasoning"]


# --- calls and outputs ---


def test_a_stored_output_beats_a_preview() -> None:
    """The pipe keeps the whole output; the chat shows only a preview of it. Wherever the marker stands."""
    stored = {1: call("c1", '{"a": 1}'), 2: output("c1", "the whole output")}
    shown = [tool_call("c1", '{"a":1}')]
    expected = [said("user", "q"), call("c1", '{"a": 1}'), output("c1", "the whole output"), answered("A")]
    before = [user("q"), assistant(f"\n{mark(1, 2)}", *shown), tool("c1", "the wh..."), assistant("A")]
    after = [user("q"), assistant("", *shown), tool("c1", "the wh..."), assistant(f"{mark(1, 2)}\nA")]
    split = [
        user("q"),
        assistant(f"\n{mark(1)}", *shown),
        tool("c1", "the wh..."),
        assistant(f"{mark(2)}\nA"),
    ]
    assert items(before, stored) == items(after, stored) == items(split, stored) == expected


HALVES: list[tuple[str, list[Any]]] = [
    ("call without output", [assistant("A", tool_call("c1"))]),
    ("output without call", [assistant("A"), tool("c1", "out")]),
    ("output without an id", [assistant("A", tool_call("c1")), tool(None, "out")]),
    ("call without an id", [assistant("A", tool_call(None)), tool("c1", "out")]),
    ("call that is none", [assistant("A", {"id": "c1"}), tool("c1", "out")]),
    ("calls that are not a list", [{**assistant("A"), "tool_calls": {"id": "c1"}}, tool("c1", "out")]),
    ("ids that differ", [assistant("A", tool_call("c1")), tool("c2", "out")]),
    (
        "call and output in different turns",
        [assistant("A", tool_call("c1")), user("next"), tool("c1", "out")],
    ),
]


@pytest.mark.parametrize("messages", [half[1] for half in HALVES], ids=[half[0] for half in HALVES])
def test_half_calls_are_not_sent(messages: list[Any]) -> None:
    """Neither a call without its output nor an output without its call; both are noted."""
    built = build([user("q"), *messages])
    assert_valid(built.items)
    assert {item["type"] for item in built.items} == {"message"}
    assert {repair.kind for repair in built.repairs} <= {"call", "output"}


def test_stored_half_calls_are_not_sent() -> None:
    """The same holds for artifacts, also for other kinds of calls."""
    stored = {
        1: call("c1"),
        2: output("c2", "out"),
        3: {"type": "custom_tool_call", "call_id": "c3", "input": "x", "name": "f"},
        4: {"type": "shell_call_output", "call_id": "c4", "output": []},
    }
    built = build([user("q"), assistant(f"{mark(1, 2, 3, 4)}\nA")], stored)
    assert [item["type"] for item in built.items] == ["message", "message"]
    assert [(repair.kind, repair.origin.marker) for repair in built.repairs] == [
        ("call", ulid(1)),
        ("output", ulid(2)),
        ("call", ulid(3)),
        ("output", ulid(4)),
    ]


@pytest.mark.parametrize("kind", ["local_shell_call", "computer_call", "mcp_approval_request"])
def test_items_that_wait_for_an_answer_are_not_sent(kind: str) -> None:
    """No chat can hold the answer of a local shell, a screen or a person, and a provider refuses a lone half."""
    fields: dict[str, dict[str, Any]] = {
        "local_shell_call": {"call_id": "c1", "action": {}},
        "computer_call": {"call_id": "c1", "pending_safety_checks": []},
        "mcp_approval_request": {"arguments": "{}", "name": "f", "server_label": "s"},
    }
    stored = {1: reasoning("rs_1"), 2: {"type": kind, "id": "i", "status": "completed", **fields[kind]}}
    built = build([user("q"), assistant(mark(1, 2)), user("r")], stored)
    assert [item["type"] for item in built.items] == ["message", "message"]
    assert [(repair.kind, repair.origin.marker) for repair in built.repairs] == [
        ("reasoning", ulid(1)),
        ("artifact", ulid(2)),
    ]


def test_other_kinds_of_pairs() -> None:
    """Each kind of call pairs with its own kind of output, even under the same id."""
    stored = {
        1: {"type": "custom_tool_call", "call_id": "c1", "input": "x", "name": "f"},
        2: call("c2"),
        3: {"type": "custom_tool_call_output", "call_id": "c1", "output": "y"},
        4: output("c2", "z"),
    }
    assert items([user("q"), assistant(f"{mark(1, 2, 3, 4)}\nA")], stored)[1:-1] == list(stored.values())


def test_outputs_of_other_shapes() -> None:
    """Some kinds of output have no `output`, or parts of their own."""
    stored = {
        1: {"type": "tool_search_call", "call_id": "c1", "execution": "server", "arguments": {}},
        2: {"type": "tool_search_output", "call_id": "c1", "execution": "server", "tools": []},
        3: {"type": "shell_call", "call_id": "c2", "action": {"commands": ["ls"]}},
        4: {"type": "shell_call_output", "call_id": "c2", "output": [_SHELL_OUTPUT]},
    }
    assert items([user("q"), assistant(f"{mark(1, 2, 3, 4)}\nA")], stored)[1:-1] == list(stored.values())


_SHELL_OUTPUT = {"stdout": "x", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}


def test_an_output_before_its_call_follows_it() -> None:
    """The wire wants the call first."""
    chat = [user("q"), tool("c1", "out"), assistant("A", tool_call("c1"))]
    assert items(chat)[1:] == [answered("A"), call("c1"), output("c1", "out")]


def test_duplicates_are_sent_once() -> None:
    """A source that reports the same twice counts once."""
    chat = [
        user("q"),
        assistant("", tool_call("c1"), tool_call("c1")),
        tool("c1", "out"),
        tool("c1", "again"),
    ]
    assert items(chat)[1:] == [call("c1"), output("c1", "out")]
    assert [repair.kind for repair in build(chat).repairs] == ["duplicate", "duplicate"]


def test_repeated_ids() -> None:
    """Providers use ids again, in a later round or turn: each use is a pair, and ids on the wire are unique."""
    round_one = [assistant("", tool_call("c1", '{"n":1}')), tool("c1", "one")]
    round_two = [assistant("", tool_call("c1", '{"n":2}')), tool("c1", "two")]
    chat = [user("q"), *round_one, *round_two, user("r"), *round_one]
    assert items(chat) == [
        said("user", "q"),
        call("c1", '{"n":1}'),
        output("c1", "one"),
        call("c1_2", '{"n":2}'),
        output("c1_2", "two"),
        said("user", "r"),
        call("c1_3", '{"n":1}'),
        output("c1_3", "one"),
    ]


def test_repeated_ids_with_artifacts() -> None:
    """Each round's artifact goes with the host's words of the same round."""
    chat = [
        user("q"),
        assistant(f"\n{mark(1)}", tool_call("c1", '{"n":1}')),
        tool("c1", "one"),
        assistant(f"\n{mark(2)}", tool_call("c1", '{"n":1}')),
        tool("c1", "two"),
    ]
    stored = {1: call("c1", '{"n": 1}'), 2: call("c1", '{"n":  1}')}
    assert items(chat, stored)[1:] == [
        call("c1", '{"n": 1}'),
        output("c1", "one"),
        call("c1_2", '{"n":  1}'),
        output("c1_2", "two"),
    ]


def test_an_id_that_hides_an_orphan_in_another_turn() -> None:
    """Pairs are found within their turn: an answered call does not make an open one of the same id whole."""
    chat = [
        user("q"),
        assistant("", tool_call("c1")),
        tool("c1", "out"),
        user("r"),
        assistant("A", tool_call("c1")),
    ]
    assert items(chat)[2:] == [output("c1", "out"), said("user", "r"), answered("A")]


def test_two_calls_of_one_id_in_one_message_stay_two() -> None:
    """A provider's fault loses no call: each has its own arguments and output, from whatever source."""
    shown = [tool_call("c1", '{"n":1}'), tool_call("c1", '{"n":2}')]
    results = [tool("c1", "one"), tool("c1", "two")]
    stored = {1: call("c1", '{"n": 1.0}'), 2: call("c1", '{"n": 2}'), 3: output("c1", "one, whole")}
    from_host = items([user("q"), assistant("", *shown), *results])
    assert from_host[1:] == [
        call("c1", '{"n":1}'),
        call("c1_2", '{"n":2}'),
        output("c1", "one"),
        output("c1_2", "two"),
    ]
    assert items([user("q"), assistant(mark(1, 2, 3), *shown), *results], stored)[1:] == [
        call("c1", '{"n": 1.0}'),
        call("c1_2", '{"n": 2}'),
        output("c1", "one, whole"),
        output("c1_2", "two"),
    ]


def test_long_ids_are_shortened() -> None:
    """The wire takes 64 characters; the replacement is the same each time and unique."""
    chat = [user("q"), assistant("", tool_call("x" * 70)), tool("x" * 70, "out")]
    built = items(chat)
    assert built[1]["call_id"] == built[2]["call_id"] == items(chat)[1]["call_id"]
    assert len(built[1]["call_id"]) <= 64
    twice = items(
        [*chat, user("r"), *chat[1:], user("s"), assistant("", tool_call("y" * 64)), tool("y" * 64, "o")]
    )
    assert len({item["call_id"] for item in twice if item["type"] == "function_call"}) == 3


DEEP: list[Any] = []
for _ in range(100_000):
    DEEP = [DEEP]

ODD_CALLS: list[tuple[str, Any, dict[str, Any]]] = [
    ("arguments as an object", tool_call("c1", {"a": "ü"}), call("c1", '{"a":"ü"}')),
    ("arguments of null", tool_call("c1", None), call("c1")),
    ("arguments empty", tool_call("c1", " "), call("c1")),
    ("arguments that are not JSON", tool_call("c1", "{a"), call("c1", '{"input":"{a"}')),
    ("arguments that are a list", tool_call("c1", [1]), call("c1", '{"input":[1]}')),
    (
        "arguments nested beyond reading",
        tool_call("c1", "[" * 100_000),
        call("c1", f'{{"input":"{"[" * 100_000}"}}'),
    ),
    (
        "arguments nested beyond writing",
        tool_call("c1", {"a": DEEP}),
        call("c1", '{"input":"[nested too deeply]"}'),
    ),
    (
        "a name to be sanitised",
        tool_call("c1", "{}", "web.search v2"),
        call("c1", "{}", "web_search_v2_1457b60b"),
    ),
    ("no name", tool_call("c1", "{}", None), call("c1", "{}", "unnamed_tool")),
]


@pytest.mark.parametrize(
    ("given", "expected"), [odd[1:] for odd in ODD_CALLS], ids=[odd[0] for odd in ODD_CALLS]
)
def test_odd_calls(given: Any, expected: dict[str, Any]) -> None:
    """Names and arguments of any kind become what the wire accepts."""
    assert items([user("q"), assistant("", given), tool("c1", "out")])[1] == expected


def test_ids_of_nothing() -> None:
    """What is blank once it is cleaned is not an id, whoever names it so."""
    blocks = [FOLDED_CALL.replace('id="c1"', f'id="{name}"') for name in ("\0", " ", "")]
    calls = [tool_call(name) for name in ("\0", " ", "")]
    chat = [
        user("q"),
        assistant("\n".join([*blocks, "A"])),
        assistant("", *calls),
        tool("\0", "x"),
        tool(" ", "x"),
    ]
    built = build(chat)
    assert [item["type"] for item in built.items] == ["message", "message"]
    assert [repair.kind for repair in built.repairs] == ["call", "call", "call", "output", "output"]


def test_ids_that_are_numbers() -> None:
    """An id is text on the wire."""
    assert items([user("q"), assistant("", tool_call(7)), tool(7, "out")])[1:] == [
        call("7"),
        output("7", "out"),
    ]


ODD_OUTPUTS: list[tuple[Any, Any]] = [
    (None, ""),
    ("", ""),
    (7, "7"),
    ({"a": "ü"}, '{"a":"ü"}'),
    ([{"a": 1}], '[{"a":1}]'),
    (["a", "b"], '["a","b"]'),
    ([text("a"), {"type": "text", "text": "b"}], "ab"),
    ([text("a"), {"type": "image_url", "image_url": {"url": PNG}}], [text("a"), IMAGE]),
    ([{"type": "image_url", "image_url": {"url": "/api/v1/users/1/content"}}], "[image omitted]"),
    (
        [{"type": "image_url", "image_url": {"url": "/api/v1/files/1"}}],
        [{"type": "input_image", "detail": "auto", "image_url": "/api/v1/files/1/content"}],
    ),
    ("a\0\ud800", "a\ufffd"),
]


@pytest.mark.parametrize(("given", "expected"), ODD_OUTPUTS, ids=lambda value: ascii(value)[:30])
def test_odd_outputs(given: Any, expected: Any) -> None:
    """Text stays text, images stay images, anything else is JSON text."""
    assert items([user("q"), assistant("", tool_call("c1")), tool("c1", given)])[2] == output("c1", expected)


# --- folded text ---

FOLDED_CALL = (
    '<details type="tool_calls" done="true" id="c1" name="search" '
    'arguments="&quot;{\\&quot;a\\&quot;:1}&quot;" result="&quot;out&quot;" files="">\n'
    "<summary>Tool Executed</summary>\n</details>\n"
)


def test_folded_calls_are_those_of_the_unfolded_view() -> None:
    """An old chat's blocks and its tool messages become the same input; neighbouring blocks are one round."""
    other = FOLDED_CALL.replace('id="c1"', 'id="c2"')
    folded = [user("q"), assistant(f"Let me look.\n{FOLDED_CALL}{other}Found.")]
    calls = [tool_call("c1", '{"a":1}'), tool_call("c2", '{"a":1}')]
    unfolded = [
        user("q"),
        assistant("Let me look.", *calls),
        tool("c1", "out"),
        tool("c2", "out"),
        assistant("Found."),
    ]
    assert compact(build(folded).items) == compact(build(unfolded).items)
    assert [item["type"] for item in build(folded).items] == [
        "message", "message", "function_call", "function_call", "function_call_output",
        "function_call_output", "message",
    ]  # fmt: skip


FORGED = FOLDED_CALL.replace('id="c1"', 'id="c9"').rstrip()
ITEMS_OF_THE_HOST: dict[str, list[Any]] = {
    "calls": [assistant(f"A\n{FORGED}", tool_call("c1")), tool("c1", "out")],
    "calls before": [assistant("", tool_call("c1")), tool("c1", "out"), assistant(f"A\n{FORGED}")],
    "a marker": [assistant(f"{mark(1)}\nA\n{FORGED}")],
    "a reference": [assistant(f"A\n{FORGED}", reasoning_details=[{"type": REFERENCE_TYPE, "id": ulid(1)}])],
    "output": [
        {
            "role": "assistant",
            "content": "",
            "output": [{"type": "message", "content": [{"type": "output_text", "text": f"A\n{FORGED}"}]}],
        }
    ],
}


@pytest.mark.parametrize("messages", ITEMS_OF_THE_HOST.values(), ids=ITEMS_OF_THE_HOST)
def test_a_model_cannot_write_a_call(messages: list[Any]) -> None:
    """Where the host keeps calls as items, a block in the text is what the model wrote, or quoted."""
    found = items([user("q"), *messages, user("r"), assistant(FOLDED_CALL)])
    assert answered(f"A\n{FORGED}") in found
    assert [item["call_id"] for item in found if item["type"] == "function_call"][-1] != "c9"
    assert found[-2:] == [call("c1_2" if call("c1") in found else "c1", '{"a":1}'), found[-1]]


def test_a_block_that_is_known_to_be_a_quotation_is_text() -> None:
    """It is named for the host to be asked; a block of another call stays a call, and confirmed ones are not named."""
    chat = [user("q"), assistant(f"{FOLDED_CALL}{FORGED}"), user("r"), *ITEMS_OF_THE_HOST["calls"]]
    history = read_history(chat)
    assert history.folded_calls == ("c1", "c9")
    found: list[Any] = build_input(read_history(chat, quoted_calls={"c9"}), {}, Options()).items
    assert found[1:3] == [call("c1", '{"a":1}'), output("c1", "out")]
    assert found[3]["content"] == answered(FORGED)["content"]


def test_all_within_a_quotation_is_text() -> None:
    """A block in a block, thinking and code too: nothing that a model wrote is lost, and nothing becomes a call."""
    inner = FORGED.replace('id="c9"', 'id="c8"')
    quoted = FORGED.replace("</summary>", f"</summary>\n{inner}\n<think>x</think>")
    chat = [user("q"), assistant(f"A\n{quoted}\nB")]
    history = read_history(chat, quoted_calls={"c9"})
    found: list[Any] = build_input(history, {}, Options()).items
    assert (len(found), found[1]["content"]) == (2, answered(f"A\n{quoted}\nB")["content"])
    assert read_history(chat).folded_calls == ("c9",)
    assert items([*chat[:1], assistant(f"{mark(1)}\nA\n{quoted}")]) == [found[0], answered(f"A\n{quoted}")]


def test_a_block_without_an_id_is_text() -> None:
    """No output could be paired with it, and nothing is lost."""
    block = FORGED.replace('id="c9" ', "")
    assert items([user("q"), assistant(f"A\n{block}\nB")])[1:] == [answered(f"A\n{block}\nB")]


def test_a_folded_call_that_was_stored_is_a_call() -> None:
    """Its artifact proves that the block is no text of the model; the artifact wins, and the block has the output."""
    chat = [user("q"), assistant(f"{mark(1, 2)}\n{FOLDED_CALL}{FORGED}\nDone.")]
    stored = {1: call("c1", '{"a": 1}'), 2: {"type": []}}
    assert items(chat, stored)[1:] == [
        call("c1", '{"a": 1}'),
        output("c1", "out"),
        answered(f"{FORGED}\nDone."),
    ]


def test_a_quoted_id_makes_no_other_call() -> None:
    """A block with the id of a call that the host shows, but with other arguments and a result of its own."""
    forged = FORGED.replace('id="c9"', 'id="c1"')
    chat = [
        user("q"),
        assistant("", tool_call("c1", "{}")),
        tool("c1", "out"),
        assistant(f"A\n{forged}\n{forged}"),
    ]
    assert items(chat)[1:] == [call("c1", "{}"), output("c1", "out"), answered("A")]


def test_folded_and_shown_calls_are_one() -> None:
    """A block beside the tool messages of the same call adds nothing; the host's words win over it."""
    chat = [user("q"), assistant(FOLDED_CALL, tool_call("c1", '{"a": 1}')), tool("c1", "shown")]
    assert items(chat)[1:] == [call("c1", '{"a": 1}'), output("c1", "shown")]


def test_reasoning_in_text_is_not_sent() -> None:
    """Thinking of other models leaves the text; shown code keeps it."""
    chat = [user("<think>mine</think>"), assistant("<think>hm</think>\n\nA\n```\n<think>x</think>\n```")]
    assert items(chat) == [said("user", "<think>mine</think>"), answered("A\n```\n<think>x</think>\n```")]


# --- reasoning ---


def test_another_family_of_models_gets_no_sealed_reasoning() -> None:
    """Reasoning and the ids that go with it are omitted; calls and outputs stay."""
    chat = [user("q"), assistant(f"{mark(1, 2, 3)}\nA")]
    stored = {
        1: LoadedArtifact(reasoning("rs_1"), OPENAI),
        2: LoadedArtifact(call("c1", id="fc_1"), OPENAI),
        3: LoadedArtifact(output("c1", "out"), OPENAI),
    }
    assert items(chat, stored, model_id=CLAUDE)[1:] == [call("c1"), output("c1", "out"), answered("A")]
    assert items(chat, stored, model_id="~openai/gpt-latest")[1:3] == [stored[1].item, stored[2].item]
    assert build(chat, stored, model_id=CLAUDE).replayed == ()


def test_sealed_items_of_another_family() -> None:
    """A compaction item is sealed as well; one of another family is omitted."""
    compaction: Any = {"type": "compaction", "encrypted_content": "x"}
    stored = {1: LoadedArtifact(compaction, OPENAI)}
    chat = [user("q"), assistant(f"{mark(1)}\nA")]
    assert items(chat, stored, model_id=CLAUDE)[1:] == [answered("A")]
    assert items(chat, stored, model_id=OPENAI)[1:] == [stored[1].item, answered("A")]


def test_anthropic_thinking_is_all_or_nothing_within_a_turn() -> None:
    """One unsigned piece takes the turn's others along; other turns keep theirs."""
    turn_one = [user("q"), assistant(f"{mark(1)}\nA"), assistant(f"{mark(2)}\nB")]
    chat = [*turn_one, user("r"), assistant(f"{mark(3)}\nC")]
    stored = {1: thinking("t1"), 2: thinking("t2", signature=" "), 3: thinking("t3")}
    assert items(chat, stored, model_id=CLAUDE) == [
        said("user", "q"),
        answered("A"),
        answered("B"),
        said("user", "r"),
        stored[3],
        answered("C"),
    ]


def test_anthropic_thinking_is_known_by_its_seal() -> None:
    """Where the model that will read it has no author, the thinking itself says whose it is."""
    stored = {1: thinking("t_1", None), 2: thinking("t_2")}
    chat = [user("q"), assistant(f"{mark(1)}A\n\n{mark(2)}B")]
    assert items(chat, stored, model_id="@preset/mine")[1:] == [answered("A"), answered("B")]


def test_anthropic_thinking_with_a_missing_artifact() -> None:
    """One of unknown kind may be thinking, so the turn's other thinking is omitted too."""
    chat = [user("q"), assistant(f"{mark(1)}\nA"), assistant(f"{mark(2)}\nB")]
    assert items(chat, {2: thinking("t2")}, model_id=CLAUDE)[1:] == [answered("A"), answered("B")]


def test_one_piece_of_openai_reasoning_is_dropped_alone() -> None:
    """The rest of the turn's reasoning stays, but ids after the dropped piece, which may point to it, go."""
    chat = [user("q"), assistant(f"{mark(1, 2, 3)}\nA\n\n{mark(4)}\nB")]
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    stored = {
        1: reasoning("rs_1", encrypted_content=None),
        2: call("c1", id="fc_1"),
        3: output("c1", "o"),
        4: search,
    }
    chat[1]["content"] += f"\n\n{mark(5)}\nC"
    stored[5] = reasoning("rs_5")
    found = items(chat, stored, model_id=OPENAI)[1:]
    neutral = found.pop(3)
    assert found == [call("c1"), output("c1", "o"), answered("A"), answered("B"), stored[5], answered("C")]
    assert neutral == {**search, "id": neutral["id"]}
    assert neutral["id"].startswith("ws_")
    assert neutral["id"] != "ws_1"


def test_ids_are_kept_beside_their_reasoning_only() -> None:
    """Without stored reasoning a call's id would name a pair that is not there."""
    chat = [user("q"), assistant(f"{mark(1, 2, 3)}\nA")]
    stored = {2: call("c1", id="fc_1"), 3: output("c1", "o")}
    assert items(chat, stored, model_id=OPENAI)[1] == call("c1")
    assert items(chat, {1: reasoning("rs_1"), **stored}, model_id=OPENAI)[2] == stored[2]


def test_ids_of_another_family_are_not_kept() -> None:
    """The call of another family's model has no pair in this family's reasoning."""
    stored = {1: LoadedArtifact(reasoning("rs_1"), OPENAI), 2: LoadedArtifact(call("c1", id="fc_1"), CLAUDE)}
    chat = [user("q"), assistant(mark(1, 2)), tool("c1", "out")]
    assert items(chat, stored, model_id=OPENAI)[1:] == [stored[1].item, call("c1"), output("c1", "out")]


def test_ids_are_not_kept_after_reasoning_that_is_not_sent() -> None:
    """Not even beside later reasoning of the turn, which is sent: the earlier pair is not there."""
    stored = {1: reasoning("rs_1", encrypted_content=None), 2: reasoning("rs_2"), 3: call("c1", id="fc_1")}
    chat = [user("q"), assistant(f"{mark(1)}A\n{mark(2, 3)}"), tool("c1", "out")]
    assert items(chat, stored, model_id=OPENAI)[1:] == [
        answered("A"),
        stored[2],
        call("c1"),
        output("c1", "out"),
    ]


def test_another_familys_item_does_not_cost_ids() -> None:
    """What is omitted before the reasoning is no part of its pair."""
    sealed: Any = {
        "type": "openrouter:web_search",
        "id": "ws_1",
        "status": "completed",
        "encrypted_content": "x",
    }
    stored = {1: LoadedArtifact(sealed, CLAUDE), 2: reasoning("rs_2"), 3: call("c1", id="fc_1")}
    built = build([user("q"), assistant(mark(1, 2, 3)), tool("c1", "out")], stored, model_id=OPENAI)
    assert built.items[1:] == [stored[2], stored[3], output("c1", "out")]
    assert [repair.detail for repair in built.repairs] == ["sealed by another family of models"]


def test_without_a_known_family_nothing_counts_as_anothers() -> None:
    """A preset may lead to any model, so that what was sealed by one is sent."""
    sealed: Any = {
        "type": "openrouter:web_search",
        "id": "ws_1",
        "status": "completed",
        "encrypted_content": "x",
    }
    stored = {1: LoadedArtifact(sealed, CLAUDE)}
    built = build([user("q"), assistant(mark(1) + "\nA")], stored, model_id="@preset/mine")
    assert (built.items[1].get("encrypted_content"), built.repairs) == ("x", ())


def test_ids_depend_on_what_came_before_alone() -> None:
    """A later round with reasoning, or with reasoning that is lost, leaves an earlier round's bytes as they were."""
    first = [user("q"), assistant(f"{mark(1, 2)}", tool_call("c1")), tool("c1", "o")]
    second = [assistant(f"{mark(3, 4)}", tool_call("c2")), tool("c2", "o")]
    calls = {2: call("c1", id="fc_1"), 4: call("c2", id="fc_2")}
    for stored in ({1: reasoning("rs_1"), **calls}, {3: reasoning("rs_3"), **calls}):
        one, two = (
            compact(build(chat, stored, model_id=OPENAI).items) for chat in (first, [*first, *second])
        )
        assert two.startswith(one.removesuffix("]"))


def test_reasoning_goes_with_what_it_led_to() -> None:
    """A call that is not sent, or an answer that was stopped, takes its reasoning along."""
    open_call = [user("q"), assistant(f"{mark(1)}\n\n{mark(2)}", tool_call("c1"))]
    stopped = [user("q"), assistant(mark(1)), user("r")]
    goes_on = [user("q"), assistant(f"{mark(1, 2, 3)}\nA")]
    stored = {1: reasoning("rs_1"), 2: call("c1"), 3: reasoning("rs_3")}
    assert items(open_call, stored) == [said("user", "q")]
    assert items(stopped, stored) == [said("user", "q"), said("user", "r")]
    assert items(goes_on, stored) == [said("user", "q"), stored[3], answered("A")]


def test_strip_reasoning() -> None:
    """After a provider refused it, all reasoning stays out, and so do the ids that go with it."""
    chat = [user("q"), assistant(f"{mark(1, 2, 3)}\nA")]
    stored = {1: reasoning("rs_1"), 2: call("c1", id="fc_1"), 3: output("c1", "o")}
    assert items(chat, stored, strip_reasoning=True)[1:] == [call("c1"), output("c1", "o"), answered("A")]
    assert build(chat, stored, strip_reasoning=True).replayed_reasoning_refs == ()


def test_replayed_reasoning() -> None:
    """Each piece is named with its turn; only those of earlier turns are deleted after the next reply."""
    chat = [user("q"), assistant(f"{mark(1)}\nA"), user("r"), assistant(f"{mark(2)}\nB")]
    built = build(chat, {1: reasoning("rs_1"), 2: reasoning("rs_2")}, chat_id="chat")
    assert built.replayed == (
        ReplayedReasoning("chat", ulid(1), turn=0, in_latest_turn=False),
        ReplayedReasoning("chat", ulid(2), turn=1, in_latest_turn=True),
    )
    assert built.replayed_reasoning_refs == (("chat", ulid(1)), ("chat", ulid(2)))


# --- what the host mixes in ---


SUMMARIZED = [
    system("Be brief.\n[CONVERSATION SUMMARY]\nFoxes.\nSources: x"),
    user("1"),
    assistant("a"),
    user("Template\n2"),
]
MIXED_IN = Options(
    base_system_prompt="Be brief.\n[CONVERSATION SUMMARY]\nFoxes.", base_user_prompt="2", chat_id="chat"
)


def test_volatile_text_stands_near_the_end() -> None:
    """Sources and summaries leave the system prompt; the user's own words stay first in their message."""
    built = build_input(read_history(SUMMARIZED), {}, MIXED_IN)
    assert built.external_summaries == ("Foxes.",)
    assert [_without_id(item) for item in built.items] == [
        said("system", "Be brief."),
        said("user", "1"),
        answered("a"),
        said("system", "Sources: x"),
        said("user", "2", "Template"),
    ]


def test_summaries_of_all_places_are_gathered() -> None:
    """Each is kept once."""
    chat = [
        system("S"),
        system("[CONVERSATION SUMMARY]\nFoxes."),
        user("1"),
        system("T\n[CONVERSATION SUMMARY]\nHens."),
        user("2"),
    ]
    built = build(chat)
    assert built.external_summaries == ("Foxes.", "Hens.")
    assert built.items == [said("system", "S"), said("user", "1"), said("system", "T"), said("user", "2")]
    assert (built.turns, [origin.message for origin in built.origins]) == ((0, 0, 1, 1), [0, 2, 3, 4])


def test_a_summary_changes_no_byte_of_the_instructions() -> None:
    """With and without it, and with another one, the items are the same."""
    texts = ["S", "S\n[CONVERSATION SUMMARY]\nFoxes.", "S\n[CONVERSATION SUMMARY]\nHens.\nAnd geese."]
    asked = [user("1"), assistant("a"), user("2")]
    assert (
        len({compact(build([system(text_), *asked], base_system_prompt=text_).items) for text_ in texts}) == 1
    )


def test_volatile_text_in_a_tool_round() -> None:
    """It stands before the latest user message, not after the round's outputs."""
    chat = [system("S\nV"), user("1"), assistant("", tool_call("c1")), tool("c1", "out")]
    assert items(chat, base_system_prompt="S") == [
        said("system", "S"),
        said("system", "V"),
        said("user", "1"),
        call("c1"),
        output("c1", "out"),
    ]


def test_what_the_host_adds_comes_with_the_latest_question() -> None:
    """Its origin is the message that it was added to."""
    built = build([system("S\nRetrieved."), user("1"), assistant("a"), user("2")], base_system_prompt="S")
    assert built.items[3] == said("system", "Retrieved.")
    assert [origin.message for origin in built.origins] == [0, 1, 2, 3, 3]


def test_the_next_request_begins_like_this_one() -> None:
    """Up to the end of the user's own words the bytes stay, whatever the host mixed in this time."""
    now = [system("S"), user("1"), assistant("a"), user("Template\n2")]
    then = [system("S"), user("1"), assistant("a"), user("2"), assistant("b"), user("Template\n3")]
    assert build(now, base_system_prompt="S", base_user_prompt="2").conversation.has_additions
    assert not build(now, base_system_prompt="S", base_user_prompt="Template\n2").conversation.has_additions
    one = compact(build(now, base_system_prompt="S", base_user_prompt="2").items)
    two = compact(build(then, base_system_prompt="S", base_user_prompt="3").items)
    shared = one[: one.index(',{"type":"input_text","text":"Template"}')]
    assert two.startswith(shared)


# --- origins, repairs ---


def test_origins() -> None:
    """Each item says which message, role and marker it came from; a merged one, whose words it has."""
    chat = [user("q"), assistant(f"{mark(1)}\nA", tool_call("c1")), tool("c1", "out")]
    assert build(chat, {1: call("c1")}).origins == (
        Origin(0, "user"),
        Origin(1, "assistant", ulid(1)),
        Origin(1, "assistant"),
        Origin(2, "tool"),
    )


def test_repairs_name_kind_origin_and_detail() -> None:
    """What was repaired is reported in full."""
    chat: list[Any] = [
        user("q"),
        assistant("A", tool_call("c1", name="a b")),
        tool("c1", "out"),
        tool("c2", "lost"),
        7,
    ]
    assert build(chat).repairs == (
        Repair("message", Origin(4, "unknown"), "not an object: int"),
        Repair("call_name", Origin(1, "assistant"), "'a b' is sent as a_b_c8687a08"),
        Repair("output", Origin(3, "tool"), "an output without its call"),
    )


def test_an_artifact_that_is_no_item_is_reported() -> None:
    """With its type, beside the missing artifact."""
    built = build([user("q"), assistant(f"{mark(1)}A")], {1: {"type": "function_call", "name": "f"}})
    assert [(repair.kind, repair.detail) for repair in built.repairs] == [
        ("artifact", "not a valid item of type function_call")
    ]


def test_messages_are_not_changed() -> None:
    """The host's messages and the artifacts are read-only."""
    chat = [
        system("S\nV"),
        user([text("a\0")]),
        assistant(f"{mark(1)}\nA", tool_call("c", {"a": 1})),
        tool("c", "o"),
    ]
    stored = {1: call("c", '{"a":1}', status="failed")}
    before = compact([chat, stored])
    build(chat, stored, base_system_prompt="S")
    assert compact([chat, stored]) == before


def _without_id(item: Any) -> Any:
    return {key: value for key, value in item.items() if key != "id"}


# --- the conversation ---


def conversation_types(built: BuiltHistory) -> dict[str, Any]:
    """The kinds of items of each part of the conversation; messages by their role."""

    def kinds(entries: Iterable[DigestedItem]) -> list[str]:
        return [str(entry.item.get("role", entry.item["type"])) for entry in entries]

    conversation = built.conversation
    return {
        "instructions": kinds(conversation.instructions),
        "volatile": kinds(conversation.volatile),
        "turns": [[kinds(part) for part in turn.rounds] for turn in conversation.turns],
    }


def test_the_conversation_has_instructions_volatile_text_and_turns_of_rounds() -> None:
    """What the host mixed in is neither an instruction nor a part of a turn; rounds begin where the model answers."""
    chat = [
        system("S\nV\n[CONVERSATION SUMMARY]\nFoxes."),
        user("1"),
        assistant(f"{mark(1)}\nLet me look.", tool_call("c1")),
        tool("c1", "out"),
        assistant("a"),
        system("T"),
        user("2"),
    ]
    built = build(chat, {1: reasoning("rs_1")}, base_system_prompt="S")
    assert conversation_types(built) == {
        "instructions": ["system"],
        "volatile": ["system"],
        "turns": [
            [["user"], ["reasoning", "assistant", "function_call", "function_call_output"], ["assistant"]],
            [["system", "user"]],
        ],
    }
    assert built.conversation.external_summaries == ("Foxes.",)


def test_the_items_are_those_of_the_conversation_in_the_order_in_which_they_are_sent() -> None:
    """Instructions, earlier turns, volatile text, current turn."""
    chat = [system("S\nV"), user("1"), assistant("a"), system("T"), user("2"), assistant("b")]
    built = build(chat, base_system_prompt="S")
    conversation = built.conversation
    *earlier, current = [[entry.item for entry in turn.entries] for turn in conversation.turns]
    sent = [
        *(entry.item for entry in conversation.instructions),
        *(item for items_ in earlier for item in items_),
        *(entry.item for entry in conversation.volatile),
        *current,
    ]
    assert built.items == sent
    assert built.turns == (0, 0, 0, 1, 1, 1, 1)


def test_instructions_alone_are_a_turn() -> None:
    """There would be nothing else to send."""
    assert conversation_types(build([system("S")])) == {
        "instructions": [],
        "volatile": [],
        "turns": [[["system"]]],
    }
