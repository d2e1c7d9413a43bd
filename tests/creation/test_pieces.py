"""What is asked of the endpoints that speak, transcribe and draw, what that costs, and what is read from answers."""

from __future__ import annotations

import base64
import io
import wave
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe.creation.images import image_cost, image_request, read_drawn
from open_webui_openrouter_pipe.creation.message import PieceRequest
from open_webui_openrouter_pipe.creation.speech import (
    playable,
    speech_attempts,
    transcript_attempts,
    transcript_cost,
    written,
)
from open_webui_openrouter_pipe.media.choice import form_of
from open_webui_openrouter_pipe.money.prices import read_prices
from open_webui_openrouter_pipe.ports import Model
from tests.support.files import wav
from tests.support.rows import rows

if TYPE_CHECKING:
    from collections.abc import Mapping

TABLE = Path(__file__).with_name("pieces.txt")


def plain(attempt: PieceRequest) -> dict[str, Any]:
    """What of an attempt is not the same in all, with its lines if it has any."""
    rest = {name: value for name, value in attempt.body.items() if name not in {"model", "input", "prompt"}}
    return {**rest, **({"lines": [*attempt.lines]} if attempt.lines else {})}


@pytest.mark.parametrize(("row", "valves", "expected"), rows(TABLE, "speech"))
def test_speech_is_asked_for_in_the_best_form_first(row: Any, valves: Any, expected: Any) -> None:
    """What is small before what any model has; a voice and a speed that the model has not are said."""
    attempts = [*speech_attempts("a/m", row, "Hi.", valves)]
    assert [plain(each) for each in attempts] == expected
    assert all(each.body["model"] == "a/m" and each.body["input"] == "Hi." for each in attempts)


@pytest.mark.parametrize(("kind", "form", "content", "expected"), rows(TABLE, "playable"))
def test_speech_can_be_played(kind: str, form: str, content: str, expected: Any) -> None:
    """Samples get a header that other readers understand; all else stays as it came."""
    name, media_type, recording = playable(bytes.fromhex(content), kind, form)
    read = None
    if recording != bytes.fromhex(content):
        with wave.open(io.BytesIO(recording)) as opened:
            assert opened.readframes(99) == bytes.fromhex(content)
            read = [opened.getnchannels(), opened.getframerate()]
    assert [name, media_type, len(recording), read] == expected


@pytest.mark.parametrize(("detail", "expected"), rows(TABLE, "transcripts"))
def test_a_transcript_is_asked_for_with_its_details_first(detail: str, expected: Any) -> None:
    """A model that knows less is asked for less, which is said."""
    recording = {"data": "QQ==", "format": "wav"}
    attempts = [*transcript_attempts("a/m", recording, {"transcript": detail})]
    shown = [[each.body.get("response_format"), each.body.get("diarize"), [*each.lines]] for each in attempts]
    assert shown == expected
    assert all(each.body["input_audio"] == recording for each in attempts)


@pytest.mark.parametrize(("answers", "expected"), rows(TABLE, "written"))
def test_a_transcript_is_written(answers: Any, expected: str) -> None:
    """By time, by speakers in turn, or as it is; several recordings under headings."""
    assert written(answers) == expected


@pytest.mark.parametrize(("pricing", "expected"), rows(TABLE, "transcript costs"))
def test_what_a_transcript_costs(pricing: Mapping[str, Any], expected: float | None) -> None:
    """By the second where there is one price, else by the tokens heard and written."""
    recording = {"data": base64.b64encode(wav(bytes(2 * 48_000 - 44))).decode(), "format": "wav"}
    cost = transcript_cost(read_prices(pricing), [recording])
    assert cost == (expected if expected is None else pytest.approx(expected, rel=0.02))


@pytest.mark.parametrize(("row", "valves", "expected"), rows(TABLE, "images"))
def test_pictures_are_asked_for_as_the_model_can(row: Any, valves: Any, expected: Any) -> None:
    """The nearest of what it offers is taken, and said."""
    assert plain(image_request("a/m", row, "A cat", (), valves)) == expected


def test_the_latest_pictures_are_references() -> None:
    """As many as the model takes; of the others the user is told."""
    row = {"supported_parameters": {"input_references": {"type": "range", "min": 0, "max": 2}}}
    asked = image_request("a/m", row, "A cat", ("a", "b", "c"), {})
    assert [part["image_url"]["url"] for part in asked.body["input_references"]] == ["b", "c"]
    assert asked.lines == ("Earlier images no longer shown to the model: 1.",)
    asked = image_request("a/m", {}, "A cat", ("a",), {})
    assert (plain(asked), len(asked.lines)) == ({"lines": [*asked.lines]}, 1)


@pytest.mark.parametrize(("endpoints", "body", "expected"), rows(TABLE, "image costs"))
def test_what_pictures_cost(endpoints: Any, body: Any, expected: float | None) -> None:
    """At the dearest endpoint; a line for a variant counts for that alone."""
    names = ("billable", "unit", "cost_usd", "variant")
    priced = [
        {"pricing": [dict(zip(names, line, strict=False)) for line in endpoint]} for endpoint in endpoints
    ]
    assert image_cost(priced, body) == (expected if expected is None else pytest.approx(expected))


@pytest.mark.parametrize(("wire", "expected"), rows(TABLE, "drawn"))
def test_what_is_drawn_is_read(wire: Any, expected: Any) -> None:
    """From an event, or from an answer that is whole."""
    drawn = read_drawn(wire)
    found = [drawn.usage.get(name) for name in ("cost", "input_tokens", "output_tokens")]
    usage = found if drawn.usage else None
    assert [drawn.partial, [*drawn.pictures], usage, drawn.failure] == expected


@pytest.mark.parametrize("kind", ["audio/mp4", "audio/webm", "audio/ogg", "audio/flac", "audio/aac"])
def test_models_that_transcribe_read_more_recordings(kind: str) -> None:
    """Than those of chats, which take MP3 and WAV."""
    models = (Model("a/m", "M", endpoint="transcriptions"), Model("a/m", "M"))
    assert [form_of(kind, model) for model in models] == ["audio", None]
