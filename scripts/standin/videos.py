"""Videos: the models of /videos/models, and jobs that go on from one question about them to the next.

The forms are those of the official SDK. A prompt may say in a directive how its job goes, such as
``[[video: polls=2 end=failed cost=0.1 content=404 error=words_of_it]]``: how often it is asked for until its end, what
that is, what it is billed (nothing is said of that for ``none``), and with which status its content is refused;
``refused=400`` refuses the job itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openrouter.components.videogenerationrequest import VideoGenerationRequest
from openrouter.components.videogenerationresponse import VideoGenerationResponse
from openrouter.components.videomodel import VideoModel

from .errors import router_error
from .sdk_schema import against

if TYPE_CHECKING:
    from .state import RecordedRequest, Service

FILM = Path(__file__).with_name("film.webm").read_bytes()
"""Two seconds of a square that moves."""
DIRECTIVE = re.compile(r"\[\[video: ([^\]]*)\]\]")
USUAL: dict[str, Any] = {
    "allowed_passthrough_parameters": [],
    "canonical_slug": "standin/film-20260709",
    "created": 1780000000,
    "creativity": None,
    "description": "A film, as the stand-in plays it.",
    "generate_audio": True,
    "id": "standin/film",
    "name": "Stand-in: film",
    "pricing_skus": {"per-video-second": "0.1", "per-video-second-1080p": "0.15"},
    "seed": None,
    "supported_aspect_ratios": ["16:9", "9:16"],
    "supported_durations": [4, 6, 8],
    "supported_frame_images": ["first_frame", "last_frame"],
    "supported_resolutions": ["720p", "1080p"],
    "supported_sizes": None,
    "upscale_factor": None,
}
UNKNOWN = dict.fromkeys(
    ("generate_audio", "pricing_skus", "supported_aspect_ratios", "supported_durations",
     "supported_frame_images", "supported_resolutions")
)  # fmt: skip
MODELS = (USUAL, {**USUAL, **UNKNOWN, "id": "standin/sketch", "name": "Stand-in: sketch"})
"""One of which all is known, and one of which only its name is."""
BY_ID = {row["id"]: row for row in MODELS}
CHECKED = {
    "duration": "supported_durations",
    "resolution": "supported_resolutions",
    "aspect_ratio": "supported_aspect_ratios",
}


@dataclass(slots=True)
class VideoJob:
    """A job of an account, with what its directive says, and how often it was asked for."""

    id: str
    account: str
    request: RecordedRequest
    orders: dict[str, str]
    base_url: str
    polls: int = 0
    told: dict[str, Any] = field(default_factory=dict)

    def wire(self) -> dict[str, Any]:
        """The job as it is told now."""
        polls, end = int(self.orders.get("polls", 3)), self.orders.get("end", "completed")
        is_over = self.polls >= polls
        state = end if is_over else "in_progress" if self.polls else "pending"
        told: dict[str, Any] = {"id": self.id, "polling_url": f"/api/v1/videos/{self.id}", "status": state}
        if is_over:
            told["generation_id"] = self.id
            cost = self.orders.get("cost", str(_cost(self.request.body)) if end == "completed" else "none")
            told |= {} if cost == "none" else {"usage": {"cost": float(cost), "is_byok": False}}
            told |= {"error": self.orders["error"].replace("_", " ")} if "error" in self.orders else {}
        if is_over and end == "completed":
            told |= (
                {}
                if "unsigned" in self.orders
                else {"unsigned_urls": [f"{self.base_url}/videos/{self.id}/content?index=0"]}
            )
            told |= {"urls": [self.orders["url"]]} if "url" in self.orders else {}
        _must_be(VideoGenerationResponse, told)
        return told


def _cost(body: dict[str, Any]) -> float:
    skus = BY_ID[body["model"]]["pricing_skus"] or {"per-video-second": "0.2"}
    price = skus.get(f"per-video-second-{body.get('resolution')}", skus["per-video-second"])
    return float(round(float(price) * body.get("duration", 5), 6))


def _must_be(kind: Any, value: dict[str, Any]) -> None:
    if issues := against(kind, value, ()):
        raise router_error(400, "Invalid request", raw=str(issues))


def listing() -> dict[str, Any]:
    """The answer of /videos/models."""
    for row in MODELS:
        _must_be(VideoModel, row)
    return {"data": [*MODELS]}


def begin(service: Service, record: RecordedRequest, base_url: str) -> VideoJob:
    """Begin the job of a request. Raises RefusalError for what the model does not offer."""
    body: dict[str, Any] = record.body or {}
    _must_be(VideoGenerationRequest, body)
    if (model := BY_ID.get(body["model"])) is None:
        raise router_error(404, f"Model {body['model']} does not exist")
    for name, offered in CHECKED.items():
        if model[offered] and name in body and body[name] not in model[offered]:
            raise router_error(400, f"{name} must be one of {model[offered]}")
    frames = {each["frame_type"] for each in body.get("frame_images", ())}
    if not frames <= {*(model["supported_frame_images"] or ())}:
        raise router_error(400, "These frame images are not supported")
    if not (body.get("prompt") or frames or body.get("input_references")):
        raise router_error(400, "A prompt is required")
    found = DIRECTIVE.search(body.get("prompt", ""))
    orders = dict(each.split("=", 1) for each in found[1].split()) if found else {}
    if "refused" in orders:
        raise router_error(int(orders["refused"]), "No such film")
    job_id = f"gen-vid-{int(service.now())}-{len(service.videos):020}"
    service.videos[job_id] = VideoJob(job_id, record.account, record, orders, base_url)
    return service.videos[job_id]
