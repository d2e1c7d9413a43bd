"""Secrets are masked by the names of their fields, in every notation; harmless fields are left alone."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from open_webui_openrouter_pipe.conversation.masking import MASK, mask_secrets

SECRET = "hunter2-9Zq"
NAMES = """password passwd Password db_password DB_PASSWORD adminPassword passphrase secret client_secret clientSecret
api_key apiKey apikey x-api-key AWS_SECRET_ACCESS_KEY private_key access_token accessToken token refresh_token id_token
csrf_token authTokens api_keys authorization Authorization cookie Set-Cookie session_id sessionId credentials
password_hash secrets"""


@pytest.mark.parametrize(
    "name",
    NAMES.split(),
)
@pytest.mark.parametrize(
    "form",
    [
        '{"NAME": "VALUE", "n": 1}',
        '{"a": {"NAME":"VALUE"}}',
        r"{\"NAME\": \"VALUE\", \"n\": 1}",
        r'"{\\\"NAME\\\": \\\"VALUE\\\"}"',
        "{'NAME': 'VALUE'}",
        "&quot;NAME&quot;: &quot;VALUE&quot;",
        "NAME=VALUE&n=1",
        "n: 1\nNAME: VALUE\nm: 2",
        "export NAME='VALUE'",
        "--NAME VALUE --n 1",
        '{"NAME": ["VALUE", "b"]}',
        '{"NAME": {"value": "VALUE"}}',
    ],
)
def test_the_value_of_a_secret_is_masked(name: str, form: str) -> None:
    """The rest of the text stays as it is."""
    text = form.replace("NAME", name).replace("VALUE", SECRET)
    masked = mask_secrets(text)
    assert MASK in masked
    assert SECRET not in masked
    assert masked.startswith(text.partition(SECRET)[0].rstrip('[{"value: ')[:4])
    assert mask_secrets(masked) == masked


@pytest.mark.parametrize(
    "text",
    [
        '{"tokens": 300, "max_tokens": 4096, "token": 300, "total_tokens": 12}',
        '{"key": "name", "primary_key": "id_of_row_number_1", "keyboard": "german", "keys": ["a", "b"]}',
        '{"token": "the", "next_page_token": "CAUQAA0123456789", "token_type": "bearer"}',
        '{"session": "Monday 9:00", "passed": true, "secretary": "Ada Lovelace", "cookie_policy": "strict"}',
        '{"auth": "basic", "auth_method": "none", "session": "room 9b and rooms1001to1009"}',
        "auth: none or basic",
        '{"password": null, "secret": "", "api_key": "<your key>", "token": "${TOKEN}", "cookie": "none"}',
        '{"password_reset_at": "2024-05-01", "secret_name": "db", "s3_key": "uploads/2024/report-1.pdf"}',
        "https://example.org/a?b=c the key: press it; the session: at nine",
        "The token is `abc`. A password must have 8 characters.",
    ],
)
def test_harmless_fields_are_left_alone(text: str) -> None:
    """Counts, names of columns, words, and fields without a value."""
    assert mask_secrets(text) == text


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("Authorization: Bearer a.b.c\nHost: x", "Authorization: [masked]\nHost: x"),
        ('curl -H "Cookie: a=b; c=d" https://x', 'curl -H "Cookie: [masked]" https://x'),
        (r'"Authorization: Basic YWRh\nHost: x"', r'"Authorization: [masked]\nHost: x"'),
        ("It sent Bearer eyJhbGciOi1.x9 twice", "It sent Bearer [masked] twice"),
        ("postgres://ada:pw@db/x", "postgres://ada:[masked]@db/x"),
        ('{"key": "AKIA0123456789ABCDEF"}', '{"key": "[masked]"}'),
        ('{"password": 123456, "n": 1}', '{"password": "[masked]", "n": 1}'),
        (r'{"password": "a\"b", "n": 1}', '{"password": "[masked]", "n": 1}'),
        ("password: correct horse\nn: 1", "password: [masked]\nn: 1"),
    ],
)
def test_a_value_is_masked_to_its_end(text: str, masked: str) -> None:
    """Headers and lines of YAML to the end of the line, and JSON stays JSON."""
    assert mask_secrets(text) == masked


_VALUES = st.none() | st.integers() | st.text(max_size=12)
_NAMES = st.sampled_from(["password", "api_key", "token", "key", "name", "session", "a"])


@given(
    st.recursive(
        _VALUES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=3)
    )
)
def test_json_stays_json(value: object) -> None:
    """Whatever is masked in it."""
    json.loads(mask_secrets(json.dumps(value)))
