"""Long chats in a real Open WebUI: summaries, the host's own compaction, old tool results, and commands.

Most are those of a small model without the host's own tools, so that a dozen turns fill its window.
"""

from __future__ import annotations

import json
import random
import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from open_webui_openrouter_pipe.history.markers import erase_markers
from open_webui_openrouter_pipe.history.reading import ANSWER_MARK
from tests.live.chats import (
    MODEL,
    NO_TOOLS,
    SMALL,
    answers,
    database_bytes,
    outputs_of,
    preset,
    saved_chat,
    statuses,
    stored_rows,
    texts_of,
    wire,
)
from tests.support.long_chats import (
    input_texts,
    last_request,
    questions_sent,
    summary_blocks,
    summary_requests,
    words,
)
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from scripts.harness.openwebui import Account, OpenWebUI, Sent
    from scripts.standin import StandIn
    from scripts.standin.state import RecordedRequest
    from tests.support.browser import Browser

    Valves = Callable[..., None]

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("live_pipe")]

SUMMARY_VALVES = {
    "SUMMARY_AHEAD_RATIO": 1.0,
    "SUMMARY_TRIGGER_RATIO": 0.5,
    "TOOL_OUTPUT_RETENTION_TURNS": 4,
}
"""No summary is made before a request needs it, so that the user sees each being made. The trigger, which no bill
moves, comes well before the limit, and few turns are kept."""
DAYS = 14
"""More than the trigger leaves, and less than the window."""
RULE = "Never book berth 4 at night."
NOTES = (
    "Berth {a} is taken by the Anna Maria for {b} days at {c} EUR a day.",
    "The crane on quay {a} lifted {c} containers in {b} hours.",
    "Pilot {b} asks for a new radio, see HB-{c}.",
    "Diesel costs 1.{b} EUR a litre, and {c} litres were sold on quay {a}.",
    "The gate stood open until 1{a}:{b}, and {c} lorries went through.",
)
SUMMARIZING = re.compile(r"Summarizing conversation \(([\d,]+) tokens\)\.\.\.")
SUMMARIZED = re.compile(r"Summarized: ([\d,]+) → ([\d,]+) tokens( \(\$\d+\.\d{2,}\))?")
ORDERS = '''
import json


class Tools:
    def list_orders(self, page: int) -> str:
        """
        List 500 orders.

        :param page: The page.
        """
        return json.dumps([{"id": page * 500 + at, "customer": f"customer {at}"} for at in range(500)])
'''


@pytest.fixture(scope="module")
def small(open_webui: OpenWebUI, live_pipe: list[str]) -> Iterator[str]:
    """The small model with a prompt of its own."""
    assert SMALL in live_pipe
    with preset(open_webui, SMALL, meta=NO_TOOLS, system="Be brief.") as name:
        yield name


def day(number: int) -> str:
    """What somebody writes into the log, the same for the same day."""
    chance = random.Random(number)
    written = [
        chance.choice(NOTES).format(
            a=chance.randint(1, 9), b=chance.randint(10, 59), c=chance.randint(99, 999)
        )
        for _ in range(23)
    ]
    return " ".join([f"Day {number}.", *([RULE] if number == 0 else []), *written])


def log(account: Account, model: str, first: int = 0) -> Sent:
    """A chat that is summarized with its next message; one with another first day has summaries of its own."""
    days = range(first, first + DAYS)
    return saved_chat(account, model, [(day(number), day(number + 50)) for number in days])


def written_chat(account: Account, model: str, turns: int = 12) -> Sent:
    """A chat of so many turns of about 240 tokens."""
    return saved_chat(
        account,
        model,
        [
            (f"Question {at}: {words(110, f'q{at}')}", f"Answer {at}: {words(110, f'a{at}')}")
            for at in range(turns)
        ],
    )


def was_summarized(answer: dict[str, Any]) -> bool:
    """Whether summaries were made before the answer, and the user saw that they made the chat shorter."""
    assert "error" not in answer
    announced, done = statuses(answer)
    begun, ended = SUMMARIZING.fullmatch(announced), SUMMARIZED.fullmatch(done)
    assert begun
    assert ended
    before, after = (int(shown.replace(",", "")) for shown in ended.groups()[:2])
    return begun[1] == ended[1] and before > after


# --- summaries ---


