# SPDX-License-Identifier: Apache-2.0
"""What every part of a reading of shell text may ask of it: its state, its facts, its words.

How a text is walked through stands in `walker`, how words are expanded in `expand.words`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from tree_sitter import Node

from policy.facts import Facts, How, Touch
from policy.model import Tier
from policy.shell.budget import ReadingBudget
from policy.shell.recursion import FORK_BOMB, repeats
from policy.shell.state import NOTHING_SEEN, Call, Disk, Files, State, Value
from policy.values.partial import shown
from policy.values.paths import absolute

MOST_TOUCHES = 1500
"""Paths that one text may name; each is judged."""
MOST_TOUCHED = 8 * MOST_TOUCHES
"""... however often it names the same."""
MOST_SUSPECTED = 16
"""Pipelines and substitutions that are looked through for what they make."""
STDIN_FILES = ("/dev/stdin", "/dev/fd/0", "/proc/self/fd/0")
"""Names under which a program can open its standard input."""
_BRACES = re.compile(r"\{([^{},\s]*+,[^{}\s]*+)\}")
_STREAM = re.compile(r"/(?:dev|proc/self)/fd/(\d+)")


class ProgramCatalog(Protocol):
    """Knows programs: records what a call of one does, and returns what it prints."""

    def run(self, shell: Shell, call: Call) -> str:
        """Record what the call does in `shell.facts`."""

    def knows(self, name: str) -> bool:
        """Return whether a program has this name."""

    def environment(self, shell: Shell, name: str, value: str) -> None:
        """Record what setting an environment variable does."""

    def exported(self, shell: Shell, name: str, value: str) -> None:
        """Record what a variable does to the programs that are started with it."""

    def statements(self, shell: Shell, text: str) -> None:
        """Record what statements for a database do."""

    def scan(self, shell: Shell, text: str) -> None:
        """Record what a text shows that cannot be read with certainty."""


class Words(ABC):
    """Expands the words of one reading."""

    def __init__(self) -> None:
        self.seen: set[str] = set()
        """Variables with alternatives that were read since the set was last cleared."""

    @abstractmethod
    def fields(self, node: Node) -> list[str]:
        """Return the words that one word of the text becomes."""

    @abstractmethod
    def glued(self, nodes: list[Node]) -> list[str]:
        """Return the words that adjoining nodes become together."""

    @abstractmethod
    def text(self, node: Node) -> str:
        """Return a word that is not split: an assigned value, a redirection's target."""

    @abstractmethod
    def fragment(self, text: str, *, quoted: bool) -> str:
        """Expand the operand of a parameter expansion."""

    @abstractmethod
    def pattern(self, text: str) -> str:
        """Expand a pattern, with its active glob characters marked."""

    @abstractmethod
    def evaluated(self, text: str) -> str:
        """Expand text in which quotes mean nothing (documents, prompts, subscripts)."""

    @abstractmethod
    def document(self, node: Node) -> str:
        """Return the text of an unquoted here-document."""

    @abstractmethod
    def visit(self, node: Node) -> None:
        """Expand every substitution below a node for what it runs."""

    @abstractmethod
    def number(self, body: str) -> str:
        """Return the value of an arithmetic expression, running what its variables hide."""

    @abstractmethod
    def items(self, name: str) -> list[str] | None:
        """Return the elements of an array, or None if the text never set it."""

    @abstractmethod
    def assign(self, name: str, value: str) -> None:
        """Set a variable, as `${name:=value}` does."""

    @abstractmethod
    def charge(self, amount: int) -> None:
        """Use up a part of what a text may cost."""

    @abstractmethod
    def joint(self) -> str:
        """Return what joins the elements of `"$*"`."""

    @abstractmethod
    def look(self, name: str) -> Value | None:
        """Return a variable's value, noting that it was read."""

    @abstractmethod
    def parameter(self, name: str, *, quoted: bool) -> str:
        """Return the value of `$name`."""

    @abstractmethod
    def positional(self) -> list[str] | None:
        """Return the positional parameters."""

    @abstractmethod
    def run(self, text: str) -> str:
        """Run a text as a substitution does and return what it gives."""

    @abstractmethod
    def take(self) -> bool:
        """Use one step of what a text may cost; False when none is left."""

    @abstractmethod
    def unclear(self, text: str) -> None:
        """Record that a text cannot be read with certainty."""

    @abstractmethod
    def expand(self, node: Node, *, quoted: bool = False, splitting: bool = True) -> str:
        """Return the expanded text of a node, with fields and quotes still marked."""


