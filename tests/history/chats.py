"""Strategies for chats: well-formed rounds, folded blocks and markers, mutated until little of them is well-formed."""

from __future__ import annotations

import html
import json
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from open_webui_openrouter_pipe.history.artifacts import LoadedArtifact, MissingArtifact
from open_webui_openrouter_pipe.history.folded import TOOL_IMAGES_TEXT
from open_webui_openrouter_pipe.history.markers import REFERENCE_TYPE, Reference, name_call, write_reference
from tests.history.builders import call, mark, output, reasoning, thinking, tool, tool_call, ulid

if TYPE_CHECKING:
    from collections.abc import Callable

NUMBERS = range(1, 6)
MODELS = [
    "openai/gpt-5",
    "anthropic/claude-sonnet-4.5",
    "~openai/gpt-latest",
    "google/gemini-3",
    "openrouter/auto",
    None,
]

_PNG = "data:image/png;base64,AAAA"
_number = st.sampled_from(NUMBERS)
_named = [name_call(ulid(1)), name_call(ulid(2), "commentary")]
_call_id = st.sampled_from(["c1", "c2", "c3", "c1_2", "", "x" * 70, 5, None, "ü\0", *_named])
_wild_text = st.text(st.characters(exclude_categories=()), max_size=8)
_huge = st.sampled_from(["lorem ipsum " * 2_000, "\n" * 3_000, "[" * 3_000, "`" * 3_000])


def _folded(call_id: str, arguments: Any, result: Any) -> str:
    return (
        f'<details type="tool_calls" done="true" id="{call_id}" name="f" '
        f'arguments="{html.escape(json.dumps(arguments))}" result="{html.escape(json.dumps(result))}">\n'
        "<summary>Tool Executed</summary>\n</details>"
    )


_blocks = st.sampled_from(
    [
        '<details type="reasoning" done="true">\n<summary>Thought</summary>\n&gt; hm\n</details>',
        '<details type="code_interpreter" done="true" output="&quot;1&quot;">\n```python\n1\n```\n</details>',
        '<details type="reasoning">',
        "<think>hm</think>",
        "<think>",
        "</details>",
        _folded("c1", '{"a":1}', "out"),
        _folded("c2", {"a": 1}, [{"type": "text", "text": "out"}]),
        _folded("", "", None),
    ]
)
_markers = st.lists(_number, min_size=1, max_size=3).map(lambda numbers: mark(*numbers))
_lines = st.one_of(
    _wild_text,
    _markers,
    _markers.map(str.rstrip),
    _markers.map(lambda markers: markers.replace("\n", " \r\n")),
    _markers.map(lambda markers: f"a {markers.rstrip()} b"),
    _markers.map(lambda markers: f"```\ncode\n{markers}\ncode\n```"),
    _markers.map(lambda markers: f"`{markers.rstrip()}`"),
    _blocks,
    st.sampled_from(["", "text", "```", "~~~", "    ```", "``` a", " ", "\r"]),
)
assistant_texts = st.one_of(st.lists(_lines, max_size=6).map("\n".join), _huge)
user_texts = st.one_of(_wild_text, assistant_texts, st.just("What?"))

