"""The endpoints that make sound, text of sound, and pictures: what they take, answer, and bill."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from openrouter.components.imagegenerationresponse import ImageGenerationResponse
from openrouter.components.imagemodelendpointsresponse import ImageModelEndpointsResponse
from openrouter.components.imagemodelslistresponse import ImageModelsListResponse
from openrouter.components.imagestreamingresponse import ImageStreamingResponse
from openrouter.components.sttresponse import STTResponse

from scripts.standin.drawing import draw
from scripts.standin.endpoints import tone
from scripts.standin.sdk_schema import against
from tests.standin.client import Client, events_of
from tests.support.files import data_url, wav
from tests.support.rows import rows
from tests.support.waiting import wait_until

TABLE = Path(__file__).with_name("endpoints.txt")
NAMES: dict[str, Any] = {
    "WAV": {"data": base64.b64encode(wav(tone(2.0))).decode(), "format": "wav"},
    "PNG": {"type": "image_url", "image_url": {"url": data_url("image/png", draw("blue"))}},
}


@pytest.mark.parametrize(("path", "body", "expected"), rows(TABLE, "answers", NAMES))
def test_what_is_answered(client: Client, path: str, body: Any, expected: str) -> None:
    """Each as the SDK has it; what the model cannot do is refused, and nothing of that is billed."""
    answer, (status, _, words) = client.http.post(path, json=body), expected.partition(" ")
    kind = answer.headers["content-type"]
    said = kind if kind.startswith("audio/") else answer.text
    assert (answer.status_code, words in said) == (int(status), True), said
    wait_until(lambda: all(record.ended_at for record in client.standin.requests))
    assert [*client.standin.bills] == ([answer.headers["x-generation-id"]] if status == "200" else [])
    if kind == "application/json" and status == "200":
        model = ImageGenerationResponse if "b64_json" in answer.text else STTResponse
        assert against(model, answer.json(), ()) == []
    for event in events_of(answer.text) if kind.startswith("text/event-stream") else ():
        assert against(ImageStreamingResponse, {"data": event}, ()) == []


def test_the_bill_follows_from_the_lists_of_prices(client: Client) -> None:
    """By the character, the second, and the lines of the endpoint."""
    for path, body in (
        ("/audio/speech", {"model": "openai/gpt-4o-mini-tts", "input": "0123456789"}),
        ("/audio/transcriptions", {"model": "openai/whisper-large-v3", "input_audio": NAMES["WAV"]}),
        ("/images", {"model": "bytedance/seedream-5", "prompt": "A", "n": 2}),
        ("/images", {"model": "bytedance/seedream-5", "prompt": "A", "resolution": "4K"}),
    ):
        client.http.post(path, json=body)
    wait_until(lambda: all(record.ended_at for record in client.standin.requests))
    costs = [bill["total_cost"] for bill in client.standin.bills.values()]
    assert costs == pytest.approx([0.00012, 0.0002, 0.06, 0.06])


def test_the_lists_are_as_the_sdk_has_them(client: Client) -> None:
    """Speech and transcription among all models where they are asked for, pictures in a list of their own."""
    listed = client.http.get("/models?output_modalities=speech,transcription").json()["data"]
    assert [bool(row["supported_voices"]) for row in listed] == [True, True, False, False, False]
    images = client.http.get("/images/models").json()
    assert against(ImageModelsListResponse, images, ()) == []
    for row in images["data"]:
        endpoints = client.http.get(row["endpoints"].removeprefix("/api/v1")).json()
        assert against(ImageModelEndpointsResponse, endpoints, ()) == []
        assert endpoints["endpoints"][0]["supported_parameters"] == row["supported_parameters"]