def test_a_summary_is_announced_sealed_and_its_users_alone(
    open_webui: OpenWebUI, small: str, standin: StandIn, valves: Valves
) -> None:
    """Two lines say so, its row is sealed, the same chat again uses it, and that of another user gets its own."""
    valves(**SUMMARY_VALVES)
    owner, other = open_webui.add_user("owner"), open_webui.add_user("other")
    _, answer = owner.ask(small, day(DAYS), after=log(owner, small))
    assert was_summarized(answer)
    summaries = [
        json.loads(request.output[-1]["content"][0]["text"]) for request in summary_requests(standin)
    ]
    query = "SELECT typeof(payload), packing & 1, payload FROM openrouter_pipe_summary WHERE user_id = ?"
    stored = stored_rows(open_webui, query, str(owner.api.get("/api/v1/auths/")["id"]))
    everything = database_bytes(open_webui)
    assert len(stored) == len(summaries) > 0
    assert RULE in input_texts(last_request(standin))[1]
    for summary, (form, sealed, payload) in zip(summaries, stored, strict=True):
        assert (form, sealed, payload in everything) == ("blob", 1, True)
        assert summary["summary_text"].encode() not in everything
        assert not any(word in payload for word in (b"Day", b"summary_text", b"berth", b"EUR"))

    _, answer = owner.ask(small, day(DAYS), after=log(owner, small))
    assert [bool(SUMMARIZED.fullmatch(line)) for line in statuses(answer)] == [True]
    assert (summary_blocks(last_request(standin)), len(summary_requests(standin))) == ([1], len(summaries))
    _, answer = other.ask(small, day(DAYS), after=log(other, small))
    assert was_summarized(answer)
    assert len(summary_requests(standin)) == 2 * len(summaries)


def test_stop_cancels_a_summary(open_webui: OpenWebUI, small: str, standin: StandIn, valves: Valves) -> None:
    """The request for the summary ends, its claim is released, and the next turn makes the summary."""
    valves(**SUMMARY_VALVES)
    admin = open_webui.admin
    standin.summarizer = "hang"
    with admin.session() as session:
        sent = admin.send(small, day(DAYS), after=log(admin, small), session_id=session.id)
        session.wait_for("status")
        wait_until(lambda: summary_requests(standin))
        admin.stop(sent)
        admin.wait(sent)
    standin.summarizer = "keep"
    claims = "SELECT name FROM openrouter_pipe_lease WHERE name LIKE 'summary:%'"
    wait_until(lambda: stored_rows(open_webui, claims) == [])
    _, answer = admin.ask(small, "And now?", after=sent)
    assert was_summarized(answer)
    hung = [request for request in summary_requests(standin) if request.status == 0]
    assert len(hung) > 0
    assert all(request.disconnected for request in hung)


@pytest.mark.browser
def test_the_page_shows_a_summary_and_the_chat_goes_on(
    open_webui: OpenWebUI, small: str, page: Browser, standin: StandIn, valves: Valves
) -> None:
    """A line while summarizing and one after it, or why there is none; Regenerate and a restart cost no call."""
    valves(**SUMMARY_VALVES)
    sent = log(open_webui.admin, small, 100)
    page.open_chat(sent.chat_id)
    standin.summarizer = "slow=50"
    page.send(day(DAYS))
    page.wait(lambda: bool(SUMMARIZING.search(page.last_message())))
    page.screenshot("summary-being-made")
    standin.advance(50)
    answer = page.wait_for_answer()
    page.wait(lambda: bool(SUMMARIZED.search(page.last_message())))
    page.screenshot("summary-made")
    count = len(summary_requests(standin))
    assert count > 0
    page.regenerate()
    assert page.wait_for_answer() == answer
    open_webui.stop()
    open_webui.start()
    open_webui.admin.api.models()
    page.open_chat(sent.chat_id)
    page.regenerate()
    assert page.wait_for_answer() == answer
    page.screenshot("summary-after-restart")
    assert (len(summary_requests(standin)), summary_blocks(answers(standin)[-1])) == (count, [1])

    standin.reset()
    standin.summarizer = "junk"
    page.open_chat(log(open_webui.admin, small, 200).chat_id)
    page.send("How was the week?")
    page.wait_for_answer()
    page.show_statuses()
    page.wait(lambda: "The conversation could not be summarized: " in page.last_message())
    page.screenshot("notice-summary-failed")


# --- Open WebUI's own compaction ---

COMPACTION = "/api/v1/chats/config"
SUMMARISER = "standin/plain"
"""Says its prompt again, so that a summary quotes what it stands for, unless a test scripts its words."""
COMPACTED_TURNS = 8
PAGES = '''
class Tools:
    def read_page(self, number: int) -> str:
        """
        Read a page.

        :param number: The page.
        """
        return f"page {number} " + "row " * 2000
'''


