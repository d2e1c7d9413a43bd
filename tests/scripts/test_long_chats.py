"""The benchmark of long chats: its bills, and the real pipe on its stage."""

from __future__ import annotations

from scripts.benchmarks._chats import agent_chat, message
from scripts.benchmarks.long_chats import MARKETS, Sent, billed, piped, reader


def test_a_bill_counts_what_is_read_and_what_summaries_say() -> None:
    """Without a cache a token of input costs one base token, and one of a summary three at these prices."""
    body = {"input": [message("user", "word " * 5_000)]}
    tokens = reader().read(body, {}).tokens
    assert billed([Sent(body), Sent(body, summary_tokens=1_000)], MARKETS["no_cache"]) == {
        "cost_kilotokens": round((2 * tokens + 3_000) / 1_000),
        "of_which_summaries": round((tokens + 3_000) / 1_000),
        "dollars": round((2 * tokens + 3_000) * 2e-6, 3),
        "summaries": 1,
        "answers": 1,
        "average_context_tokens": tokens,
        "largest_context_tokens": tokens,
        "cached_share": 0.0,
    }


def test_the_pipe_plays_its_part() -> None:
    """Each turn of the chat takes four requests of the real pipe, and the last one holds the chat."""
    chat = agent_chat(2)
    sent = piped(chat, MARKETS["no_cache"], CONTEXT_STRATEGY="prune")
    assert [each.summary_tokens for each in sent] == [0] * 8
    items = sent[-1].body["input"]
    asked = [item["content"][0]["text"] for item in items if item.get("role") == "user"]
    assert asked == [turn.text for turn in chat.turns]
    outputs = [item["output"] for item in items if item["type"] == "function_call_output"]
    assert outputs == list(chat.outputs().values())
