"""Secrets are masked by the names of their fields, in every notation; harmless fields are left alone."""

from __future__ import annotations

import json
import re
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from open_webui_openrouter_pipe.conversation.masking import MASK, mask_secrets

SECRET = "hunter2-9Zq"
NAMES = """password passwd Password db_password DB_PASSWORD adminPassword passphrase secret client_secret clientSecret
api_key apiKey apikey x-api-key AWS_SECRET_ACCESS_KEY private_key access_token accessToken token refresh_token id_token
csrf_token authTokens api_keys authorization Authorization cookie Set-Cookie session_id sessionId credentials
password_hash secrets"""

SECRETS: Final = (
    # XML
    "<password>«hunter2»</password>",
    "<db><password>«correct horse»</password><n>1</n></db>",
    '<password type="text">«hunter2»</password>',
    '<wsse:Password Type="x#PasswordText">«hunter2»</wsse:Password>',
    "<apiKey><![CDATA[«hunter2-9Zq»]]></apiKey>",
    "&lt;password&gt;«hunter2»&lt;/password&gt;",
    '<user name="ada" password="«hunter2»"/>',
    '<add key="ApiKey" value="«hunter2-9Zq»"/>',
    '<property name="db.password" value="«hunter2»"/>',
    '<property name="db.password">«hunter2»</property>',
    '<string name="api_key">«hunter2-9Zq»</string>',
    "<key>Password</key>\n  <string>«hunter2»</string>",
    "<name>DB_PASSWORD</name><value>«hunter2»</value>",
    '<user name="ada" password="«hunter2»">ada</user>',
    # a name beside a value
    '{"name": "x", "password": "«hunter2»", "value": 3}',
    '{"name": "password", "type": "text", "value": "«hunter2»"}',
    '{"name": "API_KEY", "value": "«hunter2-9Zq»"}',
    '{"key":"client_secret","value":"«hunter2-9Zq»","enabled":true}',
    '{"Name": "DB_PASSWORD", "Value": "«hunter2»"}',
    '{\n  "name": "DB_PASSWORD",\n  "value": "«hunter2»"\n}',
    '{"name": "Authorization", "value": "«Bearer abc.def»"}',
    '{"name": "sessionid", "path": "/", "secure": true, "value": "«9Zq8»"}',
    '[{"name": "A", "value": "1"}, {"name": "A_TOKEN", "value": "«hunter2-9Zq»"}]',
    r'"[{\"name\": \"API_KEY\", \"value\": \"«hunter2-9Zq»\"}]"',
    "env:\n- name: DB_PASSWORD\n  value: «hunter2»\n- name: A\n  value: b",
    'env:\n  - name: API_KEY\n    value: "«hunter2-9Zq»"\n',
    "environment:\n  - POSTGRES_PASSWORD=«hunter2»\n  - A=b",
    "environment:\n  POSTGRES_PASSWORD: «hunter2»\n  A: b",
    '"Env": ["A=b", "DB_PASSWORD=«hunter2»", "PATH=/bin"]',
    # keys in PEM
    "-----BEGIN PRIVATE KEY-----«\nMIIEvQIBADANBg\nkqhkiG9w==\n»-----END PRIVATE KEY-----\nafter",
    "-----BEGIN RSA PRIVATE KEY-----«\nProc-Type: 4,ENCRYPTED\n\nMIIE\n»-----END RSA PRIVATE KEY-----",
    "-----BEGIN OPENSSH PRIVATE KEY-----«\nb3BlbnNzaC1rZXkt\n»-----END OPENSSH PRIVATE KEY-----",
    r'{"pem": "-----BEGIN PRIVATE KEY-----«\nMIIEvQ\n»-----END PRIVATE KEY-----\n", "n": 1}',
    r'"{\"pem\": \"-----BEGIN EC PRIVATE KEY-----«\\nMIIEvQ\\n»-----END EC PRIVATE KEY-----\"}"',
    "-----BEGIN PGP PRIVATE KEY BLOCK-----«\n\nlQOYBF\n=aBcD\n»-----END PGP PRIVATE KEY BLOCK-----",
    "-----BEGIN PRIVATE KEY-----«\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nMIIEvQIBADANBgkqhkiG9w0B»\n\nIt was cut short.",
    # blocks of YAML
    "password: |\n  «hunter2»\nn: 1",
    "db:\n  password: |-\n    «hunter2\n    second line»\n  n: 1",
    "- api_key: >\n    «hunter2-9Zq»\n- n: 1",
    "tls:\n  private_key: |\n    «abc\n\n    def»\n  n: 1",
    "password:\n  «hunter2»\nn: 1",
    # JSON in JSON
    r'{"body": "{\"token\": \"«hunter2-9Zq»\", \"n\": 1}"}',
    r'"{\\\"token\\\": \\\"«hunter2-9Zq»\\\", \\\"n\\\": 1}"',
    r'{"password": "«a\\»", "n": 1}',
    r'"{\"password\": \"«a\\\"b\\\\»\", \"n\": 1}"',
    # addresses
    "postgres://ada:«hunter2»@db/x",
    "redis://:«hunter2»@cache:6379/0",
    "mongodb+srv://ada:«p@ss»@cluster0.example.net/?retryWrites=true",
    "DATABASE_URL=mysql://ada:«hunter2»@db:3306/x",
    "https://example.org/a?access_token=«hunter2-9Zq»&n=1",
    "git clone https://x-access-token:«hunter2»@example.org/a.git",
    # headers
    "Authorization: «Bearer abc.def»\nHost: x",
    "Proxy-Authorization: «Basic YWRhOnB3»\nHost: x",
    "Set-Cookie: «sid=9Zq; Path=/; HttpOnly»\nHost: x",
    "X-Api-Key: «hunter2-9Zq»\nHost: x",
    'curl -H "Authorization: «Bearer abc.def»" https://x',
    "headers = {'Authorization': '«Bearer abc.def»'}",
    # commands
    "login --password «hunter2» --user ada",
    "login --password='«hunter2»' --user ada",
    "java -Ddb.password=«hunter2» -jar a.jar",
    "curl -u ada:«hunter2» https://x",
    'curl --user "ada:«hunter2»" https://x',
    "curl -sSL -uada:«hunter2» https://x",
    "mysql -u root -p«hunter2» shop",
    "sshpass -p «hunter2» ssh ada@host",
    "redis-cli -h cache -a «hunter2» ping",
    "helm install x --set auth.password=«hunter2» y",
    # shells and settings
    "export DB_PASSWORD=«hunter2»\nexport A=b",
    'AWS_SECRET_ACCESS_KEY="«wJalrXUtnFEMI/K7MDENG/bPxRfiCY»"\nA=b',
    "PGPASSWORD=«hunter2» psql -h db",
    "MYSQL_PWD=«hunter2» mysql -h db",
    "$env:API_KEY = '«hunter2-9Zq»'",
    "Server=db;User Id=ada;Password=«hunter2»;Database=x",
    "AccountName=a;AccountKey=«abc/DEF+12==»;EndpointSuffix=x",
    "//registry.example.org/:_authToken=«hunter2-9Zq»",
    "SECRET_KEY_BASE=«0a1b2c3d4e5f6071»",
    "client-key-data: «LS0tLS1CRUdJTg==»",
    '{"password_confirmation": "«hunter2»"}',
    r'{"stdout": "A=b\npassword=«hunter2»\nghp_Ab"}',
    r'{"stdout": "A=b\npassword: «hunter2 9Zq»\nB: c"}',
    r'{"stdout": "A=b\n«ghp_Ab1Cd2Ef3Gh4Ij5Kl6Mn7Op8Qr9St0Uv1Wx2»\n"}',
    "A: b\r\npassword: «hunter2»\r\nB: c",
    '{\n  "password": "«hunter2»"\n}',
    "- name: DB_PASSWORD\n  value: |\n    «hunter2\n    9Zq»\n- name: A",
    # programs
    'password := "«hunter2»"',
    'password = b"«hunter2»"',
    "const apiKey = `«hunter2-9Zq»`;",
    'conn = connect(host="db", password="«hunter2»", port=1)',
    # prose
    "**Password:** «hunter2»",
    "**Password**: «hunter2»\nn",
    "- `password`: `«hunter2»`",
    "`password` = «hunter2»",
    # longer than what is judged
    f"password=«{'hunter2' * 99}» n",
    f"password: «{'hunter2 ' * 99}»\nn",
    f"<password>«{'hunter2' * 99}»</password>",
    # forms that need no name
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
)
"""The secrets stand between « and »."""
HARMLESS: Final = (
    "token count: 5",
    "tokens: 1200",
    "max_tokens=100",
    "keyboard: qwerty",
    "The key idea: use one table",
    "password reset requested",
    "sort key: name",
    "primary key: id",
    "cookie recipe: flour",
    "Cookies: flour, sugar, butter",
    "public key fingerprint: SHA256:abcdefgh1234567890",
    "Token: the smallest unit that a model reads",
    "token: required",
    "access token: refreshed",
    "password: required",
    "Password: must have at least 8 characters",
    "authorization: required for all endpoints",
    "password:\nhost: db",
    "password: str = Field(min_length=8)",
    "  password: string;",
    "password = get_password()",
    'password = os.environ["DB_PASSWORD"]',
    "login(user, password=password, token=token)",
    "apiKey: process.env.API_KEY,",
    "self.password = settings.db_password",
    "if password == other_password:",
    "def login(user: str, password: str) -> None:",
    "SELECT password FROM users WHERE token = $1 AND password = ?",
    '{"secret": "secret", "password": "password"}',
    "PWD=/home/ada",
    "PATH=/bin\nOLDPWD=/home/ada/work",
    "docker login --password-stdin",
    "docker run -u 1000:1000 -p 8080:80 x",
    "docker run --user node:node x",
    "mkdir -p a/b && mysql -u root -p shop",
    "http://localhost:8080/@ada",
    "https://example.org:443?mail=ada@example.org",
    "mailto:ada@example.org",
    "postgres://ada:${PASSWORD}@db/x",
    "postgres://ada:<password>@db/x",
    "password: ${{ secrets.DB_PASSWORD }}",
    "password: {{ db_password }}",
    '"password": f"{password}"',
    "- name: A_TOKEN\n  valueFrom:\n    secretKeyRef:\n      key: password\n- name: B\n  value: debug",
    '{"name": "LEVEL", "value": "debug"}',
    '{"name": "primary_key", "value": "identifier"}',
    '{"fields": ["password", "token", "email"], "value": "a"}',
    '{"type": "token", "value": "identifier"}',
    "secrets:\n  - db_password\n  - other",
    '<input type="password" name="pw"> Enter it here',
    '<label for="password">Your word</label>',
    "<th>Password</th><th>Token</th>",
    "<key>name</key><string>ada</string>",
    "<token>the</token>",
    "<td>password</td>\n<td>token</td>",
    '{"a": ["password", "token"], "b": [{"value": "abc"}]}',
    'env:\n- name: "DB_PASSWORD"\n  valueFrom:\n    field: x\n- name: "LEVEL"\n  value: debug',
    "if not password:\n    raise Missing()",
    "Waiting for password:\n\nDone.",
    "<password></password><password/>",
    '<password type="x"/> text',
    "a:\n  password: |\n  n: 1",
    "login(password=self.secret_1)",
    "-----BEGIN CERTIFICATE-----\nMIIEvQIBADANBg\n-----END CERTIFICATE-----",
    "-----BEGIN PUBLIC KEY-----\nMIIEvQIBADANBg\n-----END PUBLIC KEY-----",
    "description: |\n  the password is changed\nn: 1",
    "key: |\n  some words\nn: 1",
    "pip install sk-learn-contrib and sk-circle-fade-dot-animation",
    "task-2024-01-15-0123456789abcdef",
    "The session: at nine. The secretary: Ada",
    "| password | token |\n|---|---|",
    "e.g. `token` or `password`; see docs",
    "Bearer of good news: Ada Lovelace came in 1842",
)


