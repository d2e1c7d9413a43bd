"""Failures become errors with one clear line, before, inside and instead of a stream: see `failures.txt`.

The cases are written by hand and judge the code's own table.
"""

from __future__ import annotations

import json
import re
import shlex
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from open_webui_openrouter_pipe import errors
from open_webui_openrouter_pipe.conversation.masking import Secret
from open_webui_openrouter_pipe.errors import PipeError
from open_webui_openrouter_pipe.openrouter.client import ClientSettings, OpenRouterClient
from open_webui_openrouter_pipe.openrouter.errors import redact, to_error
from open_webui_openrouter_pipe.openrouter.retries import RetryingResponses
from open_webui_openrouter_pipe.responses.effects import ResponseFailed, TextDelta
from open_webui_openrouter_pipe.responses.failure import Failure, read_failure
from open_webui_openrouter_pipe.responses.reducer import Reducer
from open_webui_openrouter_pipe.words.lines import for_admins
from scripts.standin.errors import KNOWN
from tests.support.rows import rows
from tests.support.wire import frames

TABLES: Final = Path(__file__).with_name("tables.txt")


@dataclass(frozen=True)
class Case:
    """A failure, and what is expected: the class, what a program reads of it, the lines, whether it is asked again."""

    failure: Failure
    kind: type[PipeError]
    particulars: tuple[str, ...]
    lines: tuple[str, ...]
    again: bool


def read_cases() -> list[Case]:
    """The cases of the file."""
    text = Path(__file__).with_name("failures.txt").read_text("utf-8")
    cases = []
    for block in re.findall(r"(?m)^[^#\s].*(?:\n .*)*", text):
        head, *lines = map(str.strip, block.split("\n"))
        facts, expected = head.split(" => ")
        status, words, *named = shlex.split(facts)
        values: dict[str, Any] = dict(fact.split("=", 1) for fact in named)
        if "reasons" in values:
            values["reasons"] = tuple(values["reasons"].split(","))
        failure = Failure(words, status=None if status == "-" else int(status), **values)
        name, *particulars = expected.removesuffix(", again").split()
        again = expected.endswith(", again")
        cases.append(Case(failure, getattr(errors, name), tuple(particulars), tuple(lines), again))
    return cases


CASES: Final = read_cases()


def particulars_of(error: PipeError) -> tuple[str, ...]:
    """What a program can do about an error."""
    efforts = getattr(error, "supported_efforts", ())
    named = (getattr(error, "limit_tokens", None), getattr(error, "parameter", None))
    return (*efforts, *(str(value) for value in named if value))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.failure.status} {case.failure.message[:30]}")
def test_each_failure_has_its_error_and_lines(case: Case) -> None:
    """The class says what it is, the lines what happened and what to do; in the message and in the provider's error."""
    failures = [case.failure]
    if not (case.lines or case.failure.raw):
        failures.append(replace(case.failure, message="m", raw=case.failure.message))
    for error in map(to_error, failures):
        assert (type(error), particulars_of(error), error.passes) == (case.kind, case.particulars, case.again)
        assert not case.lines or (error.user_message, for_admins(error.user_message)) == (
            case.lines[0],
            case.lines[-1],
        )


@pytest.mark.parametrize("secret", rows(TABLES, "secrets"))
@pytest.mark.parametrize("field", ["message", "raw", "provider"])
def test_secrets_are_redacted(secret: str, field: str) -> None:
    """Neither the user's line nor the log's detail holds a key, a header, an address or an account."""
    texts: dict[str, Any] = {"message": "m", field: f"wrong {secret} here"}
    error = to_error(Failure(status=400, **texts))
    hidden = secret.rsplit(maxsplit=1)[-1].strip('"')
    assert (hidden in str(error), hidden in error.user_message) == (False, False)


@settings(deadline=None)
@given(st.text(max_size=3000), st.sampled_from([None, 400, 402, 403, 404, 429, 500]))
def test_lines_are_single_and_short(text: str, status: int | None) -> None:
    """Whatever the server says, the user reads one line of bearable length."""
    line = to_error(Failure(text, status=status, raw=text, provider=text, reasons=(text,))).user_message
    assert (len(line) <= 500, len(line.splitlines())) == (True, 1)


def test_redaction_keeps_the_rest_and_ends_with_a_whole_word() -> None:
    """What is not a secret stays readable, and the cut-off end of a text shows no part of one."""
    assert redact("key sk-or-v1-abcdef\n is bad") == "key [redacted] is bad"
    words = "a@b.example " * 332
    assert redact(f"{words}{'x' * 10} sk-or-v1-0123456789") == f"{'[redacted] ' * 332}{'x' * 10}"


