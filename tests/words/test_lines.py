"""The lines for users: every one that the package shows exists, gets its values, and is shown somewhere."""

from __future__ import annotations

import ast
import re
from string import Formatter

import pytest

from open_webui_openrouter_pipe.words.lines import ENGLISH, WEIGHTS, for_admins, notice, weight
from scripts.paths import PACKAGE
from tests.words.test_languages import FORMS

SPEAKERS = {"notice", "for_admins", "say"}
"""Under these names the two functions that return a line are called."""
IN_ONE_LANGUAGE = {"context/report.py", "context/page.py", "context/spending.py"}
"""Where whole texts are put together of lines that a `speaker` has said in the user's language."""
TEMPLATES = {name: text for name, text in ENGLISH.lines.items() if name not in FORMS}
NODES = [
    (path.relative_to(PACKAGE), node)
    for path in sorted(PACKAGE.rglob("*.py"))
    if path.name != "lines.py"
    for node in ast.walk(ast.parse(path.read_text("utf-8")))
]
CALLS = [
    (f"{path}:{node.lineno}:{node.col_offset}", node.args[0], {keyword.arg for keyword in node.keywords})
    for path, node in NODES
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in SPEAKERS
]
"""Where a line is shown, the expression of its name, and the names of its values (None among them for `**`)."""

NAMED = {where: (str(name.value), values) for where, name, values in CALLS if isinstance(name, ast.Constant)}
CHOSEN_VALUES = [
    values for _, name, values in CALLS if not isinstance(name, ast.Constant) and None not in values
]
"""The values of calls whose name is chosen while the code runs; but for those that hand on what they are given."""

RULES = [
    "".join(re.escape(str(part.value)) if isinstance(part, ast.Constant) else r"\w+" for part in node.values)
    for _, node in NODES
    if isinstance(node, ast.JoinedStr)
    and isinstance(first := node.values[0], ast.Constant)
    and re.fullmatch(r"[a-z]+_[a-z_]*", str(first.value))
]
"""Names that are made by a rule, such as `status_{kind}`."""
MENTIONED = {
    node.value for _, node in NODES if isinstance(node, ast.Constant) and isinstance(node.value, str)
} | {name for name in TEMPLATES for rule in RULES if re.fullmatch(rule, name.partition(".")[0])}


def placeholders(template: str) -> set[str]:
    found = set()
    for _, name, form, _ in Formatter().parse(template):
        found |= {name, *placeholders(form or "")} if name else set()
    return found


@pytest.mark.parametrize("where", NAMED)
def test_a_line_exists_and_gets_exactly_its_values(where: str) -> None:
    """The placeholders of its template are the values that are passed."""
    name, values = NAMED[where]
    variants = [TEMPLATES[each] for each in (name, f"{name}.admin") if each in TEMPLATES]
    assert None in values or values in [placeholders(template) for template in variants]


def test_lines_that_are_chosen_at_run_time_get_their_values() -> None:
    """One call serves all lines of its choice: it passes what each of them needs, and nothing that none needs."""
    chosen = [
        placeholders(TEMPLATES[name])
        for name in MENTIONED & set(TEMPLATES) - {name for name, _ in NAMED.values()}
    ]
    assert [needed for needed in chosen if not any(needed <= values for values in CHOSEN_VALUES)] == []
    assert set().union(*chosen) == set().union(*CHOSEN_VALUES)


def test_no_line_is_unused() -> None:
    """The name of each template is written out somewhere in the package, or made by a rule."""
    assert {name.partition(".")[0] for name in TEMPLATES} <= MENTIONED


def test_waits_and_what_went_well_are_not_important() -> None:
    """By the heads of their sections; what was cut, lost or is not as wanted is important, and so is any other text."""
    routine = (notice("summarizing", tokens=1), notice("place_found"), notice("cost_line", line="$1"))
    assert not any(map(weight, routine))
    assert all(map(weight, (notice("answer_filtered"), notice("search_failed"), "another text")))
    assert {name for name in TEMPLATES if TEMPLATES[name].endswith("...")} <= ENGLISH.routine


def test_what_is_lost_of_the_chat_matters_most() -> None:
    """Then what does not arrive of its files; every name that is given a weight is one of a line."""
    lines = notice("lacking_clipped", count=1), notice("images_omitted", count=1), "Another."
    assert [*map(weight, lines)] == [3, 2, 1]
    beginnings = [each for _, names in WEIGHTS for each in names]
    assert [each for each in beginnings if not any(name.startswith(each) for name in TEMPLATES)] == []


def test_administrators_read_their_own_words_where_there_are_some() -> None:
    """And those of everybody where both can do the same."""
    assert for_admins(notice("key_rejected")) == TEMPLATES["key_rejected.admin"] != notice("key_rejected")
    assert for_admins(notice("model_refused")) == notice("model_refused")
    within = notice("with_reference", line=notice("key_rejected"), reference="R")
    assert TEMPLATES["key_rejected.admin"] in for_admins(within)
    assert for_admins("no line") == "no line"
    assert {name.partition(".")[0] for name in TEMPLATES} <= set(TEMPLATES)


def test_an_unknown_line_is_an_error() -> None:
    """A name without a template, and a template without its values, fail at once."""
    for name in ("no such line", "artifacts_missing"):
        with pytest.raises(KeyError):
            notice(name)


def test_no_line_is_glued_into_another_as_text() -> None:
    """It would stay English in every language; `sentences`, `joined` and the like take lines as values."""

    def is_line(node: ast.AST) -> bool:
        speaks = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in SPEAKERS
        return speaks or (isinstance(node, ast.Attribute) and node.attr == "user_message")

    def glues(node: ast.AST) -> bool:
        joins = (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "join"
        )
        adds = isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Add)
        return joins or adds or isinstance(node, ast.JoinedStr)

    glued = [
        f"{path}:{node.lineno}"
        for path, node in NODES
        if path.as_posix() not in IN_ONE_LANGUAGE and path.parts[0] not in {"replay", "errors.py"}
        if isinstance(node, ast.expr | ast.stmt)
        if glues(node) and any(map(is_line, ast.walk(node)))
    ]
    assert glued == []
