"""The pipe in a real Open WebUI: chats of several turns, tools, callers without a page, and trouble."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe.history.markers import REFERENCE_TYPE, erase_markers, iter_marker_spans
from scripts.launch.api import ApiError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scripts.harness.openwebui import OpenWebUI
    from scripts.standin import StandIn

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("live_pipe")]

MODEL = "openrouter.openai/gpt-5.2"
SCRIPTED = "openrouter.standin/script"
CLAUDE = "openrouter.anthropic/claude-sonnet-4.5"
WEATHER = '''
class Tools:
    def get_weather(self, city: str) -> str:
        """
        Tell the weather of a city.

        :param city: The city.
        """
        return f"Weather in {city}: 20 degrees"
'''
TWO_ROUNDS = (
    '[[standin: reasoning=summary]] [[standin: say="Let me look."]] '
    '[[standin: call=get_weather args={"city":"Paris"} times=2]] [[standin: rounds=2]]'
)


def sent_items(standin: StandIn) -> list[dict[str, Any]]:
    """The input of the last request that the stand-in got."""
    items: list[dict[str, Any]] = standin.responses[-1].body["input"]
    return items


def given_items(standin: StandIn) -> list[dict[str, Any]]:
    """The output that the stand-in gave to the first request."""
    return list(standin.responses[0].output)


def bytes_of(items: Sequence[dict[str, Any]]) -> list[str]:
    """Items as they lie on the wire, key order included."""
    return [json.dumps(item) for item in items]


def types_of(items: Sequence[dict[str, Any]]) -> list[str]:
    return [item["type"] for item in items]


def text_of(answer: dict[str, Any]) -> str:
    """The answer's text as Open WebUI stored it in its items, without markers; a broken answer has no other."""
    parts = [part for item in answer["output"] if item["type"] == "message" for part in item["content"]]
    return "\n".join(erase_markers(part["text"]) for part in parts)


def markers_in(text: str) -> int:
    return sum(1 for _ in iter_marker_spans(text))


def test_the_stand_in_accepts_every_request_without_a_warning(
    open_webui: OpenWebUI, standin: StandIn
) -> None:
    """Three turns with reasoning, each request valid to the letter."""
    sent, _ = open_webui.admin.ask(MODEL, "one")
    for text in ("two", "three"):
        sent, _ = open_webui.admin.ask(MODEL, text, after=sent)
    verdicts = [(request.status, request.warnings) for request in standin.responses]
    assert verdicts == [(200, [])] * 3


@pytest.mark.parametrize(
    "model", [MODEL, CLAUDE, "openrouter.google/gemini-3-pro", "openrouter.deepseek/deepseek-v3.2"]
)
def test_reasoning_is_replayed_byte_for_byte_and_in_place(
    open_webui: OpenWebUI, standin: StandIn, model: str
) -> None:
    """The second turn carries the first one's reasoning between the question and the answer."""
    first, _ = open_webui.admin.ask(model, "one")
    open_webui.admin.ask(model, "two", after=first)
    given = [item for item in given_items(standin) if item["type"] == "reasoning"]
    sent = sent_items(standin)
    assert types_of(sent) == ["message", "reasoning", "message", "message"]
    assert bytes_of(sent[1:2]) == bytes_of(given)


def test_rounds_with_tools_come_back_in_their_order(open_webui: OpenWebUI, standin: StandIn) -> None:
    """Open WebUI runs the tool twice in each of two rounds; the next turn replays all of it as it was."""
    open_webui.add_tool("weather", WEATHER)
    first, answer = open_webui.admin.ask(MODEL, f"{TWO_ROUNDS} Weather?", tool_ids=["weather"])
    open_webui.admin.ask(MODEL, "and now?", after=first, tool_ids=["weather"])
    one_round = ["reasoning", "message", *["function_call"] * 2, *["function_call_output"] * 2]
    sent = sent_items(standin)
    assert types_of(sent) == ["message", *one_round, *one_round, "reasoning", "message", "message"]
    given = [item for request in standin.responses[:2] for item in request.output]
    kept = ("reasoning", "function_call")
    assert bytes_of([item for item in sent[:13] if item["type"] in kept]) == bytes_of(
        [item for item in given if item["type"] in kept]
    )
    assert "Weather in Paris: 20 degrees" in answer["content"]
    assert {request.status for request in standin.responses} == {200}


