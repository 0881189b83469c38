# SPDX-License-Identifier: Apache-2.0
"""Expand the words of shell text: quotes, braces, tildes, parameters, substitutions.

Follows the order of the shell (braces, tilde, parameters and substitutions, splitting, globs). What
cannot be known becomes a mark; nothing is guessed towards harmless.
"""

from __future__ import annotations

import re

from tree_sitter import Node

from policy.shell.expand import parameters
from policy.shell.expand.arithmetic import assigned, evaluate
from policy.shell.expand.documents import Quotes, expanded, literal
from policy.shell.interpreter import Shell, Words
from policy.shell.state import Value, as_list, as_text
from policy.shell.syntax.guards import decode
from policy.shell.syntax.quoting import ansi, source, unquote
from policy.values.numbers import natural
from policy.values.partial import (
    BREAK,
    CLOSE,
    COMMA,
    HOLE,
    JOB,
    NUM,
    ONE,
    OPEN,
    QUOTED,
    SET,
    STAR,
    activate,
    clean,
    split,
    unbrace,
)

_SIMPLE = re.compile(rb"[A-Za-z0-9_./:=+@%^,-]*")
_DOUBLE = re.compile(r"\\(\n|[$`\"\\])")
_ONE_CHARACTER = frozenset("0123456789@*#?$!-")
_LITERAL = frozenset(("word", "number", "command_name"))
_COUNTED = re.compile(r"\[([^\[\]]*)|:(?![-=?+])([^:}]*)")
"""What of `${name[...]:...:...}` the shell counts with."""
_EXPANDING = frozenset(
    (
        "simple_expansion",
        "expansion",
        "command_substitution",
        "arithmetic_expansion",
        "process_substitution",
    )
)


