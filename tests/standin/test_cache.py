"""What a prompt costs: its blocks of tokens, the caches of the providers, and the bill."""

from __future__ import annotations

import hashlib
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from scripts.standin import catalogue
from scripts.standin.cache import CachedModel, CacheRule, Prices, PromptCache, Segment, Usage
from scripts.standin.prompt import (
    IMAGE_TOKENS,
    VOCABULARY_URL,
    ByteTokenizer,
    Prompt,
    PromptReader,
    conversation,
    local_tokenizer,
)
from scripts.standin.seal import Sealed
from tests.standin.client import CLOCK, Client, user
from tests.support.rows import rows

PRICES = Prices(Decimal(10), Decimal(40), Decimal(1), Decimal(12), Decimal(20))
AUTOMATIC = CachedModel("auto", PRICES, CacheRule("automatic", minimum_tokens=1024, block_tokens=128))
EXPLICIT = CachedModel("explicit", PRICES, CacheRule("explicit", minimum_tokens=1024, writes_billed=True))
HOUR = CachedModel("hour", PRICES, CacheRule("explicit", ttl_seconds=3600, writes_billed=True))
NONE = CachedModel("none", PRICES, CacheRule("none"))
TABLE = Path(__file__).with_name("cache.txt")
CLAUDE = "anthropic/claude-sonnet-4.5"
LONG = "word " * 4000


def text(tokens: int, *, first: int = 0, marked: bool = False) -> Segment:
    """A segment of running numbers."""
    return Segment(tuple(range(first, first + tokens)), breakpoint=marked)


def marked(tokens: int) -> Segment:
    """A segment that ends at a breakpoint."""
    return text(tokens, marked=True)


@pytest.mark.parametrize(
    ("model", "first", "second", "expected"),
    [
        (AUTOMATIC, [text(1500)], [text(1300), text(700, first=7000)], Usage(2000, 1280, 0, Decimal(7200 + 1280))),
        (AUTOMATIC, [text(1000), text(1000, first=1000)], [text(2000)], Usage(2000, 1920, 0, Decimal(800 + 1920))),
        (AUTOMATIC, [text(1023)], [text(1023)], Usage(1023, 0, 0, Decimal(10230))),
        (AUTOMATIC, [text(1024)], [text(1024)], Usage(1024, 1024, 0, Decimal(1024))),
        (EXPLICIT, [marked(2000)], [text(2000), marked(300), text(50)], Usage(2350, 2000, 300, Decimal(6100))),
        (EXPLICIT, [marked(2000)], [text(2000), *[text(10)] * 19, marked(10)], Usage(2200, 2000, 200, Decimal(4400))),
        (EXPLICIT, [marked(2000)], [text(2000), *[text(10)] * 20, marked(10)], Usage(2210, 0, 2210, Decimal(26520))),
        (EXPLICIT, [marked(2000), *[marked(10)] * 4], [marked(2000)], Usage(2000, 0, 2000, Decimal(24000))),
        (EXPLICIT, [text(2000)], [text(2000)], Usage(2000, 0, 0, Decimal(20000))),
        (HOUR, [text(1)], [marked(2000)], Usage(2000, 0, 2000, Decimal(40000))),
        (CachedModel("plain", Prices(Decimal(10))), [text(1024)], [text(1024)], Usage(1024, 1024, 0, Decimal(10240))),
        (NONE, [marked(5000)], [marked(5000)], Usage(5000, 0, 0, Decimal(50000))),
    ],
)  # fmt: skip
def test_a_second_request_reads_what_the_first_has_left(
    model: CachedModel, first: list[Segment], second: list[Segment], expected: Usage
) -> None:
    """Whole blocks of the common prefix; or a block's end up to twenty before one of the last four breakpoints."""
    cache = PromptCache()
    cache.account(model, "s", first, 0)
    assert cache.account(model, "s", second, 1) == expected
    assert cache.account(model, "t", second, 1).cached_tokens == 0


def test_entries_expire_and_reads_renew_them() -> None:
    """Five minutes after the last read or write, or an hour; with another key no block is known from it on."""
    for model, seconds in ((AUTOMATIC, 300), (HOUR, 3600)):
        cache = PromptCache()
        times = [0, seconds - 1, 2 * seconds - 2, 3 * seconds - 2]
        reads = [cache.account(model, "s", [marked(2048)], now).cached_tokens for now in times]
        assert reads == [0, 2048, 2048, 0]
    keyed = [
        [marked(2000), Segment(tuple(range(1000)), keyed_with=key), marked(500)]
        for key in (b"auto", b"auto", b"none", b"auto")
    ]
    assert [cache.account(HOUR, "s", each, 9_999).cached_tokens for each in keyed] == [0, 3500, 2000, 3500]


# --- prompts ---

READER = PromptReader(ByteTokenizer())
FORM = {"type": "json_schema", "name": "summary", "schema": {"type": "object"}}


