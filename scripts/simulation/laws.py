"""What must hold in a world after each of its moments, by what was sent, shown and stored.

Nothing here asks the code that is judged, but for the steps in a plan's row, and what a worker counts of its memory,
which is measured now and then.
Requests are those that the stand-in has recorded, rows are read by SQL, and each message of a user has a word by which
it is known: `canary-USER-NUMBER`. A moment is over when nobody waits for anything, and nothing waits to be written.

    valid       a request is refused only where a fault has ordered it, and has no field that the service ignores
    failure     an answer fails only where a fault has struck it, and one that has come to no end says so
    text        what has come whole is shown whole
    marker      whatever an answer that is kept shows of a stored item is stored, and is its user's
    cut         what a request lacks of its chat's words and tool results was said, and what it lacks more, again
    double      no request has a message of its chat twice
    gone        of a user or a chat that was deleted no rows are left after three days, of one that is not saved never
    own         no request has a word of another user's, but in a channel, nor a thought
    prefix      a request begins as the one before it of its chat, unless its plan has gone a step further, or more fits
    thought     what a model has thought in the last answer is in the next request, where it is kept, and was asked for
    bill        what was billed has one row of its user and chat, of as much; it is an estimate only after a fault
    limit       nothing is sent at a spending limit, and what is said of one is so
    sum         the sums of chats and accounts are those of the rows, at the end
    hold        nothing is held when nothing runs
    memory      what a worker counts of its memory is within its bounds, and no less than it holds
    recall      what a question asks for by its word is in its request
"""

from __future__ import annotations

import json
import math
import re
import sys
from base64 import b64decode
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from open_webui_openrouter_pipe.conversation.conversation import ContentCache
from open_webui_openrouter_pipe.recall.search import passage_bounds
from scripts.faults.audit import HOLDS, MARKER, MOST_ROUNDING, ROWS, Report, compare_sums
from scripts.simulation.host import CHANNEL, DOCUMENT, KNOWLEDGE, Deleted, words_of
from scripts.simulation.spending import REFUSED, Spending
from scripts.simulation.users import CODE, TOOL_NAMES
from scripts.standin.catalogue import BY_ID
from scripts.standin.prompt import PromptReader

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from open_webui_openrouter_pipe.app import App
    from scripts.simulation.clock import Clock
    from scripts.simulation.host import Host, Shown
    from scripts.simulation.services import Call, Exchange, Upstream
    from scripts.standin.state import RecordedRequest

Json = dict[str, Any]

