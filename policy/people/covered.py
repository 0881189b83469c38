# SPDX-License-Identifier: Apache-2.0
"""What an approval of a wider scope is bound to: the commands of a call, word by word. Pure.

What may differ is a closed list: options that only change what is told, words of a message, and
which of the shown paths are deleted. Everything else (verb, remote, branch, target, every option
that the list does not name) is what the person said yes to, and what is not the same asks again.
"""

from __future__ import annotations

import hashlib
import itertools
import re
import shlex
from collections.abc import Iterable, Mapping
from enum import Enum

from policy.facts import Facts
from policy.model import Frozen, Tier
from policy.programs.catalog import Catalog
from policy.shell.builtins import BUILTINS, QUIET
from policy.values.partial import shown, unknown

_MOST_WORDS = 256
"""As many words of a command as a reading keeps; a longer one is not wholly known."""
_TELLING: dict[str, frozenset[str]] = {
    "git": frozenset(("-q", "--quiet", "--verbose", "--progress", "--no-progress", "--porcelain")),
    "rm": frozenset(("-f", "--force", "-v", "--verbose", "-i", "-I", "-d", "--dir")),
    "curl": frozenset(("-s", "--silent", "-S", "--show-error", "--compressed", "-sS", "-f", "-#")),
    "make": frozenset(("-s", "--silent", "--quiet", "--no-print-directory")),
    "npm": frozenset(("-s", "--silent")),
    "terraform": frozenset(("-no-color",)),
}
"""Options that only change what a program tells, or whether it asks, by program."""
_SPEECH: dict[str, frozenset[str]] = {
    "git": frozenset(("-m", "--message")),
    "gh": frozenset(("--title", "--body", "-t", "-b")),
    "glab": frozenset(("--title", "--description")),
}
"""Options whose value is only read by people, by program."""
_SPEAKING_VERBS = frozenset(("commit", "tag", "stash", "merge", "notes", "pr", "issue", "mr"))
_DELETERS = frozenset(("rm", "unlink", "rmdir", "trash", "gio"))
_RUNS = frozenset(
    ("python", "node", "shell", "script_language", "editor", "launcher", "debugger", "database",
     "remote", "download", "cloud", "containers", "codehost", "privilege")
)  # fmt: skip
"""Readers of programs that run what their operands say, or act elsewhere."""
_MATTER = frozenset(
    ("eval", "source", ".", "exec", "trap", "alias", "enable", "bind", "cd", "pushd", "popd")
)
"""Builtins that run a text, or move the place where others act."""
_REMOTE_VERBS = frozenset(("push", "fetch", "pull", "clone", "ls-remote", "remote"))
_LONGEST = 120
"""Characters of a word that is kept as it is."""
_LONG = re.compile(r"(?=[A-Za-z_-]*\d)(?=[\d_-]*[A-Za-z])[\w-]{20,}")
"""What may be a key."""
_SECRET = re.compile(
    r"(?i)token|secret|passw|credential|api[-_]?key|auth|header|^-[HuU]$|cookie|://[^/@]*:[^/@]*@"
)
"""Options whose value is not kept as it is, and words that hold a secret themselves."""


class ActKind(str, Enum):
    """How far a command may differ where a person approved a kind of question."""

    SETTLED = "settled"
    """It only reads, or works in the workspace: nobody is asked about it."""
    DELETES = "deletes"
    """Its operands are the paths that a call names."""
    LOCAL = "local"
    """It acts here; its operands may differ, its options may not."""
    BOUND = "bound"
    """It acts elsewhere, or runs what it names: its operands belong to what was shown."""


class Act(Frozen):
    """One command of a call, without what may differ."""

    words: tuple[str, ...]
    """In their order; a word that may hold a secret is its SHA-256."""
    kind: ActKind

    @property
    def options(self) -> frozenset[str]:
        """What looks like an option, or does what one would."""
        found = {word for word in self.words[1:] if word[:1] == "-" and len(word) > 1}
        if self.words[:1] == ("git",):
            found |= {word[0] for word in self.words[1:] if word[:1] in ("+", ":")}
        return frozenset(found)

    @property
    def operands(self) -> tuple[str, ...]:
        """The other words, in their order."""
        return tuple(word for word in self.words[1:] if word[:1] != "-" or word == "-")

    @property
    def target(self) -> tuple[str, ...]:
        """What it acts on, as far as an approval of a kind of question binds it."""
        if len(self.words) < 2:
            return ()
        if self.words[:1] == ("git",) and not self.words[1].startswith("-"):
            return self.operands[:2]  # the verb and the remote
        return self.operands

    def text(self) -> str:
        """Return the command for people."""
        return shlex.join(self.words)


