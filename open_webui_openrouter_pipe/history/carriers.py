"""What carries markers outside of the text: the host's `reasoning_details`, and the ids of calls.

Open WebUI hands a model the details of its own reasoning back, all those of a round in one list beside the round's
text. So each says how much of the text stands before it, in visible characters: the host joins texts and strips blanks.
The id of a call comes back whatever the model is; one of ours is made of the ULID of the call's artifact. Owns how both
are written and read. Lines in text are those of `markers`.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from ..responses.wire import as_count, as_list, as_object, as_text
from .artifacts import PHASES
from .markers import ULID, is_ulid

REFERENCE_TYPE = "openrouter_pipe.artifact"
"""The entry of `reasoning_details` that names an artifact, under `id`."""

PHASE_TYPE = "openrouter_pipe.phase"
"""The entry that gives the phase of the text behind it, under `phase`; "" ends one."""

_CALL_ID = re.compile(rf"call_({ULID})(?:_({'|'.join(sorted(PHASES))}))?")
_LINE = re.compile(r"[^\n]*\n?")


class Reference(NamedTuple):
    """What stands behind so many visible characters of a round's text: an artifact, or else a phase that begins."""

    after: int
    ulid: str = ""
    phase: str = ""


class CallName(NamedTuple):
    """What a call's id says: its artifact, and the phase of the text before it, "" for none."""

    ulid: str
    phase: str


def write_reference(reference: Reference) -> dict[str, Any]:
    """Return the entry of `reasoning_details`."""
    named = (
        {"type": REFERENCE_TYPE, "id": reference.ulid}
        if reference.ulid
        else {"type": PHASE_TYPE, "phase": reference.phase}
    )
    return {**named, "after": reference.after} if reference.after else named


def read_references(details: Any) -> list[Reference]:
    """Read the entries that are ours, in order; one that does not say where it stands is before all text."""
    found = []
    for detail in map(as_object, as_list(details)):
        kind, after = detail.get("type"), as_count(detail.get("after")) or 0
        if kind == REFERENCE_TYPE and is_ulid(ulid := detail.get("id")):
            found.append(Reference(after, ulid=ulid))
        elif kind == PHASE_TYPE:
            phase = as_text(detail.get("phase"))
            found.append(Reference(after, phase=phase if phase in PHASES else ""))
    return found


def insert_references(texts: Iterable[str], references: Iterable[Reference]) -> Iterator[str | Reference]:
    """Yield the texts of a round and its references in their order; texts are divided at line breaks alone.

    A text that was edited since may have no line break there: what stands in it then waits for the next one.
    """
    waiting = deque(sorted(references, key=lambda reference: reference.after))
    if not waiting:
        yield from texts
        return
    seen = 0
    for text in texts:
        start = 0
        for line in _LINE.finditer(text):
            shown = visible_chars(line[0])
            if waiting and waiting[0].after <= seen and (shown or not line.start()):
                if line.start() > start:
                    yield text[start : line.start()].removesuffix("\n")
                    start = line.start()
                while waiting and waiting[0].after <= seen:
                    yield waiting.popleft()
            seen += shown
            if not waiting:
                break
        yield text[start:]
    yield from waiting


def visible_chars(text: str) -> int:
    """Count the characters that are not blank."""
    return sum(map(len, text.split()))


def name_call(ulid: str, phase: str = "") -> str:
    """Return the id of the call that this artifact is; `phase` is that of the text before it."""
    return f"call_{ulid}_{phase}" if phase in PHASES else f"call_{ulid}"


def read_call_name(call_id: str) -> CallName | None:
    """Return what a call's id says, None for an id of the provider's."""
    found = _CALL_ID.fullmatch(call_id)
    return CallName(found[1], found[2] or "") if found else None
