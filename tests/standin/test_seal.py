"""How replayed reasoning is judged, end to end."""

from __future__ import annotations

from typing import Any

import pytest

from scripts.standin.seal import THINKING_LAST
from tests.standin.client import CLOCK, WEATHER, Client, output, user

Item = dict[str, Any]

OPENAI, CLAUDE, GEMINI, RAW = (
    "openai/gpt-5.2",
    "anthropic/claude-sonnet-4.5",
    "google/gemini-3-flash",
    "standin/raw",
)
SEALING = (OPENAI, CLAUDE, GEMINI, "x-ai/grok-4.1-fast")
ANSWER = "[[standin: reasoning=summary items=2 text=Hm]]"
TOOLS = "[[standin: reasoning=summary items=2 text=Hm]] [[standin: call=get_weather]] [[standin: rounds=2]]"
UNVERIFIED = {
    OPENAI: "The encrypted content for item {id} could not be verified. "
    "Reason: Encrypted content could not be decrypted or parsed.",
    CLAUDE: "Invalid signature in thinking block",
}


def asked(model: str, ask: str) -> str:
    """The order in the model's own way of reasoning."""
    return ask.replace("=summary", "=raw") if model in {CLAUDE, RAW} else ask


def answered(client: Client, model: str) -> list[Item]:
    """A finished turn: user message, two reasoning items, the answer."""
    first = user(asked(model, ANSWER))
    return [first, *client.done([first], model=model)["output"]]


def tool_turn(client: Client, model: str) -> list[Item]:
    """A turn of two rounds: user, r, r, call, output, r, r, call, output, r, r, answer."""
    items = [user(asked(model, TOOLS))]
    for _ in range(3):
        produced = client.done(items, model=model, tools=[WEATHER])["output"]
        items += produced
        items += [output(item) for item in produced if item["type"] == "function_call"]
    return items


def refusal_of(client: Client, model: str, items: list[Item]) -> str:
    """The refusal of a request that continues these items; empty when accepted."""
    answer = client.post([*items, user("Go on")], model=model, tools=[WEATHER, CLOCK])
    if answer.status_code == 200:
        return ""
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["code"] == 400
    assert error["metadata"]["provider_name"] in {"OpenAI", "Anthropic", "Google", "xAI", "DeepSeek"}
    return str(error["message"])


@pytest.mark.parametrize("model", [*SEALING, RAW])
def test_a_turn_comes_back_as_it_was(client: Client, model: str) -> None:
    """Answers and tool turns are accepted unchanged, a raw model's unsealed reasoning too."""
    assert refusal_of(client, model, answered(client, model)) == ""
    assert refusal_of(client, model, tool_turn(client, model)) == ""


@pytest.mark.parametrize("model", [*SEALING, RAW])
def test_a_turn_comes_back_without_any_reasoning(client: Client, model: str) -> None:
    """A turn may omit all of its reasoning."""
    bare = [item for item in tool_turn(client, model) if item.get("type") != "reasoning"]
    assert refusal_of(client, model, bare) == ""


@pytest.mark.parametrize("model", [OPENAI, CLAUDE])
@pytest.mark.parametrize(
    "change",
    [
        {"id": "rs_other"},
        {"summary": [{"type": "summary_text", "text": "Other"}]},
        {"content": [{"type": "reasoning_text", "text": "Other"}]},
        {"format": "unknown"},
        {"encrypted_content": None, "signature": None},
        {"encrypted_content": "gAAAAA==", "signature": "gAAAAA=="},
        {"encrypted_content": "unicode é", "signature": "é"},
    ],
)
def test_a_changed_item_is_refused(client: Client, model: str, change: Item) -> None:
    """Each sealed field counts."""
    items = answered(client, model)
    items[1] = {**items[1], **change}
    assert refusal_of(client, model, items) == UNVERIFIED[model].format(id=items[1]["id"])


