"""The request of a video, what it costs, and its job.

Source of the forms: `GET /videos/models`, `POST /videos` and `GET /videos/{id}` of OpenRouter's API.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..responses.effects import Usage
from ..responses.values import as_count, as_list, as_number, as_object, as_text, is_web_address
from ..words.lines import notice
from .message import Wanted, references, told_usage

PATH: Final = "/videos"
USUAL_SECONDS: Final = 5
USUAL_LINES: Final = 720
"""The length and height that are nearest to what is taken where the user has chosen none."""
_LINES: Final = {"1k": 1024, "2k": 1440, "4k": 2160}
_ENDED: Final = {"completed": "done", "failed": "failed", "cancelled": "cancelled", "expired": "expired"}
"""OpenRouter's names of the ends of a job, and ours in the names of their lines."""


@dataclass(frozen=True, slots=True)
class VideoRequest:
    """The body, what it costs in dollars by the list (None where that is not said), and lines about what is not as set.

    `size` is its length and resolution, as people read them.
    """

    body: Mapping[str, Any]
    cost: float | None
    size: tuple[str, ...]
    lines: tuple[str, ...]


def video_request(
    model_id: str, row: Mapping[str, Any], wanted: Wanted, wishes: Mapping[str, Any]
) -> VideoRequest:
    """Return the request of a video by a model with this row of the catalogue, by the user's valves."""
    lines: list[str] = []

    def nearest(key: str, valve: str, size: Callable[[Any], float], usual: float = 0) -> Any:
        """What the model offers that is nearest to the wish, or to what is usual; the wish where it names nothing."""
        offered, wish = [each for each in as_list(row.get(key)) if size(each)], wishes.get(valve)
        if not offered or wish in offered or not (wish or usual):
            return wish
        aim = size(wish) if wish else usual
        used = min(offered, key=lambda each: (abs(size(each) - aim), size(each)))
        if wish:
            lines.append(notice("setting_replaced", name=valve.upper(), asked=str(wish), used=str(used)))
        return used

    seconds = nearest("supported_durations", "video_seconds", _count, USUAL_SECONDS)
    resolution = nearest("supported_resolutions", "video_resolution", _height, USUAL_LINES)
    shape = nearest("supported_aspect_ratios", "video_aspect_ratio", _ratio)
    sound, wished = row.get("generate_audio"), wishes.get("video_sound")
    has_sound = sound is True and wished != "off"
    if sound is False and wished == "on":
        lines.append(notice("setting_replaced", name="VIDEO_SOUND", asked="on", used="off"))
    body = {
        "model": model_id,
        "prompt": wanted.text,
        "duration": seconds,
        "resolution": resolution,
        "aspect_ratio": shape,
        "generate_audio": has_sound if isinstance(sound, bool) else None,
        **_pictures(wanted.pictures, {*map(as_text, as_list(row.get("supported_frame_images")))}),
    }
    cost = video_cost(as_object(row.get("pricing_skus")), seconds, as_text(resolution), has_sound=has_sound)
    size = (f"{seconds} s" if seconds else "", resolution or "")
    sent = {name: value for name, value in body.items() if value not in (None, "", [])}
    return VideoRequest(sent, cost, tuple(filter(None, size)), tuple(lines))


def _count(value: object) -> int:
    return as_count(value) or 0


def _pictures(pictures: Sequence[str], frames: set[str]) -> Mapping[str, Any]:
    """One picture is the first frame, a second one the last, where the model takes such; all else are references."""
    parts = references(pictures)
    kinds = ["first_frame", "last_frame"][: len(parts)]
    if len(parts) in {1, 2} and frames.issuperset(kinds):
        framed = zip(parts, kinds, strict=True)
        return {"frame_images": [{**part, "frame_type": kind} for part, kind in framed]}
    return {"input_references": parts}


def _height(resolution: object) -> float:
    """The lines of a resolution such as "1080p" or "4K", 0 for none."""
    name = as_text(resolution).lower()
    return _LINES.get(name) or (float(name[:-1]) if re.fullmatch(r"\d{2,5}p", name) else 0.0)


def _ratio(shape: object) -> float:
    """The width of a shape such as "16:9" in heights, 0 for none."""
    found = re.fullmatch(r"(\d{1,4}):([1-9]\d{0,3})", as_text(shape))
    return int(found[1]) / int(found[2]) if found else 0.0


def video_cost(
    skus: Mapping[str, Any], seconds: float | None, resolution: str, *, has_sound: bool
) -> float | None:
    """Return what a video costs in dollars by the prices of a second, None where none fits.

    Of the prices the one counts that names most of the video, and of several the dearest: `per-video-second` is that
    of any second, `per-video-second-1080p` of one in that resolution.
    """
    found = list[tuple[int, float]]()
    for name, value in skus.items():
        words, price = {*re.split(r"[-_]", name.lower())}, as_number(value)
        sizes = {word for word in words if _height(word)}
        of_sound = "audio" in words
        fits = (not sizes or resolution.lower() in sizes) and (
            not of_sound or has_sound is words.isdisjoint({"without", "no"})
        )
        if price is not None and price >= 0 and fits and words & {"second", "seconds"}:
            found.append((bool(sizes) + of_sound, price))
    return max(found)[1] * seconds if found and seconds else None


@dataclass(frozen=True, slots=True)
class Job:
    """A job as OpenRouter has it; `state` is its name of it, `end` ours, "" while it goes on.

    `addresses` are signed, so that they need no key, and `outputs` how many videos there are. `usage` is what was
    billed, None where that is not said.
    """

    id: str
    state: str
    end: str
    generation: str = ""
    addresses: tuple[str, ...] = ()
    outputs: int = 1
    error: str = ""
    usage: Usage | None = None


def read_job(wire: Mapping[str, Any]) -> Job:
    """Read an answer about a job; without an id there is none."""
    state, usage = as_text(wire.get("status")), as_object(wire.get("usage"))
    addresses = tuple(filter(is_web_address, as_list(wire.get("urls"))))
    return Job(
        as_text(wire.get("id")),
        state,
        _ENDED.get(state, ""),
        as_text(wire.get("generation_id")),
        addresses,
        max(1, len(addresses), len(as_list(wire.get("unsigned_urls")))),
        as_text(wire.get("error")) or as_text(as_object(wire.get("error")).get("message")),
        told_usage(usage),
    )


def stored_job(job_id: str, bill_id: str, cost: float, began_seconds: int) -> dict[str, Any]:
    """Return what is kept of a job until its video was shown."""
    kept = {"job": job_id, "bill": bill_id, "cost": cost, "began": began_seconds}
    return {"type": "openrouter_pipe.video_job", **kept}


def read_stored_job(item: Mapping[str, Any]) -> tuple[str, str, float, int]:
    """Read it back."""
    return (
        as_text(item.get("job")),
        as_text(item.get("bill")),
        as_number(item.get("cost")) or 0.0,
        as_count(item.get("began")) or 0,
    )


def said_state(job: Job, seconds: float) -> str:
    """Return the line about a job that goes on for so many seconds."""
    name = "video_waits" if job.state == "pending" else "video_runs"
    return notice(name, minutes=int(seconds) // 60, seconds=f"{int(seconds) % 60:02}")
