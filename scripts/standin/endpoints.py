"""The endpoints beside /responses that make sound, text of sound, and pictures.

    POST /audio/speech, /audio/transcriptions, /images
    GET  /images/models, /images/models/{author}/{slug}/endpoints

Owns their models (``endpoints.json``) with their prices, and judges each body by the SDK's models and by what the model
can. A prompt, or the queue, may order ``error``, ``fail``, ``delay`` and ``hang``. Nothing of it was recorded: the
shapes are the SDK's. An answer that is begun is billed whole.
"""

from __future__ import annotations

import asyncio
import base64
import io
import json
import math
import wave
from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openrouter.components.imagegenerationrequest import ImageGenerationRequest
from openrouter.components.speechrequest import SpeechRequest
from openrouter.components.sttrequest import STTRequest
from starlette.responses import JSONResponse, StreamingResponse

from . import catalogue, media
from .drawing import draw
from .errors import invalid_request, router_error, vendor_error
from .plan import Plan, plain_text
from .planner import Draft, ParsedRequest, read_directives
from .sdk_schema import against, issue

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Sequence

    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import Receive, Scope, Send

    from .state import RecordedRequest, Service

Json = dict[str, Any]

DATA: dict[str, list[Json]] = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
SPEAKING, TRANSCRIBING, DRAWING = (
    {row["id"]: row for row in DATA[kind]} for kind in ("speaking", "transcribing", "drawing")
)
SAMPLES_PER_SECOND = 24_000
SECONDS_PER_CHARACTER = 0.06
TONE_HERTZ = 330
SILENT_MP3_FRAME = b"\xff\xfb\x90\xc4" + bytes(413)
"""A frame of MPEG-1 layer 3: 128 kbit/s at 44.1 kHz, mono, nothing to hear."""
MP3_FRAME_SECONDS = 1152 / 44_100
BYTES_PER_SECOND = 16_000
"""Of a recording whose length its header does not say."""
TOKENS_PER_PICTURE = {"low": 272, "medium": 1056, "high": 4160}
TOKENS_PER_REFERENCE = 300
DEFAULT_QUALITY = "medium"
TIERS = ("512", "768", "1K", "1.5K", "2K", "4K")
SPEAKERS = ("Ada", "Ben")
SENTENCE_SECONDS = 2.5
CREATED = 1_790_000_000
HEARD = ("The keeper opens the lock at noon.", "Then the boats go through.", "Nobody waits for long.")
"""What every recording says, by whom in turn."""


# --- lists


def rows(outputs: Sequence[str]) -> list[Json]:
    """The rows of /models of those that speak or transcribe, as far as these outputs, or all, are asked for."""
    kinds = (("speech", SPEAKING, "text"), ("transcription", TRANSCRIBING, "audio"))
    return [
        _row(row, given, made)
        for made, models, given in kinds
        if {made, "all"} & set(outputs)
        for row in models.values()
    ]


def _row(row: Json, given: str, made: str) -> Json:
    return {
        "id": row["id"],
        "canonical_slug": row["id"],
        "name": row["name"],
        "created": CREATED,
        "description": f"{row['name']}, as the stand-in plays it.",
        "context_length": 4096,
        "architecture": {
            "modality": f"{given}->{made}",
            "input_modalities": [given],
            "output_modalities": [made],
            "tokenizer": "Other",
            "instruct_type": None,
        },
        "pricing": row["pricing"],
        "top_provider": {"context_length": 4096, "max_completion_tokens": None, "is_moderated": False},
        "per_request_limits": None,
        "supported_parameters": [],
        "supported_voices": row.get("supported_voices"),
    }


def image_models(_service: Service, _request: Request, _record: RecordedRequest) -> Response:
    """GET /images/models."""
    listed = [
        {
            "id": row["id"],
            "name": row["name"],
            "created": CREATED,
            "description": f"{row['name']}, as the stand-in plays it.",
            "architecture": {"input_modalities": row["input_modalities"], "output_modalities": ["image"]},
            "endpoints": f"/api/v1/images/models/{row['id']}/endpoints",
            "supported_parameters": row["supported_parameters"],
            "supports_streaming": row["supports_streaming"],
        }
        for row in DRAWING.values()
    ]
    return JSONResponse({"data": listed})


