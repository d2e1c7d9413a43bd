"""Reads chats with what they become from `cases/*.txt`.

A case begins with its title; the indented lines below it are a chat, what is `stored` of it and `for` whom it is built,
and behind `=>` all items. A title may have several chats. Members stand between bars; a line that begins with one goes
on with the line above. Any member may be JSON instead.

    u: s: d: a: t ID:       messages of a user, system, developer, assistant and tool; blanks and breaks are escaped
    a: text {call ID ARGS}  an answer with calls, of the tool `search` unless it goes on with `as NAME`
    [1]  <1>                the marker of artifact 1, and its ULID alone
    <shown>  <png>          the text with which the host sends images of tools, and an image
    1 reasoning ID          artifact 1: so, or `thinking`, `call`, `output`, `missing KIND REASON`; `@MODEL` wrote it
    #1                      artifact 1 as an item, as it was stored
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from open_webui_openrouter_pipe.history.artifacts import LoadedArtifact, MissingArtifact
from open_webui_openrouter_pipe.history.folded import TOOL_IMAGES_TEXT
from open_webui_openrouter_pipe.history.markers import serialize_marker
from tests.history import builders

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PNG = "data:image/png;base64,AAAA"
FOLDER = Path(__file__).with_name("cases")
_ROLES = {"u": "user", "s": "system", "d": "developer"}
_MESSAGE = re.compile(r"([usda])(?:/(\w+))?:(?: (.*))?|t (\S+):(?: (.*))?")
_CALL = re.compile(r" ?\{call (\S+) (.*?)(?: as (\S+))?\}(?=$| \{call )")
_STORED_CALL = re.compile(r"(\S+) (.*?)(?: as (\S+?))?(?: id=(\S+))?")


@dataclass(slots=True)
class Case:
    """A chat, and the items that are expected of it."""

    title: str
    members: dict[str, list[str]] = field(default_factory=dict)

    @property
    def messages(self) -> list[Any]:
        return [*map(_read_message, self.members["chat"])]

    @property
    def stored(self) -> dict[int, Any]:
        found = (member.split(" ", 1) for member in self.members.get("stored", ()))
        return {int(number): _read_artifact(text) for number, text in found}

    @property
    def options(self) -> dict[str, Any]:
        return json.loads("".join(self.members.get("for", ["{}"])))  # type: ignore[no-any-return]

    @property
    def expected(self) -> list[Any]:
        return [_read_item(member, self.stored) for member in self.members["=>"]]


def read_cases(name: str) -> Iterator[Case]:
    """Yield the cases of a file."""
    title, case, section = "", Case(""), ""
    for line in (FOLDER / f"{name}.txt").read_text("utf-8").splitlines():
        text = line.strip()
        if text and text == line:
            title, case = text, Case(text)
        elif text.startswith("| "):
            case.members[section] += text[2:].split(" | ")
        elif text:
            section = next((each for each in ("stored", "for", "=>") if text.startswith(f"{each} ")), "chat")
            if section == "chat":
                case = Case(title)
            case.members[section] = text.removeprefix(f"{section} ").split(" | ")
            if section == "=>":
                yield case


def text_of(written: str | None) -> str:
    """Return a text as it was before its blanks, breaks and marks were escaped."""
    written = (written or "").replace("<shown>", TOOL_IMAGES_TEXT).replace("<png>", PNG)
    marked = re.sub(r"\[(\d)\]", lambda found: serialize_marker(builders.ulid(int(found[1]))), written)
    named = re.sub(r"<(\d)>", lambda found: builders.ulid(int(found[1])), marked)
    return cast("str", json.loads('"{}"'.format(named.replace('"', r"\""))))


def _read_json(written: str) -> Any:
    return json.loads(text_of(written.replace("\\", r"\\")))


def _read_message(written: str) -> Any:
    found = _MESSAGE.fullmatch(written)
    if found is None:
        return _read_json(written)
    if found[4]:
        return builders.tool(found[4], text_of(found[5]))
    if found[1] != "a":
        return {"role": _ROLES[found[1]], "content": text_of(found[3])}
    calls = [
        builders.tool_call(text_of(call_id), text_of(given), name or "search")
        for call_id, given, name in _CALL.findall(found[3] or "")
    ]
    text = text_of(_CALL.sub("", found[3] or ""))
    return builders.assistant(text, *calls, **({"phase": found[2]} if found[2] else {}))


def _read_artifact(written: str) -> Any:
    plain, _, model = written.partition(" @")
    kind, _, rest = plain.partition(" ")
    if kind == "missing":
        return MissingArtifact(*cast("Any", rest.split()))
    item = _read_stored(kind, rest, plain)
    return LoadedArtifact(item, model) if model else item


def _read_stored(kind: str, rest: str, plain: str) -> Any:
    match kind:
        case "reasoning":
            return builders.reasoning(rest)
        case "thinking":
            return builders.thinking(rest)
        case "call":
            found = _STORED_CALL.fullmatch(rest)
            assert found
            fields = {"id": found[4]} if found[4] else {}
            return builders.call(text_of(found[1]), text_of(found[2]), found[3] or "search", **fields)
        case "output":
            call_id, _, text = rest.partition(" ")
            return builders.output(text_of(call_id), text_of(text))
    return _read_json(plain)


def _read_item(written: str, stored: Mapping[int, Any]) -> Any:
    if written.startswith("#"):
        artifact = stored[int(written[1:])]
        return artifact.item if isinstance(artifact, LoadedArtifact) else artifact
    found = _MESSAGE.fullmatch(written)
    if found is None:
        return _read_stored(*written.partition(" ")[::2], written)
    if found[1] == "a":
        return builders.answered(text_of(found[3]), **({"phase": found[2]} if found[2] else {}))
    return builders.said(_ROLES[found[1]], text_of(found[3]))
