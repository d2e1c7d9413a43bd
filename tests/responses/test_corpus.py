"""What was recorded of OpenRouter is read as it was meant.

`tests/data/openrouter` holds `streams/*.sse`, and `exchanges/*.json` with a request and its answer in one piece. A new
one is a file there. The result that a reader must get stands beside it in `NAME.result.json`; without it, the stream
must keep the laws alone.
"""

from __future__ import annotations

import json
import random
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe.responses.effects import (
    Decoder,
    ItemFinished,
    ItemStarted,
    ResponseFinished,
    TextDelta,
    parse_event,
)
from open_webui_openrouter_pipe.responses.reducer import reduce_response
from scripts.paths import ROOT
from tests.responses.test_reducer import check_laws
from tests.support.wire import RECORDINGS, events_of, reduce

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from open_webui_openrouter_pipe.responses.effects import Effect

CORPUS = ROOT / "tests" / "data" / "openrouter"
STREAMS = sorted([*(CORPUS / "streams").glob("*.sse"), *RECORDINGS.glob("*.sse")])
EXCHANGES = sorted(path for path in (CORPUS / "exchanges").glob("*.json") if ".result" not in path.suffixes)
RANDOM_CUTS = 20


def result_of(effects: Sequence[Effect]) -> dict[str, Any]:
    """What a reader keeps of an answer: how it ended, its items with their ids, the bill, and what was shown when."""
    end = effects[-1]
    shown: dict[str, str] = {}
    for effect in effects:
        if isinstance(effect, TextDelta):
            place = f"{effect.index} {effect.kind} {effect.part}"
            shown[place] = shown.get(place, "") + effect.delta
    begun = [effect.item.get("id") for effect in effects if isinstance(effect, ItemStarted)]
    if not isinstance(end, ResponseFinished):
        return {"shown": shown, "begun": begun, "status": "failed"}
    return {
        "shown": shown,
        "begun": begun,
        "status": end.status,
        "reason": end.reason,
        "id": end.response_id,
        "items": list(end.items),
        "usage": asdict(end.usage) if end.usage else None,
    }


def check_result(path: Path, effects: Sequence[Effect]) -> None:
    """The result that stands beside a recording, if there is one; the laws anyway."""
    check_laws(list(effects))
    beside = path.with_suffix(".result.json")
    if beside.exists():
        found, expected = json.loads(json.dumps(result_of(effects))), json.loads(beside.read_text("utf-8"))
        billed = found.get("usage") or {}
        usage = {name: billed.get(name) for name in expected.get("usage") or ()}
        assert {**found, "usage": usage or None} == expected, json.dumps(found, indent=1)


def portions(stream: bytes, cuts: Iterable[int]) -> list[bytes]:
    """A stream cut at some places."""
    ends = [0, *sorted(cuts), len(stream)]
    return [stream[start:end] for start, end in pairwise(ends)]


def read(received: Iterable[bytes]) -> list[dict[str, Any]]:
    """The events of a stream that comes in portions."""
    decoder = Decoder()
    frames = [frame for portion in received for frame in decoder.feed(portion)]
    return [parse_event(frame) for frame in (*frames, *decoder.flush())]


@pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.stem)
def test_a_recorded_stream_has_its_result(path: Path) -> None:
    """Whole, byte by byte, and cut at random places; broken off anywhere it ends all the same."""
    stream = path.read_bytes()
    events = events_of(stream)
    check_result(path, reduce(events))
    chosen = random.Random(path.name)
    cuts = [[chosen.randrange(len(stream)) for _ in range(chosen.randint(1, 9))] for _ in range(RANDOM_CUTS)]
    for each in (range(1, len(stream)), *cuts):
        assert read(portions(stream, each)) == events
    for end in range(len(events)):
        check_laws(reduce(events[:end]))


@pytest.mark.parametrize("path", EXCHANGES, ids=lambda path: path.stem)
def test_a_recorded_answer_has_its_result(path: Path) -> None:
    """The same reader takes an answer that was not streamed."""
    check_result(path, reduce_response(json.loads(path.read_text("utf-8"))["response"]))


def test_an_id_may_change_on_its_way() -> None:
    """Of the reasoning that was recorded with two ids, one item is shown, and kept under the last one."""
    events = events_of((CORPUS / "streams" / "raw_reasoning_with_changing_id.sse").read_bytes())
    effects = reduce(events)
    begun = [effect.item.get("id") for effect in effects if isinstance(effect, ItemStarted)]
    done = [effect.item.get("id") for effect in effects if isinstance(effect, ItemFinished)]
    assert len(begun) == len(done) == 2
    assert begun[0] != result_of(effects)["items"][0]["id"]
