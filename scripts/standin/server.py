"""The stand-in's HTTP surface.

Owns routing, authorization and the way of a request through the other modules: it is recorded, accepted,
planned, answered and sent; and uvicorn, which serves it on a loopback port. All state lives in ``Service``.

    GET  /api/v1/models, /models/user, /endpoints/zdr, /key, /generation
    POST /api/v1/responses
    GET  /api/v1/videos/models; POST /api/v1/videos, then GET /videos/{id}, /videos/{id}/content
    GET  /api/v1/images/models, /images/models/{author}/{slug}/endpoints
    POST /api/v1/audio/speech, /audio/transcriptions, /images
    GET  /bills: all that was charged, for whoever audits a client
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from . import catalogue, endpoints, videos
from .errors import RefusalError, bad_prompt, documented, router_error
from .output import answer
from .plan import DirectiveError, bracketed
from .planner import plan_answer
from .sending import DeliveredResponse
from .state import SECRET_HEADERS, RecordedRequest, Service, account_of
from .validate import accept

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp

API = "/api/v1"
GOOD_KEY = "sk-or-"
BAD_KEY = "sk-or-bad"
POOR_KEY = "sk-or-poor"
EXHAUSTED_KEY = "sk-or-exhausted"
"""Of an account that has credits, but nothing is left of the key's own limit."""
KEY: dict[str, Any] = catalogue.DATA["key"]
"""What /key says of any key; the limit in dollars."""
OURS = frozenset({"account", "user", "began_at", "told_at", "is_named"})
"""What of a bill the documented service does not tell."""
MAX_LISTED = 1000
MAX_BODY_BYTES = 64 * 1024 * 1024

Reply = Callable[[Service, "Request", RecordedRequest], Response]


def create_app(service: Service) -> Starlette:
    """The stand-in as an ASGI application."""

    async def endpoint(request: Request) -> Response:
        record = await _recorded(service, request)
        service.record(record)
        try:
            reply = _video if _is_of_video(record) else _missing
            response = REPLIES.get((record.method, request.url.path), reply)(service, request, record)
        except RefusalError as refusal:
            response = _refused(refusal, record)
        except DirectiveError as error:
            response = _refused(bad_prompt(f"stand-in directive: {error}"), record)
        if not isinstance(response, StreamingResponse):
            record.status, record.finished, record.ended_at = response.status_code, True, service.now()
        return response

    return Starlette(routes=[Route("/{path:path}", endpoint, methods=["GET", "POST", "PUT", "DELETE"])])


async def _recorded(service: Service, request: Request) -> RecordedRequest:
    raw = await request.body()
    headers = {name.lower(): value for name, value in request.headers.items()}
    try:
        body = json.loads(raw) if raw else None
    except ValueError:
        body = None
    return RecordedRequest(
        method=request.method,
        path=request.url.path.removeprefix(API),
        query=request.url.query,
        headers={name: "" if name in SECRET_HEADERS else value for name, value in headers.items()},
        account=account_of(_bearer(headers)),
        raw=raw,
        body=body,
        received_at=service.now(),
    )


def _refused(refusal: RefusalError, record: RecordedRequest) -> Response:
    record.error = refusal.said or refusal.message
    kind = "text/html; charset=UTF-8" if refusal.family == "html" else "application/json"
    return Response(refusal.body(), refusal.status, refusal.headers, media_type=kind)


def _bearer(headers: Any) -> str:
    scheme, _, key = headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else ""


def _authorize(request: Request) -> str:
    if "authorization" not in request.headers:
        raise router_error(401, "Missing Authentication header")
    key = _bearer(request.headers)
    if not key.startswith(GOOD_KEY) or key.startswith(BAD_KEY):
        raise router_error(401, "User not found.")
    return key


# --- the catalogue and the account ---


def _models(_service: Service, request: Request, _record: RecordedRequest) -> Response:
    query = request.query_params
    page = (query.get("offset", "0"), query.get("limit", str(MAX_LISTED)))
    if not all(text.isdecimal() for text in page):
        raise router_error(400, "offset and limit must be whole numbers")
    offset, limit = (int(text) for text in page)
    required = tuple(name for name in query.get("supported_parameters", "").split(",") if name)
    outputs = tuple(query.get("output_modalities", "text").split(","))
    others = () if required else endpoints.rows(outputs)
    return JSONResponse(catalogue.listing(offset, min(limit, MAX_LISTED), required, outputs, others))


def _own_models(service: Service, request: Request, record: RecordedRequest) -> Response:
    """What the account's settings leave of the list; these exclude nothing."""
    _authorize(request)
    return _models(service, request, record)


def _zdr(_service: Service, _request: Request, _record: RecordedRequest) -> Response:
    private = [model.endpoint() for model in catalogue.MODELS if model.family in catalogue.ZDR_FAMILIES]
    return JSONResponse({"data": private})


def _key(service: Service, request: Request, record: RecordedRequest) -> Response:
    """What a key may spend and has spent, in dollars."""
    key = _authorize(request)
    usage = sum(
        (other.billed or {}).get("cost", 0.0) for other in service.requests if other.account == record.account
    )
    periods = ("", "_daily", "_weekly", "_monthly")
    data = {
        **KEY,
        "label": f"sk-or-v1-...{key[-4:]}",
        "limit_remaining": KEY["limit"] - usage,
        **{f"usage{period}": usage for period in periods},
        **{f"byok_usage{period}": 0.0 for period in periods},
    }
    if key.startswith(POOR_KEY):
        data |= {"limit": None, "limit_remaining": None, "limit_reset": None, "is_free_tier": True}
    if key.startswith(EXHAUSTED_KEY):
        data |= {"usage": KEY["limit"], "limit_remaining": 0.0}
    return JSONResponse({"data": data})