class Shell(ABC):
    """One reading of one text, with the state that it has reached."""

    words: Words

    def __init__(self, catalog: ProgramCatalog, state: State, facts: Facts) -> None:
        self.catalog = catalog
        self.state = state
        self.facts = facts
        self.files = Files()
        self.disk: Disk = NOTHING_SEEN
        self.workspaces: tuple[str, ...] = ()
        self.budget = ReadingBudget()
        self.depth = 0
        self.calling: list[str] = []
        self.called: set[str] = set()
        self.scripts: list[str] = []
        self.making = ""
        self._suspected: set[str] = set()
        self._opaque: set[str] = set()
        self._touched = 0

    def find(self, tier: Tier, rule: str, reason: str, program: str = "") -> None:
        """Record a judgement."""
        self.facts.find(tier, rule, shown(reason), shown(program))

    def touch(self, how: How, path: str, *, program: str = "", redirect: bool = False) -> None:
        """Record what is done to a path, as seen from every place the shell may stand in."""
        self._touched += 1
        if self.full():
            return
        for place in self.state.places:
            self.facts.touch(Touch(how, self.resolve(path, place), program, redirect))

    def full(self) -> bool:
        """Return whether no further path is judged; a text that goes on was not read whole then."""
        if len(self.facts.touches) <= MOST_TOUCHES and self._touched <= MOST_TOUCHED:
            return False
        self.budget.spent = True
        return True

    def resolve(self, path: str, place: str | None = None) -> str:
        """Return the absolute path, through the links that the text itself made."""
        done = absolute(path, place or self.state.place)
        for _ in range(4):
            link = next(
                (at for at in self.files.links if done == at or done.startswith(f"{at}/")), None
            )
            if link is None:
                break
            done = absolute(self.files.links[link] + done[len(link) :], "/")
        return done

    def held(self, path: str) -> str | None:
        """Return what the text itself put into a file or an open descriptor, or None."""
        found = self.files.content.get(self.resolve(path))
        if found is None and (stream := _STREAM.fullmatch(path)) is not None:
            return self.state.streams.get(stream[1])
        return found

    @contextmanager
    def standing_in(self, call: Call) -> Iterator[None]:
        """Let the names of the standard input mean what a call is given, while it is read."""
        named = [] if call.stdin is None else [name for name in STDIN_FILES if name in call.args]
        kept = {name: self.files.content.get(name) for name in named}
        self.files.content.update(dict.fromkeys(named, call.stdin or ""))
        yield
        for name, content in kept.items():
            if content is None:
                self.files.content.pop(name, None)
            else:
                self.files.content[name] = content

    def suspect(self, text: str) -> None:
        """Record what can be seen in the text that makes what runs and cannot be known."""
        if text and text not in self._suspected and len(self._suspected) < MOST_SUSPECTED:
            self._suspected.add(text)
            self.catalog.scan(self, text)

    def opaque(self, text: str, reason: str) -> None:
        """Record that a text cannot be read with certainty, and what can be seen in it."""
        self.find(Tier.DANGER, "opaque", f"the text cannot be read: {reason}")
        if text not in self._opaque:
            self._opaque.add(text)
            self.catalog.scan(self, text)

    def runs_itself(self, path: str, content: str) -> bool:
        """Record that a script which the text wrote runs itself; return whether it does."""
        again = self.scripts.count(path) > 1
        if again:
            self.find(Tier.DANGER, "resources", f"the script `{path}` runs itself")
            if repeats(content):
                self.find(Tier.FORBIDDEN, "resources", FORK_BOMB)
        return again

    @contextmanager
    def perhaps(self) -> Iterator[None]:
        """Read what may run or not: both is possible of all that it changes."""
        before = self.state.copy()
        yield
        before.join(self.state)
        self.state = before

    @contextmanager
    def unsure(self, wanted: bool) -> Iterator[None]:
        """Read what is left in the middle, perhaps: variables keep what they were as well."""
        kept = self.state.sure
        self.state.sure = kept and not wanted
        try:
            yield
        finally:
            self.state.sure = kept

    def aside(self, work: Callable[[], str]) -> str:
        """Do something in a copy of the state, as a subshell does."""
        kept, seen = self.state, set(self.words.seen)
        self.state = kept.copy()
        try:
            return work()
        finally:
            self.state = kept
            self.words.seen |= seen

    @abstractmethod
    def run_text(self, text: str, stdin: str | None = None) -> str:
        """Walk through shell text in the present state and return what it prints."""

    @abstractmethod
    def walk(self, node: Node, stdin: str | None = None) -> str:
        """Walk through the statements below a node and return what they print."""

    @abstractmethod
    def statement(self, node: Node, stdin: str | None = None) -> str:
        """Walk through one statement and return what it prints."""

    @abstractmethod
    def call(self, call: Call) -> str:
        """Run one command: a function, a builtin, or a program of the catalog."""

    @abstractmethod
    def note_setting(self, name: str, value: str) -> None:
        """Record what it does that a variable is set."""

    @abstractmethod
    def define(self, name: str, body: Node, extra: list[Node]) -> None:
        """Define a function; what its definition redirects is opened whenever it is called."""

    @abstractmethod
    def substitute(self, node: Node) -> str:
        """Return what a command substitution gives."""

    @abstractmethod
    def process(self, node: Node) -> str:
        """Return the path that a process substitution gives."""

    @abstractmethod
    def feed(self, path: str, text: str) -> bool:
        """Give text to an output process substitution; False if the path is none."""


def unbraced(text: str) -> str:
    """Return the text with simple braces written out, for commands that are one brace."""
    return _BRACES.sub(lambda found: found[1].replace(",", " "), text)