_json = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-5, 5), _wild_text),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_wild_text, inner, max_size=2),
    max_leaves=4,
)
_urls = st.sampled_from(
    [_PNG, "https://x.org/a.png", "/api/v1/files/1/content", "", None, 5, {"url": _PNG, "detail": "low"}]
)
_parts = st.one_of(
    user_texts.map(lambda text: {"type": "text", "text": text}),
    st.builds(
        lambda kind, url: {"type": kind, "image_url": url},
        st.sampled_from(["image_url", "input_image"]),
        _urls,
    ),
    st.builds(lambda url: {"type": "video_url", "video_url": url}, _urls),
    st.builds(lambda data: {"type": "file", "file": {"filename": "a.pdf", "file_data": data}}, _urls),
    st.builds(lambda url: {"type": "input_file", "file_url": url}, _urls),
    st.builds(
        lambda data, format_: {"type": "input_audio", "input_audio": {"data": data, "format": format_}},
        st.sampled_from(["AAAA", "", None]),
        st.sampled_from(["mp3", "wav", "ogg", None]),
    ),
    _json,
)
_user_content = st.one_of(user_texts, st.lists(_parts, max_size=3), _json)
_users = _user_content.map(lambda content: {"role": "user", "content": content})
_tool_images = st.just(
    {
        "role": "user",
        "content": [
            {"type": "text", "text": TOOL_IMAGES_TEXT},
            {"type": "image_url", "image_url": {"url": _PNG}},
        ],
    }
)
_instructions = st.builds(
    lambda role, content: {"role": role, "content": content},
    st.sampled_from(["system", "developer"]),
    _user_content,
)
_calls = st.builds(
    tool_call,
    _call_id,
    st.one_of(_json, st.just('{"a": 1}'), _wild_text),
    st.sampled_from(["f", "a b", None, ""]),
)
_details = st.lists(
    st.one_of(
        _number.map(lambda n: {"type": REFERENCE_TYPE, "id": ulid(n)}),
        st.builds(
            lambda after, n, phase: write_reference(Reference(after, ulid(n) if n else "", phase)),
            st.integers(0, 20),
            st.sampled_from([0, *NUMBERS]),
            st.sampled_from(["commentary", "final_answer", ""]),
        ),
        _json,
    ),
    max_size=2,
)


@st.composite
def _answers(draw: st.DrawFn) -> dict[str, Any]:
    message: dict[str, Any] = {
        "role": "assistant",
        "content": draw(st.one_of(assistant_texts, st.lists(_parts, max_size=2), _json)),
    }
    if draw(st.booleans()):
        message["tool_calls"] = draw(st.one_of(st.lists(_calls, max_size=3), _json))
    if draw(st.booleans()):
        message["reasoning_details"] = draw(st.one_of(_details, _json))
    return message


_outputs = st.builds(tool, _call_id, st.one_of(_wild_text, st.lists(_parts, max_size=2), _json))


_marked_answers = st.builds(
    lambda markers, text: {"role": "assistant", "content": f"{markers}\n{text}"}, _markers, _lines
)


@st.composite
def rounds(draw: st.DrawFn) -> Callable[[int], tuple[list[Any], dict[int, Any]]]:
    """A well-formed round: given its number, its messages and artifacts. Artifacts may be missing.

    Ids may repeat where no outputs are stored: a stored output whose own call is missing goes to the call before it.
    """
    names = draw(st.lists(st.sampled_from(["c1", "c2"]), min_size=1, max_size=2, unique=True))
    fates = draw(st.tuples(*[st.sampled_from(["kept", "kept", "missing", "missing, of known kind"])] * 5))
    has_reasoning, has_outputs = draw(st.booleans()), draw(st.booleans())
    in_text, phase = draw(st.booleans()), draw(st.sampled_from(["", "commentary"]))
    text = draw(st.sampled_from(["", "Let me look."]))

    def written(number: int) -> tuple[list[Any], dict[int, Any]]:
        numbers = range(number * 10 + 1, number * 10 + 6)
        ids = [f"{name}_{number}" if has_outputs else name for name in names]
        items = [
            reasoning(f"rs_{number}"),
            *(call(i, f'{{"n": {number}}}', id=f"fc_{number}{i}") for i in ids),
            *(output(i, "whole output") for i in ids if has_outputs),
        ]
        stored = dict(zip(numbers, items, strict=False))
        markers = [n for n in stored if has_reasoning or n != numbers[0]]
        shown = ids if in_text else [name_call(ulid(numbers[at]), phase) for at in range(1, len(ids) + 1)]
        calls = [tool_call(call_id, f'{{"n":{number}}}') for call_id in shown]
        message: dict[str, Any] = {"role": "assistant", "content": text, "tool_calls": calls}
        if in_text and markers:
            message["content"] = f"{mark(*markers)}\n{text}"
        elif has_reasoning:
            message["reasoning_details"] = [write_reference(Reference(0, ulid(n))) for n in markers]
        messages = [message, *(tool(i, "out") for i in shown)]
        artifacts = {
            n: item if fate == "kept" else MissingArtifact(item["type"])
            for (n, item), fate in zip(stored.items(), fates, strict=False)
            if fate != "missing"
        }
        return messages, artifacts

    return written


