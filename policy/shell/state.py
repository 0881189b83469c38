# SPDX-License-Identifier: Apache-2.0
"""What a shell knows while it runs, as far as the text tells: variables, functions, files, places.

Values are partly known text (`marks`). Where paths of execution join, the last value stands and
the others are kept as alternatives, so that a command is judged under each of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tree_sitter import Node

from policy.values.numbers import natural
from policy.values.partial import HOLE, NUM

Value = str | list[str] | dict[str, str]

_SUBSCRIPT = re.compile(r"\w\[")

MOST_ALTERNATIVES = 8
MOST_PLACES = 3

_USUAL = {
    "IFS": " \t\n",
    "SHELL": "/bin/bash",
    "BASH": "/bin/bash",
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "TMPDIR": "/tmp",  # noqa: S108 - the cell's own private directory
    "UID": NUM,
    "EUID": NUM,
    "PPID": NUM,
    "RANDOM": NUM,
    "SECONDS": NUM,
    "LINENO": NUM,
    "EPOCHSECONDS": NUM,
    "BASHPID": NUM,
    "OPTIND": NUM,
    "OSTYPE": "linux-gnu",
    "BASH_VERSION": HOLE,
    "HOSTNAME": HOLE,
    "USER": HOLE,
    "LOGNAME": HOLE,
    "LANG": HOLE,
    "TERM": HOLE,
}


@dataclass(frozen=True, slots=True)
class Seen:
    """A file of the project that a call runs or names, as it stands before the call."""

    text: str | None = None
    """None where it is no text or too long, so that it counts like a program."""
    foreign: bool = False
    """It came from outside: git does not have it, and no landing of an agent made it."""
    own: bool = False
    """The agent that asks made it, and nobody changed it since."""
    spare: bool = False
    """Git ignores it by rules that a person made, and a person said that such files may go."""
    folder: bool = False
    """It is a folder, and so runs nothing."""
    empty: bool = False
    """It is a folder that holds nothing."""
    absent: bool = False
    """Nothing stands there."""


Disk = Mapping[str, Seen]
"""What was found, by absolute path."""
NOTHING_SEEN: Disk = {}


@dataclass(slots=True)
class Files:
    """Files as the text itself makes them: content, links, and trees that came from the network."""

    content: dict[str, str] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    foreign: set[str] = field(default_factory=set)
    """Directories whose content came from the network."""
    built: set[str] = field(default_factory=set)
    """Programs that a compiler makes of files of the project."""
    sinks: dict[str, Node] = field(default_factory=dict)
    """Output process substitutions: what is written there is the input of a command."""


@dataclass(slots=True)
class State:
    """The shell's state; copied for a subshell, merged where branches join."""

    places: tuple[str, ...]
    """Directories in which the shell may stand, the likeliest last."""
    home: str
    values: dict[str, Value] = field(default_factory=dict)
    alternatives: dict[str, tuple[Value, ...]] = field(default_factory=dict)
    functions: dict[str, Node] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    args: list[str] | None = None
    """Positional parameters; None where they cannot be known."""
    zero: str = "bash"
    references: dict[str, str] = field(default_factory=dict)
    """Variables that stand for another variable (`declare -n`)."""
    streams: dict[str, str] = field(default_factory=dict)
    """What can be read from descriptors that the text opened."""
    git_aliases: dict[str, str] = field(default_factory=dict)
    search: tuple[str, ...] = ()
    """Directories put into PATH before the system's own."""
    sure: bool = True
    """Whether what comes next runs for certain, so that a variable's new value is its only one."""
    fixed: frozenset[str] = frozenset()
    """Variables that are read-only by now: what sets them may do nothing."""
    redefined: dict[str, tuple[Node, ...]] = field(default_factory=dict)
    """What functions were before they got another body."""
    doubtful: frozenset[str] = frozenset()
    """Functions that perhaps are not there."""
    latent: list[str] = field(default_factory=list)
    """Values that a shell runs where it counts with them; all copies share the list."""

    def copy(self) -> State:
        """Return an independent copy."""
        return State(
            self.places,
            self.home,
            dict(self.values),
            dict(self.alternatives),
            dict(self.functions),
            dict(self.aliases),
            None if self.args is None else list(self.args),
            self.zero,
            dict(self.references),
            dict(self.streams),
            dict(self.git_aliases),
            self.search,
            self.sure,
            self.fixed,
            dict(self.redefined),
            self.doubtful,
            self.latent,
        )

    @property
    def place(self) -> str:
        """Return the directory in which the shell most likely stands."""
        return self.places[-1]

    def get(self, name: str) -> Value | None:
        """Return the value of a variable, or None if the text never set it."""
        if self.references:
            name = self.references.get(name, name)
        found = self.values.get(name)
        if found is not None:
            return found
        if name == "HOME":
            return self.home
        if name == "PWD":
            return self.place
        return _USUAL.get(name)

    def set(self, name: str, value: Value) -> None:
        """Set a variable; what else it could have been is forgotten where that is certain."""
        old = self.values.get(name)
        self.values[name] = value
        self.note((value,) if isinstance(value, str) else value)
        if self.sure and name not in self.fixed:
            if self.alternatives:
                self.alternatives.pop(name, None)
        elif old is not None and old != value:
            self._also(name, old)

    def note(self, values: Iterable[str]) -> None:
        """Keep values that hold a command in a subscript.

        A shell runs it wherever it counts with the value: an integer's assignment, `let`, `[[ x -eq
        1 ]]`, the index of an array, a reference. There is no other use for such a value.
        """
        for value in values:
            if "[" in value and (found := _SUBSCRIPT.search(value)) is not None:
                rest = value[found.end() :]
                if "$(" in rest or "`" in rest or "${" in rest:
                    self.latent.append(value)

    def append(self, name: str, value: Value) -> None:
        """Append to a variable as `+=` does."""
        old = self.get(name)
        if isinstance(value, list):
            self.set(name, [*as_list(old), *value])
        elif isinstance(value, dict):
            self.set(name, {**(old if isinstance(old, dict) else {}), **value})
        elif isinstance(old, list):
            self.set(name, [(old[0] if old else "") + value, *old[1:]])
        else:
            self.set(name, (old if isinstance(old, str) else "") + value)

    def set_item(self, name: str, key: str, value: str) -> None:
        """Set one element of an array."""
        old = self.get(name)
        if isinstance(old, dict):
            self.set(name, {**old, key: value})
        elif (at := natural(key)) is not None and at < 1000:
            items = as_list(old)
            items += [""] * (at + 1 - len(items))
            items[at] = value
            self.set(name, items)
        else:
            self.set(name, {key: value})

    def join(self, other: State) -> None:
        """Take over what another path of execution left, keeping both possibilities."""
        for name, value in self.values.items():
            if (theirs := other.values.get(name)) is not None and theirs != value:
                self._also(name, value)
            elif theirs is None:
                other.values[name] = value
        for name, values in other.alternatives.items():
            for value in values:
                self._also(name, value)
        self.values = other.values
        here = self.functions.keys() ^ other.functions.keys()
        doubtful = self.doubtful | other.doubtful | here
        for name, body in other.functions.items():
            self.define(name, body)
        self.doubtful = doubtful
        for name, bodies in other.redefined.items():
            for body in bodies:
                self._once_was(name, body)
        self.fixed |= other.fixed
        self.aliases.update(other.aliases)
        self.streams.update(other.streams)
        self.git_aliases.update(other.git_aliases)
        self.search = tuple(dict.fromkeys((*other.search, *self.search)))
        self.places = tuple(dict.fromkeys((*self.places, *other.places)))[-MOST_PLACES:]
        if other.args != self.args:
            self.args = None if other.args and self.args else other.args or self.args

    def define(self, name: str, body: Node) -> None:
        """Give a function a body; what it was before stays in `redefined`."""
        old = self.functions.get(name)
        self.functions[name] = body
        self.doubtful -= {name}
        if old is not None and old != body:
            self._once_was(name, old)

    def _once_was(self, name: str, body: Node) -> None:
        known = self.redefined.get(name, ())
        if body not in known and len(known) < MOST_ALTERNATIVES:
            self.redefined[name] = (*known, body)

    def _also(self, name: str, value: Value) -> None:
        known = self.alternatives.get(name, ())
        if value not in known and len(known) < MOST_ALTERNATIVES:
            self.alternatives[name] = (*known, value)
        elif value not in known:  # it may be too much to try each
            self.alternatives[name] = (*known[:-1], HOLE)