def read(given: Any, slug: str = "", **fields: Any) -> Prompt:
    """The prompt of an input."""
    return READER.read({"input": given, **fields}, {}, catalogue.BY_ID.get(slug))


def test_the_order_is_tools_instructions_items() -> None:
    """A content part is a block of its own; a marked part, or the end by cache_control, is a breakpoint."""
    mark = {"prompt_cache_breakpoint": {"mode": "explicit"}}
    parts = [{"type": "input_text", "text": "a", **mark}, {"type": "input_text", "text": "b"}]
    message = {"role": "user", "content": parts}
    whole = read([message, user("c")], tools=[CLOCK], instructions="Be brief")
    pieces = [read([], tools=[CLOCK]), read([], instructions="Be brief"), read([message]), read([user("c")])]
    assert whole.segments == tuple(segment for piece in pieces for segment in piece.segments)
    assert [segment.breakpoint for segment in whole.segments] == [False, False, True, False, False]
    assert whole.tool_tokens == pieces[0].tokens
    assert read([message], cache_control={"type": "ephemeral"}).segments[-1].breakpoint


@pytest.mark.parametrize(
    ("slug", "index"), [("openai/gpt-5.2", 0), (CLAUDE, 1), ("deepseek/deepseek-v3.2", None)]
)
def test_the_form_of_an_answer_is_part_of_the_prompt(slug: str, index: int | None) -> None:
    """Before everything for OpenAI, behind the tools for Anthropic; plain text is no form."""
    plain, formed, bare = (
        [*read("Hi", slug, instructions="A", tools=[CLOCK], **fields).segments]
        for fields in ({"text": {"format": {"type": "text"}}}, {"text": {"format": FORM}}, {})
    )
    if index is not None:
        assert len(formed.pop(index).tokens) > 15
    assert plain == formed == bare


@pytest.mark.parametrize(
    ("fields", "others", "same"),
    rows(TABLE, "messages for Claude"),
)
def test_claude_knows_messages_by_choice_and_budget(fields: Any, others: Any, *, same: bool) -> None:
    """Of the effort the budget counts, which follows from the output limit too; tools and system have no key."""
    keys = []
    for chosen in (fields, others):
        body = {"instructions": "A", "tools": [CLOCK], **chosen}
        *before, message = (each.keyed_with for each in read("Hi", CLAUDE, **body).segments)
        assert not any(before)
        keys.append(message)
    assert (keys[0] == keys[1]) is same
    assert not any(each.keyed_with for each in read("Hi", "openai/gpt-5.2", **fields).segments)


def test_what_is_no_text_counts_by_rules() -> None:
    """Images by their number, files by their bytes, sealed reasoning by what it was billed, text in fours of bytes."""

    def tokens(**part: str) -> int:
        return read([{"role": "user", "content": [part]}]).tokens

    data = "data:image/png;base64,"
    small, large = (
        tokens(type="input_image", detail="auto", image_url=data + "A" * size) for size in (4, 400_000)
    )
    empty, file = (tokens(type="input_file", file_data="data:x;base64," + "A" * size) for size in (0, 32_000))
    assert (small == large > IMAGE_TOKENS, file - empty) == (True, 3000)
    item = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x" * 50_000}
    sealed = Sealed("rs_1", "openai", "e", 1, "digest", 77, None, (), ("", ""))
    assert READER.read({"input": [item]}, {"rs_1": sealed}).tokens == 77
    sizes = [len(ByteTokenizer().encode(each)) for each in ("", "a", "abcd", "abcde", "ééé")]
    assert sizes == [0, 1, 1, 2, 2]


def test_a_conversation_has_a_name() -> None:
    """The body's session id, the header, the cache key, or its first system and user texts."""
    body: dict[str, Any] = {"input": [user("Hi")], "prompt_cache_key": "b"}
    asked = (({**body, "session_id": "a"}, "c"), (body, "c"), (body, ""))
    assert [conversation(*each) for each in asked] == [*"acb"]
    named = [
        conversation({"input": [user(each) for each in texts], "instructions": system}, "")
        for texts, system in ((["Hi"], "A"), (["Hi", "More"], "A"), (["Ho"], "A"), (["Hi"], "B"))
    ]
    assert (named[0] == named[1], len(set(named))) == (True, 3)


