"""The laws of a simulated world: silent about a world in order, and each of them speaks about what breaks it."""

from __future__ import annotations

import json
import sqlite3
from base64 import b64encode
from copy import copy
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe.conversation.conversation import ContentCache
from open_webui_openrouter_pipe.words.lines import notice
from scripts.simulation.faults import Strike
from scripts.simulation.host import KNOWLEDGE, Deleted, Shown
from scripts.simulation.laws import RETENTION, TOO_LONG, Laws, broken_at
from scripts.simulation.services import Call, Exchange
from scripts.standin.prompt import ByteTokenizer
from scripts.standin.state import RecordedRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Json = dict[str, Any]

NOW = 20_000.0
ULID = "01ARZ3NDEKTSV4RRFFQ6"
FIRST_CALL, OTHER_CALL = Call("ada", "chat-1", "message-1"), Call("ada", "chat-2", "message-2")
QUESTION, SECOND = "canary-ada-1 Good morning", "canary-ada-2 And good night"
TOLD = notice("lacking_omitted", count=2, of=9, tokens=900)
NEAR = "Your spending limit of $0.10 a day is nearly used up, until 2 January at 01:00: long chats are shortened."
REACHED = "Your spending limit of $0.10 a day is used up, until 2 January at 01:00. Nothing was sent."
BUSY = notice("limit_in_use")
DOCUMENT = "Document 1 has a line."
BOOK = f"{KNOWLEDGE} has a line."
TOOL = {"type": "function", "name": "look_up", "description": "word " * 200}
FILE = f"data:text/plain;base64,{b64encode(DOCUMENT.encode()).decode()}"
TABLES = """
    CREATE TABLE openrouter_pipe_audit (id, generation, estimated, cost, provider_cost, user_id, chat_id, model,
        purpose, created, rejected DEFAULT 0, steps DEFAULT '[]', limit_tokens DEFAULT 0);
    CREATE TABLE openrouter_pipe_artifact (id, user_id, chat_id DEFAULT 'chat-1');
    CREATE TABLE openrouter_pipe_summary (user_id, chat_id);
    CREATE TABLE openrouter_pipe_prompt (user_id, chat_id);
    CREATE TABLE openrouter_pipe_hold (id, until, estimate DEFAULT '{"user_id": "ada", "chat_id": "chat-1"}');
    CREATE TABLE openrouter_pipe_ledger (user_id, chat_id, cost, provider_cost);
    CREATE TABLE openrouter_pipe_usage (account, cost, provider_cost);
"""
ROW = "INSERT INTO openrouter_pipe_audit VALUES (?,?,?,?,0,'ada','chat-1','a/m','answer',19990,0,'[]',0)"


class World:
    """One answer of one request, billed and shown as it should be."""

    def __init__(self) -> None:
        service = SimpleNamespace(bills=dict[str, Json](), tokenizer=ByteTokenizer())
        self.strikes = list[Strike]()
        self.upstream: Any = SimpleNamespace(
            exchanges=list[Exchange](),
            service=service,
            faults=SimpleNamespace(strikes=self.strikes),
            failures=list[str](),
            has_other_prices=False,
        )
        self.kills: list[tuple[str, float]] = []
        self.apps: dict[str, Any] = {}
        self.clock: Any = SimpleNamespace(true=lambda: NOW)
        users = {name: SimpleNamespace(valves={}, is_admin=False) for name in ("ada", "eve")}
        groups = {"Keepers": frozenset({"ada"})}
        self.host: Any = SimpleNamespace(
            valves={},
            users=users,
            groups=groups,
            answers=list[Shown](),
            deleted=list[Deleted](),
            chats=dict[str, Any](),
            has_changed=False,
        )
        self.asked_before = 0
        self.rows = sqlite3.connect(":memory:")
        self.rows.executescript(TABLES)
        self.rows.execute(f"INSERT INTO openrouter_pipe_artifact (id, user_id) VALUES ('{ULID}', 'ada')")
        self.laws = Laws(self)
        self.asked([QUESTION])

    def query(self, statement: str, values: Any = ()) -> list[Any]:
        return self.rows.execute(statement, values).fetchall()

    def asked(self, texts: list[str], *, before: tuple[Json, ...] = (), **shown: Any) -> Exchange:
        """Another answer, whose request has these texts."""
        self.asked_before += 1
        number = self.asked_before
        items = [*before, *({"role": "user", "content": text} for text in texts)]
        body = {"model": "a/m", "input": items}
        raw = json.dumps(body).encode()
        record = RecordedRequest("POST", "/responses", "", {}, "account", raw, body, NOW - 10)
        call = FIRST_CALL if number == 1 else Call("ada", "chat-1", f"message-{number}")
        call = shown.pop("call", call)
        record.status, record.finished, record.ended_at, record.usage = 200, True, NOW - 5, {}
        exchange = Exchange("w0", call, record, f"gen-{number}")
        self.upstream.exchanges.append(exchange)
        self.upstream.service.bills[f"gen-{number}"] = {
            "id": f"gen-{number}",
            "total_cost": 0.25,
            "upstream_inference_cost": 0,
            "is_named": True,
            "cancelled": False,
            "user": None,
            "model": "a/m",
            "began_at": NOW - 10,
            "told_at": NOW,
        }
        self.rows.execute(ROW, (f"row-{number}", f"gen-{number}", 0, 0.25))
        whose = call.user_id, call.chat_id, f"row-{number}"
        self.rows.execute("UPDATE openrouter_pipe_audit SET user_id = ?, chat_id = ? WHERE id = ?", whose)
        record.written = "Yes." if number == 1 else "No."
        text = f"[{ULID}]: #\n{record.written}" if number == 1 else record.written
        output = json.dumps([{"type": "message", "content": [{"type": "output_text", "text": text}]}])
        said = tuple(shown.pop("messages", texts))
        kept = tuple(shown.pop("words", said))
        self.host.answers.append(Shown(call, said, output, before=kept, worker="w0", **shown))
        return exchange

    def show(self, **fields: Any) -> None:
        """Let the last answer be another one."""
        last = self.host.answers.pop()
        values = {name: getattr(last, name) for name in Shown.__slots__}
        self.host.answers.append(Shown(**values | fields))

    @property
    def last(self) -> Exchange:
        exchange: Exchange = self.upstream.exchanges[-1]
        return exchange

    @property
    def record(self) -> RecordedRequest:
        assert self.last.record
        return self.last.record


