"""What a model in a small window still knows, by the chats of the benchmark of the same name."""

from __future__ import annotations

import pytest

from scripts.benchmarks.small_windows import SHAPES, measure


@pytest.mark.parametrize(
    ("shape", "window_tokens", "of_last_ten", "breaks_per_turn"),
    [
        ("plain", 4_096, 9.5, 0.5),
        ("one tool", 4_096, 1.5, 1.0),
        ("one tool", 8_192, 7.0, 0.7),
        ("25 tools", 8_192, 9.5, 0.5),
        pytest.param("four tools", 8_192, 2.0, 1.0, marks=pytest.mark.thorough),
    ],
)
def test_most_of_the_last_ten_questions_are_known(
    shape: str, window_tokens: int, of_last_ten: float, breaks_per_turn: float
) -> None:
    """In some form, with the answer before the question whole, without a change of the prefix at each turn."""
    known = measure(SHAPES[shape], window_tokens, "prune")
    assert known["of_last_ten"] >= of_last_ten
    assert known["breaks_per_turn"] <= breaks_per_turn
    assert known["answer_before_whole"] == 1.0
    assert known["results_whole"] >= SHAPES[shape].calls * (window_tokens > 4_096)
