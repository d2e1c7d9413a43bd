"""Reads chats with what they become from `cases/*.txt`.

A case begins with its title; the indented lines below it are a chat, what is `stored` of it and `for` whom it is built,
behind `=>` all items, and then what was `repaired`, what is `missing`, and `also` other facts. A title may have several
chats. Members stand between bars; a line that begins with one goes on with the line above. Any member may be JSON.

    u: s: d: a: t ID:       messages of a user, system, developer, assistant and tool; blanks and breaks are escaped
    a: text {call ID ARGS}  an answer with calls, of the tool `search` unless it goes on with `as NAME`
    [1]  <1>  <ours>        the marker of artifact 1, its ULID alone, and how our own answers begin
    <call c1>               a block of a call that is folded into text
    <shown>  <png>          the text with which the host sends images of tools, and an image
    1 reasoning ID          artifact 1: so, or `thinking`, `call`, `output`, `missing KIND REASON`; `@MODEL` wrote it
    #1                      artifact 1 as an item, as it was stored
    3 call: why             a repair of a kind, at the third message
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from open_webui_openrouter_pipe.history.artifacts import LoadedArtifact, MissingArtifact
from open_webui_openrouter_pipe.history.folded import TOOL_IMAGES_TEXT
from open_webui_openrouter_pipe.history.markers import ANSWER_MARK, serialize_marker
from open_webui_openrouter_pipe.history.reading import read_history
from tests.history import builders

if TYPE_CHECKING:
    from collections.abc import Mapping

    from open_webui_openrouter_pipe.history.turn import BuiltHistory

FOLDER = Path(__file__).with_name("cases")
SECTIONS = {"stored", "for", "=>", "repaired", "missing", "also"}
SHORT = {"<shown>": TOOL_IMAGES_TEXT, "<png>": "data:image/png;base64,AAAA", "<ours>": ANSWER_MARK}
BLOCK = (
    '<details type="tool_calls" done="true" id="{}" name="search" arguments="&quot;{{\\&quot;a\\&quot;:1}}&quot;" '
    'result="&quot;out&quot;" files="">\n<summary>Tool Executed</summary>\n</details>'
)
_ROLES = {"u": "user", "s": "system", "d": "developer"}
_MESSAGE = re.compile(r"([usda])(?:/(\w+))?:(?: (.*))?|t (\S+):(?: (.*))?")
_CALL = re.compile(r" ?\{call (\S+) (.*?)(?: as (\S+))?\}(?=$| \{call )")
_STORED_CALL = re.compile(r"(\S+) (.*?)(?: as (\S+?))?(?: id=(\S+))?")
_TOKEN = re.compile(r"\[(\d)\]|<(\d)>|<call (.*?)>|<shown>|<png>|<ours>")


@dataclass(slots=True)
class Case:
    """A chat, and what is expected of it."""

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
        return self._json("for")

    @property
    def expected(self) -> list[Any]:
        return [_read_item(member, self.stored) for member in self.members["=>"]]

    @property
    def facts(self) -> dict[str, Any]:
        found = {name: self.members.get(name, []) for name in ("repaired", "missing")}
        return found | self._json("also")

    def _json(self, section: str) -> dict[str, Any]:
        found: dict[str, Any] = _filled(json.loads("".join(self.members.get(section, ["{}"]))))
        return found


def read_cases(name: str) -> list[Case]:
    """The cases of a file."""
    found: list[Case] = []
    title = section = ""
    for line in (FOLDER / f"{name}.txt").read_text("utf-8").splitlines():
        text = line.strip()
        if text and text == line:
            title = text
        elif text.startswith("| "):
            found[-1].members[section] += text[2:].split(" | ")
        elif text:
            word = text.partition(" ")[0]
            section = word if word in SECTIONS else "chat"
            if section == "chat":
                found.append(Case(title))
            found[-1].members[section] = (text if section == "chat" else text[len(word) + 1 :]).split(" | ")
    return found


def facts_of(built: BuiltHistory, case: Case) -> dict[str, Any]:
    """What a case may say of a chat, beside its items."""
    numbers = {builders.ulid(number): number for number in range(10)}
    history = read_history(case.messages, **builders.reading(case.messages, case.options))
    parts = built.conversation()
    kinds = [[str(each.item.get("role", each.item["type"])) for each in turn.entries] for turn in parts.turns]
    return {
        "repaired": [f"{each.origin.message} {each.kind}: {each.detail}" for each in built.repairs],
        "missing": [f"{numbers[ulid]} {each.kind} {each.reason}" for ulid, each in built.missing.items()],
        "turns": [*built.turns],
        "origins": [
            " ".join(map(str, (*each[:2], *([numbers[each.marker]] if each.marker else []))))
            for each in built.origins
        ],
        "instructions": len(parts.instructions),
        "volatile": len(parts.volatile),
        "rounds": [[len(part) for part in turn.rounds] for turn in parts.turns],
        "kinds": kinds,
        "summaries": [*built.external_summaries],
        "additions": built.has_additions,
        "replayed": [[numbers[ulid], turn] for ulid, turn in built.replayed.items()],
        "wanted": [numbers[ulid] for ulid in history.wanted],
        "holds details": history.holds_details,
        "commands": [f"{each.turn} {each.command}" for each in history.commands],
        "asked": str(history.asked),
    }


def _filled(value: Any) -> Any:
    """The value with what is written short at its length."""
    if isinstance(value, dict):
        return {key: _filled(member) for key, member in value.items()}
    if isinstance(value, list):
        return [*map(_filled, value)]
    return _TOKEN.sub(_at_length, value) if isinstance(value, str) else value


def _at_length(found: re.Match[str]) -> str:
    if found[1]:
        return serialize_marker(builders.ulid(int(found[1])))
    if found[2]:
        return builders.ulid(int(found[2]))
    return SHORT.get(found[0]) or BLOCK.format(found[3])


def text_of(written: str | None) -> str:
    """Return a text as it was before its blanks, breaks and marks were escaped."""
    return str(_filled(json.loads('"{}"'.format((written or "").replace('"', r"\"")))))


def _read_json(written: str) -> Any:
    return _filled(json.loads(written))


def _read_message(written: str) -> Any:
    found = _MESSAGE.fullmatch(written)
    if found is None:
        return _read_json(written)
    if found[4]:
        return builders.tool(text_of(found[4]), text_of(found[5]))
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
