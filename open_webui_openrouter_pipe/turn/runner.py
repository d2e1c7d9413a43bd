"""One call of the host, from its messages to the end of the answer: loads, builds, fits, asks, and goes on.

Owns as well which system prompt a chat sends, and what a user reads when a turn fails.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, cast, get_args

from ..conversation.conversation import Conversation, KeptObjects, item_digest
from ..errors import ContextTooLong, PipeError, ProviderError, ReasoningRejected, SpendingLimitReached
from ..history.artifacts import MissingArtifact
from ..history.build import Options, build_input, present_prompt, with_round
from ..history.markers import is_fleeting
from ..history.reading import History, read_history
from ..history.steady import SteadyPrompt, steady_prompt
from ..history.turn import BuiltHistory
from ..money.prefix import Announced
from ..planning.plan import Plan
from ..planning.recall import without_tools
from ..ports import (
    Failed,
    KeptPrompt,
    LoadedArtifacts,
    Notice,
    Prompts,
    RequestOrigin,
)
from ..responses.items import Item
from ..threads import READING_CHARACTERS, apart
from ..words.lines import for_admins, notice
from .admission import Away
from .bill import Spending
from .channel import OutputChannel
from .commands import CommandRunner
from .fit import Fitter
from .memory import Memory
from .own_tools import RecallTool, ToolRuns
from .recorder import Persistence, PictureStorage, Recorder
from .remedies import (
    InWords,
    Sending,
    in_words,
    may_be_history,
    may_be_reasoning,
    may_be_too_long,
    may_think_without,
)
from .round import STORE_UNAVAILABLE, Answer, Ports, Round

PROMPT_SECONDS: Final = 5.0
"""How long a request waits for its kept system prompt; then it goes on without."""

_LETTERS: Final = "BCDFGHJKLMNPQRSTVWXZ"
"""Without vowels, so that they make no words."""
_REFERENCE_LETTERS: Final = 6

_OF_TOOLS: Final = ("tools", "tool_choice")
log = logging.getLogger(__name__)


def report_failure(error: Exception, *, for_admin: bool) -> Failed:
    """Log the error, and return it as the last output; whoever can change settings reads words of their own."""
    reference = "".join(secrets.choice(_LETTERS) for _ in range(_REFERENCE_LETTERS))
    known = error if isinstance(error, PipeError) else None
    if known is None:
        log.error("%s: unexpected error", reference, exc_info=error)
        line = notice("unexpected_error")
    else:
        # at a limit a user may try again and again; what cannot be checked has a detail
        is_expected = isinstance(known, SpendingLimitReached) and not known.detail
        level, name = logging.INFO if is_expected else logging.WARNING, known.generation_id or "unnamed"
        log.log(level, "%s: %s; generation %s", reference, known, name)
        line = for_admins(known.user_message) if for_admin else known.user_message
    if known is None or known.has_reference:
        line = notice("with_reference", line=line, reference=reference)
    return Failed(line, known)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PromptKeeper:
    """Chooses which system prompt a chat sends; without `prompts` none is kept.

    `template` returns the digest of the prompt's texts as people wrote them, "" where that is unknown. Without an
    `origin` the prompt is sent as the host has it, memories included.
    """

    prompts: Prompts | None
    origin: RequestOrigin | None
    template: Callable[[], Awaitable[str]]
    time_limit_seconds: float = PROMPT_SECONDS

    async def choose(self, present: str) -> SteadyPrompt | None:
        """Return what is sent, and keep it where it is new; None where that is what the host has.

        Never raises; a chat without a prompt asks nobody.
        """
        if self.origin is None:
            return None
        if self.prompts is None or not present.strip():
            return SteadyPrompt(present)
        try:
            async with asyncio.timeout(self.time_limit_seconds):
                return await self._choose(self.prompts, self.origin, present)
        except Exception as error:  # noqa: BLE001 - an answer without a kept prompt is worth more than none
            log.warning("a system prompt is sent as it is: %s: %s", type(error).__name__, error)
            return SteadyPrompt(present)

    async def _choose(self, prompts: Prompts, origin: RequestOrigin, present: str) -> SteadyPrompt:
        """Of two workers that keep at once, the first decides for both."""
        kept = await prompts.find(origin)
        if kept and kept.text == present:
            return SteadyPrompt(present)
        now = KeptPrompt(present, await self.template())
        steady = await _compared(kept, now)
        if kept and steady.change == "lines":
            return steady
        first = await prompts.keep(origin, now, instead_of=kept)
        if first == now:
            return steady
        result = await _compared(first, now)
        return SteadyPrompt(present, change="new") if kept and result.change == "none" else result


def _refusal(answer: Answer) -> ProviderError | None:
    """Return why a request was refused, before anything of the answer was shown; None where that was billed."""
    is_final = answer.shown or (answer.usage and answer.usage.is_billed)
    return answer.error if isinstance(answer.error, ProviderError) and not is_final else None


def _base(built: BuiltHistory, conversation: Conversation, once: object) -> tuple[str, str]:
    """Return what thoughts of the last turn are bound to: to no other request where it is sent so only `once`."""
    return built.prompt, "once" if once else conversation.chains[-2].hex()


def _has_failed(answer: Answer) -> bool:
    """Whether nothing came of a request."""
    return answer.error is not None and not answer.shown


async def _compared(kept: KeptPrompt | None, now: KeptPrompt) -> SteadyPrompt:
    """Compare with what is kept. What somebody has written anew is a new prompt, however little of it has changed."""
    if kept is None:
        return SteadyPrompt(now.text)
    steady = await apart(now.text, partial(steady_prompt, kept.text, now.text))
    was_edited = kept.template and now.template and kept.template != now.template
    return SteadyPrompt(now.text, change="new") if was_edited and steady.change == "lines" else steady


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TurnRunner:
    """Answers one call of the host: the chat as the host shows it, and whose it is.

    Use once: `await TurnRunner(...).run()` in a task, and drain the channel in another.
    """

    messages: Sequence[Mapping[str, Any]]
    origin: RequestOrigin
    persistence: Persistence
    ports: Ports
    channel: OutputChannel
    memory: Memory
    fitter: Fitter
    spending: Spending
    commands: CommandRunner
    prompt: PromptKeeper
    recall: RecallTool
    tools: ToolRuns | None = None
    """What runs the host's tools here; None where the host does."""
    base_system_prompt: str | None = None
    base_user_prompt: str | None = None
    fallbacks: tuple[str, ...] = ()
    """The models that may answer in the place of the one that is asked."""
    never_reasons: bool = False
    """Whether the catalogue says so of the model that is asked."""
    has_attachments: bool = False
    """Whether something is attached to the message that is answered, so that it cannot be a command."""
    slot: AbstractAsyncContextManager[Away | None] = field(default_factory=nullcontext)
    """Entered before the answer begins: a place among the requests that may run, which a question leaves to others."""
    builtin_tools: frozenset[str] = frozenset()
    """Names of the host's own tools, which a request can do without."""
    folded_answers: Callable[[], Awaitable[Sequence[str]]] | None = None
    """Returns the texts of the chat's answers of which the host keeps no items; None where it keeps no chats."""
    name_chat: Callable[[], object] | None = None
    """Begins to name a chat by its first message that is no command; None where it has no name."""
    kept: KeptObjects = field(default_factory=KeptObjects)
    shown_from_seconds: float = 1.0
    """A wait for the attachments that is shorter is hardly noticed."""

    async def run(self) -> None:
        """Answer, or say in one line why not; closes the channel in any case."""
        try:
            async with self.slot as away:
                if away:
                    self.spending.away = away
                await self._answer()
        except Exception as error:  # noqa: BLE001 - the last one, reported to the log and to the user
            self.spending.note_failure(error)
            await self.channel.put(report_failure(error, for_admin=self.origin.is_admin))
        finally:
            self.channel.close()

    async def _answer(self) -> None:
        history, present = await self._read()
        loaded, steady = await asyncio.gather(self._load(history.wanted), self.prompt.choose(present))
        if history.asked:
            conversation = await self._with_attachments(await self._build(history, loaded, steady))
            await self.commands.answer(history.asked, conversation)
            return
        if self.name_chat and history.commands and len(history.turns) == 1:
            turn = f"{self.origin.chat_id}\n{self.origin.message_id}\nname"
            if self.memory.tried.add(self.origin.user_id, [turn]):  # once, in a turn of several rounds
                self.name_chat()
        messages = len(self.messages)
        while True:
            built, answer = await self._ask(history, loaded, steady)
            if not answer.goes_on:
                break
            history = with_round(
                history,
                answer.items,
                artifact_ids={index: artifact.id for index, artifact in answer.stored.items()},
                outputs={call_id: each.output for call_id, each in answer.outputs.items()},
                messages_before=messages,
            )
            messages += 2 + len(answer.outputs)  # one may have their pictures
            loaded = {**loaded, **{artifact.id: artifact for artifact in answer.stored.values()}}
        if answer.error is not None:
            raise answer.error
        if answer.ended_turn and self.persistence.reasoning != "conversation":
            await self._delete_reasoning(built, answer)

    async def _read(self) -> tuple[History, str]:
        """Return the chat, and its system prompt as it is now."""
        messages = self.messages

        def read(folded: Sequence[str] = ()) -> tuple[History, str]:
            history = read_history(
                messages,
                prompt="" if self.has_attachments else self.base_user_prompt,
                of_program=not (self.origin.chat_id and self.origin.message_id),
                without_items=folded,
                keep=self.kept.of,
            )
            return history, present_prompt(history, self.base_system_prompt)

        found = await apart(messages, read, limit_characters=READING_CHARACTERS)
        if found[0].holds_details and self.folded_answers and (folded := await self.folded_answers()):
            found = await apart(messages, partial(read, folded))
        return found

    async def _ask(
        self, history: History, loaded: LoadedArtifacts, steady: SteadyPrompt | None
    ) -> tuple[BuiltHistory, Answer]:
        """Send the chat, and otherwise where it is refused; return what was sent at first, and the answer.

        Where nothing helps, the first refusal is what the user reads, and nothing is taken for refused.
        """
        tried, user_id, message_id = self.memory.tried, self.origin.user_id, self.origin.message_id
        # the host calls anew after each round of a turn, with the same ids
        turn = f"{self.origin.chat_id}\n{message_id}\n"
        without = tried.contains(user_id, f"{turn}without reasoning")
        built = await self._build(history, loaded, steady, strip_reasoning=without)
        conversation = await self._with_attachments(built)
        await self._report_missing(built, loaded)
        toolless = f"{self.origin.chat_id}\n{self.origin.model}\nwithout tools"
        how = Sending(
            not tried.contains(user_id, f"{turn}thinks no more"),
            next((each for each in get_args(InWords) if tried.contains(user_id, f"{turn}{each}")), ""),
            with_tools=not (tried.contains(user_id, toolless) and self._can_do_without_tools()),
        )
        answer = refused = await self._send(built, conversation, how)
        error = _refusal(answer) if answer.error else None
        if error and error.remedy == "tools" and how.with_tools and self._can_do_without_tools():
            await self.channel.put(Notice(notice("asked_without_tools")))
            how = replace(how, with_tools=False)
            answer = refused = await self._send(built, conversation, how)
            tried.add(user_id, [toolless])
        if answer.error is None:
            return built, answer
        if (
            (error := _refusal(answer))
            and may_be_reasoning(error, built)
            and self._may_try(error, f"{turn}reasoning")
        ):
            await self.channel.put(Notice(notice("asked_without_reasoning")))
            stripped = await self._build(history, loaded, steady, strip_reasoning=True)
            conversation = await self._with_attachments(stripped)
            thinks = how.thinks and may_think_without(error, built, self.origin.model)
            how = replace(how, thinks=thinks, may_shorten=False)
            answer = await self._send(stripped, conversation, how)
            if not _has_failed(answer):
                tried.forget(user_id, f"{turn}reasoning")
                if isinstance(error, ReasoningRejected) or error.status < 500:
                    self.memory.rejected.add(user_id, [*built.replayed])
                elif message_id:  # an outage may have passed meanwhile
                    tried.add(user_id, [f"{turn}without reasoning"])
                tried.add(user_id, [f"{turn}thinks no more"] if message_id and not thinks else ())
        last = _refusal(answer)
        lacks = isinstance(last, ReasoningRejected) and last.is_missing
        may_help = error and last and not how.in_words and (lacks or may_be_history(error, built))
        if error and may_help and self._may_try(error, f"{turn}words"):
            await self.channel.put(Notice(notice("asked_in_words")))
            how = replace(how, in_words="calls" if lacks else "earlier turns", may_shorten=False)
            answer = await self._send(built, conversation, how)
            tried.add(user_id, [f"{turn}{how.in_words}"] if message_id and not _has_failed(answer) else ())
        return built, refused if _has_failed(answer) else answer

    def _can_do_without_tools(self) -> bool:
        """Whether all functions are the host's own, or ours."""
        tools = without_tools(without_tools(self.fitter.terms.tools), self.builtin_tools)
        return not any(tool.get("type") == "function" for tool in tools)

    def _may_try(self, error: ProviderError, what: str) -> bool:
        """Whether to try something in a turn, both in `what`: what is not known to help is tried once."""
        is_known = isinstance(error, ReasoningRejected) or not self.origin.message_id
        return is_known or bool(self.memory.tried.add(self.origin.user_id, [what]))

    async def _load(self, ids: Sequence[str]) -> LoadedArtifacts:
        if not ids:
            return {}
        try:
            return await self.ports.store.load(self.origin.user_id, ids)
        except Exception:  # an answer without its artifacts is worth more than none
            log.exception("%d stored items are not loaded", len(ids))
            return dict.fromkeys(ids, MissingArtifact(reason="unavailable"))

    async def _build(
        self,
        history: History,
        loaded: LoadedArtifacts,
        steady: SteadyPrompt | None,
        *,
        strip_reasoning: bool = False,
    ) -> BuiltHistory:
        user_id, rejected = self.origin.user_id, self.memory.rejected
        options = Options(
            model_id=self.origin.model,
            fallbacks=self.fallbacks,
            never_reasons=self.never_reasons,
            base_system_prompt=self.base_system_prompt,
            base_user_prompt=self.base_user_prompt,
            strip_reasoning=strip_reasoning,
            steady=steady,
        )

        def build() -> BuiltHistory:
            usable = {
                ulid: each
                if isinstance(each, MissingArtifact) or not rejected.contains(user_id, ulid)
                else MissingArtifact("reasoning")
                for ulid, each in loaded.items()
            }
            built = build_input(history, usable, options)
            built.items[:] = map(self.kept.of, built.items)
            return built

        stored = [each.item for each in loaded.values() if not isinstance(each, MissingArtifact)]
        return await apart((self.messages, stored), build, limit_characters=READING_CHARACTERS)

    async def filled(self, items: Sequence[Item], turns: Sequence[int]) -> Sequence[Item]:
        """Put the attachments in place; what is not sent is named once in each chat."""
        if self.ports.fill is None:
            return items
        filling = asyncio.ensure_future(self.ports.fill(items, turns))
        try:
            _, slow = await asyncio.wait({filling}, timeout=self.shown_from_seconds)
            if slow:
                await self.channel.put(Notice(notice("reading_attachments"), done=False))
            filled = await filling
        finally:
            filling.cancel()
        if slow:
            await self.channel.put(Notice(notice("place_found")))
        for line in self.memory.new_lines(self.origin.user_id, self.origin.chat_id, filled.notices):
            await self.channel.put(Notice(line))
        return filled.items

    async def _with_attachments(self, built: BuiltHistory) -> Conversation:
        items = await self.filled(built.items, built.turns)
        return await apart(items, partial(built.conversation, items), found=item_digest)

    async def _report_missing(self, built: BuiltHistory, loaded: LoadedArtifacts) -> None:
        """Name each missing artifact once, but reasoning that was deleted on purpose."""
        if self.persistence.in_memory:
            return
        reported = self.memory.reported
        reasons = {
            ulid: each.reason
            for ulid, each in loaded.items()
            if isinstance(each, MissingArtifact) and not is_fleeting(ulid)
        }
        unavailable, name = [*reasons.values()].count("unavailable"), f"{self.origin.chat_id}\nunavailable"
        if not unavailable:
            reported.forget(self.origin.user_id, name)
        elif name in reported.add(self.origin.user_id, [name, STORE_UNAVAILABLE]):
            reason = (notice("summary_failure_database_unavailable"),)
            await self.channel.put(Notice(notice("artifacts_missing", count=unavailable, details=reason)))
        lost = [ulid for ulid in built.missing if reasons.get(ulid, "unavailable") != "unavailable"]
        new = reported.add(self.origin.user_id, lost)
        if new and self.persistence.reasoning != "next_reply":
            counts = Counter(reasons[ulid] for ulid in new).most_common()
            details = tuple(notice(f"artifact_{name}", count=count) for name, count in counts)
            await self.channel.put(Notice(notice("artifacts_missing", count=len(new), details=details)))

    async def _send(self, built: BuiltHistory, conversation: Conversation, how: Sending) -> Answer:
        """Fit the input and send it; once more with less when it is, or may be, more than the provider's window."""
        fitter = self.fitter
        plan = await fitter.fit(conversation, self.channel.put)
        answer = await self._run_round(plan, built, conversation, how)
        error = _refusal(answer) if answer.error and how.may_shorten else None
        if error and may_be_too_long(error, plan.tokens, plan.limit_tokens):
            counted = error if isinstance(error, ContextTooLong) else None
            if counted is None and not self._may_try(
                error, f"{self.origin.chat_id}\n{self.origin.message_id}\nless"
            ):
                return answer
            if smaller := await fitter.refit_smaller(conversation, plan, counted):
                reason = notice("asked_shorter")
                await self.channel.put(Notice(reason, done=False))
                report = partial(fitter.report, conversation, smaller, self.channel.put, reason=reason)
                again = await self._run_round(smaller, built, conversation, how, report)
                return answer if _has_failed(again) else again
        if answer.ended_turn:
            fitter.prefetch(plan)
        return answer

    async def _run_round(
        self,
        plan: Plan,
        built: BuiltHistory,
        conversation: Conversation,
        how: Sending,
        report: Callable[[], Awaitable[None]] | None = None,
    ) -> Answer:
        compose = partial(
            self.ports.requests.build,
            plan.items,
            plan.marks,
            omitted_tools=plan.absent_tools,
            thinks=how.thinks,
            spent=self.spending.spent_dollars,
        )
        request = await apart(plan.items, compose, found=item_digest)
        if how.in_words:
            tell = partial(in_words, tells_calls=how.in_words == "calls")
            said = await apart(plan.items, partial(tell, request.body["input"], plan.marks.current))
            request = replace(request, body={**request.body, "input": said})
        own = self.recall.of_round(conversation, plan)
        tools = self.tools and self.tools.after(len(conversation.turns[-1].rounds))
        if not how.with_tools:
            request = replace(request, body={k: v for k, v in request.body.items() if k not in _OF_TOOLS})
        if not own.may_call and "tools" in request.body:
            request = replace(request, body={**request.body, "tool_choice": "none"})
        origin, ports, base = self.origin, self.ports, _base(built, conversation, report or how.in_words)
        # the host keeps the calls that the plan omits, so their ids are taken all the same
        ids = built.in_words | {cast("Any", item)["call_id"] for item in built.items if "call_id" in item}
        round_ = Round(
            ports.responses,
            self.channel,
            Recorder(ports.store, origin, self.persistence, ports.new_id, ids, request.host_tool_names, base),
            PictureStorage(ports.files, origin, ports.downloads),
            self.memory.reported,
            ports.find,
            own,
            tools,
            self.spending.cost_so_far if origin.message_id else None,
            report,
        )
        answer = round_.answer
        answer.is_as_planned = how.with_tools and not how.in_words
        announced = Announced(
            new_prompt=bool(built.steady and built.steady.change == "new"),
            drops_reasoning=self.persistence.reasoning == "disabled" or built.has_passing_reasoning,
        )
        await self.spending.open(plan, request, self.channel.put, announced)
        try:
            await round_.run(request.body)
        finally:
            self.spending.close(plan, answer)
            self.fitter.learn(plan, answer)
        if tools and answer.to_run:
            async with self.spending.away():
                answer.outputs = await tools.run(answer.to_run, self.channel.put)
        if line := self.spending.last_line(answer):
            await self.channel.put(Notice(line))
        return answer

    async def _delete_reasoning(self, built: BuiltHistory, answer: Answer) -> None:
        """Delete reasoning that nobody needs once a turn has ended well: of the turns before, or of this very turn."""
        turn, stored = built.turns[-1], answer.stored.values()
        if self.persistence.reasoning == "disabled":
            ids = [ulid for ulid, of in built.replayed.items() if of == turn and is_fleeting(ulid)]
            ids += [each.id for each in stored if each.kind == "reasoning"]
        else:
            ids = [ulid for ulid, of in built.replayed.items() if of < turn]
        if not ids:
            return
        try:
            await self.ports.store.delete(self.origin.user_id, ids)
        except Exception as error:  # noqa: BLE001 - the answer is complete, and the sweep deletes them later
            log.warning("%d stored items are not deleted: %s: %s", len(ids), type(error).__name__, error)
