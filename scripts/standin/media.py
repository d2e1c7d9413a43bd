"""Whether the media of a request are what they are said to be, and what the model can read and draw.

Owns the judgement by content: magic bytes, formats, modalities, and which documents the router's parser reads.
A request that does not pass raises ``RefusalError``; its schema has been judged before.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, Any

from .errors import RefusalError, router_error, vendor_error
from .prompt import input_items

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .catalogue import Model

SOURCES = {"image": ("image_url",), "file": ("file_data", "file_url"), "video": ("video_url",), "audio": ()}
"""The kinds of parts behind ``input_``, and the fields that may hold what they show; audio has its own form."""
ASPECT_RATIOS = ("1:1", "2:3", "3:2", "3:4", "4:3", "4:5", "5:4", "9:16", "16:9", "21:9")
IMAGE_SIZES = ("1K", "2K", "4K")
PDF = "application/pdf"
DRAWN = ("image_generation_call", "openrouter:image_generation")
DRAWN_FIELDS = ("result", "imageUrl", "imageB64")
DATA_URL = re.compile(r"data:([a-z0-9]+/[a-z0-9.+-]+);base64,")
MAGIC: dict[str, Callable[[bytes], bool]] = {
    "image/png": lambda data: data.startswith(b"\x89PNG\r\n\x1a\n"),
    "image/jpeg": lambda data: data.startswith(b"\xff\xd8\xff"),
    "image/gif": lambda data: data.startswith((b"GIF87a", b"GIF89a")),
    "image/webp": lambda data: data.startswith(b"RIFF") and data[8:12] == b"WEBP",
    PDF: lambda data: data.startswith(b"%PDF-"),
    "audio/mp3": lambda data: data.startswith(b"ID3") or (data[:1] == b"\xff" and data[1:2] >= b"\xe0"),
    "audio/wav": lambda data: data.startswith(b"RIFF") and data[8:12] == b"WAVE",
    "video/mp4": lambda data: data[4:8] == b"ftyp",
    "video/mov": lambda data: data[4:8] in {b"ftyp", b"moov", b"wide"},
    "video/quicktime": lambda data: data[4:8] in {b"ftyp", b"moov", b"wide"},
    "video/mpeg": lambda data: data.startswith((b"\0\0\1\xba", b"\0\0\1\xb3")),
    "video/webm": lambda data: data.startswith(b"\x1a\x45\xdf\xa3"),
}
"""What the first bytes of each type say."""
MISMATCHES = {
    "image": "Image does not match the provided media type",
    "file": "Document is not a valid PDF.",
}
"""What providers say of content of another type (seen: index id 70076861285, mistralai/client-python#485)."""


def check_media(body: dict[str, Any], model: Model) -> None:
    """Refuse a request whose media the model or the router cannot take.

    Raises:
        RefusalError: The service would refuse it.
    """
    _check_drawing(body, model)
    parses = _parses_pdfs(body)
    for item in input_items(body):
        for part in parts_of(item):
            kind = part["type"].removeprefix("input_")
            if kind == part["type"] or kind not in SOURCES:
                continue
            if kind not in model.inputs and not (parses and _is_pdf(part)):
                raise router_error(404, f"No endpoints found that support {kind} input")
            _check_part(part, kind, model)
        for name in DRAWN_FIELDS if item.get("type") in DRAWN else ():
            if (value := item.get(name)) and not _is_picture(decoded(value) or b""):
                _check_source(value, "image", model)


def parts_of(item: dict[str, Any]) -> list[dict[str, Any]]:
    """The typed parts of a message or of a call's output."""
    held = item.get("content") if item.get("type", "message") == "message" else item.get("output")
    return [part for part in held if "type" in part] if isinstance(held, list) else []


def pictures_of(body: dict[str, Any]) -> Iterator[bytes]:
    """The pictures of an accepted request in order, those that the model has drawn itself too; remote ones are not."""
    for item in input_items(body):
        drawn = [item[name] for name in DRAWN_FIELDS if item.get("type") in DRAWN and item.get(name)]
        for address in [*drawn, *(part["image_url"] for part in parts_of(item) if part.get("image_url"))]:
            if not address.startswith("https://"):
                yield decoded(DATA_URL.sub("", address)) or b""


# --- what the model draws ---


def _check_drawing(body: dict[str, Any], model: Model) -> None:
    config = body.get("image_config") or {}
    if config and "image" not in (body.get("modalities") or ["text"]):
        raise router_error(400, "image_config needs the output modality image")
    for name, known in (("aspect_ratio", ASPECT_RATIOS), ("image_size", IMAGE_SIZES)):
        if name in config and config[name] not in known:
            raise _unfit(model, f"{name}: expected one of {', '.join(known)}")


# --- what it reads ---


def _parses_pdfs(body: dict[str, Any]) -> bool:
    """Whether the router's parser reads PDFs: for every model, unless it is off or the engine is the model's own."""
    plugin: dict[str, Any] = next(
        (one for one in body.get("plugins") or [] if one["id"] == "file-parser"), {}
    )
    return plugin.get("enabled", True) is True and (plugin.get("pdf") or {}).get("engine") != "native"


def _is_pdf(part: dict[str, Any]) -> bool:
    if part["type"] != "input_file":
        return False
    source = part.get("file_data") or part.get("file_url") or ""
    return source.startswith(f"data:{PDF};") or source.partition("?")[0].lower().endswith(".pdf")


def _is_picture(content: bytes) -> bool:
    return any(is_one(content) for kind, is_one in MAGIC.items() if kind.startswith("image/"))


def _check_part(part: dict[str, Any], medium: str, model: Model) -> None:
    if medium == "audio":
        audio = part["input_audio"]
        is_one = MAGIC.get(f"audio/{audio['format']}")
        if not is_one or not is_one(decoded(audio["data"]) or b""):
            raise _unfit(model, f"The audio is not {audio['format']} in base64.")
        return
    _check_source(next((part[name] for name in SOURCES[medium] if part.get(name)), ""), medium, model)
    if part.get("file_data") and not part.get("filename"):
        raise _unfit(model, "Missing required parameter: 'filename'.")


def _check_source(source: str, medium: str, model: Model) -> None:
    """An https URL, or a data URL of a known type whose content is of that type."""
    if source.startswith("https://"):
        return
    if not (head := DATA_URL.match(source)):
        message = f"The {medium} is neither an https URL nor a base64 data URL."
        raise _unfit(model, message)
    kind, content = head[1], decoded(source[head.end() :])
    is_known = medium == "file" or (kind in MAGIC and kind.startswith(f"{medium}/"))
    if not content or not is_known:
        raise _unfit(model, f"Unsupported or empty {medium}: {kind}")
    if kind in MAGIC and not MAGIC[kind](content):
        raise _unfit(model, MISMATCHES.get(medium, f"The content of the {medium} is not {kind}."))


def _unfit(model: Model, said: str) -> RefusalError:
    return vendor_error(model.maker, model.provider, said)


def decoded(text: str) -> bytes | None:
    """The content of a base64 text, None where it is none."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
