"""The benchmark of long chats: its bills, and the real pipe on its stage."""

from __future__ import annotations

from dataclasses import replace

from scripts.benchmarks._chats import agent_chat
from scripts.benchmarks.long_chats import MARKETS, billed, piped


def test_the_pipe_plays_its_part_and_its_requests_are_billed() -> None:
    """Each turn of the chat takes four requests of the real pipe, and the last one holds the chat.

    Without a cache a token of input costs one base token; of a summary what it says counts, too, three times as much.
    """
    chat = agent_chat(2)
    sent = piped(chat, MARKETS["no_cache"], CONTEXT_STRATEGY="prune")
    assert [each.is_summary for each in sent] == [False] * 8
    items = sent[-1].body["input"]
    asked = [item["content"][0]["text"] for item in items if item.get("role") == "user"]
    assert asked == [turn.text for turn in chat.turns]
    outputs = [item["output"] for item in items if item["type"] == "function_call_output"]
    assert outputs == list(chat.outputs().values())
    usages = [each.usage or {} for each in sent]
    *tokens, last = (usage["input_tokens"] for usage in usages)
    summary = last + 3 * usages[-1]["output_tokens"]
    assert billed([*sent[:-1], replace(sent[-1], is_summary=True)], MARKETS["no_cache"]) == {
        "cost_kilotokens": round((sum(tokens) + summary) / 1_000),
        "of_which_summaries": round(summary / 1_000),
        "dollars": round((sum(tokens) + summary) * 2e-6, 3),
        "summaries": 1,
        "answers": 7,
        "average_context_tokens": round(sum(tokens) / 7),
        "largest_context_tokens": max(tokens),
        "cached_share": 0.0,
    }
