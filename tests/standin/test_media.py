"""Media are judged by their content, by the model's modalities, and by what the router's parser reads."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import pytest

from scripts.standin import catalogue, media
from scripts.standin.drawing import COLOURS, draw, frame_colour, middle_colour
from scripts.standin.errors import RefusalError
from tests.standin.client import Client, user
from tests.support.files import PICTURES, data_url

PNG = draw("red")
SVG = b"<svg xmlns='http://www.w3.org/2000/svg'/>"
PDF = b"%PDF-1.7\n1 0 obj\n"
WAV = b"RIFF\x24\x00\x00\x00WAVEfmt "
MP4 = b"\0\0\0\x18ftypmp42"
EVERYTHING, TEXT_ONLY = "standin/script", "standin/text-only"
DRAWING, PICTURES_ONLY = "standin/drawing", "standin/pictures-only"


def image(url: str) -> dict[str, Any]:
    return {"type": "input_image", "detail": "auto", "image_url": url}


def document(kind: str, content: bytes, filename: str | None = "a.pdf") -> dict[str, Any]:
    name = {} if filename is None else {"filename": filename}
    return {"type": "input_file", "file_data": data_url(kind, content), **name}


def audio(content: bytes, audio_format: str) -> dict[str, Any]:
    data = base64.b64encode(content).decode()
    return {"type": "input_audio", "input_audio": {"data": data, "format": audio_format}}


def video(kind: str, content: bytes) -> dict[str, Any]:
    return {"type": "input_video", "video_url": data_url(kind, content)}


def body(*parts: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"input": [{"role": "user", "content": list(parts)}], **fields}


def status(given: dict[str, Any], model: str = EVERYTHING) -> int:
    """200, or the status of the refusal."""
    try:
        media.check_media(given, catalogue.BY_ID[model])
    except RefusalError as error:
        return error.refusal.status
    return 200


GOOD = {
    **{kind: image(data_url(kind, content)) for kind, content in PICTURES.items()},
    "remote image": image("https://example.org/a.png"),
    "pdf": document("application/pdf", PDF),
    "text": document("text/plain", b"Hello", "a.txt"),
    "remote document": {"type": "input_file", "file_url": "https://example.org/a.pdf"},
    "wav": audio(WAV, "wav"),
    "mp3": audio(b"ID3\x04", "mp3"),
    "mp3 frame": audio(b"\xff\xfb\x90", "mp3"),
    "mp4": video("video/mp4", MP4),
    "webm": video("video/webm", b"\x1a\x45\xdf\xa3"),
    "remote video": {"type": "input_video", "video_url": "https://example.org/a.mp4"},
}

BAD = {
    "svg": image(data_url("image/svg+xml", SVG)),
    "svg as png": image(data_url("image/png", SVG)),
    "jpeg as png": image(data_url("image/png", PICTURES["image/jpeg"])),
    "image/jpg": image(data_url("image/jpg", PICTURES["image/jpeg"])),
    "pdf as image": image(data_url("application/pdf", PDF)),
    "broken base64": image("data:image/png;base64,iVBORw0KGgo*"),
    "empty image": image("data:image/png;base64,"),
    "capitals": image(data_url("image/png", PNG).replace("data:", "DATA:")),
    "plain http": image("http://example.org/a.png"),
    "path of a host": image("/api/v1/files/7f/content"),
    "image by id": {"type": "input_image", "detail": "auto", "file_id": "file-1"},
    "html as pdf": document("application/pdf", b"<!DOCTYPE html>"),
    "empty document": document("text/plain", b"", "a.txt"),
    "nameless document": document("application/pdf", PDF, None),
    "document by id": {"type": "input_file", "file_id": "file-1", "filename": "a.pdf"},
    "document by http": {"type": "input_file", "file_url": "http://example.org/a.pdf"},
    "wav as mp3": audio(WAV, "mp3"),
    "mp3 as wav": audio(b"ID3\x04", "wav"),
    "ogg": audio(b"OggS", "ogg"),
    "no audio": audio(b"", "mp3"),
    "half an mp3": audio(b"\xff", "mp3"),
    "text as video": video("video/mp4", b"Hello"),
    "avi": video("video/x-msvideo", b"RIFF\0\0\0\0AVI "),
}


@pytest.mark.parametrize("part", GOOD.values(), ids=GOOD)
def test_media_that_are_what_they_say_are_read(part: dict[str, Any]) -> None:
    """By a model that reads every modality."""
    assert status(body(part)) == 200


@pytest.mark.parametrize("part", BAD.values(), ids=BAD)
def test_media_that_are_not_what_they_say_are_refused(part: dict[str, Any]) -> None:
    """By content, not by name; and nobody fetches what is behind an id, a path or plain http."""
    assert status(body(part)) == 400
    output = {"type": "function_call_output", "call_id": "c", "output": [part]}
    assert status({"input": [output]}) == 400


@pytest.mark.parametrize("part", GOOD.values(), ids=GOOD)
def test_a_model_that_reads_text_gets_pdfs_alone(part: dict[str, Any]) -> None:
    """The router's parser makes text of a PDF for every model; of nothing else."""
    source = part.get("file_data", part.get("file_url", ""))
    assert status(body(part), TEXT_ONLY) == (200 if "pdf" in source else 404)


