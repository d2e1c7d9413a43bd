"""What commands in a chat do to the plans of its later requests: a token is a word, the budget is 100,000 tokens.

A segment is nine turns of 1,000 tokens, unless a command ends it early.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from types import MappingProxyType

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from open_webui_openrouter_pipe.context.report import (
    ChatRecord,
    context_text,
    plain,
    report_context,
)
from open_webui_openrouter_pipe.conversation.budget import ContextSettings
from open_webui_openrouter_pipe.conversation.conversation import build_conversation
from open_webui_openrouter_pipe.conversation.slash import (
    ChatCommand,
    Command,
    Compact,
    Discard,
    Help,
    Restore,
    SetAim,
)
from open_webui_openrouter_pipe.conversation.tokens import TokenCounter
from open_webui_openrouter_pipe.money.prefix import digests_of
from open_webui_openrouter_pipe.planning.plan import Plan
from open_webui_openrouter_pipe.planning.planner import AvailableSummaries, may_need_summaries, plan
from open_webui_openrouter_pipe.responses.items import is_message
from open_webui_openrouter_pipe.summaries.summary import message_text
from tests.planning.exact import MODEL, new_memory, talk
from tests.support.cases import CHATS
from tests.support.chats import SYSTEM, Memory, summary_of

PLAIN = ContextSettings()
NONE: Mapping[int, int] = MappingProxyType({})
THRIFTY = ContextSettings(context_aim="thrifty")


class Chat:
    """A chat of turns of 1,000 tokens, whose summaries are made as soon as they are required."""

    def __init__(
        self, policy: ContextSettings = PLAIN, memory: Memory | None = None, longer: Mapping[int, int] = NONE
    ) -> None:
        self.policy = policy
        self.longer = longer
        self.memory = memory or new_memory()
        self.commands: list[ChatCommand] = []

    def say(self, turn: int, *commands: Command) -> Chat:
        """Command something before a turn."""
        self.commands += [ChatCommand(turn, command) for command in commands]
        return self

    def ask(self, turns: int, *, writes: bool = True) -> Plan:
        """The plan of a request after so many turns, made with the summaries that it requires."""
        first = self._plan(turns)
        if not (first.required_summaries and writes):
            return first
        self.memory.summaries.update({each.segment: summary_of(each) for each in first.required_summaries})
        return self._plan(turns)

    def _plan(self, turns: int) -> Plan:
        chat = talk(turns, longer=self.longer)
        conversation = build_conversation(chat.items, chat.turn_of_item, instructions=[SYSTEM])
        known = tuple(each for each in self.commands if each.turn <= turns)
        return plan(
            replace(conversation, commands=known),
            self.policy,
            model=MODEL,
            counter=TokenCounter(self.memory.counts, self.memory.encode),
            caches=self.memory.caches,
            summaries=AvailableSummaries(self.memory.summaries, "request"),
        )


def questions(planned: Plan) -> list[int]:
    """The numbers of the questions that a request holds word for word, in their order."""
    messages = [item for item in planned.items if is_message(item) and item["role"] == "user"]
    texts = [message_text(message) for message in messages]
    return [int(text.split()[0][1:]) for text in texts if text.startswith("Q")]


def breaks(planned: Plan) -> list[tuple[int, str]]:
    return [(each.turn, each.reason) for each in planned.prefix_breaks]


def test_a_command_summarizes_all_but_the_newest_turns() -> None:
    """Far below any trigger, and from its turn on; segments that ended before stay as they were."""
    chat = Chat().say(20, Compact())
    before, after, later = chat.ask(19), chat.ask(20), chat.ask(22)
    assert (before.summarized_turns, after.summarized_turns, later.summarized_turns) == (0, 18, 18)
    assert questions(after) == [18, 19, 20]
    assert breaks(before) == []
    assert breaks(after) == breaks(later) == [(20, "summary")]
    assert later.items[: len(after.items)] == after.items


def test_a_short_chat_ends_a_segment_early() -> None:
    """The four newest turns stay, fewer in a shorter chat; a turn or two are too short."""
    ends = {
        turns: Chat().say(turns, Compact()).ask(turns).summarized_turns for turns in (1, 2, 3, 5, 7, 8, 12)
    }
    assert ends == {1: 0, 2: 0, 3: 2, 5: 3, 7: 3, 8: 4, 12: 9}


def test_segments_of_the_command_stay_when_the_chat_goes_on() -> None:
    """Another command continues them, and all are found again."""
    chat = Chat().say(8, Compact()).say(16, Compact())
    first, second, later = chat.ask(8), chat.ask(16), chat.ask(19)
    assert [each.summarized_turns for each in (first, second, later)] == [4, 13, 13]
    assert later.required_summaries == ()
    assert breaks(later) == [(8, "summary"), (16, "summary")]


def test_a_command_changes_nothing_that_was_decided_before_it() -> None:
    """Not even where the segment that it ends would have paid a turn earlier."""
    memory = new_memory()
    for turns in range(8, 34):
        before = breaks(Chat(THRIFTY, memory).ask(turns - 1))
        after = breaks(Chat(THRIFTY, memory).say(turns, Compact()).ask(turns))
        assert [each for each in after if each[0] < turns] == before


def test_what_is_to_be_kept_reaches_the_writer_of_the_summary() -> None:
    """It is about the turns before the command alone."""
    chat = Chat().say(20, Compact("the names")).say(30, Compact())
    keeps = [(each.first_turn, each.keep) for each in chat.ask(30, writes=False).required_summaries]
    assert keeps == [(1, "the names"), (10, "the names"), (19, "")]


@pytest.mark.parametrize("strategy", ["prune", "off", "refuse", "clip"])
def test_nothing_is_summarized_where_nothing_ever_is(strategy: str) -> None:
    """A command sets no strategy."""
    policy = replace(PLAIN, context_strategy=strategy)  # type: ignore[arg-type]
    assert Chat(policy).say(20, Compact()).ask(20).summarized_turns == 0


def test_restored_turns_stand_word_for_word_at_their_place() -> None:
    """Beside the summary that replaces others; announced, and from the command on."""
    chat = Chat().say(20, Compact()).say(22, Restore((range(4, 7),)))
    before, after, later = chat.ask(21), chat.ask(22), chat.ask(23)
    assert questions(before) == [18, 19, 20, 21]
    assert questions(after) == [3, 4, 5, 18, 19, 20, 21, 22]
    assert questions(later) == [3, 4, 5, 18, 19, 20, 21, 22, 23]
    assert breaks(later) == [(20, "summary"), (22, "restore")]
    assert later.items[: len(after.items)] == after.items
    assert after.tokens == before.tokens + 4_000


def test_restored_turns_lack_nothing_and_are_not_recalled() -> None:
    """What is sent again is not missing."""
    chat = Chat().say(20, Compact()).say(20, Restore((range(1, 19),)))
    planned = chat.ask(20)
    assert (questions(planned), planned.reductions, planned.required_summaries) == ([*range(21)], (), ())
    assert planned.tokens == Chat().ask(20).tokens


def test_all_that_fit_are_restored_the_newest_first() -> None:
    """As far as the request stays below the size at which it is pruned, whatever its summaries turn out to take."""
    chat = Chat().say(120, Restore())
    before, after = Chat(memory=chat.memory).ask(120), chat.ask(120)
    left = [turn for turn in range(120) if turn not in questions(after)]
    assert left == [*range(left[0], left[-1] + 1)]
    assert left[0] == 0
    assert len(left) < before.summarized_turns
    assert before.tokens + 10_000 < after.tokens < 90_000


def test_a_turn_too_long_to_be_restored_keeps_no_other_one_away() -> None:
    """Not even older ones."""
    chat = Chat(longer={60: 70_000}).say(120, Restore((range(59, 63),)))
    before, after = Chat(memory=chat.memory, longer=chat.longer).ask(120), chat.ask(120)
    assert not {58, 59, 60, 61} & {*questions(before)}
    assert {58, 59, 60, 61} & {*questions(after)} == {58, 59, 61}


def test_restored_turns_go_when_the_chat_becomes_too_large() -> None:
    """All at once, announced, and for good."""
    chat = Chat().say(60, Compact()).say(61, Restore())
    plans = [chat.ask(turns) for turns in range(61, 110, 4)]
    with_all = [0 in questions(each) for each in plans]
    assert with_all == sorted(with_all, reverse=True)
    assert (with_all[0], with_all[-1]) == (True, False)
    without = plans[with_all.index(False)]
    assert [reason for _, reason in breaks(without)].count("restore") == 2
    assert all(each.tokens <= 90_000 for each in plans)


def test_a_new_summary_replaces_what_was_restored() -> None:
    """The last command holds."""
    chat = Chat().say(20, Compact(), Restore(), Compact())
    assert questions(chat.ask(20)) == [18, 19, 20]


def test_a_discarded_summary_is_announced_where_one_stands() -> None:
    """The prefix breaks where the summaries stand."""
    chat = Chat().say(20, Compact()).say(21, Discard((range(3, 4),))).say(22, Discard((range(20, 22),)))
    planned = chat.ask(21)
    assert breaks(chat.ask(22)) == breaks(planned) == [(20, "summary"), (21, "discard")]
    assert planned.marks.unchanged == 1


def test_an_aim_holds_from_its_turn_on() -> None:
    """What was decided before stays."""
    plain, thrifty = Chat(), Chat(THRIFTY)
    mixed = Chat().say(30, SetAim("thrifty"))
    first = next(turns for turns in range(40) if thrifty.ask(turns).summarized_turns)
    assert first < 29
    assert [mixed.ask(turns) for turns in (first, 29)] == [plain.ask(turns) for turns in (first, 29)]
    assert mixed.ask(30).summarized_turns > 0
    back = Chat(THRIFTY).say(first, SetAim("faithful"))
    assert [back.ask(turns).summarized_turns for turns in (first, 60)] == [0, 0]


def test_an_aim_may_need_summaries() -> None:
    """They are looked up before the plan."""
    chat = talk(30)
    conversation = build_conversation(chat.items, chat.turn_of_item)
    terms = {"model": MODEL, "counter": TokenCounter(new_memory().counts, new_memory().encode)}
    found = [
        may_need_summaries(replace(conversation, commands=(ChatCommand(20, command),)), PLAIN, **terms)  # type: ignore[arg-type]
        for command in (Help(), SetAim("faithful"), SetAim("thrifty"), Compact())
    ]
    assert found == [False, False, True, True]


_ranges = st.tuples(st.integers(1, 40), st.integers(0, 9)).map(lambda pair: range(pair[0], sum(pair) + 1))
_turns = st.lists(_ranges, max_size=2).map(tuple)
_commands = st.one_of(
    st.builds(Compact),
    st.builds(Restore, _turns),
    st.builds(Discard, _turns),
    st.sampled_from([SetAim("thrifty"), SetAim("faithful"), Help()]),
)


@settings(max_examples=CHATS, deadline=None)
@example([(3, Compact()), (3, Restore(())), (4, Compact())], PLAIN)  # restored before it is written
@given(st.lists(st.tuples(st.integers(0, 30), _commands), max_size=5), st.sampled_from([PLAIN, THRIFTY]))
def test_a_prefix_changes_only_where_that_is_announced(
    commands: list[tuple[int, Command]], policy: ContextSettings
) -> None:
    """Each request begins like the one before, or its own plan names the break; earlier plans stay as they were."""
    chat = Chat(policy)
    for turn, command in sorted(commands, key=lambda each: each[0]):
        chat.say(turn, command)
    plans = [chat.ask(turns) for turns in range(0, 34, 3)]
    for turns, (before, after) in zip(range(0, 34, 3), pairwise(plans), strict=False):
        assert tuple(each for each in after.prefix_breaks if each.turn <= turns) == before.prefix_breaks
        if after.prefix_breaks == before.prefix_breaks:
            assert after.items[: len(before.items)] == before.items
        assert after.tokens <= after.limit_tokens


def test_the_guardian_of_the_prefix_finds_a_commanded_break_announced() -> None:
    """The numbers that it compares go by the plan's breaks."""
    chat = Chat().say(20, Compact()).say(21, Restore((range(2, 4),)))
    named = [
        digests_of({}, each, (), answer=str(number))
        for number, each in enumerate([chat.ask(20), chat.ask(21)])
    ]
    assert [len(each.breaks) for each in named] == [1, 2]