ANSWERED: tuple[Json, ...] = ({"role": "user", "content": QUESTION}, {"role": "assistant", "content": "Yes."})


def goes_on(world: World, *, system: str = "", evicted_tokens: int = 0) -> Exchange:
    """Two more questions; before the second one the chat may have changed, and the first one's may lack turns."""
    assert world.laws.check() == []
    world.asked([SECOND], before=ANSWERED, messages=[QUESTION, SECOND], appended=True)
    sizes = {"cap": 9, "evict": 9 - evicted_tokens, "recall": 10}
    steps = json.dumps([{"name": name, "tokens": tokens} for name, tokens in sizes.items()])
    world.rows.execute("UPDATE openrouter_pipe_audit SET steps = ?", [steps])
    assert world.laws.check() == []
    changed = ({**ANSWERED[0], "content": f"{QUESTION}{system}"}, ANSWERED[1])
    more = (*changed, {"role": "user", "content": SECOND}, {"role": "assistant", "content": "No."})
    texts = ["canary-ada-3 And?"]
    return world.asked(texts, before=more, messages=[QUESTION, SECOND, *texts], appended=True)


def asked_of_a_book(world: World) -> None:
    """The host has added an excerpt to the question."""
    world.show(before=(QUESTION, BOOK))
    world.record.body["input"].append({"role": "user", "content": BOOK})


def rested(days: float) -> Callable[[World], None]:
    """A chat goes on after so long, and begins otherwise."""

    def change(world: World) -> None:
        goes_on(world, system=" Changed.")
        world.record.received_at += days * 86_400

    return change


def said_before(*, other: str = "w1", kills: Sequence[tuple[str, float]] = ()) -> Callable[[World], None]:
    """Its worker has said that the chat is shortened, another sends more of it, and the first one less again."""

    def change(world: World) -> None:
        world.show(lines=("Earlier turns shortened: 1",))
        assert world.laws.check() == []
        world.asked([SECOND], before=ANSWERED, messages=[QUESTION, SECOND], appended=True)
        world.last.worker = other
        world.kills.extend(kills)
        assert world.laws.check() == []
        more = ({**ANSWERED[0], "content": f"{QUESTION} Changed."}, *ANSWERED[1:])
        text = "canary-ada-3 And?"
        world.asked([SECOND, text], before=more, messages=[QUESTION, SECOND, text], appended=True)
        world.record.received_at = NOW + 9

    return change


def told_code(characters: int) -> tuple[str, ...]:
    """The question, and a line without sentences that tells a code behind so much."""
    return QUESTION, f"{'word ' * 100}"[:characters] + "The code of keeper1 is 12345. "


def goes_on_without(*thoughts: str, listed: bool = True, **fields: str) -> Callable[[World], None]:
    """The next request has not all that the model thought before its first answer; was the list of models there?"""

    def change(world: World) -> None:
        if listed:
            models = RecordedRequest("GET", "/models", "", {}, "account", b"", None, NOW - 99)
            models.status, models.ended_at = 200, NOW - 50
            world.upstream.exchanges.insert(0, Exchange("w0", None, models))
        world.record.output = [{"type": "reasoning", "id": each, **fields} for each in ("rs_1", "rs_2")]
        assert world.laws.check() == []
        kept = [{"type": "reasoning", "id": each} for each in ("rs_1", "rs_2") if each not in thoughts]
        before = (ANSWERED[0], *kept, ANSWERED[1])
        world.asked([SECOND], before=before, messages=[QUESTION, SECOND], appended=True)

    return change