@pytest.mark.parametrize("marked", SECRETS)
def test_a_secret_is_masked_in_every_notation(marked: str) -> None:
    """The whole secret, and nothing around it; and what is masked stays as it is."""
    masked = re.sub(r"«[^»]*»", lambda _: MASK, marked)
    assert mask_secrets(marked.replace("«", "").replace("»", "")) == masked
    assert mask_secrets(masked) == masked


@pytest.mark.parametrize("text", HARMLESS)
def test_what_only_sounds_like_a_secret_is_left_alone(text: str) -> None:
    """Counts, columns, rules, types, programs' names, placeholders, and values of other fields."""
    assert mask_secrets(text) == text


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
        ('{"password": {"a": "}", "b": ["c"]}, "n": 1}', '{"password": "[masked]", "n": 1}'),
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


@pytest.mark.parametrize("indent", [None, 2])
@given(value=st.text(), depth=st.integers(0, 2))
def test_a_secret_is_masked_to_its_end_in_json_within_json(
    value: str, depth: int, indent: int | None
) -> None:
    """Whatever quotes and backslashes it holds, and nothing behind it."""
    text = json.dumps({"password": f"9Zq-{value}", "n": 1, "pin_code": 7}, indent=indent)
    for _ in range(depth):
        text = json.dumps({"body": text}, indent=indent)
    read = json.loads(mask_secrets(text))
    for _ in range(depth):
        read = json.loads(read["body"])
    assert read == {"password": MASK, "n": 1, "pin_code": 7}


def test_a_number_in_json_of_several_lines_keeps_its_comma() -> None:
    """A line of JSON is no line of YAML."""
    text = json.dumps({"password": 123456, "n": 1}, indent=2)
    assert json.loads(mask_secrets(text)) == {"password": MASK, "n": 1}