def test_no_vocabulary_is_ever_downloaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without the file in the cache folder, or with a damaged one, the rule counts; special tokens are plain text."""
    assert len(local_tokenizer().encode("<|endoftext|>")) > 1
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    assert isinstance(local_tokenizer(), ByteTokenizer)
    (tmp_path / hashlib.sha1(VOCABULARY_URL.encode()).hexdigest()).write_bytes(b"damaged")
    assert isinstance(local_tokenizer(), ByteTokenizer)


# --- the bill ---


def billed(client: Client, **fields: Any) -> tuple[int, int]:
    """Tokens read from and written to the cache by one request."""
    details = client.done([user(LONG), user("Hi")], **fields)["usage"]["input_tokens_details"]
    return details["cached_tokens"], details.get("cache_write_tokens", 0)


BANDS, HOURS, OWN_KEY, NO_FEE = (
    catalogue.BY_ID[f"standin/{name}"] for name in ("bands", "hours", "own-key", "own-key-without-fee")
)
SATURDAY = 1_795_824_000
"""The 28th of November 2026, at midnight in UTC."""


@pytest.mark.parametrize(
    ("model", "tokens", "hour", "prompt", "completion"),
    [
        (BANDS, 4000, 0, "1", "4"),
        (BANDS, 4001, 0, "2", "6"),
        (HOURS, 1, 0, "1", "2"),
        (HOURS, 1, 0.5, "1", "8"),
        (HOURS, 1, 16.5, "1", "2"),
        (HOURS, 1, 47.99, "1", "2"),
        (HOURS, 1, 48.25, "1", "2"),
        (HOURS, 1, 48.5, "4", "8"),
        (HOURS, 1, 64.49, "4", "8"),
        (HOURS, 1, 64.5, "1", "2"),
    ],
)
def test_prices_depend_on_size_and_hour(
    model: catalogue.Model, tokens: int, hour: float, prompt: str, completion: str
) -> None:
    """From Saturday on: of long requests, from half past four to half past twelve at night, at the weekend."""
    prices = model.cached.prices_of(tokens, SATURDAY + hour * 3600)
    million = 1_000_000
    assert (prices.prompt * million, prices.completion * million) == (Decimal(prompt), Decimal(completion))


@pytest.mark.parametrize(
    ("model", "fee"), [(OWN_KEY, 0.05), (NO_FEE, 0.0), (catalogue.BY_ID["standin/plain"], None)]
)
def test_who_is_paid_what(client: Client, model: catalogue.Model, fee: float | None) -> None:
    """With a provider's own key, the provider is paid the price, and OpenRouter its fee; else all is in the cost."""
    usage = client.done([user("Hi")], model=model.id, include=[])["usage"]
    rates = model.rates["prompt"], model.rates["completion"]
    price = float(usage["input_tokens"] * rates[0] + usage["output_tokens"] * rates[1]) / 1e6
    upstream = usage["cost_details"]["upstream_inference_cost"]
    assert usage["is_byok"] is (fee is not None)
    assert (usage["cost"], upstream) == pytest.approx((price if fee is None else price * fee, price))


def test_a_long_request_costs_more_as_a_whole(client: Client) -> None:
    """Its output, too."""
    usage = client.done([user(LONG)], model=BANDS.id, include=[])["usage"]
    assert usage["input_tokens"] > 4000
    assert usage["cost"] == pytest.approx((usage["input_tokens"] * 2 + usage["output_tokens"] * 6) / 1e6)


def test_what_requests_choose_decides_what_is_cached(client: Client) -> None:
    """A session, explicit mode without breakpoints, and for Claude `cache_control` with the life of an entry."""
    first, second, elsewhere = (billed(client, session_id=name) for name in "aab")
    explicit: dict[str, Any] = {"model": "openai/gpt-5.6-sol", "prompt_cache_options": {"mode": "explicit"}}
    unmarked = [billed(client, **chosen) for chosen in (explicit, {"model": CLAUDE}) for _ in range(2)]
    assert [first, elsewhere, *unmarked] == [(0, 0)] * 6
    assert (second[0] >= 4992, second[0] % 128) == (True, 0)
    marked = [billed(client, model=CLAUDE, cache_control={"type": "ephemeral"}) for _ in range(2)]
    client.standin.advance(301)
    late, *hour = (
        billed(client, model=CLAUDE, cache_control={"type": "ephemeral", "ttl": "1h"}) for _ in range(2)
    )
    assert (billed(client, session_id="a")[0], marked[0][0], marked[1][1], late[0], hour[0][1]) == (0,) * 5
    assert marked[0][1] == marked[1][0] == late[1] == hour[0][0] > 5000


def test_the_cost_follows_from_the_prices(client: Client) -> None:
    """standin/script: 1, 4 and 0.1 dollars per million tokens of input, output and reads; a cent for a search."""
    ask = (
        "[[standin: search=a]] [[standin: search=b]] [[standin: reasoning=encrypted]] [[standin: text=abcd]]"
    )
    usages = [client.done(LONG + ask)["usage"] for _ in range(2)]
    for usage in usages:
        cached = usage["input_tokens_details"]["cached_tokens"]
        cost = (usage["input_tokens"] - cached) * 1e-6 + cached * 0.1e-6 + usage["output_tokens"] * 4e-6
        assert usage["cost"] == pytest.approx(cost + 0.02)
        assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
        assert (usage["output_tokens"], usage["output_tokens_details"]) == (65, {"reasoning_tokens": 64})
        counts = dict.fromkeys(("web_search_requests", "tool_calls_requested", "tool_calls_executed"), 2)
        assert (usage["server_tool_use_details"], usage["cost_details"]["server_tool_cost"]) == (counts, 0.02)
    assert usages[1]["cost"] < usages[0]["cost"]
