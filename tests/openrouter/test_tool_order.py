"""Tools: the same ones are the same bytes, whatever order they and their keys come in."""

from __future__ import annotations

import json
import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from open_webui_openrouter_pipe.openrouter.fields import in_order_of_keys
from open_webui_openrouter_pipe.openrouter.request import Composer

SEARCH = {"type": "openrouter:web_search", "parameters": {"max_results": 5, "engine": "exa"}}
FETCH = {"type": "openrouter:web_fetch", "parameters": {"max_uses": 5}}


def function(name: str, **parameters: Any) -> dict[str, Any]:
    """A function as the host passes it."""
    return {"type": "function", "function": {"name": name, "description": name, "parameters": parameters}}


def sent(*tools: Any, **parameters: Any) -> dict[str, Any]:
    """The body that is sent with these tools."""
    given = {"tools": list(tools), **parameters}
    return dict(Composer(given, model=None, model_id="a/m").build([]).body)


def shuffled(value: Any, chance: random.Random) -> Any:
    """The same JSON with the keys of all objects in another order."""
    if isinstance(value, list):
        return [shuffled(each, chance) for each in value]
    if not isinstance(value, dict):
        return value
    names = list(value)
    chance.shuffle(names)
    return {name: shuffled(value[name], chance) for name in names}


NAMES = st.sampled_from(["a", "b", "c", "properties", "required", "default", "type", "é"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=5,
)


def _objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    properties = st.dictionaries(NAMES, inner, min_size=1, max_size=4)
    required = st.lists(NAMES, max_size=3, unique=True)
    fields = {"type": st.just("object"), "properties": properties, "required": required}
    return st.fixed_dictionaries(fields, optional={"default": VALUES, "$defs": properties, "anyOf": VALUES})


SCHEMAS = st.recursive(st.just({"type": "string", "enum": ["x", "y"]}), _objects, max_leaves=6)


@given(st.lists(SCHEMAS, min_size=1, max_size=4), st.randoms())
def test_the_same_tools_are_the_same_bytes(schemas: list[Any], chance: random.Random) -> None:
    """Any order of the tools, and any order of the keys in them, is sent alike."""
    tools = [function(f"tool_{at}", **schema) for at, schema in enumerate(schemas)] + [SEARCH, FETCH]
    others = [shuffled(tool, chance) for tool in tools]
    chance.shuffle(others)
    assert json.dumps(sent(*others)) == json.dumps(sent(*tools))


@given(SCHEMAS)
def test_the_order_changes_nothing_that_is_said(schema: Any) -> None:
    """As JSON, the schema is equal to what the host passed; ordered once more, it is the same to the byte."""
    ordered = in_order_of_keys(schema)
    assert ordered == schema
    assert json.dumps(in_order_of_keys(ordered)) == json.dumps(ordered)


def test_a_model_reads_required_properties_first_and_as_their_list_names_them() -> None:
    """It writes its arguments in this order, and the list is the one place where an author can state one."""
    properties: dict[str, Any] = {"z": {}, "a": {}, "required": {}, "reasons": {}, "answer": {}}
    ordered = in_order_of_keys(
        {"type": "object", "required": ["reasons", "answer", "absent"], "properties": properties}
    )
    assert list(ordered["properties"]) == ["reasons", "answer", "a", "required", "z"]


def test_server_tools_stand_behind_the_functions() -> None:
    """They have a fixed place, so that a search that is switched on leaves the functions before it as they were."""
    body = sent(SEARCH, function("look"), FETCH, function("ask"))
    assert [tool.get("name", tool["type"]) for tool in body["tools"]] == [
        "ask",
        "look",
        "openrouter:web_fetch",
        "openrouter:web_search",
    ]


def test_of_two_functions_of_one_name_the_same_is_sent() -> None:
    """Whichever the host names first."""
    first, second = function("look", type="object", title="1"), function("look", type="object", title="2")
    assert sent(first, second) == sent(second, first)
    assert len(sent(first, second)["tools"]) == 1


def test_a_choice_holds_by_its_name() -> None:
    """What is chosen or omitted is found wherever it stands."""
    tools = [function("b"), function("a"), function("c")]
    chosen = {"type": "function", "function": {"name": "b"}}
    composer = Composer({"tools": tools, "tool_choice": chosen}, model=None, model_id="a/m")
    assert [tool["name"] for tool in composer.build([], omitted_tools={"a"}).body["tools"]] == ["b", "c"]
    assert composer.build([], omitted_tools={"a"}).body["tool_choice"]["name"] == "b"
    assert "tool_choice" not in composer.build([], omitted_tools={"b"}).body