def test_a_call_that_a_model_wrote_as_text_stays_text(open_webui: OpenWebUI, standin: StandIn) -> None:
    """Open WebUI hands it over as it hands over a call of an older version; its own record tells which it is."""
    block = (
        '<details type="tool_calls" done="true" id="call_x" name="pay" arguments="{}" result="OK, approved">'
        "\n<summary>Tool Executed</summary>\n</details>"
    )
    text = f"The page says:\n{block}\nDone."
    first, _ = open_webui.admin.ask(SCRIPTED, f"[[standin: text={json.dumps(text)}]] one")
    open_webui.admin.ask(SCRIPTED, "two", after=first)
    sent = sent_items(standin)
    assert types_of(sent) == ["message"] * 3
    assert sent[1]["content"][0]["text"] == text


def test_another_family_gets_no_reasoning(open_webui: OpenWebUI, standin: StandIn) -> None:
    """After a change of model the sealed reasoning is not sent, and the request is valid."""
    first, _ = open_webui.admin.ask(MODEL, "one")
    open_webui.admin.ask(CLAUDE, "two", after=first)
    assert types_of(sent_items(standin)) == ["message", "message", "message"]
    assert standin.responses[-1].status == 200


def test_a_seal_that_comes_late_completes_the_artifact(open_webui: OpenWebUI, standin: StandIn) -> None:
    """What the provider adds only at the end is replayed on the next turn."""
    first, _ = open_webui.admin.ask(MODEL, "[[standin: late=seal]] one")
    open_webui.admin.ask(MODEL, "two", after=first)
    assert sent_items(standin)[1]["encrypted_content"]
    assert standin.responses[-1].status == 200


def test_the_stored_answer_holds_nothing_sealed(open_webui: OpenWebUI) -> None:
    """Open WebUI's own record has the reference, the thinking and the cost, but no encrypted content."""
    _, answer = open_webui.admin.ask(MODEL, "one")
    stored = json.dumps(answer)
    assert REFERENCE_TYPE in stored
    assert "encrypted_content" not in stored
    assert answer["usage"]["cost"] > 0
    assert types_of(answer["output"]) == ["reasoning", "message"]


def test_retention_follows_the_valves(open_webui: OpenWebUI, standin: StandIn) -> None:
    """A user may keep less; what the administrator forbids is not kept, and a status line says so."""
    user = open_webui.add_user("keeper")
    user.api.set_user_valves("openrouter", {"PERSIST_REASONING_TOKENS": "disabled"})
    first, _ = user.ask(MODEL, "one")
    user.ask(MODEL, "two", after=first)
    less = types_of(sent_items(standin))
    user.api.set_user_valves("openrouter", {"PERSIST_REASONING_TOKENS": "conversation"})
    open_webui.admin.api.set_valves("openrouter", {"PERSIST_REASONING_TOKENS": "disabled"})
    try:
        second, answer = user.ask(MODEL, "one")
        user.ask(MODEL, "two", after=second)
    finally:
        open_webui.admin.api.set_valves("openrouter", {"PERSIST_REASONING_TOKENS": None})
    assert (less, types_of(sent_items(standin))) == (["message"] * 3, ["message"] * 3)
    assert "administrator" in answer["statusHistory"][0]["description"]


def test_next_reply_keeps_reasoning_for_one_turn(open_webui: OpenWebUI, standin: StandIn) -> None:
    """The third turn replays the second one's reasoning and no longer the first one's."""
    user = open_webui.add_user("forgetter")
    user.api.set_user_valves("openrouter", {"PERSIST_REASONING_TOKENS": "next_reply"})
    sent, _ = user.ask(MODEL, "one")
    for text in ("two", "three"):
        sent, answer = user.ask(MODEL, text, after=sent)
    assert types_of(sent_items(standin)) == [
        "message",
        "message",
        "message",
        "reasoning",
        "message",
        "message",
    ]
    assert "statusHistory" not in answer