@pytest.fixture
def compacted(open_webui: OpenWebUI, live_pipe: list[str], accepted: None, standin: StandIn) -> Iterator[str]:
    """A model whose chats Open WebUI compacts early; no request of theirs shows a marker."""
    assert MODEL in live_pipe
    api = open_webui.admin.api
    before = api.get(COMPACTION)
    changed = {
        "ENABLE_CONTEXT_COMPACTION": True,
        "CONTEXT_COMPACTION_TOKEN_THRESHOLD": 1200,
        "CONTEXT_COMPACTION_TOKEN_CAP": 1200,
        "CONTEXT_COMPACTION_MODEL": f"openrouter.{SUMMARISER}",
        "CONTEXT_COMPACTION_PROMPT_TEMPLATE": "Before: {{PREVIOUS_SUMMARY}}\nNow: {{COMPACTED_MESSAGES}}",
    }
    api.post(COMPACTION, {**before, **changed})
    with preset(open_webui, meta=NO_TOOLS, system="Be brief.") as name:
        yield name
    api.post(COMPACTION, before)
    shown = [request.raw.decode() for request in standin.responses]
    assert [erase_markers(text) for text in shown] == shown


def host_summaries(standin: StandIn) -> list[str]:
    """What the host's summariser said, in order."""
    found = [request for request in standin.responses if request.body["model"] == SUMMARISER]
    return [item["content"][0]["text"] for request in found for item in request.output if "content" in item]


def counts(request: RecordedRequest, texts: list[str]) -> list[int]:
    """How often each text occurs in a request, blank lines and the marks before lines of a record aside."""
    whole = _packed("\n\n".join(texts_of(request.body["input"])).replace("\n> ", "\n"))
    return [whole.count(_packed(text)) for text in texts]


def _packed(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if line.strip())


def test_a_compacted_chat_has_one_summary(open_webui: OpenWebUI, standin: StandIn, compacted: str) -> None:
    """The newest summary occurs once, the system prompt keeps its bytes, and kept turns keep their reasoning.

    Behind its summary the host writes more instructions, here of its code interpreter: they stay instructions.
    """
    sent = None
    for number in range(COMPACTED_TURNS):
        question = f"question {number} {'word ' * 60}"
        sent, _ = open_webui.admin.ask(compacted, question, after=sent, features={"code_interpreter": True})
    summaries, requests = host_summaries(standin), answers(standin)
    assert len(summaries) > 1
    assert counts(requests[-1], [summaries[-1], "question 0", f"question {COMPACTED_TURNS - 1}"]) == [1, 2, 1]
    assert len({json.dumps(request.body["input"][0]) for request in requests}) == 1
    assert texts_of(requests[0].body["input"])[0].startswith("Be brief.\n\n\n##### Pyodide")
    kept = wire(requests[-1].body["input"], "reasoning")
    given = [piece for request in requests[:-1] for piece in wire(request.output, "reasoning")]
    assert 0 < len(kept) < COMPACTED_TURNS - 1
    assert kept == given[-len(kept) :]


def test_a_compacted_tool_loop_has_each_summary_once(
    open_webui: OpenWebUI, standin: StandIn, compacted: str
) -> None:
    """Within a loop the host keeps the chat's summary and adds one of the loop, which it then replaces.

    The calls that it keeps keep their reasoning; of the finished turn it keeps nothing but a summary.
    """
    admin = open_webui.admin
    open_webui.add_tool("pages", PAGES)
    sent, _ = admin.ask(compacted, "one")
    texts = [chat, first, second] = ["They met.", "One page was read.", "Two pages were read."]
    standin.script(f'text="{chat}"')
    admin.api.post(f"/api/v1/chats/{sent.chat_id}/compact", {"model": compacted})
    one, two, three = (
        f'[[standin: call=read_page args={{"number": "{page}"}}]] [[standin: rounds=9]]' for page in (1, 2, 3)
    )
    standin.script(one, two, f'text="{first}"', three, f'text="{second}"', 'text="Done."')
    sent, answer = admin.ask(compacted, "Read.", after=sent, tool_ids=["pages"])
    admin.ask(compacted, "And now?", after=sent, tool_ids=["pages"])
    requests = answers(standin)
    assert host_summaries(standin)[:3] == texts
    found = [counts(request, texts) for request in requests]
    assert found == [[0, 0, 0], [1, 0, 0], [1, 0, 0], [1, 1, 0], [1, 0, 1], [0, 0, 1]]
    assert "error" not in answer
    assert len({json.dumps(request.body["input"][0]) for request in requests}) == 1
    given = {piece for request in requests for piece in wire(request.output, "reasoning")}
    kept = [len(given.intersection(wire(request.body["input"], "reasoning"))) for request in requests]
    assert kept == [0, 1, 2, 1, 1, 0]