@pytest.mark.parametrize(
    ("plugin", "text_only", "everything"),
    [
        ({}, 200, 200),
        ({"enabled": False}, 404, 200),
        ({"pdf": {"engine": "mistral-ocr"}}, 200, 200),
        ({"pdf": {"engine": "cloudflare-ai"}}, 200, 200),
        ({"pdf": {"engine": "native"}}, 404, 200),
        ({"pdf": {"engine": "magic"}}, 400, 400),
    ],
)
def test_the_parser_can_be_chosen(plugin: dict[str, Any], text_only: int, everything: int) -> None:
    """Its engine `native` is the model itself; an unknown engine is refused for every model."""
    given = body(document("application/pdf", PDF), plugins=[{"id": "file-parser", **plugin}])
    assert (status(given, TEXT_ONLY), status(given)) == (text_only, everything)


@pytest.mark.parametrize(
    ("part", "limit"),
    [
        (image(data_url("image/png", PICTURES["image/png"] + bytes(100))), "MAX_IMAGE_BYTES"),
        (document("application/pdf", PDF + bytes(100)), "MAX_FILE_BYTES"),
        (video("video/mp4", MP4 + bytes(100)), "MAX_FILE_BYTES"),
    ],
)
def test_what_is_too_large_is_refused(
    part: dict[str, Any], limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """413, by the decoded bytes."""
    assert status(body(part)) == 200
    monkeypatch.setattr(media, limit, 100)
    assert status(body(part)) == 413


@pytest.mark.parametrize(
    ("model", "fields", "expected"),
    [
        (EVERYTHING, {}, 200),
        (EVERYTHING, {"modalities": ["text"]}, 200),
        (EVERYTHING, {"modalities": ["image", "text"]}, 404),
        (DRAWING, {}, 200),
        (DRAWING, {"modalities": ["image", "text"]}, 200),
        (DRAWING, {"modalities": ["image"]}, 200),
        (PICTURES_ONLY, {}, 404),
        (PICTURES_ONLY, {"modalities": ["image", "text"]}, 404),
        (PICTURES_ONLY, {"modalities": ["image"]}, 200),
        (DRAWING, {"modalities": ["image"], "image_config": {"aspect_ratio": "16:9"}}, 200),
        (DRAWING, {"modalities": ["image"], "image_config": {"image_size": "4K", "strength": 0.5}}, 200),
        (DRAWING, {"modalities": ["image"], "image_config": {"aspect_ratio": "auto"}}, 400),
        (DRAWING, {"modalities": ["image"], "image_config": {"image_size": "huge"}}, 400),
        (DRAWING, {"image_config": {"aspect_ratio": "1:1"}}, 400),
        (EVERYTHING, {"image_config": {"aspect_ratio": "1:1"}}, 400),
        ("standin/video-only", {}, 404),
    ],
)
def test_a_model_answers_in_its_own_modalities(model: str, fields: dict[str, Any], expected: int) -> None:
    """Without the parameter text is wanted, which a model that only draws has none of."""
    assert status({"input": "Draw.", **fields}, model) == expected


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (base64.b64encode(PNG).decode(), 200),
        (data_url("image/png", PNG), 200),
        ("https://example.org/a.png", 200),
        (None, 200),
        ("/api/v1/files/7f/content", 400),
        (base64.b64encode(SVG).decode(), 400),
        (data_url("image/png", SVG), 400),
    ],
)
@pytest.mark.parametrize("kind", media.DRAWN)
def test_a_drawn_picture_comes_back_as_a_picture(kind: str, result: str | None, expected: int) -> None:
    """As base64, a data URL or a remote URL."""
    item = {"type": kind, "id": "ig_1", "status": "completed", "result": result}
    assert status({"input": [item]}) == expected