CANARY = re.compile(r"canary-([\w.-]+)-(\d+)")
ORDERED = frozenset({"refusal", "recorded", "provider"})
"""The kinds of faults by which the stand-in answers with an error."""
LOSING = ORDERED | {"database", "database_away", "kill"}
"""Those by which what a model has thought is not kept or sent: its provider may refuse the rest, and is asked again."""
FAILING = ORDERED | {"connect", "cut", "database", "database_away"}
"""Those by which an answer may fail."""
HARMLESS = frozenset({"redis", "redis_away"})
"""Those that change nothing: what Redis has, the database has too."""
UNSAID = ("incomplete=", "mute")
"""Orders that a program learns of by the answer's own form."""
ENDLESS = ("fail=", "incomplete=", "mute", "hang", "first=200")
"""Orders after which an answer has no end of its own."""
SAID_OF_CUTS = re.compile(
    r"left out|shortened|cut to|cut in|[Ss]ummariz|Only the last|less of the chat|with words alone"
)
"""What a line says of a chat that is not sent whole."""
SAID_OF_BREAKS = re.compile(rf"{SAID_OF_CUTS.pattern}|not reloaded")
"""The same of one that begins otherwise: what is stored of it may not be found for once."""
QUOTED = "[Quotations from earlier"
"""How a text begins that is in one turn's requests alone, about what they lack."""
COMMANDS_THAT_CUT = ("/summarize", "/aim", "/discard")
LARGER = "larger window"
"""What is said of a message that no window holds."""
EXPLAINED = re.compile(
    rf"next try is in|not available to several|server is busy|but only [\d,]+ fit|{LARGER}"
)
"""What an answer fails by without a fault: one long before, or a message that no window holds."""
BOUND = "bound to a different conversation"
"""What Claude says of thoughts that it had about a shorter chat, which is sent whole again: by other valves, or where a
limit is near no more."""
UNSENT = "must be passed back"
"""What DeepSeek says of calls without the thoughts before them, where other valves let those go with their answer."""
REFUSING = "openai/"
"""Whose models may refuse to be asked for sealed thoughts."""
BINDING = "anthropic"
"""How the format of thoughts begins that hold for what stood before them alone."""
ELSEWHERE = "Provider returned error"
"""What Gemini's other provider says of thoughts, and no more: nobody can know which one will serve a request."""
RETENTION, KEPT = "PERSIST_REASONING_TOKENS", "conversation"
"""A valve, and with which value thoughts stay in a chat's requests."""
TOO_LONG, COMPRESSED = "maximum context length", "context-compression removed"
"""What OpenRouter says and does of a chat that is not to be shortened here."""
MOST_LESSONS = 2
"""Of a worker: by so many it knows how a model counts, whose bills it had not seen."""
ANSWER_SHARE = 0.15
"""Of a window: what a request leaves, for its answer and what is counted too low, or it is not sent."""
SHORTENING = frozenset({"retention", "summary", "prune", "evict"})
"""The steps of a plan that change what earlier turns are sent as."""
CACHE_MARKS = frozenset({"cache_control", "prompt_cache_breakpoint"})
FLEETING = "Z"
"""How the name of a stored item begins that is deleted before its chat is."""
TEXT_FILE = "data:text/plain;base64,"
"""How a text begins that is a file."""
UNSAVED = ":"
"""What the id of a temporary chat or a channel has."""
MADE_SECONDS = 10.0
"""How long before it is sent a request may be made."""
MOST_TASKS = 8
"""Of a worker, when nothing runs: those that wait for the next thing to do."""
NO_BILL: Json = {"total_cost": 0, "upstream_inference_cost": 0, "is_named": False}
NEVER = "", 0.0, None
LOST_SECONDS = 60.0
"""Before its end, what a worker has not written."""
HOLD_SECONDS = 120.0
"""After them whatever a killed worker has held is over."""
KEPT_SECONDS = 3 * 86_400.0
"""How long rows of deleted users and chats may stay, where somebody is answered meanwhile."""
LOOK_SECONDS = 2 * 3_600.0
"""More than a process waits between two looks whether rows are to be swept."""
SWEEP_FAULTS = frozenset({"database", "database_away", "kill", "skew"})
"""Those by which a sweep ends early; another one begins later."""
OWNED = ("artifact", "summary", "prompt", "audit", "ledger")
"""The tables whose rows go with their user or chat."""
ROWS_OF = "SELECT count(*) FROM openrouter_pipe_{} WHERE"
ITEMS_OF = "SELECT id FROM openrouter_pipe_artifact WHERE"
MEASURED_CHECKS = 25
"""Once in so many checks memory is measured."""
MEASURED_SHARE, UNCOUNTED_BYTES = 1.5, 500_000
"""Of what is counted: objects are larger than their contents; and what small things take that are not counted."""
GUESS_SECONDS = 3_600
"""For so long a row that is an estimate may become a bill."""
MOST_NEW = 300
"""Rows of one moment; the newest are looked through, as SQLite gives the number of a deleted row once more."""
NEW_ROWS = f"{ROWS} AND rowid > (SELECT max(rowid) FROM openrouter_pipe_audit) - {MOST_NEW} ORDER BY rowid"  # noqa: S608 - constants
NAMED = "SELECT id, user_id FROM openrouter_pipe_artifact WHERE id IN (SELECT value FROM json_each(?))"
GUESSES = f"{ROWS} AND id IN (SELECT value FROM json_each(?))"  # noqa: S608 - a constant
ESTIMATES = "SELECT estimate FROM openrouter_pipe_hold"
CLEANUP_SECONDS = 90 * 86_400
"""After them what nobody has asked for is deleted."""
STEPS = "SELECT steps, limit_tokens FROM openrouter_pipe_audit WHERE generation = ?"