# --- old tool results, and clipped chats ---


def facts_in(request: RecordedRequest) -> int:
    """How many of the tool results are facts."""
    return sum(output.startswith("[Tool: 500 rows") for output in outputs_of(request.body["input"]))


def cached_share(request: RecordedRequest) -> float:
    """What of the request the provider had cached."""
    usage = request.usage or {}
    share: float = usage["input_tokens_details"]["cached_tokens"] / usage["input_tokens"]
    return share


@pytest.mark.usefixtures("accepted")
def test_old_tool_results_become_facts(
    open_webui: OpenWebUI, standin: StandIn, artifacts: Path, valves: Valves
) -> None:
    """Fifteen turns with 500 rows each: new results word for word, old ones as facts, and the cache stays warm.

    The prefix changes only with the requests in which a batch of results becomes facts. What each request held is
    left in the file `context-requests.txt`.
    """
    turns, retention_turns, sent = 15, 4, None
    open_webui.add_tool("orders", ORDERS)
    valves(CONTEXT_AIM="thrifty", CONTEXT_STRATEGY="prune", TOOL_OUTPUT_RETENTION_TURNS=retention_turns)
    for page in range(turns):
        call = f'[[standin: call=list_orders args={{"page": {page}}}]] more'
        sent, _ = open_webui.admin.ask(MODEL, call, after=sent, tool_ids=["orders"])
    assert sent is not None
    requests = answers(standin)
    assert len(requests) == 2 * turns

    last, facts = outputs_of(requests[-1].body["input"]), facts_in(requests[-1])
    assert 0 < facts <= turns - retention_turns
    whole = [json.loads(text)[0]["id"] for text in last[facts:]]
    assert whole == [500 * page for page in range(facts, turns)]
    assert last[0].startswith('[Tool: 500 rows | columns: id, customer | first: {"id": 0, ')

    moved = [facts_in(before) != facts_in(after) for before, after in pairwise(requests)]
    cold = [cached_share(request) < 0.5 for request in requests[1:]]
    shares = "\n".join(f"{facts_in(each)} facts, {cached_share(each):.0%} cached" for each in requests)
    (artifacts / "context-requests.txt").write_text(f"{shares}\n", "utf-8")
    assert not any(is_cold and not has_moved for is_cold, has_moved in zip(cold[2:], moved[2:], strict=True))
    assert 0 < sum(moved) < turns - retention_turns

    billed = [
        (usage["input_tokens"], usage["input_tokens_details"]["cached_tokens"])
        for usage in (request.usage or {} for request in requests)
    ]
    query = "SELECT input_tokens, cached_tokens FROM openrouter_pipe_audit WHERE chat_id = ? ORDER BY id"
    wait_until(lambda: len(stored_rows(open_webui, query, sent.chat_id)) >= len(billed))
    assert stored_rows(open_webui, query, sent.chat_id) == billed


def test_a_user_may_have_clipped_chats_whole(
    open_webui: OpenWebUI, small: str, standin: StandIn, valves: Valves
) -> None:
    """If users may; otherwise the last messages alone are sent, and the last answer but one brings its question."""
    valves(CONTEXT_STRATEGY="clip")
    user, sent = open_webui.add_user("clipped"), None
    for number in range(5):
        sent, _ = user.ask(small, f"question {number}", after=sent)
    user.api.set_user_valves("openrouter", {"CLIP_BYPASS": True})
    for allowed in (False, True):
        valves(ENABLE_USER_OVERRIDE=allowed)
        user.ask(small, "question 5", after=sent)
    asked = [texts_of(request.body["input"], "user") for request in answers(standin)[-3:]]
    assert asked == [[f"question {at}" for at in range(*turns)] for turns in ((2, 5), (3, 6), (6,))]


# --- commands ---


def test_commands_cost_nothing_and_leave_no_trace(
    open_webui: OpenWebUI, small: str, standin: StandIn
) -> None:
    """They are answered without any request; the next one is the same as in a chat without them, to the byte."""
    admin = open_webui.admin
    admin.ask(small, "Go on.", after=written_chat(admin, small))
    expected = answers(standin)[-1].body["input"]
    standin.reset()
    sent, said = written_chat(admin, small), []
    for command in ("/help", " /CONTEXT", "/restore 2", "/aim faithful", "/aim", "/discard"):
        sent, answer = admin.ask(small, command, after=sent)
        said.append(answer["content"])
    assert standin.responses == []
    assert all(text.startswith(ANSWER_MARK) for text in said)
    assert "The next request to" in said[1]
    assert "| 12 | Question 11: " in said[1]
    admin.ask(small, "Go on.", after=sent)
    assert answers(standin)[-1].body["input"] == expected


