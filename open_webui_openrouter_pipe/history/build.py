"""From a read history and its artifacts to the conversation that a request sends.

Two pure halves for whoever loads artifacts in between: `read_history` finds the markers, `build_input` fills them. The
same messages, artifacts and options give the same bytes, and what comes later never changes what an earlier turn
became. What the host added for this one request (see `additions`) stands directly before the current turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any, cast

from ..errors import InvalidHistory
from ..responses.items import Item, is_function_call, is_message, is_reasoning
from ..responses.values import as_list, as_object, as_text
from .additions import SplitPrompt, split_memories, split_prompt, split_user_parts, unique_summaries
from .artifacts import (
    PROVIDER_BOUND,
    Artifacts,
    MissingArtifact,
    Reader,
    maker_of,
    prompt_name,
)
from .folded import results_as_messages
from .markers import (
    Reference,
    leading_markers,
    read_call_name,
    standalone_markers,
    visible_chars,
    write_reference,
)
from .parts import text_part
from .reading import (
    ArtifactRef,
    AssistantText,
    Entry,
    History,
    Instruction,
    Origin,
    PlainTurn,
    UserMessage,
    read_messages,
    split_at_markers,
)
from .steady import SteadyPrompt
from .turn import BuildRules, BuiltHistory, build_turn, input_message

_NO_SUCH = MissingArtifact()


@dataclass(frozen=True, slots=True)
class Options:
    """What shapes the input besides the chat itself.

    `model_id` is the OpenRouter id of the model that will read it, None when reasoning is not to be judged; `fallbacks`
    may answer in its place, and `never_reasons` says that by the catalogue it does not reason.
    `base_system_prompt` and `base_user_prompt` are those of the host's metadata: a system prompt of "" says
    that the host has none, None that it is unknown. `strip_reasoning` omits all reasoning, after a provider refused it.
    """

    model_id: str | None = None
    fallbacks: tuple[str, ...] = ()
    never_reasons: bool = False
    base_system_prompt: str | None = None
    base_user_prompt: str | None = None
    strip_reasoning: bool = False
    steady: SteadyPrompt | None = None
    """What the system prompt is sent as; None sends it as it is, with the host's memories in it."""


def build_input(history: History, artifacts: Artifacts, options: Options) -> BuiltHistory:
    """Build the input of a read history; `artifacts` are what was found of `history.wanted`.

    Raises:
        InvalidHistory: Nothing is left that could be sent.
    """
    base = options.base_system_prompt if history.question else None
    first_entry = next(iter(history.turns[0]), None)
    preparation = _Preparation(artifacts, options, history.question, base, first_entry)
    first, *later = map(preparation.prepare, history.turns)
    built = BuiltHistory(
        [*history.repairs],
        external_summaries=unique_summaries(preparation.summaries),
        steady=options.steady,
        has_additions=preparation.has_additions,
        commands=history.commands,
    )
    reader = Reader(options.model_id, options.fallbacks, options.never_reasons)
    rules = BuildRules(artifacts, reader, options.strip_reasoning, len(later))
    leading = [*takewhile(lambda entry: isinstance(entry, Instruction), first)]
    build_turn(0, leading, rules, built)
    instructions, built.prompt = len(built.items), prompt_name(built.items)
    provider = _last_provider(history, artifacts, built.prompt)
    rules = replace(rules, reader=replace(reader, prompt=built.prompt, provider=provider))
    for number, entries in enumerate((first[len(leading) :], *later)):
        if number == rules.latest:
            built.volatile = range(len(built.items), len(built.items) + len(preparation.volatile))
            for item, origin in preparation.volatile:
                built.send(item, origin, number)
        build_turn(number, entries, rules, built)
    if preparation.has_additions and not later:
        # thinking holds for the first question as well, which has these texts only now
        built.prompt = prompt_name(built.items)
    if not built.items:
        raise InvalidHistory("There is nothing in this chat that could be sent.")
    built.instruction_count = instructions if len(built.items) > instructions else 0
    return built


def _last_provider(history: History, artifacts: Artifacts, prompt: str) -> str:
    """Who served last what is bound to a provider, before the system prompt became what it is; "" where unknown."""
    loaded: Sequence[Any] = [artifacts.get(ulid, _NO_SUCH) for ulid in history.wanted]
    found = [each for each in loaded if not isinstance(each, dict | MissingArtifact)]
    bound = (each for each in reversed(found) if maker_of(each.item) in PROVIDER_BOUND)
    return next((each.provider for each in bound if each.provider and each.prompt not in {"", prompt}), "")


def present_prompt(history: History, base_system_prompt: str | None) -> str:
    """Return the system prompt of a chat as it is now, "" for none, without what changes from question to question.

    Several system messages at the beginning are one, joined as the host joins them.
    """
    first = next(iter(history.turns[0]), None)
    if not isinstance(first, Instruction):
        return ""
    prompts = _split_texts(first, base_system_prompt if history.question else None)
    without_memories, _ = split_memories(prompts[0].stable)
    return "\n".join(filter(None, (without_memories, *(prompt.stable for prompt in prompts[1:]))))


def _split_texts(entry: Instruction, base: str | None) -> list[SplitPrompt]:
    """Split the texts of an instruction; the host writes into the first alone."""
    return [split_prompt(entry.texts[0], base), *(split_prompt(text, None) for text in entry.texts[1:])]


