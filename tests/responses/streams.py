"""Events and effects in the short form of `streams.txt`.

Steps are events, between semicolons: `added ITEM`, `done ITEM`, `completed ITEMS`, `incomplete REASON ITEMS`,
`text DELTA`, `arguments DELTA`, or an event as JSON. Behind a slash stands the output index, unless it is 0, and behind
a text's `#` the item's id; `-` is none. An item is JSON, or `m:TEXT` for a message, `c:ARGUMENTS` for a call, `r` for
reasoning, with `#ID`, `&CALL_ID` and `~STATUS` behind its letter where these are not the usual ones.
"""

from __future__ import annotations

import json
import re
from typing import Any

from open_webui_openrouter_pipe.responses import effects
from open_webui_openrouter_pipe.responses.failure import Failure

Event = dict[str, Any]
_ITEM = re.compile(r"([mcr])(?:#(\w+|-))?(?:&(\w+))?(?:~(\w+))?(?::(.*))?")
_STATUSES = {"m": "completed", "c": "completed", "r": None}
_IDS = {"m": "msg_1", "c": "fc_tmp_1", "r": "rs_1"}
_LETTERS = {"message": "m", "function_call": "c", "reasoning": "r"}
_NAMES = {"output_text": "text", "summary_text": "reasoning summary", "reasoning_text": "reasoning text"}
_BROKEN = Failure("the stream ended before the answer was complete", origin="stream")


def message(text: str | None) -> Event:
    content = [] if text is None else [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "role": "assistant", "content": content}


def item(token: str) -> Any:
    """The item that is meant."""
    if not (found := _ITEM.fullmatch(token)):
        return json.loads(token)
    letter, item_id, call_id, status, text = found.groups()
    bodies: dict[str, Event] = {
        "m": message(text),
        "c": {
            "type": "function_call",
            "call_id": call_id or "call_1",
            "name": "look",
            "arguments": text or "",
        },
        "r": {"type": "reasoning", "summary": []},
    }
    more = {"id": item_id or _IDS[letter], "status": status or _STATUSES[letter]}
    return bodies[letter] | {name: value for name, value in more.items() if value not in {None, "-"}}


def _index(text: str) -> tuple[str, int | None]:
    rest, slash, index = text.rpartition("/")
    if slash and (index.isdigit() or index == "-"):
        return rest, None if index == "-" else int(index)
    return text, 0


def event(step: str) -> Event:
    """The event of a step."""
    verb, _, argument = step.partition(" ")
    if step.startswith("{"):
        return json.loads(step)  # type: ignore[no-any-return]
    if verb in {"completed", "incomplete"}:
        reason, *tokens = argument.split() if verb == "incomplete" else ["", *argument.split()]
        response = {"id": "gen-1", "model": "m", "status": verb, "output": [*map(item, tokens)]}
        details = {"incomplete_details": {"reason": reason}} if reason else {}
        return {"type": f"response.{verb}", "response": response | details}
    argument, index = _index(argument)
    if verb in {"added", "done"}:
        status = {"status": "in_progress"} if verb == "added" else {}
        head = {"type": f"response.output_item.{verb}", "output_index": index}
        return {**head, "item": item(argument) | status}
    delta, _, item_id = argument.partition("#")
    usual, kind = ("fc_tmp_1", "function_call_arguments") if verb == "arguments" else ("msg_1", "output_text")
    where = {"item_id": None if item_id == "-" else item_id or usual, "output_index": index}
    delta = json.loads(delta) if delta.startswith('"') else delta
    return {"type": f"response.{kind}.delta", **where, "content_index": 0, "delta": delta}


def events(steps: str) -> list[Event]:
    """The events of all steps."""
    return [event(step) for step in steps.split("; ")]


def written(value: Any) -> str:
    """An item in its short form, if that says all of it."""
    letter = _LETTERS.get(value.get("type"), "")
    text = value.get("arguments", "") if letter == "c" else None
    if letter == "m" and value.get("content"):
        text = value["content"][0].get("text", "")
    if letter:
        item_id, status, call_id = (value.get(name) for name in ("id", "status", "call_id"))
        token = letter + ("" if item_id == _IDS[letter] else f"#{item_id or '-'}")
        token += f"&{call_id}" if letter == "c" and call_id != "call_1" else ""
        token += "" if status == _STATUSES[letter] else f"~{status}"
        token += f":{text}" if text is not None and (text or letter == "m") else ""
        if " " not in token and _ITEM.fullmatch(token) and item(token) == value:
            return token
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=True)


def short(given: Any) -> str:
    """An effect in its short form."""
    kind = type(given)
    if kind is effects.ResponseFinished:
        items = " ".join(map(written, given.items))
        usual = effects.ResponseFinished(response_id="gen-1", items=given.items, served=given.served)
        facts: Any = (given.status, given.reason, given.response_id, given.usage)
        return f"ended{'' if given == usual else f' {facts}'} {items}".strip()
    if kind is effects.ResponseFailed:
        failed: Any = (given.failure.message, given.failure.status, given.failure.code)
        is_broken = given.failure == _BROKEN
        assert is_broken or given.failure == Failure(failed[0], status=failed[1], code=failed[2])
        assert given == effects.ResponseFailed(given.failure)
        return "broken" if is_broken else f"failed {failed}"
    index = f"/{given.index}" if given.index else ""
    if kind is effects.ItemStarted:
        begun = dict(given.item)
        status = begun.pop("status")
        usual_status = _STATUSES.get(_LETTERS.get(begun["type"], ""))
        assert status == "in_progress"
        return f"started {written(begun | ({'status': usual_status} if usual_status else {}))}{index}"
    if kind in {effects.ItemFinished, effects.ItemAmended}:
        return f"{'finished' if kind is effects.ItemFinished else 'amended'} {written(given.item)}{index}"
    part = f".{given.part}" if given.part else ""
    return f"{_NAMES.get(given.kind, given.kind)} {given.delta}{index}{part}"
