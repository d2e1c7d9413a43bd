"""Failures become errors with one clear line."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from open_webui_openrouter_pipe.errors import (
    AccessDenied,
    AuthenticationFailed,
    ContextTooLong,
    EffortRejected,
    ModelNotFound,
    ParameterRejected,
    PaymentRequired,
    ProviderError,
    ProviderUnavailable,
    RateLimited,
    ReasoningRejected,
    RequestRejected,
    StreamBroken,
)
from open_webui_openrouter_pipe.openrouter.errors import redact, retry_after, to_error
from open_webui_openrouter_pipe.responses.failure import Failure, read_failure

NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)

CASES: list[tuple[Failure, type[Exception], str]] = [
    (
        Failure("User not found.", status=401),
        AuthenticationFailed,
        "OpenRouter did not accept the API key of this server. Please tell your administrator.",
    ),
    (
        Failure(
            "This request requires more credits, or fewer max_tokens. You requested up to 4,096 tokens, but "
            "can only afford 120. To increase, visit x",
            status=402,
        ),
        PaymentRequired,
        (
            "The OpenRouter account has too few credits for this request (up to 4,096 tokens were requested, "
            "120 can be paid for). Please tell your administrator; a shorter answer or a cheaper model may still be "
            "possible."
        ),
    ),
    (
        Failure(
            "x requires moderation on OpenAI. Your input was flagged", status=403, reasons=("harassment",)
        ),
        AccessDenied,
        "The message was refused by moderation (harassment). Please rephrase it or choose another model.",
    ),
    (
        Failure("Only management keys can perform this operation", status=403),
        AccessDenied,
        (
            "OpenRouter refused access to this request. Please choose another model, or tell your administrator. "
            'It said: "Only management keys can perform this operation"'
        ),
    ),
    (
        Failure("No endpoints found for x", status=404),
        ModelNotFound,
        'No provider of this model can serve this request. It said: "No endpoints found for x"',
    ),
    (
        Failure("m", status=404, availability="model_deprecated"),
        ModelNotFound,
        "OpenRouter no longer offers this model. Please choose another one.",
    ),
    (
        Failure("x is not a valid model ID", status=400),
        ModelNotFound,
        "OpenRouter does not know this model. Please choose another one.",
    ),
    (
        Failure("No endpoints found that support image input", status=404),
        ModelNotFound,
        "No provider of this model reads this kind of attachment. Remove it or choose another model.",
    ),
    (
        Failure("No endpoints found that support tool use.", status=404),
        ModelNotFound,
        "No provider of this model supports tools. Switch the tools off or choose another model.",
    ),
    (
        Failure("m", status=404, availability="capacity_exhausted", provider="P"),
        ProviderUnavailable,
        (
            "The provider P is not available at the moment. Please wait a little and try again, or choose another "
            "model."
        ),
    ),
    (
        Failure(
            "This endpoint's maximum context length is 16384 tokens. However, you requested about 26265 "
            "tokens",
            status=400,
        ),
        ContextTooLong,
        (
            "The conversation is too long for this model (26,265 tokens, the model takes 16,384). "
            "Shorten it or choose a model with a larger window."
        ),
    ),
    (
        Failure(
            "Provider returned error", status=400, raw="prompt is too long: 210000 tokens > 200000 maximum"
        ),
        ContextTooLong,
        "The conversation is too long for this model. Shorten it or choose a model with a larger window.",
    ),
    (
        Failure("Request too large", status=413),
        RequestRejected,
        "The request is too large to send. Remove or shrink attachments, or start a new chat.",
    ),
    (
        Failure("Invalid Responses API request", status=400, code="invalid_prompt", raw="input.0: Required"),
        RequestRejected,
        (
            "The provider rejected the request; sending it again unchanged will not help. Change it or choose another "
            'model. It said: "input.0: Required"'
        ),
    ),
    (
        Failure("Rate limit exceeded: free-models-per-day. Add 10 credits", status=429),
        RateLimited,
        (
            "The daily limit of OpenRouter's free models is reached. Please try again tomorrow, or choose a paid "
            "model."
        ),
    ),
    (
        Failure("Provider returned error", status=429, provider="P"),
        RateLimited,
        (
            "The provider P is receiving too many requests at the moment. Please wait a little and try again, or "
            "choose another model."
        ),
    ),
    (
        Failure("Request timed out", status=408),
        ProviderUnavailable,
        (
            "The provider took too long to answer. Please wait a little and try again, or choose a faster model."
        ),
    ),
    (
        Failure("openrouter.ai | 524: A timeout occurred", status=524),
        ProviderUnavailable,
        (
            "The provider took too long to answer. Please wait a little and try again, or choose a faster model."
        ),
    ),
    (
        Failure("x", status=529),
        ProviderUnavailable,
        (
            "The provider is overloaded at the moment. Please wait a little and try again, or choose another model."
        ),
    ),
    (
        Failure("x", status=502, provider="P"),
        ProviderUnavailable,
        (
            "The provider P is not available at the moment. Please wait a little and try again, or choose another "
            "model."
        ),
    ),
    (
        Failure("odd"),
        ProviderError,
        'OpenRouter answered with an error. Please try again, or choose another model. It said: "odd"',
    ),
    (
        Failure(""),
        ProviderError,
        "OpenRouter answered with an error. Please try again, or choose another model.",
    ),
    (
        Failure("it stopped", origin="stream"),
        StreamBroken,
        "OpenRouter ended the answer before it was complete. Please try again.",
    ),
]


@pytest.mark.parametrize(("failure", "kind", "line"), CASES)
def test_each_failure_has_its_error_and_line(failure: Failure, kind: type[Exception], line: str) -> None:
    """The error's class says what it is, its line what happened and what to do."""
    error = to_error(failure)
    assert (type(error), error.user_message) == (kind, line)


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("invalid_request", 400),
        ("invalid_prompt", 400),
        ("authentication", 401),
        ("payment_required", 402),
        ("permission_denied", 403),
        ("not_found", 404),
        ("precondition_failed", 412),
        ("payload_too_large", 413),
        ("unprocessable", 422),
        ("rate_limit_exceeded", 429),
        ("server", 500),
        ("server_error", 500),
        ("provider_unavailable", 502),
        ("provider_overloaded", 503),
        ("timeout", 504),
    ],
)
def test_a_failure_inside_a_stream_is_explained_like_its_http_status(code: str, status: int) -> None:
    """HTTP has said 200 by then, so that the provider's word says what kind of failure it is."""
    failure = read_failure(None, {"error": {"code": code, "message": "m"}})
    error, same = to_error(failure), to_error(Failure("m", status=status))
    assert (failure.status, type(error), error.user_message) == (status, type(same), same.user_message)


