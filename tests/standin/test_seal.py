"""How replayed reasoning is judged, end to end."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from scripts.standin.catalogue import BY_ID
from scripts.standin.rules import RULES
from tests.standin.client import CLOCK, WEATHER, Client, output, said, user

Item = dict[str, Any]

OPENAI, CLAUDE, GEMINI, RAW = (
    "openai/gpt-5.2",
    "anthropic/claude-sonnet-4.5",
    "google/gemini-3-flash",
    "standin/raw",
)
SEALING = (OPENAI, CLAUDE, GEMINI, "x-ai/grok-4.1-fast")
ANSWER = "[[standin: reasoning=summary items=2 text=Hm]]"
TOOLS = ANSWER + " [[standin: call=get_weather]] [[standin: rounds=2]]"
UNVERIFIED = "The encrypted content for item {id} could not be verified. Reason: "
UNSIGNED = "messages.1.content.0: Invalid `signature` in `thinking` block"
THINKING_LAST = "The final block in an assistant message cannot be `thinking`."
LACKS = "messages.1.content.0.thinking.signature: Field required"
SHOWN = "Invalid 'input[1].content': array too long."
LACKING = "Item '{id}' of type 'reasoning' was provided without its required following item."


def turn(client: Client, model: str, ask: str = ANSWER, **fields: Any) -> list[Item]:
    """A finished turn: user, r, r, answer; with tools user, r, r, call, output, r, r, call, output, r, r, answer."""
    items = [user(ask.replace("=summary", "=raw") if model in {CLAUDE, RAW} else ask)]
    while items[-1].get("type") != "message" or items[-1]["role"] == "user":
        items += (produced := client.done(items, model=model, tools=[WEATHER], **fields)["output"])
        items += [output(item) for item in produced if item["type"] == "function_call"]
        if fields:
            break
    return items


def refusal_of(client: Client, model: str, items: list[Item]) -> str:
    """The refusal of a request that continues these items; empty when accepted."""
    answer = client.post([*items, user("Go on")], model=model, tools=[WEATHER, CLOCK])
    assert answer.status_code in {200, 400}
    return "" if answer.status_code == 200 else said(answer)


@pytest.mark.parametrize("model", [*SEALING, RAW])
def test_a_turn_comes_back_as_it_was_or_without_any_reasoning(client: Client, model: str) -> None:
    """Turns are judged one by one, so that an earlier one may lack what a later one has; models of a family are one."""
    plain, tools, earlier = turn(client, model), turn(client, model, TOOLS), turn(client, model, TOOLS)
    bare = [item for item in earlier if item.get("type") != "reasoning"]
    assert [refusal_of(client, model, items) for items in (plain, tools, bare, [*bare, *tools])] == [""] * 4
    if model == OPENAI:
        assert refusal_of(client, "openai/gpt-5.6-sol", plain) == ""


@pytest.mark.parametrize("model", [OPENAI, CLAUDE])
@pytest.mark.parametrize(
    "change",
    [
        {"id": "rs_other"},
        {"summary": [{"type": "summary_text", "text": "Other"}]},
        {"content": [{"type": "reasoning_text", "text": "Other"}]},
        {"format": "unknown"},
        {"encrypted_content": None, "signature": None},
        {"encrypted_content": "unicode é", "signature": "é"},
    ],
)
def test_a_changed_item_is_refused(client: Client, model: str, change: Item) -> None:
    """Each sealed field counts."""
    items = turn(client, model)
    items[1] = {**items[1], **change}
    expected = [UNSIGNED, LACKS] if model == CLAUDE else [UNVERIFIED.format(id=items[1]["id"]), SHOWN]
    assert refusal_of(client, model, items).startswith(tuple(expected))


@pytest.mark.parametrize("model", SEALING)
def test_a_changed_seal_is_refused(client: Client, model: str) -> None:
    """Each flipped character, what is appended, another spelling of the same bytes, and another item's seal."""
    first, one, two, answer = turn(client, model)
    field = "signature" if model == CLAUDE else "encrypted_content"
    seal = one[field]
    flips = [
        (at, "A" if seal[at] != "A" else "B") for at in (0, 20, len(seal) // 2, len(seal) - 3, len(seal) - 1)
    ]
    changed = [seal[:at] + other + seal[at + 1 :] for at, other in flips]
    for each in [*changed, seal[:10] + "\n" + seal[10:], two[field]]:
        assert refusal_of(client, model, [first, {**one, field: each}, two, answer]) != ""


@pytest.mark.parametrize(
    ("issuer", "reader"), [(CLAUDE, OPENAI), (OPENAI, CLAUDE), (OPENAI, RAW), (RAW, CLAUDE)]
)
def test_reasoning_of_another_family_is_refused(client: Client, issuer: str, reader: str) -> None:
    """A change of the model's family needs the reasoning dropped."""
    assert refusal_of(client, reader, turn(client, issuer)) != ""


@pytest.mark.parametrize("model", SEALING)
def test_items_come_back_in_order_and_once(client: Client, model: str) -> None:
    """Another order and a doubled item are refused."""
    first, one, two, answer = turn(client, model)
    assert refusal_of(client, model, [first, two, one, answer]) != ""
    doubled = refusal_of(client, model, [first, one, one, two, answer])
    assert doubled.startswith(f"Duplicate item found with id {one['id']}.")


@pytest.mark.parametrize("keep", [(0, 1, 3), (0, 1, 2), (0, 3, 1, 2)])
def test_openai_requires_the_item_that_followed_reasoning(client: Client, keep: tuple[int, ...]) -> None:
    """The next reasoning or the answer; of a message, which may come back as plain text, place and role alone."""
    items = turn(client, OPENAI)
    assert refusal_of(client, OPENAI, [items[at] for at in keep]) in {
        LACKING.format(**items[at]) for at in (1, 2)
    }
    plain = {"role": "assistant", "content": items[3]["content"][0]["text"]}
    assert refusal_of(client, OPENAI, [*items[:3], plain]) == ""


def test_openai_requires_calls_pictures_and_an_end(client: Client) -> None:
    """A call or a picture that followed; OpenRouter's own items may go; a thought alone cannot come back."""
    tools = turn(client, OPENAI, TOOLS)
    assert refusal_of(client, OPENAI, [*tools[:3], *tools[5:]]) == LACKING.format(**tools[2])
    for kind, without in (("search", True), ("image", False)):
        first, thought, item, answer = turn(
            client, OPENAI, f"[[standin: reasoning=summary]] [[standin: {kind}=x]]"
        )
        assert refusal_of(client, OPENAI, [first, thought, item, answer]) == ""
        assert (refusal_of(client, OPENAI, [first, thought, answer]) == "") is without
    cut = turn(
        client,
        OPENAI,
        '[[standin: reasoning=summary text="so many thoughts, far too many of them, and they go on and on and on"]]',
        max_output_tokens=16,
    )
    assert refusal_of(client, OPENAI, cut) == LACKING.format(**cut[1])


@pytest.mark.parametrize("model", [CLAUDE, GEMINI])
def test_the_others_want_whole_turns_with_thinking_before_its_calls(client: Client, model: str) -> None:
    """One item missing among others that are kept is noticed, in either round, and so is one behind its call."""
    items = turn(client, model, TOOLS)
    for dropped in (1, 2, 5, 6):
        assert refusal_of(client, model, [item for at, item in enumerate(items) if at != dropped]) != ""
    first, one, two, call, result, *rest = items
    assert refusal_of(client, model, [first, call, one, two, result, *rest]) != ""
    assert refusal_of(client, model, [first, call, result, one, two, *rest]) != ""


@pytest.mark.parametrize("model", [CLAUDE, GEMINI])
@pytest.mark.parametrize("keep", [(0, 1, 2), (1, 2, 0, 3), (0, 1, 2, 4, 3)])
def test_reasoning_that_leads_to_nothing_is_refused(
    client: Client, model: str, keep: tuple[int, ...]
) -> None:
    """Neither a user's message nor the end may follow thinking."""
    items = [*turn(client, model), user("And then?")]
    assert refusal_of(client, model, [items[at] for at in keep]) == THINKING_LAST


def test_seals_are_sent_as_each_provider_does(client: Client) -> None:
    """Encrypted content on request, signatures always, and hidden thinking of Claude, which has no text, encrypted."""
    shown = []
    for model, ask, fields in (
        (OPENAI, ANSWER, {}),
        (CLAUDE, ANSWER.replace("summary", "raw"), {}),
        (CLAUDE, "[[standin: reasoning=encrypted]]", {"include": ["reasoning.encrypted_content"]}),
    ):
        produced = client.post(ask, model=model, **fields).json()["output"]
        shown.append({"encrypted_content", "signature"} & produced[0].keys())
    assert shown == [set(), {"signature"}, {"encrypted_content"}]
    assert refusal_of(client, CLAUDE, [user("[[standin: reasoning=encrypted]]"), *produced]) == ""


def test_gemini_takes_signatures_of_the_provider_that_made_them(client: Client) -> None:
    """Without a word of why; a conversation stays with its provider for ten minutes, and each new one gets another."""
    items = turn(client, GEMINI, TOOLS)
    assert refusal_of(client, GEMINI, items) == ""
    for only, refused in (("google", False), ("google-ai-studio", True)):
        answer = client.post(
            [*items, user("Go on")], model=GEMINI, tools=[WEATHER], provider={"only": [only]}
        )
        assert answer.status_code == (400 if refused is (provider_of(items) == "Google") else 200)
        if answer.status_code == 400:
            assert answer.json()["error"]["metadata"].keys() == {"provider_name", "is_byok"}
    served = [client.standin.serving(BY_ID[GEMINI], name, ["A", "B"]) for name in ("x", "y", "x", "y")]
    assert sorted(served[:2]) == ["A", "B"]
    assert served[:2] == served[2:]
    client.standin.advance(601)
    assert client.standin.serving(BY_ID[GEMINI], "x", ["C"]) == "C"


def provider_of(items: list[Item]) -> str:
    """Who has sealed the reasoning among these items."""
    seal = next(item["encrypted_content"] for item in items if item.get("type") == "reasoning")
    named = json.loads(base64.b64decode(seal.partition(".")[2] + "=="))["endpoint_slug"]
    return {"google": "Google"}.get(named.partition("|")[2], "another")


def test_gemini_wants_the_signatures_of_its_last_turn(client: Client) -> None:
    """An earlier turn may lack all of them; a turn in which it did not think has none."""
    items = turn(client, GEMINI, TOOLS)
    bare = [item for item in items if item.get("type") != "reasoning"]
    post = [*bare[:3], user("Go on")]
    assert client.post(post, model=GEMINI, tools=[WEATHER]).status_code == 200
    answer = client.post(bare[:3], model=GEMINI, tools=[WEATHER])
    assert said(answer).startswith("Function call is missing a thought_signature in functionCall parts.")
    quiet = [user(TOOLS.replace("reasoning=summary items=2 text=Hm", "rounds=2"))]
    fields = {"model": GEMINI, "tools": [WEATHER], "reasoning": {"effort": "none"}}
    call = client.done(quiet, **fields)["output"][0]
    assert client.post([*quiet, call, output(call)], **fields).status_code == 200


@pytest.mark.parametrize(
    ("change", "hint"), [({"instructions": "Be kind."}, True), ({"input": "Another question"}, False)]
)
def test_claudes_thinking_is_bound(client: Client, change: Item, hint: bool) -> None:  # noqa: FBT001 - a row's cell
    """To the system prompt, and to the conversation, which its first question names."""
    items = turn(client, CLAUDE)
    if "input" in change:
        items = [user(change["input"]), *items[1:]]
    answer = client.post(
        [*items, user("Go on")], model=CLAUDE, **{**change, "input": [*items, user("Go on")]}
    )
    words = said(answer)
    assert words.startswith(f"{UNSIGNED}. The block is bound to a different conversation.")
    assert words.endswith("The `system` prompt differs from the one this block was created with.") is hint


@pytest.mark.parametrize("maker", ["openai", "anthropic", "google", "x-ai"])
@pytest.mark.parametrize("kind", ["unsigned", "unspelled", "foreign", "damaged", "alone", "partial"])
def test_every_trouble_is_refused_by_every_maker(kind: str, maker: str) -> None:
    """Each has words for it, its own or those of any."""
    assert any(kind in rule.names and rule.makers & {maker, "any"} for rule in RULES)


def test_deepseek_wants_what_it_thought_before_each_call_of_the_turn(client: Client) -> None:
    """A later turn may lack it."""
    model = "deepseek/deepseek-v3.2"
    ask = TOOLS.replace("=summary", "=raw")
    items = [user(ask), *(made := client.done(ask, model=model, tools=[WEATHER])["output"]), output(made[-1])]
    assert client.post(items, model=model, tools=[WEATHER]).status_code == 200
    bare = [item for item in items if item.get("type") != "reasoning"]
    assert client.post(bare, model=model, tools=[WEATHER]).status_code == 400
    off = {"effort": "none"}
    assert client.post(bare, model=model, tools=[WEATHER], reasoning=off).status_code == 200
    assert client.post([*bare, user("Go on")], model=model, tools=[WEATHER]).status_code == 200
