"""Long chats in a real Open WebUI: summaries, the host's own compaction, clipped chats, and commands.

Most are those of a small model without the host's own tools, so that a dozen turns fill its window.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from open_webui_openrouter_pipe.history.markers import ANSWER_MARK, erase_markers
from scripts.harness.browser import Browser
from scripts.harness.openwebui import Account, OpenWebUI, Sent
from scripts.standin import StandIn
from scripts.standin.state import RecordedRequest
from tests.live.chats import preset, saved_chat, talk
from tests.live.items import answers, database_bytes, given, inputs, statuses, stored_rows, texts_of, wire
from tests.live.models import NO_TOOLS, ORDERS, SMALL, Valves
from tests.support.host_source import is_older
from tests.support.long_chats import input_texts, summary_blocks, summary_requests, words
from tests.support.waiting import wait_until

pytestmark = pytest.mark.live

SUMMARY_VALVES = {"SUMMARY_AHEAD_RATIO": 1.0, "SUMMARY_TRIGGER_RATIO": 0.5, "TOOL_OUTPUT_RETENTION_TURNS": 4}
"""No summary is made before a request needs it, so that the user sees each being made. The trigger, which no bill
moves, comes well before the limit, and few turns are kept."""
DAYS = 14
"""More than the trigger leaves, and less than the window."""
RULE = "Never book berth 4 at night."
SUMMARIZING = re.compile(r"Summarizing conversation \(([\d,]+) tokens\)\.\.\.")
COST = re.compile(r" \(\$\d+\.\d{2,}\)")
SUMMARIZED = re.compile(r"Summarized: ([\d,]+) → ([\d,]+) tokens( \(\$\d+\.\d{2,}\))?")


@pytest.fixture(scope="module")
def small(admin: Account) -> Iterator[str]:
    """The small model with a prompt of its own."""
    with preset(admin, SMALL, meta=NO_TOOLS, system="Be brief.") as name:
        yield name


def day(number: int) -> str:
    """What somebody writes into the log, the same for the same day."""
    return " ".join([f"Day {number}.", *([RULE] if number == 0 else []), words(420, number)])


def log(account: Account, model: str, first: int = 0) -> Sent:
    """A chat that is summarized with its next message; one with another first day has summaries of its own."""
    days = range(first, first + DAYS)
    return saved_chat(account, model, [(day(number), day(number + 50)) for number in days])


# --- summaries ---


def test_a_summary_is_announced_sealed_and_its_users_alone(
    open_webui: OpenWebUI, small: str, standin: StandIn, valves: Valves
) -> None:
    """Two lines say so, its row is sealed, the same chat again uses it, and that of another user gets its own."""
    valves(**SUMMARY_VALVES)
    owner, other = open_webui.add_user("owner"), open_webui.add_user("other")
    said, made = [], []
    for account in (owner, owner, other):
        _, answer = account.ask(small, day(DAYS), after=log(account, small))
        said.append(statuses(answer))
        made.append(len(summary_requests(standin)))
        assert summary_blocks(answers(standin)[-1]) == [1]
        assert RULE in input_texts(answers(standin)[-1])[1]
    count = made[0]
    assert made == [count, count, 2 * count]
    for done, announced in (said[0], said[2]):  # what stands in the answer, and the wait above it
        begun, ended = SUMMARIZING.fullmatch(announced), SUMMARIZED.fullmatch(done)
        assert begun
        assert ended
        before, after = (int(shown.replace(",", "")) for shown in ended.groups()[:2])
        assert (begun[1] == ended[1], before > after) == (True, True)
    assert [bool(SUMMARIZED.fullmatch(line)) for line in said[1]] == [True]

    query = "SELECT typeof(payload), packing & 1, payload FROM openrouter_pipe_summary WHERE user_id = ?"
    stored = stored_rows(open_webui, query, str(owner.api.get("/api/v1/auths/")["id"]))
    everything = database_bytes(open_webui)
    assert len(stored) == count > 0
    for request, (form, sealed, payload) in zip(summary_requests(standin)[:count], stored, strict=True):
        summary = json.loads(request.output[-1]["content"][0]["text"])
        assert (form, sealed, payload in everything) == ("blob", 1, True)
        assert summary["summary_text"].encode() not in everything
        assert not any(word in payload for word in (b"Day", b"summary_text", b"berth"))


@pytest.mark.browser
def test_the_page_shows_a_summary_and_the_chat_goes_on(
    open_webui: OpenWebUI, admin: Account, small: str, page: Browser, standin: StandIn, valves: Valves
) -> None:
    """A line while summarizing and one after it, or why there is none; Regenerate and a restart cost no call.

    Stop ends the request for the summary and releases its claim; the next message has it made.
    """
    valves(**SUMMARY_VALVES)
    sent = log(admin, small, 100)
    page.open_chat(sent.chat_id)
    standin.summarizer = "hang"
    page.send(day(DAYS))
    page.wait(lambda: bool(SUMMARIZING.search(page.last_message())))
    page.screenshot("summary-being-made")
    wait_until(lambda: summary_requests(standin))
    admin.stop(sent)
    claims = "SELECT name FROM openrouter_pipe_lease WHERE name LIKE 'summary:%'"
    wait_until(lambda: stored_rows(open_webui, claims) == [])
    hung = summary_requests(standin)
    assert [(request.status, request.disconnected) for request in hung] == [(0, True)] * len(hung)
    standin.summarizer = ""
    page.open_chat(sent.chat_id)
    page.send("And now?")
    answer = page.wait_for_answer()
    page.wait(lambda: bool(SUMMARIZED.search(page.last_message())))
    page.screenshot("summary-made")
    count = len(summary_requests(standin))
    assert count > len(hung)
    open_webui.stop()
    open_webui.start()
    admin.api.models()
    page.open_chat(sent.chat_id)
    page.regenerate()
    page.wait_for_answer()
    page.wait(lambda: page.last_answer() == COST.sub("", answer))  # it was paid for once
    assert (len(summary_requests(standin)), summary_blocks(answers(standin)[-1])) == (count, [1])

    standin.summarizer = "text=Well."
    page.open_chat(log(admin, small, 200).chat_id)
    page.send("How was the week?")
    page.wait_for_answer()
    page.wait(lambda: "The conversation could not be summarized: " in page.last_message())
    page.screenshot("notice-summary-failed")


# --- Open WebUI's own compaction ---

COMPACTION = "/api/v1/chats/config"
SUMMARISER = "standin/plain"
"""Says its prompt again, so that a summary quotes what it stands for, unless a test scripts its words."""
COMPACTED_TURNS = 8


@pytest.fixture
def compacted(admin: Account, accepted: None, standin: StandIn) -> Iterator[str]:
    """A model whose chats Open WebUI compacts early; no request of theirs shows a marker."""
    before = admin.api.get(COMPACTION)
    changed = {
        "ENABLE_CONTEXT_COMPACTION": True,
        "CONTEXT_COMPACTION_TOKEN_THRESHOLD": 1200,
        "CONTEXT_COMPACTION_TOKEN_CAP": 1200,
        "CONTEXT_COMPACTION_MODEL": f"openrouter.{SUMMARISER}",
        "CONTEXT_COMPACTION_PROMPT_TEMPLATE": "Before: {{PREVIOUS_SUMMARY}}\nNow: {{COMPACTED_MESSAGES}}",
    }
    admin.api.post(COMPACTION, {**before, **changed})
    with preset(admin, meta=NO_TOOLS, system="Be brief.") as name:
        yield name
    admin.api.post(COMPACTION, before)
    shown = [request.raw.decode() for request in standin.responses]
    assert [erase_markers(text) for text in shown] == shown


def host_summaries(standin: StandIn) -> list[str]:
    """What the host's summariser said, in order."""
    found = [request for request in standin.responses if request.body["model"] == SUMMARISER]
    return texts_of(given(found))