@dataclass(slots=True)
class _Preparation:
    """Goes once over a chat's entries: resolves markers, and takes out what the host has added.

    The host writes into the first instruction, if there is a question to answer, and around that. `base` is what it
    wrote into, until that is met; `first` is the entry whose text is kept steady.
    """

    artifacts: Artifacts
    options: Options
    question: UserMessage | None
    base: str | None
    first: Entry | None
    volatile: list[tuple[Item, Origin]] = field(default_factory=list)
    summaries: list[str] = field(default_factory=list)
    has_additions: bool = False
    _seen: set[str] = field(default_factory=set)
    """The artifacts whose first marker is kept."""

    def prepare(self, entries: Sequence[Entry]) -> list[Entry]:
        """Return the entries of a turn as they are to be built."""
        if type(entries) is PlainTurn:
            return entries
        kept: list[Entry] = []
        for entry in entries:
            if isinstance(entry, ArtifactRef):
                kept += [entry] if self._is_first(entry) else ()
            elif isinstance(entry, AssistantText):
                for part in self._parts(entry):
                    if not isinstance(part, ArtifactRef) or self._is_first(part):
                        kept.append(part)
            elif isinstance(entry, Instruction):
                kept += self._instruction(entry)
            elif entry is self.question:
                parts = tuple(split_user_parts(entry.parts, self.options.base_user_prompt))
                self.has_additions = parts != entry.parts
                kept.append(entry._replace(parts=parts))
            else:
                kept.append(entry)
        return kept

    def _is_first(self, marked: ArtifactRef) -> bool:
        """Whether this is the first marker of its artifact."""
        lacks_call = marked.of_call and isinstance(self.artifacts.get(marked.ulid, _NO_SUCH), MissingArtifact)
        if marked.ulid in self._seen or lacks_call:
            return False
        self._seen.add(marked.ulid)
        return True

    def _parts(self, entry: AssistantText) -> Iterable[Entry]:
        """What reads like a marker in code is one if there is such an artifact."""
        if not entry.in_code:
            return (entry,)
        known = {ulid for ulid in entry.in_code if self.artifacts.get(ulid, _NO_SUCH) != _NO_SUCH}
        return split_at_markers(entry.text, entry.origin, entry.phase, known)

    def _instruction(self, entry: Instruction) -> list[Entry]:
        """Keep what stays in front, gather the summaries and what changes from question to question."""
        steady = self.options.steady if self.question and entry is self.first else None
        prompts, self.base = _split_texts(entry, self.base), None
        stable, changing = [prompt.stable for prompt in prompts], [prompts[0].volatile]
        if steady:
            _, memories = split_memories(stable[0])
            changing = [steady.note, "\n".join(filter(None, (memories, *changing)))]
            stable = [steady.sent]
        self.summaries += (summary for prompt in prompts for summary in prompt.summaries)
        if self.question:
            for text in filter(None, changing):
                self.volatile.append((input_message(entry.role, [text_part(text)]), self.question.origin))
        texts = tuple(filter(None, stable))
        return [entry._replace(texts=texts)] if texts else []


def with_round(
    history: History,
    items: Sequence[Item],
    *,
    artifact_ids: Mapping[int, str],
    outputs: Mapping[str, Any],
    messages_before: int,
) -> History:
    """Return the history with a round at its end.

    `items` is the round's output as the host has it, `artifact_ids` are by index what was stored of it, `outputs` by
    call id what the calls returned, a text or parts, as the host orders it. `messages_before` is how many messages were
    read so far.
    """
    calls = [item for item in items if is_function_call(item) and item["call_id"] in outputs]
    functions = [
        {
            "id": call["call_id"],
            "function": {"name": call["name"], "arguments": call["arguments"] or "{}"},
        }
        for call in calls
    ]
    texts, references = _marked(items, artifact_ids)
    said = {
        "role": "assistant",
        "content": "\n".join(texts),
        "tool_calls": functions,
        "reasoning_details": [*map(write_reference, references)],
    }
    items_returned = [{"call_id": call_id, "output": output} for call_id, output in outputs.items()]
    returned = results_as_messages(items_returned)
    added = read_messages([said, *returned], first_index=messages_before, others=history.others)
    return replace(
        history,
        turns=(*history.turns[:-1], (*history.turns[-1], *added.turns[0])),
        repairs=(*history.repairs, *added.repairs),
        others=added.others,
    )


def _marked(items: Sequence[Item], artifact_ids: Mapping[int, str]) -> tuple[list[str], list[Reference]]:
    """Return the texts of the round's messages, and its references: markers where the host will have them.

    What was stored up to a message is marked before it: beside the reasoning if there was any, or else in the text.
    """
    texts: list[str] = []
    references: list[Reference] = []
    waiting: dict[str, bool] = {}
    """What was stored since the last message, and whether the id of a call names it."""
    has_reasoning, phase = False, ""

    def mark(write: Callable[[Iterable[str]], str]) -> str:
        marked = [*waiting.items()]
        waiting.clear()
        if not has_reasoning:
            return write(ulid for ulid, is_named in marked if not is_named)
        references.extend(Reference(visible_chars("\n".join(texts)), ulid=ulid) for ulid, _ in marked)
        return ""

    for index, item in enumerate(items):
        fields = cast("Mapping[str, Any]", item)
        if ulid := artifact_ids.get(index):
            name = read_call_name(as_text(fields.get("call_id"))) if is_function_call(item) else None
            waiting[ulid] = name is not None and name.ulid == ulid
        has_reasoning = has_reasoning or is_reasoning(item)
        if is_message(item):
            markers, begun = mark(leading_markers), as_text(fields.get("phase"))
            if has_reasoning and begun != phase:
                references.append(Reference(visible_chars("\n".join(texts)), phase=begun))
                phase = begun
            parts = map(as_object, as_list(fields["content"]))
            said = (as_text(part.get("text")) or as_text(part.get("refusal")) for part in parts)
            texts.append(markers + "".join(said))
    texts.append(mark(standalone_markers))
    return [*filter(None, texts)], references
