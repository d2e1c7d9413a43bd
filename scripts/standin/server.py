"""The stand-in's HTTP surface.

Owns routing, authorization and the way of a request through the other modules: it is recorded, accepted,
planned, answered and sent. All state lives in one ``Service`` that the app carries.

    GET  /api/v1/models, /models/user, /models/count, /model/{author}/{slug}
    GET  /api/v1/models/{author}/{slug}/endpoints
    GET  /api/v1/key, /credits, /generation?id=, /endpoints/zdr
    POST /api/v1/responses
    GET  /_standin/requests      the log, as a list of JSON objects
    POST /_standin/reset         forget log, queue, prompt cache, generations; the clock runs true again
    POST /_standin/script        [{"do": "error=429 retry_after=1", "times": 2, "path": "/responses"}, ...]
    POST /_standin/clock         {"advance": seconds}
    POST /_standin/summarizer    {"kind": "drop"}
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from . import billing, catalogue, directives, state
from .errors import Refusal, RefusalError, bad_prompt, documented, router_error
from .output import answer
from .plan import Break
from .planner import ReplyOptions, plan_answer, summarizer
from .sending import StreamedResponse, WholeResponse
from .state import Options, Queued, RecordedRequest, Service
from .tokens import local_tokenizer
from .validate import accept

if TYPE_CHECKING:
    from starlette.requests import Request

    from .catalogue import Model
    from .plan import Plan

API = "/api/v1"
GOOD_KEY = "sk-or-"
BAD_KEY = "sk-or-bad"
POOR_KEY = "sk-or-poor"
EXHAUSTED_KEY = "sk-or-exhausted"
"""Of an account that has credits, but nothing is left of the key's own limit."""
MANAGEMENT_KEY = "sk-or-mgmt"
MAX_LISTED = 1000
MAX_BODY_BYTES = 64 * 1024 * 1024

Reply = Callable[[Service, "Request", RecordedRequest], Awaitable[Response]]


def create_app(options: Options | None = None) -> Starlette:
    """The stand-in as an ASGI application; its ``state.service`` holds log, queue and clock."""
    chosen = options or Options()
    service = Service(chosen, chosen.tokenizer or local_tokenizer())
    routes = [
        *(Route(API + path, _endpoint(service, reply), methods=["GET"]) for path, reply in GETS.items()),
        Route(API + "/responses", _endpoint(service, _responses), methods=["POST"]),
        *(
            Route("/_standin" + path, _control(service, act), methods=[method])
            for path, method, act in CONTROLS
        ),
        Route("/{path:path}", _endpoint(service, _missing), methods=["GET", "POST", "PUT", "DELETE"]),
    ]
    app = Starlette(routes=routes)
    app.state.service = service
    return app


def _endpoint(service: Service, reply: Reply) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        record = await _recorded(service, request)
        service.requests.append(record)
        try:
            response = await reply(service, request, record)
        except RefusalError as error:
            response = _refused(error.refusal, record)
        except directives.DirectiveError as error:
            response = _refused(bad_prompt(f"stand-in directive: {error}"), record)
        record.status = response.status_code
        if not isinstance(response, StreamedResponse | WholeResponse):
            record.finished, record.ended_at = True, service.now()
        return response

    return endpoint


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
        headers=state.public_headers(headers),
        account=state.account_of(_bearer(headers)),
        raw=raw,
        body=body,
        received_at=service.now(),
        connection="{}:{}".format(*request.client) if request.client else "",
    )


def _refused(refusal: Refusal, record: RecordedRequest) -> Response:
    record.error = refusal.message
    return Response(
        refusal.body(), refusal.status, headers=refusal.headers, media_type=refusal.content_type()
    )


def _bearer(headers: Any) -> str:
    scheme, _, key = headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else ""


def _authorize(request: Request) -> str:
    if "authorization" not in request.headers:
        raise RefusalError(router_error(401, "Missing Authentication header"))
    key = _bearer(request.headers)
    if not key.startswith(GOOD_KEY) or key.startswith(BAD_KEY):
        raise RefusalError(router_error(401, "User not found."))
    return key


def _scripted(service: Service, path: str) -> None:
    queued = service.queued(path)
    if queued:
        plan = plan_answer({"input": "x"}, catalogue.BY_ID["standin/script"], ReplyOptions(queued))
        if plan.refusal:
            raise RefusalError(plan.refusal)


# --- the catalogue and the account ---


async def _models(service: Service, request: Request, _record: RecordedRequest) -> Response:
    _scripted(service, "/models")
    query = request.query_params
    page = (query.get("offset", "0"), query.get("limit", str(MAX_LISTED)))
    if not all(text.isdecimal() for text in page):
        raise RefusalError(router_error(400, "offset and limit must be whole numbers"))
    offset, limit = (int(text) for text in page)
    required = tuple(name for name in query.get("supported_parameters", "").split(",") if name)
    outputs = tuple(query.get("output_modalities", "text").split(","))
    return JSONResponse(catalogue.listing(offset, min(limit, MAX_LISTED), required, outputs))


async def _models_user(service: Service, request: Request, record: RecordedRequest) -> Response:
    _authorize(request)
    return await _models(service, request, record)


async def _models_count(_service: Service, _request: Request, _record: RecordedRequest) -> Response:
    return JSONResponse({"data": {"count": len(catalogue.MODELS)}})


async def _model(_service: Service, request: Request, _record: RecordedRequest) -> Response:
    return JSONResponse({"data": _named_model(request).wire()})


async def _model_endpoints(_service: Service, request: Request, _record: RecordedRequest) -> Response:
    return JSONResponse(_named_model(request).endpoints())


def _named_model(request: Request) -> Model:
    model = catalogue.find(f"{request.path_params['author']}/{request.path_params['slug']}")
    if model is None:
        raise RefusalError(router_error(404, "Model not found"))
    return model