@pytest.mark.parametrize(
    ("text", "limit_tokens"),
    [
        (
            "This endpoint's maximum context length is 16384 tokens. However, you requested about 26265 tokens",
            16384,
        ),
        ("This model's maximum context length is 128,000 tokens.", 128_000),
        ("prompt is too long: 210000 tokens > 200000 maximum", 200_000),
        (
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            1_048_576,
        ),
        ("Your input exceeds the context window of this model.", None),
        ("too many tokens", None),
    ],
)
@pytest.mark.parametrize("field", ["message", "raw"])
def test_a_refusal_for_length_names_the_window(text: str, limit_tokens: int | None, field: str) -> None:
    """In each provider's words, in the message and in its own error."""
    failure = Failure(text, status=400) if field == "message" else Failure("m", status=400, raw=text)
    error = to_error(failure)
    assert isinstance(error, ContextTooLong)
    assert error.limit_tokens == limit_tokens


@pytest.mark.parametrize(
    "text",
    [
        "messages.1.content.0: Invalid `signature` in `thinking` block",
        "Invalid signature in thinking block",
        "The encrypted content gAAA... could not be verified. Reason: ...",
        "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified.",
        "Item 'rs_1' of type 'reasoning' was provided without its required following item.",
    ],
)
@pytest.mark.parametrize("field", ["message", "raw"])
def test_rejected_reasoning_is_recognized(text: str, field: str) -> None:
    """The words of a provider that no longer accepts its reasoning are found in the message and in its own error."""
    failure = Failure(text, status=400) if field == "message" else Failure("m", status=400, raw=text)
    assert type(to_error(failure)) is ReasoningRejected


