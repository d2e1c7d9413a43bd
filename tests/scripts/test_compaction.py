"""The benchmark of long chats: its bills, its rivals, and the real pipe on its stage."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

from scripts.benchmarks import compaction
from scripts.benchmarks._chats import Chat, agent_chat, message
from scripts.benchmarks._stage import Sent, asks_for_summary, piped

MODEL = compaction.MARKETS["no_cache"]


def requests(chat: Chat, policy: compaction.Policy) -> list[Sent]:
    """What a policy sends."""
    sent: list[Sent] = []
    policy(chat, sent.append)
    return sent


def questions(sent: Sent, chat: Chat) -> list[int]:
    """The turns whose questions a request holds, word for word."""
    texts = [item["content"][0]["text"] for item in sent.body["input"] if item.get("role") == "user"]
    return [number for number, turn in enumerate(chat.turns) if turn.text in texts]


def test_a_bill_counts_what_is_read_and_what_summaries_say() -> None:
    """Without a cache a token of input costs one base token, and one of a summary three at these prices."""
    ledger = compaction.Ledger({"no_cache": MODEL})
    body = {"input": [message("user", "word " * 5_000)]}
    tokens = compaction.reader().read(body, {}).tokens
    ledger.pay(Sent(body))
    ledger.pay(Sent(body, summary_tokens=1_000))
    assert ledger.amounts()["no_cache"] == {
        "cost_kilotokens": round((2 * tokens + 3_000) / 1_000),
        "of_which_summaries": round((tokens + 3_000) / 1_000),
        "dollars": round((2 * tokens + 3_000) * 2e-6, 3),
        "summaries": 1,
        "answers": 1,
        "average_context_tokens": tokens,
        "largest_context_tokens": tokens,
        "cached_share": 0.0,
    }


def test_truncation_drops_the_oldest_turns() -> None:
    """Every request fits the budget, and none drops a turn that would have fitted."""
    chat = agent_chat(20)
    sent = requests(chat, compaction.truncated)
    sizes = [compaction.reader().read(each.body, {}).tokens for each in sent]
    kept = [questions(each, chat) for each in sent]
    assert [numbers[-1] for numbers in kept] == [at // 4 for at in range(80)]
    assert all(numbers == list(range(numbers[0], numbers[-1] + 1)) for numbers in kept)
    assert max(sizes) <= 105_216
    assert min(size for size, numbers in zip(sizes, kept, strict=True) if numbers[0]) > 105_216 - 8_000


def test_resummarizing_asks_again_on_every_turn() -> None:
    """Over 100,000 tokens each turn begins with a summary, and holds its own turn and the four before."""
    chat = agent_chat(17)
    sent = requests(chat, compaction.resummarised)
    at = [number for number, each in enumerate(sent) if each.summary_tokens]
    assert [second - first for first, second in pairwise(at)] == [5] * (len(at) - 1)
    assert questions(sent[-1], chat) == [12, 13, 14, 15, 16]


def test_the_pipe_plays_its_part() -> None:
    """Each turn of the chat takes four requests of the real pipe, and the last one holds the chat."""
    chat = agent_chat(2)
    sent = requests(chat, partial(piped, model_id=MODEL, valves={"CONTEXT_STRATEGY": "prune"}))
    assert [each.summary_tokens for each in sent] == [0] * 8
    assert questions(sent[-1], chat) == [0, 1]
    outputs = [item["output"] for item in sent[-1].body["input"] if item["type"] == "function_call_output"]
    assert outputs == list(chat.outputs().values())


def test_both_kinds_of_summary_requests_are_known() -> None:
    """Open WebUI's prompt, and an instruction that names the five fields; a question is neither."""
    host = "### Task:\nSummarize the conversation history that will be compacted out."
    ours = "Answer with summary_text, key_facts, open_questions, decisions and action_items."
    bodies = [{"input": [message("user", text)]} for text in (host, ours, "Summarize the conversation.")]
    assert [asks_for_summary(body) for body in bodies] == [True, True, False]


def test_a_table_has_a_row_for_each_way() -> None:
    """Costs by market with the share of summaries, and what differs between the markets as a range."""
    totals: compaction.Amounts = {
        "cost_kilotokens": 1_200,
        "of_which_summaries": 30,
        "average_context_tokens": 50,
        "summaries": 2,
    }
    by_market = dict.fromkeys(compaction.MARKETS, totals) | {"no_cache": {**totals, "summaries": 4}}
    assert compaction.table({"summarize": by_market}).splitlines() == [
        "| way | anthropic | openai | deepseek | no_cache | average context | summaries |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        f"| summarize | {' | '.join(['1,200 (30)'] * 4)} | 50 | 2 to 4 |",
    ]