def lets_thoughts_go(world: World) -> None:
    """Its user lets thoughts go after an answer, and no longer when the laws are asked."""
    valves = {RETENTION: "disabled"}
    world.last.call = Call("ada", "chat-1", "message-2", valves=valves)
    world.show(call=world.last.call)


def of_openai(world: World) -> None:
    world.record.body["model"] = "openai/m"


def quoted(world: World) -> None:
    """A turn's quotations go with it: what they have is not sent with the next one."""
    said = f"[Quotations from earlier turns of this conversation]\n{SECOND}"
    world.record.body["input"].append({"role": "user", "content": said})
    world.show(before=(QUESTION, SECOND))


def with_document(*texts: str) -> Callable[[World], None]:
    """A document is attached to the question, with which these texts are sent."""

    def change(world: World) -> None:
        world.show(before=(QUESTION, DOCUMENT))
        world.record.body["input"] += [{"role": "user", "content": text} for text in texts]

    return change


def lacks_more(world: World) -> None:
    """What its user was told of is not sent, and then more."""
    world.show(before=(QUESTION, SECOND), lines=(TOLD,))
    assert world.laws.check() == []
    world.asked([QUESTION], words=(QUESTION, SECOND))
    assert world.laws.check() == []
    world.asked([QUESTION], words=(QUESTION, SECOND, "canary-ada-3 And?"))


def refused(world: World) -> None:
    world.record.status, world.record.error = 400, "no such parameter"


def ordered(world: World) -> None:
    refused(world)
    world.last.faults.append({"kind": "recorded", "row": 1})


def too_long(times: int) -> Callable[[World], None]:
    """The request was sent so often, and was each time too long for its window, before a shorter one was."""

    def change(world: World) -> None:
        for _ in range(times):
            longer = copy(world.record)
            longer.status, longer.usage = 400, None
            longer.error = "This endpoint's maximum context length is 8000 tokens."
            world.upstream.exchanges.insert(0, Exchange("w0", FIRST_CALL, longer))

    return change


def refused_as_long(world: World) -> None:
    """What was too long was not sent shorter."""
    world.record.status, world.record.error = 400, TOO_LONG
    world.show(error="Refused.")


def too_long_alone(
    *,
    words: int = 5_500,
    times: int = 1,
    error: str = "Choose a model with a larger window.",
    body: Json | None = None,
) -> Callable[[World], None]:
    """So many chats began with a question that is too long for its window."""

    def change(world: World) -> None:
        world.upstream.exchanges.clear()
        world.host.answers.clear()
        for number in range(times):
            text = f"canary-ada-1 {'word ' * words}{number}"
            world.asked([text], call=Call("ada", f"chat-{number}", "message-1"), error=error)
            world.show(output="[]")
            world.record.body |= {"model": "mistralai/mistral-small-8k"} | (body or {})
            world.record.status, world.record.usage, world.record.error = 400, None, TOO_LONG

    return change


def continued(world: World) -> None:
    """What was refused is continued at once, in the same message."""
    ordered(world)
    world.show(error="Refused.", output="[]")
    world.asked([QUESTION], call=Call("ada", "chat-1", "message-1"))


def cut_off(world: World) -> None:
    world.last.faults.append({"kind": "cut", "how": "drop", "after_bytes": 1})
    world.last.is_broken, world.record.usage = True, None


def another(world: World) -> None:
    """Eve has sent something of her own, and Ada what is Eve's."""
    world.asked(["canary-eve-1 Hello"], call=Call("eve", "chat-9", "message-9"))
    world.upstream.exchanges.reverse()
    world.record.raw += b" canary-eve-1"


def thought(world: World) -> None:
    """What Eve's model has thought is in Ada's next request."""
    world.last.call = Call("eve", "chat-9", "message-9")
    world.record.raw, world.record.output = b"", [{"type": "reasoning", "id": "rs_1"}]
    world.record.written = ""
    world.rows.execute("UPDATE openrouter_pipe_audit SET user_id = 'eve', chat_id = 'chat-9'")
    world.show(call=world.last.call, output="[]", messages=())
    world.asked([QUESTION], before=({"type": "reasoning", "id": "rs_1", "summary": []},))