def test_a_report_divides_what_the_plan_counts() -> None:
    """Nothing is counted twice, and nothing is forgotten."""
    chat = Chat().say(20, Compact()).say(21, Restore((range(2, 4),)))
    planned = chat.ask(22)
    found = [("instructions", "prompt", 0.25)]
    report = report_context(planned, ChatRecord(5, found), model="A model", aim="faithful")
    assert sum(report.parts.values()) - report.parts["reserve"] == planned.tokens
    assert [turn.number for turn in report.turns] == [*range(1, 23)]
    states = "".join(turn.state[0] for turn in report.turns)
    assert states == "svv" + "s" * 15 + "v" * 4
    assert [turn.number for turn in report.turns if turn.cached] == [1, 2, *range(4, 19)]
    assert {turn.original_tokens for turn in report.turns} == {1_000}
    assert [(each.first_turn, each.last_turn, bool(each.text)) for each in report.summaries] == [
        (1, 9, True),
        (10, 18, True),
    ]
    assert [(each.turn, each.cause) for each in report.breaks] == [
        (22, "restore"),
        (21, "summary"),
        (0, "prompt"),
    ]
    assert report.window_tokens == MODEL.window_tokens


def test_a_summary_that_is_not_written_yet_is_named() -> None:
    """The next request has it written."""
    planned = Chat().say(20, Compact()).ask(20, writes=False)
    report = report_context(planned, ChatRecord(), model="A model", aim="faithful")
    assert [(each.text, each.tokens) for each in report.summaries] == [("", 0)] * 2
    text = context_text(report)
    assert "The next message has turns 1 to 9 summarized." in text
    assert "`/restore 3-8` sends turns" in text
    before, hint = text.rsplit("\n\n", 1)
    folded = f"{hint}\n\n<details>\n<summary>The same as text</summary>\n\n{before}\n\n</details>"
    assert context_text(report, folded=True) == folded


def test_nothing_is_to_be_restored_in_a_whole_chat() -> None:
    """So the text does not explain how."""
    report = report_context(Chat().ask(3), ChatRecord(), model="A model", aim="faithful")
    assert context_text(report).endswith("\n\n`/help` lists all commands.")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a *b* [c](d) <e>", r"a \*b\* \[c\]\(d\) \<e\>"),
        ("see https://a.example/b or www.a.example", r"see https\://a.example/b or www\.a.example"),
        ("to anna@a.example at 10:30", r"to anna\@a.example at 10:30"),
        ("- one\n---\n2. two - 3.5", "\\- one\n\\---\n2\\. two - 3.5"),
    ],
)
def test_quoted_text_is_drawn_as_it_is(text: str, shown: str) -> None:
    """Without emphasis, links, lists and rules."""
    assert plain(text) == shown
