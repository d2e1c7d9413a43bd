"""Chats and models in a line of text, with sizes that are round numbers: a token is a word.

A line begins with the turns, in groups between ` + `: so many `turns`, each `of` so many tokens (1,000), or what the
user may `ask` and the model `say` in it; with `results` of so many tokens, or so many `rounds` of `calls` to a `tool`
with results of so many words `each`; with a `comment` before them; `unanswered`, or all in short `lines`. `now` is the
current turn. Settings and terms of the model follow, then `sources` and a `note` beside the question, tools that are
`builtin`, a `clock` or `chosen`, and an `external` summary. Behind `; ` stand commands with the number of turns before
them. Without a `window`, the budget is 100,000 tokens; the instructions and a question are 100 of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any

from open_webui_openrouter_pipe.conversation.budget import Calibration, ContextSettings
from open_webui_openrouter_pipe.conversation.conversation import Conversation, build_conversation
from open_webui_openrouter_pipe.conversation.slash import ChatCommand, read_command
from open_webui_openrouter_pipe.conversation.tokens import TokenCounter
from open_webui_openrouter_pipe.planning.plan import Plan
from open_webui_openrouter_pipe.planning.planner import (
    AvailableSummaries,
    ModelTerms,
    PlanCaches,
    may_be_shortened,
    plan,
)
from open_webui_openrouter_pipe.planning.simulate import CachePrices
from open_webui_openrouter_pipe.recall.tool import RECALL_TOOL
from open_webui_openrouter_pipe.responses.items import Item
from tests.support.chats import (
    SYSTEM,
    History,
    Memory,
    answer,
    call,
    history,
    output,
    split_words,
    summary_of,
    system,
    user,
)

MODEL = ModelTerms("vendor/model", 110_000, output_tokens=4_500, prices=CachePrices(0.1, 1.25))
"""5 % of the window are kept back, 4,500 tokens are for the output."""
SETTINGS = {each.name for each in fields(ContextSettings)}


def new_memory() -> Memory:
    """The caches of one worker, with a tokenizer that counts words."""
    return Memory(encode=split_words)


COUNTER = TokenCounter(new_memory().counts, split_words)


def words(count: int, first: str = "word") -> str:
    """So many words, of which the first may be given."""
    return " ".join([first, *["word"] * (count - 1)])


def turn(at: int, said: dict[str, Any]) -> list[Item]:
    """The items of a turn with this number: what was said in it, by the words of its group."""
    results = said.get("results", 0)
    text = words(said.get("ask", 96 if results else 87), f"Q{at}")
    items: list[Item] = [user("\n".join(text.split()) if "lines" in said else text)]
    if "comment" in said:
        items.append(answer(words(said["comment"]), f"c{at}"))
    for number in range(said.get("rounds", 1 if results else 0)):
        ids = [f"c{at}.{number}.{each}" for each in range(said.get("calls", 1))]
        items += [call(each, name=said.get("tool", "search")) for each in ids]
        items += [output(each, words(said.get("each", results - 10), f"R{at}")) for each in ids]
    if not said.keys() & {"now", "unanswered"}:
        tokens = said.get("of", 1_000) - (100 + results if results else 95)
        items.append(answer(words(said.get("say", tokens), f"A{at}"), f"m{at}"))
    return items


@dataclass(frozen=True, slots=True)
class Case:
    """A line as it is understood; a test may have a history of its own instead of the line's."""

    chat: History
    terms: dict[str, Any] = field(default_factory=dict)
    commands: tuple[ChatCommand, ...] = ()

    @classmethod
    def read(cls, line: str, chat: History | None = None) -> Case:
        """Understand a line."""
        when, *commands = line.split("; ")
        turns: list[dict[str, Any]] = []
        terms: dict[str, Any] = {}
        for group in when.split(" + "):
            said: dict[str, Any] = {}
            count = 1
            names = iter(group.split())
            for name in names:
                if name.isdigit():
                    count = int(name) if next(names).startswith("turn") else 1
                elif name in {"now", "unanswered", "lines"}:
                    said[name] = True
                elif "=" in name:
                    key, _, value = name.partition("=")
                    terms[key] = read_value(value)
                elif name == "skip":
                    terms[name] = True
                elif name in {"sources", "note", "builtin", "clock", "chosen", "external"}:
                    terms[name] = int(next(names))
                else:
                    said[name] = read_value(next(names))
            turns += [said] * count
        if not turns or "now" not in turns[-1]:
            turns.append({"now": True})
        told = [(int(each.split()[0]), read_command(each.partition(" ")[2])) for each in commands]
        return cls(
            chat or history(*(turn(at, said) for at, said in enumerate(turns))),
            terms,
            tuple(ChatCommand(at, command) for at, command in told if command),
        )

    @property
    def conversation(self) -> Conversation:
        """What is planned."""
        volatile = [system(words(self.terms[name])) for name in ("note", "sources") if name in self.terms]
        built = build_conversation(
            self.chat.items, self.chat.turn_of_item, instructions=[SYSTEM], volatile=volatile
        )
        tools = [
            {"name": name, "description": words(self.terms[name] - 10)}
            for name in ("builtin", "clock", "chosen")
            if name in self.terms
        ]
        return replace(
            built,
            tools=(*tools, RECALL_TOOL) if self.settings.recall_tool else tuple(tools),
            optional_tools=("builtin", "clock"),
            corrections="note" in self.terms,
            external_summaries=(words(self.terms["external"]),) if "external" in self.terms else (),
            commands=self.commands,
        )

    @property
    def settings(self) -> ContextSettings:
        """By which rules it is planned."""
        return ContextSettings(**{name: self.terms[name] for name in SETTINGS & self.terms.keys()})

    @property
    def model(self) -> ModelTerms:
        """For which model it is planned."""
        terms = self.terms
        model = ModelTerms("vendor/small", terms["window"]) if "window" in terms else MODEL
        prices = model.prices
        if "cache" in terms:
            read, write, *band = map(float, terms["cache"].split("/"))
            doubled = CachePrices(read * 2, write * 2)
            prices = CachePrices(read, write, tuple((int(size), doubled) for size in band))
        model = replace(
            model,
            output_tokens=terms.get("asks", model.output_tokens),
            max_output_tokens=terms.get("writes"),
            prices=prices,
        )
        ratio, bills = float(terms.get("ratio", 1)), terms.get("bills", 0)
        constant = float(terms.get("constant", 0))
        return replace(model, calibration=Calibration(ratio=ratio, bills=bills, constant_tokens=constant))

    def plan(self, memory: Memory | None = None) -> Plan:
        """The plan with the summaries in the memory."""
        memory = memory or new_memory()
        return plan(
            self.conversation,
            self.settings,
            model=self.model,
            counter=TokenCounter(memory.counts, memory.encode),
            caches=memory.caches,
            summaries=AvailableSummaries(memory.summaries, "skip" if "skip" in self.terms else "request"),
        )

    def plan_written(self, memory: Memory | None = None) -> Plan:
        """The plan with the summaries that it requires, which are written at once."""
        memory = memory or new_memory()
        required = self.plan(memory).required_summaries
        memory.summaries.update({each.segment: summary_of(each) for each in required})
        return self.plan(memory)

    @property
    def may_be_shortened(self) -> bool:
        """Whether its plan may go by what is stored."""
        return may_be_shortened(
            self.conversation, self.settings, model=self.model, counter=COUNTER, caches=PlanCaches()
        )

    @property
    def may_need_summaries(self) -> bool:
        """Whether summaries are looked up before it is planned."""
        return self.settings.context_strategy == "summarize" and self.may_be_shortened


def read_value(text: str) -> Any:
    """A number, True or False, or a name."""
    if text in {"True", "False"}:
        return text == "True"
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        return text


def planned(line: str, chat: History | None = None) -> Plan:
    """The plan of a line, without summaries."""
    return Case.read(line, chat).plan()
