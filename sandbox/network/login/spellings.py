# SPDX-License-Identifier: Apache-2.0
"""How an answer might spell a secret, and what hides these spellings in a stream. Pure."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Callable, Iterable
from urllib.parse import quote

_UNSAFE = "<>&'=\""
"""What programs that write JSON into pages escape; some of them `+` and `/` too."""
_WAYS: tuple[Callable[[str], str], ...] = (
    lambda text: text,
    lambda text: quote(text, safe=""),
    lambda text: quote(text, safe="/"),
    lambda text: _lower(quote(text, safe=""), r"%[0-9A-F]{2}"),
    lambda text: json.dumps(text)[1:-1],
    lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    lambda text: json.dumps(text)[1:-1].replace("/", "\\/"),
    lambda text: _escaped(text, _UNSAFE, "\\u{:04x}"),
    lambda text: _escaped(text, _UNSAFE, "\\u{:04X}"),
    lambda text: _escaped(text, _UNSAFE + "+", "\\u{:04x}"),
    lambda text: _escaped(text, _UNSAFE + "+", "\\u{:04X}"),
    lambda text: _escaped(text, _UNSAFE + "+/", "\\u{:04x}"),
    lambda text: _escaped(text, _UNSAFE + "+/", "\\u{:04X}"),
    lambda text: html.escape(text, quote=False),
    lambda text: html.escape(text),
    lambda text: html.escape(text).replace("&quot;", "&#34;").replace("&#x27;", "&#39;"),
    lambda text: _escaped(html.escape(text).replace("&#x27;", "&#39;"), "=/`", "&#x{:X};"),
    lambda text: _escaped(html.escape(text).replace("&#x27;", "&#39;"), "+", "&#{};"),
    lambda text: _escaped(text, "<>'=\"+/`", "&#{};"),
    lambda text: _escaped(text, "<>'=\"+/`", "&#x{:x};"),
    lambda text: _escaped(text, "<>'=\"+/`", "&#x{:X};"),
)


def spellings(form: str, user: str, value: str) -> tuple[bytes, ...]:
    """Return what must not come back: the secret, as its header, an address, JSON or a page spells
    it."""
    texts = [value]
    if form == "basic":  # the signs at its end say nothing, and are spelled in many ways
        plain = joined(user, value).decode().rstrip("=")
        texts += [plain, plain.replace("+", "-").replace("/", "_")]
    return tuple(dict.fromkeys(way(text).encode() for text in texts for way in _WAYS))


def joined(user: str, value: str) -> bytes:
    """Return what `Authorization: Basic` holds."""
    return base64.b64encode(f"{user}:{value}".encode())


def _escaped(text: str, signs: str, form: str) -> str:
    return "".join(form.format(ord(one)) if one in signs else one for one in text)


def _lower(text: str, pattern: str) -> str:
    return re.sub(pattern, lambda match: match[0].lower(), text)


class Masker:
    """Replaces secrets in a stream by as many `*`."""

    def __init__(self, secrets: Iterable[bytes]) -> None:
        self._secrets = sorted(secrets, key=len, reverse=True)
        self._kept = b""

    def feed(self, data: bytes) -> bytes:
        """Return what can be passed on; the beginning of what may be a secret waits."""
        data = self._masked(self._kept + data)
        wait = max((_overlap(data, secret) for secret in self._secrets), default=0)
        self._kept = data[len(data) - wait :]
        return data[: len(data) - wait]

    def finish(self) -> bytes:
        """Return what waited."""
        return self._kept

    def _masked(self, data: bytes) -> bytes:
        for secret in self._secrets:
            data = data.replace(secret, b"*" * len(secret))
        return data


def _overlap(data: bytes, secret: bytes) -> int:
    """Return how many bytes at the end of data are the beginning of a secret, but not all of it."""
    tail = data[max(0, len(data) - len(secret) + 1) :]
    at = tail.find(secret[:1])
    while at >= 0 and not secret.startswith(tail[at:]):
        at = tail.find(secret[:1], at + 1)
    return len(tail) - at if at >= 0 else 0
