"""Secrets of known forms are masked, whatever stands around them; what only looks like one is left alone."""

from __future__ import annotations

import re
from typing import Final

import pytest

from open_webui_openrouter_pipe.conversation.masking import MASK, mask_secrets

SECRETS: Final = (
    "-----BEGIN PRIVATE KEY-----«\nMIIEvQIBADANBg\nkqhkiG9w==\n»-----END PRIVATE KEY-----\nafter",
    "-----BEGIN RSA PRIVATE KEY-----«\nProc-Type: 4,ENCRYPTED\n\nMIIE\n»-----END RSA PRIVATE KEY-----",
    "-----BEGIN OPENSSH PRIVATE KEY-----«\nb3BlbnNzaC1rZXkt\n»-----END OPENSSH PRIVATE KEY-----",
    '{"pem": "-----BEGIN PRIVATE KEY-----«\\nMIIEvQ\\n»-----END PRIVATE KEY-----\\n", "n": 1}',
    '"{\\"pem\\": \\"-----BEGIN EC PRIVATE KEY-----«\\\\nMIIEvQ\\\\n»-----END EC PRIVATE KEY-----\\"}"',
    "-----BEGIN PGP PRIVATE KEY BLOCK-----«\n\nlQOYBF\n=aBcD\n»-----END PGP PRIVATE KEY BLOCK-----",
    "-----BEGIN PRIVATE KEY-----«\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nMIIEvQIBADANBgkqhkiG9w0B»\n\nIt was cut short.",
    "postgres://ada:«hunter2»@db/x",
    "redis://:«hunter2»@cache:6379/0",
    "mongodb+srv://ada:«p@ss»@cluster0.example.net/?retryWrites=true",
    "DATABASE_URL=mysql://ada:«hunter2»@db:3306/x",
    "git clone https://x-access-token:«hunter2»@example.org/a.git",
    "curl -u ada:«hunter2» https://x",
    'curl --user "ada:«hunter2»" https://x',
    "curl -sSL -uada:«hunter2» https://x",
    "mysql -u root -p«hunter2» shop",
    "sshpass -p «hunter2» ssh ada@host",
    "redis-cli -h cache -a «hunter2» ping",
    '{"stdout": "A=b\\n«ghp_Ab1Cd2Ef3Gh4Ij5Kl6Mn7Op8Qr9St0Uv1Wx2»\\n"}',
    "It sent «sk-or-v1-0a1b2c3d4e5f60718293a4b5c6d7e8f9» twice",
    "It sent «sk-proj-Ab1Cd2Ef3Gh4Ij5Kl6Mn7Op8» twice",
    "It sent «sk_live_51Ab2Cd3Ef4Gh5Ij6Kl7Mn8» twice",
    "It sent «ghp_Ab1Cd2Ef3Gh4Ij5Kl6Mn7Op8Qr9St0Uv1Wx2» twice",
    "It sent «github_pat_11ABCDEFG0abcdefghijkl_mnop34» twice",
    "It sent «glpat-Ab1Cd2Ef3Gh4Ij5Kl6Mn» twice",
    "It sent «xoxb-123456789012-AbCdEfGhIjKl» twice",
    "It sent «AKIA0123456789ABCDEF» twice",
    "It sent «AIzaSyA1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q» twice",
    "It sent «hf_AbCdEfGh1Ij2Kl3Mn4Op5Qr6St» twice",
    "It sent «eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U» twice",
    "https://«ghp_Ab1Cd2Ef3Gh4Ij5Kl6Mn7Op8Qr9St0Uv1Wx2»@example.org/a.git",
    "It sent Bearer «eyJhbGciOi1.x9» twice",
    '{"key": "«AKIA0123456789ABCDEF»"}',
)
"""The secrets stand between « and »."""
HARMLESS: Final = (
    "docker login --password-stdin",
    "docker run -u 1000:1000 -p 8080:80 x",
    "docker run --user node:node x",
    "mkdir -p a/b && mysql -u root -p shop",
    "http://localhost:8080/@ada",
    "https://example.org:443?mail=ada@example.org",
    "mailto:ada@example.org",
    "postgres://ada:${PASSWORD}@db/x",
    "postgres://ada:<password>@db/x",
    "-----BEGIN CERTIFICATE-----\nMIIEvQIBADANBg\n-----END CERTIFICATE-----",
    "-----BEGIN PUBLIC KEY-----\nMIIEvQIBADANBg\n-----END PUBLIC KEY-----",
    "pip install sk-learn-contrib and sk-circle-fade-dot-animation",
    "task-2024-01-15-0123456789abcdef",
    "Bearer of good news: Ada Lovelace came in 1842",
    '{"password": "hunter2", "token": "abc"}',
)


@pytest.mark.parametrize("marked", SECRETS)
def test_a_secret_of_a_known_form_is_masked(marked: str) -> None:
    """The whole secret, and nothing around it; and what is masked stays as it is."""
    masked = re.sub(r"«[^»]*»", lambda _: MASK, marked)
    assert mask_secrets(marked.replace("«", "").replace("»", "")) == masked
    assert mask_secrets(masked) == masked


@pytest.mark.parametrize("text", HARMLESS)
def test_what_only_looks_like_a_secret_is_left_alone(text: str) -> None:
    """Names with a token's prefix, options of other commands, public keys, placeholders, and fields of any name."""
    assert mask_secrets(text) == text
