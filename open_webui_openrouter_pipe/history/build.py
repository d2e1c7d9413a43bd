"""From a read history and its artifacts to the conversation that a request sends.

Two pure halves for whoever loads artifacts in between: `read_history` finds the markers, `build_input` fills them. The
same messages, artifacts and options give the same bytes, and what comes later never changes what an earlier turn
became. What the host added for this one request (see `additions`) stands directly before the current turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile
from typing import Any, cast

from ..conversation.conversation import Conversation, build_conversation, name_turns
from ..conversation.slash import ChatCommand
from ..errors import InvalidHistory
from ..responses.items import Item, is_function_call, is_message, is_reasoning, kind_of, picture_address
from ..responses.values import as_list, as_object, as_text
from .additions import SplitPrompt, split_memories, split_prompt, split_user_parts, unique_summaries
from .artifacts import Artifacts, MissingArtifact, model_family
from .calls import CallIds
from .markers import (
    Reference,
    leading_markers,
    read_call_name,
    standalone_markers,
    visible_chars,
    write_reference,
)
from .parts import read_call_id, text_part
from .reading import (
    ArtifactRef,
    AssistantText,
    Entry,
    History,
    Instruction,
    Origin,
    Repair,
    UserMessage,
    read_messages,
    split_at_folds,
    split_at_markers,
)
from .steady import SteadyPrompt
from .turn import BuildRules, BuiltTurn, build_turn, input_message

_NO_SUCH = MissingArtifact()


@dataclass(frozen=True, slots=True)
class Options:
    """What shapes the input besides the chat itself.

    `model_id` is the OpenRouter id of the model that will read it, None when reasoning is not to be judged.
    `base_system_prompt` and `base_user_prompt` are those of the host's metadata: a system prompt of "" says
    that the host has none, None that it is unknown. `strip_reasoning` omits all reasoning, after a provider refused it.
    """

    model_id: str | None = None
    base_system_prompt: str | None = None
    base_user_prompt: str | None = None
    strip_reasoning: bool = False
    steady: SteadyPrompt | None = None
    """What the system prompt is sent as; None sends it as it is, with the host's memories in it."""


@dataclass(frozen=True)
class BuiltHistory:
    """The input of a chat, and what is known about it.

    `items` stand in the order in which they are sent: first `instruction_count` instructions, then the turns, with the
    `volatile` ones (indexes of items) before the current turn. They may share objects with the artifacts: treat them as
    read-only. `turns` and `origins` say for each item which turn it belongs to and where it comes from. `missing` names
    the markers whose artifact could not be had. `external_summaries` are the texts of what others, such as the host,
    made of messages that are not in the chat any more: oldest first, each once, and not among `items`. `unfilled` are
    the items before their attachments were put in place, where they had any.
    """

    items: list[Item]
    turns: tuple[int, ...]
    origins: tuple[Origin, ...]
    instruction_count: int
    volatile: range
    replayed: Mapping[str, int]
    """The turn of each piece of reasoning among the items, by its ULID."""
    missing: Mapping[str, MissingArtifact]
    repairs: tuple[Repair, ...]
    external_summaries: tuple[str, ...] = ()
    unfilled: list[Item] | None = None
    steady: SteadyPrompt | None = None
    """What the system prompt was sent as; its note is the first of the volatile items."""
    has_additions: bool = False
    """Whether the host wrote something into the last question that later requests will not find there."""
    commands: tuple[ChatCommand, ...] = ()
    """What the user has commanded, oldest first."""

    @cached_property
    def conversation(self) -> Conversation:
        """The items as instructions, volatile text and turns, each named by its content; it has no tools yet."""
        first, volatile = self.instruction_count, self.volatile
        kept = [index for index in range(first, len(self.items)) if index not in volatile]
        conversation = build_conversation(
            [self.items[index] for index in kept],
            [self.turns[index] for index in kept],
            instructions=self.items[:first],
            volatile=self.items[volatile.start : volatile.stop],
            external_summaries=self.external_summaries,
        )
        conversation = replace(
            conversation,
            corrections=int(bool(self.steady and self.steady.note)),
            has_additions=self.has_additions,
            commands=self.commands,
        )
        if self.unfilled is None:
            return conversation
        return name_turns(conversation, [self.unfilled[index] for index in kept])


