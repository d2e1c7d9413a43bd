"""The request of speech, what it costs, and how a page can play it.

Source of the forms: `POST /audio/speech` of OpenRouter's API, and the `supported_voices` of `GET /models`.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ..responses.values import as_list, as_text
from ..words.lines import notice
from .message import PieceRequest

PATH: Final = "/audio/speech"
SAMPLES_PER_SECOND: Final = 24_000
SAMPLE_BYTES: Final = 2
"""Of samples without a header, of one channel."""
_RATE: Final = re.compile(r"rate=(\d{4,6})")
_CHANNELS: Final = re.compile(r"channels=([12])\b")
_SUFFIXES: Final = {"audio/mpeg": "mp3"}


def speech_attempts(
    model_id: str, row: Mapping[str, Any], text: str, wishes: Mapping[str, Any]
) -> Iterator[PieceRequest]:
    """Yield the requests of speech by a model with this row of the catalogue, by the user's valves."""
    wished, speed = wishes.get("speech_voice", "").strip(), wishes.get("speech_speed", 1)
    voices = [*filter(None, map(as_text, as_list(row.get("supported_voices"))))]
    voice = next((each for each in voices if each.lower() == wished.lower()), [*voices, wished][0])
    lines = (
        (notice("video_other", name="SPEECH_VOICE", asked=wished, used=voice),)
        if wished and voice.lower() != wished.lower()
        else ()
    )
    body = {"model": model_id, "input": text, **({"voice": voice} if voice else {})}
    fast = {} if speed == 1 else {"speed": speed}
    for form in ("mp3", "pcm")[wishes.get("speech_format") == "wav" :]:
        yield PieceRequest({**body, "response_format": form, **fast}, lines)
    if fast:
        slow = notice("video_other", name="SPEECH_SPEED", asked=f"{speed:g}", used="1")
        yield PieceRequest({**body, "response_format": "pcm"}, (*lines, slow))


def most_bytes(text: str) -> int:
    """Return how large speech of a text may be: two minutes and a third of a second for each character, as samples."""
    return (360 + len(text)) * SAMPLES_PER_SECOND * SAMPLE_BYTES // 3


def playable(content: bytes, kind: str, form: str) -> tuple[str, str, bytes]:
    """Return a name, a media type and a recording that a page plays; samples without a header become a WAV.

    `kind` is its media type as it was sent, with parameters, and `form` the format that was asked for.
    """
    plain = kind.partition(";")[0].strip().lower()
    is_named = plain.startswith("audio/") and not re.search("pcm|l16|raw", plain)
    if content.startswith(b"RIFF"):
        plain = "audio/wav"
    elif not is_named and form == "mp3" and not plain.startswith("audio/"):
        plain = "audio/mpeg"
    elif not is_named:
        plain, content = "audio/wav", _wav(content, kind)
    return f"speech.{_SUFFIXES.get(plain) or plain.partition('/')[2]}", plain, content


def _wav(samples: bytes, kind: str) -> bytes:
    """Samples of 16 bits behind a header (RIFF, format PCM), as their media type says or as they usually are."""
    rate, channels = _RATE.search(kind), _CHANNELS.search(kind)
    per_second, count = int(rate[1]) if rate else SAMPLES_PER_SECOND, int(channels[1]) if channels else 1
    width, size = count * SAMPLE_BYTES, len(samples)
    form = (1, count, per_second, per_second * width, width, 8 * SAMPLE_BYTES)
    head = struct.pack("<4sI8sIHHIIHH4sI", b"RIFF", 36 + size, b"WAVEfmt ", 16, *form, b"data", size)
    return head + samples