def in_channel(world: World) -> None:
    """Ada has asked in a channel, which all read, and of which nothing is kept."""
    call = Call("ada", "channel:general", "message-1")
    for exchange in world.upstream.exchanges:
        exchange.call = call if exchange.call and exchange.call.user_id == "ada" else exchange.call
    world.host.answers = [
        replace(each, call=call) if each.call.user_id == "ada" else each for each in world.host.answers
    ]
    world.rows.execute("UPDATE openrouter_pipe_audit SET chat_id = '' WHERE user_id = 'ada'")


def of_worker(**sizes: Any) -> Callable[[World], None]:
    """A worker that counts so much."""
    budget = {"held_bytes": 0, "used_bytes": 0, "limit_bytes": 10} | sizes
    tasks = range(budget.pop("tasks", 0))
    budget["_caches"] = [(SimpleNamespace(kept="x" * budget.pop("really", 0)), 1)]
    files = SimpleNamespace(budget=SimpleNamespace(**budget))
    empty = SimpleNamespace(caches=SimpleNamespace())
    worker = SimpleNamespace(
        encoded_files=files,
        own=SimpleNamespace(tasks=tasks),
        memory=SimpleNamespace(),
        planner=empty,
        spending=empty,
    )
    return lambda world: world.apps.update(w0=SimpleNamespace(worker=worker))


def uncounted() -> ContentCache[int]:
    """A cache of one value that it does not count."""
    cache = ContentCache[int]()
    cache._young[b"key"] = 1
    return cache


def step(name: str) -> Callable[[World], None]:
    """A step of the plan has done something."""
    steps = json.dumps([{"name": name, "tokens": 7, "triggered": True}])
    return sql(f"UPDATE openrouter_pipe_audit SET steps = '{steps}'")


def also(*changes: Callable[[World], Any]) -> Callable[[World], None]:
    def change(world: World) -> None:
        for each in changes:
            each(world)

    return change


def deleted(
    column: str, *, days: float = 4.0, table: str = "summary", shown: Sequence[str] = ()
) -> Callable[[World], None]:
    """A user or a chat is no more, whose rows are there; somebody is answered, and once more after some hours.

    `shown` are the items of another chat.
    """

    def change(world: World) -> None:
        name = "gone" if column == "user_id" else "chat-0"
        world.host.deleted.append(Deleted(column, name, NOW - days * 86_400))
        values = (f"'{name}'", "'0001'") if table == "artifact" else (f"'{name}'",)
        columns = (column, "id")[: len(values)]
        world.rows.execute(
            f"INSERT INTO openrouter_pipe_{table} ({', '.join(columns)}) VALUES ({', '.join(values)})"
        )
        messages = {"message-1": SimpleNamespace(output=[*shown])}
        world.host.chats["chat-2"] = SimpleNamespace(messages=messages)
        assert world.laws.check() == []
        world.clock.true = lambda: NOW + 3 * 3_600
        world.asked([QUESTION])

    return change


def sql(statement: str) -> Callable[[World], Any]:
    return lambda world: world.rows.execute(statement)


def struck(kind: str, whom: object) -> Callable[[World], Any]:
    return lambda world: world.strikes.append(Strike(kind, whom))


def limited(
    valve: str = "user: 0.1/day", *, spent: float = 0.0, answered: bool = True, **shown: Any
) -> Callable[[World], None]:
    """There is a limit, of which something was spent before; the last answer was asked for thereafter, or refused."""

    def change(world: World) -> None:
        world.host.valves["SPENDING_LIMITS"] = valve
        exchange, answer = world.upstream.exchanges.pop(), world.host.answers.pop()
        row = world.rows.execute("DELETE FROM openrouter_pipe_audit RETURNING *").fetchall()[0]
        bill = world.upstream.service.bills.pop("gen-1")
        world.rows.execute(ROW, ("row-0", "", 1, spent))
        world.rows.execute(f"UPDATE openrouter_pipe_audit SET created = {NOW - 20}")
        assert world.laws.check() == []
        if answered:
            assert exchange.record
            exchange.record.received_at = NOW
            world.upstream.exchanges.append(exchange)
            world.upstream.service.bills["gen-1"] = bill
            world.rows.execute(f"INSERT INTO openrouter_pipe_audit VALUES ({', '.join('?' * len(row))})", row)
        world.host.answers.append(answer)
        world.show(**({} if answered else {"output": "[]"}) | shown)

    return change


def asked_again(world: World) -> None:
    """The same user asks for more, when the first answer was billed."""
    exchange = world.asked([SECOND], call=OTHER_CALL)
    assert exchange.record
    exchange.record.received_at = NOW + 1
    world.rows.execute(f"UPDATE openrouter_pipe_audit SET created = {NOW}")


def cheap(world: World) -> None:
    """The second answer has cost little."""
    world.upstream.service.bills["gen-2"]["total_cost"] = 0.01
    world.rows.execute("UPDATE openrouter_pipe_audit SET cost = 0.01 WHERE generation = 'gen-2'")


