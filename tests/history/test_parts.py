"""Parts of any shape become typed input parts."""

from __future__ import annotations

from typing import Any

import pytest

from open_webui_openrouter_pipe.history.parts import join_text_parts, read_content
from tests.history.builders import text

PNG = "data:image/png;base64,AAAA"
PDF = "data:application/pdf;base64,AAAA"

TYPES = {
    "text/plain": "document.txt",
    "application/json": "document.json",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "document.docx",
    "application/octet-stream": "document",
    "application/../../x": "document.x",
}

CASES: list[tuple[str, Any, list[Any]]] = [
    ("string", "hi", [text("hi")]),
    ("none", None, []),
    ("blank", " \n", []),
    ("number", 7, [text("7")]),
    ("object without type", {"text": "hi"}, [text("hi")]),
    ("text", [{"type": "text", "text": "hi"}], [text("hi")]),
    ("input_text", [{"type": "input_text", "text": "hi"}], [text("hi")]),
    ("text null", [{"type": "text", "text": None}], []),
    ("text of a wrong type", [{"type": "text", "text": ["hi", 1]}], [text('["hi",1]')]),
    ("strings in a list", ["a", None, "b"], [text("a"), text("b")]),
    (
        "image in Chat Completions form",
        [{"type": "image_url", "image_url": {"url": PNG, "detail": "low"}}],
        [{"type": "input_image", "detail": "low", "image_url": PNG}],
    ),
    (
        "image in Responses form",
        [{"type": "input_image", "image_url": "https://x.org/a.png", "detail": "high"}],
        [{"type": "input_image", "detail": "high", "image_url": "https://x.org/a.png"}],
    ),
    (
        "image without detail",
        [{"type": "image_url", "image_url": PNG}],
        [{"type": "input_image", "detail": "auto", "image_url": PNG}],
    ),
    (
        "image with unknown detail",
        [{"type": "image_url", "image_url": {"url": PNG, "detail": "ultra"}}],
        [{"type": "input_image", "detail": "auto", "image_url": PNG}],
    ),
    (
        "image of the host",
        [{"type": "image_url", "image_url": {"url": "/api/v1/files/1"}}],
        [{"type": "input_image", "detail": "auto", "image_url": "/api/v1/files/1/content"}],
    ),
    (
        "id of an image that the host could not read",
        [{"type": "image_url", "image_url": {"url": "0a9ce741-ecff-47fe"}}],
        [{"type": "input_image", "detail": "auto", "image_url": "/api/v1/files/0a9ce741-ecff-47fe/content"}],
    ),
    (
        "another path of the host",
        [{"type": "image_url", "image_url": {"url": "/api/v1/files/../users/1"}}],
        [text("[image omitted]")],
    ),
    (
        "image with parameters and capitals",
        [{"type": "image_url", "image_url": {"url": "Data:image/PNG;charset=utf-8;Base64,AAaa"}}],
        [{"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,AAaa"}],
    ),
    (
        "addresses in capitals",
        [
            {"type": "image_url", "image_url": "HTTPS://X.org/A.png"},
            {"type": "video_url", "video_url": "Http://x/v"},
        ],
        [
            {"type": "input_image", "detail": "auto", "image_url": "https://X.org/A.png"},
            {"type": "input_video", "video_url": "http://x/v"},
        ],
    ),
    (
        "image that is not base64",
        [{"type": "image_url", "image_url": "data:image/svg+xml,<svg>"}],
        [text("[image omitted]")],
    ),
    (
        "files with parameters and capitals",
        [
            {
                "type": "file",
                "file": {"filename": "a.txt", "file_data": "DATA:text/plain;charset=utf-8;base64,AAaa"},
            },
            {"type": "input_file", "file_url": "HTTPS://x.org/A.pdf"},
        ],
        [
            {"type": "input_file", "filename": "a.txt", "file_data": "data:text/plain;base64,AAaa"},
            {"type": "input_file", "filename": "A.pdf", "file_url": "https://x.org/A.pdf"},
        ],
    ),
    (
        "audio as a data URL in capitals",
        [
            {
                "type": "input_audio",
                "input_audio": {"data": "DATA:audio/wav;base64,AAaa", "format": "audio/WAV"},
            }
        ],
        [{"type": "input_audio", "input_audio": {"data": "AAaa", "format": "wav"}}],
    ),
    ("a number that JSON does not have", [[float("nan")]], [text("[null]")]),
    ("image of nothing", [{"type": "image_url"}], [text("[image omitted]")]),
    ("image of a wrong type", [{"type": "image_url", "image_url": 3}], [text("[image omitted]")]),
    ("image that is none", [{"type": "image_url", "image_url": {"url": PDF}}], [text("[image omitted]")]),
    (
        "file in Chat Completions form",
        [{"type": "file", "file": {"filename": "a.pdf", "file_data": PDF}}],
        [{"type": "input_file", "filename": "a.pdf", "file_data": PDF}],
    ),
    (
        "file in Responses form, bare base64",
        [{"type": "input_file", "filename": "a.pdf", "file_data": "AAAA"}],
        [{"type": "input_file", "filename": "a.pdf", "file_data": PDF}],
    ),
    (
        "file by URL without a name",
        [{"type": "input_file", "file_url": "https://x.org/docs/b.txt?v=1"}],
        [{"type": "input_file", "filename": "b.txt", "file_url": "https://x.org/docs/b.txt?v=1"}],
    ),
    (
        "file without a name",
        [{"type": "input_file", "file_data": PDF}],
        [{"type": "input_file", "filename": "document.pdf", "file_data": PDF}],
    ),
    (
        "files without a name, of other types",
        [{"type": "input_file", "file_data": f"data:{kind};base64,AAAA"} for kind in TYPES],
        [
            {"type": "input_file", "filename": name, "file_data": f"data:{kind};base64,AAAA"}
            for kind, name in TYPES.items()
        ],
    ),
    (
        "file of the host without a name",
        [{"type": "file", "file": {"file_id": "f-1"}}],
        [{"type": "input_file", "filename": "", "file_id": "f-1"}],
    ),
    (
        "file of the host",
        [{"type": "file", "file": {"name": "a.pdf", "url": "/api/v1/files/1"}}],
        [{"type": "input_file", "filename": "a.pdf", "file_id": "1"}],
    ),
    (
        "file of the host by its id",
        [{"type": "file", "file": {"filename": "a.pdf", "file_id": "f-1"}}],
        [{"type": "input_file", "filename": "a.pdf", "file_id": "f-1"}],
    ),
    (
        "file with a path for its id",
        [{"type": "file", "file": {"filename": "a.pdf", "file_id": "../f"}}],
        [text("[file omitted: a.pdf]")],
    ),
    ("file of nothing", [{"type": "file", "file": None}], [text("[file omitted]")]),
    (
        "audio",
        [{"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}],
        [{"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}],
    ),
    (
        "audio as data URL with a media type",
        [
            {
                "type": "input_audio",
                "input_audio": {"data": "data:audio/mpeg;base64,AAAA", "format": "audio/mpeg"},
            }
        ],
        [{"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}}],
    ),
    (
        "audio of an unknown format",
        [{"type": "input_audio", "input_audio": {"data": "AAAA", "format": "ogg"}}],
        [text("[audio omitted: ogg]")],
    ),
    ("audio of nothing", [{"type": "input_audio"}], [text("[audio omitted]")]),
    (
        "video in Chat Completions form",
        [{"type": "video_url", "video_url": {"url": "https://x.org/a.mp4"}}],
        [{"type": "input_video", "video_url": "https://x.org/a.mp4"}],
    ),
    (
        "video in Responses form",
        [{"type": "input_video", "video_url": "data:video/mp4;base64,AAAA"}],
        [{"type": "input_video", "video_url": "data:video/mp4;base64,AAAA"}],
    ),
    (
        "video of the host",
        [{"type": "video_url", "video_url": {"url": "/a.mp4"}}],
        [text("[video omitted]")],
    ),
    ("unknown kind with text", [{"type": "poem", "text": "hi"}], [text("hi")]),
    ("unknown kind", [{"type": "hologram", "data": 1}], [text("[part omitted: hologram]")]),
    ("kind of a wrong type", [{"type": {"a": 1}, "data": 1}], [text("[part omitted]")]),
    ("empty object", [{}], []),
    ("nested list", [["a", {"type": "text", "text": "b"}]], [text('["a",{"type":"text","text":"b"}]')]),
    ("dirty text", [{"type": "text", "text": "a\0\ud83d"}], [text("a\ufffd")]),
]


@pytest.mark.parametrize(
    ("content", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_read(content: Any, expected: list[Any]) -> None:
    """What can be sent is kept in the wire's form; what cannot is named by a short constant text."""
    assert read_content(content) == expected


def test_join_text_parts() -> None:
    """Text parts join to one string; with anything else among them they stay parts."""
    image = {"type": "input_image", "detail": "auto", "image_url": PNG}
    assert join_text_parts(read_content(["a", "b"])) == "ab"
    assert join_text_parts(read_content(["a", image])) == [text("a"), image]