def acts(facts: Facts, catalog: Catalog) -> tuple[Act, ...] | None:
    """Return the commands of a call; None where a part of one cannot be known."""
    found: dict[Act, None] = {}
    for words in facts.calls:
        act = _act(words, catalog)
        if act is None:
            return None
        found[act] = None
    return tuple(found)


def said(facts: Facts) -> tuple[str, ...]:
    """Return the commands of a call for people, with all words; what may be a secret as its
    SHA-256."""
    kept = (
        (words[0], *(_kept(word, before) for before, word in itertools.pairwise(words)))
        for words in facts.calls
    )
    return tuple(dict.fromkeys(shown(shlex.join(words)) for words in kept))


def _act(words: tuple[str, ...], catalog: Catalog) -> Act | None:
    if len(words) >= _MOST_WORDS:
        return None
    name = words[0].rsplit("/", 1)[-1]
    telling = _TELLING.get(name, frozenset())
    speaks = _SPEECH.get(name, frozenset()) if _SPEAKING_VERBS & set(words) else frozenset()
    kept = [words[0]]
    at, before = 1, ""
    while at < len(words):
        word = words[at]
        at += 1
        if word in telling:
            continue
        if word in speaks:
            at += 1
            continue
        if word.partition("=")[0] in speaks and word.startswith("--"):
            continue
        if unknown(word):
            return None
        kept.append(_kept(word, before))
        before = word
    return Act(words=tuple(kept), kind=_kind(words, name, catalog))


def _kept(word: str, before: str) -> str:
    """Return a word as an approval keeps it: what may be a secret only as its digest."""
    said = before if before[:1] == "-" and "=" not in before else ""
    plain = word.isprintable() and len(word) <= _LONGEST and not _LONG.search(word)
    loose = any(one in word for one in "=: ")
    if plain and not _SECRET.search(said) and not (loose and _SECRET.search(word)):
        return word
    return "sha256:" + hashlib.sha256(word.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _kind(words: tuple[str, ...], name: str, catalog: Catalog) -> ActKind:
    if name in _DELETERS:
        return ActKind.DELETES
    entry = catalog.lookup(name)
    if name == "git":
        return ActKind.BOUND if _REMOTE_VERBS & set(words) else ActKind.LOCAL
    if name in QUIET or (name in BUILTINS and name not in _MATTER):
        return ActKind.SETTLED
    if entry is None or entry.network or entry.handler in _RUNS or "/" in words[0]:
        return ActKind.BOUND
    return ActKind.SETTLED if entry.tier in (Tier.SAFE, Tier.CAUTION) else ActKind.LOCAL


def settings(facts: Facts, command: str | None, env: Mapping[str, str]) -> tuple[str, ...]:
    """Return what else decides what the commands do: variables, and texts that they are given."""
    found = [f"{name}={_kept(value, name)}" for name, value in facts.settings]
    found += [f"env {name}={_kept(value, name)}" for name, value in env.items()]
    if command is not None and "<<" in command:
        digest = hashlib.sha256(command.encode("utf-8", "surrogatepass")).hexdigest()
        found.append(f"text sha256:{digest[:32]}")
    return tuple(sorted(set(found)))


def same(then: tuple[Act, ...] | None, now: tuple[Act, ...] | None) -> bool:
    """Whether all commands of a call are among those that were shown."""
    if then is None or now is None:
        return False
    return all(any(_same(one, act) for one in then) for act in now)


def _same(then: Act, now: Act) -> bool:
    if then.kind is ActKind.DELETES and now.kind is ActKind.DELETES:
        return then.words[0] == now.words[0] and now.options <= then.options
    return then == now


def alike(then: tuple[Act, ...] | None, now: tuple[Act, ...] | None) -> bool:
    """Whether a call's commands are of the kind that was shown: no other program that anybody is
    asked about, no option that was not there, nothing else far away."""
    if then is None or now is None:
        return False
    return all(act.kind is ActKind.SETTLED or any(_alike(one, act) for one in then) for act in now)


def _alike(then: Act, now: Act) -> bool:
    if then.words[0] != now.words[0] or then.kind is not now.kind:
        return False
    if not now.options <= then.options:
        return False
    if now.words[0] == "git" and then.operands[:1] != now.operands[:1]:
        return False
    return now.kind is not ActKind.BOUND or then.target == now.target


def words(found: Iterable[Act] | None) -> str:
    """Return commands for people."""
    if found is None:
        return ""
    return "; ".join(shown(act.text()) for act in found)
