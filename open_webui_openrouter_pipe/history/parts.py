"""Message parts: what a user, or a tool, hands over, as typed input parts.

Reads Open WebUI's Chat Completions shapes and the Responses shapes alike. What can be sent is kept; what
cannot is replaced by a short constant text that says what was left out, so that a part never breaks a chat
and never vanishes. Fetches nothing: a relative URL of the host is something that cannot be sent.

What tool calls and answers say, in whatever form they come.

Owns the reading of values. Which call belongs to which answer is decided in `tool_pairs`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, cast, get_args

from ..responses.items import Detail, InputPart, InputText
from ..responses.text import TOO_DEEP, clean_text, json_text

_DETAILS = frozenset(get_args(Detail))
_AUDIO_FORMATS = {"mp3": "mp3", "mpeg": "mp3", "wav": "wav", "wave": "wav", "x-wav": "wav"}
_REMOTE = ("https://", "http://")
_IMAGE_DATA = re.compile(r"data:image/[a-z.+-]+;base64,")
_VIDEO_DATA = re.compile(r"data:video/[\w.+-]+;base64,")
_FILE_DATA = re.compile(r"data:[^;,]+;base64,")
_DEFAULT_FILENAME = "file"

Wire = Mapping[str, Any]


def left_out(what: str, name: str = "") -> InputText:
    """Make the text that stands for something that cannot be sent."""
    return text_part(f"[{what} left out: {name}]" if name else f"[{what} left out]")


def text_part(text: str) -> InputText:
    """Make a text part."""
    return {"type": "input_text", "text": text}


def read_content(content: Any) -> list[InputPart]:
    """Read a message's content of any shape; blank text and nulls give no part."""
    if isinstance(content, str):
        text = clean_text(content)
        return [text_part(text)] if text and not text.isspace() else []
    if isinstance(content, list):
        return [part for member in content for part in _read_part(member)]
    return list(_read_part(content))


def flatten(parts: list[InputPart]) -> str | list[InputPart]:
    """Join parts that are all text into one string, the form in which tools mostly answer."""
    if all(part["type"] == "input_text" for part in parts):
        return "".join(cast("InputText", part)["text"] for part in parts)
    return parts


def _read_part(part: Any) -> list[InputPart]:
    if part is None:
        return []
    if not isinstance(part, dict):
        return read_content(part if isinstance(part, str) else json_text(part))
    kind = part.get("type")
    reader = _READERS.get(kind) if isinstance(kind, str) else None
    return [found for found in [(reader or _unknown)(part)] if found is not None]


def _text(part: Wire) -> InputPart | None:
    text = part.get("text")
    if text is None:
        return None
    text = clean_text(text if isinstance(text, str) else json_text(text))
    return text_part(text) if text and not text.isspace() else None


def _image(part: Wire) -> InputPart:
    source = part.get("image_url")
    url = _url(source)
    detail = source.get("detail") if isinstance(source, dict) else part.get("detail")
    if not (url.startswith(_REMOTE) or _IMAGE_DATA.match(url)):
        return left_out("image")
    known = cast("Detail", detail) if isinstance(detail, str) and detail in _DETAILS else "auto"
    return {"type": "input_image", "detail": known, "image_url": url}


def _file(part: Wire) -> InputPart:
    nested = part.get("file")
    source: Wire = nested if isinstance(nested, dict) else part
    filename = _word(source.get("filename")) or _word(source.get("name"))
    data = _word(source.get("file_data"))
    url = _word(source.get("file_url")) or _word(source.get("url"))
    if data and not data.startswith(_REMOTE) and not data.startswith("data:"):
        data = f"data:{_media_type(filename)};base64,{data}"
    for candidate in (data, url):
        if _FILE_DATA.match(candidate):
            return {"type": "input_file", "filename": filename or _DEFAULT_FILENAME, "file_data": candidate}
        if candidate.startswith(_REMOTE):
            return {"type": "input_file", "filename": filename or _basename(candidate), "file_url": candidate}
    return left_out("file", filename)


def _audio(part: Wire) -> InputPart:
    source = part.get("input_audio")
    data = _word(source.get("data")) if isinstance(source, dict) else ""
    format_ = _word(source.get("format")) if isinstance(source, dict) else ""
    known = _AUDIO_FORMATS.get(format_.lower().removeprefix("audio/"))
    if data.startswith("data:"):
        data = data.partition(",")[2]
    if not data or not known:
        return left_out("audio", format_)
    return {
        "type": "input_audio",
        "input_audio": {"data": data, "format": "wav" if known == "wav" else "mp3"},
    }


def _video(part: Wire) -> InputPart:
    url = _url(part.get("video_url"))
    if not (url.startswith(_REMOTE) or _VIDEO_DATA.match(url)):
        return left_out("video")
    return {"type": "input_video", "video_url": url}


def _refusal(part: Wire) -> InputPart | None:
    return _text({"text": part.get("refusal")})


def _unknown(part: Wire) -> InputPart | None:
    """A part of an unknown kind: its text if it has one, otherwise its kind."""
    text = part.get("text")
    if isinstance(text, str) and text.strip():
        return _text(part)
    return left_out("part", _word(part.get("type"))) if part else None


_READERS: dict[str, Callable[[Wire], InputPart | None]] = {
    "text": _text,
    "input_text": _text,
    "output_text": _text,
    "refusal": _refusal,
    "image_url": _image,
    "input_image": _image,
    "file": _file,
    "input_file": _file,
    "input_audio": _audio,
    "video_url": _video,
    "input_video": _video,
}


def _url(source: Any) -> str:
    return _word(source.get("url") if isinstance(source, dict) else source)


def _word(value: Any) -> str:
    return clean_text(value).strip() if isinstance(value, str) else ""


def _basename(url: str) -> str:
    return url.partition("?")[0].rstrip("/").rpartition("/")[2] or _DEFAULT_FILENAME


def _media_type(filename: str) -> str:
    return "application/pdf" if filename.lower().endswith(".pdf") else "application/octet-stream"


_OUTPUT_PARTS = frozenset({"input_text", "input_image", "input_file"})
"""Parts that an output may hold."""


def read_output(content: Any) -> str | list[InputPart]:
    """Read a tool's answer: text where it is text, parts where it holds more, JSON for anything else."""
    if content is None:
        return ""
    if isinstance(content, str):
        return clean_text(content)
    if isinstance(content, list) and all(isinstance(part, dict) and "type" in part for part in content):
        return flatten(read_parts(content))
    return json_text(content)


def read_parts(content: list[Any]) -> list[InputPart]:
    """Read a tool's answer as parts; what an output cannot hold is named instead."""
    return [
        part if part["type"] in _OUTPUT_PARTS else left_out(part["type"].removeprefix("input_"))
        for part in read_content(content)
    ]


def read_arguments(arguments: Any) -> str:
    """Give a call's arguments as JSON text of an object; anything else is wrapped as its `input`."""
    if arguments is None or (isinstance(arguments, str) and not arguments.strip()):
        return "{}"
    if isinstance(arguments, str) and is_object(arguments):
        return clean_text(arguments)
    text = json_text(arguments if isinstance(arguments, dict) else {"input": arguments})
    return json_text({"input": TOO_DEEP}) if text == TOO_DEEP else text


def is_object(text: str) -> bool:
    """Tell whether the text is a JSON object."""
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def same_arguments(one: str, other: str) -> bool:
    """Compare two JSON texts by what they say; the host writes a call's arguments anew."""
    try:
        return bool(one == other or json.loads(one) == json.loads(other))
    except (ValueError, RecursionError):
        return False