class World(Protocol):
    """What is judged."""

    upstream: Upstream

    @property
    def kills(self) -> Sequence[tuple[str, float]]:
        """The names of workers that were killed, and when, in true epoch seconds."""

    @property
    def apps(self) -> Mapping[str, App]:
        """Those of the workers that live."""

    @property
    def host(self) -> Host:
        """What the valves are, and what users have seen since the laws were asked last, in its order."""

    def query(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        """What a statement finds in the database."""

    @property
    def clock(self) -> Clock:
        """The world's time."""


@dataclass(frozen=True, slots=True)
class Moment:
    """What has happened since the laws were asked last.

    `struck` has the kinds of faults by whom they have struck: a call, or a worker by its name.
    """

    exchanges: Sequence[Exchange]
    answers: Sequence[Shown]
    struck: Mapping[object, set[str]]

    def kinds(self, call: Call | None, worker: str) -> set[str]:
        """The kinds of those that have struck a call, or the worker whose it is."""
        return self.struck.get(call, set()) | self.struck.get(worker, set())


@dataclass(slots=True)
class _Chat:
    """What is known of a user's chat."""

    body: Json | None = None
    """Of its last request for an answer."""
    sent_at: float = math.inf
    """When that was sent."""
    thoughts: set[str] = field(default_factory=set)
    """What its model has thought in its last answer, by the provider's ids."""
    lacks: set[str] = field(default_factory=set)
    """What was not sent of it, of which its user was told."""
    is_odd: bool = False
    """Whether a fault has struck its last answer."""
    was_refused: bool = False
    """Whether anything in it was: what is left out of it for that, the worker knows alone that was told so."""
    worker: str = ""
    """Which one has answered last."""
    told: dict[str, float] = field(default_factory=dict)
    """Which workers have said that it is shortened, and when: each says so where its own last request was not."""
    limit_tokens: float = math.inf
    """How much was found to fit into its last request, if that lacks any turn: where bills teach that more does, it is
    decided anew which. One that lacks none lacks none then, either."""


class Laws:
    """Judges one world, moment after moment."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.judged: Counter[str] = Counter()
        """How often each law was asked."""
        self._running: list[Exchange] = []
        self._chats: defaultdict[tuple[str, str], _Chat] = defaultdict(_Chat)
        self._users: set[str] = set()
        self._thoughts_of: dict[str, str] = {}
        """Whose a provider's items are, by their ids."""
        self._refused: set[str] = set()
        """The thoughts in requests that were refused: a worker leaves them out, in copies of a chat, too."""
        self._lessons: Counter[tuple[str, str]] = Counter()
        """By worker and model, how often a request was too long for its window."""
        self._stored: set[str] = set()
        """The markers whose items were found: an answer that goes on months later has some that were cleaned up."""
        self._rows_of: Counter[str] = Counter()
        self._unbilled: dict[str, Json] = {}
        self._paid: dict[str, Json] = {}
        """By the ids of rows, also those that are deleted with their chats: whose they are, and what they say."""
        self._bills = 0
        self._guesses: dict[str, int] = {}
        """The ids of rows that are estimates, and when they were made: their bills may come."""
        self._seen: dict[Deleted, float] = {}
        """What was deleted three days ago, and when somebody was answered first thereafter, which has rows swept."""
        self._listed: dict[str, float] = {}
        """The workers that have the list of models, and since when: others ask OpenAI's for no sealed thoughts."""
        self._awaited: dict[str, tuple[str, str]] = {}
        """The bills of killed workers whose estimates are held, and whose user and chat they are of."""
        self.spending = Spending(world.host, world.upstream, self.judged)
        self._ended: dict[str, tuple[str, float, Call | None]] = {}

    def check(self) -> list[str]:
        """What does not hold, each as a line that begins with the name of its law."""
        moment, now = self._moment(), self.world.clock.true()
        found = [
            *self._of_requests(moment),
            *self._of_answers(moment),
            *self.spending.before(now, moment.exchanges, moment.answers),
            *self._of_bills(moment),
            *self.spending.after(now, moment.exchanges, moment.answers, self._last_kill),
            *self._of_holds(),
            *self._of_deleted(moment, now),
            *self._of_memory(),
        ]
        for exchange in moment.exchanges:
            if record := exchange.record:  # a year of them is more than memory holds
                record.raw, record.body, record.output = b"", None, []
        return found

    def settle(self) -> list[str]:
        """The same at the end of a world, with all rows once more."""
        found, report = self.check(), Report()
        self.judged["sum"] += 1
        left = {name: money for name, _, _, *money in self.world.query(ROWS)}
        for name, (cost, provider, *_) in left.items():
            self._paid[name] |= {"cost": cost, "provider_cost": provider}
        gone = {f"{row['user_id']} {row['chat_id']}" for name, row in self._paid.items() if name not in left}
        groups = {f"group:{name}" for name in self.world.host.groups}
        compare_sums(self.world.query, [*self._paid.values()], report, unknown=gone | groups)
        of_groups = () if self.world.kills else self.spending.of_groups(self.world.query)
        found += [f"sum: {each}" for each in (*report.violations, *of_groups)]
        unsaved = [
            (table, self.world.query(f"{ROWS_OF.format(table)} chat_id LIKE '%{UNSAVED}%'"))
            for table in OWNED
        ]
        return found + [
            f"gone: {rows} of chats that are not saved are in {table}"
            for table, ((rows,),) in unsaved
            if rows
        ]

    def _moment(self) -> Moment:
        upstream = self.world.upstream
        new = [*self._running, *upstream.exchanges]
        upstream.exchanges.clear()
        over = [each for each in new if not each.record or each.record.ended_at is not None]
        self._running = [each for each in new if each.record and each.record.ended_at is None]
        answers = [*self.world.host.answers]
        self.world.host.answers.clear()
        struck = defaultdict[object, set[str]](set)
        for each in new:
            struck[each.call or each.worker] |= _kinds(each)
        for strike in upstream.faults.strikes:
            struck[strike.whom].add(strike.kind)
        upstream.faults.strikes.clear()
        return Moment(over, answers, struck)

    @property
    def _last_kill(self) -> float:
        return max((when for _, when in self.world.kills), default=0.0)

    # --- requests

    def _of_requests(self, moment: Moment) -> Iterator[str]:
        yield from (f"valid: the stand-in has failed: {each}" for each in self.world.upstream.failures)
        answered = [each for each in moment.exchanges if each.record and each.record.status == 200]
        elsewhere = {each.call for each in moment.exchanges if each.record and each.record.error == ELSEWHERE}
        helped: set[Call | None] = {each.call for each in answered if each.call and _is_answer(each)}
        helped |= {each.call for each in moment.exchanges if _kinds(each) & ORDERED}
        told: dict[Call | None, Sequence[str]]
        told = {each.call: each.messages for each in moment.answers if LARGER in each.error}
        for exchange in moment.exchanges:
            if (record := exchange.record) is None:
                continue
            self.judged["valid"] += 1
            if exchange.generation:
                self._ended[exchange.generation] = exchange.worker, record.ended_at or 0.0, exchange.call
            is_list = record.path.startswith("/models") and record.status == 200
            if is_list and not self._remembers(exchange.worker, self._listed, record.ended_at or 0.0):
                self._listed[exchange.worker] = record.ended_at or 0.0
            kinds = moment.kinds(exchange.call, exchange.worker)
            is_lost = exchange.call in helped and (LOSING & kinds or exchange.call in elsewhere)
            may_learn = exchange.call in helped or self._is_least(record, told.get(exchange.call, ()))
            is_lost = is_lost or (may_learn and self._is_lesson(exchange.worker, record))
            is_due = _kinds(exchange) & ORDERED or self._is_unforeseen(record, exchange.call) or is_lost
            if record.status >= 400 and not is_due:
                yield f"valid: {record.path} was answered with {record.status} ({record.error})"
            is_whole = self.world.host.valves.get("CONTEXT_STRATEGY") == "off"
            yield from (f"valid: {each}" for each in record.warnings if not (is_whole and COMPRESSED in each))
            if exchange.call:
                yield from self._of_words(exchange, exchange.call)

    def _is_unforeseen(self, record: RecordedRequest, call: Call | None) -> bool:
        """Whether nobody could know that it would be refused, or nobody is to look."""
        is_whole = self.world.host.valves.get("CONTEXT_STRATEGY") == "off" and TOO_LONG in record.error
        is_early = record.path == "/generation" and record.status == 404
        is_rebound = BOUND in record.error and (self.world.host.has_changed or self.spending.has_limits)
        is_unsent = UNSENT in record.error and call is not None and not self._keeps_thoughts(call)
        return is_whole or is_early or is_rebound or is_unsent or record.error == ELSEWHERE

    def _is_lesson(self, worker: str, record: RecordedRequest) -> bool:
        """Whether a worker learns by a refusal that a model counts more than we do: a killed one learns it anew."""
        if TOO_LONG not in record.error or not record.body:
            return False
        lessons = worker, record.body["model"]
        self._lessons[lessons] += 1
        return self._lessons[lessons] <= MOST_LESSONS + len(self.world.kills)

    def _is_least(self, record: RecordedRequest, messages: Sequence[str]) -> bool:
        """Whether its question with its tools, of which nothing may be left out, leaves too little for an answer."""
        if TOO_LONG not in record.error or not record.body or not messages:
            return False
        tools = [each for each in record.body.get("tools", ()) if each.get("name") in TOOL_NAMES]
        least = {"input": messages[-1], "tools": tools}
        prompt = PromptReader(self.world.upstream.service.tokenizer).read(least, {})
        return prompt.tokens > (1 - ANSWER_SHARE) * BY_ID[record.body["model"]].context_tokens

    def _of_words(self, exchange: Exchange, call: Call) -> Iterator[str]:
        assert exchange.record
        self.judged["own"] += 1
        whose = {user for user, _ in CANARY.findall(exchange.record.raw.decode("utf-8", "replace"))}
        self._users.add(call.user_id)
        others = sorted(whose & self._users - {call.user_id})
        if others and not call.chat_id.startswith(CHANNEL):
            yield f"own: a request of {call.user_id} has words of {', '.join(others)}"
        items = exchange.record.body.get("input") if exchange.record.body else None
        for item in items if isinstance(items, list) else ():
            if (owner := self._thoughts_of.get(item.get("id", ""), call.user_id)) != call.user_id:
                yield f"own: a request of {call.user_id} has a thought of {owner}"
        for item in exchange.record.output:
            if item["type"] == "reasoning":
                self._thoughts_of[item["id"]] = call.user_id
        if exchange.record.usage is None:  # an answer that has begun may be refused as well
            self._refused |= _thoughts(exchange.record.body)

    # --- answers

    def _of_answers(self, moment: Moment) -> Iterator[str]:
        by_call = defaultdict[Any, list["Exchange"]](list)
        for exchange in moment.exchanges:
            if exchange.call and _is_answer(exchange):
                by_call[exchange.call].append(exchange)
        turns, lines = Counter[str](), defaultdict[str, list[str]](list)
        for shown in moment.answers:
            turns[shown.call.chat_id] += 1
            lines[shown.call.chat_id] += shown.lines
        for shown in moment.answers:
            sent = by_call[shown.call]
            chat = self._chats[shown.call.user_id, shown.call.chat_id]
            kinds = moment.kinds(shown.call, shown.worker)
            yield from self._of_failure(shown, sent, kinds)
            yield from self._of_markers(shown)
            yield from self._of_text(shown, sent)
            last = sent[-1].record if sent else None
            if last and shown.call.chat_id:
                yield from self._of_cut(shown, last, chat, lines[shown.call.chat_id])
                if turns[shown.call.chat_id] == 1:
                    yield from self._of_prefix(shown, sent, chat)
            chat.body = last.body if last else None
            chat.sent_at = last.received_at if last else math.inf
            outputs = [
                record.output
                for each in sent
                if (record := each.record)
                and (
                    self._remembers(each.worker, self._listed, record.received_at - MADE_SECONDS)
                    or not record.body["model"].startswith(REFUSING)
                )
            ]
            thoughts = [item for items in outputs for item in items if item["type"] == "reasoning"]
            if any(text.startswith(KNOWLEDGE) for text in shown.before):  # which its next request has not
                thoughts = [item for item in thoughts if not str(item.get("format")).startswith(BINDING)]
            chat.thoughts = {item["id"] for item in thoughts}
            chat.worker = sent[-1].worker if sent else ""
            if any(map(SAID_OF_BREAKS.search, shown.lines)):
                chat.told[shown.worker] = self.world.clock.true()
            found = self.world.query(STEPS, [sent[-1].generation]) if sent else ()
            for steps, limit in found:
                chat.limit_tokens = limit if _lacks_turns(json.loads(steps)) else math.inf
            is_refused = any(each.record and each.record.status >= 400 for each in sent)
            chat.was_refused |= is_refused
            chat.is_odd = bool(kinds - HARMLESS or shown.error or is_refused) or shown.ended != "whole"

    def _of_failure(self, shown: Shown, sent: Sequence[Exchange], kinds: set[str]) -> Iterator[str]:
        if shown.ended != "whole":
            return
        self.judged["failure"] += 1
        is_explained = FAILING & kinds or EXPLAINED.search(shown.error) or REFUSED.search(shown.error)
        if shown.error and not is_explained:
            yield f"failure: {shown.call} fails without a fault: {shown.error}"
        if sent and _is_endless(sent[-1], shown.call) and not (shown.error or shown.lines):
            yield f"failure: {shown.call} has no end, and nothing is said: {sent[-1].faults}"

    def _of_text(self, shown: Shown, sent: Sequence[Exchange]) -> Iterator[str]:
        """What has come whole must be shown whole; a program reads it in another form."""
        if not shown.call.message_id or shown.ended != "whole":
            return
        there = _bare("".join(words_of(json.loads(shown.output))))
        for exchange in sent:
            record = exchange.record
            if record is None or record.usage is None or exchange.faults:
                continue
            self.judged["text"] += 1
            if (written := _bare(record.written)) not in there:
                yield f"text: {shown.call} shows {there[:80]!r} for {written[:80]!r}"

    def _of_markers(self, shown: Shown) -> Iterator[str]:
        if shown.ended == "killed":  # nobody keeps that, and a call may have a name before it is whole
            return
        self.judged["marker"] += 1
        pasted = _marked(json.dumps(shown.messages))
        lasting = (name for name in _marked(shown.output) - pasted if not name.startswith(FLEETING))
        names = {*lasting} - self._stored
        if not names or UNSAVED in shown.call.chat_id:
            return
        owners = dict(self.world.query(NAMED, [json.dumps(sorted(names))]))
        self._stored |= {*owners}
        for name in sorted(names):
            if owners.get(name) != shown.call.user_id:
                yield f"marker: {name} of {shown.call} is of {owners.get(name, 'nobody')}"

    def _of_cut(
        self, shown: Shown, record: RecordedRequest, chat: _Chat, lines: Sequence[str]
    ) -> Iterator[str]:
        """Of two answers side by side one has the `lines` that are said once in a chat."""
        self.judged["cut"] += 1
        said = [*lines, shown.error]
        is_told = any(text.startswith(COMMANDS_THAT_CUT) for text in shown.messages)
        is_told |= any(map(SAID_OF_CUTS.search, said)) or shown.ended != "whole"
        strings = [*map(_of_file, _strings(record.body))]
        self.judged["double"] += 1
        known = Counter(shown.messages)
        if doubled := [text[:40] for text in known if strings.count(text) > known[text]]:
            yield f"double: {shown.call} was sent with {doubled} more than once"
        documents = [text for text in shown.before if text.startswith(DOCUMENT)]
        if documents and isinstance(record.body["input"], list):
            of_user = [each for each in record.body["input"] if each.get("role", "user") != "assistant"]
            texts = [*map(_of_file, _strings(of_user))]  # the stand-in repeats what it was told
            if doubled := [text[:20] for text in documents if sum(text in each for each in texts) > 1]:
                yield f"double: {shown.call} was sent with {doubled} in its place, and in excerpts"
        lasting = "\n".join(text for text in strings if not text.startswith(QUOTED))
        missing = {text for text in shown.before if text not in lasting}
        if (new := missing - chat.lacks) and not (is_told or shown.error):
            begun = sorted(text[:40] for text in new)[:3]
            yield f"cut: {shown.call} was sent without {begun}, and nothing was said ({shown.lines})"
        chat.lacks |= missing
        if shown.expects and not _is_split(shown):
            self.judged["recall"] += 1
            if (
                shown.ended == "whole"
                and not shown.error
                and not any(shown.expects in text for text in strings)
            ):
                yield f"recall: {shown.call} was sent without {shown.expects}"

    def _of_prefix(self, shown: Shown, sent: Sequence[Exchange], chat: _Chat) -> Iterator[str]:
        record = sent[0].record
        if not (shown.appended and chat.body and record) or chat.is_odd or any(each.faults for each in sent):
            return
        sent_before, thoughts = _thoughts(chat.body), _thoughts(record.body)
        if self._refused & (sent_before | thoughts) or (chat.was_refused and chat.worker != sent[0].worker):
            return
        self.judged["prefix"] += 1
        has_rested = record.received_at > chat.sent_at + CLEANUP_SECONDS  # what was stored of it may be gone
        is_said = sent[0].worker != chat.worker and self._remembers(
            sent[0].worker, chat.told, record.received_at
        )
        if has_rested or is_said or any(map(SAID_OF_BREAKS.search, shown.lines)):
            return
        found = [
            ([step["name"] for step in json.loads(steps) if step.get("triggered")], limit)
            for steps, limit in self.world.query(STEPS, [sent[0].generation])
        ]
        # what is shortened may have been shorter already, but Claude's thoughts behind it go all the same
        if self._keeps_thoughts(shown.call) and not any(SHORTENING & {*names} for names, _ in found):
            self.judged["thought"] += 1
            if lost := chat.thoughts - thoughts:
                yield f"thought: {shown.call} was sent without {sorted(lost)}"
        at = broken_at(*(self._kept(body, shown.call) for body in (chat.body, record.body)))
        if at == "":
            return
        # near a spending limit, too, a chat is shortened, and in the next period is not
        is_foreseen = (self.spending.has_limits and chat.limit_tokens < math.inf) or any(
            names or limit > chat.limit_tokens for names, limit in found
        )
        if not is_foreseen:
            yield f"prefix: {shown.call} begins otherwise than the request before it, at {at}"

    def _remembers(self, worker: str, known: Mapping[str, float], now: float) -> bool:
        """Whether a worker knows by then what it has known since, and was not killed meanwhile."""
        since = known.get(worker, now + 1)
        return since <= now and not any(
            name == worker and since < when <= now for name, when in self.world.kills
        )

    def _kept(self, body: Json, call: Call) -> Json:
        """A request without thoughts, where the valves let them go after a turn; what followed them then has no id."""
        if self._keeps_thoughts(call) or not isinstance(body["input"], list):
            return body
        items = [item for item in body["input"] if item.get("type") != "reasoning"]
        return {**body, "input": [{name: item[name] for name in item if name != "id"} for item in items]}

    def _keeps_thoughts(self, call: Call) -> bool:
        """Whether thoughts stay in a chat's requests after their turn."""
        return all(each.get(RETENTION, KEPT) == KEPT for each in (self.world.host.valves, call.valves))

    # --- what is stored, and held

    def _of_bills(self, moment: Moment) -> Iterator[str]:
        service = self.world.upstream.service
        self._unbilled |= dict([*service.bills.items()][self._bills :])
        self._bills = len(service.bills)
        self._look_at_guesses()
        nameless = Counter[tuple[str, str]]()
        for name, generation, estimated, cost, provider, user, chat, _, _, created in self.world.query(
            NEW_ROWS
        ):
            if name in self._paid:
                continue
            self._paid[name] = {"user_id": user, "chat_id": chat, "cost": cost, "provider_cost": provider}
            self.spending.add(name, user, created, cost + provider)
            if estimated:
                self._guesses[name] = created
                nameless[user, chat] += not generation
            self.judged["bill"] += 1
            self._rows_of[generation] += 1
            yield from self._of_owner(generation, user, chat)
            if generation and self._rows_of[generation] > 1:
                yield f"bill: {generation} has {self._rows_of[generation]} rows"
            elif estimated:
                yield from self._of_estimate(generation, moment)
            else:
                yield from self._of_exact(generation, cost + provider)
        yield from self._of_lost(nameless)

    def _of_owner(self, generation: str, user: str, chat: str) -> Iterator[str]:
        """A row, whose it says to be."""
        _, _, call = self._ended.get(generation, NEVER)
        if call and _owner(call) != (user, chat):
            yield f"bill: {generation} of {call} has a row of {user} in {chat!r}"

    def _of_lost(self, nameless: Counter[tuple[str, str]]) -> Iterator[str]:
        """Bills without a row: a killed worker's last ones may be lost, but under a limit, where they are estimated.

        `nameless` are the estimates that were written in this moment without the id of a bill, by user and chat.
        """
        for generation, bill in [*self._unbilled.items()]:
            if not (bill["is_named"] and generation in self._ended):
                continue
            del self._unbilled[generation]
            _, _, call = self._ended[generation]
            if not self._may_be_lost(generation):
                yield f"bill: {generation} (${billed(bill):.6f}) has no row"
            elif call and self.spending.limits_of(call.user_id):
                self._awaited[generation] = _owner(call)
        for generation, whose in [*self._awaited.items()]:
            if nameless[whose]:
                nameless[whose] -= 1
                del self._awaited[generation]
        if self._awaited:
            held = Counter(_held_for(estimate) for (estimate,) in self.world.query(ESTIMATES))
            for owner, count in (Counter(self._awaited.values()) - held).items():
                yield f"bill: {count} of {owner} were lost with a worker, and nothing is held for them"

    def _look_at_guesses(self) -> None:
        """See which estimates have become bills."""
        if not self._guesses:
            return
        newest, names = max(self._guesses.values()), json.dumps([*self._guesses])
        for name, _, estimated, *money, user, _, _, _, created in self.world.query(GUESSES, [names]):
            self.spending.add(name, user, created, sum(money))
            if not estimated or created < newest - GUESS_SECONDS:
                del self._guesses[name]

    def _of_estimate(self, generation: str, moment: Moment) -> Iterator[str]:
        """A row that is one."""
        worker, _, call = self._ended.get(generation, NEVER)
        is_named = self._unbilled.pop(generation, NO_BILL)["is_named"]
        is_due = moment.kinds(call, worker) - HARMLESS or self._may_be_lost(generation)
        if is_named and not is_due:
            yield f"bill: {generation} is estimated, and nothing has struck"

    def _of_exact(self, generation: str, dollars: float) -> Iterator[str]:
        """A row that is no estimate."""
        bill = self._unbilled.pop(generation, NO_BILL)
        if abs(dollars - billed(bill)) > MOST_ROUNDING:
            yield f"bill: {generation or 'nothing'} has a row of ${dollars:.6f} for ${billed(bill):.6f}"

    def _may_be_lost(self, generation: str) -> bool:
        """Whether its worker was killed before it can have been written."""
        worker, ended, _ = self._ended.get(generation, NEVER)
        return any(
            name == worker and when - LOST_SECONDS < ended <= when + 1 for name, when in self.world.kills
        )

    def _of_holds(self) -> Iterator[str]:
        self.judged["hold"] += 1
        now = self.world.clock.true()
        held = self.world.query(f"{HOLDS} WHERE until > ?", [int(now)])[0][0]
        if held and not any(now - when < HOLD_SECONDS for _, when in self.world.kills):
            yield f"hold: {held} are held, and nothing runs"

    def _of_deleted(self, moment: Moment, now: float) -> Iterator[str]:
        """Rows are swept with an answer, once a day; each process looks whether that is due once in an hour."""
        kinds = set[str]().union(*moment.struck.values())
        if not any(map(_is_answer, moment.exchanges)) or SWEEP_FAULTS & kinds:
            self._seen.clear()
            return
        for each in [*self.world.host.deleted]:
            if now < each.when + KEPT_SECONDS or now < self._seen.setdefault(each, now) + LOOK_SECONDS:
                continue
            self.judged["gone"] += 1
            self.world.host.deleted.remove(each)
            del self._seen[each]
            for table in OWNED:
                if found := self._left(table, each):
                    yield f"gone: {found} rows of {each.id}, deleted {now - each.when:.0f} s ago, are in {table}"

    def _left(self, table: str, deleted: Deleted) -> int:
        """How many rows there are still; items that another chat shows may wait until they are that one's."""
        if table != "artifact":
            return int(self.world.query(f"{ROWS_OF.format(table)} {deleted.column} = ?", [deleted.id])[0][0])
        ids = [name for (name,) in self.world.query(f"{ITEMS_OF} {deleted.column} = ?", [deleted.id])]
        messages = [each for chat in self.world.host.chats.values() for each in chat.messages.values()]
        shown = json.dumps([each.output for each in messages]) if ids else ""
        return sum(name not in shown for name in ids)

    def _of_memory(self) -> Iterator[str]:
        self.judged["memory"] += 1
        for name, app in self.world.apps.items():
            worker = app.worker
            budget = worker.encoded_files.budget
            if budget.held_bytes:
                yield f"memory: {name} holds {budget.held_bytes} bytes for nobody"
            if budget.used_bytes > budget.limit_bytes:
                yield f"memory: {name} has {budget.used_bytes} bytes, and may have {budget.limit_bytes}"
            if len(worker.own.tasks) > MOST_TASKS:
                yield f"memory: {name} has {len(worker.own.tasks)} tasks"
            for owner in (worker, worker.memory, worker.planner.caches, worker.spending):
                for key, cache in _caches(owner):
                    if wrong := _miscounted(cache):
                        yield f"memory: {key} of {name} {wrong}"
            if self.judged["memory"] % MEASURED_CHECKS == 1:
                measured = held_bytes([vars(cache) for cache, _ in budget._caches])  # noqa: SLF001 - its own
                if measured > MEASURED_SHARE * budget.used_bytes + UNCOUNTED_BYTES:
                    yield f"memory: {name} counts {budget.used_bytes} bytes, and holds {measured}"


def held_bytes(values: Iterable[Any]) -> int:
    """What values take with all that they are made of, each object once."""
    seen, left, size = set[int](), [*values], 0
    while left:
        value = left.pop()
        if id(value) in seen or callable(value):
            continue
        seen.add(id(value))
        size += sys.getsizeof(value)
        if isinstance(value, dict):
            left += [*value, *value.values()]
        elif isinstance(value, list | tuple | set | frozenset):
            left += value
        else:
            left += [getattr(value, name, None) for name in getattr(type(value), "__slots__", ())]
            left += getattr(value, "__dict__", {}).values()
    return size


def _is_split(shown: Shown) -> bool:
    """Whether what is asked for stands in two passages: a long line without ends of sentences is cut anywhere."""
    return any(
        code[2] == shown.expects and code.start() < bound <= code.start(2)
        for text in shown.before
        for code in CODE.finditer(text)
        for bound in passage_bounds(text)
    )


def _lacks_turns(steps: Sequence[Json]) -> bool:
    """Whether a plan has shortened its chat, now or earlier: with quotations it may be as large as it was."""
    sizes = [step["tokens"] for step in steps if step["name"] != "recall"]
    return min(sizes, default=0) < max(sizes, default=0)


def _owner(call: Call) -> tuple[str, str]:
    """Whose the row of a call is, and of which chat, as it is stored."""
    return call.user_id, "" if UNSAVED in call.chat_id else call.chat_id


def _held_for(estimate: str) -> tuple[str, str]:
    """The user and the chat of an estimate that is held."""
    bill = json.loads(estimate)
    return bill["user_id"], bill.get("chat_id", "")


def billed(bill: Json) -> float:
    """The dollars of one of the stand-in's bills."""
    return float(bill["total_cost"] + (bill["upstream_inference_cost"] or 0))


def _thoughts(body: Json | None) -> set[str]:
    """The ids of the thoughts in a request."""
    items = (body or {}).get("input")
    thoughts = (item for item in items if item.get("type") == "reasoning") if isinstance(items, list) else ()
    return {item.get("id", "") for item in thoughts}


def broken_at(before: Json, now: Json) -> str:
    """Where a request begins otherwise than an earlier one of its chat, up to the end of that one's last answer.

    "" where it does not. Marks of what is to be cached are no part of it.
    """
    for name in ("instructions", "tools"):
        if _plain(before.get(name)) != _plain(now.get(name)):
            return name
    old, new = before["input"], now["input"]
    if not isinstance(old, list) or not isinstance(new, list):
        return "" if old == new else "input"
    answered = [at for at, item in enumerate(old) if item.get("role", "assistant") == "assistant"]
    user = [
        at for at, item in enumerate(old) if item.get("role") == "user" and CANARY.search(json.dumps(item))
    ]
    end = max((at for at in answered if user and at < user[-1]), default=-1) + 1
    for at, (one, other) in enumerate(zip(old[:end], [*new, *[None] * end], strict=False)):
        if _plain(one) != _plain(other):
            return f"input[{at}] ({one.get('type', one.get('role'))})"
    return ""


def _plain(value: Any) -> Any:
    """A value without marks of what is to be cached."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items() if name not in CACHE_MARKS}
    return [_plain(each) for each in value] if isinstance(value, list) else value


def _kinds(exchange: Exchange) -> set[str]:
    return {fault["kind"] for fault in exchange.faults}


def _is_answer(exchange: Exchange) -> bool:
    record = exchange.record
    return bool(record and record.path == "/responses" and record.body and not record.is_summary)


def _is_endless(exchange: Exchange, call: Call) -> bool:
    """Whether an answer has no end that its user could take for one."""
    record = exchange.record
    cuts = {fault["how"] for fault in exchange.faults if fault["kind"] == "cut"}
    ordered = [fault.get("orders", "") for fault in exchange.faults]
    is_ordered = any(
        order.startswith(ENDLESS) and (call.chat_id or not order.startswith(UNSAID)) for order in ordered
    )
    refused = bool(record and record.status >= 400)
    return (
        refused or is_ordered or (exchange.is_broken and cuts != {"noise"} and not (record and record.usage))
    )


def _bare(text: str) -> str:
    """A text without spaces: the host strips them."""
    return "".join(text.split())


def _strings(value: Any) -> Iterator[str]:
    """All texts in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _strings(each)


def _of_file(text: str) -> str:
    """What a file has that is sent as a text, any other text as it is."""
    return b64decode(text.removeprefix(TEXT_FILE)).decode() if text.startswith(TEXT_FILE) else text


def _marked(text: str) -> set[str]:
    return {ulid for found in MARKER.findall(text) for ulid in found if ulid}


def _miscounted(cache: ContentCache[Any]) -> str:
    """What is wrong with what a cache has, "" for nothing; by its own bound, and a look into it."""
    if cache.size > 2 * cache._half:  # noqa: SLF001
        return f"has {cache.size}"
    held = len({*cache._young, *cache._old})  # noqa: SLF001
    is_wrong = cache._size_of is None and cache.size < held  # noqa: SLF001
    return f"counts {cache.size} values, and holds {held}" if is_wrong else ""


def _caches(owner: object) -> Iterator[tuple[str, ContentCache[Any]]]:
    """The caches of something, by their names."""
    for name in (*getattr(owner, "__dict__", ()), *getattr(type(owner), "__slots__", ())):
        if isinstance(cache := getattr(owner, name, None), ContentCache):
            yield name, cache
