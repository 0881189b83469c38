# SPDX-License-Identifier: Apache-2.0
"""Take secrets out of text before it is written to the record. Pure.

Looks for secrets by their shape (keys and tokens of well-known issuers: `secret_shapes.py`; key
blocks, passwords in addresses) and by the name that they are given to (`PASSWORD=...`,
`"api_key": "..."`). What is found becomes `[masked]`; whatever stands around it stays, so that the
line can still be read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import Any

from sandbox.text import secret_shapes

MASK = "[masked]"
_HINTS = (
    *("pass", "pwd", "secret", "token", "key", "bearer", "basic", "authori", "cred", "://"),
    *("cookie", "identified", "--user", "proxy-user", "sudo"),
    *(f"{space}-{one}" for space in " \t\n\r" for one in "kpu"),
)
_BLOCK = re.compile(
    r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----.*?"
    r"(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\Z)",
    re.DOTALL,
)
PIECE = 32 * 1024
"""Characters of a longer text that are looked at in one go."""
MORE = 16 * 1024
"""How far a match may look beyond that: more than any pattern needs to begin."""
_LONG = 4096
"""Longer text is looked at line by line: a name and its secret stand in one line."""

_ADDRESS = re.compile(
    r"(?P<kept>\b[A-Za-z][A-Za-z0-9+.-]{0,31}://[^\s/:@'\"]{0,256}:)[^\s/@'\"]{1,512}(?=@)"
    r"|(?P<web>\bhttps?://)[^\s/:@'\"$]{12,512}(?=@)"
)
_HEADER = re.compile(
    r"(?i)(?P<kept>\bauthorization['\"]?\s{0,8}[:=]\s{0,8}['\"]?"
    r"(?:[a-z][a-z0-9_-]{0,30}[ \t]{1,8})?|\bbearer(?:\s{1,8}|%20|\+))[A-Za-z0-9._~+/=-]{8,8000}"
)
_COOKIE = re.compile(r"(?i)(?P<kept>\bcookie['\"]?\s{0,8}:\s{0,8}['\"]?)[^\s'\"][^'\"\n]{7,8000}")
_WORD = r"""
    (?: "(?:\\.|[^"\\\n]){0,4000}" | \$?'(?:\\.|[^'\\\n]){0,4000}'
      | (?:\\.|[^\s'"`,;&|<>(){}\[\]$:=\\])
        (?:\\.|[^\s'"`,;&|<>)\]}\\]|[,)\]}](?=[^\s'"`,;&|<>)\]}])){0,4000}+ ){1,20}+
"""
"""A value as a shell reads it: pieces in quotes and bare ones that stand together."""
_NAMED = re.compile(
    rf"""(?ix)
    (?P<kept>
        (?<![A-Za-z0-9])
        (?P<name>
        (?:[A-Za-z0-9]{{1,40}}[_.-]){{0,6}}
        (?:[a-z0-9]{{0,40}}(?:password|passwd|passphrase|secret|token|credentials?)
          |pass(?:code)?|pwd
          |[a-z0-9]{{0,40}}(?:api|access|auth|private|secret|client|signing|encryption|master|session)
           [_.-]?(?:key|token|secret))
        (?:[_.-][A-Za-z0-9]{{1,40}}){{0,3}}
        )
        ['"]?(?P<sign>[ \t]{{0,8}}(?:=|:(?!:)|=>)[ \t]{{0,8}}|%3D|(?:%22)?%3A(?:%20|\+)?)
    )
    (?P<value>{_WORD})
    """
)
_KEY = re.compile(
    rf"(?x)(?P<kept>(?<![A-Za-z0-9_])(?P<name>[A-Z0-9_]{{1,80}}_KEY)(?P<sign>=))(?P<value>{_WORD})"
)
"""A variable for some service's key, as a shell sets it."""
_SPOKEN = re.compile(
    r"""(?ix)
    (?P<kept>
        \bmachine\s{1,8}\S{1,256}\s{1,8}(?:login\s{1,8}\S{1,256}\s{1,8})?password\s{1,8}(?=\S)
      | \b(?:password|identified\s{1,8}by)\s{1,8}(?=['"])
      | <[\w:.-]{0,60}(?:password|passwd|secret|token)>(?=[^<\n]{1,4000}</)
      | (?:^|\s)(?:-u|--user|--proxy-user)[ =]\s{0,8}['"]?[^\s:'"/$]{1,256}:
        (?!\d+(?:\s|['"]|$))(?=[^\s'":$])
      | \b(?:sshpass|mysql|mysqldump|mysqladmin|mariadb|mariadb-dump)\b
        (?:[^\S\n]+[^\s;|&]{1,256}){0,20}?[^\S\n]+-p(?=[^\s$-])
      | \bsshpass[^\S\n]+-p[^\S\n]+(?=[^\s$])
      | \blogin\b(?:[^\S\n]+[^\s;|&]{1,256}){0,20}?[^\S\n]+-p[^\S\n]+(?=[^\s$-])
      | --(?:password-stdin|with-token|passphrase-fd[ =]0)\b[^\n|;&<]{0,200}<<<[ \t]{0,4}(?=[^\s$])
      | \bopenssl\b(?:[^\S\n]+[^\s;|&]{1,256}){0,20}?[^\S\n]+-k[^\S\n]+(?=[^\s$-])
    )
    (?: "(?:\\.|[^"\\\n]){1,4000}" | '[^'\n]{1,4000}' | [^\s'"<;&|]{1,4000} )
    """
)
"""Secrets that follow a word or an option, without a sign between."""
_OPTION = re.compile(
    r"(?i)(?P<kept>(?:^|\s)--?(?:[a-z0-9]{1,30}-){0,4}(?:password|passwd|pass|passphrase|secret|token"
    r"|api-?key|access-?key|secret-?key|private-?key)[ \t]{1,8})(?P<value>[^\s'\"-][^\s'\"]{2,4000}"
    r"|'[^'\n]{1,4000}'|\"[^\"\n]{1,4000}\")"
)
_TOLD = re.compile(
    r"""(?ix)
    (?P<kept>
        \b(?:password|passwd|passphrase|passcode|pwd)[ \t]{1,4}(?:(?:is|was|will[ ]be)[ \t]{1,4})?
      | \b(?:secret|token|api[ _-]?key)[ \t]{1,4}(?:is|was|will[ ]be)[ \t]{1,4}
      | \b(?:re)?(?:set|chang\w{1,3}|updat\w{1,3})\b[^\n]{0,40}?\bpassword[ \t]{1,4}to[ \t]{1,4}
    )
    (?P<quote>["'`]?)
    (?!(?:base|sha|md|utf|aes|rsa|ed|oauth|http|line|v)-?\d)
    (?=[^\s\d]{0,200}\d)(?=[^\sA-Za-z]{0,200}[A-Za-z])
    [^\s'"`,;:()<>|&/$=\[\]{}-][^\s'"`,;()<>|&\[\]{}]{4,200}[^\s'"`,;.:!?()<>|&\[\]{}]
    """
)
"""What prose says that a password is: only where letters and digits stand in it together."""
_PIPED = re.compile(
    r"""(?ix)
    (?P<kept>
        \b(?:echo|printf)[ \t]{1,4}
        (?:(?:-[ne]{1,3}|'%s(?:\\n)?'|"%s(?:\\n)?"|%s)[ \t]{1,4}){0,2}
    )
    (?:"[^"\n$`]{1,400}" | '[^'\n]{1,400}' | [^\s'"$`|;&<>]{1,400})
    (?=[ \t]{0,8}\|[^\n|;&]{0,400}?
        (?:--(?:password|passphrase|token|secret)-stdin\b | --with-token\b | --passphrase-fd\b
          |-pass(?:in)?[ =:]stdin\b | \bchpasswd\b | \bpasswd\b
          |\bsudo\b[^\n|;&]{0,80}?[ ]-\w{0,3}(?-i:S)))
    """
)
"""What a program that asks for a secret is given by a pipe."""
_BREAK = re.compile(
    r"(?i)(?:pass|word|wd|phrase|secret|token|credential|key)['\"]?[ \t]{0,8}:[ \t]{0,8}"
    r"(?:[|>][0-9+-]{0,2}[ \t]{0,8})?\r?\n"
)
"""The end of a line after which a secret may stand; looked for first, since it is rare."""
_BELOW = re.compile(
    r"""(?imx)
    (?P<kept>
        ^(?P<indent>[ \t]{0,80})(?:-[ ]{1,4})?["']?[\w.-]{0,60}?
        (?:password|passwd|passphrase|secret|token|credential|pwd
          |(?:api|access|auth|private|secret|client|signing|encryption|master|session)[_.-]?key)
        ["']?[ \t]{0,8}:[ \t]{0,8}
        (?P<text>[|>][0-9+-]{0,2}[ \t]{0,8})?\r?\n
        (?P=indent)[ \t]{1,80}
    )
    (?(text)
        [^\n]{1,8000}(?:\n(?:(?P=indent)[ \t]{1,80}[^\n]{1,8000}|[ \t]{0,80}(?=\n)))*
      | (?P<mark>["']?)(?P<value>[^\s"'#{\[$<-][^\n"']{2,4000}?)(?P=mark)
        (?=[ \t]{0,8},?[ \t]{0,8}\r?$)
    )
    """
)
"""A value that stands below its name, as YAML and JSON may be laid out."""
_TELLING = ("pass", "pwd", "secret", "token", "key", "credential")
_SIGNS = ("=", ":", "%3d", "%3a")
_KEPT = (
    (_ADDRESS, (("://",), ("@",))),
    (_HEADER, (("authorization", "bearer"),)),
    (_COOKIE, (("cookie",), (":",))),
    (_OPTION, (("-",), _TELLING)),
    (
        _SPOKEN,
        (
            (
                *("password", "identified", "passwd>", "secret>", "token>", "-u", "sshpass"),
                *("mysql", "mariadb", "login", "with-token", "passphrase-fd", "openssl"),
            ),
        ),
    ),
    (_PIPED, (("|",), ("echo", "printf"))),
)
"""Patterns, and words of which each match holds one (of each group)."""
_USUAL_NAME = 100
"""Characters of a name; an answer on a longer one is not kept."""
_SHORTEST = 3
"""A bare value of fewer characters is left alone."""
_LITERALS = frozenset(
    ("none", "null", "true", "false", "undefined", "str", "string", "bytes", "os")
)
"""Values that a programmer gives to such a name and that are no secret."""


def mask(text: str) -> str:
    """Return text with its secrets masked; the same text where none is found."""
    if not _hinted(text):
        return text
    if "PRIVATE KEY" in text:
        text = replaced(_BLOCK, _whole, text)
    if _BREAK.search(text):
        text = replaced(_BELOW, _below, text)
    if len(text) <= _LONG:
        return _masked(text)
    return "".join(
        _masked(line) if _hinted(line) else line for line in text.splitlines(keepends=True)
    )


def _hinted(text: str) -> bool:
    """Whether there may be a secret; as strict as the patterns are about upper and lower case."""
    plain = text.lower() if text.isascii() else text.casefold().replace("\u0131", "i")
    return any(hint in plain for hint in _hints())


@cache
def _hints() -> tuple[str, ...]:
    """Return words without any of which text is left alone unread: nearly all output. Words and no
    pattern, since looking for words takes a tenth of the time, and all output is looked at."""
    words = dict.fromkeys((*_HINTS, *(word.lower() for word in secret_shapes.words())))
    return tuple(word for word in words if not any(x in word for x in words if x != word))


def _masked(text: str) -> str:
    folded = _folded(text)
    if _holds(text, secret_shapes.words()):  # a hundredth of what the pattern costs
        text = replaced(secret_shapes.pattern(), _whole, text)
    for pattern, needed in _KEPT:
        if all(_holds(folded, one) for one in needed):
            text = replaced(pattern, _kept, text)
    if _holds(folded, _TELLING):
        text = replaced(_TOLD, _told, text)
        if _holds(folded, _SIGNS):
            text = replaced(_NAMED, _named, text)
    return replaced(_KEY, _named, text) if "_KEY=" in text else text


def replaced(
    pattern: re.Pattern[str],
    replace: Callable[[re.Match[str]], str],
    text: str,
    *,
    piece: int = PIECE,
    more: int = MORE,
) -> str:
    """Return what `pattern.sub` does, looking at a piece of a long text at a time.

    A match keeps Python's lock: no other thread runs until it has ended. `more` is how far a match
    that begins in a piece may look beyond it; one that comes to its end is looked for anew, whole.
    """
    if len(text) <= piece + more:
        return pattern.sub(replace, text)
    out: list[str] = []
    at = done = 0
    while at < len(text):
        limit, end = at + piece, min(at + piece + more, len(text))
        for part in pattern.finditer(text, at, end):
            if part.start() >= limit:
                break
            whole = pattern.match(text, part.start()) if part.end() == end < len(text) else part
            found = whole or part
            out += (text[done : found.start()], replace(found))
            done = found.end()
            if done >= limit:
                break
        at = max(limit, done)
    return "".join((*out, text[done:]))


def _folded(text: str) -> str:
    """Return the text in the letters that patterns take for the same whatever their case."""
    low = text.lower()
    if low.isascii():
        return low
    return low.replace("\u017f", "s").replace("\u0131", "i").replace("i\u0307", "i")


def _holds(text: str, words: tuple[str, ...]) -> bool:
    return any(word in text for word in words)


def mask_bytes(data: bytes) -> bytes:
    """Return bytes with their secrets masked; what is not UTF-8 stays as it is."""
    text = data.decode("utf-8", "surrogateescape")
    masked = mask(text)
    return data if masked is text else masked.encode("utf-8", "surrogateescape")


def mask_all(value: Any) -> Any:
    """Return a JSON value with every text in it masked; a value under a telling name wholly."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, Mapping):
        return {key: _under(str(key), one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [mask_all(one) for one in value]
    return value


def _under(key: str, value: Any) -> Any:
    if not (_telling(key) if len(key) <= _USUAL_NAME else _is_telling(key)):
        return mask_all(value)
    if isinstance(value, str):
        return MASK if value and not _plain(value) else value
    if isinstance(value, list | tuple):
        return [_under(key, one) for one in value]
    return mask_all(value)


def _is_telling(key: str) -> bool:
    """Whether what is given to a name of this kind is a secret."""
    return _NAMED.fullmatch(f"{key}=xxxx") is not None


_telling = lru_cache(maxsize=1024)(_is_telling)
"""Records have the same few names all day."""


def _whole(_found: re.Match[str]) -> str:
    return MASK


def _kept(found: re.Match[str]) -> str:
    kept: str = found["kept"] or found["web"]
    return kept + MASK


def _told(found: re.Match[str]) -> str:
    return f"{found['kept']}{found['quote']}{MASK}"


def _below(found: re.Match[str]) -> str:
    if found["text"] is not None:
        return found["kept"] + MASK
    value, mark = found["value"], found["mark"]
    if not mark and (re.search(r"\s|:$", value) or value.lower() in _LITERALS):
        return found[0]
    return f"{found['kept']}{mark}{MASK}{mark}"


def _named(found: re.Match[str]) -> str:
    value = found["value"]
    inner = value[1:-1] if value[0] in "'\"" else value
    bare = inner is value
    if MASK in value or not inner or (not bare and inner.startswith("$")):
        return found[0]
    variable = found["name"].isupper() and found["sign"] == "="
    if bare and (len(value) < _SHORTEST or _plain(value, variable=variable)):
        return found[0]
    quote = value[0] if not bare and value[0] == value[-1] else ""
    return f"{found['kept']}{quote}{MASK}{quote}"


def _plain(value: str, *, variable: bool = False) -> bool:
    """Whether a bare value is a word of a program rather than a secret.

    What a shell gives to a `variable` is text, whatever it looks like.
    """
    word = value.rstrip(".,:;")
    if word.lower() in _LITERALS:
        return True
    return not variable and re.fullmatch(r"[A-Za-z_]\w*(?:\.\w+)+(?:[(\[].*)?", word) is not None
