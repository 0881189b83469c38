# SPDX-License-Identifier: Apache-2.0
"""Secrets that are taken out of the record, and text that only looks alike."""

from __future__ import annotations

import re
import time
import timeit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.text.redaction import MASK, mask, mask_all, mask_bytes

WORD = "Zx8Kq2Lm9Pw4Rt7Vb3Nc"
SECRETS = [
    f"export AWS_SECRET_ACCESS_KEY={WORD}",
    f"AWS_ACCESS_KEY_ID=AKIA{'Q' * 16} aws s3 ls",
    f"curl -H 'Authorization: Bearer {WORD}' http://x",
    f"curl -H 'Authorization: Basic {WORD}=' http://x",
    f"git clone https://me:{WORD}@example.org/x.git",
    f"psql postgres://admin:{WORD}@db/prod",
    f'"password": "{WORD}"',
    f"password: {WORD}",
    f"DB_PASSWORD='{WORD}'",
    f"mysql --password {WORD} prod",
    f"mysql --password={WORD} prod",
    f"tool --api-key {WORD}",
    f"tool --token '{WORD}'",
    f"ghp_{WORD}{WORD}",
    f"github_pat_{WORD}_{WORD}",
    f"sk-{WORD}{WORD}",
    f"sk_live_{WORD}",
    f"xoxb-{WORD}",
    f"npm_{WORD}{WORD}",
    f"token = eyJ{WORD}.eyJ{WORD}.{WORD}",
    f"-----BEGIN RSA PRIVATE KEY-----\n{WORD}\n{WORD}\n-----END RSA PRIVATE KEY-----",
    f"-----BEGIN OPENSSH PRIVATE KEY-----\n{WORD}",
    f"client_secret => '{WORD}'",
    f"REDIS_AUTH_TOKEN={WORD};",
    f"PGPASSWORD={WORD} psql",
    f"dbPassword={WORD}",
    f"OPENAI_KEY={WORD} tool",
    f"PASSWORD=a{WORD}$b{WORD}",
    f"PASSWORD=a({WORD}",
    f"PASSWORD=a,{WORD}",
    f"PASSWORD=word.{WORD}",
    f"PASSWORD=a'{WORD}'",
    f"PASSWORD=$'{WORD}'",
    f'PASSWORD="a\\"{WORD}"',
    f"PASSWORD=a\\ {WORD}",
    f"curl -u me:{WORD} http://x",
    f"curl --user 'me:{WORD}' http://x",
    f"curl -H 'Authorization: {WORD}' http://x",
    f"curl -H 'Authorization: ApiKey {WORD}' http://x",
    f"curl -H 'Cookie: session={WORD}' http://x",
    f"git clone https://{WORD}@example.org/x.git",
    f"sshpass -p {WORD} ssh me@x",
    f"sshpass -p{WORD} ssh me@x",
    f"mysql -u root -p{WORD} prod",
    f"docker login -u me -p {WORD} x",
    f"openssl enc -aes256 -k {WORD}",
    f"machine x login me password {WORD}",
    f"ALTER USER me PASSWORD '{WORD}'",
    f"<password>{WORD}</password>",
    f"https://hooks.slack.com/services/T0/B0/{WORD}",
    f"https://discord.com/api/webhooks/123456789012/{WORD}",
    f"glrt-{WORD}",
    f"dckr_pat_{WORD}",
    f"ya29.{WORD}",
    f"GOCSPX-{WORD}",
    f"shpat_{WORD}{WORD}",
    f"dop_v1_{WORD}{WORD}",
    f"hvs.{WORD}",
    f"SG.{WORD}.{WORD}",
    f"AGE-SECRET-KEY-1{WORD.upper()}{WORD.upper()}",
    f"123456789:AA{WORD}{WORD}",
    f"the password is {WORD}, keep it",
    f"the password is '{WORD}'",
    f"password {WORD}",
    f"the token was {WORD}.",
    f"set the admin password to {WORD}",
    f"http://x/?next=%2F%3Ftoken%3D{WORD}",
    f"http://x/#%7B%22password%22%3A%22{WORD}%22%7D",
    f"http://x/?h=Bearer%20{WORD}",
    f"echo {WORD} | docker login --password-stdin x",
    f"echo -n '{WORD}' | docker login -u me --password-stdin",
    f"printf '%s' \"{WORD}\" | gh auth login --with-token",
    f"printf %s {WORD} | gpg --batch --passphrase-fd 0 -d x",
    f"echo {WORD} | sudo -S true",
    f"echo root:{WORD} | sudo chpasswd",
    f"docker login --password-stdin <<< {WORD}",
    f"db:\n  password:\n    {WORD}\n  user: me\n",
    f"password: |\n  {WORD}\n  {WORD}\n",
    f"- api_key: >-\n    {WORD}\n",
    f'{{\n  "password":\n    "{WORD}",\n  "user": "me"\n}}',
    "line\n" * 2000 + f"token:\n  {WORD}\n",
]
PLAIN = [
    "git commit -m 'fix the password prompt'",
    "grep -rn password src",
    "def login(user, password): ...",
    "password = None",
    "token: str",
    "key = value",
    "secret = os.environ",
    "password = settings.password",
    "for key in keys: print(key)",
    "password = getpass.getpass()",
    "password = os.environ['X']",
    "PASSWORD=$OTHER tool",
    'PASSWORD="$(cat file)" tool',
    "docker run -u 1000:1000 x",
    "mkdir -p a/b",
    "mysql -u root -p prod",
    "PRIMARY_KEY = 1",
    "bypass=1",
    "https://example.org/a@b",
    "https://example.org/a:b@c",
    "ls -la ~/.ssh",
    "TOKEN=$TOKEN tool",
    'password="$PASSWORD"',
    "class Token::Parser",
    "pytest -k 'not token'",
    "tool --token-file path",
    "the monkey likes keys",
    "the password is required",
    "the password is wrong, and the token is expired",
    "the password is base64 encoded, the token is sha256-hashed",
    "the password of user42 is kept elsewhere",
    "set the password to something long",
    "the token is 8 bytes",
    "echo done | tee password.txt",
    "echo $PASSWORD | docker login --password-stdin",
    'echo "$PASSWORD" | docker login --password-stdin',
    "echo ls | sudo -s",
    "next%3Dtoken%26x",
    "if token:\n    return 1",
    "if not password:\n    raise ValueError",
    "password:\n  required: true",
    "properties:\n  token:\n    type: string\n",
    "password:\n  string\n",
    "secrets:\n  - A\n",
    "password:\nuser: me\n",
    "for token in tokens:\n    pass",
]