def _generation(service: Service, request: Request, record: RecordedRequest) -> Response:
    """What a generation of the account was billed; like OpenRouter, not as soon as it has ended."""
    _authorize(request)
    bill = service.bills.get(request.query_params.get("id", ""))
    if bill is None or bill["account"] != record.account or bill["told_at"] > service.now():
        raise router_error(404, f"Generation {request.query_params.get('id')} not found")
    return JSONResponse({"data": {name: bill[name] for name in bill if name not in OURS}})


def _bills(service: Service, _request: Request, _record: RecordedRequest) -> Response:
    return JSONResponse([*service.bills.values()])


# --- responses ---


def _responses(service: Service, request: Request, record: RecordedRequest) -> Response:
    key = _authorize(request)
    if key.startswith((POOR_KEY, EXHAUSTED_KEY)):
        raise documented(402)
    if len(record.raw) > MAX_BODY_BYTES:
        raise documented(413)
    accepted = accept(service, record, key)
    queued = bracketed(service.orders(accepted.body)) if service.orders else service.queued()
    plan = plan_answer(
        accepted.body,
        accepted.model,
        queued,
        summarizer=service.summarizer,
        pace_seconds=service.pace_seconds,
        tokenizer=service.tokenizer,
    )
    if plan.refusal:
        raise plan.refusal
    response = answer(service, record, accepted, plan)
    return DeliveredResponse(response, record, service.now, partial(service.charge, record, response.id))


def _created(service: Service, request: Request, record: RecordedRequest) -> Response:
    """What one of the other endpoints makes."""
    if _authorize(request).startswith((POOR_KEY, EXHAUSTED_KEY)):
        raise documented(402)
    return endpoints.create(service, request, record)


# --- videos ---


def _is_of_video(record: RecordedRequest) -> bool:
    return record.method == "GET" and record.path.startswith("/videos/")


def _video_models(_service: Service, _request: Request, _record: RecordedRequest) -> Response:
    return JSONResponse(videos.listing())


def _begin_video(service: Service, request: Request, record: RecordedRequest) -> Response:
    _authorize(request)
    job = videos.begin(service, record, str(request.base_url).rstrip("/") + API)
    return JSONResponse(job.wire(), 202, {"x-generation-id": job.id})


def _video(service: Service, request: Request, record: RecordedRequest) -> Response:
    """What is told of a job, which goes on with each question, or its content."""
    _authorize(request)
    job_id, _, rest = record.path.removeprefix("/videos/").partition("/")
    job = service.videos.get(job_id)
    if job is None or job.account != record.account:
        raise router_error(404, "Video job not found")
    if rest == "content":
        status = int(job.orders.get("content", 200))
        if status != 200 or job.wire()["status"] != "completed":
            raise router_error(status if status != 200 else 404, "Video content not available")
        return Response(videos.FILM, media_type="video/webm")
    job.polls += 1
    told = job.wire()
    if usage := told.get("usage"):
        job.request.billed = usage
    return JSONResponse(told)


def _missing(_service: Service, _request: Request, _record: RecordedRequest) -> Response:
    raise router_error(404, "Not Found")


REPLIES: dict[tuple[str, str], Reply] = {
    ("GET", f"{API}/models"): _models,
    ("GET", f"{API}/models/user"): _own_models,
    ("GET", f"{API}/endpoints/zdr"): _zdr,
    ("GET", f"{API}/key"): _key,
    ("GET", f"{API}/generation"): _generation,
    ("GET", "/bills"): _bills,
    ("POST", f"{API}/responses"): _responses,
    ("GET", f"{API}/videos/models"): _video_models,
    ("GET", f"{API}/images/models"): endpoints.image_models,
    **{
        ("GET", f"{API}/images/models/{name}/endpoints"): endpoints.image_endpoints
        for name in endpoints.DRAWING
    },
    **{("POST", f"{API}{path}"): _created for path in endpoints.MAKERS},
    ("POST", f"{API}/videos"): _begin_video,
}

# --- a server in a thread of its own, for tests and demonstrations ---

LOOPBACK = "127.0.0.1"
GRACE_SECONDS = 1
STOP_SECONDS = 5
KEEP_ALIVE_SECONDS = 300
"""Longer than any client keeps an idle connection: one that is closed while a request is on its way fails it."""


class LoopbackServer:
    """An ASGI application behind uvicorn, as a context manager; ``url`` is its address without a path."""

    def __init__(self, app: ASGIApp, port: int = 0) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind((LOOPBACK, port))
        self.url = f"http://{LOOPBACK}:{self._socket.getsockname()[1]}"
        settings = uvicorn.Config(
            app,
            log_level="warning",
            lifespan="off",
            timeout_graceful_shutdown=GRACE_SECONDS,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            ws="none",
        )
        self._server = uvicorn.Server(settings)
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), daemon=True)

    def __enter__(self) -> Self:
        self._socket.listen()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join(STOP_SECONDS)
        self._socket.close()


class StandIn(Service, LoopbackServer):
    """The stand-in as a context manager: ``with StandIn() as s: ... s.base_url``."""

    def __init__(self, *, port: int = 0, **options: Any) -> None:
        Service.__init__(self, **options)
        LoopbackServer.__init__(self, create_app(self), port)
        self.base_url = self.url + API
        """What takes the place of https://openrouter.ai/api/v1."""
