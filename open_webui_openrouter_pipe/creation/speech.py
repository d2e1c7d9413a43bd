"""Requests of speech and of transcripts, what they cost, how a page can play the one, and how the other is written.

Source of the forms: `POST /audio/speech` and `POST /audio/transcriptions` of OpenRouter's API, and the
`supported_voices` of its `GET /models`.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from ..conversation.media import AUDIO_TOKENS_PER_SECOND, audio_tokens
from ..money.prices import Prices
from ..responses.values import as_list, as_number, as_object, as_text
from ..words.lines import notice
from .message import PieceRequest

PATH: Final = "/audio/speech"
SAMPLES_PER_SECOND: Final = 24_000
SAMPLE_BYTES: Final = 2
"""Of samples without a header, of one channel."""
_RATE: Final = re.compile(r"rate=(\d{4,6})")
_CHANNELS: Final = re.compile(r"channels=([12])\b")
_SUFFIXES: Final = {"audio/mpeg": "mp3"}

TRANSCRIPTS: Final = "/audio/transcriptions"
_TEXT_TOKENS_PER_SECOND: Final = 5
"""Of quick talk."""
_DETAILS: Final[Mapping[str, Mapping[str, Any]]] = {
    "speakers": {"response_format": "verbose_json", "diarize": True},
    "times": {"response_format": "verbose_json", "timestamp_granularities": ["segment"]},
    "text": {},
}
"""What is asked for, and then less, as far as a model knows it."""


def speech_attempts(
    model_id: str, row: Mapping[str, Any], text: str, wishes: Mapping[str, Any]
) -> Iterator[PieceRequest]:
    """Yield the requests of speech by a model with this row of the catalogue, by the user's valves."""
    wished, speed = wishes.get("speech_voice", "").strip(), wishes.get("speech_speed", 1)
    voices = [*filter(None, map(as_text, as_list(row.get("supported_voices"))))]
    voice = next((each for each in voices if each.lower() == wished.lower()), [*voices, wished][0])
    lines = (
        (notice("setting_replaced", name="SPEECH_VOICE", asked=wished, used=voice),)
        if wished and voice.lower() != wished.lower()
        else ()
    )
    body = {"model": model_id, "input": text, **({"voice": voice} if voice else {})}
    fast = {} if speed == 1 else {"speed": speed}
    for form in ("mp3", "pcm")[wishes.get("speech_format") == "wav" :]:
        yield PieceRequest({**body, "response_format": form, **fast}, lines)
    if fast:
        slow = notice("setting_replaced", name="SPEECH_SPEED", asked=f"{speed:g}", used="1")
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


def transcript_attempts(
    model_id: str, recording: Mapping[str, Any], wishes: Mapping[str, Any]
) -> Iterator[PieceRequest]:
    """Yield the requests of a recording's transcript (`data` in base64 and `format`), by the user's valves."""
    asked = [*_DETAILS][[*_DETAILS].index(wishes.get("transcript", "times")) :]
    for detail in asked:
        other = notice("setting_replaced", name="TRANSCRIPT", asked=asked[0], used=detail)
        lines = (other,) if detail != asked[0] else ()
        yield PieceRequest({"model": model_id, "input_audio": {**recording}, **_DETAILS[detail]}, lines)


def transcript_cost(prices: Prices, recordings: Iterable[Mapping[str, Any]]) -> float | None:
    """Return what transcripts cost in dollars, None where nobody says that.

    A model without a price of its output has one of a second, in the place of that of a token.
    """
    if prices.input is None:
        return None
    tokens = sum(audio_tokens(as_text(each.get("data")), as_text(each.get("format"))) for each in recordings)
    seconds = tokens / AUDIO_TOKENS_PER_SECOND
    if prices.output is None:
        return seconds * prices.input
    return tokens * (prices.audio or prices.input) + seconds * _TEXT_TOKENS_PER_SECOND * prices.output


def written(answers: Sequence[Mapping[str, Any]]) -> str:
    """Write the transcripts of recordings in their order, each under its number where there are several."""
    texts = [_transcript(each) or notice("transcript_silent") for each in answers]
    if len(texts) == 1:
        return texts[0]
    headed = (f"**{at}**\n\n{text}" for at, text in enumerate(texts, 1))
    return "\n\n".join(headed)


def _transcript(answer: Mapping[str, Any]) -> str:
    """One line for each time, or each speaker in turn, where the model has told these; else the plain text."""
    segments, words = (_pieces(answer, *names) for names in (("segments", "text"), ("words", "word")))
    pieces = words if any(who for _, who, _ in words) and not any(who for _, who, _ in segments) else segments
    lines, last = list[tuple[float, str, str]](), ""
    for start, who, text in pieces:
        if lines and who and who == last:
            lines[-1] = (*lines[-1][:2], f"{lines[-1][2]} {text}")
        else:
            lines.append((start, who, text))
        last = who
    said = (f"{f'**{who}** ' if who else ''}`{_clock(start)}` {text}" for start, who, text in lines)
    return "\n\n".join(said) or as_text(answer.get("text")).strip()


def _pieces(answer: Mapping[str, Any], name: str, key: str) -> list[tuple[float, str, str]]:
    """The start in seconds, the speaker ("" for unknown) and the text of each segment or word."""
    found = [as_object(each) for each in as_list(answer.get(name))]
    return [
        (as_number(each.get("start")) or 0.0, _speaker(each), text)
        for each in found
        if (text := as_text(each.get(key)).strip())
    ]


def _speaker(piece: Mapping[str, Any]) -> str:
    number = as_number(piece.get("speaker"))
    named = as_text(piece.get("speaker_label"))
    return named or ("" if number is None else notice("transcript_speaker", number=int(number) + 1))


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