@pytest.mark.parametrize("text", SECRETS)
def test_a_secret_is_masked_and_the_rest_stays(text: str) -> None:
    masked = mask(f"before {text} after" if "\n" not in text else text)
    assert WORD not in masked
    assert "Q" * 16 not in masked
    assert MASK in masked
    assert "\n" in text or masked.startswith("before ")


@pytest.mark.parametrize("text", PLAIN)
def test_what_is_no_secret_stays_as_it_is(text: str) -> None:
    assert mask(text) == text


@pytest.mark.parametrize("text", [*SECRETS, *PLAIN])
def test_masking_twice_changes_nothing_more(text: str) -> None:
    assert mask(mask(text)) == mask(text)


def test_values_of_a_plan_are_masked_wherever_they_stand() -> None:
    plan = {
        "command": f"x PASSWORD={WORD}",
        "edits": [{"new": f"sk-{WORD}"}],
        "api_key": WORD,
        "n": 1,
    }
    assert mask_all(plan) == {
        "command": f"x PASSWORD={MASK}",
        "edits": [{"new": MASK}],
        "api_key": MASK,
        "n": 1,
    }


def test_bytes_that_are_no_text_stay() -> None:
    assert mask_bytes(b"\xff\xfe plain") == b"\xff\xfe plain"
    assert mask_bytes(b"\xff PASSWORD=" + WORD.encode()) == b"\xff PASSWORD=" + MASK.encode()


@given(st.text())
def test_any_text_is_taken(text: str) -> None:
    mask(text)
    mask_bytes(text.encode("utf-8", "surrogatepass"))


@pytest.mark.parametrize(
    "piece",
    [
        "a_",
        "password=",
        "://",
        "Bearer ",
        "-----BEGIN PRIVATE KEY-----",
        "eyJ",
        "--token ",
        "key.",
        "password ",
        "token:\n",
        "token: |\n a\n",
        "a%3D",
        "echo a | ",
        "set password to ",
        " password:\n  ",
    ],
)
def test_hostile_text_does_not_take_long(piece: str) -> None:
    started = time.process_time()
    mask(piece * (1_000_000 // len(piece)))
    assert time.process_time() - started < 10


def test_text_that_is_looked_at_in_vain_costs_little() -> None:
    texts = ("y" * 1_000_000, "hello world, this is text\n" * 40_000)
    for text in texts:
        plain = re.compile(r"(?i)pass|secret|token|identified").search
        assert mask(text) is text
        assert plain(text) is None
        took = min(timeit.repeat(lambda: mask(text), number=1, timer=time.process_time))  # noqa: B023
        least = min(timeit.repeat(lambda: plain(text), number=1, timer=time.process_time))  # noqa: B023
        assert took < 6 * least  # it was twenty times as much


@pytest.mark.parametrize(
    "text",
    [
        "PA\u017f\u017fWORD=hunter22x",
        "\u0131dentified by 'hunter22x'",
        "to\u212aen=hunter22xy",
        "AUTHOR\u0130ZATION: hunter22xy",
    ],
)
def test_letters_that_a_pattern_takes_for_others_hide_nothing(text: str) -> None:
    masked = mask(f"token secret {text}")
    assert "hunter22x" not in masked
    assert MASK in masked
