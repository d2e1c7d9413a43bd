"""Laws that hold for every chat, however damaged. `HYPOTHESIS_PROFILE=full` tries the first on twenty thousand."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from open_webui_openrouter_pipe.conversation.conversation import KeptObjects
from open_webui_openrouter_pipe.errors import InvalidHistory
from open_webui_openrouter_pipe.history.artifacts import MissingArtifact
from open_webui_openrouter_pipe.history.calls import classify_function_call_artifacts
from open_webui_openrouter_pipe.history.parts import read_content
from open_webui_openrouter_pipe.history.reading import answers_without_items
from open_webui_openrouter_pipe.responses.values import as_object, clean_text
from tests.history import chats
from tests.history.builders import OPENAI, assert_valid, build, compact, ulid
from tests.support.cases import CHATS, SHARES

_MARKED = re.compile(r"\[([0-9A-Z]{20})\]: #")

law = settings(max_examples=CHATS, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("share", SHARES)
@law
@given(messages=chats.mutated(), artifacts=chats.artifacts, options=chats.options)
def test_every_chat_becomes_valid_input(share: int, messages: Any, artifacts: Any, options: Any) -> None:
    """Valid for the strict validator and the openai package, paired, without markers, and the same each time."""
    try:
        built = build(messages, artifacts, **options)
    except InvalidHistory:
        assert not any(isinstance(message, dict) and message.get("role") == "user" for message in messages)
        return
    assert_valid(built.items)
    classified = classify_function_call_artifacts(built.items)
    assert not classified.calls_without_output | classified.outputs_without_call
    stored = {ulid(number) for number, artifact in artifacts.items() if _exists(artifact)}
    quoted = {marked for text in _others(messages) for marked in _MARKED.findall(text)}
    assert not (stored - quoted) & {marked for said in _said(built.items) for marked in _MARKED.findall(said)}
    assert len(built.items) == len(built.turns) == len(built.origins)
    assert list(built.turns) == sorted(built.turns)
    assert compact(build(json.loads(json.dumps(messages)), artifacts, **options).items) == compact(
        built.items
    )


@law
@given(chats.mutated(), chats.mutated(), chats.artifacts, chats.options)
def test_what_a_worker_has_read_changes_nothing(
    messages: Any, others: Any, artifacts: Any, options: Any
) -> None:
    """A chat that goes on, was edited or is another's is read and built as if nothing had been read before."""
    keep = KeptObjects().of
    for chat in (messages, [*messages, *others], [*others[:2], *messages[2:], *others], messages):
        try:
            expected = build(chat, artifacts, **options)
        except InvalidHistory:
            continue
        built = build(chat, artifacts, **options, keep=keep)
        assert compact(built.items) == compact(expected.items)
        assert built == expected


@law
@given(chats.mutated(), chats.artifacts, chats.options)
def test_what_users_say_is_kept(messages: Any, artifacts: Any, options: Any) -> None:
    """Each user text that is not blank is sent whole, in its order, cleaned of what UTF-8 cannot hold."""
    wanted = [
        part["text"]
        for message in messages
        if isinstance(message, dict) and message.get("role") == "user"
        for part in read_content(message.get("content"))
        if part["type"] == "input_text"
    ]
    texts = [
        message["content"]
        for message in messages
        if isinstance(message, dict)
        and message.get("role") == "user"
        and isinstance(message.get("content"), str)
    ]
    if not wanted:
        return
    built = build(messages, artifacts, **options)
    sent = iter([part["text"] for item in built.items if item.get("role") == "user" for part in _texts(item)])
    assert all(text in sent for text in wanted)
    assert set(map(clean_text, filter(_is_visible, texts))) <= set(wanted)


@law
@given(st.lists(chats.turns(), min_size=2, max_size=5), chats.artifacts, chats.options)
def test_prefix_law(turns: Any, artifacts: Any, options: Any) -> None:
    """A longer chat's input begins with the bytes of the shorter one's.

    Of a turn whose reasoning is sent as long as it runs, and not behind a router or to another model, and of one whose
    calls are told in words as long as it runs, what was before.
    """
    whole = [message for turn in turns for message in turn]
    options |= {"without_items": answers_without_items(whole)}  # an older host's: they do not grow
    before = build([message for turn in turns[:-1] for message in turn], artifacts, **options)
    after = compact(build(whole, artifacts, **options).items)
    running = before.turns.index(before.turns[-1])
    has_reasoning = "reasoning" in {item["type"] for item in before.items[running:]}
    can_pass = options["model_id"] and (has_reasoning or before.in_words)
    assert can_pass or not before.has_passing_reasoning
    lasting = before.items[: running if before.has_passing_reasoning else None]
    assert after.startswith(compact(lasting).removesuffix("]"))


@law
@given(st.lists(chats.rounds(), min_size=2, max_size=5), st.sampled_from([OPENAI, "google/gemini-3", None]))
def test_rounds_law(rounds: Any, model_id: str | None) -> None:
    """Within a turn, too, the next round's request begins with the bytes of this one's."""
    shown = [[{"role": "user", "content": "q"}]]
    artifacts: dict[int, Any] = {}
    for number, written in enumerate(rounds):
        messages, stored = written(number)
        shown.append([*shown[-1], *messages])
        artifacts |= stored
    requests = [compact(build(chat, artifacts, model_id=model_id).items) for chat in shown]
    for now, then in pairwise(requests):
        assert then.startswith(now.removesuffix("]"))


def _exists(artifact: Any) -> bool:
    return not (isinstance(artifact, MissingArtifact) and artifact.kind is None)


def _said(items: Any) -> list[str]:
    return [
        part["text"]
        for item in items
        if item["type"] == "message" and item["role"] == "assistant"
        for part in item["content"]
    ]


def _others(messages: Any) -> list[str]:
    """All that is in messages that are nobody's answer."""
    found = [each for each in messages if isinstance(each, dict)]
    outputs = [each.get("output") for each in found]
    return [str(each) for each in (*found, *outputs) if as_object(each).get("role") != "assistant"]


def _texts(item: Any) -> list[Any]:
    return [part for part in item["content"] if part["type"] == "input_text"]


def _is_visible(text: str) -> bool:
    return bool(clean_text(text).strip())