def image_endpoints(_service: Service, _request: Request, record: RecordedRequest) -> Response:
    """GET /images/models/{author}/{slug}/endpoints."""
    row = DRAWING[record.path.removeprefix("/images/models/").removesuffix("/endpoints")]
    endpoint = {
        "allowed_passthrough_parameters": [],
        "pricing": row["pricing"],
        "provider_name": row["provider"],
        "provider_slug": row["provider"].lower().replace(" ", "-"),
        "provider_tag": None,
        "supported_parameters": row["supported_parameters"],
        "supports_streaming": row["supports_streaming"],
    }
    return JSONResponse({"id": row["id"], "endpoints": [endpoint]})


# --- what is made


@dataclass(frozen=True, slots=True)
class Made:
    """What answers a request: its pieces, and what was used."""

    pieces: Sequence[bytes]
    media_type: str
    used: Json


def speak(body: Json, _plan: Plan) -> Made:
    """POST /audio/speech: a tone as long as the text would take."""
    row = _checked(SpeechRequest, body, SPEAKING)
    form, voice = body.get("response_format", "pcm"), body.get("voice")
    if voice and voice not in row["supported_voices"]:
        raise _unfit(row, f"Invalid voice '{voice}'. Supported: {', '.join(row['supported_voices'])}")
    if form not in row["formats"]:
        raise _unfit(row, f"response_format '{form}' is not supported")
    if body.get("speed", 1) != 1 and not row["has_speed"]:
        raise _unfit(row, "speed is not supported by this model")
    text = plain_text(body["input"])
    seconds = len(text) * SECONDS_PER_CHARACTER / body.get("speed", 1)
    used = _used(len(text) * float(row["pricing"]["prompt"]))
    if form == "mp3":
        return Made([SILENT_MP3_FRAME * math.ceil(seconds / MP3_FRAME_SECONDS)], "audio/mpeg", used)
    kind = f"audio/pcm;rate={SAMPLES_PER_SECOND};channels=1"
    return Made([tone(seconds)], kind, used)


def tone(seconds: float) -> bytes:
    """A soft tone as headerless samples of 16 bits."""
    turn = math.tau * TONE_HERTZ / SAMPLES_PER_SECOND
    return array(
        "h", [int(6000 * math.sin(turn * at)) for at in range(int(seconds * SAMPLES_PER_SECOND))]
    ).tobytes()


def transcribe(body: Json, _plan: Plan) -> Made:
    """POST /audio/transcriptions."""
    row = _checked(STTRequest, body, TRANSCRIBING)
    given, is_verbose = body["input_audio"], body.get("response_format") == "verbose_json"
    content = media.decoded(given.get("data", ""))
    is_one = media.MAGIC.get(f"audio/{given['format']}")
    if not content or (is_one and not is_one(content)):
        raise _unfit(row, f"The audio is not {given['format']}.")
    if is_verbose and not row["is_verbose"]:
        raise _unfit(row, "response_format verbose_json is not supported")
    if body.get("diarize") and not (row["diarizes"] and is_verbose):
        raise _unfit(row, "diarize is not supported by this request")
    seconds = length_seconds(content)
    usage = {"seconds": seconds, "cost": seconds * float(row["pricing"]["prompt"])}
    answer: Json = {"text": " ".join(HEARD)}
    if is_verbose:
        answer |= {"task": "transcribe", "language": "en", "duration": seconds}
        answer |= {"segments": [*_segments(has_speakers=bool(body.get("diarize")))]}
    if body.get("diarize"):
        answer["words"] = [*_words()]
    return Made([json.dumps({**answer, "usage": usage}).encode()], "application/json", _used(usage["cost"]))


