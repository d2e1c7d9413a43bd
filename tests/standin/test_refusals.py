"""Which requests are accepted, and how others are refused: each case is a body and what it is answered with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from scripts.standin import StandIn, media
from scripts.standin.drawing import draw
from scripts.standin.errors import KNOWN
from scripts.standin.rules import BREAKS, MAX_IMAGE_BYTES, RULES
from tests.standin.client import CLOCK, Client, output, said, user
from tests.support.files import PICTURES, data_url
from tests.support.rows import rows

CALL = {"type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": '{"city":"Rome"}'}
TEXT = {"type": "output_text", "text": "Hi.", "annotations": []}
PNG = data_url("image/png", draw("red"))
CLAUDE = "anthropic/claude-sonnet-4.5"
SEARCH = {"type": "openrouter:web_search"}
GOOD = json.loads(Path(__file__).with_name("good_request.json").read_text("utf-8"))


def test_a_full_good_request_is_accepted(client: Client) -> None:
    """Without a warning; a key that the service does not know is ignored with one."""
    for fields in (GOOD, {"novel": 1}):
        assert client.http.post("/responses", json={"input": "Hi", **fields}).status_code == 200
    assert [record.warnings for record in client.standin.responses] == [[], ["unknown top-level key: novel"]]


NAMES = {
    "CALL": CALL,
    "OUTPUT": output(CALL),
    "TEXT": TEXT,
    "CLOCK": CLOCK,
    "FETCH": {"type": "openrouter:web_fetch"},
    "SEARCH": SEARCH,
    "MUST": {"type": "allowed_tools", "mode": "required", "tools": [SEARCH]},
    "LONG": "x" * 257,
    "LONGER": "x" * 771,
    "JPEG_AS_PNG": data_url("image/png", PICTURES["image/jpeg"]),
    "HELLO": {
        "type": "message",
        "role": "assistant",
        "id": "msg_1",
        "status": "completed",
        "content": [TEXT],
    },
    "THOUGHT": {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
    "MARK": {"type": "input_text", "text": "x", "prompt_cache_breakpoint": {"mode": "explicit"}},
    "FAR": "fc_" + "x" * 62,
    "TOOLS129": [{**CLOCK, "name": f"tool_{number}"} for number in range(129)],
    "TOOLS201": [{**CLOCK, "name": f"tool_{number}"} for number in range(201)],
    "LARGE": data_url("image/png", draw("red").ljust(MAX_IMAGE_BYTES + 1, b"x")),
    "MILLIONS": "x" * 1_500_000,
    "MILLIONS6": "x" * 9_000_000,
    "IMAGE_JPG": data_url("image/jpg", PICTURES["image/jpeg"]),
}
TABLE = Path(__file__).with_name("refusals.txt")


@pytest.mark.parametrize(("body", "path"), rows(TABLE, "malformed", NAMES))
def test_a_malformed_request_is_refused_with_the_path_of_its_fault(
    client: Client, body: Any, path: str
) -> None:
    """As family B, by the SDK's models or by the documented rules behind them."""
    answer = client.http.post("/responses", json={"input": "Hi", **body})
    error, metadata = answer.json()["error"], answer.json()["metadata"]
    assert (answer.status_code, error["code"]) == (400, "invalid_prompt")
    assert error["message"] == "Invalid Responses API request"
    found = [".".join(map(str, issue["path"])) for issue in json.loads(metadata["raw"])]
    assert any(each.startswith(path) for each in found), found


@pytest.mark.parametrize(("body", "expected"), rows(TABLE, "refused", NAMES))
def test_what_cannot_be_served_is_refused_with_its_text(client: Client, body: Any, expected: str) -> None:
    """Status and beginning of the message, which the log repeats."""
    answer = client.http.post("/responses", json={"model": "standin/script", "input": "Hi", **body})
    assert f"{answer.status_code} {said(answer)}".startswith(expected)
    (record,) = client.standin.responses
    assert (record.status, record.usage) == (answer.status_code, None)
    assert record.error == said(answer)


BROKEN = rows(TABLE, "rules", NAMES)