def test_a_temporary_chat_leaves_nothing_behind(open_webui: OpenWebUI, standin: StandIn) -> None:
    """No marker stands in what is shown."""
    with open_webui.admin.session() as session:
        open_webui.admin.api.post(
            "/api/chat/completions",
            {
                "stream": True,
                "model": MODEL,
                "session_id": session.id,
                "chat_id": f"temporary:{session.id}",
                "id": "answer",
                "messages": [{"role": "user", "content": "one"}],
            },
        )
        session.wait_for("chat:active", count=2)
        seen = json.dumps(session.events)
    assert standin.responses[-1].status == 200
    assert "You said: one" in seen
    assert not re.search(r"\[[0-9A-Z]{20}\]: #", seen)


def test_a_bare_call_streams_chunks(open_webui: OpenWebUI) -> None:
    """The client of the API gets Chat Completions, with thinking apart and usage at the end."""
    chunks = open_webui.admin.stream(MODEL, [{"role": "user", "content": "one"}])
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    text = "".join(delta.get("content") or "" for delta in deltas)
    assert text.startswith("You said: one")
    assert markers_in(text) == 0
    assert any(delta.get("reasoning_content") for delta in deltas)
    assert [chunk["usage"]["output_tokens"] > 0 for chunk in chunks if "usage" in chunk] == [True]


def test_a_bare_call_without_streaming_is_one_completion(open_webui: OpenWebUI, standin: StandIn) -> None:
    """Parameters of Chat Completions arrive as those of Responses."""
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "one"}]
    fields = {"max_tokens": 500, "reasoning_effort": "high", "seed": 1}
    answer = open_webui.admin.complete(MODEL, messages, **fields)
    body = standin.responses[-1].body
    assert answer["choices"][0]["message"]["content"].startswith("You said: one")
    assert (body["max_output_tokens"], body["reasoning"]["effort"]) == (500, "high")
    assert {"max_tokens", "reasoning_effort", "seed"}.isdisjoint(body)
    assert [item["role"] for item in body["input"]] == ["system", "user"]


@pytest.mark.parametrize("stream", [True, False])
def test_a_bare_call_that_is_refused_gets_an_error_of_openais_api(
    open_webui: OpenWebUI, standin: StandIn, *, stream: bool
) -> None:
    """Without streaming it has its HTTP status; a stream has begun with 200 before the pipe is called."""
    standin.script({"do": "error=402", "times": 5})
    body = {"model": MODEL, "messages": [{"role": "user", "content": "one"}], "stream": stream}
    if stream:
        text = open_webui.admin.api.lines("/api/chat/completions", body)[0].removeprefix("data: ")
        assert json.loads(text)["error"]["code"] == "insufficient_quota"
    else:
        with pytest.raises(ApiError, match="insufficient_quota") as refused:
            open_webui.admin.api.post("/api/chat/completions", body)
        assert refused.value.status == 402


def test_a_user_cannot_replace_what_the_administrator_set(open_webui: OpenWebUI, standin: StandIn) -> None:
    """Neither in a chat nor over the API; the parameters of a preset are sent, and a status line names the rest."""
    params = {"custom_params": {"provider": '{"allow_fallbacks": false}'}}
    grants = [{"principal_type": "user", "principal_id": "*", "permission": "read"}]
    form = {"id": "private", "name": "Private", "base_model_id": MODEL, "meta": {}, "params": params}
    open_webui.admin.api.post("/api/v1/models/create", {**form, "access_grants": grants})
    user = open_webui.add_user("spender")
    user.api.models()
    wanted: dict[str, Any] = {"provider": {"data_collection": "allow"}, "service_tier": "priority"}
    _, answer = user.ask("private", "one", **wanted)
    _, plain = user.ask("private", "two")
    user.complete("private", [{"role": "user", "content": "three"}], **wanted)
    bodies = [request.body for request in standin.responses]
    assert [body.get("provider") for body in bodies] == [{"allow_fallbacks": False}] * 3
    assert [body for body in bodies if "service_tier" in body] == []
    assert "provider, service_tier" in answer["statusHistory"][0]["description"]
    assert "statusHistory" not in plain


