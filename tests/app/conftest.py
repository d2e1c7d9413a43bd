"""What all tests of the app have."""

from __future__ import annotations

import pytest

from open_webui_openrouter_pipe.openrouter import catalog
from scripts.harness.page import PATIENT_SECONDS


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a loaded machine the first list of models takes longer than a user would wait: these tests need it."""
    monkeypatch.setattr(catalog, "FIRST_WAIT_SECONDS", PATIENT_SECONDS)
