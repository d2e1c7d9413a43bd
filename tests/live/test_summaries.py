"""Summaries in a real Open WebUI: what the page shows, when they are reused, whom they belong to, and failures.

The chats are those of a small model without the host's own tools, so that a dozen turns fill its window.
"""

from __future__ import annotations

import json
import random
import re
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from open_webui_openrouter_pipe.history.markers import erase_markers
from scripts.harness.openwebui import Account, OpenWebUI, Sent
from scripts.standin.summaries import PROSE
from tests.support.fixtures import SERVED_SCHEMA
from tests.support.long_chats import input_texts, summary_blocks, summary_requests
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scripts.harness.servers import PostgresServer
    from scripts.standin import StandIn
    from scripts.standin.state import RecordedRequest
    from tests.support.browser import Browser

pytestmark = pytest.mark.live

PRESET = "logbook"
PRESET_FORM = {
    "id": PRESET,
    "base_model_id": "openrouter.standin/small",
    "name": "Logbook",
    "meta": {"capabilities": {"builtin_tools": False}},
    "params": {"system": "Be brief."},
    "access_grants": [{"principal_type": "user", "principal_id": "*", "permission": "read"}],
}
SUMMARY_VALVES = {
    "SUMMARY_AHEAD_RATIO": 1.0,
    "SUMMARY_TRIGGER_RATIO": 0.5,
    "TOOL_OUTPUT_RETENTION_TURNS": 4,
}
"""No summary is made before a request needs it, so that the user sees each being made. The trigger, which no bill
moves, comes well before the limit, and few turns are kept."""
VALVES = (
    *SUMMARY_VALVES,
    "SUMMARY_MODEL",
    "SUMMARY_TIMEOUT_SECONDS",
    "ENABLE_USER_OVERRIDE",
)
MAX_TURNS = 24
"""More than the window holds."""
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


def add_preset(host: OpenWebUI) -> None:
    """Offer the small model without the host's many tools, whose tokens would count."""
    host.admin.api.post("/api/v1/models/create", PRESET_FORM)
    host.admin.api.models()


@pytest.fixture(scope="module")
def harbour(open_webui: OpenWebUI, live_pipe: list[str]) -> OpenWebUI:
    """The session's Open WebUI with the pipe and the preset."""
    assert PRESET_FORM["base_model_id"] in live_pipe
    add_preset(open_webui)
    return open_webui


@pytest.fixture(autouse=True)
def valves(harbour: OpenWebUI) -> Iterator[None]:
    """No summary is made early; other tests find the valves as they were."""
    harbour.admin.api.set_valves("openrouter", SUMMARY_VALVES)
    yield
    harbour.admin.api.set_valves("openrouter", dict.fromkeys(VALVES))


def day(number: int, notes: int = 23) -> str:
    """What somebody writes into the log, the same for the same day."""
    chance = random.Random(number)
    written = [
        chance.choice(NOTES).format(
            a=chance.randint(1, 9), b=chance.randint(10, 59), c=chance.randint(99, 999)
        )
        for _ in range(notes)
    ]
    return " ".join([f"Day {number}.", *([RULE] if number % 100 == 0 else []), *written])


@dataclass(frozen=True, slots=True)
class Log:
    """A chat as a real user's days have filled it, up to the one before the trigger, and the number of days."""

    chat: dict[str, Any]
    days: int

    def copied_to(self, account: Account) -> Sent:
        """Give the account such a chat; a copy takes a moment where writing it takes a dozen requests."""
        return end_of(account, account.api.post("/api/v1/chats/new", {"chat": self.chat})["id"])

    def ask_once_more(self, account: Account) -> tuple[Sent, dict[str, Any]]:
        """Write the day that crosses the trigger into a copy of the log."""
        return account.ask(PRESET, day(self.days), after=self.copied_to(account))