def length_seconds(content: bytes) -> float:
    """How long a recording is, by its header or its size."""
    try:
        with wave.open(io.BytesIO(content)) as opened:
            return float(opened.getnframes() / opened.getframerate())
    except (wave.Error, EOFError):
        return len(content) / BYTES_PER_SECOND


def _segments(*, has_speakers: bool) -> Iterable[Json]:
    for at, text in enumerate(HEARD):
        times = {"start": at * SENTENCE_SECONDS, "end": (at + 1) * SENTENCE_SECONDS}
        speaker = {"speaker": at % 2, "speaker_label": SPEAKERS[at % 2]} if has_speakers else {}
        yield {"id": at, **times, "text": f" {text}", **speaker}


def _words() -> Iterable[Json]:
    for at, text in enumerate(HEARD):
        words = text.split()
        step = SENTENCE_SECONDS / len(words)
        for number, word in enumerate(words):
            start = at * SENTENCE_SECONDS + number * step
            yield {
                "word": word,
                "start": start,
                "end": start + step,
                "speaker": at % 2,
                "speaker_label": SPEAKERS[at % 2],
            }


def picture(body: Json, plan: Plan) -> Made:
    """POST /images: whole, or a stream with partial pictures."""
    row = _checked(ImageGenerationRequest, body, DRAWING)
    _check_abilities(row, body)
    references = [part["image_url"]["url"] for part in body.get("input_references") or []]
    decoded = [media.decoded(media.DATA_URL.sub("", url)) for url in references]
    prompt, ratio = plain_text(body["prompt"]), body.get("aspect_ratio", "1:1")
    drawn = draw(prompt, decoded[-1] if decoded else None, ratio if ":" in ratio else "1:1")
    encoded, usage = base64.b64encode(drawn).decode(), _picture_usage(row, body, len(references))
    used = _used(usage["cost"], usage["prompt_tokens"], usage["completion_tokens"])
    done = {"created": CREATED, "usage": usage}
    if not (body.get("stream") and row["supports_streaming"]):
        data = [{"b64_json": encoded, "media_type": "image/png"}] * body.get("n", 1)
        return Made([json.dumps({**done, "data": data}).encode()], "application/json", used)
    partial = [
        {
            "type": "image_generation.partial_image",
            "partial_image_index": at,
            "b64_json": base64.b64encode(draw("white" if at == 0 else prompt)).decode(),
        }
        for at in range(row["partial_images"])
    ]
    last = {"type": "image_generation.completed", "b64_json": encoded, "media_type": "image/png", **done}
    whole = [{name: each for name, each in last.items() if name != "usage"}] * (body.get("n", 1) - 1) + [last]
    if plan.cut:
        whole = [{"type": "error", "error": {"message": plan.cut.message, "code": plan.cut.code}}]
    events = [f"data: {json.dumps(event)}\n\n".encode() for event in [*partial, *whole]]
    return Made([*events, b"data: [DONE]\n\n"], "text/event-stream", used)


def _check_abilities(row: Json, body: Json) -> None:
    """A ratio is clamped by the provider; other values that it does not know are refused."""
    able = row["supported_parameters"]
    if body.get("n", 1) > able.get("n", {"max": 1})["max"]:
        raise _unfit(row, "n is above what this model supports")
    if len(body.get("input_references") or []) > able.get("input_references", {"max": 0})["max"]:
        raise _unfit(row, "too many input_references for this model")
    if body.get("resolution") and body["resolution"] not in able.get("resolution", {}).get("values", TIERS):
        raise _unfit(row, f"resolution '{body['resolution']}' is not supported")