@pytest.mark.parametrize(("rule", "body", "expected"), BROKEN)
def test_a_broken_rule_is_answered_in_its_own_words(
    client: Client, rule: str, body: Any, expected: str
) -> None:
    """With its status, and its code in the form of the model's maker; a router's rule has no provider."""
    answer = client.http.post("/responses", json={"model": "standin/script", "input": "Hi", **body})
    name, maker = rule.split()
    known = next(each for each in RULES if name in each.names and maker in each.makers)
    assert (answer.status_code, said(answer)) == (known.status, expected)
    metadata = answer.json()["error"].get("metadata") or {}
    raw = json.loads(metadata["raw"]) if "raw" in metadata else None
    assert (raw is None) is (maker == "router")
    if maker == "anthropic":
        assert raw == {
            "type": "error",
            "error": {"type": "invalid_request_error", "message": expected},
            "request_id": "req_standin",
        }
    elif maker == "google":
        assert raw == {"error": {"code": 400, "message": expected, "status": "INVALID_ARGUMENT"}}
    elif raw and "code" in raw["error"]:
        assert raw["error"]["code"] == (known.code or None)


def test_each_rule_is_broken_by_a_row() -> None:
    """Those of credit and of replayed reasoning have tests of their own."""
    met = {case.values[0] for case in BROKEN}
    own = {"prompt_above_credit", "answer_above_credit", "prompt_above_key", "answer_above_key", "in_flight"}
    rules = [
        rule
        for rule in RULES
        if rule.names[0] in BREAKS and rule.names[0] not in {*own, "open_thoughts", "too_long"}
    ]
    assert {f"{rule.names[0]} {maker}" for rule in rules for maker in rule.makers} - met == set()


@pytest.mark.parametrize(
    ("key", "text", "limit", "expected"),
    [
        ("credit-0.1", 40_000, 0, "You requested up to 32000 tokens, but can only afford 22"),
        ("credit-0.1", 40_000, 22_000, ""),
        ("credit-0.001", 40_000, 16, "Prompt tokens limit exceeded: 10012 > 1000."),
        ("limit-0.1", 400, 30_000, "You requested up to 30000 tokens, but can only afford 24"),
        ("limit-0.001", 40_000, 16, "Prompt tokens limit exceeded: 10012 > 1000."),
    ],
)
def test_prompt_and_answer_must_be_paid(
    client: Client, key: str, text: int, limit: int, expected: str
) -> None:
    """By the account or by the key's own limit; without a limit the longest answer of the model counts."""
    fields = {"max_output_tokens": limit} if limit else {}
    body = {"model": "standin/script", "input": "x" * text, **fields}
    headers = {"Authorization": f"Bearer sk-or-{key}"}
    answer = client.http.post("/responses", json=body, headers=headers)
    assert answer.status_code == (402 if expected else 200)
    if expected:
        error = answer.json()["error"]
        source = "key_limit" if key.startswith("limit") else "credits"
        assert expected in error["message"]
        assert error["metadata"] == {"limit_source": f"openrouter_{source}", "provider_name": None}


def test_what_is_spent_and_what_runs_cannot_be_spent_again(client: Client) -> None:
    """A running request holds what its answer may cost; another is told to come back."""
    headers = {"Authorization": "Bearer sk-or-credit-0.2"}
    body = {"model": "standin/script", "max_output_tokens": 30_000}
    first = client.http.post("/responses", json={**body, "input": "x" * 400_000}, headers=headers)
    assert first.status_code == 402
    slow = {**body, "input": "[[standin: slow=30]]", "stream": True}
    with client.http.stream("POST", "/responses", json=slow, headers=headers):
        busy = client.http.post("/responses", json={**body, "input": "Hi"}, headers=headers)
    assert (busy.status_code, busy.headers["retry-after"]) == (402, "1")
    assert busy.json()["error"]["metadata"]["limit_source"] == "openrouter_in_flight_budget"


@pytest.mark.parametrize("fields", rows(TABLE, "accepted"))
def test_what_can_be_served_is_accepted(client: Client, fields: Any) -> None:
    """Null where it is documented; a provider with its variant; an order or the account's policy excludes nobody."""
    assert client.post("Hi", model="openai/gpt-5.2", **fields).status_code == 200