def counts(request: RecordedRequest, texts: list[str]) -> list[int]:
    """How often each text occurs in a request, blank lines and the marks before lines of a record aside."""
    whole = "\n\n".join(texts_of(request.body["input"])).replace("\n> ", "\n")
    found, *packed = ["\n".join(filter(str.strip, text.splitlines())) for text in (whole, *texts)]
    return [found.count(text) for text in packed]


def test_a_compacted_chat_has_one_summary(admin: Account, standin: StandIn, compacted: str) -> None:
    """The newest summary occurs once, the system prompt keeps its bytes, and kept turns keep their reasoning.

    Behind its summary the host writes more instructions, here of its code interpreter: they stay instructions.
    """
    questions = [f"question {number} {'word ' * 60}" for number in range(COMPACTED_TURNS)]
    talk(admin, compacted, *questions, features={"code_interpreter": True})
    summaries, requests = host_summaries(standin), answers(standin)
    assert len(summaries) > 1
    assert counts(requests[-1], [summaries[-1], "question 0", f"question {COMPACTED_TURNS - 1}"]) == [1, 2, 1]
    assert len({json.dumps(request.body["input"][0]) for request in requests}) == 1
    assert texts_of(requests[0].body["input"])[0].startswith("Be brief.\n\n\n##### Pyodide")
    kept = wire(requests[-1].body["input"], "reasoning")
    assert 0 < len(kept) < COMPACTED_TURNS - 1
    assert kept == wire(given(requests[:-1]), "reasoning")[-len(kept) :]


