# SPDX-License-Identifier: Apache-2.0
"""Condense a file that says where packages come from to the places that it names.

    condensed(b'{"packages": {"a": {"resolved": "https://packages.example/a/-/a-1.tgz"}}}')
    -> "https://packages.example\n"

A lock file is too long to be handed on, and says where each package comes from. Of each address
stays what tells one place from another: of an index its host and the first folder, without the
package; of a repository, and of what nobody knows, all but the revision. What is there for people
to read alone (who is to be funded) is left out where the structure of a JSON text says so. Linear
and bounded; runs in the keeper, and where hooks are judged: standard library only, Python 3.9.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

MAX_BYTES = 6 * 1024 * 1024
"""Bytes of one file that are looked through."""
MAX_PLACES = 2000
"""Different places that one file may name."""
MAX_ADDRESS = 1000
"""Characters of one address."""
MAX_LOOKS = 200_000
"""Addresses that are looked at in one file."""
_ODD = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u2028-\u202e\u2066-\u2069\ufeff]")
_ESCAPE = re.compile(r"\\(?![\\\"'])")
"""In a text that is no JSON: what its readers may make another character of."""
_ENCODED = {"%3a": ":", "%2f": "/", "%40": "@"}
_IS_ENCODED = re.compile("%(?:3a|2f|40)", re.IGNORECASE)
_BEGINS = re.compile(
    r"(?<![A-Za-z0-9+.-])([A-Za-z][A-Za-z0-9+.-]{0,40}):(?=[^\s\"'=])|(?<![\w:/*.])//(?=[\w\[])"
)
_REST = re.compile(r"[^\s\"'<>`|]*")
_COMMENTS = ("#", "//", "--", ";", "%")
_NO_PLACES = frozenset(
    (
        *("npm", "jsr", "node", "bun", "workspace", "catalog", "patch", "virtual", "builtin"),
        *("sha1", "sha224", "sha256", "sha384", "sha512", "md5", "h1", "blake2b", "blake3"),
    )
)
"""What stands before a colon for a package of the index, or for a content."""
_LOCAL = frozenset(("file", "link", "portal", "path"))
_ALWAYS = frozenset(("http", "https", "gist"))
"""What names a place whatever follows."""
_REPOSITORY = re.compile(r"(?:git|ssh|hg|svn|bzr)(?:\+.*)?|.*\+ssh")
_REVISION = re.compile(r"(\.git)@[^/]*\Z")
_NPM = re.compile(r"(?:/@[^/]+)?/[^/@]+/-/")
_FOR_PEOPLE = frozenset(
    (
        *("funding", "deprecated", "homepage", "support", "authors", "author", "license", "bugs"),
        *("description", "keywords", "readme", "contributors", "maintainers"),
    )
)
_PACKAGES = frozenset(("packages", "packages-dev"))
_SOURCES = frozenset(("source", "dist"))


class _Unclear(ValueError):
    """It cannot be told which places a text names."""


class _Pairs(list[Any]):
    """The members of an object, those that are said twice among them."""

    __slots__ = ()


def condensed(content: bytes) -> str | None:
    """Return the places that a file names, one a line; None where that cannot be told."""
    if len(content) > MAX_BYTES:
        return None
    found: set[str] = set()
    try:
        text = content.decode("utf-8")
        if _ODD.search(text):
            return None
        for looks, place in enumerate(_places(text)):
            if place is not None:
                found.add(place)
            if looks > MAX_LOOKS or len(found) > MAX_PLACES:
                return None
    except ValueError:
        return None
    return "".join(f"{one}\n" for one in sorted(found))


def condensed_text(text: str | None) -> str | None:
    """Return the same of a text; None for none."""
    return None if text is None else condensed(text.encode("utf-8", "surrogatepass"))


def _places(text: str) -> Iterator[str | None]:
    """Give each place as often as it is named, and None for an address that names none."""
    try:
        data = json.loads(text, object_pairs_hook=_Pairs)
    except RecursionError:
        raise _Unclear from None
    except ValueError:
        if _ESCAPE.search(text):
            raise _Unclear from None
        for line in text.splitlines():
            if not line.lstrip().startswith(_COMMENTS):
                yield from _of_text(line, hosts_alone=False)
        return
    for key, leaf in _leaves(data):
        if not _is_for_people(key):
            # Where a text may hold backslashes and line ends, readers of addresses forgive them.
            plain = leaf.replace("\\", "/").translate({9: None, 10: None, 13: None})
            yield from _of_text(plain, hosts_alone=_is_of_composer(key))


def _leaves(data: Any) -> Iterator[tuple[tuple[str, ...], str]]:
    """Give each text of nested data with the names around it; names are texts as well."""
    waiting: list[tuple[tuple[str, ...], Any]] = [((), data)]
    while waiting:
        key, one = waiting.pop()
        around = key[:3]  # no name further in says anything
        if isinstance(one, _Pairs):
            for name, held in one:
                yield key, name
                waiting.append(((*around, name), held))
        elif isinstance(one, list):
            waiting.extend(((*around, "[]"), held) for held in one)
        elif isinstance(one, str):
            yield key, one


def _is_for_people(key: tuple[str, ...]) -> bool:
    if key[:1] and key[0] in _FOR_PEOPLE:
        return True
    return len(key) > 2 and key[0] in _PACKAGES and key[2] in _FOR_PEOPLE


def _is_of_composer(key: tuple[str, ...]) -> bool:
    """Whether packages of an index come from where everybody keeps a repository of their own."""
    return len(key) > 2 and key[0] in _PACKAGES and key[1] == "[]" and key[2] in _SOURCES


def _of_text(text: str, *, hosts_alone: bool) -> Iterator[str | None]:
    if ":" not in text and "//" not in text and "%" not in text:
        return
    text = _IS_ENCODED.sub(lambda found: _ENCODED[found[0].lower()], text)
    for begin in _BEGINS.finditer(text):
        scheme = (begin[1] or "").lower()
        if scheme in _NO_PLACES:
            continue
        rest = _REST.match(text, begin.end(), begin.end() + MAX_ADDRESS)
        assert rest is not None
        if rest.end() - begin.end() >= MAX_ADDRESS:
            raise _Unclear
        after_at = begin.start() > 0 and text[begin.start() - 1] == "@"
        yield _place(scheme, rest[0].rstrip(",;)}]"), after_at, hosts_alone)


def _place(scheme: str, rest: str, after_at: bool, hosts_alone: bool) -> str | None:
    """Return what tells a place from others; None where an address names none."""
    if scheme in _LOCAL and not rest.startswith("//"):
        away = rest.startswith(("/", "~")) or ".." in rest
        return f"{scheme}:{rest}" if away else None
    rest = re.split("[?#]", rest, maxsplit=1)[0]
    has_host = not scheme or rest.startswith("//") or scheme in ("http", "https")
    if not has_host:
        if not (scheme in _ALWAYS or "/" in rest or rest.endswith(".git") or after_at):
            return None
        return f"{scheme}:{rest if rest.endswith('.git') else _owner_and_name(rest)}"
    host, _, path = rest.lstrip("/").partition("/")
    start = f"{scheme}://{host.lower()}"
    if hosts_alone:
        return start
    path = _REVISION.sub(r"\1", path)
    if scheme and (_REPOSITORY.fullmatch(scheme) or path.endswith(".git")):
        return f"{start}/{path}"
    package = _NPM.search("/" + path)
    if package is not None:
        return start + ("/" + path)[: package.start()]
    first = path.partition("/")[0]
    first = first if first.startswith("@") else first.partition("@")[0]
    return f"{start}/{first}" if first else start


def _owner_and_name(path: str) -> str:
    """Return a path without what follows its first two parts: a branch, most likely."""
    return "/".join(path.split("/", 2)[:2])