@pytest.mark.parametrize("written", ["gw+key/1", "gw%2Bkey%2F1", 'a"gw\\', 'a\\"gw\\\\'])
def test_the_configured_key_is_redacted_whatever_it_looks_like(written: str) -> None:
    """The key of a gateway need not begin as OpenRouter's do, and URLs and JSON write it in their own way."""
    key = "gw+key/1" if "key" in written else 'a"gw\\'
    failure = Failure(f"<{written}>", status=400, raw=f"no {written}", provider=written, code=f"x {written}")
    error = to_error(failure, api_key=key)
    assert (written in str(error), written in error.user_message) == (False, False)
    assert "<[redacted]>" in error.detail


def test_control_characters_reach_neither_the_user_nor_the_log() -> None:
    """A terminal that shows the log is not steered by a provider's error."""
    error = to_error(Failure("a\x1b[2Jb\x00\x9bc\u202ed", status=400, code="x\x07y", provider="p\x1bq"))
    assert (error.user_message.isprintable(), error.detail) == (True, "400 | x y | a [2Jb c d")


def test_the_only_issue_of_a_validation_names_its_parameter() -> None:
    """Of several nobody knows which one is at fault."""
    issues = [{"code": "invalid_type", "path": ["text", "verbosity"], "message": "no"}]
    metadata = [{"raw": json.dumps(issues * times)} for times in (1, 2)]
    bodies = [{"error": {"code": "invalid_prompt", "message": "m"}, "metadata": each} for each in metadata]
    assert [read_failure(400, body).parameter for body in bodies] == ["text.verbosity", None]


def test_headers_in_the_body_are_read() -> None:
    """OpenRouter repeats the headers of its own limits there, also inside a stream."""
    body = {"error": {"code": 429, "metadata": {"headers": {"X-RateLimit-Reset": "7", "Retry-After": 3}}}}
    assert dict(read_failure(None, body).headers) == {"x-ratelimit-reset": "7", "retry-after": "3"}


def test_each_error_has_its_status_for_programs() -> None:
    """Those of OpenAI's API, where it has one of the kind; a failure of ours that has none is 500."""
    found: dict[int, set[str]] = defaultdict(set)
    for name, each in vars(errors).items():
        if isinstance(each, type) and issubclass(each, errors.PipeError):
            found[each.status].add(name)
    assert found == {
        400: {
            *("InvalidHistory", "ContextBudgetExceeded", "AttachmentUnavailable", "AttachmentNotFound"),
            *(
                "RequestRejected",
                "ContextTooLong",
                "EffortRejected",
                "ParameterRejected",
                "ReasoningRejected",
            ),
        },
        401: {"AuthenticationFailed"},
        402: {"SpendingLimitReached", "SpendingDeclined", "PaymentRequired"},
        403: {"AccessDenied"},
        404: {"ModelNotFound"},
        413: {"RequestTooLarge"},
        429: {"TooBusy", "RateLimited"},
        500: {"PipeError", "ConfigurationError", "UpdateRefused"},
        502: {"ConnectionFailed", "StreamBroken", "ProviderError"},
        503: {
            *("AddressPaused", "ModelPaused", "ProviderUnavailable", "NotOpenRouter"),
            *("StoreError", "StoreUnavailable", "SealBroken"),
        },
    }


# --- each documented status in each shape, at each moment

DOCUMENTED: Final = {
    case.failure.status: case
    for case in CASES
    if case.failure == Failure("m", status=case.failure.status, provider="P")
}
SAME_WORD = {408: 504, 524: 504, 529: 503}
"""Statuses whose word is that of another one."""
MODERATED = "The message was refused by moderation. Please rephrase it or choose another model."
CREATED = {"type": "response.created", "response": {"id": "gen-1"}}
TEXT = {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "Hi"}


