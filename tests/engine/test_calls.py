"""Calls get ids that are unique within a conversation, and the names that the host knows."""

from __future__ import annotations

from collections.abc import Iterable

from open_webui_openrouter_pipe.engine.round import RoundCalls
from open_webui_openrouter_pipe.responses.items import FunctionCall, OpaqueItem, Reasoning


def call(call_id: str, name: str = "f") -> FunctionCall:
    return FunctionCall(type="function_call", call_id=call_id, name=name, arguments="{}")


def calls(taken: Iterable[str] = ()) -> RoundCalls:
    return RoundCalls(taken, names=lambda name: {"a_b": "a.b"}.get(name, name), new_id=lambda: "NEW")


def test_a_taken_id_is_replaced_and_stays_so_for_its_item() -> None:
    """The host would take a repeated id for a call that it has already run."""
    settled = calls(["call_0"])
    given = [(0, "call_0"), (1, "call_1"), (0, "call_0")]
    assert [settled.settle(index, call(name)) for index, name in given] == [
        call("call_NEW"),
        call("call_1"),
        call("call_NEW"),
    ]


def test_two_calls_of_one_round_never_share_an_id() -> None:
    """A provider that repeats an id within a response is mended too."""
    settled = calls()
    assert [settled.settle(0, call("a")), settled.settle(1, call("a"))] == [call("a"), call("call_NEW")]


def test_a_changed_name_is_changed_back() -> None:
    """The host finds its tool by the name that it gave."""
    assert calls().settle(0, call("c", "a_b")) == call("c", "a.b")


def test_other_items_pass_untouched() -> None:
    """Reasoning and messages have neither."""
    thought = Reasoning(type="reasoning", id="rs", summary=[])
    assert calls().settle(0, thought) is thought


def test_an_output_of_the_provider_keeps_the_id_of_its_call() -> None:
    """Hosted tools answer within the response; the pair stays a pair, replaced or not."""
    settled = calls(["taken"])
    given = [("shell_call", "taken"), ("shell_call_output", "taken"), ("shell_call", "free")]
    items = [*given, ("shell_call_output", "free")]
    ids = [
        settled.settle(index, OpaqueItem(type=kind, call_id=call_id))  # type: ignore[typeddict-unknown-key]
        for index, (kind, call_id) in enumerate(items)
    ]
    assert [dict(item)["call_id"] for item in ids] == ["call_NEW", "call_NEW", "free", "free"]