@pytest.mark.parametrize(
    ("seconds", "end"),
    [
        (0.0, "Please try again now, or choose another model."),
        (20.0, "Please try again in 20 seconds, or choose another model."),
        (600.0, "Please try again in about 10 minutes, or choose another model."),
        (20_000.0, "Please try again in about 6 hours, or choose another model."),
    ],
)
def test_the_wait_is_named(seconds: float, end: str) -> None:
    """The line of a rate limit says how long to wait, by the headers."""
    error = to_error(Failure("m", status=429), retry_after_seconds=seconds)
    assert isinstance(error, RateLimited)
    assert (error.user_message.endswith(end), error.retry_after_seconds) == (True, seconds)


SECRETS = [
    "sk-or-v1-0123456789abcdef",
    "sk-proj-abc_DEF-123",
    "Bearer eyJhbGciOi.x",
    "Authorization: Basic abc",
    '"api_key": "k-123456"',
    "jane.doe@example.co.uk",
    "user_2abcDEF345ghi",
    "org-ABCDEFGH1234",
]


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("field", ["message", "raw", "provider"])
def test_secrets_are_redacted(secret: str, field: str) -> None:
    """Neither the user's line nor the log's detail holds a key, a header, an address or an account."""
    values = {"message": "m", "raw": None, "provider": None, field: f"wrong {secret} here"}
    failure = Failure(str(values["message"]), status=400, raw=values["raw"], provider=values["provider"])
    error = to_error(failure)
    hidden = secret.rsplit(maxsplit=1)[-1].strip('"')
    assert (hidden in str(error), hidden in error.user_message) == (False, False)


@settings(deadline=None)
@given(st.text(max_size=3000), st.sampled_from([None, 400, 402, 403, 404, 429, 500]))
def test_lines_are_single_and_short(text: str, status: int | None) -> None:
    """Whatever the server says, the user reads one line of bearable length."""
    line = to_error(Failure(text, status=status, raw=text, provider=text, reasons=(text,))).user_message
    assert (len(line) <= 500, len(line.splitlines())) == (True, 1)


def test_redact_keeps_the_rest() -> None:
    """What is not a secret stays readable."""
    assert redact("key sk-or-v1-abcdef\n is bad") == "key [redacted] is bad"


@pytest.mark.parametrize("written", ["gw+key/1", "gw%2Bkey%2F1", 'a"gw\\', 'a\\"gw\\\\'])
def test_the_configured_key_is_redacted_whatever_it_looks_like(written: str) -> None:
    """The key of a gateway need not begin as OpenRouter's do, and URLs and JSON write it in their own way."""
    key = "gw+key/1" if "key" in written else 'a"gw\\'
    failure = Failure(
        f"<{written}>", status=400, raw=f"no {written}", provider=written, code=f"bad {written}"
    )
    error = to_error(failure, api_key=key)
    assert (written in str(error), written in error.user_message) == (False, False)
    assert "<[redacted]>" in error.detail


def test_the_cut_off_end_of_a_text_shows_no_part_of_a_secret() -> None:
    """What is not read ends with a whole word."""
    words = "a@b.example " * 332
    assert redact(f"{words}{'x' * 10} sk-or-v1-0123456789") == f"{'[redacted] ' * 332}{'x' * 10}"


