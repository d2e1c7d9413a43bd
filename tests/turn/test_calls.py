"""Calls get ids that are unique within a conversation, and the names that the host knows."""

from __future__ import annotations

from collections.abc import Iterable

from open_webui_openrouter_pipe.responses.items import FunctionCall, OpaqueItem, Reasoning
from open_webui_openrouter_pipe.turn.round import RoundCalls


def call(call_id: str, name: str = "f") -> FunctionCall:
    return FunctionCall(type="function_call", call_id=call_id, name=name, arguments="{}")


def round_calls(taken: Iterable[str] = ()) -> RoundCalls:
    return RoundCalls(taken, host_names={"a_b": "a.b"}, new_id=lambda: "NEW")


def test_a_taken_id_is_replaced_by_the_same_new_id_each_time() -> None:
    """The host would take a repeated id for a call that it has already run."""
    calls = round_calls(["call_0"])
    items = [(0, "call_0"), (1, "call_1"), (0, "call_0")]
    assert [calls.for_host(index, call(name)) for index, name in items] == [
        call("call_NEW"),
        call("call_1"),
        call("call_NEW"),
    ]


def test_two_calls_of_one_round_never_share_an_id() -> None:
    """An id that a provider repeats within one response is replaced too."""
    calls = round_calls()
    assert [calls.for_host(0, call("a")), calls.for_host(1, call("a"))] == [call("a"), call("call_NEW")]


def test_a_renamed_tool_gets_the_hosts_name() -> None:
    """The host finds its tool by the name that it gave."""
    assert round_calls().for_host(0, call("c", "a_b")) == call("c", "a.b")


def test_items_that_are_not_calls_stay_the_same_object() -> None:
    """Reasoning and messages have neither an id of a call nor a name."""
    thought = Reasoning(type="reasoning", id="rs", summary=[])
    assert round_calls().for_host(0, thought) is thought


def test_an_output_of_a_hosted_tool_keeps_the_id_of_its_call() -> None:
    """Hosted tools answer within the response; the pair stays a pair, replaced or not."""
    calls = round_calls(["taken"])
    given = [("shell_call", "taken"), ("shell_call_output", "taken"), ("shell_call", "free")]
    items = [*given, ("shell_call_output", "free")]
    ids = [
        calls.for_host(index, OpaqueItem(type=kind, call_id=call_id))  # type: ignore[typeddict-unknown-key]
        for index, (kind, call_id) in enumerate(items)
    ]
    assert [dict(item)["call_id"] for item in ids] == ["call_NEW", "call_NEW", "free", "free"]


def test_own_ids_name_the_artifacts_of_calls() -> None:
    """The same id at each sight of a call, with the phase of the text before it; the store gets the provider's."""
    ulids = iter(["0000000000000000000A", "0000000000000000000B"])
    calls = RoundCalls([], host_names={}, new_id=lambda: next(ulids), own_ids=True)
    unnamed = FunctionCall({"type": "function_call", "name": "f", "arguments": ""})  # type: ignore[typeddict-item]
    first = [calls.for_host(0, unnamed), calls.for_host(0, call("call_0"))]
    calls.phase = "commentary"
    second = calls.for_host(1, call("call_0"))
    assert [dict(item)["call_id"] for item in (*first, second)] == [
        *["call_0000000000000000000A"] * 2,
        "call_0000000000000000000B_commentary",
    ]
    assert calls.ulids == {0: "0000000000000000000A", 1: "0000000000000000000B"}
    assert calls.for_store(1, second, call("call_0")) == call("call_0")


def test_own_ids_are_for_function_calls_alone() -> None:
    """The host hands back no others."""
    calls = RoundCalls([], host_names={}, new_id=lambda: "NEW", own_ids=True)
    shell = OpaqueItem(type="shell_call", call_id="free")  # type: ignore[typeddict-unknown-key]
    assert calls.for_host(0, shell) is shell
    assert calls.for_store(0, shell, shell) is shell
