"""From chats to input: what each kind of message, marker and artifact becomes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe.errors import InvalidHistory
from open_webui_openrouter_pipe.history.artifacts import LoadedArtifact, MissingArtifact
from open_webui_openrouter_pipe.history.build import Options, ReplayedReasoning, build_input
from open_webui_openrouter_pipe.history.folded import TOOL_IMAGES_TEXT
from open_webui_openrouter_pipe.history.markers import REFERENCE_TYPE
from open_webui_openrouter_pipe.history.reading import Origin, Repair, read_history
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


@pytest.mark.parametrize("messages", [None, "text", {}, [], [None, 5], [assistant("")]])
def test_a_chat_with_nothing_to_send_is_an_error(messages: Any) -> None:
    """Without a single thing to send there is a typed error."""
    with pytest.raises(InvalidHistory):
        build_input(read_history(messages), {}, Options())


# --- markers ---


def test_references_and_markers_in_the_text() -> None:
    """References in reasoning_details stand before the text; the same id in both counts once."""
    details = [{"type": REFERENCE_TYPE, "id": ulid(n)} for n in (1, 2)]
    others = [{"type": "reasoning.text", "text": "x"}, {"type": REFERENCE_TYPE, "id": "short"}, None]
    chat = [user("q"), assistant(f"A\n\n{mark(2)}", reasoning_details=[*details, *others])]
    stored = {1: reasoning("rs_1"), 2: reasoning("rs_2")}
    assert items(chat, stored) == [said("user", "q"), stored[1], stored[2], answered("A")]
    assert read_history(chat).wanted == (ulid(1), ulid(2))


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


# --- calls and outputs ---


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


def test_strip_reasoning() -> None:
    """After a provider refused it, all reasoning stays out, and so do the ids that go with it."""
    chat = [user("q"), assistant(f"{mark(1, 2, 3)}\nA")]
    stored = {1: reasoning("rs_1"), 2: call("c1", id="fc_1"), 3: output("c1", "o")}
    assert items(chat, stored, strip_reasoning=True)[1:] == [call("c1"), output("c1", "o"), answered("A")]
    assert build(chat, stored, strip_reasoning=True).replayed == ()


def test_replayed_reasoning() -> None:
    """Each piece is named with its turn; only those of earlier turns are deleted after the next reply."""
    chat = [user("q"), assistant(f"{mark(1)}\nA"), user("r"), assistant(f"{mark(2)}\nB")]
    built = build(chat, {1: reasoning("rs_1"), 2: reasoning("rs_2")}, chat_id="chat")
    assert built.replayed == (
        ReplayedReasoning("chat", ulid(1), turn=0, in_latest_turn=False),
        ReplayedReasoning("chat", ulid(2), turn=1, in_latest_turn=True),
    )


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
