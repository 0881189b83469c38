# SPDX-License-Identifier: Apache-2.0
"""Take secrets out of text before it is written to the record. Pure.

Looks for secrets by their shape (keys and tokens of well-known issuers, key blocks, passwords in
addresses) and by the name that they are given to (`PASSWORD=...`, `"api_key": "..."`). What is
found becomes `[masked]`; whatever stands around it stays, so that the line can still be read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

MASK = "[masked]"
_HINTS = re.compile(
    r"(?i)pass|pwd|secret|token|key|bearer|basic|authori|cred|akia|asia|gh[pousr]_|github_pat|glpat"
    r"|xox|sk-|_live_|_test_|aiza|npm_|pypi-|hf_|eyj|://"
)
"""Text without any of these is left alone unread: nearly all output."""
_SHAPES = re.compile(
    r"""
        \b(?:AKIA|ASIA)[A-Z0-9]{16}\b
      | \bgh[pousr]_[A-Za-z0-9]{20,255}\b | \bgithub_pat_[A-Za-z0-9_]{20,255}\b
      | \bglpat-[A-Za-z0-9_-]{16,255}
      | \bxox[abeoprs]-[A-Za-z0-9-]{10,255}
      | \bsk-[A-Za-z0-9_-]{16,255}
      | \b(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{16,255}\b
      | \bAIza[A-Za-z0-9_-]{35}
      | \bnpm_[A-Za-z0-9]{30,255}\b | \bpypi-[A-Za-z0-9_-]{30,1000} | \bhf_[A-Za-z0-9]{30,255}\b
      | \beyJ[A-Za-z0-9_-]{8,4000}\.eyJ[A-Za-z0-9_-]{8,8000}\.[A-Za-z0-9_-]{8,2000}
    """,
    re.VERBOSE,
)
_BLOCK = re.compile(
    r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----.*?"
    r"(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\Z)",
    re.DOTALL,
)
_LONG = 4096
"""Longer text is looked at line by line: a name and its secret stand in one line."""

_ADDRESS = re.compile(
    r"(?P<kept>\b[A-Za-z][A-Za-z0-9+.-]{0,31}://[^\s/:@'\"]{0,256}:)[^\s/@'\"]{1,512}(?=@)"
)
_HEADER = re.compile(
    r"(?i)(?P<kept>\bauthorization['\"]?\s{0,8}[:=]\s{0,8}['\"]?(?:basic|bearer|token|digest)\s{1,8}"
    r"|\bbearer\s{1,8})[A-Za-z0-9._~+/=-]{8,8000}"
)
_NAMED = re.compile(
    r"""(?ix)
    (?P<kept>
        (?<![A-Za-z0-9])
        (?:[A-Za-z0-9]{1,40}[_.-]){0,6}
        (?:pass(?:word|wd|phrase|code)?|pwd|secret|token|credentials?
          |(?:api|access|auth|private|secret|client|signing|encryption|master|session)[_.-]?(?:key|token|secret))
        (?:[_.-][A-Za-z0-9]{1,40}){0,3}
        ['"]?\s{0,8}(?:=|:(?!:)|=>)\s{0,8}
    )
    (?: "(?P<d>[^"\n]{1,4000})" | '(?P<s>[^'\n]{1,4000})'
      | (?P<b>[^\s'"`,;&|<>(){}\[\]$]{3,4000}) )
    """
)
_OPTION = re.compile(
    r"(?i)(?P<kept>(?:^|\s)--?(?:[a-z0-9]{1,30}-){0,4}(?:password|passwd|pass|passphrase|secret|token"
    r"|api-?key|access-?key|secret-?key|private-?key)[ \t]{1,8})(?P<value>[^\s'\"-][^\s'\"]{2,4000}"
    r"|'[^'\n]{1,4000}'|\"[^\"\n]{1,4000}\")"
)
_LITERALS = frozenset(
    ("none", "null", "true", "false", "undefined", "str", "string", "bytes", "os")
)
"""Values that a programmer gives to such a name and that are no secret."""


def mask(text: str) -> str:
    """Return text with its secrets masked; the same text where none is found."""
    if not _HINTS.search(text):
        return text
    if "PRIVATE KEY" in text:
        text = _BLOCK.sub(MASK, text)
    if len(text) <= _LONG:
        return _masked(text)
    return "".join(
        _masked(line) if _HINTS.search(line) else line for line in text.splitlines(keepends=True)
    )


def _masked(text: str) -> str:
    text = _SHAPES.sub(MASK, text)
    text = _ADDRESS.sub(_kept, text)
    text = _HEADER.sub(_kept, text)
    text = _OPTION.sub(_kept, text)
    return _NAMED.sub(_named, text)


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
    if isinstance(value, str) and value and _NAMED.fullmatch(f"{key}=xxxx") and not _plain(value):
        return MASK
    return mask_all(value)


def _kept(found: re.Match[str]) -> str:
    return found["kept"] + MASK


def _named(found: re.Match[str]) -> str:
    bare = found["b"]
    if bare is not None and (_plain(bare) or MASK in bare):
        return found[0]
    value = found["d"] or found["s"]
    if value is not None and (value.startswith("$") or MASK in value):
        return found[0]
    quote = '"' if found["d"] is not None else "'" if found["s"] is not None else ""
    return f"{found['kept']}{quote}{MASK}{quote}"


def _plain(value: str) -> bool:
    """Whether a bare value is a word of a program rather than a secret."""
    word = value.rstrip(".,:;")
    return word.lower() in _LITERALS or re.fullmatch(r"[A-Za-z_]\w*(?:\.\w+)+", word) is not None