def test_a_fallback_answers(client: Client) -> None:
    """The first of the models whose provider may; without a model the account's default."""
    models = ["x-ai/grok-4.1-fast", CLAUDE]
    assert client.done("Hi", model="openai/gpt-5.2", models=models, provider={"zdr": True})["model"] == CLAUDE
    assert client.http.post("/responses", json={"input": "Hi"}).json()["model"] == "openai/gpt-5.2"


def test_too_long_a_prompt_is_refused_with_its_token_counts(client: Client) -> None:
    """The documented text; the output limit counts too."""
    fields = {"model": "standin/small", "tools": [CLOCK], "max_output_tokens": 16}
    error = client.post("x" * 4 * 16_384, **fields).json()["error"]
    assert error["metadata"] == {"provider_name": None}
    assert error["message"] == (
        "This endpoint's maximum context length is 16384 tokens. However, you requested about 16426 tokens "
        "(16396 of text input, 14 of tool input, 16 in the output). Please reduce the length of either one, or use "
        "the context-compression plugin to compress your prompt automatically."
    )


@pytest.mark.parametrize(("model", "plugin", "status"), rows(TABLE, "long prompts"))
def test_compression_lets_long_prompts_pass(client: Client, model: str, plugin: Any, status: int) -> None:
    """When asked for, and unasked up to a window of 8192; the log tells that it happened."""
    fields = {"plugins": plugin} if plugin else {}
    assert client.post("x" * 80_000, model=model, **fields).status_code == status
    warnings = client.standin.responses[0].warnings
    assert warnings == ["context-compression removed the middle of the prompt"] * (status == 200)


@pytest.mark.parametrize(
    ("count", "ttl", "status"), [(4, None, 200), (5, None, 400), (0, "1h", 200), (1, "1h", 400)]
)
def test_claude_takes_four_breakpoints(client: Client, count: int, ttl: str | None, status: int) -> None:
    """And no longer lifetime after a shorter one, which breakpoints of parts have."""
    mark = {"prompt_cache_breakpoint": {"mode": "explicit"}}
    parts = [
        {"type": "input_text", "text": "x", **(mark if at < count else {})} for at in range(max(count, 1))
    ]
    fields = {"cache_control": {"type": "ephemeral", "ttl": ttl}} if ttl else {}
    given = [{"role": "user", "content": parts}, user("Go on")]
    assert client.post(given, model=CLAUDE, **fields).status_code == status


# --- media ---

PICTURE = {"type": "input_image", "detail": "auto", "image_url": PNG}
NAMED_PDF = {
    "type": "input_file",
    "filename": "a.pdf",
    "file_data": data_url("application/pdf", b"%PDF-1.7\n"),
}


def status(client: Client, part: dict[str, Any], **fields: Any) -> int:
    """The status of a request whose user message has this part."""
    return client.post([{"role": "user", "content": [part]}], **fields).status_code


@pytest.mark.parametrize(
    ("name", "part"),
    [
        *rows(TABLE, "media that are read"),
        *((kind, {**PICTURE, "image_url": data_url(kind, content)}) for kind, content in PICTURES.items()),
    ],
)
def test_media_that_are_what_they_say_are_read(client: Client, name: str, part: dict[str, Any]) -> None:
    """By a model that reads every modality; one that reads text gets PDFs alone, as the router's parser has them."""
    expected = (200, 200 if "pdf" in name else 404)
    assert (status(client, part), status(client, part, model="standin/text-only")) == expected


@pytest.mark.parametrize(("name", "part"), rows(TABLE, "media that are not what they say", NAMES))
def test_media_that_are_not_what_they_say_are_refused(client: Client, name: str, part: Any) -> None:
    """By content, not by name; and nobody fetches what is behind an id, a path or plain http."""
    assert status(client, part) == 400, name


def test_without_a_parser_a_model_that_reads_text_gets_no_pdf(client: Client) -> None:
    """One that is off, or the model's own."""
    for plugin in ({"enabled": False}, {"pdf": {"engine": "native"}}):
        plugins = [{"id": "file-parser", **plugin}]
        assert status(client, NAMED_PDF, model="standin/text-only", plugins=plugins) == 404
        assert status(client, NAMED_PDF, plugins=plugins) == 200