def wires(code: int) -> dict[str, tuple[int, bytes]]:
    """One failure as HTTP status and body: before a stream, instead of one, and in one before and after its text."""
    metadata = {"metadata": {"provider_name": "P"}}
    numbered = {"code": code, "message": "m", **metadata}
    word = KNOWN[code].error_type
    by_word = {"error": {"code": "server_error", "message": "m"}, "error_type": word, **metadata}
    failed = {"object": "response", "status": "failed", "output": [], "error": {"code": code, "message": "m"}}
    bodies: dict[str, Any] = {
        "A": {"error": numbered, "user_id": "user_x"},
        "B": {"error": {"code": "invalid_prompt", "message": "m"}, **metadata},
    }
    pages = {
        "html": f"<html><head><title>openrouter.ai | {code}</title></head><body>cloudflare</body></html>",
        "empty": "",
        "text": "upstream connect error",
        **{name: json.dumps(body) for name, body in bodies.items()},
    }
    events: dict[str, dict[str, Any]] = {
        "failed": {"type": "response.failed", "response": {"status": "failed", "error": numbered}},
        "failed, word": {"type": "response.failed", "response": {"status": "failed", **by_word}},
        "response.error": {"type": "response.error", "error": numbered},
        "nested": {"type": "error", "error": numbered},
        "nested, word": {"type": "error", "error": {**numbered, "code": word}},
        "flat": {"type": "error", "code": str(code), "message": "m", "param": None, "sequence_number": 3},
    }
    return {
        **{f"before: {name}": (code, page.encode()) for name, page in pages.items()},
        "instead": (200, json.dumps(failed).encode()),
        **{f"inside: {name}": (200, frames(CREATED, event)) for name, event in events.items()},
        **{f"behind text: {name}": (200, frames(CREATED, TEXT, event)) for name, event in events.items()},
    }


async def ask(status: int, content: bytes) -> tuple[PipeError, str, int]:
    """The error in which an answer ends, the text before it, and how often it was asked for; waits take no time."""
    requests = []

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return httpx.Response(status, content=content)

    reducer, effects = Reducer(), list[Any]()
    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as http:
        client = OpenRouterClient(http, ClientSettings(api_key=Secret("sk-or-x")))
        responses = RetryingResponses(client, limit_seconds=60)
        try:
            async with responses.stream({"model": "m"}) as events:
                async for event in events:
                    effects += reducer.feed(event)
        except PipeError as error:
            return error, "", len(requests)
    assert isinstance(effects[-1], ResponseFailed)
    text = "".join(effect.delta for effect in effects if isinstance(effect, TextDelta))
    return responses.explain(effects[-1].failure), text, len(requests)


def plain(line: str) -> str:
    """A line without what not every shape says: the provider's name, and the server's words."""
    return re.sub(r' It said: ".*"', "", line).replace("The provider P ", "The provider ")


@pytest.mark.anyio
@pytest.mark.skips_time
@pytest.mark.parametrize("shape", wires(400))
@pytest.mark.parametrize("code", KNOWN)
async def test_each_documented_status_is_explained_in_each_shape_at_each_moment(
    code: int, shape: str
) -> None:
    """By its status, or the number or word in its event; once something is shown it is not asked again."""
    case = DOCUMENTED[SAME_WORD.get(code, code) if "word" in shape else code]
    said = "Hi" if "behind text" in shape else ""
    lines = [plain(line) for line in (case.lines[0], case.lines[-1])]
    if code == 403 and "word" in shape:  # the word says more than the number
        lines = [MODERATED] * 2
    error, text, requests = await ask(*wires(code)[shape])
    assert (type(error), [plain(error.user_message), plain(for_admins(error.user_message))]) == (
        case.kind,
        lines,
    )
    assert (text, requests, error.status >= 400) == (said, 3 if case.again and not said else 1, True)


@pytest.mark.parametrize(
    ("status", "word", "availability", "passes", "suggested"),
    [
        (404, "not_found", {"code": "model_deprecated", "retryable": False}, False, ""),
        (503, "server", {"code": "model_unavailable_upstream", "retryable": False}, False, ""),
        (404, "not_found", {"code": "no_endpoints", "retryable": True}, True, ""),
        (429, "rate_limit_exceeded", {"code": "capacity_exhausted", "fallback_models": ["a/m"]}, True, "a/m"),
        (404, "not_found", {"fallback_models": ["a/1", 2, "a/3", "a/4", "a/5"]}, False, "a/1, a/3, a/4"),
        (404, "not_found", {"fallback_models": "a/m", "retryable": "yes"}, False, ""),
    ],
)
def test_what_openrouter_says_of_a_model_that_is_not_available_counts(
    status: int, word: str, availability: dict[str, Any], *, passes: bool, suggested: str
) -> None:
    """Whether it pays to ask again, and which models may be asked in its place."""
    body = {"error": {"code": status, "message": "m", "error_type": word, "availability": availability}}
    error = to_error(read_failure(status, body))
    assert error.passes == passes
    said = f"OpenRouter suggests in its place: {suggested}."
    assert (said in error.user_message, said in for_admins(error.user_message)) == (bool(suggested),) * 2