def drawn(response: dict[str, Any]) -> list[bytes]:
    return [base64.b64decode(item["result"]) for item in response["output"] if item["type"] == media.DRAWN[0]]


def test_a_model_draws_what_it_is_asked_for(client: Client) -> None:
    """One that only draws writes nothing; another one draws where the text asks for a picture, and writes too."""
    only = client.done("A red house.", model=PICTURES_ONLY, modalities=["image"])
    both = client.done("Draw a red house.", model=DRAWING, modalities=["image", "text"])
    asked = client.done("What is red?", model=DRAWING, modalities=["image", "text"])
    silent = client.done("Draw a red house.", model=DRAWING)
    kinds = [[item["type"] for item in response["output"]] for response in (only, both, asked, silent)]
    assert kinds == [[media.DRAWN[0]], [media.DRAWN[0], "message"], ["message"], ["message"]]
    assert [middle_colour(picture) for picture in (*drawn(only), *drawn(both))] == [COLOURS["red"]] * 2


@pytest.mark.parametrize("way", ["drawn", "sent"])
def test_a_picture_is_edited(client: Client, way: str) -> None:
    """The one that the model drew, or one that the user sent."""
    fields = {"model": DRAWING, "modalities": ["image"], "image_config": {"aspect_ratio": "4:3"}}
    first = client.done("Draw a red house.", **fields)["output"][0]
    url = data_url("image/png", base64.b64decode(first["result"]))
    given = {
        "drawn": [user("Draw a red house."), first, user("Make it blue.")],
        "sent": [{"role": "user", "content": [image(url), {"type": "input_text", "text": "Make it blue."}]}],
    }
    (second,) = drawn(client.done(given[way], **fields))
    assert (frame_colour(second), middle_colour(second)) == (COLOURS["red"], COLOURS["blue"])
    assert (second[16:24], len(second) > 60) == (b"\0\0\0\x40\0\0\0\x30", True)


def test_what_the_parser_made_of_a_document_is_an_annotation(client: Client) -> None:
    """Where a directive asks for it: the name and the hash of each PDF, and its text."""
    content = [document("application/pdf", PDF), {"type": "input_text", "text": "[[standin: parsed]] Read."}]
    answer = client.done([{"role": "user", "content": content}])
    (annotation,) = answer["output"][-1]["content"][0]["annotations"]
    assert annotation["type"] == "file"
    file = annotation["file"]
    assert (file["name"], file["hash"]) == ("a.pdf", hashlib.sha256(PDF).hexdigest())
    assert [part["type"] for part in file["content"]] == ["text"] * 3


def test_such_an_annotation_cannot_be_sent_back(client: Client) -> None:
    """The schema of the input names three kinds of annotations, and this is none of them."""
    content = [document("application/pdf", PDF), {"type": "input_text", "text": "[[standin: parsed]] Read."}]
    message = client.done([{"role": "user", "content": content}])["output"][-1]
    assert client.post([user("Read."), message, user("And now?")]).status_code == 400
    message["content"][0]["annotations"] = []
    assert client.post([user("Read."), message, user("And now?")]).status_code == 200