def test_compact_and_restore_hold_on_their_branch(
    open_webui: OpenWebUI, small: str, standin: StandIn, valves: Valves
) -> None:
    """What a command says is what the next request holds; a branch from before it knows nothing of it."""
    valves(SUMMARY_AHEAD_RATIO=1.0)
    admin = open_webui.admin
    start = written_chat(admin, small)
    sent, answer = admin.ask(small, "/compact the words", after=start)
    assert "The chat is summarized up to turn 9: the next request has about" in answer["content"]
    asked = "<user_request>\nthe words\n</user_request>"
    assert all(asked in input_texts(each)[-1] for each in summary_requests(standin))
    sent, _ = admin.ask(small, "Go on.", after=sent)
    assert summary_blocks(answers(standin)[-1]) == [1]
    assert questions_sent(answers(standin)[-1]) == [9, 10, 11]
    sent, answer = admin.ask(small, "/restore 2-3", after=sent)
    assert "turns 2-3." in answer["content"]
    admin.ask(small, "And now?", after=sent)
    assert questions_sent(answers(standin)[-1])[:3] == [1, 2, 9]
    assert not any(ANSWER_MARK in text or text.startswith("/") for text in input_texts(answers(standin)[-1]))
    admin.ask(small, "Go another way.", after=start)
    assert summary_blocks(answers(standin)[-1]) == []
    assert questions_sent(answers(standin)[-1]) == [*range(12)]


def test_an_aim_changes_when_summaries_begin(open_webui: OpenWebUI, small: str, standin: StandIn) -> None:
    """The thrifty one summarizes a chat that the faithful one sends whole."""
    admin = open_webui.admin
    start = written_chat(admin, small, 30)
    admin.ask(small, "Go on.", after=start)
    sent, _ = admin.ask(small, "/aim thrifty", after=start)
    admin.ask(small, "Go on.", after=sent)
    assert [summary_blocks(request) for request in answers(standin)] == [[], [1]]


def test_a_chat_that_begins_with_a_command_costs_no_title(
    open_webui: OpenWebUI, small: str, standin: StandIn
) -> None:
    """Its title is the message, by the host's own rule; later tasks do not quote commands."""
    admin = open_webui.admin
    tasks = {"title_generation": True, "tags_generation": True, "follow_up_generation": True}
    with admin.session() as tab:
        sent, _ = admin.ask(small, "/help", session_id=tab.id, background_tasks=tasks)
        tab.wait_for("chat:title")
        assert admin.chat(sent.chat_id)["title"] == "/help"
        assert standin.responses == []
        admin.ask(small, "Hello?", after=sent, session_id=tab.id, background_tasks=tasks)
        tab.wait_for("chat:message:follow_ups", 2)
    quoted = [str(request.body) for request in standin.responses]
    assert len(quoted) > 1
    assert not any("/help" in body or ANSWER_MARK in body or "\\u2063" in body for body in quoted)


@pytest.mark.browser
def test_a_command_is_typed_and_sent_with_enter(
    open_webui: OpenWebUI, small: str, page: Browser, standin: StandIn
) -> None:
    """As any message; a prompt that begins alike, which Enter would choose, is left with a space."""
    api = open_webui.admin.api
    prompt = {"command": "context-of-ours", "name": "Ours", "content": "Tell me more."}
    page.open_chat(written_chat(open_webui.admin, small).chat_id)
    page.send("/context")
    assert page.wait_for_answer().endswith("The same as text")  # folded, below the page
    page.screenshot("command-context")
    page.send("/help")
    assert "/compact" in page.wait_for_answer()
    page.screenshot("command-help")
    created = api.post("/api/v1/prompts/create", prompt)
    page.open_chat(written_chat(open_webui.admin, small, 2).chat_id)
    field = page.find(By.ID, "chat-input")
    field.send_keys("/context")
    page.wait(lambda: "context-of-ours" in page.driver.find_element(By.TAG_NAME, "body").text)
    page.screenshot("command-menu")
    field.send_keys(" ")
    page.wait(lambda: "context-of-ours" not in page.driver.find_element(By.TAG_NAME, "body").text)
    field.send_keys(Keys.ENTER)
    page.wait_for_text("The same as text")
    api.delete(f"/api/v1/prompts/id/{created['id']}/delete")
    assert standin.responses == []