@pytest.fixture(scope="module")
def log(harbour: OpenWebUI) -> Log:
    """The log of a user who wrote until the trigger was crossed, without the last day."""
    harbour.admin.api.set_valves("openrouter", SUMMARY_VALVES)
    prober = harbour.add_user("prober")
    sent, _ = grow_until_noticed(prober)
    chat = prober.chat(sent.chat_id)
    last = chat["history"]["messages"][sent.message_id]["parentId"]
    chat["history"]["currentId"] = chat["history"]["messages"][last]["parentId"]
    chat["history"]["messages"][chat["history"]["currentId"]]["childrenIds"] = []
    for message_id in (sent.message_id, last):
        del chat["history"]["messages"][message_id]
    for message in chat["history"]["messages"].values():  # what others may copy refers to nobody's artifacts
        message.pop("output", None)
        message["content"] = erase_markers(message["content"])
    return Log(chat, len(chat["history"]["messages"]) // 2)


def grow_until_noticed(
    account: Account, *, base: int = 0, after: Sent | None = None, line: str = ""
) -> tuple[Sent, dict[str, Any]]:
    """Write day after day into the log until an answer has a status line (that begins so); return that answer."""
    for number in range(base, base + MAX_TURNS):
        after, answer = account.ask(PRESET, day(number), after=after)
        if any(each.startswith(line) for each in statuses(answer)):
            return after, answer
    raise AssertionError(f"no status line in {MAX_TURNS} turns")


def statuses(answer: dict[str, Any]) -> list[str]:
    """The lines that the user was shown with an answer."""
    return [status["description"] for status in answer.get("statusHistory", [])]


def was_summarized(answer: dict[str, Any]) -> bool:
    """Whether summaries were made before the answer, and the user saw that they made the chat shorter."""
    assert "error" not in answer
    announced, done = statuses(answer)
    begun, ended = SUMMARIZING.fullmatch(announced), SUMMARIZED.fullmatch(done)
    assert begun
    assert ended
    return begun[1] == ended[1] and tokens(ended[1]) > tokens(ended[2])


def tokens(shown: str) -> int:
    """A number of tokens as the user sees it."""
    return int(shown.replace(",", ""))


def summary_count(standin: StandIn) -> int:
    """The number of requests for summaries."""
    return len(summary_requests(standin))


def last_request(standin: StandIn) -> RecordedRequest:
    """The last request for an answer, the host's own tasks aside."""
    others = [request for request in standin.responses if b"### Task:" not in request.raw]
    return [request for request in others if not request.is_summary][-1]


def id_of(account: Account) -> str:
    """The user's id."""
    return str(account.api.get("/api/v1/auths/")["id"])


def rows(host: OpenWebUI, chosen: str, account: Account) -> list[tuple[Any, ...]]:
    """What a query for the account's rows finds in the database file."""
    with closing(sqlite3.connect(f"file:{host.data}/webui.db?mode=ro", uri=True)) as connection:
        return connection.execute(f"{chosen} WHERE user_id = ?", [id_of(account)]).fetchall()


def summary_claims(host: OpenWebUI) -> list[str]:
    """The claims on summaries that a worker holds."""
    chosen = "SELECT name FROM openrouter_pipe_lease WHERE name LIKE 'summary:%'"
    with closing(sqlite3.connect(f"file:{host.data}/webui.db?mode=ro", uri=True)) as connection:
        return [name for (name,) in connection.execute(chosen)]


def questions_of(account: Account, chat_id: str) -> list[str]:
    """The ids of the questions on the chat's current branch, oldest first."""
    history = account.chat(chat_id)["history"]
    found, at = [], history["currentId"]
    while at:
        found += [at] if history["messages"][at]["role"] == "user" else []
        at = history["messages"][at]["parentId"]
    return found[::-1]


def end_of(account: Account, chat_id: str) -> Sent:
    """The last answer on the chat's current branch."""
    return Sent(chat_id, account.chat(chat_id)["history"]["currentId"])


# --- on the page ---


@pytest.fixture
def page(harbour: OpenWebUI, browser: Browser) -> Browser:
    """The browser, logged in."""
    browser.log_in(harbour.admin)
    return browser


def say(page: Browser, text: str) -> None:
    """Say something on the page, and see the answer to it."""
    page.send(text)
    assert page.wait_for_answer().startswith(f"You said: {text}")


@pytest.mark.browser
def test_the_page_shows_the_summary_status_and_the_chat_goes_on(
    harbour: OpenWebUI, page: Browser, standin: StandIn, log: Log
) -> None:
    """One line while summarizing and one after it; a regenerated answer and a restart cost no further call."""
    sent = log.copied_to(harbour.admin)
    page.open_chat(sent.chat_id)
    standin.summarizer = "slow=50"
    page.send(day(log.days))
    page.wait(lambda: bool(SUMMARIZING.search(page.last_message())))
    page.screenshot("summary-being-made")
    standin.advance(50)
    answer = page.wait_for_answer()
    page.wait(lambda: bool(SUMMARIZED.search(page.last_message())))
    page.screenshot("summary-made")
    page.show_statuses()
    page.wait(lambda: bool(SUMMARIZING.search(page.last_message())))
    page.screenshot("summary-history")
    count = summary_count(standin)
    assert count > 0

    page.regenerate()
    assert page.wait_for_answer() == answer
    page.screenshot("summary-regenerated")
    say(page, "Thank you, go on.")
    page.screenshot("summary-gone-on")
    harbour.stop()
    harbour.start()
    harbour.admin.api.models()
    page.open_chat(sent.chat_id)
    say(page, "Good morning.")
    page.screenshot("summary-after-restart")
    assert (summary_count(standin), summary_blocks(last_request(standin))) == (count, [1])
    assert {request.status for request in standin.responses} == {200}


@pytest.mark.browser
def test_an_edit_keeps_the_summaries_before_it(harbour: OpenWebUI, page: Browser, standin: StandIn) -> None:
    """Only segments from the edited question on are summarized again; going back to the old branch costs nothing."""
    admin = harbour.admin
    sent, _ = grow_until_noticed(admin, base=100)
    sent, _ = grow_until_noticed(admin, base=140, after=sent)
    count = summary_count(standin)
    page.open_chat(sent.chat_id)
    page.edit(questions_of(admin, sent.chat_id)[9], "That day was quiet.")
    assert "That day was quiet." in page.wait_for_answer()
    page.screenshot("summary-edited")
    branch = end_of(admin, sent.chat_id)
    page.previous_branch(page.message_ids()[-2])
    say(page, "And now?")
    page.screenshot("summary-other-branch")
    assert (summary_count(standin), summary_blocks(last_request(standin))) == (count, [1])

    _, answer = grow_until_noticed(admin, base=170, after=branch, line="Summarizing")
    page.open_chat(sent.chat_id)
    page.wait(lambda: bool(SUMMARIZED.search(page.last_message())))
    page.screenshot("summary-edited-branch")
    anew = summary_requests(standin)[count:]
    assert was_summarized(answer)
    assert 0 < len(anew) < count
    assert not any(
        "<first_user_message>Day 100." in text for request in anew for text in input_texts(request)
    )
    assert {request.status for request in standin.responses} == {200}


# --- whom they belong to ---


def test_a_copy_costs_nothing_and_another_user_pays(harbour: OpenWebUI, standin: StandIn, log: Log) -> None:
    """A clone and a fork use their owner's summaries, and say so; the same chat of another user gets its own."""
    owner, other = harbour.add_user("owner"), harbour.add_user("other")
    sent, answer = log.ask_once_more(owner)
    assert was_summarized(answer)
    first, count = last_request(standin), summary_count(standin)
    for way in ("clone", "fork"):
        copy = owner.api.post(f"/api/v1/chats/{sent.chat_id}/{way}", {})
        _, answer = owner.ask(PRESET, "And now?", after=end_of(owner, copy["id"]))
        assert [bool(SUMMARIZED.fullmatch(line)) for line in statuses(answer)] == [True]
        assert input_texts(last_request(standin))[1] == input_texts(first)[1]
    assert summary_count(standin) == count

    copy = other.api.post("/api/v1/chats/new", {"chat": owner.chat(sent.chat_id)})
    other.ask(PRESET, "And now?", after=end_of(other, copy["id"]))
    assert summary_count(standin) == 2 * count
    query = "SELECT count(*) FROM openrouter_pipe_summary"
    assert [rows(harbour, query, account) for account in (owner, other)] == [[(count,)]] * 2


def test_summary_rows_are_sealed(harbour: OpenWebUI, standin: StandIn, log: Log) -> None:
    """The summary's text is nowhere in the database file, and the chat's words are not in the row."""
    account = harbour.add_user("sealed")
    log.ask_once_more(account)
    stored = rows(
        harbour, "SELECT typeof(payload), packing & 1, payload, model FROM openrouter_pipe_summary", account
    )
    summaries = [
        json.loads(request.output[-1]["content"][0]["text"]) for request in summary_requests(standin)
    ]
    files = [harbour.data / "webui.db", harbour.data / "webui.db-wal"]
    everything = b"".join(file.read_bytes() for file in files if file.exists())
    assert {(form, sealed, model) for form, sealed, _, model in stored} == {("blob", 1, "standin/small")}
    assert len(stored) == len(summaries) > 0
    assert RULE in input_texts(last_request(standin))[1]
    for summary, (*_, payload, _) in zip(summaries, stored, strict=True):
        assert payload in everything
        assert summary["summary_text"].encode() not in everything
        assert not any(word in payload for word in (b"Day", b"summary_text", b"berth", b"EUR"))


def test_a_temporary_chat_is_summarized_in_memory_alone(harbour: OpenWebUI, standin: StandIn) -> None:
    """It is summarized once; no row is stored, and the audit does not name the chat."""
    account = harbour.add_user("passer")
    counts = []
    said = [
        [{"role": "user", "content": day(at)}, {"role": "assistant", "content": day(at)}] for at in range(12)
    ]
    messages = [message for turn in said for message in turn]
    with account.session() as session:
        for count, text in enumerate(("And now?", "And then?"), start=1):
            body = {
                "stream": True,
                "model": PRESET,
                "session_id": session.id,
                "chat_id": f"temporary:{session.id}",
                "id": f"answer-{count}",
                "messages": [*messages, {"role": "user", "content": text}],
            }
            account.api.post("/api/chat/completions", body)
            session.wait_for("chat:active", count=2 * count)
            counts.append(summary_count(standin))
        lines = [status["description"] for status in session.of_type("status")]
    assert SUMMARIZING.fullmatch(lines[0])
    assert summary_blocks(last_request(standin)) == [1]
    answers = [request for request in standin.responses if not request.is_summary]
    assert [request.status for request in answers] == [200, 200]
    assert counts[0] == counts[1] > 0
    assert rows(harbour, "SELECT * FROM openrouter_pipe_summary", account) == []
    chosen = "SELECT DISTINCT purpose, chat_id, message_id FROM openrouter_pipe_audit"
    wait_until(lambda: len(rows(harbour, chosen, account)) == 2)  # they are written beside the answers
    assert sorted(rows(harbour, chosen, account)) == [("answer", "", ""), ("summary", "", "")]


# --- failures ---


@pytest.mark.parametrize(
    ("kind", "reason", "seconds"),
    [
        ("junk", "the model's answer did not have the expected form", 60.0),
        ("hang", "the model took too long", 1.0),
    ],
)
def test_a_failed_summary_does_not_keep_the_answer_away(
    harbour: OpenWebUI, standin: StandIn, log: Log, *, kind: str, reason: str, seconds: float
) -> None:
    """A status line says why, nothing of the failed attempt is sent, and nobody waits for the next one.

    After a failure it is made beside the next answer, and used by the one after it; after a time-out there is a pause.
    """
    account = harbour.add_user(kind)
    harbour.admin.api.set_valves("openrouter", {"SUMMARY_TIMEOUT_SECONDS": seconds})
    standin.summarizer = kind
    sent, answer = log.ask_once_more(account)
    lines = [SUMMARIZING.sub("", line) for line in statuses(answer)]
    assert lines[:2] == ["", f"The conversation could not be summarized: {reason}."]
    assert "error" not in answer
    assert summary_blocks(last_request(standin)) == []
    assert PROSE not in "\n".join(input_texts(last_request(standin)))
    standin.summarizer = "keep"
    count = summary_count(standin)
    sent, answer = account.ask(PRESET, "And now?", after=sent)
    assert not any(map(SUMMARIZING.fullmatch, statuses(answer)))
    if kind == "junk":
        wait_until(lambda: summary_count(standin) > count and summary_claims(harbour) == [])
        _, answer = account.ask(PRESET, "And then?", after=sent)
        assert [bool(SUMMARIZED.fullmatch(line)) for line in statuses(answer)] == [True]
        assert summary_blocks(last_request(standin)) == [1]


def test_stop_cancels_a_summary(harbour: OpenWebUI, standin: StandIn, log: Log) -> None:
    """The request for the summary ends, its claim is released, and the next turn makes the summary."""
    account = harbour.add_user("stopper")
    sent = log.copied_to(account)
    standin.summarizer = "hang"
    with account.session() as session:
        sent = account.send(PRESET, day(log.days), after=sent, session_id=session.id)
        session.wait_for("status")
        account.stop(sent)
        account.wait(sent)
    standin.summarizer = "keep"
    wait_until(lambda: summary_claims(harbour) == [])
    _, answer = account.ask(PRESET, "And now?", after=sent)
    assert was_summarized(answer)
    hung = [request for request in summary_requests(standin) if request.status == 0]
    assert len(hung) > 0
    assert all(request.disconnected for request in hung)


# --- valves ---


def test_a_user_may_bypass_summaries(harbour: OpenWebUI, standin: StandIn, log: Log) -> None:
    """Nothing is summarized for a user with the bypass on, until it is off again."""
    account = harbour.add_user("bypasser")
    account.api.set_user_valves("openrouter", {"SUMMARY_BYPASS": True})
    harbour.admin.api.set_valves("openrouter", {"ENABLE_USER_OVERRIDE": True})
    sent, answer = log.ask_once_more(account)
    assert (summary_count(standin), statuses(answer)) == (0, [])
    account.api.set_user_valves("openrouter", {})
    _, answer = account.ask(PRESET, "And now?", after=sent)
    assert summary_count(standin) > 0
    assert summary_blocks(last_request(standin)) == [1]


def test_a_configured_model_writes_the_summaries(harbour: OpenWebUI, standin: StandIn, log: Log) -> None:
    """The configured model gets the conversation, but neither the chat's tools nor its system prompt."""
    account = harbour.add_user("employer")
    harbour.admin.api.set_valves("openrouter", {"SUMMARY_MODEL": "openai/gpt-4.1-mini"})
    _, answer = log.ask_once_more(account)
    assert was_summarized(answer)
    assert {request.body["model"] for request in summary_requests(standin)} == {"openai/gpt-4.1-mini"}
    assert not any(
        "Be brief." in text for request in summary_requests(standin) for text in input_texts(request)
    )
    assert last_request(standin).body["model"] == "standin/small"
    stored = rows(harbour, "SELECT DISTINCT model FROM openrouter_pipe_summary", account)
    assert stored == [("openai/gpt-4.1-mini",)]


def test_a_summary_is_prefetched(harbour: OpenWebUI, standin: StandIn) -> None:
    """It is made after an answer; the user only reads that the chat became shorter."""
    account = harbour.add_user("hurrier")
    ratios = {"SUMMARY_AHEAD_RATIO": 0.3, "SUMMARY_TRIGGER_RATIO": 0.45}
    harbour.admin.api.set_valves("openrouter", ratios)
    after, lines = None, []
    for number in range(16):
        after, answer = account.ask(PRESET, day(number, 10), after=after)
        lines += statuses(answer)
    assert [bool(SUMMARIZED.fullmatch(line)) for line in lines] == [True] * len(lines) != []
    chosen = "SELECT DISTINCT purpose FROM openrouter_pipe_audit"
    wait_until(lambda: len(rows(harbour, chosen, account)) == 2)  # they are written beside the answers
    assert sorted(rows(harbour, chosen, account)) == [("answer",), ("summary_ahead",)]


def test_the_hosts_own_tasks_are_not_summarized(harbour: OpenWebUI, standin: StandIn) -> None:
    """Title and follow-up requests hold the whole chat, though a request for an answer would summarize it."""
    account = harbour.add_user("titled")
    messages = [
        {"role": role, "content": day(number)} for number in range(14) for role in ("user", "assistant")
    ]
    body = {"model": PRESET, "messages": messages}
    answers = [account.api.post(f"/api/v1/tasks/{task}/completions", body) for task in ("title", "follow_up")]
    assert all(answer["choices"][0]["message"]["content"] for answer in answers)
    assert (summary_count(standin), {request.status for request in standin.responses}) == (0, {200})
    account.complete(PRESET, [*messages, {"role": "user", "content": "And now?"}])
    assert summary_count(standin) > 0


# --- on servers ---


@pytest.mark.servers
def test_on_servers_a_summary_is_made_once_and_found_after_a_restart(
    served: OpenWebUI, standin: StandIn, postgres_server: PostgresServer
) -> None:
    """With PostgreSQL and Redis there are as many rows as requests, no claim remains, and a restart costs nothing."""
    served.admin.api.set_valves("openrouter", SUMMARY_VALVES)
    add_preset(served)
    sent, answer = grow_until_noticed(served.admin)
    assert was_summarized(answer)
    count = summary_count(standin)
    served.stop()
    served.start()
    served.admin.api.models()
    _, answer = served.admin.ask(PRESET, "And now?", after=sent)
    assert [bool(SUMMARIZED.fullmatch(line)) for line in statuses(answer)] == [True]
    assert (summary_blocks(last_request(standin)), summary_count(standin)) == ([1], count)
    with psycopg.connect(postgres_server.url) as connection:
        found = connection.execute(
            f'SELECT user_id, chat_id FROM "{SERVED_SCHEMA}".openrouter_pipe_summary'
        ).fetchall()
        claims = connection.execute(
            f"SELECT name FROM \"{SERVED_SCHEMA}\".openrouter_pipe_lease WHERE name LIKE 'summary:%'"
        ).fetchall()
    assert found == [(id_of(served.admin), sent.chat_id)] * count
    assert claims == []
