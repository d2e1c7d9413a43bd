"""What of the removed turns stands beside the question."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from open_webui_openrouter_pipe.conversation.budget import ContextOverflow, ContextSettings, split_window
from open_webui_openrouter_pipe.conversation.conversation import build_conversation, is_model_input
from open_webui_openrouter_pipe.conversation.tokens import TokenCounter
from open_webui_openrouter_pipe.money.audit import sent_bill
from open_webui_openrouter_pipe.planning.plan import Plan, Step
from open_webui_openrouter_pipe.planning.planner import ModelTerms, may_need_summaries, plan
from open_webui_openrouter_pipe.recall.excerpts import HEADING, MAX_EXCERPT_TOKENS, max_excerpts_tokens
from open_webui_openrouter_pipe.responses.items import Item
from tests.planning.exact import MODEL, new_memory, talk, with_window, words
from tests.planning.test_laws import LAWS, Sent, attempted, dumped, request_before
from tests.support.cases import HISTORIES
from tests.support.chats import SYSTEM, History, Memory, answer, call, history, output, planned, system, user

RECALL = ContextSettings(context_strategy="prune", recall=True)
OFF = replace(RECALL, recall=False)
QUESTION = user("Which password has the wifi for guests?")
SECRET = "The wifi for guests is called Henhouse, its password is marmalade-otter-91."


def sent(chat: History, policy: ContextSettings = RECALL, model: ModelTerms = MODEL) -> Plan:
    """The plan of a chat where a token is a word and 100,000 of them are the budget."""
    return planned(chat, policy, model, memory=new_memory())


def asked_about(*first: Item, question: Item = QUESTION, turns: int = 110) -> History:
    """A chat that begins with these items and outgrows its window before the question."""
    filler = talk(turns).items[:-1]
    return history(first, *zip(filler[::2], filler[1::2], strict=True), [question])


def excerpts(fitted: Plan) -> list[str]:
    """The texts of the messages with excerpts."""
    texts = [str(cast("Any", item).get("content", [{}])[0].get("text", "")) for item in fitted.items]
    return [text for text in texts if text.startswith(HEADING)]


SAID = (user("Please remember something."), answer(SECRET))


def test_what_was_dropped_stands_before_the_question_that_asks_for_it() -> None:
    """With its turn and author, behind everything that the provider's cache has."""
    fitted = sent(asked_about(*SAID))
    assert excerpts(fitted) == [f"{HEADING}\nTurn 1, assistant:\n> {SECRET}"]
    assert fitted.items[fitted.marks.completed] == fitted.recalled.entries[0].item
    assert fitted.items[fitted.marks.completed + 1 :] == (QUESTION,)
    assert [(each.turn, each.author) for each in fitted.recalled.passages] == [(0, "assistant")]


def test_without_recall_the_request_is_what_it_was() -> None:
    """Nothing is quoted, no room is kept, and a chat that fits is the same with and without."""
    fitted = sent(asked_about(*SAID), OFF)
    assert excerpts(fitted) == []
    assert not fitted.recalled.entries
    short = history(SAID, [QUESTION])
    assert dumped(sent(short).items) == dumped(sent(short, OFF).items) == dumped([SYSTEM, *short.items])


@pytest.mark.parametrize(
    "text", ["thanks!", "ok go on", "hello", "What do you think?", "Merci, continue", "谢谢"]
)
def test_small_talk_brings_nothing_back(text: str) -> None:
    """Even where earlier turns had the same."""
    said = (user(f"{text} And now remember the password of the wifi."), answer(SECRET))
    assert excerpts(sent(asked_about(*said, question=user(text)))) == []


@pytest.mark.parametrize(("lines", "is_quoted"), [(60, False), (20, True)])
def test_a_single_word_that_stands_in_many_places_brings_nothing_back(lines: int, is_quoted: bool) -> None:  # noqa: FBT001
    """What asks for a joke asks for none of those in the chat; in a few places it may mean one."""
    jokes = "\n".join(f"A joke about harbor {number} {words(150)}" for number in range(lines))
    fitted = sent(asked_about(user("Hello"), answer(jokes), question=user("Can you tell me a joke?")))
    assert bool(excerpts(fitted)) is is_quoted


def test_a_result_that_is_stated_as_a_fact_is_found_by_its_content() -> None:
    """Under the name of its tool; its call is sent as it was, and not quoted."""
    log = "\n".join(f"line {number}: all is well in the warehouse" for number in range(2_000))
    log = log.replace(
        "line 900: all is well", "line 900: the wifi for guests got the password marmalade-otter-91"
    )
    chat = asked_about(
        user("Read the log."), call("c1", name="read_log"), output("c1", log), answer("Done."), turns=90
    )
    policy = replace(RECALL, tool_output_pruning="every_turn")
    (text,) = excerpts(sent(chat, policy))
    assert "Turn 1, tool read_log:" in text
    assert "marmalade-otter-91" in text