def overtaken(world: World) -> None:
    """What was sent first arrives last."""
    first, last = world.upstream.exchanges
    assert first.record
    assert last.record
    first.record.received_at, last.record.received_at = NOW + 1, NOW


def left(world: World) -> None:
    """What the last answer has cost was not known before its bill came."""
    world.record.disconnected = True


BREAKS: dict[str, tuple[Callable[[World], Any], str]] = {
    "a world in order": (lambda _: None, ""),
    "a refusal": (also(refused, lambda world: world.show(error="Refused.")), "valid failure"),
    "one that was ordered, and told": (also(ordered, lambda world: world.show(error="Refused.")), ""),
    "one that was ordered, and not told": (ordered, "failure"),
    "one that teaches how a model counts": (too_long(2), ""),
    "one that should have taught it": (too_long(3), "valid"),
    "one that leads to nothing shorter": (refused_as_long, "valid failure"),
    "one of a question that leaves no room for an answer": (too_long_alone(times=2), ""),
    "one that should have taught that": (too_long_alone(times=3), "valid"),
    "one of such a question, and not told": (too_long_alone(error="Refused."), "valid failure"),
    "one of a question that leaves enough": (too_long_alone(words=5_400), "valid"),
    "one of the same with tools of its chat": (too_long_alone(words=5_400, body={"tools": [TOOL]}), ""),
    "one of the same with a tool that may be left out": (
        too_long_alone(words=5_400, body={"tools": [{**TOOL, "name": "of_ours"}]}),
        "valid",
    ),
    "one that is continued at once": (continued, ""),
    "one whose continuation is shown in part": (
        also(continued, lambda world: world.show(output="[]")),
        "text",
    ),
    "one whose continuation fails without a fault of its own": (
        also(continued, lambda world: world.show(error="Broken.")),
        "failure",
    ),
    "a field that is ignored": (lambda world: world.record.warnings.append("unknown key"), "valid"),
    "a stand-in that fails": (lambda world: world.upstream.failures.append("KeyError"), "valid"),
    "an error after a fault that has struck it": (
        also(
            lambda world: world.show(error="Broken."),
            struck("database", FIRST_CALL),
        ),
        "",
    ),
    "one that has struck its worker": (
        also(lambda world: world.show(error="Broken."), struck("database", "w0")),
        "",
    ),
    "one that has struck another": (
        also(lambda world: world.show(error="Broken."), struck("database", "w1")),
        "failure",
    ),
    "one that Redis alone had": (
        also(lambda world: world.show(error="Broken."), struck("redis", "w0")),
        "failure",
    ),
    "an error without a fault": (lambda world: world.show(error="Broken."), "failure"),
    "an answer that is cut off": (cut_off, "failure"),
    "one that says so": (also(cut_off, lambda world: world.show(error="Lost.")), ""),
    "one that was stopped": (also(cut_off, lambda world: world.show(ended="stopped")), ""),
    "a marker without a row": (sql("DELETE FROM openrouter_pipe_artifact"), "marker"),
    "one in what a dead process has not kept": (
        also(sql("DELETE FROM openrouter_pipe_artifact"), lambda world: world.show(ended="killed")),
        "",
    ),
    "a marker of another": (sql("UPDATE openrouter_pipe_artifact SET user_id = 'eve'"), "marker"),
    "a message that is not sent": (lambda world: world.show(before=(QUESTION, SECOND)), "cut"),
    "one that is sent in part": (lambda world: world.show(before=(f"{QUESTION}, and good night",)), "cut"),
    "one that is said not to be": (lambda world: world.show(before=(QUESTION, SECOND), lines=(TOLD,)), ""),
    "one that is sent twice": (
        lambda world: world.record.body["input"].append({"role": "user", "content": QUESTION}),
        "double",
    ),
    "a document that is sent as a file": (with_document(FILE), ""),
    "one that is not sent": (with_document(), "cut"),
    "one that is sent in its place, and in excerpts": (with_document(FILE, f"Sources: {DOCUMENT}"), "double"),
    "one that an answer repeats": (
        also(
            with_document(FILE),
            lambda world: world.record.body["input"].append({"role": "assistant", "content": DOCUMENT}),
        ),
        "",
    ),
    "one that is quoted alone": (quoted, "cut"),
    "another than was said before": (lacks_more, "cut"),
    "an answer that is shown in part": (lambda world: world.show(output="[]"), "text"),
    "one that a program has in another form": (
        lambda world: world.show(output="[]", call=Call("ada", "", "")),
        "",
    ),
    "a word of another": (another, "own"),
    "a word of another in a channel": (also(another, in_channel), ""),
    "a thought of another": (thought, "own"),
    "a thought of another in a channel": (also(thought, in_channel), "own"),
    "a chat that goes on": (goes_on, ""),
    "one that goes on with its thoughts": (goes_on_without(), ""),
    "one that goes on without a thought": (goes_on_without("rs_2"), "thought"),
    "one that goes on without a thought, as its user wished": (
        also(goes_on_without("rs_2"), lets_thoughts_go),
        "",
    ),
    "one that goes on without what was thought about an excerpt": (
        also(asked_of_a_book, goes_on_without("rs_1", "rs_2", format="anthropic-claude-v1")),
        "",
    ),
    "one that goes on without what may be sent again": (
        also(asked_of_a_book, goes_on_without("rs_1", "rs_2", format="openai-responses-v1")),
        "thought",
    ),
    "one that goes on without a thought where earlier turns are shortened": (
        also(goes_on_without("rs_2"), step("retention")),
        "",
    ),
    "one that goes on without a thought where something is quoted": (
        also(goes_on_without("rs_2"), step("recall")),
        "thought",
    ),
    "one whose worker knew no models": (goes_on_without("rs_2", listed=False), "thought"),
    "one of OpenAI's whose worker knew no models": (
        also(of_openai, goes_on_without("rs_2", listed=False)),
        "",
    ),
    "one of OpenAI's whose worker knew those of a process that is dead": (
        also(of_openai, lambda world: world.kills.append(("w0", NOW - 20)), goes_on_without("rs_2")),
        "",
    ),
    "one whose user lets them go": (
        also(
            lambda world: world.host.valves.update(PERSIST_REASONING_TOKENS="disabled"),
            goes_on_without("rs_1", "rs_2"),
        ),
        "",
    ),
    "another beginning": (lambda world: goes_on(world, system=" Changed."), "prefix"),
    "one after what was stored is not found": (
        also(
            lambda world: goes_on(world, system=" Changed."),
            lambda world: world.show(lines=("Stored items not reloaded: 3 (the database is unavailable).",)),
        ),
        "",
    ),
    "one into which more fits": (
        also(
            lambda world: goes_on(world, system=" Changed.", evicted_tokens=2),
            sql("UPDATE openrouter_pipe_audit SET limit_tokens = 9 WHERE generation = 'gen-3'"),
        ),
        "",
    ),
    "one that was shortened near a spending limit": (
        also(
            lambda world: world.host.valves.update(SPENDING_LIMITS="user: 50/day"),
            lambda world: goes_on(world, system=" Changed.", evicted_tokens=2),
        ),
        "",
    ),
    "one that was not": (
        also(
            lambda world: world.host.valves.update(SPENDING_LIMITS="user: 50/day"),
            lambda world: goes_on(world, system=" Changed."),
        ),
        "prefix",
    ),
    "one whose worker has said so before another answered": (said_before(), ""),
    "one whose worker was killed since": (said_before(kills=[("w0", NOW + 1)]), "prefix"),
    "one whose worker has said so in the answer before": (said_before(other="w0"), "prefix"),
    "one that has rested for months": (rested(days=91), ""),
    "one that has rested for weeks": (rested(days=21), "prefix"),
    "one into which more fits, and all has": (
        also(
            lambda world: goes_on(world, system=" Changed."),
            sql("UPDATE openrouter_pipe_audit SET limit_tokens = 9 WHERE generation = 'gen-3'"),
        ),
        "prefix",
    ),
    "one into which less fits": (
        also(
            lambda world: goes_on(world, system=" Changed.", evicted_tokens=2),
            sql("UPDATE openrouter_pipe_audit SET limit_tokens = -9 WHERE generation = 'gen-3'"),
        ),
        "prefix",
    ),
    "one that a step of the plan has": (
        also(lambda world: goes_on(world, system=" Changed."), step("evict")),
        "",
    ),
    "a bill without a row": (sql("DELETE FROM openrouter_pipe_audit"), "bill"),
    "one of a worker that was killed": (
        also(
            sql("DELETE FROM openrouter_pipe_audit"),
            lambda world: world.kills.append(("w0", NOW - 4)),
        ),
        "",
    ),
    "one of another worker": (
        also(
            sql("DELETE FROM openrouter_pipe_audit"),
            lambda world: world.kills.append(("w1", NOW - 4)),
        ),
        "bill",
    ),
    "a row of another": (sql("UPDATE openrouter_pipe_audit SET user_id = 'eve'"), "bill"),
    "a row of another chat": (sql("UPDATE openrouter_pipe_audit SET chat_id = 'chat-9'"), "bill"),
    "another sum": (sql("UPDATE openrouter_pipe_audit SET cost = 0.26"), "bill"),
    "an estimate": (sql("UPDATE openrouter_pipe_audit SET cost = 0.26, estimated = 1"), "bill"),
    "an estimate after a fault": (
        also(
            sql("UPDATE openrouter_pipe_audit SET cost = 0.26, estimated = 1"),
            struck("database", FIRST_CALL),
        ),
        "",
    ),
    "an estimate after one that has struck another": (
        also(
            sql("UPDATE openrouter_pipe_audit SET cost = 0.26, estimated = 1"),
            struck("database", OTHER_CALL),
        ),
        "bill",
    ),
    "one of a killed worker under a limit": (
        also(
            lambda world: world.host.valves.update(SPENDING_LIMITS="user: 9/day"),
            sql("DELETE FROM openrouter_pipe_audit"),
            lambda world: world.kills.append(("w0", NOW - 4)),
        ),
        "bill",
    ),
    "one that is held": (
        also(
            lambda world: world.host.valves.update(SPENDING_LIMITS="user: 9/day"),
            sql("DELETE FROM openrouter_pipe_audit"),
            sql(f"INSERT INTO openrouter_pipe_hold (id, until) VALUES ('row-9', {NOW + 60})"),
            lambda world: world.kills.append(("w0", NOW - 4)),
        ),
        "",
    ),
    "a request below a limit": (limited(spent=0.05), ""),
    "one above it": (limited(spent=0.11), "limit limit"),
    "one above another user's": (limited("each of Others: 0.1/day", spent=0.11), ""),
    "one above a group's, which has it since": (
        limited("group Keepers: 0.1/month", spent=0.11),
        "limit limit",
    ),
    "one behind another that has used it up": (
        also(limited(spent=0.05, lines=(NEAR,)), asked_again),
        "limit",
    ),
    "one behind another that has used it up and arrives later": (
        also(limited(spent=0.05, lines=(NEAR,)), asked_again, cheap, overtaken),
        "limit",
    ),
    "one before another that uses it up and arrives earlier": (
        also(
            limited(spent=0.05, lines=(NEAR,)),
            asked_again,
            cheap,
            lambda world: world.upstream.exchanges.reverse(),
            overtaken,
        ),
        "",
    ),
    "one behind another that may have been told later": (
        also(limited(spent=0.05, lines=(NEAR,)), left, asked_again),
        "",
    ),
    "one near a limit whose user is not told so": (limited(spent=0.09), "limit"),
    "one whose user is": (limited(spent=0.09, lines=(NEAR,)), ""),
    "one whose user is told too early": (
        limited("user: 1/day", lines=(NEAR.replace("0.10", "1.00"),)),
        "limit",
    ),
    "one whose user is told of another": (
        limited(spent=0.05, lines=(NEAR.replace("0.10", "0.20"),)),
        "limit",
    ),
    "a question at a limit that is refused": (limited(spent=0.11, answered=False, error=REACHED), ""),
    "one that is answered": (limited(spent=0.11, answered=False), "limit"),
    "one that is refused below it": (limited(spent=0.05, answered=False, error=REACHED), "limit"),
    "one that is refused until another time": (
        limited(spent=0.11, answered=False, error=REACHED.replace("at 01:00", "at 02:00")),
        "limit",
    ),
    "one that waits for others": (limited(spent=0.05, answered=True, error=BUSY), ""),
    "one that waits for nobody": (limited(spent=0.05, answered=False, error=BUSY), "limit"),
    "two rows": (lambda world: world.rows.execute(ROW, ("row-9", "gen-1", 0, 0.25)), "bill"),
    "a row without a bill": (lambda world: world.rows.execute(ROW, ("row-9", "gen-9", 0, 0.25)), "bill"),
    "a hold": (sql(f"INSERT INTO openrouter_pipe_hold (id, until) VALUES ('row-9', {NOW + 60})"), "hold"),
    "files in memory": (of_worker(held_bytes=1), "memory"),
    "too many of them": (of_worker(used_bytes=11), "memory"),
    "rows of a user who was deleted": (deleted("user_id"), "gone"),
    "rows of a chat that was deleted": (deleted("chat_id"), "gone"),
    "an item of a chat that was deleted": (deleted("chat_id", table="artifact", shown=["0002"]), "gone"),
    "one that another chat shows": (deleted("chat_id", table="artifact", shown=["0001"]), ""),
    "rows of one that was not long ago": (deleted("chat_id", days=2.0), ""),
    "rows that a database has kept from being swept": (
        also(deleted("user_id"), struck("database", "w1")),
        "",
    ),
    "a cache that counts less than it holds": (
        also(of_worker(), lambda world: setattr(world.apps["w0"].worker.memory, "sent", uncounted())),
        "memory",
    ),
    "more than is counted": (of_worker(used_bytes=9, really=10**6), "memory"),
    "tasks": (of_worker(tasks=99), "memory"),
    "a worker in order": (of_worker(), ""),
    "a word that is not found": (lambda world: world.show(expects="lantern"), "recall"),
    "one that is": (lambda world: world.show(expects="morning"), ""),
    "a code that is not found": (
        lambda world: world.show(before=told_code(0), expects="12345"),
        "cut recall",
    ),
    "one at a cut of a long line": (
        lambda world: world.show(before=told_code(282), lines=("shortened",), expects="12345"),
        "",
    ),
}