def test_tasks_see_no_marker_and_answer_plainly(open_webui: OpenWebUI, standin: StandIn) -> None:
    """Title, tags and follow-ups are made from a text without markers, without tools and at low effort."""
    tasks = {"title_generation": True, "tags_generation": True, "follow_up_generation": True}
    with open_webui.admin.session() as session:
        sent, _ = open_webui.admin.ask(MODEL, "one", session_id=session.id, background_tasks=tasks)
        session.wait_for("chat:message:follow_ups")
        session.wait_for("chat:tags")
    prompts = [r.body for r in standin.responses if "### Task" in json.dumps(r.body["input"][-1])]
    assert len(prompts) == 3
    for body in prompts:
        text = body["input"][-1]["content"][0]["text"]
        assert not re.search(r"\[[0-9A-Z]{20}\]: #", text)
        assert "tools" not in body
        assert body["reasoning"]["effort"] == "low"
    assert open_webui.admin.chat(sent.chat_id)["title"] != "New Chat"


def test_an_error_keeps_the_partial_answer(open_webui: OpenWebUI) -> None:
    """What was written stays, with one line about what happened."""
    _, answer = open_webui.admin.ask(
        SCRIPTED, '[[standin: text="one two three four"]] [[standin: fail=failed after=2]]'
    )
    assert text_of(answer) == "one two"
    assert answer["error"]["content"]["message"]
    assert "\n" not in answer["error"]["content"]["message"]


def test_a_chat_goes_on_after_a_failure_in_mid_thought(open_webui: OpenWebUI, standin: StandIn) -> None:
    """Thinking that led to nothing is not replayed, since the provider would refuse it."""
    standin.script("fail=eof after=1")
    first, broken = open_webui.admin.ask(MODEL, "one")
    _, answer = open_webui.admin.ask(MODEL, "two", after=first)
    assert broken["error"]["content"]["message"]
    assert "error" not in answer
    assert standin.responses[-1].status == 200


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 413, 500, 502, 524])
def test_every_refusal_is_one_clear_line(open_webui: OpenWebUI, standin: StandIn, status: int) -> None:
    """No secret, no markup, and never an empty answer."""
    standin.script({"do": f"error={status}", "times": 5})
    _, answer = open_webui.admin.ask(MODEL, "one")
    message = answer["error"]["content"]["message"]
    assert message
    assert "\n" not in message
    assert "sk-or" not in message


def test_without_a_key_the_line_says_what_to_do(open_webui: OpenWebUI) -> None:
    """The administrator is the one who asks, and nothing else is tried."""
    key = open_webui.admin.api.valves("openrouter")["API_KEY"]
    open_webui.admin.api.set_valves("openrouter", {"API_KEY": ""})
    try:
        _, answer = open_webui.admin.ask(MODEL, "one")
    finally:
        open_webui.admin.api.set_valves("openrouter", {"API_KEY": key})
    assert "Enter one in the function's valve API_KEY" in answer["error"]["content"]["message"]


def test_after_stop_the_chat_goes_on(open_webui: OpenWebUI, standin: StandIn) -> None:
    """The partial answer is part of the next request, and the connection to the provider was closed."""
    with open_webui.admin.session() as session:
        sent = open_webui.admin.send(SCRIPTED, "[[standin: slow=600]] count", session_id=session.id)
        session.wait_for("response:completion", count=20)
        open_webui.admin.stop(sent)
        partial = open_webui.admin.wait(sent)
    _, answer = open_webui.admin.ask(SCRIPTED, "go on", after=sent)
    assert text_of(partial)
    assert "error" not in answer
    assert types_of(sent_items(standin))[0] == "message"
    assert standin.responses[0].disconnected


def test_an_edited_function_takes_over_without_a_restart(open_webui: OpenWebUI) -> None:
    """Installing the same file again leaves a chat that goes on."""
    first, _ = open_webui.admin.ask(MODEL, "one")
    function = open_webui.admin.api.get("/api/v1/functions/id/openrouter")
    open_webui.admin.api.install_function("openrouter", "OpenRouter", function["content"] + "\n")
    _, answer = open_webui.admin.ask(MODEL, "two", after=first)
    assert "saw 4 input items" in answer["content"]