def test_a_capped_output_is_found_as_well() -> None:
    """Its turn is sent in full, the output is not."""
    middle = words(30_000)
    chat = history(
        [user("Read it."), call("c1"), output("c1", f"{middle} {SECRET} {middle}"), answer("Done.")],
        [QUESTION],
    )
    fitted = sent(chat)
    assert [each.kind for each in fitted.reductions] == ["capped"]
    assert any(SECRET in text for text in excerpts(fitted))


def test_all_rounds_of_a_turn_quote_the_same() -> None:
    """Also when results of the turn push out more of the chat, which the question would find as well."""
    late = [user("And?"), answer(f"{SECRET.replace('91', '92')} {words(900)}")]
    chat = asked_about(*SAID)
    opening = history(*_turns(chat)[:60], late, *_turns(chat)[60:])
    first = sent(opening)
    rounds = [call("c1"), output("c1", words(20_000)), call("c2"), output("c2", words(20_000))]
    later = sent(history(*_turns(opening)[:-1], [QUESTION, *rounds]))
    assert ["marmalade-otter-92" in str(each.items) for each in (first, later)] == [True, False]
    assert excerpts(first) == excerpts(later) != []


def _turns(chat: History) -> list[list[Item]]:
    return [[item for item, of in chat.numbered if of == turn] for turn in range(chat.turn_of_item[-1] + 1)]


def test_what_stands_in_the_summarys_record_is_not_quoted() -> None:
    """The note for dropped turns has what the user wrote, word for word."""
    said = (user(SECRET), answer("Noted."))
    fitted = sent(asked_about(*said))
    assert any(SECRET in str(item) for item in fitted.items)
    assert excerpts(fitted) == []


def test_the_room_for_excerpts_is_kept_before_it_is_needed() -> None:
    """So that quoting moves nothing that was decided: the plan decides alike for every question."""
    plans = [sent(asked_about(*SAID, question=user(text))) for text in (QUESTION_TEXT, "thanks!")]
    assert plans[0].prefix_breaks == plans[1].prefix_breaks
    assert plans[0].marks.completed == plans[1].marks.completed
    assert max_excerpts_tokens(100_000) == 900


QUESTION_TEXT = "Which password has the wifi for guests?"


def test_a_chat_is_shortened_with_the_room_in_mind() -> None:
    """At 99,500 tokens everything fits, with 900 more it does not."""
    chat = history(*_turns(talk(89))[:-1], [user(words(10_500))])
    assert [len(sent(chat, policy).new_breaks) for policy in (OFF, RECALL)] == [0, 1]


def test_a_request_that_needs_the_room_has_no_excerpts() -> None:
    """The latest message alone fills the window to the last: it is sent, and nothing is quoted."""
    question = user(f"{QUESTION_TEXT} {words(102_700)}")
    fitted = sent(asked_about(*SAID, question=question, turns=3))
    assert excerpts(fitted) == []
    assert question in fitted.items


def test_retrieved_text_stands_before_the_excerpts() -> None:
    """Both are before the question, and neither is in the cached prefix."""
    chat, sources = asked_about(*SAID), system("Source 1: the ship was late.")
    memory = new_memory()
    fitted = plan(
        build_conversation(chat.items, chat.turn_of_item, instructions=[SYSTEM], volatile=[sources]),
        RECALL,
        model=MODEL,
        counter=TokenCounter(memory.counts, memory.encode),
        caches=memory.caches,
    )
    assert fitted.items[fitted.marks.completed :] == (sources, fitted.recalled.entries[0].item, QUESTION)


def test_a_question_is_looked_up_with_what_was_said_before() -> None:
    """A question that names no thing is about what the user wrote before."""
    first = (
        user("Prices, please."),
        answer(f"The cost of the ferry is 672 pounds. {words(700)}"),
    )
    second = (user("More."), answer(f"The cost of the train is 81 pounds. {words(700)}"))
    filler = talk(110).items[:-1]
    turns = [first, second, *zip(filler[::2], filler[1::2], strict=True)]
    about = [user("I would rather take the train."), answer("Fine.")]
    fitted = sent(history(*turns, about, [user("And what does it cost?")]))
    best = [each.text for each in fitted.recalled.passages]
    assert any("81 pounds" in text for text in best)


