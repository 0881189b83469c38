# SPDX-License-Identifier: Apache-2.0
"""Read shell text: find every simple command that it can run, by walking through it as a shell.

The walk follows the text through pipes, lists, substitutions, functions, loops and here-documents
with partly known values, and hands each command to the catalog. It runs nothing and reads no file.
What it may have overlooked makes the text opaque, which is a finding like any other.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from itertools import islice, product

from tree_sitter import Node, Tree

from policy.facts import Facts
from policy.model import Tier
from policy.shell import assignments as variables
from policy.shell import redirects
from policy.shell.compound import COMPOUND
from policy.shell.expand.words import WordReader
from policy.shell.interpreter import ProgramCatalog, Shell, unbraced
from policy.shell.pipelines import Stage, pipelines, stages
from policy.shell.recursion import FORK_BOMB, endless, multiplies
from policy.shell.state import MOST_PLACES, Call, State
from policy.shell.syntax import guards as shell_guards
from policy.shell.syntax.normalize import mended
from policy.shell.syntax.quoting import source
from policy.values.partial import HOLE, NET, NUM, known_part, shown, unknown

_COPROC = re.compile(r"\bcoproc[ \t]+([A-Za-z_]\w*)")
MOST_DEPTH = 32
MOST_OUTPUT = 64 * 1024
MOST_NODES = 15_000

MOST_TRIES = 16
"""Ways in which a command is read whose variables may have several values."""
JUMPS = re.compile(r"\b(?:return|exit|break|continue|local|declare|typeset)\b")
"""What keeps assignments of a function from reaching whoever calls it."""

_ASSIGNED = re.compile(r"[A-Za-z_]\w*=")
_GAP = re.compile(rf"(?<=\w){HOLE}+(?=\w)")
"""Unknown text in the middle of a name: most likely nothing at all, put there to hide it."""


class Walker(Shell):
    """Walks through text, and expands its words."""

    def __init__(self, catalog: ProgramCatalog, state: State, facts: Facts) -> None:
        super().__init__(catalog, state, facts)
        self.words = WordReader(self)
        self._trees: dict[str, tuple[bytes, Tree]] = {}
        self._streams = 0
        self._pending: list[str] = []

    # Texts

    def run_text(self, text: str, stdin: str | None = None) -> str:
        """Walk through shell text in the present state and return what it prints."""
        if NET in text:
            self.find(Tier.FORBIDDEN, "remote-script", "it runs a text that came from the network")
            return HOLE
        if not known_part(text).strip() and unknown(text):
            self.find(Tier.DANGER, "opaque", "it runs a text that cannot be known")
            self.suspect(self.making)
            return HOLE
        if self.depth > MOST_DEPTH:
            self.find(Tier.DANGER, "opaque", "texts are nested too deeply to be read")
            return HOLE
        self.depth += 1
        try:
            return self._parsed(text, stdin)
        finally:
            self.depth -= 1

    def _parsed(self, text: str, stdin: str | None) -> str:
        known = known_part(text) if unknown(text) else text
        if known is not text:
            self.find(Tier.DANGER, "opaque", "a part of the text that it runs cannot be known")
        readable = shown(known)
        reason = shell_guards.before(readable)
        if reason is not None:
            self.opaque(readable, reason)
            plain = shell_guards.uncontrolled(readable)
            return HOLE if plain == readable else self._parsed(plain, stdin)
        if (found := self._trees.get(readable)) is None:
            encoded = shell_guards.encode(readable)
            found = mended(encoded, shell_guards.parse(encoded))
            self._trees[readable] = found
        encoded, tree = found
        if tree.root_node.descendant_count > MOST_NODES:
            self.opaque(readable, "it has too many parts")
            return HOLE
        reason = shell_guards.after(encoded, tree)
        if reason is not None:
            self.opaque(readable, reason)
            plainer = unbraced(readable.replace("\\\n", ""))
            plainer = plainer.replace("((", "( (").replace("))", ") )")
            if plainer != readable:
                self._parsed(plainer, stdin)
        if (mark := shell_guards.hidden(readable)) is not None:
            self.find(Tier.DANGER, "hidden-text", f"it holds the invisible character {mark}")
        for named in _COPROC.finditer(readable) if "coproc" in readable else ():
            self.note_setting(named[1], NUM)  # its name, which the grammar leaves out
        with self.unsure(self.depth > 1 and JUMPS.search(readable) is not None):
            return self.walk(tree.root_node, stdin)

    # Statements

    def walk(self, node: Node, stdin: str | None = None) -> str:
        """Walk through the statements below a node and return what they print."""
        out: list[str] = []
        for child in node.named_children:
            if child.type == "comment":
                continue
            after = child.next_sibling
            if after is not None and after.type == "&":  # it changes another shell, if any
                with self.perhaps():
                    out.append(self.statement(child, stdin))
            else:
                places = self.state.places
                out.append(self.statement(child, stdin))
                if self.state.places != places and child.type != "list":  # it may have failed
                    now = self.state.places
                    before = (place for place in places if place not in now)
                    self.state.places = (*before, *now)[-MOST_PLACES:]
        return "".join(out)[:MOST_OUTPUT]

    def statement(self, node: Node, stdin: str | None = None) -> str:
        """Walk through one statement and return what it prints."""
        if not self.budget.take():
            return HOLE
        if self.depth > MOST_DEPTH:
            self.find(Tier.DANGER, "opaque", "it nests too deeply to be read")
            return HOLE
        self.depth += 1
        try:
            kind = node.type
            if kind in ("list", "pipeline", "redirected_statement"):
                return self._chain(node, stdin)
            return self._single(Stage(node), stdin)
        finally:
            self.depth -= 1

    def _chain(self, node: Node, stdin: str | None) -> str:
        out = ""
        ends: list[State] = []  # where the chain may have ended before what comes next
        for operator, pipe in pipelines(stages(node)):
            if operator == "||":
                ends = self._rejoin(ends)
                with self.perhaps():
                    out += self._pipe(pipe, stdin)
                continue
            if operator:  # what comes next runs where all before it succeeded
                ends.append(self.state.copy())
            out += self._pipe(pipe, stdin)
        self._rejoin(ends)
        return out

    def _rejoin(self, ends: list[State]) -> list[State]:
        """Go on from wherever a chain may have ended; return an empty list."""
        if ends:
            joined, *others = ends
            for other in (*others, self.state):
                joined.join(other)
            self.state = joined
        return []

    def _pipe(self, pipe: list[Stage], stdin: str | None) -> str:
        if len(pipe) == 1:
            return self._single(pipe[0], stdin)
        kept, self.making = self.making, _together(pipe) or self.making
        try:
            return self._flow(pipe, stdin)
        finally:
            self.making = kept

    def _flow(self, pipe: list[Stage], stdin: str | None) -> str:
        flowing = stdin
        for stage in pipe:
            outer = self.state
            self.state = outer.copy()  # each part of a pipeline is a subshell
            flowing = self._single(stage, flowing)
            if stage is pipe[-1]:
                outer.join(self.state)  # under `lastpipe` it is not
            self.state = outer
        return flowing or ""

    def _single(self, stage: Stage, stdin: str | None) -> str:
        plan = redirects.read(self, stage.redirects) if stage.redirects else None
        flowing = plan.stdin if plan is not None and plan.stdin is not None else stdin
        extra = [*stage.arguments, *(plan.words if plan else ())]
        node = stage.node
        while node is not None and node.type == "negated_command":
            node = next(iter(node.named_children), None)
        if extra and (node is None or node.type != "command"):
            out = self._run(node, flowing, []) if node is not None else ""
            out += self._bare(extra, flowing)
        else:
            out = self._run(node, flowing, extra) if node is not None else ""
        if plan is not None:
            alone = node is None and not extra
            if alone and plan.stdin is not None:
                out = plan.stdin  # `$(<file)`
            out = redirects.write(self, plan, out, empty=alone)
        self._settle()
        return out

    def _bare(self, words: list[Node], stdin: str | None) -> str:
        """Run a command whose words the grammar takes for targets of redirections."""
        fields = [field for glued in _glued(words) for field in self.words.glued(glued)]
        at = next((at for at, one in enumerate(fields) if not _ASSIGNED.match(one)), len(fields))
        env = tuple((name, value) for name, _, value in (one.partition("=") for one in fields[:at]))
        for name, value in env:
            self.catalog.environment(self, name, value)
            if fields[at:]:
                self.catalog.exported(self, name, value)
        return self.call(Call(tuple(fields[at:]), stdin, env))

    def _run(self, node: Node, stdin: str | None, extra: list[Node]) -> str:
        kind = node.type
        if kind == "command":
            return self._command(node, stdin, extra)
        if kind in COMPOUND:
            return COMPOUND[kind](self, node, stdin)
        if kind in ("list", "pipeline", "redirected_statement"):
            return self.statement(node, stdin)
        if kind == "program":
            return self.walk(node, stdin)
        self.words.visit(node)
        return ""

    # Simple commands

    def _command(self, node: Node, stdin: str | None, extra: list[Node]) -> str:
        if node.start_byte == node.end_byte:
            return ""  # `$()`
        around, self.words.seen = self.words.seen, set()
        out = self._once(node, stdin, extra)
        if self.words.seen and self._try_others(tuple(self.words.seen), node, stdin, extra) - {out}:
            out = HOLE
        self.words.seen |= around
        return out

    def _try_others(
        self, names: tuple[str, ...], node: Node, stdin: str | None, extra: list[Node]
    ) -> set[str]:
        """Run a command once more with each other value that what it reads could have; return what
        it prints then."""
        printed = set()
        state = self.state
        choices = [(state.values.get(name), *state.alternatives.get(name, ())) for name in names]
        if math.prod(map(len, choices)) > MOST_TRIES:
            self.find(Tier.DANGER, "opaque", "its variables have too many values to try each")
            choices = [choice[:2] for choice in choices[:4]]
        for values in islice(product(*choices), 1, None):  # the first has been tried
            with self.perhaps():
                for name, value in zip(names, values, strict=False):
                    if value is not None:
                        self.state.values[name] = value
                printed.add(self._once(node, stdin, extra))
        return printed

    def _once(self, node: Node, stdin: str | None, extra: list[Node]) -> str:
        fields: list[str] = []
        env: list[tuple[str, str]] = []
        inner: list[Node] = []
        words: list[Node] = []
        for child in node.children:
            kind = child.type
            if kind == "variable_assignment":
                if not self.budget.take():
                    break
                env.append(variables.assignment(self, child))
            elif kind.endswith("_redirect"):
                inner.append(child)
            elif child.is_named:
                words.append(child)
        words += extra
        if not self.budget.weigh(len(words)):
            return HOLE
        for glued in _glued(words):
            fields += self.words.glued(glued)
        plan = redirects.read(self, tuple(inner)) if inner else None
        if plan is not None:
            for child in plan.words:
                fields += self.words.fields(child)
            stdin = plan.stdin if plan.stdin is not None else stdin
        for name, value in env:
            self.catalog.environment(self, name, value)
            if fields:
                self.catalog.exported(self, name, value)
        out = self.call(Call(tuple(fields), stdin, tuple(env), node=node))
        return redirects.write(self, plan, out, empty=False) if plan is not None else out

    def call(self, call: Call) -> str:
        """Run one command: a function, a builtin, or a program of the catalog."""
        if not self.budget.take():
            return HOLE
        if not self.budget.weigh(len(call.words)):
            return HOLE
        if self.depth > MOST_DEPTH:
            self.find(Tier.DANGER, "opaque", "commands are nested too deeply to be read")
            return HOLE
        if not call.words:
            for name, value in call.env:
                self.state.set(name, value)
            return ""
        self.depth += 1
        try:
            name = call.words[0]
            if any(HOLE in word for word in call.words) and (filled := _without_gaps(call)):
                self.aside(lambda: self.catalog.run(self, filled))
            if call.plain:
                if name in self.state.aliases:
                    self.run_text(" ".join((self.state.aliases[name], *call.words[1:])), call.stdin)
                body = self.state.functions.get(name)
                if body is not None and name not in self.state.doubtful:
                    return self._function(name, body, call)
                if body is not None:
                    with self.perhaps():
                        self._function(name, body, call)
                    with self.perhaps():
                        self.catalog.run(self, call)
                    return HOLE
            return self.catalog.run(self, call)
        finally:
            self.depth -= 1

    def note_setting(self, name: str, value: str) -> None:
        """Record what it does that a variable is set."""
        variables.note_setting(self, name, value)

    def define(self, name: str, body: Node, extra: list[Node]) -> None:
        """Define a function; what its definition redirects is opened whenever it is called."""
        self.state.define(name, body)
        if extra:
            plan = redirects.read(self, tuple(extra))
            redirects.write(self, plan, HOLE, empty=False)

    def _function(self, name: str, body: Node, call: Call) -> str:
        if self.calling.count(name) > 1:
            ring = self.calling[self.calling.index(name) :]
            bodies = [self.state.functions[one] for one in ring if one in self.state.functions]
            if endless(ring, bodies):
                self.find(Tier.DANGER, "resources", f"the function `{name}` calls itself")
            if multiplies(ring, bodies):
                self.find(Tier.FORBIDDEN, "resources", FORK_BOMB)
            return HOLE
        kept = self.state.args
        self.state.args = list(call.args)
        self.state.note(call.args)
        self.calling.append(name)
        self.called.add(name)
        self.facts.programs[name] = None
        others = self.state.redefined.get(name, ())
        try:
            with self.unsure(JUMPS.search(source(body)) is not None):
                out = self.statement(body, call.stdin)
            for other in others:
                with self.perhaps():
                    self.statement(other, call.stdin)
            return out
        finally:
            self.calling.pop()
            self.state.args = kept

    # Substitutions

    def substitute(self, node: Node) -> str:
        """Return what a command substitution gives."""
        text = source(node)
        if text.startswith("`") and "\\`" in text:
            inner = text[1:-1].replace("\\`", "`").replace("\\$", "$").replace("\\\\", "\\")
            return self.aside(lambda: self.run_text(inner))
        if (redirect := node.child_by_field_name("redirect")) is not None:
            plan = redirects.read(self, (redirect,))
            return plan.stdin if plan.stdin is not None else HOLE
        return self.aside(lambda: self.walk(node, None))

    def process(self, node: Node) -> str:
        """Return the path that a process substitution gives."""
        self._streams += 1
        path = f"/dev/fd/{60 + self._streams}"
        if source(node).startswith("<"):
            self.files.content[path] = self.aside(lambda: self.walk(node, None))
        else:
            self.files.sinks[path] = node
            self._pending.append(path)
        return path

    def feed(self, path: str, text: str) -> bool:
        """Give text to an output process substitution; False if the path is none."""
        node = self.files.sinks.get(path)
        if node is None:
            return False
        if path in self._pending:
            self._pending.remove(path)
        self.aside(lambda: self.walk(node, text))
        return True

    def _settle(self) -> None:
        while self._pending:
            self.feed(self._pending[-1], HOLE)
        while self.state.latent and self.budget.take():
            hidden = self.state.latent.pop()
            self.aside(lambda: self.words.evaluated(hidden))  # noqa: B023


def _together(pipe: list[Stage]) -> str:
    """Return the text of a whole pipeline."""
    texts = (
        source(part)
        for stage in pipe
        for part in (stage.node, *stage.redirects)
        if part is not None
    )
    return " | ".join(texts)


def _without_gaps(call: Call) -> Call | None:
    """Return the command as it is where unknown text inside of words is empty, or None."""
    words = tuple(_GAP.sub("", word) for word in call.words)
    return None if words == call.words else replace(call, words=words, plain=False)


def _glued(nodes: list[Node]) -> list[list[Node]]:
    """Put nodes together that the grammar parted though nothing stands between them."""
    groups: list[list[Node]] = []
    for node in nodes:
        if groups and groups[-1][-1].end_byte == node.start_byte:
            groups[-1].append(node)
        else:
            groups.append([node])
    return groups
