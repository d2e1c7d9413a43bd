"""Answers the commands that users type as messages, without asking a model, and reads what `/spending` says.

A command holds because it stands in the chat: the plan of each later request goes by it. Here it is answered, which
says what it will do, by planning the next request just as it will be planned, with a question that nobody has asked
yet. Two commands do something at once: one has summaries written, the other has some discarded.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, assert_never

from ..context.report import (
    ChatCost,
    ChatRecord,
    ContextReport,
    context_text,
    cost_text,
    report_context,
    reported_summaries,
)
from ..context.spending import SpendingReport, days_of, report_spending, spending_page, spending_text
from ..conversation.conversation import Conversation
from ..conversation.slash import (
    COMMANDS,
    Aim,
    Command,
    Compact,
    Discard,
    Help,
    Misused,
    Restore,
    SetAim,
    ShowContext,
    ShowCost,
    ShowSpending,
    Unknown,
    commanded_aims,
    covers,
)
from ..history.markers import ANSWER_MARK
from ..money.limits import USER, AccountLimit, AccountSums, Person, SpendingLimits, limits_of
from ..money.prices import dollars
from ..planning.detail import DetailLevel
from ..planning.plan import Plan
from ..ports import Embed, Notice
from ..responses.effects import TextDelta, answer_of
from ..words.lines import ENGLISH, Language, Say, in_language, is_line, notice, speaker
from .bill import SpendingServices
from .channel import OutputChannel
from .fit import Fitter

_SHOWN_OTHERWISE: Final = re.compile(r"(?<!\\)\$|(?<=^- \d)\.|(?<=^- \d\d)\.", re.MULTILINE)
"""What the page would take for a formula: money twice in a paragraph. And for a list in a list: the day of a month."""

MAX_LIMITS: Final = 100
"""Those of which most is spent."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CommandRunner:
    """Answers the commands of one call of the host.

    `model` is the name that users see, `only_draws` says that it does not write; `read_record` returns what is known of
    the chat's requests, `read_cost` what they have cost, `read_spending` what was spent in a period, `page` draws a
    report as a page, a summary may take `wait_seconds`, the user reads `language`, and `problems` returns what is wrong
    with settings, "" where nothing is.
    """

    fitter: Fitter
    channel: OutputChannel
    new_id: Callable[[], str]
    read_record: Callable[[Plan], Awaitable[ChatRecord]]
    read_cost: Callable[[], Awaitable[ChatCost]]
    model: str
    wait_seconds: float
    read_spending: Callable[[str], Awaitable[SpendingReport]]
    only_draws: bool = False
    page: Callable[[ContextReport, Say], str] | None = None
    language: Language = ENGLISH
    problems: Callable[[], Awaitable[str]] | None = None

    async def answer(self, command: Command, conversation: Conversation) -> None:
        """Answer a command; its chat holds it as its last, and an empty question as its current turn.

        Raises what planning raises, and StoreError. The answer begins with its mark before anything can fail.
        """
        item_id = f"msg_{self.new_id()}"
        started, mark, *_ = answer_of(ANSWER_MARK, item_id)
        await self.channel.put(started)
        await self.channel.put(mark)
        said = in_language(await self._text(command, conversation), self.language)
        text = _SHOWN_OTHERWISE.sub(r"\\\g<0>", said)
        await self.channel.put(TextDelta(0, 0, text))
        *_, finished, end = answer_of(f"{ANSWER_MARK}{text}", item_id)
        await self.channel.put(finished)
        await self.channel.put(end)

    async def _text(self, command: Command, conversation: Conversation) -> str:
        """What was asked for; of settings, behind what is wrong with them."""
        problems = ""
        if self.problems and isinstance(command, ShowContext | Help):
            problems = await self.problems()
        match command:
            case ShowContext():
                text = await self._context(conversation)
            case Help():
                text = notice("joined", lines=tuple(self._help(conversation)), separator="\n")
            case ShowCost():
                text = cost_text(await self.read_cost(), speaker(self.language))
            case ShowSpending(period):
                text = await self._spending(period)
            case Compact():
                text = await self._compact(command, conversation)
            case Restore():
                text = await self._restore(command, conversation)
            case Discard():
                summarizer = self.fitter.summarizer
                count = await summarizer.discard(conversation, command.turns) if summarizer else 0
                text = notice("discarded", count=count) if count else notice("discard_nothing")
            case _:
                text = _said(command)
        return notice("joined", lines=(problems, text), separator="\n\n") if problems else text

    def _help(self, conversation: Conversation) -> Iterator[str]:
        yield from (notice("help_title"), "")
        yield from (notice("list_item", line=notice(f"help_{name}")) for name in COMMANDS)
        yield from ("", notice("help_aim_now", aim=self._aim(conversation)))
        if self.only_draws:
            yield from ("", notice("help_drawing"))

    def _aim(self, conversation: Conversation) -> Aim:
        """Return the aim that the user has commanded last, otherwise the one that is set."""
        return (
            [aim for _, aim in commanded_aims(conversation.commands)]
            or [self.fitter.terms.settings.context_aim]
        )[-1]

    async def _context(self, conversation: Conversation) -> str:
        plan = await self.fitter.preview(conversation)
        record, aim = await self.read_record(plan), self._aim(conversation)
        settings = replace(self.fitter.terms.settings, context_aim=aim)
        say = speaker(self.language)

        def draw() -> tuple[str, str]:
            report = report_context(plan, record, model=self.model, settings=settings)
            page = self.page(report, say) if self.page else ""
            return context_text(report, say, folded=bool(page)), page

        return await self._shown(draw)

    async def _shown(self, draw: Callable[[], tuple[str, str]]) -> str:
        """Return the text of a report, and show its page; a long one takes longer than the event loop may wait."""
        text, page = await asyncio.to_thread(draw)
        if page:
            await self.channel.put(Embed(page))
        return text

    async def _spending(self, period: str) -> str:
        report, say = await self.read_spending(period), speaker(self.language)

        def draw() -> tuple[str, str]:
            page = spending_page(report, say) if self.page else ""
            return spending_text(report, say, folded=bool(page)), page

        return await self._shown(draw)

    async def _compact(self, command: Compact, conversation: Conversation) -> str:
        fitter, summarizer = self.fitter, self.fitter.summarizer
        if summarizer is None:
            return notice("compact_off")
        summarizer.retry()
        before = await fitter.preview(_before(conversation))
        wanted = await fitter.preview(conversation)
        new_turns = range(before.summarized_turns + 1, wanted.summarized_turns + 1)
        if command.keep and not new_turns and wanted.summarized_turns:
            newest = [*reported_summaries(wanted)][-1]
            new_turns = range(newest.first_turn, newest.last_turn + 1)
        if not (new_turns or wanted.required_summaries) and wanted.tokens >= before.tokens:
            return notice("compact_too_short")
        if command.keep:  # a summary that exists does not keep it
            await summarizer.discard(conversation, [new_turns])
        after = await fitter.fit(conversation, self._show)
        if after.summarized_turns < wanted.summarized_turns:
            failure = fitter.written.failure
            return notice("compact_failed", reason=notice(f"summary_failure_{failure}") if failure else "")
        before_tokens = wanted.tokens_without_new_summaries if wanted.adds_summaries else before.tokens
        count, tokens = after.summarized_turns, after.tokens
        line = notice("compact_done", count=count, before=before_tokens, after=tokens)
        paid = fitter.written.paid
        cost_line = notice("compact_cost", cost=dollars(*paid)) if any(paid) else notice("compact_kept")
        return notice("sentences", first=line, second=cost_line)

    async def _show(self, line: Notice) -> None:
        """Show a line, but for what the answer itself says; one about a wait says how long that may take."""
        if not line.done:
            text = notice("compact_waiting", line=line.text, seconds=self.wait_seconds)
            line = replace(line, text=text)
        if not is_line(line.text, "summarized", "summarized_cost"):
            await self.channel.put(line)

    async def _restore(self, command: Restore, conversation: Conversation) -> str:
        earlier = range(len(conversation.turns) - 1)
        named = [turn for turn in earlier if covers(command.turns, turn)]
        if not named:
            return notice("no_such_turns", turns=len(earlier))
        before, after = [await self.fitter.preview(each) for each in (_before(conversation), conversation)]
        lacking, left = ([turn for turn in named if not _is_whole(plan, turn)] for plan in (before, after))
        if not lacking:
            return notice("restore_nothing")
        restored = [turn for turn in lacking if turn not in left]
        parts, level_of = after.parts, after.cutoffs.level_of
        cut = [
            turn for turn in left if all(level_of(at) == DetailLevel.FULL for at in _parts_of(after, turn))
        ]
        left = [turn for turn in left if turn not in cut]
        left_tokens = sum(parts.whole_tokens(parts.start_of(turn), parts.start_of(turn + 1)) for turn in left)
        # tokens are not known so exactly that one could be missing
        missing_tokens = max(10, -(-(left_tokens + after.tokens - after.limit_tokens) // 10) * 10)
        sizes = {"before": before.tokens, "after": after.tokens}
        lines = (
            notice("restored", turns=_numbers(restored), **sizes) if restored else "",
            notice("restored_cut", turns=_numbers(cut)) if cut else "",
            notice("restore_no_room", turns=_numbers(left), missing=missing_tokens) if left else "",
        )
        return notice("joined", lines=tuple(filter(None, lines)), separator=" ")


def _said(command: SetAim | Misused | Unknown) -> str:
    """The answer to a command that nothing needs to be read for."""
    match command:
        case SetAim(aim):
            return notice("help_aim_now", aim=aim)
        case Misused(name):
            return notice("command_misused", name=name, usage=notice(f"help_{name}"))
        case Unknown(name, nearest):
            return notice("command_near" if nearest else "command_unknown", name=name, nearest=nearest)
        case _:
            assert_never(command)


def _before(conversation: Conversation) -> Conversation:
    """Return the chat without its last command."""
    return replace(conversation, commands=conversation.commands[:-1])


def _is_whole(plan: Plan, turn: int) -> bool:
    """Whether a request sends all of a turn as it is."""
    parts, level_of = plan.parts, plan.cutoffs.level_of
    return all(parts.entries(level_of(at), at) == parts.parts[at].entries for at in _parts_of(plan, turn))


def _parts_of(plan: Plan, turn: int) -> range:
    return range(plan.parts.start_of(turn), plan.parts.start_of(turn + 1))


def _numbers(turns: Iterable[int]) -> str:
    """Write turns as a user counts them: "3-8, 12"."""
    runs: list[list[int]] = []
    for turn in turns:
        if runs and turn == runs[-1][-1]:
            runs[-1][-1] = turn + 1
        else:
            runs.append([turn + 1, turn + 1])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


@dataclass(frozen=True, slots=True)
class SpendingReader:
    """Reads what one user may know: their own spending, or that of all users.

    `people` returns all users by id, or raises StoreError.
    """

    services: SpendingServices
    limits: SpendingLimits
    people: Callable[[], Awaitable[Mapping[str, Person]]]
    user_id: str
    is_admin: bool

    async def read(self, period: str) -> SpendingReport:
        """Return what was spent in a month, or in so many days. Raises StoreError."""
        ledger, zone = self.services.ledger, self.limits.zone
        today = datetime.fromtimestamp(self.services.planner.memory.clock(), zone).date()
        days = days_of(period, today)
        found = await ledger.usage(days, zone, "" if self.is_admin else f"{USER}{self.user_id}")
        people = await self.people() if self.is_admin else await self._reader()
        under: Sequence[tuple[str, AccountLimit]] = ()
        if self.limits.limits and days[1] == today:
            under = await asyncio.to_thread(self._under, people)
        # of all users, one by one, the report has the sums
        read = {each.account for _, each in under if not (self.is_admin and each.account.startswith(USER))}
        sums = await ledger.sums(sorted(read), zone) if read else {}

        def report() -> SpendingReport:
            of_users = {
                row.account: AccountSums(
                    row.day_cost, row.month_cost, 0.0, row.provider_day, row.provider_month
                )
                for row in found
                if row.by == "account"
            }
            return report_spending(
                found,
                people,
                days=days,
                zone=str(zone),
                of_all=self.is_admin,
                limits=_spent(under, {**of_users, **sums}),
            )

        return await asyncio.to_thread(report)

    async def _reader(self) -> Mapping[str, Person]:
        groups = await self.services.groups(self.user_id) if self.limits.groups else ()
        return {self.user_id: Person("", groups=tuple(groups))}

    def _under(self, people: Mapping[str, Person]) -> Sequence[tuple[str, AccountLimit]]:
        """Return the limits of all these people, each with the name of whose it is alone, once."""
        found = {
            (each.limit, each.account): (person.name if each.account.startswith(USER) else "", each)
            for user_id, person in people.items()
            for each in limits_of(user_id, person.groups, self.limits, is_admin=person.is_admin)
        }
        return [*found.values()]


def _spent(
    under: Sequence[tuple[str, AccountLimit]], sums: Mapping[str, AccountSums]
) -> Sequence[tuple[str, AccountLimit]]:
    """Return how far limits are spent; of many, those of single users only where they are near."""
    known = [
        (name, replace(each, used=sums.get(each.account, AccountSums()).used(each))) for name, each in under
    ]
    shown = [(name, each) for name, each in known if not name or each.is_near]
    return sorted(shown, key=lambda each: -each[1].share)[:MAX_LIMITS]
