"""A user's short secret, sealed where settings are kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from open_webui_openrouter_pipe.errors import ConfigurationError, SealBroken
from open_webui_openrouter_pipe.store.sealing import is_owned, open_text, seal_text

KEY = "sk-or-v1-0123456789"


@given(st.text(min_size=1).filter(lambda text: not text.startswith("sealed:") and text.isascii()))
def test_what_is_sealed_opens_again(text: str) -> None:
    """With the same secret, for the same purpose; sealing it once more changes nothing."""
    sealed = seal_text(text, "secret", purpose="key")
    assert open_text(sealed, "secret", purpose="key") == text
    assert seal_text(sealed, "secret", purpose="key") == sealed


def test_the_sealed_text_shows_nothing() -> None:
    """And is another one each time."""
    first, second = (seal_text(KEY, "secret", purpose="key") for _ in range(2))
    assert first != second
    assert KEY[:8] not in first


@pytest.mark.parametrize(("secret", "purpose"), [("another", "key"), ("secret", "other")])
def test_it_opens_for_nothing_else(secret: str, purpose: str) -> None:
    """Neither with another secret nor for another purpose."""
    sealed = seal_text(KEY, "secret", purpose="key")
    with pytest.raises(SealBroken):
        open_text(sealed, secret, purpose=purpose)


def test_an_altered_one_does_not_open() -> None:
    """Whatever was changed in it."""
    sealed = seal_text(KEY, "secret", purpose="key")
    for at in range(len("sealed:"), len(sealed)):
        altered = sealed[:at] + ("A" if sealed[at] != "A" else "B") + sealed[at + 1 :]
        with pytest.raises(SealBroken):
            open_text(altered, "secret", purpose="key")


@pytest.mark.parametrize("text", ["sealed:", "sealed:x", "sealed:x:y", "sealed:x:ü"])
def test_what_was_never_sealed_does_not_open(text: str) -> None:
    """It is broken, and no other error."""
    with pytest.raises(SealBroken):
        open_text(text, "secret", purpose="key")


def test_nothing_is_kept_without_a_secret() -> None:
    """Rather an error than a key in clear; the empty text is no secret."""
    with pytest.raises(ConfigurationError):
        seal_text(KEY, "", purpose="key")
    assert (seal_text("", "", purpose="key"), open_text("", "", purpose="key")) == ("", "")


def test_what_is_sealed_for_its_owner_opens_for_nobody_else() -> None:
    """Nor where somebody has taken the mark of its owner away; what was sealed for nobody opens for all."""
    owned = seal_text(KEY, "secret", purpose="key", owner="ada")
    assert (is_owned(owned), open_text(owned, "secret", purpose="key", owner="ada")) == (True, KEY)
    assert seal_text(owned, "secret", purpose="key", owner="bob") == owned
    for text, owner in ((owned, "bob"), (owned, ""), (owned.replace("owned:", ""), "ada")):
        with pytest.raises(SealBroken):
            open_text(text, "secret", purpose="key", owner=owner)
    anybodys = seal_text(KEY, "secret", purpose="key")
    assert (is_owned(anybodys), open_text(anybodys, "secret", purpose="key", owner="bob")) == (False, KEY)
