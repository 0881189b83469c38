# SPDX-License-Identifier: Apache-2.0
"""Secrets that an option names: whatever the catalog does not know otherwise counts as read.

Programs take files through a great many options (`--rawfile`, `@FILE`, `-Wl,-T,FILE`). No list of
them is complete, so that a value which looks like the name of a secret is a file that is read,
unless the option's name says that it is a text. Only names that can be a secret's are looked at;
`places` decides what they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from policy.facts import How
from policy.programs.catalog_schema import Programs, Use
from policy.shell.state import Call

if TYPE_CHECKING:
    from policy.shell.interpreter import Shell

_SECRET = re.compile(
    r"(?i)(?:^|/)(?:\.(?!\.?$)[^/]*|_netrc|id_[a-z0-9]+|authorized_keys"
    r"|[^/]*(?:secret|credential|token|passw|account)[^/]*"
    r"|[^/]*\.(?:pem|key|p12|pfx|jks|keystore|kdbx|ppk|tfstate))$"
    r"|(?:^|/)\.(?:ssh|aws|gnupg|azure|gcloud|kube|docker|password-store|config)(?:/|$)"
    r"|^/(?:etc/(?:g?shadow|sudoers)|proc/|run/secrets)"
)
"""Names that can be a secret's."""
_TEXT = re.compile(
    r"-{1,2}(?:no-|extend-|force-|per-file-)?(?:exclude|include|ignore|skip|hide|omit|i?glob|i?name"
    r"|pattern|grep|regexp?|match|message|msg|title|body|label|format|pretty|style|author|subject"
    r"|description|comment|tag|query|filter|replace|search|color|type|ext|lang|language|suffix|since"
    r"|until|date|sort|width|branch|user-agent|select|deselect)"
    r"(?:-(?:dir|dirs|glob|pattern|re|regex|regexp|ext|type|text))?"
)
"""Options whose value is a text by their name."""
_FILE = re.compile(
    r"(?i)--?\w.*(?:file|conf|from|input|script|source|key|cert|option|default|value|load|init|rc\b"
    r"|env|template|patch|data|schema|secret|credential|pass|list|args|spec)|-{1,2}\w*in$"
)
"""Options whose next word is a file by their name."""
_KEYED = re.compile(r"file|secret|source|src|mount")
"""... and of those, the ones that take `key=FILE`."""
_NAMES_FILES = frozenset(
    ("", "build", "runner", "linter", "converter", "image", "media", "zip", "tar", "rsync", "fd",
     "download", "keys", "cloud", "containers", "codehost", "debugger", "node", "python", "npm",
     "pip", "database", "remote", "script_language", "pager", "filter", "cat", "head", "sort")
)  # fmt: skip
"""Readers of programs to which a word after an option can be that option's value."""
_OTHER_OPERANDS = frozenset(
    (Use.LIST, Use.EXIST, Use.META, Use.DELETE, Use.TREE, Use.MOVE, Use.WRITE, Use.TEXT)
)
_PREFIX = re.compile(r"^(?:fileb?:(?://)?|[!+<@])")
_LONGEST = 4096
_MOST = 256
"""Words of one command that are looked at."""


def record(shell: Shell, call: Call, entry: Programs | None, *, operands: bool = False) -> None:
    """Record the secrets that words of a call can name, beside those that its reader found.

    With `operands` every word counts: those of a variable that holds options or a file.
    """
    known = frozenset((*entry.values, *entry.uses)) if entry is not None else frozenset()
    loose = _loose(entry)
    before = ""
    for word in call.args[:_MOST]:
        if word == "--":
            break
        for value in _joined(word, known):
            _read(shell, call, value)
        if word[:1] != "-" and loose and before not in known and _FILE.match(before):
            if not _TEXT.fullmatch(before):
                _read(shell, call, word)
                if _KEYED.search(before):
                    _read(shell, call, word.rpartition("=")[2])
        elif operands or (entry is not None and (entry.handler == "keys" or call.name == "man")):
            _read(shell, call, word)
        before = word if word[:1] == "-" and "=" not in word else ""


def _loose(entry: Programs | None) -> bool:
    """Return whether a word after an option can be that option's value."""
    if entry is None:
        return True
    if entry.handler not in _NAMES_FILES:
        return False
    return not (entry.operands and entry.operands[0] in _OTHER_OPERANDS)


def _joined(word: str, known: frozenset[str]) -> Iterator[str]:
    """Yield what is joined to an option, and what follows an `@`."""
    if "@" in word:
        yield word.rpartition("@")[2]
    if word[:1] != "-" or len(word) < 3:
        return
    name, equals, value = word.partition("=")
    if equals:
        if name not in known and not _TEXT.fullmatch(name):
            yield value
            yield value.rpartition("=")[2]
            yield value.rpartition(",")[2]
    elif "," in word:
        yield word.rpartition(",")[2]
    elif word[1] != "-" and word[:2] not in known:
        yield word[2:]
        yield word[3:]


def _read(shell: Shell, call: Call, value: str) -> None:
    path = _PREFIX.sub("", value)
    if not path or len(path) > _LONGEST or " " in path or "\n" in path:
        return
    if _SECRET.search(path):
        shell.touch(How.READ, path, program=call.name)
