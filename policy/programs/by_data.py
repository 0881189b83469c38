# SPDX-License-Identifier: Apache-2.0
"""Record what a call does as far as data says it: an entry's options, operands, signs in text."""

from __future__ import annotations

import re

from policy.facts import How
from policy.model import Tier
from policy.programs.catalog_schema import Entry, Use
from policy.programs.entries import output, record_phrases, valued_options, verb
from policy.programs.tables import CatalogTables
from policy.programs.visible_text import MOST_SCANNED, squeezed, visible_ends
from policy.shell.interpreter import Shell, unbraced
from policy.shell.redirects import store
from policy.shell.state import Call
from policy.values.argv import Parsed, parse
from policy.values.partial import HOLE, shown

MOST_WORDS = 256
"""Words of a command that rules on programs look at."""
_SQL_COMMENT = re.compile(r"/\*.*?\*/|--[^\n]*", re.DOTALL)
_SQL_TEXT = re.compile(r"'(?:[^'\\]|\\.|'')*+'", re.DOTALL)
_SQL_MADE = re.compile(
    r"(?i)\b(?:execute|exec|prepare|do|call|eval|format|dblink)\b|\$\$|^\s*[\\.]"
)
"""What runs a text as a statement."""
_QUOTES = re.compile(r"""\\\n|['"\\]""")
_HOW = {
    Use.READ: How.READ,
    Use.SEARCH: How.SEARCH,
    Use.LIST: How.LIST,
    Use.EXIST: How.EXIST,
    Use.RUN: How.RUN,
    Use.WRITE: How.WRITE,
    Use.META: How.META,
    Use.DELETE: How.DELETE,
    Use.TREE: How.TREE,
    Use.MOVE: How.MOVE,
}


class DataReader(CatalogTables):
    """Reads calls of programs that an entry describes whole."""

    def by_data(self, shell: Shell, call: Call, entry: Entry) -> str:
        """Record what an entry says of a call."""
        valued = valued_options(entry)
        parsed = parse(
            call.args,
            valued,
            tuple(entry.alarms) + entry.in_place,
            in_order=entry.wraps is not None,
        )
        if entry.verbs:
            chosen = verb(entry, parsed.operands)
            if chosen is not None:
                name, inner = chosen
                shell.facts.programs[f"{call.name} {name}"] = None
                rest = call.args[call.args.index(parsed.operands[0]) + 1 :]
                record_phrases(shell, entry, call)
                self._options(shell, parsed, entry, call)
                said = Call((f"{call.name} {name}", *rest), call.stdin, call.env)
                return self.by_data(shell, said, self.forms.milder(said, inner))
        return self.apply(shell, call, entry, parsed)

    def apply(self, shell: Shell, call: Call, entry: Entry, parsed: Parsed) -> str:
        """Record what an entry says of a call whose arguments are already split."""
        record_phrases(shell, entry, call)
        if entry.tier is not Tier.SAFE or entry.phrases:
            shell.find(entry.tier, entry.rule, f"`{call.name}`: {entry.because}")
        shell.facts.writes |= entry.writes
        shell.facts.network |= entry.network
        self._options(shell, parsed, entry, call)
        self._operands(shell, parsed, entry, call)
        if entry.wraps is not None and len(parsed.operands) > entry.wraps:
            return shell.call(call.only(tuple(parsed.operands[entry.wraps :])))
        return output(entry, call)

    def _options(self, shell: Shell, parsed: Parsed, entry: Entry, call: Call) -> None:
        for flag, values in parsed.flags.items():
            if (alarm := entry.alarms.get(flag)) is not None:
                shell.find(alarm.tier, alarm.rule, f"`{call.name} {flag}`: {alarm.because}")
            if (use := entry.uses.get(flag)) is not None:
                for value in values:
                    self.use(shell, use, value, call)

    def _operands(self, shell: Shell, parsed: Parsed, entry: Entry, call: Call) -> None:
        uses = entry.operands
        if not uses:
            return
        operands = parsed.operands[: entry.wraps] if entry.wraps is not None else parsed.operands
        writes = bool(entry.in_place) and parsed.has(*entry.in_place)
        for at, value in enumerate(operands):
            use = uses[min(at, len(uses) - 1)]
            if entry.last is not None and at == len(operands) - 1 and at > 0:
                use = entry.last
            if at > MOST_WORDS and use in _HOW and shell.full():
                continue
            self.use(shell, use, value, call)
            if writes and use in (Use.READ, Use.SEARCH):
                self.use(shell, Use.WRITE, value, call)

    def use(self, shell: Shell, use: Use, value: str, call: Call) -> None:
        """Record one use of a value."""
        if use is Use.TEXT or not value:
            return
        if use is Use.SHELL:
            shell.aside(lambda: shell.run_text(value))
        elif use is Use.PROGRAM:
            shell.aside(lambda: shell.call(Call(tuple(value.split()), plain=False)))
        elif use is Use.URL:
            shell.facts.network = True
        elif value not in ("-", "/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr"):
            if use is Use.WRITE and shell.feed(value, HOLE):
                return
            shell.touch(_HOW[use], value, program=call.name)
            if use is Use.WRITE:
                store(shell, value, HOLE)

    def statements(self, shell: Shell, text: str) -> None:
        """Record what statements for a database do."""
        plain = re.sub(r"\s+", " ", _SQL_COMMENT.sub(" ", shown(text[:MOST_SCANNED]))).strip()
        bare = plain if _SQL_MADE.search(plain) else _SQL_TEXT.sub("''", plain)
        for wanted, sign in self.patterns.get("sql", ()):
            if wanted.search(plain if sign.id == "delete-always" else bare):
                shell.find(sign.tier, sign.id, sign.because)

    def scan(self, shell: Shell, text: str) -> None:
        """Record what can be seen in a text that cannot be read with certainty."""
        for piece in visible_ends(text):
            # Once more: what quotes and braces kept apart may be a run without them.
            plain = squeezed(unbraced(_QUOTES.sub("", piece)))
            for wanted, sign in self.patterns.get("opaque", ()):
                if wanted.search(plain):
                    shell.find(sign.tier, sign.id, sign.because)