def test_a_compacted_tool_loop_has_each_summary_once(
    open_webui: OpenWebUI, admin: Account, standin: StandIn, compacted: str
) -> None:
    """Within a loop the host keeps the chat's summary and adds one of the loop, which it then replaces.

    The calls that it keeps keep their reasoning; of the finished turn it keeps nothing but a summary.
    """
    if is_older():
        pytest.skip("this Open WebUI compacts a chat only before an answer")
    open_webui.add_tool("pages", ORDERS)
    sent, _ = admin.ask(compacted, "one")
    texts = [chat, first, second] = ["They met.", "One page was read.", "Two pages were read."]
    standin.script(f'text="{chat}"')
    admin.api.post(f"/api/v1/chats/{sent.chat_id}/compact", {"model": compacted})
    one, two, three = (
        f'[[standin: call=list_orders args={{"page": {page}}}]] [[standin: rounds=9]]' for page in (1, 2, 3)
    )
    standin.script(one, two, f'text="{first}"', three, f'text="{second}"', 'text="Done."')
    (_, answer), _ = talk(admin, compacted, "Read.", "And now?", after=sent, tool_ids=["pages"])
    requests = answers(standin)
    assert host_summaries(standin)[:3] == texts
    found = [counts(request, texts) for request in requests]
    assert found == [[0, 0, 0], [1, 0, 0], [1, 0, 0], [1, 1, 0], [1, 0, 1], [0, 0, 1]]
    assert "error" not in answer
    assert len({json.dumps(request.body["input"][0]) for request in requests}) == 1
    made = {piece for request in requests for piece in wire(request.output, "reasoning")}
    kept = [len(made.intersection(wire(request.body["input"], "reasoning"))) for request in requests]
    assert kept == [0, 1, 2, 1, 1, 0]


# --- clipped chats ---


def test_a_user_may_have_clipped_chats_whole(
    open_webui: OpenWebUI, small: str, standin: StandIn, valves: Valves
) -> None:
    """If users may; otherwise the last messages alone are sent, and the last answer but one brings its question."""
    valves(CONTEXT_STRATEGY="clip")
    user = open_webui.add_user("clipped")
    sent, _ = talk(user, small, *(f"question {number}" for number in range(5)))[-1]
    user.api.set_user_valves("openrouter", {"CLIP_BYPASS": True})
    for allowed in (False, True):
        valves(ENABLE_USER_OVERRIDE=allowed)
        user.ask(small, "question 5", after=sent)
    asked = [texts_of(items, "user") for items in inputs(standin)[-3:]]
    assert asked == [[f"question {at}" for at in range(*turns)] for turns in ((2, 5), (3, 6), (6,))]


# --- commands ---


def written_chat(account: Account, model: str) -> Sent:
    """A chat of twelve turns of about 240 tokens."""
    turns = range(12)
    texts = [[f"{who} {at}: {words(110, f'{who}{at}')}" for who in ("Question", "Answer")] for at in turns]
    return saved_chat(account, model, [(question, answer) for question, answer in texts])


def test_commands_cost_nothing_and_leave_no_trace(admin: Account, small: str, standin: StandIn) -> None:
    """They are answered without any request; the next one is the same as in a chat without them, to the byte."""
    admin.ask(small, "Go on.", after=written_chat(admin, small))
    commands = ("/help", " /CONTEXT", "/restore 2", "/aim faithful", "/aim", "/discard")
    said = talk(admin, small, *commands, after=written_chat(admin, small))
    assert len(standin.responses) == 1
    assert all(answer["content"].startswith(ANSWER_MARK) for _, answer in said)
    assert "The next request to" in said[1][1]["content"]
    assert "| 12 | Question 11: " in said[1][1]["content"]
    admin.ask(small, "Go on.", after=said[-1][0])
    without, with_commands = inputs(standin)
    assert with_commands == without