@pytest.mark.parametrize("recall", [False, True])
def test_excerpts_have_their_room_below_the_limit_and_move_no_trigger(*, recall: bool) -> None:
    """Whether summaries may be needed is judged as the plan does: only what is due for the limit is due earlier."""
    conversation = build_conversation(talk(59).items, talk(59).turn_of_item, instructions=[SYSTEM])
    memory = new_memory()
    tokens = (
        TokenCounter(memory.counts, memory.encode)
        .entries(
            [*conversation.instructions, *chain.from_iterable(turn.entries for turn in conversation.turns)]
        )
        .tokens
    )

    def is_needed(policy: ContextSettings, window_tokens: int) -> bool:
        counter = TokenCounter(memory.counts, memory.encode)
        return may_need_summaries(conversation, policy, model=with_window(window_tokens), counter=counter)

    def largest_window(policy: ContextSettings) -> int:
        return max(window for window in range(60_000, 130_000, 100) if is_needed(policy, window))

    at_limit = ContextSettings(summary_ahead_ratio=1, summary_trigger_ratio=1, recall=recall)
    at_trigger = ContextSettings(summary_ahead_ratio=0.6, recall=recall)
    reserved = MAX_EXCERPT_TOKENS if recall else 0
    for policy, due in ((at_limit, tokens / 0.9 + reserved), (at_trigger, tokens / 0.6)):
        budget = split_window(largest_window(policy), output_tokens=MODEL.output_tokens)
        assert budget.input_tokens == pytest.approx(due, abs=100)


def test_a_clipped_chat_quotes_nothing() -> None:
    """Who clips wants the last messages alone; where a user's chats are not clipped, what is dropped comes back."""
    chat = asked_about(*SAID)
    clip = replace(RECALL, context_strategy="clip", clip_last_messages=4)
    assert excerpts(sent(chat, clip)) == []
    assert sent(chat, clip).items == sent(chat, replace(clip, recall=False)).items
    assert excerpts(sent(chat, replace(clip, clip_bypass=True))) != []


def test_the_audit_counts_what_was_quoted() -> None:
    """As the last step; the sizes after the others are without it."""
    fitted = sent(asked_about(*SAID))
    *_, evicted, last = sent_bill(fitted).steps
    assert last == Step("recall", fitted.tokens, triggered=True)
    assert last.tokens - evicted.tokens == fitted.recalled.tokens > 0
    assert "recall" not in [step.name for step in sent(asked_about(*SAID), OFF).steps]


# --- the laws, on chats whose questions find something ---

_NOUNS = [
    "boat",
    "harbor",
    "invoice",
    "garden",
    "ticket",
    "engine",
    "budget",
    "letter",
    "window",
    "bridge",
    "doctor",
    "recipe",
    "server",
    "camera",
]


@st.composite
def _chats(draw: st.DrawFn) -> History:
    """A chat whose questions are about things that answers and results have spoken of."""
    noun = st.sampled_from(_NOUNS)

    def said(number: int) -> str:
        facts = [f"The {draw(noun)} of the {draw(noun)} has the number {number}{at}." for at in range(6)]
        return " ".join(facts) + f" {draw(noun)} " * draw(st.sampled_from([1, 60, 200]))

    turns: list[list[Item]] = []
    for number in range(draw(st.integers(4, 9))):
        items: list[Item] = [user(f"Which number has the {draw(noun)} of the {draw(noun)}?")]
        for at in range(draw(st.integers(0, 2))):
            call_id = f"c{number}_{at}"
            items += [call(call_id), output(call_id, said(number * 10 + at))]
        turns.append([*items, answer(said(number), f"m{number}")])
    while not is_model_input(turns[-1][-1]):
        turns[-1].pop()
    return history(*turns)


_policies = st.builds(
    ContextSettings,
    context_strategy=st.sampled_from(["prune", "clip", "refuse"]),
    tool_output_pruning=st.sampled_from(["batched", "every_turn"]),
    tool_output_retention_turns=st.integers(1, 3),
    protected_recent_turns=st.integers(1, 3),
    recall=st.sampled_from([True]),
)
_models = st.builds(
    ModelTerms, id=st.just("vendor/model"), window_tokens=st.sampled_from([3_000, 4_500, 7_000])
)


@settings(max_examples=HISTORIES, deadline=None, suppress_health_check=list(HealthCheck))
@given(_chats(), _policies, _models)
def test_every_law_of_planning_holds_with_excerpts(
    chat: History, policy: ContextSettings, model: ModelTerms
) -> None:
    """Among them: the prefix stays, all rounds quote the same, nothing is over the limit."""
    memory, earlier = Memory(), request_before(chat)
    before = attempted(earlier, policy, model, memory) if earlier else None
    fitted = attempted(chat, policy, model, memory)
    if isinstance(fitted, ContextOverflow):
        return
    opens_turn = earlier is None or earlier.turn_of_item[-1] != chat.turn_of_item[-1]
    for law in LAWS:
        law(Sent(chat, fitted, before if isinstance(before, Plan) else None, opens_turn=opens_turn))
