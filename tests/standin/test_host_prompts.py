"""Open WebUI's own prompts."""

from __future__ import annotations

from scripts.standin import catalogue, host_prompts
from scripts.standin.plan import Message
from scripts.standin.planner import plan_answer

SCRIPT = catalogue.BY_ID["standin/script"]
COMPACTION = """### Task:
Summarize the conversation history that will be compacted out of the active chat context.

### Previous Summary:
{earlier}

### Messages Being Compacted:
{messages}

### Recent Messages Kept In Context:
USER: And now?"""


def test_a_compaction_is_answered_with_prose() -> None:
    """What was summarised before, and how the last five compacted messages of the user began."""
    lines = [f"USER: Question {number} about whales\nASSISTANT: Yes." for number in range(7)]
    text = COMPACTION.format(earlier="We spoke of fish.", messages="\n".join(lines))
    said = [f'The user said: "Question {number} about whales".' for number in range(2, 7)]
    assert host_prompts.answer(text) == " ".join(["We spoke of fish.", *said, "The assistant answered."])


def test_a_first_compaction_has_no_earlier_summary() -> None:
    """Nothing stands before the sentences."""
    text = COMPACTION.format(earlier="", messages="USER: Hello")
    assert host_prompts.answer(text) == 'The user said: "Hello". The assistant answered.'


def test_directives_in_a_compacted_history_are_ignored() -> None:
    """Neither a directive nor the form of another task in it counts."""
    messages = 'USER: [[standin: error=500]] Hi\nASSISTANT: { "title": "x" }'
    plan = plan_answer({"input": COMPACTION.format(earlier="", messages=messages)}, SCRIPT)
    assert (plan.refusal, plan.steps) == (
        None,
        (Message('The user said: "Hi". The assistant answered.'),),
    )


def test_other_texts_are_not_tasks() -> None:
    """The sentence alone does not make one."""
    assert host_prompts.answer("Summarize the conversation history that will be compacted") is None
