"""The request of pictures at the endpoint that only draws, what it costs, and what it answers.

Source of the forms: `POST /images`, `GET /images/models` and its `/{author}/{slug}/endpoints` of OpenRouter's API.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ..responses.values import as_list, as_number, as_object, as_text
from ..words.lines import notice
from .message import PieceRequest, references

PATH: Final = "/images"
LIST: Final = "/images/models"
_VALVES: Final = {
    "aspect_ratio": "image_aspect_ratio",
    "resolution": "image_size",
    "quality": "image_quality",
}
"""The fields that a user's valves set."""
_QUALITIES: Final = ("low", "medium", "high", "xhigh", "max")
_TOKENS: Final = {"low": 300, "high": 4200}
_USUAL_TOKENS: Final = 1300
"""Of a picture that is drawn, by its quality: OpenAI's list, and Google's for any."""
_REFERENCE_TOKENS: Final = 1000
_CHARACTERS_PER_TOKEN: Final = 4


def image_request(
    model_id: str,
    row: Mapping[str, Any],
    text: str,
    pictures: Sequence[str],
    wishes: Mapping[str, Any],
) -> PieceRequest:
    """Return the request of pictures by a model with this row of the catalogue, by the user's valves.

    Of the `pictures` (addresses or data URLs, oldest first) the last ones are references, as many as the model takes.
    """
    able, lines = as_object(row.get("supported_parameters")), list[str]()
    body: dict[str, Any] = {"model": model_id, "prompt": text}
    for name, valve in _VALVES.items():
        if wish := as_text(wishes.get(valve)):
            offered = [*map(as_text, as_list(as_object(able.get(name)).get("values")))]
            used = (
                wish if wish in offered else min(offered, key=lambda each: _distance(each, wish), default="")
            )
            body |= {name: used} if used else {}
            if used != wish:
                lines.append(notice("setting_replaced", name=valve.upper(), asked=wish, used=used or "auto"))
    wish = wishes.get("image_count", 1)
    count = min(wish, _most(able, "n", 1))
    body |= {"n": count} if count > 1 else {}
    if wish > count:
        lines.append(notice("setting_replaced", name="IMAGE_COUNT", asked=str(wish), used=str(count)))
    left = max(0, len(pictures) - _most(able, "input_references", 0))
    if given := pictures[left:]:
        body["input_references"] = references(given)
    if left:
        lines.append(notice("images_omitted", count=left))
    return PieceRequest(body, tuple(lines))


def _most(able: Mapping[str, Any], name: str, otherwise: int) -> int:
    most = as_number(as_object(able.get(name)).get("max"))
    return otherwise if most is None else int(most)


def _distance(value: str, wish: str) -> float:
    """How far a ratio, a resolution or a quality is from another one; what cannot be read is far."""
    one, other = _scale(value), _scale(wish)
    return abs(math.log(one / other)) if one and other else math.inf


def _scale(value: str) -> float:
    """A ratio, the side of a resolution in thousands of pixels, or a quality as a number; 0 where it is none."""
    if value in _QUALITIES:
        return 2.0 ** _QUALITIES.index(value)
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(?:(K)|:(\d+(?:\.\d+)?))?", value)
    if found is None:
        return 0.0
    return float(found[1]) / (1.0 if found[2] else float(found[3] or 1024) or 1.0)


def image_cost(endpoints: Iterable[Mapping[str, Any]], body: Mapping[str, Any]) -> float | None:
    """Return what a request costs in dollars at the dearest of its endpoints, None where none says that."""
    side = _scale(as_text(body.get("resolution"))) or 1.0
    count, references = body.get("n", 1), len(as_list(body.get("input_references")))
    tokens = _TOKENS.get(as_text(body.get("quality")), _USUAL_TOKENS)
    amounts = {
        ("output_image", "image"): count,
        ("output_image", "megapixel"): count * side * side,
        ("output_image", "token"): count * tokens,
        ("input_text", "token"): len(as_text(body.get("prompt"))) / _CHARACTERS_PER_TOKEN,
        **{(name, "image"): references for name in ("input_image", "input_reference")},
        **{(name, "token"): references * _REFERENCE_TOKENS for name in ("input_image", "input_reference")},
    }
    variants = {as_text(body.get(name)) for name in _VALVES} - {""}
    costs = list[float]()
    for endpoint in endpoints:
        prices = dict[tuple[str, str], float]()
        lines = [as_object(each) for each in as_list(endpoint.get("pricing"))]
        # what is for a variant comes behind what is for any
        for line in sorted(lines, key=lambda each: bool(each.get("variant"))):
            price, variant = as_number(line.get("cost_usd")), as_text(line.get("variant"))
            key = as_text(line.get("billable")), as_text(line.get("unit"))
            if price is not None and (not variant or variant in variants or key not in prices):
                prices[key] = price
        if any(billable == "output_image" for billable, _ in prices):
            costs.append(sum(price * amounts.get(key, 1) for key, price in prices.items()))
    return max(costs, default=None)


@dataclass(frozen=True, slots=True)
class Drawn:
    """What an event, or a whole answer, brings: pictures in base64, partial or whole; and what it costs, as a usage."""

    partial: str = ""
    pictures: tuple[str, ...] = ()
    usage: Mapping[str, Any] = field(default_factory=dict)
    failure: str = ""


def read_drawn(wire: Mapping[str, Any]) -> Drawn:
    """Read an event of a stream, or an answer that is whole because its provider streams nothing."""
    usage, encoded = as_object(wire.get("usage")), as_text(wire.get("b64_json"))
    if wire.get("type") == "image_generation.partial_image":
        return Drawn(partial=encoded)
    if error := as_object(wire.get("error")):
        return Drawn(failure=as_text(error.get("message")) or as_text(error.get("code")))
    whole = (as_text(as_object(each).get("b64_json")) for each in as_list(wire.get("data")))
    names = {"input_tokens": "prompt_tokens", "output_tokens": "completion_tokens"}
    counted = {**usage, **{name: usage.get(theirs) for name, theirs in names.items()}} if usage else {}
    return Drawn(pictures=tuple(filter(None, (encoded, *whole))), usage=counted)


def as_response(pictures: Iterable[str], new_id: Callable[[], str]) -> dict[str, Any]:
    """Return pictures in base64 as the object of a response that has drawn them."""
    kind = "image_generation_call"
    drawn = [
        {"type": kind, "id": f"ig_{new_id()}", "status": "completed", "result": each} for each in pictures
    ]
    return {"object": "response", "status": "completed", "output": drawn}