@pytest.mark.parametrize("case", BREAKS)
def test_each_law_speaks_of_what_breaks_it(case: str) -> None:
    """By its name, and of nothing else."""
    change, law = BREAKS[case]
    world = World()
    change(world)
    found = world.laws.check()
    assert [line.partition(":")[0] for line in found] == law.split()


def test_what_was_judged_is_not_judged_again() -> None:
    """Another look finds nothing, and a new bill is found."""
    world = World()
    laws = world.laws
    assert laws.check() == laws.check() == []
    world.asked([QUESTION])
    world.rows.execute("DELETE FROM openrouter_pipe_audit WHERE generation = 'gen-2'")
    assert [line.partition(":")[0] for line in laws.check()] == ["bill"]


@pytest.mark.parametrize(
    ("valve", "until", "next_day", "broken"),
    [("user: 0.1/month", "1 February at 01:00", 0.0, []), ("user: 0.1/day", "01:00", 0.09, ["limit"])],
)
def test_what_is_said_before_midnight_counts_until_the_end_that_it_names(
    valve: str, until: str, next_day: float, broken: list[str]
) -> None:
    """Nothing is judged then, but who was told of a month's limit is not told again, of another day's they are."""
    line = f"Your spending limit of $0.10 a {valve.rpartition('/')[2]} is nearly used up, until {until}: shortened."
    world = World()
    limited(valve, spent=0.09, answered=False)(world)
    answer = world.host.answers[-1]
    world.show(lines=(line,))
    for hours, spent in ((23.5, 0.0), (36, next_day)):
        world.clock.true = lambda seconds=hours * 3_600: seconds
        world.rows.execute(ROW, (f"row-{hours}", "", 1, spent))
        created = "UPDATE openrouter_pipe_audit SET created = ? WHERE id = ?"
        world.rows.execute(created, (hours * 3_600 - 60, f"row-{hours}"))
        assert world.laws.check() == []
    world.host.answers.append(answer)
    assert [line.partition(":")[0] for line in world.laws.check()] == broken