async def _zdr(service: Service, _request: Request, _record: RecordedRequest) -> Response:
    _scripted(service, "/endpoints/zdr")
    private = [model.endpoint() for model in catalogue.MODELS if model.family in {"anthropic", "google"}]
    return JSONResponse({"data": private})


async def _key(service: Service, request: Request, record: RecordedRequest) -> Response:
    key = _authorize(request)
    _scripted(service, "/key")
    usage_dollars = sum(
        (other.usage or {}).get("cost", 0) for other in service.requests if other.account == record.account
    )
    answer = billing.key_answer(key[-4:], usage_dollars, management=key.startswith(MANAGEMENT_KEY))
    if key.startswith(POOR_KEY):
        answer["data"] |= {"limit": None, "limit_remaining": None, "limit_reset": None, "is_free_tier": True}
    if key.startswith(EXHAUSTED_KEY):
        answer["data"] |= {"usage": billing.KEY_LIMIT_DOLLARS, "limit_remaining": 0.0}
    return JSONResponse(answer)


async def _credits(service: Service, request: Request, _record: RecordedRequest) -> Response:
    if not _authorize(request).startswith(MANAGEMENT_KEY):
        raise RefusalError(router_error(403, "Only management keys can perform this operation"))
    usage_dollars = sum((other.usage or {}).get("cost", 0) for other in service.requests)
    return JSONResponse({"data": {"total_credits": 100.0, "total_usage": float(usage_dollars)}})


async def _generation(service: Service, request: Request, _record: RecordedRequest) -> Response:
    _authorize(request)
    name = request.query_params.get("id", "")
    if name not in service.generations:
        raise RefusalError(router_error(404, f"Generation {name} not found"))
    return JSONResponse({"data": service.generations[name]})


async def _missing(_service: Service, _request: Request, _record: RecordedRequest) -> Response:
    raise RefusalError(router_error(404, "Not Found"))


GETS: dict[str, Reply] = {
    "/models": _models,
    "/models/user": _models_user,
    "/models/count": _models_count,
    "/models/{author}/{slug}/endpoints": _model_endpoints,
    "/model/{author}/{slug}": _model,
    "/endpoints/zdr": _zdr,
    "/key": _key,
    "/credits": _credits,
    "/generation": _generation,
}

# --- responses ---


async def _responses(service: Service, request: Request, record: RecordedRequest) -> Response:
    key = _authorize(request)
    if key.startswith((POOR_KEY, EXHAUSTED_KEY)):
        raise RefusalError(documented(402))
    if len(record.raw) > MAX_BODY_BYTES:
        raise RefusalError(documented(413))
    accepted = accept(service, record)
    plan = plan_answer(accepted.body, accepted.model, _reply_options(service))
    if plan.refusal and plan.refusal.family != "C":
        raise RefusalError(plan.refusal)
    streamed = bool(accepted.body.get("stream"))
    if plan.delivery.silence == "whole" or (plan.delivery.silence != "no" and not streamed):
        return WholeResponse(None, record, service.now, None)
    response = answer(service, record, accepted, _as_failed_response(plan))
    record.response_id = response.id
    if streamed:
        return StreamedResponse(response, record, service.now, {"X-Generation-Id": response.id})
    return WholeResponse(response, record, service.now, plan.delivery.first_delay_seconds)


def _reply_options(service: Service) -> ReplyOptions:
    pace_seconds = service.options.pace_seconds
    return ReplyOptions(service.queued("/responses"), service.summarizer, pace_seconds, service.tokenizer)


def _as_failed_response(plan: Plan) -> Plan:
    """An error of family C as what it is: a failed response with status 200."""
    if plan.refusal is None:
        return plan
    cut = Break("failed", 0, "server_error", plan.refusal.message, plan.refusal.error_type or "unmapped")
    return replace(plan, refusal=None, cut=cut)


# --- the stand-in's own controls ---


def _control(
    service: Service, act: Callable[[Service, Any], Any]
) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        raw = await request.body()
        try:
            return JSONResponse(act(service, json.loads(raw) if raw else None))
        except directives.DirectiveError as error:
            return JSONResponse({"error": str(error)}, 400)

    return endpoint


def _show_requests(service: Service, _body: Any) -> list[dict[str, Any]]:
    return [record.wire() for record in service.requests]


def _reset(service: Service, _body: Any) -> dict[str, bool]:
    service.reset()
    return {"ok": True}


def script(service: Service, entries: list[dict[str, Any]]) -> dict[str, int]:
    """Queue behaviours for the next requests.

    Args:
        service: Whose requests.
        entries: Each with ``do`` (directives, with or without brackets), ``times`` (1) and ``path``
            ("/responses").
    """
    queued = [
        Queued(entry["do"], int(entry.get("times", 1)), entry.get("path", "/responses")) for entry in entries
    ]
    service.queue.extend(queued)
    return {"queued": len(service.queue)}


def _advance(service: Service, body: dict[str, float]) -> dict[str, float]:
    service.advanced_seconds += body["advance"]
    return {"now": service.now()}


def summarize(service: Service, body: dict[str, str]) -> dict[str, str]:
    """Choose how requests for summaries are answered from now on.

    Raises:
        DirectiveError: There is no such kind.
    """
    summarizer(body["kind"])
    service.summarizer = body["kind"]
    return {"kind": service.summarizer}


CONTROLS: tuple[tuple[str, str, Callable[[Service, Any], Any]], ...] = (
    ("/requests", "GET", _show_requests),
    ("/reset", "POST", _reset),
    ("/script", "POST", script),
    ("/clock", "POST", _advance),
    ("/summarizer", "POST", summarize),
)