@pytest.mark.parametrize(
    ("result", "expected"),
    rows(TABLE, "drawn pictures that come back", {"PNG": PNG, "BARE": PNG.partition(",")[2]}),
)
@pytest.mark.parametrize("kind", media.DRAWN)
def test_a_drawn_picture_comes_back_as_a_picture(
    client: Client, kind: str, result: str | None, expected: int
) -> None:
    """As base64, a data URL or a remote URL."""
    item = {"type": kind, "id": "ig_1", "status": "completed", "result": result}
    assert client.post([user("Draw"), item]).status_code == expected


# --- ordered refusals ---


@pytest.mark.parametrize("code", KNOWN)
def test_each_documented_error_can_be_ordered_in_each_family(client: Client, code: int) -> None:
    """Families differ in the place and the type of the code."""
    known = client.post(f"[[standin: error={code}]]")
    assert (known.status_code, known.text) == (code, KNOWN[code].body())
    for family, sent in {"A": code, "B": "invalid_prompt"}.items():
        answer = client.post(f"[[standin: error={code} family={family} message=Oh]]", stream=True)
        error = answer.json()["error"]
        assert (answer.status_code, error["code"], error["message"]) == (code, sent, "Oh")


def test_what_stands_before_the_service_answers_with_a_page(client: Client) -> None:
    """And a rate limit says when to come back."""
    answer = client.post("[[standin: error=502 family=html message=Oh]]")
    assert answer.text.startswith("<!DOCTYPE html>")
    assert answer.headers["content-type"] == "text/html; charset=UTF-8"
    assert client.post("[[standin: error=429 retry_after=7]]").headers["retry-after"] == "7"


@pytest.mark.parametrize(("order", "said"), rows(TABLE, "ordered refusals of a parameter"))
def test_a_parameter_can_be_refused(client: Client, order: str, said: str | None) -> None:
    """In OpenAI's words, while the request holds it, and if values are named while it has another one."""
    answer = client.post(f"[[standin: {order}]]", temperature=0.5, reasoning={"effort": "xhigh"})
    raw = json.loads(answer.json()["error"]["metadata"]["raw"]) if said else {"error": {"message": None}}
    assert (answer.status_code, raw["error"]["message"]) == (400 if said else 200, said)


def test_a_recorded_error_can_be_ordered(client: Client) -> None:
    """As a whole or by its message, before the answer or in its stream; for requests that hold an item of a type."""
    body = {"detail": "no", "deep": [1]}
    whole = client.post(
        f"[[standin: recorded={json.dumps({'status': 422, 'shape': 'json body', 'body': body})}]]"
    )
    assert (whole.status_code, whole.json()) == (422, body)
    told = json.dumps({"status": 413, "shape": "json body", "message": "large"})
    assert client.post(f"[[standin: recorded={told}]]").json()["error"] == {"code": 413, "message": "large"}
    assert client.post(f"[[standin: recorded={told} holds=reasoning]]").status_code == 200
    assert client.post(f"[[standin: recorded={told} holds=message]]").status_code == 413
    failed = {"response": {"error": {"code": "upstream_error", "message": "no"}}}
    order = json.dumps({"status": 502, "shape": "sse event", "body": failed})
    streamed = client.post(f"[[standin: recorded={order}]]", stream=True)
    assert (streamed.status_code, '"upstream_error"' in streamed.text) == (200, True)


@pytest.mark.parametrize("content", [b"{", b"", b"[]"])
def test_broken_bodies_are_refused(client: Client, content: bytes) -> None:
    """As what does not fit the schema."""
    answer = client.http.post("/responses", content=content)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_prompt")


@pytest.mark.parametrize(("key", "path", "status", "message"), rows(TABLE, "keys and paths"))
def test_a_good_key_credits_and_a_known_path_are_needed(
    standin: StandIn, key: str | None, path: str, status: int, message: str
) -> None:
    """The key decides what its account may do."""
    headers = {"Authorization": key} if key else {}
    method = "POST" if path == "/responses" else "GET"
    answer = httpx.request(method, standin.base_url + path, headers=headers)
    assert (answer.status_code, answer.json()["error"]["message"]) == (status, message)