def build_input(history: History, artifacts: Artifacts, options: Options) -> BuiltHistory:
    """Build the input of a read history; `artifacts` are what was found of `history.wanted`.

    Raises:
        InvalidHistory: Nothing is left that could be sent.
    """
    resolved = _resolve_markers(history.turns, artifacts)
    kept, volatile, summaries = _separate_additions(resolved, options)
    first, *later = kept
    leading = tuple(takewhile(lambda entry: isinstance(entry, Instruction), first))
    rules = BuildRules(artifacts, options.model_id, model_family(options.model_id), options.strip_reasoning)
    call_ids = CallIds()
    instructions = build_turn(0, leading, rules, call_ids)
    turns = [
        build_turn(number, entries, rules, call_ids)
        for number, entries in enumerate([first[len(leading) :], *later])
    ]
    latest = len(turns) - 1
    _send_answer_images(turns[:latest])
    sent = [(0, instructions), *enumerate(turns[:latest]), (latest, volatile), (latest, turns[latest])]
    items: list[Item] = []
    numbers: list[int] = []
    origins: list[Origin] = []
    for number, part in sent:
        items += part.items
        numbers += [number] * len(part.items)
        origins += part.origins
    if not items:
        raise InvalidHistory("There is nothing in this chat that could be sent.")
    before_volatile = sum(len(part.items) for _, part in sent[:-2])
    return BuiltHistory(
        items=items,
        turns=tuple(numbers),
        origins=tuple(origins),
        instruction_count=len(instructions.items) if any(turn.items for turn in turns) else 0,
        volatile=range(before_volatile, before_volatile + len(volatile.items)),
        replayed={ulid: number for number, turn in enumerate(turns) for ulid in turn.replayed},
        missing={ulid: missing for turn in turns for ulid, missing in turn.missing.items()},
        repairs=(*history.repairs, *(repair for turn in turns for repair in turn.repairs)),
        external_summaries=unique_summaries(summaries),
        steady=options.steady,
        has_additions=any(isinstance(entry, UserMessage) and entry not in resolved[-1] for entry in kept[-1]),
        commands=history.commands,
    )


def present_prompt(history: History, base_system_prompt: str | None) -> str:
    """Return the system prompt of a chat as it is now, "" for none, without what changes from question to question.

    Several system messages at the beginning are one, joined as the host joins them.
    """
    first = next(iter(history.turns[0]), None)
    if not isinstance(first, Instruction):
        return ""
    is_asked = any(isinstance(entry, UserMessage) for turn in history.turns for entry in turn)
    prompts = _split_texts(first, base_system_prompt if is_asked else None)
    without_memories, _ = split_memories(prompts[0].stable)
    return "\n".join(filter(None, (without_memories, *(prompt.stable for prompt in prompts[1:]))))


def _send_answer_images(turns: Sequence[BuiltTurn]) -> None:
    """Send what answers show behind their turns, each image once in a chat: as a user's, since answers hold text alone.

    An item that a model has drawn is sent as that.
    """
    if not any(turn.images for turn in turns):
        return
    seen: set[str] = set()
    for turn in turns:
        seen.update(filter(None, map(picture_address, turn.items)))
        new = [
            part for part in turn.images if part["type"] == "input_image" and part["image_url"] not in seen
        ]
        unique = {part["image_url"]: part for part in new}
        seen.update(unique)
        if unique:
            turn.send(input_message("user", [*unique.values()]), turn.origins[-1])


def _resolve_markers(turns: Sequence[Sequence[Entry]], artifacts: Artifacts) -> list[list[Entry]]:
    """Keep the first marker of each artifact. What reads like a marker in code is one if there is such an artifact.

    So is a block of a call that was left as text: it is a call if an artifact of the turn is that call.
    """
    seen: set[str] = set()
    found: list[list[Entry]] = []
    for entries in turns:
        kept: list[Entry] = []
        for entry in entries:
            parts: Iterable[Entry] = (entry,)
            if isinstance(entry, AssistantText) and entry.in_code:
                known = {ulid for ulid in entry.in_code if artifacts.get(ulid, _NO_SUCH) != _NO_SUCH}
                parts = split_at_markers(entry.text, entry.origin, entry.phase, known)
            elif isinstance(entry, AssistantText) and "<" in entry.text and "<details" in entry.text:
                call_ids = _stored_call_ids(entries, artifacts)
                parts = split_at_folds(entry.text, entry.origin, entry.phase, call_ids.__contains__)
            for part in parts:
                if not isinstance(part, ArtifactRef):
                    kept.append(part)
                elif part.ulid not in seen and not (
                    part.of_call and isinstance(artifacts.get(part.ulid, _NO_SUCH), MissingArtifact)
                ):
                    seen.add(part.ulid)
                    kept.append(part)
        found.append(kept)
    return found


def _stored_call_ids(entries: Iterable[Entry], artifacts: Artifacts) -> set[str]:
    """Return the ids of the calls among a turn's artifacts."""
    found = set()
    for entry in entries:
        loaded: Any = artifacts.get(entry.ulid) if isinstance(entry, ArtifactRef) else None
        if loaded is not None and not isinstance(loaded, MissingArtifact):
            item = as_object(loaded if isinstance(loaded, dict) else loaded.item)
            if kind_of(as_text(item.get("type"))).output:
                found.add(read_call_id(item.get("call_id")))
    return found


def _split_texts(entry: Instruction, base: str | None) -> list[SplitPrompt]:
    """Split the texts of an instruction; the host writes into the first alone."""
    return [split_prompt(entry.texts[0], base), *(split_prompt(text, None) for text in entry.texts[1:])]