class WordReader(Words):
    """Expands words for one shell; runs the commands that it meets in substitutions."""

    def __init__(self, shell: Shell) -> None:
        super().__init__()
        self._shell = shell

    def fields(self, node: Node) -> list[str]:
        """Return the words that one word of the text becomes."""
        raw = node.text or b""
        if node.type in _LITERAL and _SIMPLE.fullmatch(raw):
            return [raw.decode()]
        return self.finish(self.expand(node))

    def glued(self, nodes: list[Node]) -> list[str]:
        """Return the words that adjoining nodes become together."""
        if len(nodes) == 1:
            return self.fields(nodes[0])
        return self.finish("".join(self.expand(node) for node in nodes))

    def finish(self, raw: str) -> list[str]:
        """Return the fields of an expanded word, quotes and braces resolved."""
        done: list[str] = []
        for word in unbrace(raw):
            for part in word.split(BREAK):
                if part:
                    done.append(self.tilde(part).replace(QUOTED, ""))
        return done

    def text(self, node: Node) -> str:
        """Return a word that is not split: an assigned value, a redirection's target."""
        raw = self.expand(node, splitting=False)
        parts = [self.tilde(part) for part in raw.split(":")] if "~" in raw else [raw]
        value = ":".join(parts).replace(BREAK, " ").replace(QUOTED, "")
        return value.replace(OPEN, "{").replace(COMMA, ",").replace(CLOSE, "}")

    def tilde(self, word: str) -> str:
        """Expand a leading tilde."""
        if not word.startswith("~"):
            return word
        user, slash, rest = word[1:].partition("/")
        if QUOTED in user or user.startswith(QUOTED):
            return word
        state = self._shell.state
        if user == "":
            return as_text(state.get("HOME")) + slash + rest
        if user == "+":
            return state.place + slash + rest
        if user == "-":
            return as_text(state.get("OLDPWD") or HOLE) + slash + rest
        if user == "root":
            return "/root" + slash + rest
        if re.fullmatch(r"[a-z_][\w.-]*", user):
            return f"/home/{user}" + slash + rest
        return word

    def expand(self, node: Node, *, quoted: bool = False, splitting: bool = True) -> str:
        """Return the expanded text of a node, with fields and quotes still marked."""
        kind = node.type
        if kind in ("word", "number", "extglob_pattern", "variable_name", "test_operator", "regex"):
            if node.child_count and any(child.type in _EXPANDING for child in node.children):
                return self._gaps(node, node.start_byte, node.end_byte, splitting=splitting)
            return unquote(source(node))
        if kind == "string":
            return QUOTED + self._string(node) + QUOTED
        if kind == "raw_string":
            return QUOTED + source(node)[1:-1] + QUOTED
        if kind == "ansi_c_string":
            return QUOTED + ansi(source(node)[2:-1]) + QUOTED
        if kind == "translated_string":
            return "".join(self.expand(child) for child in node.named_children)
        if kind == "simple_expansion":
            name, rest = source(node)[1:], ""
            if name[:1] in _ONE_CHARACTER:
                name, rest = name[0], name[1:]  # the grammar takes all of `$1abc` for the name
            return self._value(self.parameter(name, quoted=quoted), quoted, splitting) + rest
        if kind == "expansion":
            return self._value(self._braced(source(node)[2:-1], quoted=quoted), quoted, splitting)
        if kind == "command_substitution":
            return self._value(self._shell.substitute(node).rstrip("\n"), quoted, splitting)
        if kind == "process_substitution":
            return QUOTED + self._shell.process(node)
        if kind == "arithmetic_expansion":
            return self.arithmetic(node)
        if kind == "brace_expression":
            return unquote(source(node))
        if kind == "array":
            return BREAK.join(self.expand(child) for child in node.named_children)
        if node.child_count:
            return self._gaps(node, node.start_byte, node.end_byte, splitting=splitting)
        return unquote(source(node))

    def _gaps(self, node: Node, start: int, end: int, *, splitting: bool) -> str:
        """Expand the children of a node and take the text between them as unquoted."""
        whole = node.text or b""
        out, at, offset = [], start, node.start_byte
        for child in node.children:
            if child.start_byte > at:
                gap = whole[at - offset : child.start_byte - offset]
                out.append(unquote(clean(decode(gap))))
            out.append(self.expand(child, splitting=splitting))
            at = child.end_byte
        if at < end:
            out.append(unquote(clean(decode(whole[at - offset : end - offset]))))
        return "".join(out)

    def _string(self, node: Node) -> str:
        whole = node.text or b""
        return self.double(node, whole, 1, len(whole) - 1)

    def double(self, node: Node, whole: bytes, start: int, end: int) -> str:
        """Expand what stands between double quotes, or in a here-document."""
        out, at, offset = [], start, node.start_byte
        for child in node.children:
            if child.type not in _EXPANDING or child.type == "process_substitution":
                continue
            gap = decode(whole[at : child.start_byte - offset])
            out.append(clean(_DOUBLE.sub(_keep, gap)))
            out.append(self.expand(child, quoted=True))
            at = child.end_byte - offset
        out.append(clean(_DOUBLE.sub(_keep, decode(whole[at:end]))))
        return "".join(out)

    def document(self, node: Node) -> str:
        """Return the text of an unquoted here-document."""
        whole = node.text or b""
        if b"`" in whole or (b"$" in whole and not node.named_children):
            return self.evaluated(source(node))  # the grammar overlooks expansions here
        return literal(self.double(node, whole, 0, len(whole)))

    def evaluated(self, text: str) -> str:
        """Expand text in which quotes mean nothing (documents, prompts, subscripts)."""
        if "$" not in text and "`" not in text:
            return text
        return literal(expanded(self, text, Quotes.NONE))

    def fragment(self, text: str, *, quoted: bool) -> str:
        """Expand the operand of a parameter expansion."""
        done = literal(expanded(self, text, Quotes.DOUBLE if quoted else Quotes.FULL))
        return done.replace(STAR, "*").replace(ONE, "?").replace(SET, "[")

    def pattern(self, text: str) -> str:
        """Expand a pattern, with its active glob characters marked."""
        return literal(expanded(self, text, Quotes.FULL))

    def run(self, text: str) -> str:
        """Run a text as a substitution does and return what it gives."""
        shell = self._shell
        return shell.aside(lambda: shell.run_text(text)).rstrip("\n")

    def unclear(self, text: str) -> None:
        """Record that a text cannot be read with certainty."""
        self._shell.opaque(text, "an expansion in it is not clear")

    def _value(self, value: str, quoted: bool, splitting: bool) -> str:
        value = self._shell.budget.hold(value)
        if quoted:
            return value
        if not splitting:
            return value
        separators = as_text(self._shell.state.get("IFS"))
        return split(activate(value), separators)

    def joint(self) -> str:
        """Return what joins the elements of `"$*"`."""
        return as_text(self._shell.state.get("IFS"))[:1]

    def take(self) -> bool:
        """Use one step of what a text may cost; False when none is left."""
        return self._shell.budget.take()

    def charge(self, amount: int) -> None:
        """Use up a part of what a text may cost."""
        self._shell.budget.text -= amount

    def look(self, name: str) -> Value | None:
        """Return a variable's value, noting that it was read."""
        state = self._shell.state
        if state.alternatives and name in state.alternatives:
            self.seen.add(name)
        return state.get(name)

    def parameter(self, name: str, *, quoted: bool) -> str:
        """Return the value of `$name`."""
        state = self._shell.state
        if name in ("@", "*"):
            return (
                HOLE
                if state.args is None
                else (BREAK if name == "@" or not quoted else self.joint()).join(state.args)
            )
        at = natural(name)
        if at is not None:
            if at == 0:
                return state.zero
            if state.args is None:
                return HOLE
            return state.args[at - 1] if at <= len(state.args) else ""
        if name == "!":
            return JOB
        if name in ("?", "$", "#"):
            return str(len(state.args)) if name == "#" and state.args is not None else NUM
        if name in ("-", "_"):
            return HOLE
        value = self.look(name)
        return HOLE if value is None else as_text(value)

    def _braced(self, body: str, *, quoted: bool) -> str:
        for counted in _COUNTED.finditer(body):
            for name in assigned(counted[1] or counted[2] or ""):
                self._shell.note_setting(name, NUM)
        return parameters.expand(self, body, quoted=quoted)

    def positional(self) -> list[str] | None:
        """Return the positional parameters."""
        return self._shell.state.args

    def assign(self, name: str, value: str) -> None:
        """Set a variable, as `${name:=value}` does."""
        self._shell.state.set(name, value)
        self._shell.note_setting(name, value)

    def items(self, name: str) -> list[str] | None:
        """Return the elements of an array, or None if the text never set it."""
        value = self.look(name)
        return None if value is None else as_list(value)

    def arithmetic(self, node: Node) -> str:
        """Run what an arithmetic text holds and return its value."""
        text = source(node)
        if "`" in text or "$" in text[2:]:
            self.visit(node)
        body = text.removeprefix("$((").removeprefix("$[").removesuffix("))").removesuffix("]")
        return self.number(body)

    def number(self, body: str) -> str:
        """Return the value of an arithmetic expression, running what its variables hide."""

        def value(name: str) -> str:
            found = as_text(self.look(name) or "0")
            if "[" in found and ("$" in found or "`" in found):
                self.evaluated(found)
            return found

        for name in assigned(body):
            self._shell.note_setting(name, NUM)
        return evaluate(body, value)

    def visit(self, node: Node) -> None:
        """Expand every substitution below a node for what it runs."""
        for child in node.children:
            if child.type in _EXPANDING:
                self.expand(child)
            else:
                self.visit(child)


def _keep(found: re.Match[str]) -> str:
    return "" if found[1] == "\n" else found[1]