@pytest.mark.parametrize(
    "characters", ["a", "1", ".", "%", " ", "-", "a.", "user_", "sk-", "authorization ", "@a"]
)
def test_the_time_to_read_a_text_does_not_depend_on_its_end(characters: str) -> None:
    """Whatever is repeated, a provider that echoes 1 MB costs about as much as one that echoes 8 KB."""

    def processor_seconds(size: int) -> float:
        failure = Failure((characters * size)[:size], status=400, raw=(characters * size)[:size])
        began = time.process_time()
        to_error(failure)
        return time.process_time() - began

    fastest = [min(processor_seconds(size) for _ in range(3)) for size in (8_000, 1_000_000)]
    assert fastest[1] < 10 * fastest[0] + 0.02


def test_control_characters_reach_neither_the_user_nor_the_log() -> None:
    """A terminal that shows the log is not steered by a provider's error."""
    error = to_error(Failure("a\x1b[2Jb\x00\x9bc\u202ed", status=400, code="x\x07y", provider="p\x1bq"))
    assert (error.user_message.isprintable(), str(error).isprintable(), error.detail) == (
        True,
        True,
        "400 | x y | a [2Jb c d",
    )


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": "2.5"}, 2.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "Sat, 21 Nov 2026 12:00:30 GMT"}, 30.0),
        ({"retry-after": "Sat, 21 Nov 2026 11:00:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"retry-after-ms": "1500", "retry-after": "2"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "2"}, 2.0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "1e99"}, None),
        ({"x-ratelimit-reset": str(int(NOW.timestamp() * 1000) + 60_000)}, 60.0),
        ({"x-ratelimit-reset": "x"}, None),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    """Seconds, dates and reset times are understood; zero is a value; nonsense is none."""
    assert retry_after(headers, now=NOW) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "Too many tokens, please wait before trying again.",
        "Too many tokens per day, please wait before trying again.",
    ],
)
def test_a_limit_of_a_rate_is_not_one_of_a_window(text: str) -> None:
    """Amazon's words: nothing of the chat is dropped for them."""
    assert isinstance(to_error(Failure(text, status=429)), RateLimited)


EFFORT = json.dumps(
    {
        "error": {
            "message": (
                "Unsupported value: 'xhigh' is not supported with the 'gpt-5' model. Supported values are: 'low', "
                "'medium', and 'high'."
            ),
            "type": "invalid_request_error",
            "param": "reasoning.effort",
            "code": "unsupported_value",
        }
    }
)


def test_a_refused_effort_names_those_that_are_supported() -> None:
    """In the provider's own error, within OpenRouter's."""
    body = {"error": {"code": 400, "message": "Provider returned error", "metadata": {"raw": EFFORT}}}
    error = to_error(read_failure(400, body))
    assert isinstance(error, EffortRejected)
    assert error.supported_efforts == ("low", "medium", "high")


@pytest.mark.parametrize(
    ("failure", "parameter"),
    [
        (Failure("Unsupported parameter: 'top_p' is not supported with this model.", status=400), "top_p"),
        (
            Failure("m", status=400, raw="Unsupported value: 'temperature' does not support 0.2"),
            "temperature",
        ),
        (Failure("m", status=400, raw="stop: Extra inputs are not permitted"), "stop"),
        (Failure("m", status=400, parameter="text.verbosity"), "text.verbosity"),
        (Failure("m", status=422, code="invalid_prompt", parameter="metadata"), "metadata"),
    ],
)
def test_a_refused_parameter_is_recognized(failure: Failure, parameter: str) -> None:
    """By the field that names it, or by the provider's words."""
    error = to_error(failure)
    assert isinstance(error, ParameterRejected)
    assert error.parameter == parameter


@pytest.mark.parametrize(
    "path", ["provider", "max_output_tokens", "service_tier", "tools", "input.0.content"]
)
def test_what_guards_money_privacy_or_form_is_never_omitted(path: str) -> None:
    """Without it the answer would be another one, or go elsewhere."""
    failure = Failure(f"Unsupported parameter: '{path}' is not supported", status=400, parameter=path)
    assert type(to_error(failure)) is RequestRejected


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