@pytest.mark.parametrize(
    ("hours", "until", "broken"),
    [
        (22.5, "01:00", []),
        (22.5, "02:00", ["limit"]),
        (12, "01:00", ["limit"]),
        (22.5, "2 January at 01:00", []),
    ],
)
def test_an_end_may_be_named_by_a_clock_that_is_wrong(hours: float, until: str, broken: list[str]) -> None:
    """To a worker that is an hour ahead it is the user's next day already, and the end of UTC's day is today."""
    world = World()
    limited(spent=0.11, answered=False)(world)
    answer = REACHED.replace("2 January at 01:00", until)
    world.show(error=answer, lines=(answer,))
    world.clock.true = lambda: hours * 3_600
    assert [*{line.partition(":")[0] for line in world.laws.check()}] == broken


def test_the_sums_are_audited_at_the_end() -> None:
    """Those of chats and accounts are compared with their rows."""
    world = World()
    world.rows.execute("INSERT INTO openrouter_pipe_ledger VALUES ('ada', 'chat-1', 0.25, 0)")
    world.rows.executemany("INSERT INTO openrouter_pipe_usage VALUES (?, 0.25, 0)", [("user:ada",), ("all",)])
    laws = world.laws
    assert laws.settle() == []
    world.rows.execute("UPDATE openrouter_pipe_usage SET cost = 0.5 WHERE account = 'all'")
    assert [line.partition(" of")[0] for line in laws.settle()] == ["sum: usage"]


def test_marks_of_the_cache_are_no_part_of_a_prefix() -> None:
    """They go along with the end of a chat; another tool or other instructions are told apart."""
    marked = {**ANSWERED[0], "prompt_cache_breakpoint": {"mode": "explicit"}}
    before = {"input": [marked, ANSWERED[1], {"role": "user", "content": SECOND}], "tools": [{"name": "a"}]}
    now = {"input": [*ANSWERED, {"role": "user", "content": SECOND}], "tools": [{"name": "a"}]}
    assert broken_at(before, now) == ""
    assert broken_at(before, {**now, "tools": []}) == "tools"
    assert broken_at(before, {**now, "instructions": "Be kind."}) == "instructions"
    assert broken_at(before, {**now, "input": [*ANSWERED[:1]]}) == "input[1] (assistant)"


def test_a_chat_that_is_not_saved_leaves_nothing() -> None:
    """No row has its name, which is looked for at the end."""
    world = World()
    world.rows.execute("INSERT INTO openrouter_pipe_summary VALUES ('ada', 'temporary:chat-2')")
    assert "gone" in [line.partition(":")[0] for line in world.laws.settle()]
