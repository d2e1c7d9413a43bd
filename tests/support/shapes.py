"""Requests, answers and catalogues of n things each, for laws about how work grows with a number."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from open_webui_openrouter_pipe.history.artifacts import LoadedArtifact, MissingArtifact
from open_webui_openrouter_pipe.history.folded import TOOL_IMAGES_TEXT
from open_webui_openrouter_pipe.history.markers import ANSWER_MARK, item_id, serialize_marker

Json: TypeAlias = dict[str, Any]
Shape: TypeAlias = Callable[[int], list[Any]]

PNG = "data:image/png;base64,iVBORw0KGgo="
PDF = "data:application/pdf;base64,JVBERi0xLjQK"
MODEL = "openai/gpt-5"


def ulid(number: int) -> str:
    return item_id(number, number % 1024)


def user(content: Any) -> Json:
    return {"role": "user", "content": content}


def assistant(content: Any, **fields: Any) -> Json:
    return {"role": "assistant", "content": content, **fields}


ASKED = user("Why?")


def tool_call(call_id: object, number: int) -> Json:
    return {"id": call_id, "type": "function", "function": {"name": "look", "arguments": f'{{"q":{number}}}'}}


def result(call_id: object, content: Any = "found") -> Json:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def calls(ids: Iterable[object]) -> list[Json]:
    """One round that calls under these ids, and the results."""
    known = [*ids]
    made = [tool_call(call_id, number) for number, call_id in enumerate(known)]
    return [assistant("", tool_calls=made), *map(result, known)]


def rounds(ids: Iterable[object], say: str = "I look {}.") -> list[Json]:
    """Rounds of one call each."""
    made = (
        [assistant(say.format(at), tool_calls=[tool_call(call_id, at)]), result(call_id)]
        for at, call_id in enumerate(ids)
    )
    return joined(made)


def joined(lists: Iterable[list[Any]]) -> list[Any]:
    return [each for one in lists for each in one]


def block(number: int, kind: str = "tool_calls") -> str:
    """A folded block."""
    head = f'<details type="{kind}" done="true" id="c{number}" name="look" arguments="{{}}" result="&quot;x&quot;">'
    return f"I look {number}.\n{head}\n<summary>Looked</summary>\n</details>"


def marked(number: int) -> str:
    return f"I thought {number}.\n{serialize_marker(ulid(number))}\n"


def item(kind: str, number: int, **fields: Any) -> Json:
    """An item as the host stores it."""
    return {"type": kind, "id": f"i{number}", "call_id": f"c{number}", "status": "completed", **fields}


def message(number: int) -> Json:
    return item("message", number, content=[{"type": "output_text", "text": f"I say {number}."}])


def call_items(number: int) -> list[Json]:
    return [
        item("function_call", number, name="look", arguments="{}"),
        item("function_call_output", number, output=[{"type": "input_text", "text": "found"}]),
    ]


def answered(text: str) -> list[Json]:
    return [ASKED, assistant(text), ASKED]


def asked(parts: Iterable[Json]) -> list[Json]:
    return [user([*parts])]


def image(url: str) -> Json:
    return {"type": "image_url", "image_url": {"url": url}}


def reported(content: Any) -> list[Json]:
    """One call that has returned this."""
    return [ASKED, assistant("", tool_calls=[tool_call("c", 1)]), result("c", content)]


def commanded(number: int, text: str = "/aim faithful") -> list[Json]:
    """A turn, and commands that were answered."""
    command = [user(text), assistant(f"{ANSWER_MARK}Done.")]
    return [user(f"Why {number}?"), assistant("So."), *command * 8]


def each(make: Callable[[int], Any]) -> Callable[[int], list[Any]]:
    return lambda count: [make(number) for number in range(count)]


def text(make: Callable[[int], str]) -> Shape:
    """One answer that says all of them."""
    return lambda count: answered("\n".join(map(make, range(count))))


SHAPES: Mapping[str, Shape] = {
    "calls": lambda n: [ASKED, *calls(range(n))],
    "calls of an earlier turn": lambda n: [ASKED, *calls(range(n)), ASKED],
    "calls of one id": lambda n: [ASKED, *calls(["c"] * n)],
    "calls without results": lambda n: [ASKED, calls(range(n))[0]],
    "results without calls": lambda n: [ASKED, *map(result, range(n))],
    "calls by markers": lambda n: [ASKED, *calls(f"call_{ulid(at)}" for at in range(n))],
    "rounds": lambda n: [ASKED, *rounds(range(n))],
    "rounds of one id": lambda n: [ASKED, *rounds(["c"] * n)],
    "rounds by markers": lambda n: [ASKED, *rounds(f"call_{ulid(at)}" for at in range(n))],
    "rounds that say <details": lambda n: [ASKED, *rounds(range(n), "A <details {}")],
    "blocks": text(block),
    "blocks of reasoning": text(lambda at: block(at, "reasoning")),
    "blocks in a row": lambda n: [ASKED, *(assistant(block(at)) for at in range(n)), ASKED],
    "openings of blocks": text(lambda at: f"<details {at}>"),
    "markers": text(marked),
    "markers beside <details": text(lambda at: f"<details {marked(at)}"),
    "markers in code": text(lambda at: f"```\n{marked(at)}```"),
    "markers in a row": lambda n: [ASKED, *(assistant(f"<details {marked(at)}") for at in range(n)), ASKED],
    "turns with markers": lambda n: [*joined([ASKED, assistant(marked(at))] for at in range(n)), ASKED],
    "turns with blocks": lambda n: [*joined([ASKED, assistant(block(at))] for at in range(n)), ASKED],
    "one marker many times": text(lambda _: marked(1)),
    "references": lambda n: [
        ASKED,
        assistant(
            "\n".join(f"t{at}" for at in range(n)),
            reasoning_details=[
                {"type": "openrouter_pipe.artifact", "id": ulid(at), "after": 2 * at} for at in range(n)
            ],
        ),
        ASKED,
    ],
    "users in a row": each(lambda at: user(f"Why {at}?")),
    "empty users in a row": each(lambda _: user("")),
    "assistants in a row": lambda n: [ASKED, *(assistant(f"So {at}.") for at in range(n)), ASKED],
    "instructions in a row": lambda n: [
        *each(lambda at: {"role": "system", "content": f"Be {at}."})(n),
        ASKED,
    ],
    "instructions later": lambda n: joined(
        [user(f"Why {at}?"), {"role": "developer", "content": f"Be {at}."}] for at in range(n)
    ),
    "unknown roles": lambda n: [*each(lambda at: {"role": "x", "content": f"{at}"})(n), ASKED],
    "no messages at all": lambda n: [*each(lambda at: at)(n), ASKED],
    "turns": lambda n: [*joined([user(f"Why {at}?"), assistant(f"So {at}.")] for at in range(n)), ASKED],
    "commands": lambda n: [*joined(map(commanded, range(n))), ASKED],
    "restores": lambda n: [*joined(commanded(at, "/restore") for at in range(n)), ASKED],
    "texts": lambda n: asked({"type": "text", "text": f"part {at}"} for at in range(n)),
    "texts of an answer": lambda n: [
        ASKED,
        assistant([{"type": "output_text", "text": f"part {at}"} for at in range(n)]),
        ASKED,
    ],
    "pictures": lambda n: asked(image(f"{PNG}{at}") for at in range(n)),
    "one picture many times": lambda n: asked(image(PNG) for _ in range(n)),
    "pictures in a row": each(lambda at: user([image(f"{PNG}{at}")])),
    "pictures in an answer": text(lambda at: f"![x](/api/v1/files/f{at}/content)"),
    "addresses": lambda n: asked(image(f"https://example.org/{at}.png") for at in range(n)),
    "files of the host": lambda n: asked(image(f"/api/v1/files/f{at}/content") for at in range(n)),
    "files": lambda n: asked(
        {"type": "file", "file": {"filename": f"{at}.pdf", "file_data": f"{PDF}{at}"}} for at in range(n)
    ),
    "parts of a result": lambda n: reported(
        [{"type": "input_text", "text": f"part {at}"} for at in range(n)]
    ),
    "pictures of a result": lambda n: reported(
        [{"type": "input_image", "image_url": f"{PNG}{at}"} for at in range(n)]
    ),
    "pictures of results": lambda n: [
        ASKED,
        *joined(
            [
                assistant("", tool_calls=[tool_call(at, at)]),
                result(at, [{"type": "input_image", "image_url": f"{PNG}{at}"}]),
            ]
            for at in range(n)
        ),
        user([{"type": "text", "text": TOOL_IMAGES_TEXT}, *(image(f"{PNG}{at}") for at in range(n))]),
    ],
    "items of a JSON list": lambda n: reported(json.dumps([{"id": at, "name": "x"} for at in range(n)])),
    "keys of a JSON object": lambda n: reported(json.dumps({f"k{at}": at for at in range(n)})),
    "stored calls": lambda n: [
        ASKED,
        assistant(
            "", output=[each for pair in zip(*map(call_items, range(n)), strict=True) for each in pair]
        ),
        ASKED,
    ],
    "stored rounds": lambda n: [
        ASKED,
        assistant("", output=joined([message(at), *call_items(at)] for at in range(n))),
        ASKED,
    ],
    "stored messages": lambda n: [ASKED, assistant("", output=each(message)(n)), ASKED],
}
"""Messages of a chat with n of each thing."""


def _stored(make: Callable[[int], Any]) -> Callable[[Sequence[str]], Mapping[str, Any]]:
    return lambda ulids: {name: make(number) for number, name in enumerate(ulids)}


def _call_or_output(number: int) -> LoadedArtifact:
    kind = ("function_call", "function_call_output")[number % 2]
    fields = {"name": "look", "arguments": "{}"} if number % 2 == 0 else {"output": "found"}
    return LoadedArtifact({"type": kind, "call_id": f"k{number // 2}", **fields}, MODEL)  # type: ignore[arg-type]


def _call_or_lost_output(number: int) -> LoadedArtifact | MissingArtifact:
    return MissingArtifact("function_call_output") if number % 2 == 0 else _call_or_output(2 * number)


ARTIFACTS: Mapping[str, Callable[[Sequence[str]], Mapping[str, Any]]] = {
    "missing": lambda _: {},
    "calls": _stored(_call_or_output),
    "lost results": _stored(_call_or_lost_output),
    "lost calls": _stored(lambda _: MissingArtifact("function_call")),
    "reasoning": _stored(
        lambda at: LoadedArtifact(
            {
                "type": "reasoning",
                "id": f"rs_{at}",
                "summary": [],
                "encrypted_content": "c2VhbGVk",
                "format": "openai-responses-v1",
            },
            MODEL,
        )
    ),
}
"""What the markers of a chat name."""
MARKED = frozenset(
    name for name in SHAPES if "marker" in name or name in {"references", "rounds that say <details"}
)
"""The shapes with markers."""