_replies = st.one_of(
    rounds().map(lambda written: written(0)[0]),
    _marked_answers.map(lambda message: [message]),
    _answers().map(lambda message: [message]),
    _outputs.map(lambda message: [message]),
    _tool_images.map(lambda message: [message]),
)


@st.composite
def turns(draw: st.DrawFn) -> list[Any]:
    """A user message with what is before and after it."""
    before = draw(st.lists(_instructions, max_size=1))
    replies = draw(st.lists(_replies, max_size=3))
    return [*before, draw(_users), *(message for reply in replies for message in reply)]


_junk = st.one_of(_json, st.dictionaries(st.sampled_from(["role", "content", "output"]), _json, max_size=3))


@st.composite
def mutated(draw: st.DrawFn) -> list[Any]:
    """A chat of several turns with messages dropped, doubled, moved or replaced by junk."""
    messages = [message for turn in draw(st.lists(turns(), min_size=1, max_size=4)) for message in turn]
    for _ in range(draw(st.integers(0, 3))):
        index = draw(st.integers(0, len(messages) - 1)) if messages else 0
        change = draw(st.sampled_from(["drop", "repeat", "move", "junk"]))
        if change == "junk" or not messages:
            messages.insert(index, draw(_junk))
        elif change == "repeat":
            messages.insert(index, messages[index])
        else:
            message = messages.pop(index)
            if change == "move":
                messages.insert(draw(st.integers(0, len(messages))), message)
    return messages


_stored_items = st.one_of(
    st.builds(
        reasoning, st.sampled_from(["rs_1", "rs_2"]), encrypted_content=st.sampled_from(["sealed", None])
    ),
    st.builds(thinking, st.just("t_1"), st.sampled_from(["signed", " ", None])),
    st.builds(
        call,
        st.sampled_from(["c1", "c2", "c3"]),
        st.sampled_from(['{"a": 1}', '{"a":1}', "{", ""]),
        id=st.just("fc"),
    ),
    st.builds(
        output,
        st.sampled_from(["c1", "c2", "c3"]),
        st.one_of(_wild_text, st.lists(_parts, max_size=2), _json),
        status=st.sampled_from(["completed", "failed", None]),
    ),
    st.just({"type": "web_search_call", "id": "ws_1", "status": "completed"}),
    st.just({"type": "openrouter:web_fetch", "id": "st_1", "status": "failed", "error": None}),
    st.just({"type": "custom_tool_call", "call_id": "c1", "input": "x", "name": "f"}),
    st.just({"type": "custom_tool_call_output", "call_id": "c1", "output": "y"}),
    st.just({"type": "compaction", "encrypted_content": "sealed"}),
    st.just({"type": "message", "phase": "commentary"}),
)
_broken_items = st.one_of(
    st.dictionaries(st.sampled_from(["type", "id", "call_id"]), _json, max_size=3),
    st.builds(
        lambda item, key, value: {**item, key: value} if key in item else item,
        _stored_items,
        st.sampled_from(["id", "call_id", "type"]),
        _json,
    ),
    st.builds(
        lambda item, key: {k: v for k, v in item.items() if k != key},
        _stored_items,
        st.sampled_from(["id", "call_id", "summary", "name", "arguments", "output"]),
    ),
)
_artifacts = st.one_of(
    _stored_items,
    st.builds(LoadedArtifact, _stored_items, st.sampled_from(MODELS)),
    st.builds(LoadedArtifact, st.just(reasoning("rs_3")), st.just("openai/gpt-5")),
    _broken_items,
    st.builds(
        MissingArtifact, st.sampled_from(["reasoning", "function_call_output", "image_generation_call"])
    ),
    st.none(),
)
artifacts = st.tuples(*[_artifacts] * len(NUMBERS)).map(
    lambda found: {
        number: artifact for number, artifact in zip(NUMBERS, found, strict=True) if artifact is not None
    }
)
options = st.fixed_dictionaries(
    {"model_id": st.sampled_from(MODELS), "strip_reasoning": st.sampled_from([False, False, True])}
)
