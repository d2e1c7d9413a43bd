"""Secrets of known forms are masked, whatever stands around them; what only looks like one is left alone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from open_webui_openrouter_pipe.conversation.masking import MASK, mask_secrets
from tests.support.rows import rows

CASES: Final = Path(__file__).with_name("masking.txt")


@pytest.mark.parametrize("marked", rows(CASES, "secrets"))
def test_a_secret_of_a_known_form_is_masked(marked: str) -> None:
    """The whole secret, and nothing around it; and what is masked stays as it is."""
    masked = re.sub(r"«[^»]*»", lambda _: MASK, marked)
    assert mask_secrets(marked.replace("«", "").replace("»", "")) == masked
    assert mask_secrets(masked) == masked


@pytest.mark.parametrize("text", rows(CASES, "harmless"))
def test_what_only_looks_like_a_secret_is_left_alone(text: str) -> None:
    """Names with a token's prefix, options of other commands, public keys, placeholders, and fields of any name."""
    assert mask_secrets(text) == text
