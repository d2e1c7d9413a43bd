"""Message parts and tool values: what a user or a tool sends or an answer shows, in whatever form, as typed input.

Reads Open WebUI's Chat Completions shapes and the Responses shapes alike. What can be sent is kept; what cannot is
replaced by a short constant text that names it, so that a part never breaks a chat and never vanishes. Fetches nothing:
files of the host stay as references, which `media` replaces before anything is sent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal, TypeAlias, cast, get_args

from ..responses.items import PART_KINDS, Detail, InputPart, InputText
from ..responses.values import (
    TOO_DEEP,
    as_object,
    as_text,
    clean_text,
    host_file_id,
    host_file_path,
    json_text,
    read_json,
    reference_of,
)
from .markers import closed_fences, inline_code, is_within

_DETAILS = frozenset(get_args(Detail))
_AUDIO_FORMATS: Mapping[str, Literal["mp3", "wav"]] = {
    **dict.fromkeys(("mp3", "mpeg"), "mp3"),
    **dict.fromkeys(("wav", "wave", "x-wav"), "wav"),
}
_REMOTE = ("https://", "http://")
_URL_HEAD = re.compile(r"https?://|data:(?P<kind>[^;,]+)(?:;[^;,]*)*;base64,", re.IGNORECASE)
_PYTHON_NUMBER = re.compile(r"[:,\[]\s*+-?(?:NaN|Infinity)")
"""What Python reads and writes as JSON, and nobody else."""

_SHOWN_IMAGE = re.compile(
    r"!\[[^\[\]\n]{0,400}\]\([ \t]{0,9}"
    r"(?P<address>/api/v1/files/[A-Za-z0-9_-]{1,64}(?:/content)?|"
    r"(?P<inline>(?i:data:image/[a-z0-9.+-]{1,40};base64,)[A-Za-z0-9+/_=-]++))"
    r"(?:[ \t]{1,9}\"[^\"\n]{0,400}\")?[ \t]{0,9}\)"
)
"""An image of the host, or an inline one, as an answer shows it by Markdown."""

_ENDINGS: Mapping[str, str] = {
    "plain": "txt",
    "markdown": "md",
    "javascript": "js",
    "jpeg": "jpg",
    "document": "docx",
    "sheet": "xlsx",
    "presentation": "pptx",
}
"""Of file names, by what types of files end with."""
_LONGEST_ENDING = 5
JsonObject: TypeAlias = Mapping[str, Any]


def omitted_part(what: str, name: str = "") -> InputText:
    """Return the text that replaces something that cannot be sent."""
    return text_part(f"[{what} omitted: {name}]" if name else f"[{what} omitted]")


def text_part(text: str) -> InputText:
    """Return a text part."""
    return {"type": "input_text", "text": text}


def read_content(content: Any) -> list[InputPart]:
    """Read a message's content of any shape; blank text and nulls yield no part."""
    if isinstance(content, str):
        text = clean_text(content)
        return [text_part(text)] if text and not text.isspace() else []
    if isinstance(content, list):
        return [part for member in content for part in _read_part(member)]
    return list(_read_part(content))


def take_images(text: str) -> tuple[str, list[InputPart]]:
    """Return an answer's text with references in the place of inline content, and its images in order."""
    if "!" not in text or "![" not in text:
        return text, []
    blocks, inline = closed_fences(text), inline_code(text)
    pieces: list[str] = []
    images: list[InputPart] = []
    done = 0
    for each in _SHOWN_IMAGE.finditer(text):
        if is_within(each.start(), blocks) or is_within(each.start(), inline):
            continue
        images += read_content([{"type": "image_url", "image_url": {"url": each["address"]}}])
        if each["inline"] and images[-1]["type"] == "input_image":
            pieces += [
                text[done : each.start("inline")],
                f"reference:{reference_of(images[-1]['image_url'])}",
            ]
            done = each.end("inline")
    return "".join([*pieces, text[done:]]), images


def read_output(content: Any) -> str | list[InputPart]:
    """Read a tool's output: text where it is text, parts where it holds more, JSON for anything else."""
    if content is None:
        return ""
    if isinstance(content, str):
        return clean_text(content)
    if isinstance(content, list) and all(isinstance(part, dict) and "type" in part for part in content):
        parts = read_parts(content)
        texts = [part["text"] for part in parts if part["type"] == "input_text"]
        return "".join(texts) if len(texts) == len(parts) else parts
    return json_text(content)


def read_parts(content: list[Any]) -> list[InputPart]:
    """Read a tool's output as parts; what an output cannot hold is named instead."""
    return [
        part
        if part["type"] == "input_text" or PART_KINDS[part["type"]].in_outputs
        else omitted_part(PART_KINDS[part["type"]].modality)
        for part in read_content(content)
    ]


def read_arguments(arguments: Any) -> str:
    """Return a call's arguments as JSON text of an object; anything else is wrapped as its `input`."""
    if arguments is None or (isinstance(arguments, str) and not arguments.strip()):
        return "{}"
    if isinstance(arguments, str):
        value = read_json(arguments)
        if isinstance(value, dict):
            if not _PYTHON_NUMBER.search(arguments):
                return clean_text(arguments)
            arguments = value
    text = json_text(arguments if isinstance(arguments, dict) else {"input": arguments})
    return json_text({"input": TOO_DEEP}) if text == TOO_DEEP else text