@pytest.mark.parametrize("model", SEALING)
def test_each_flipped_character_of_a_seal_is_refused(client: Client, model: str) -> None:
    """The token, its spelling and what is appended to it."""
    items = answered(client, model)
    field = "signature" if model == CLAUDE else "encrypted_content"
    seal = items[1][field]
    for at in (0, 20, len(seal) // 2, len(seal) - 3, len(seal) - 1):
        changed = seal[:at] + ("A" if seal[at] != "A" else "B") + seal[at + 1 :]
        assert refusal_of(client, model, [items[0], {**items[1], field: changed}, *items[2:]]) != ""


def test_another_spelling_of_a_seal_is_refused(client: Client) -> None:
    """Base64 that decodes to the same bytes is still a change."""
    first, one, *rest = answered(client, CLAUDE)
    spelt = {**one, "signature": one["signature"][:10] + "\n" + one["signature"][10:]}
    assert refusal_of(client, CLAUDE, [first, spelt, *rest]) == UNVERIFIED[CLAUDE]


def test_another_item_s_seal_is_refused(client: Client) -> None:
    """Seals belong to their items."""
    items = answered(client, OPENAI)
    items[1] = {**items[1], "encrypted_content": items[2]["encrypted_content"]}
    assert refusal_of(client, OPENAI, items) == UNVERIFIED[OPENAI].format(id=items[1]["id"])


@pytest.mark.parametrize(
    ("issuer", "reader"), [(CLAUDE, OPENAI), (OPENAI, CLAUDE), (OPENAI, RAW), (RAW, CLAUDE)]
)
def test_reasoning_of_another_family_is_refused(client: Client, issuer: str, reader: str) -> None:
    """A change of the model's family needs the reasoning dropped."""
    assert refusal_of(client, reader, answered(client, issuer)) != ""


def test_reasoning_of_another_model_of_the_family_is_accepted(client: Client) -> None:
    """Seals hold within a family."""
    assert refusal_of(client, "openai/gpt-5.6-sol", answered(client, OPENAI)) == ""


@pytest.mark.parametrize("model", SEALING)
def test_reordered_items_are_refused(client: Client, model: str) -> None:
    """Reasoning comes back in the order in which it was issued."""
    first, one, two, answer = answered(client, model)
    assert refusal_of(client, model, [first, two, one, answer]) != ""


@pytest.mark.parametrize("model", SEALING)
def test_the_same_item_twice_is_refused(client: Client, model: str) -> None:
    """A doubled item is named."""
    first, one, two, answer = answered(client, model)
    assert (
        refusal_of(client, model, [first, one, one, two, answer])
        == f"Duplicate item found with id {one['id']}."
    )


@pytest.mark.parametrize(
    "keep",
    [
        pytest.param((0, 1, 3), id="without the next reasoning"),
        pytest.param((0, 1, 2), id="without the answer"),
        pytest.param((0, 3, 1, 2), id="after the answer"),
    ],
)
def test_openai_requires_the_item_that_followed_reasoning(client: Client, keep: tuple[int, ...]) -> None:
    """Whatever directly followed an item has to follow it again."""
    items = answered(client, OPENAI)
    message = refusal_of(client, OPENAI, [items[at] for at in keep])
    assert message.endswith("of type 'reasoning' was provided without its required following item.")


def test_openai_requires_the_call_that_followed_reasoning(client: Client) -> None:
    """Reasoning without the call that it led to is half a turn."""
    items = tool_turn(client, OPENAI)
    message = refusal_of(client, OPENAI, [*items[:3], *items[5:]])
    assert message == (
        f"Item '{items[2]['id']}' of type 'reasoning' was provided without its required following item."
    )


def test_openai_accepts_a_message_with_another_id(client: Client) -> None:
    """Only its place and role count, so an answer may come back as plain text."""
    *items, answer = answered(client, OPENAI)
    plain = {"role": "assistant", "content": answer["content"][0]["text"]}
    assert refusal_of(client, OPENAI, [*items, plain]) == ""


def test_server_tools_do_not_count_as_following_items(client: Client) -> None:
    """OpenRouter's own items may be kept or omitted; the provider never saw them."""
    first = user("[[standin: reasoning=summary]] [[standin: search=x kind=server]]")
    produced = client.done([first], model=OPENAI)["output"]
    assert refusal_of(client, OPENAI, [first, *produced]) == ""
    assert refusal_of(client, OPENAI, [first, produced[0], produced[2]]) == ""


def test_native_searches_count_as_following_items(client: Client) -> None:
    """The provider's own search follows its reasoning."""
    first = user("[[standin: reasoning=summary]] [[standin: search=x kind=native]]")
    produced = client.done([first], model=OPENAI)["output"]
    assert refusal_of(client, OPENAI, [first, *produced]) == ""
    assert refusal_of(client, OPENAI, [first, produced[0], produced[2]]) != ""


def test_openai_refuses_reasoning_that_led_to_nothing(client: Client) -> None:
    """An answer that was interrupted within its reasoning cannot be replayed."""
    first = user('[[standin: reasoning=summary text="so many thoughts here"]]')
    produced = client.done([first], model=OPENAI, max_output_tokens=3)["output"]
    assert "required following item" in refusal_of(client, OPENAI, [first, *produced])


@pytest.mark.parametrize("model", [CLAUDE, GEMINI])
@pytest.mark.parametrize("dropped", [1, 2, 5, 6])
def test_a_tool_turn_keeps_all_its_reasoning_or_none(client: Client, model: str, dropped: int) -> None:
    """One item missing among others that are kept is noticed, in either round."""
    items = tool_turn(client, model)
    assert items[dropped]["type"] == "reasoning"
    assert refusal_of(client, model, [item for at, item in enumerate(items) if at != dropped]) != ""


@pytest.mark.parametrize("model", [CLAUDE, GEMINI])
def test_turns_are_judged_one_by_one(client: Client, model: str) -> None:
    """An earlier turn without reasoning, a later one with it."""
    bare = [item for item in tool_turn(client, model) if item.get("type") != "reasoning"]
    assert refusal_of(client, model, [*bare, *tool_turn(client, model)]) == ""


@pytest.mark.parametrize("model", [CLAUDE, GEMINI])
def test_reasoning_after_its_call_is_refused(client: Client, model: str) -> None:
    """Thinking comes before the call that it led to."""
    items = tool_turn(client, model)
    first, one, two, call, result, *rest = items
    assert refusal_of(client, model, [first, call, one, two, result, *rest]) != ""
    assert refusal_of(client, model, [first, call, result, one, two, *rest]) != ""


@pytest.mark.parametrize("model", [CLAUDE, GEMINI])
@pytest.mark.parametrize("keep", [(0, 1, 2), (1, 2, 0, 3), (0, 1, 2, 4, 3)])
def test_reasoning_that_leads_to_nothing_is_refused(
    client: Client, model: str, keep: tuple[int, ...]
) -> None:
    """Neither a user's message nor the end may follow thinking."""
    items = [*answered(client, model), user("And then?")]
    assert refusal_of(client, model, [items[at] for at in keep]) == THINKING_LAST


def test_encrypted_content_is_sent_only_on_request(client: Client) -> None:
    """Without ``include`` a client gets reasoning that it cannot send back; signatures always come."""
    seals = {}
    for model in (OPENAI, CLAUDE):
        produced = client.post(asked(model, ANSWER), model=model).json()["output"][0]
        seals[model] = {"encrypted_content", "signature"} & produced.keys()
    assert seals == {OPENAI: set(), CLAUDE: {"signature"}}


def test_hidden_thinking_of_claude_is_encrypted(client: Client) -> None:
    """Redacted thinking has no text to sign."""
    first = user("[[standin: reasoning=encrypted]]")
    produced = client.done([first], model=CLAUDE)["output"]
    assert {"encrypted_content", "signature"} & produced[0].keys() == {"encrypted_content"}
    assert refusal_of(client, CLAUDE, [first, *produced]) == ""
