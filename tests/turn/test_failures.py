"""A failed turn is one line for the user, and one in the log, which find each other."""

from __future__ import annotations

import logging
import re

import pytest

from open_webui_openrouter_pipe.errors import InvalidHistory, PaymentRequired, PipeError
from open_webui_openrouter_pipe.turn.runner import report_failure


def refused() -> PipeError:
    error = PaymentRequired("Tell your administrator.", admin_message="Add credits.", detail="402 | poor")
    error.generation_id = "gen-7"
    return error


@pytest.mark.parametrize(("for_admin", "line"), [(False, "Tell your administrator."), (True, "Add credits.")])
def test_each_reads_what_they_can_do(*, for_admin: bool, line: str, caplog: pytest.LogCaptureFixture) -> None:
    """With six letters that the log has as well, beside what the server said and OpenRouter's name for the request."""
    failed = report_failure(refused(), for_admin=for_admin)
    found = re.fullmatch(rf"{re.escape(line)} \(reference ([A-Z]{{6}})\)", failed.message)
    assert found
    assert caplog.messages == [f"{found[1]}: Tell your administrator. (402 | poor); generation gen-7"]


def test_references_are_as_many_as_they_are_needed() -> None:
    """Two failures have two, to find the right lines; what the user alone can mend has none."""
    assert report_failure(refused(), for_admin=False) != report_failure(refused(), for_admin=False)
    assert report_failure(InvalidHistory("No messages."), for_admin=False).message == "No messages."


def test_a_fault_of_ours_is_in_the_log_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    """The user reads nothing of it but the reference."""
    failed = report_failure(RuntimeError("secret words"), for_admin=True)
    (record,) = caplog.records
    assert (record.levelno, record.exc_info is not None, "secret" in failed.message) == (
        logging.ERROR,
        True,
        False,
    )
    assert record.getMessage()[:6] in failed.message