def as_list(value: Value | None) -> list[str]:
    """Return a variable's value as the list of its elements."""
    if value is None:
        return []
    if isinstance(value, list):
        return list(value)
    if isinstance(value, dict):
        return list(value.values())
    return [value]


def as_text(value: Value | None) -> str:
    """Return a variable's value as `$name` gives it."""
    if isinstance(value, str):
        return value
    items = as_list(value)
    return items[0] if items else ""


@dataclass(frozen=True, slots=True)
class Call:
    """One simple command, ready to be looked up: decoded words and what comes in."""

    words: tuple[str, ...]
    stdin: str | None = None
    """What the command reads from its standard input; None where nothing is known of it."""
    env: tuple[tuple[str, str], ...] = ()
    plain: bool = True
    """The name was found as written, so that functions and builtins count."""
    node: Node | None = None
    """Where the command stands in the text, for programs that read quotes in their own way."""
    named: bool = False
    """The name is a literal of the program, in another language, that starts the command."""

    @property
    def name(self) -> str:
        """Return the first word."""
        return self.words[0] if self.words else ""

    @property
    def args(self) -> tuple[str, ...]:
        """Return the words after the first."""
        return self.words[1:]

    def only(self, words: tuple[str, ...]) -> Call:
        """Return the command that a wrapper starts."""
        return Call(words, self.stdin, self.env, plain=False, node=self.node)
