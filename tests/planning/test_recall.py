"""What of the removed turns stands behind the question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import pytest

from open_webui_openrouter_pipe.conversation.budget import ContextSettings
from open_webui_openrouter_pipe.conversation.conversation import build_conversation
from open_webui_openrouter_pipe.conversation.tokens import TokenCounter
from open_webui_openrouter_pipe.money.audit import sent_bill
from open_webui_openrouter_pipe.planning.plan import Plan, Step
from open_webui_openrouter_pipe.planning.planner import ModelTerms, plan
from open_webui_openrouter_pipe.recall.tool import HEADING, RECALL_TOOL
from open_webui_openrouter_pipe.responses.items import Item, is_message
from open_webui_openrouter_pipe.summaries.summary import message_text
from tests.planning.language import Case, words
from tests.support.chats import SYSTEM, Memory, answer, call, history, output, system, user

PRUNE = "now context_strategy=prune recall=True"
QUESTION = "Which password has the wifi for guests?"
SECRET = "The wifi for guests is called Henhouse, its password is marmalade-otter-91."
SAID = (user("Please remember something."), answer(SECRET))
LOG = "\n".join(f"line {number}: all is well in the warehouse" for number in range(2_000)).replace(
    "line 900: all is well", "line 900: the wifi for guests got the password marmalade-otter-91"
)
READ = (user("Read the log."), call("c1", name="read_log"), output("c1", LOG), answer("Done."))


def jokes(lines: int) -> str:
    """So many jokes in long lines."""
    return "\n".join(f"A joke about harbor {number} {words(150)}" for number in range(lines))


def sent(
    said: Sequence[Item],
    question: str = QUESTION,
    line: str = PRUNE,
    *,
    turns: int = 110,
    late: Sequence[Item] = (),
) -> Plan:
    """The plan of a chat that begins with some items, has so many turns, and ends with `late` ones and a question."""
    filler = Case.read(f"{turns} turns").chat.items[:-1]
    pairs = zip(filler[::2], filler[1::2], strict=True)
    return Case.read(line, history(said, *pairs, late, [user(question)])).plan()


def quoted(fitted: Plan) -> list[str]:
    """The texts of the messages with excerpts."""
    texts = [message_text(item) for item in fitted.items if is_message(item)]
    return [text for text in texts if text.startswith(HEADING)]


@pytest.mark.parametrize(
    ("said", "asked", "found"),
    [
        (SAID, {}, f"{HEADING}\nTurn 1, assistant:\n> {SECRET}"),
        (SAID, {"turns": 3}, ""),
        (SAID, {"line": "now context_strategy=prune"}, ""),
        (SAID, {"question": "Thank you, what do you think?"}, ""),
        ([user("Hello"), answer(jokes(60))], {"question": "Can you tell me a joke?"}, ""),
        ([user(SECRET), answer("Noted.")], {}, f"{HEADING}\nTurn 1, assistant:\n> Noted."),
        (SAID, {"question": f"{QUESTION} {words(102_700)}", "turns": 3}, ""),
        (SAID, {"line": f"{PRUNE} context_strategy=clip"}, ""),
        (SAID, {"line": f"{PRUNE} context_strategy=clip clip_bypass=True"}, "marmalade-otter-91"),
        (
            READ,
            {"line": f"{PRUNE} tool_output_pruning=every_turn", "turns": 90},
            "Turn 1, tool read_log:\n> line 89",
        ),
        (
            [user("Read."), call("c1"), output("c1", f"{words(30_000)} {SECRET} {words(30_000)}")],
            {"turns": 1},
            SECRET,
        ),
    ],
    ids=[
        *("what was dropped", "all that is sent", "switched off", "small talk"),
        *("a word in many places", "beside what the note says", "no room"),
        *("clipped", "not clipped", "behind a fact", "in a cut output"),
    ],
)
def test_what_a_question_asks_for_is_quoted(said: Sequence[Item], asked: dict[str, Any], found: str) -> None:
    """Where it was removed, there is room for it, and the question asks for something."""
    texts = quoted(sent(said, **asked))
    assert len(texts) == bool(found)
    assert found in "".join(texts)


def test_excerpts_stand_behind_the_question() -> None:
    """Nothing that a provider may have in its cache, and no retrieved text, stands behind them."""
    chat = sent(SAID).conversation
    case = replace(Case.read(f"{PRUNE} sources 9"), chat=history())
    items = [[entry.item for entry in turn.entries] for turn in chat.turns]
    fitted = replace(case, chat=history(*items)).plan()
    excerpts = fitted.recalled.entries[0].item
    assert fitted.items[fitted.marks.completed :] == (system(words(9)), user(QUESTION), excerpts)
    assert {each.turn for each in fitted.recalled.passages} == {0}


def test_what_a_turn_pushes_out_is_quoted_in_its_next_request() -> None:
    """Where the prefix changes within a turn, what the question finds is looked up again."""
    late = [user("And?"), answer(f"{SECRET.replace('91', '92')} {words(900)}")]
    filler = Case.read("110 turns").chat.items[:-1]
    turns = [*zip(filler[::2], filler[1::2], strict=True)]
    opening = [SAID, *turns[:60], late, *turns[60:], [user(QUESTION)]]
    rounds = [item for at in "cd" for item in (call(at), output(at, words(20_000)))]
    first = Case.read(PRUNE, history(*opening)).plan()
    later = Case.read(PRUNE, history(*opening[:-1], [user(QUESTION), *rounds])).plan()
    assert ["marmalade-otter-92" in str(each.items) for each in (first, later)] == [True, True]
    assert ["marmalade-otter-92" in "".join(quoted(each)) for each in (first, later)] == [False, True]


def test_the_audit_counts_what_was_quoted() -> None:
    """As the last step; the sizes after the others are without it."""
    fitted = sent(SAID)
    *_, evicted, last = sent_bill(fitted).steps
    assert last == Step("recall", fitted.tokens, triggered=True)
    assert last.tokens - evicted.tokens == fitted.recalled.tokens > 0


@pytest.mark.parametrize("then", ["", " + 1 turns ask 1 say 1"])
@pytest.mark.parametrize("turns", [100, 101, 102])
def test_quotations_give_way_to_what_is_restored(turns: int, then: str) -> None:
    """Their room is free below the limit otherwise: as many turns come back, and stay, as without them."""
    kept = []
    for recall in (True, False):
        case = Case.read(f"{turns} turns{then} recall={recall}; {turns - 5} /compact; {turns} /restore")
        kept.append(len(case.plan_written().cutoffs.restored))
    assert kept[0] == kept[1]
    assert kept[0] or then


def test_the_tool_that_comes_after_other_tools_went_is_announced() -> None:
    """Tools that give way leave nothing to look up: what is cut later brings the tool."""
    tools = tuple(
        {"name": name, "description": "word " * size} for name, size in (("a", 2_500), ("b", 1_500))
    )
    results = ("short", "line of text\n" * 900)
    rounds = [(call(f"c{at}"), output(f"c{at}", result)) for at, result in enumerate(results)]
    items = [user("word " * 1_800), *chain.from_iterable(rounds)]
    memory, breaks = Memory(), []
    for end in (1, 3, 5):
        chat = history(items[:end])
        built = build_conversation(chat.items, chat.turn_of_item, instructions=[SYSTEM])
        fitted = plan(
            replace(built, tools=(*tools, RECALL_TOOL), optional_tools=("a", "b")),
            ContextSettings(recall=True, recall_tool=True),
            model=ModelTerms("vendor/model", 8_192),
            counter=TokenCounter(memory.counts),
            caches=memory.caches,
        )
        breaks.append(([each.reason for each in fitted.new_breaks], bool(fitted.unoffered_tools)))
    assert breaks == [(["tools"], True), ([], True), (["recall"], False)]