def _picture_usage(row: Json, body: Json, references: int) -> Json:
    """What it costs by the lines of the endpoint."""
    count, text_tokens = body.get("n", 1), len(body["prompt"]) // 4
    tokens = count * TOKENS_PER_PICTURE[body.get("quality", DEFAULT_QUALITY)]
    amounts = {
        ("output_image", "image"): count,
        ("output_image", "megapixel"): count * {"2K": 4, "4K": 16}.get(body.get("resolution", ""), 1),
        ("output_image", "token"): tokens,
        ("input_text", "token"): text_tokens,
        ("input_image", "token"): references * TOKENS_PER_REFERENCE,
        ("input_reference", "image"): references,
    }
    lines = {
        (line["billable"], line["unit"]): line["cost_usd"]
        for line in row["pricing"]
        if line.get("variant", body.get("resolution")) == body.get("resolution")
    }
    return {
        "prompt_tokens": text_tokens + references * TOKENS_PER_REFERENCE,
        "completion_tokens": tokens,
        "total_tokens": text_tokens + references * TOKENS_PER_REFERENCE + tokens,
        "cost": sum(amounts[key] * cost for key, cost in lines.items()),
        "is_byok": False,
    }


# --- the way of a request


MAKERS: dict[str, Callable[[Json, Plan], Made]] = {
    "/audio/speech": speak,
    "/audio/transcriptions": transcribe,
    "/images": picture,
}


def create(service: Service, _request: Request, record: RecordedRequest) -> Response:
    """Answer a request to one of the makers, as its prompt or the queue orders.

    Raises:
        RefusalError: The service would refuse it.
    """
    body = record.body if isinstance(record.body, dict) else {}
    said, plan = body.get("prompt") or body.get("input"), Plan()
    text = said if isinstance(said, str) else ""
    draft = Draft(ParsedRequest({"input": text}, catalogue.BY_ID[catalogue.DEFAULT_MODEL]), plan)
    draft.obey(read_directives(service.queued() + text))
    if plan.refusal:
        raise plan.refusal
    return CreatedResponse(service, record, MAKERS[record.path](body, plan), plan)


class CreatedResponse(StreamingResponse):
    """Sends the pieces with the plan's pauses; what was begun is billed whole."""

    def __init__(self, service: Service, record: RecordedRequest, made: Made, plan: Plan) -> None:
        self._service, self._record, self._made, self._plan = service, record, made, plan
        self.generation = f"gen-{int(service.now())}-{len(service.requests):020}"
        headers = {"X-Generation-Id": self.generation}
        super().__init__(self._pieces(), headers=headers, media_type=made.media_type)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer, or stop as soon as the client is gone."""
        record = self._record
        try:
            await super().__call__(scope, receive, send)
        finally:
            record.disconnected, record.ended_at = not record.finished, self._service.now()
            if not self._plan.silent:
                self._service.charge(record, self.generation, self._made.used)

    async def stream_response(self, send: Send) -> None:
        """Send head and body."""
        if self._plan.silent:
            await asyncio.Event().wait()
        await asyncio.sleep(self._plan.first_delay_seconds)
        self._record.status = self.status_code
        await super().stream_response(send)
        self._record.finished = True

    async def _pieces(self) -> AsyncIterator[bytes]:
        for piece in self._made.pieces:
            yield piece
            await asyncio.sleep(self._plan.delay_seconds)


def _checked(schema: Any, body: Json, models: dict[str, Json]) -> Json:
    """The model of a body that fits its schema.

    Raises:
        RefusalError: The service would refuse it.
    """
    unknown = [issue((name,), "Unrecognized key") for name in body if name not in _fields(schema)]
    if issues := against(schema, body, ()) or unknown:
        raise invalid_request(issues)
    row = models.get(body["model"])
    if row is None:
        raise router_error(404, f"No endpoints found for {body['model']}.")
    return row


def _fields(schema: Any) -> set[str]:
    return {each.alias or name for name, each in schema.model_fields.items()}


def _unfit(row: Json, said: str) -> Exception:
    maker = row["id"].partition("/")[0]
    return vendor_error(maker, row.get("provider", maker), said)


def _used(cost: float, input_tokens: int = 0, output_tokens: int = 0) -> Json:
    """What was used, in the form of a bill of /responses."""
    return {
        "cost": cost,
        "is_byok": False,
        "cost_details": {"upstream_inference_cost": None},
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