def _split_instruction(
    entry: Instruction, base: str | None, steady: SteadyPrompt | None
) -> tuple[list[str], list[str], list[str]]:
    """Return the texts that stay in front, those that change from question to question, and the summaries."""
    prompts = _split_texts(entry, base)
    stable, changing = [prompt.stable for prompt in prompts], [prompts[0].volatile]
    if steady:
        _, memories = split_memories(stable[0])
        changing = [steady.note, "\n".join(filter(None, (memories, *changing)))]
        stable = [steady.sent]
    summaries = [summary for prompt in prompts for summary in prompt.summaries]
    return [*filter(None, stable)], [*filter(None, changing)], summaries


def _separate_additions(
    resolved: Sequence[Sequence[Entry]], options: Options
) -> tuple[list[tuple[Entry, ...]], BuiltTurn, list[str]]:
    """Take the host's additions out of the instructions and the latest user message.

    Return the turns without them, the volatile text and the summaries. The host writes into the first instruction, if
    there is a user message to answer.
    """
    users = (entry for turn in reversed(resolved) for entry in turn[::-1] if isinstance(entry, UserMessage))
    latest = next(users, None)
    base = options.base_system_prompt if latest else None
    first = next(iter(resolved[0]), None)
    turns: list[tuple[Entry, ...]] = []
    volatile = BuiltTurn()
    summaries: list[str] = []
    for entries in resolved:
        kept: list[Entry] = []
        for entry in entries:
            if isinstance(entry, Instruction):
                steady = options.steady if latest and entry is first else None
                stable, changing, found = _split_instruction(entry, base, steady)
                base = None
                summaries += found
                if stable:
                    kept.append(entry._replace(texts=tuple(stable)))
                if latest:
                    for text in changing:
                        volatile.send(input_message(entry.role, [text_part(text)]), latest.origin)
            elif entry is latest:
                parts = split_user_parts(latest.parts, options.base_user_prompt)
                kept.append(UserMessage(tuple(parts), latest.origin))
            else:
                kept.append(entry)
        turns.append(tuple(kept))
    return turns, volatile, summaries


def with_round(
    history: History,
    items: Sequence[Item],
    *,
    artifact_ids: Mapping[int, str],
    outputs: Mapping[str, str],
    messages_before: int,
) -> History:
    """Return the history with a round at its end.

    `items` is the round's output as the host has it, `artifact_ids` are by index what was stored of it, `outputs` by
    call id what the calls returned. `messages_before` is how many messages were read so far.
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
    returned = [
        {"role": "tool", "tool_call_id": call["call_id"], "content": outputs[call["call_id"]]}
        for call in calls
    ]
    added = read_messages([said, *returned], first_index=messages_before)
    return replace(
        history,
        turns=(*history.turns[:-1], (*history.turns[-1], *added.turns[0])),
        wanted=tuple(dict.fromkeys((*history.wanted, *added.wanted))),
        repairs=(*history.repairs, *added.repairs),
    )


def _marked(items: Sequence[Item], artifact_ids: Mapping[int, str]) -> tuple[list[str], list[Reference]]:
    """Return the texts of the round's messages, and its references: markers where the host will have them.

    What was stored up to a message is marked before it: beside the reasoning if there was any, or else in the text.
    """
    texts: list[str] = []
    references: list[Reference] = []
    waiting: list[int] = []
    has_reasoning, phase = False, ""

    def mark(write: Callable[[Iterable[str]], str]) -> str:
        ulids = {index: artifact_ids[index] for index in waiting}
        waiting.clear()
        if not has_reasoning:
            return write(ulid for index, ulid in ulids.items() if not _names(items[index], ulid))
        references.extend(Reference(_count(texts), ulid=ulid) for ulid in ulids.values())
        return ""

    for index, item in enumerate(items):
        waiting += [index] if index in artifact_ids else []
        has_reasoning = has_reasoning or is_reasoning(item)
        if is_message(item):
            markers, begun = mark(leading_markers), as_text(item.get("phase"))
            if has_reasoning and begun != phase:
                references.append(Reference(_count(texts), phase=begun))
                phase = begun
            texts.append(f"{markers}{_text(item)}")
    texts.append(mark(standalone_markers))
    return [*filter(None, texts)], references


def _count(texts: Iterable[str]) -> int:
    return sum(map(visible_chars, texts))


def _names(item: Item, ulid: str) -> bool:
    """Whether the id of a call names its artifact."""
    name = read_call_name(as_text(cast("Mapping[str, Any]", item).get("call_id")))
    return name is not None and name.ulid == ulid


def _text(item: Item) -> str:
    parts: list[dict[str, Any]] = [
        as_object(part) for part in as_list(cast("Mapping[str, Any]", item)["content"])
    ]
    return "".join(as_text(part.get("text")) or as_text(part.get("refusal")) for part in parts)