def read_call_id(value: Any) -> str:
    """Return a call's id, "" for none; some models number their calls."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    call_id = clean_text(as_text(value))
    return "" if call_id.isspace() else call_id


def canonical_arguments(arguments: str) -> str:
    """Return the one form of all JSON texts of the same value; the host serializes a call's arguments again."""
    try:
        return json.dumps(json.loads(arguments, parse_float=_plain_number), sort_keys=True)
    except (ValueError, RecursionError):
        return arguments


def _plain_number(text: str) -> int | float:
    """JavaScript writes 1.0 as 1."""
    number = float(text)
    return int(number) if number.is_integer() else number


def _read_part(part: Any) -> list[InputPart]:
    if part is None:
        return []
    if not isinstance(part, dict):
        return read_content(part if isinstance(part, str) else json_text(part))
    read = (_READERS.get(as_text(part.get("type"))) or _unknown)(part)
    return [] if read is None else [read]


def _text(part: JsonObject) -> InputPart | None:
    text = part.get("text")
    if text is None:
        return None
    text = clean_text(text if isinstance(text, str) else json_text(text))
    return text_part(text) if text and not text.isspace() else None


def _image(part: JsonObject) -> InputPart:
    source = part.get("image_url")
    value = source.get("url") if isinstance(source, dict) else source
    # Of a file that the host cannot read, it leaves the id.
    url = _url(value) or _url(host_file_path(_stripped(value)))
    detail = as_text(source.get("detail") if isinstance(source, dict) else part.get("detail"))
    if not url.startswith((*_REMOTE, "data:image/", "/")):
        return omitted_part("image")
    known = cast("Detail", detail) if detail in _DETAILS else "auto"
    return {"type": "input_image", "detail": known, "image_url": url}


def _file(part: JsonObject) -> InputPart:
    source = as_object(part.get("file")) or part
    filename = _stripped(source.get("filename")) or _stripped(source.get("name"))
    data = _stripped(source.get("file_data"))
    if data and not _URL_HEAD.match(data) and data[:5].lower() != "data:":
        kind = "application/pdf" if filename.lower().endswith(".pdf") else "application/octet-stream"
        data = f"data:{kind};base64,{data}"
    for candidate in map(_url, (data, source.get("file_url") or source.get("url"))):
        if candidate.startswith("data:"):
            return {"type": "input_file", "filename": filename or _name_of(candidate), "file_data": candidate}
        if candidate.startswith(_REMOTE):
            name = filename or candidate.partition("?")[0].rstrip("/").rpartition("/")[2]
            return {"type": "input_file", "filename": name, "file_url": candidate}
        if file_id := host_file_id(candidate):
            return {"type": "input_file", "filename": filename, "file_id": file_id}
    if file_id := host_file_id(host_file_path(_stripped(source.get("file_id")))):
        return {"type": "input_file", "filename": filename, "file_id": file_id}
    return omitted_part("file", filename)


def _name_of(data_url: str) -> str:
    """A name by the type that a data URL states: the last part of what its subtype says, such as "document.pdf"."""
    stated = data_url[5:205].partition(";")[0].rpartition("/")[2].rpartition(".")[2]
    ending = _ENDINGS.get(stated, stated)
    return f"document.{ending}" if ending.isalnum() and len(ending) <= _LONGEST_ENDING else "document"


def _audio(part: JsonObject) -> InputPart:
    source = as_object(part.get("input_audio"))
    data, format_ = _stripped(source.get("data")), _stripped(source.get("format"))
    known = _AUDIO_FORMATS.get(format_.lower().removeprefix("audio/"))
    if data[:5].lower() == "data:":
        data = data.partition(",")[2]
    if not data or not known:
        return omitted_part("audio", format_)
    return {"type": "input_audio", "input_audio": {"data": data, "format": known}}


def _addressed(name: str, part: JsonObject) -> InputPart:
    """Read a part whose one field is the address of its content."""
    kind = PART_KINDS[name]
    source = part.get(kind.source[0])
    url = _url(source.get("url") if isinstance(source, dict) else source)
    inline = {f"data:{media_type.partition('/')[0]}/" for media_type in kind.media_types}
    if not url.startswith((*_REMOTE, *inline, "/")):
        return omitted_part(kind.modality)
    return cast("InputPart", {"type": name, kind.source[0]: url})


def _unknown(part: JsonObject) -> InputPart | None:
    """A part of an unknown kind: its text if it has one, otherwise its kind."""
    if as_text(part.get("text")).strip():
        return _text(part)
    return omitted_part("part", _stripped(part.get("type"))) if part else None


_OWN_READERS: Mapping[str, Callable[[JsonObject], InputPart]] = {
    "input_image": _image,
    "input_file": _file,
    "input_audio": _audio,
}
_READERS: Mapping[str, Callable[[JsonObject], InputPart | None]] = {
    **dict.fromkeys(("text", "input_text", "output_text"), _text),
    "refusal": lambda part: _text({"text": part.get("refusal")}),
    **{
        host_type: _OWN_READERS.get(name) or partial(_addressed, name)
        for name, kind in PART_KINDS.items()
        for host_type in kind.host_types
    },
}


def _url(value: Any) -> str:
    """A remote URL, base64 data with the head in its plainest form, or a file's path; "" for anything else."""
    url = _stripped(value)
    if not (head := _URL_HEAD.match(url)):
        return host_file_path(file_id) if (file_id := host_file_id(url)) else ""
    plain = f"data:{head['kind'].lower()};base64," if head["kind"] else head[0].lower()
    return url if url.startswith(plain) else f"{plain}{url[head.end() :]}"


def _stripped(value: Any) -> str:
    return clean_text(as_text(value)).strip()
