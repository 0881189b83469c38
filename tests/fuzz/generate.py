# SPDX-License-Identifier: Apache-2.0
"""Make hostile inputs: by a grammar of shell text, and by mutating the corpora byte by byte."""

from __future__ import annotations

import json
import random
from functools import lru_cache
from pathlib import Path

CORPUS = Path(__file__).parents[1] / "corpus"
MOST_BYTES = 70_000
DEPTH = 5
_WORDS = (
    "a", "src/app.py", "-rf", "--force", "*.py", "~/x", "../b", "{a,b}", "$x", "${x}", "'a b'",
    '"a $x b"', "$'\\x61\\n'", "a\\ b", "[a-z]?", ".env", "devkit.config.json", "é", "-", "1",
)  # fmt: skip
_PROGRAMS = (
    "ls", "cat", "echo", "rm", "git", "sed", "awk", "find", "xargs", "sh", "bash", "python3",
    "node", "perl", "env", "sudo", "timeout", "eval", "printf", "read", "cd", "export", "tee",
    "curl", "tar", "psql", "vim", "make", "npm", "docker", "ssh", "base64", "tr", "test", "[",
    "local", "set", "trap", "alias", "source", "exec", "nmap", "jq", "cmd", "pwsh",
)  # fmt: skip
_PIECES = (
    "$(", ")", "`", "'", '"', "${", "}", "$((", "))", "<<E\n", "\nE\n", "<<-'E'\n", "<<<", "<(",
    ">(", ">", ">>", "2>&1", "&>", "|", "|&", "||", "&&", ";", ";;", "&", "\n", "\\\n", "\\", "#",
    "!", "{", "(", "[[", "]]", "((", "if ", "then ", "fi ", "for i in ", "do ", "done ", "case ",
    "esac ", "while ", "function f ", "f() ", "coproc ", "time ", "select ", "in ", "a=", "a=(",
    "a[", "]=", "+=", "$@", "$*", "$1", "${!x", "${x@P}", "${x:-", "${x//", "${x%", "\t", "\r",
    "\x00", "\x7f", "\u200b", "\u202e", "\ue000", "\ue00b", "\U0001f600", "\u0301", "=", ",", "~",
    "*", "?", "[", "]", "-c ", "-e ", "-exec ", "\\;", "{}", "%s", "\\x41", "\\0", "/", "//", "..",
)  # fmt: skip


@lru_cache
def corpus() -> tuple[str, ...]:
    """Return every command of the corpora."""
    return tuple(
        json.loads(line)["command"]
        for file in sorted(CORPUS.glob("*.jsonl"))
        for line in file.read_text("utf-8").split("\n")
        if line
    )


class Grammar:
    """Makes shell text; what comes out is mostly valid, and nested."""

    def __init__(self, rng: random.Random, programs: tuple[str, ...] = _PROGRAMS) -> None:
        self.rng = rng
        self.programs = programs

    def text(self, depth: int = DEPTH) -> str:
        """Return statements."""
        many = self.rng.randint(1, 3)
        ends = ("; ", "\n", " && ", " || ", " & ", " | ", "\n\n")
        return "".join(
            self.statement(depth) + (self.rng.choice(ends) if at < many - 1 else "")
            for at in range(many)
        )

    def statement(self, depth: int) -> str:
        """Return one statement."""
        if depth <= 0 or self.rng.random() < 0.5:
            return self.command(depth)
        inner = self.text(depth - 1)
        shapes = (
            "( {0} )", "{{ {0}\n}}", "if {1}; then {0}\nfi", "for i in {2} b; do {0}\ndone",
            "while {1}; do {0}\nbreak; done", "case {2} in a) {0}\n;; *) :;; esac",
            "f() {{ {0}\n}}; f a", "! {1}", "time {1}", "coproc {{ {0}\n}}",
            "[[ -n {2} ]] && {{ {0}\n}}", "x=$({0}\n)", "for ((i=0;i<2;i++)); do {0}\ndone",
            "until {1}; do {0}\ndone", "eval {3}", "bash -c {3}", "echo {3} | sh",
            "bash <<'E'\n{0}\nE", "cat <<E\n$({0}\n)\nE", "cat <({0}\n)", "{1} > >({0}\n)",
            "trap {3} EXIT", "x={3}; eval \"$x\"", "if {1}; then :; else {0}\nfi",
            "({0}) 2>&1 | cat", "function g {{ {0}\n}}; g", "xargs -I% sh -c {3} <<< a",
            "(( x = 1 )); {1}", "set -- {2}; {1}",
        )  # fmt: skip
        shape = self.rng.choice(shapes)
        quoted = "'" + inner.replace("'", "'\\''") + "'"
        return shape.format(inner, self.command(depth - 1), self.word(depth - 1), quoted)

    def command(self, depth: int) -> str:
        """Return a simple command."""
        rng = self.rng
        parts = [rng.choice(self.programs)]
        parts += [self.word(depth) for _ in range(rng.randint(0, 3))]
        if rng.random() < 0.15:
            parts.insert(
                rng.randint(0, len(parts)), rng.choice((">/dev/null", "2>&1", "</dev/null"))
            )
        if rng.random() < 0.1:
            parts.insert(0, rng.choice(("A=b", "x=$(:)", "IFS=,", "a+=1")))
        return " ".join(parts)

    def word(self, depth: int) -> str:
        """Return a word."""
        rng = self.rng
        if depth <= 0 or rng.random() < 0.75:
            return rng.choice(_WORDS)
        inner = self.command(depth - 1)
        shapes = (
            "$({0})", '"$({0})"', "a$({0})b", "${{x:-$({0})}}", '"${{x:-$({0})}}"',
            "${{x#$({0})}}", "${{x/a/$({0})}}", "$(( 1 + $({0}) ))", "<({0})", "${{v[$({0})]}}",
            "${{x:+{1}}}", "'{1}'", "\"{1}\"$'\\n'", "{{a,$({0})}}", "${{x:$({0})}}", "~$({0})",
        )  # fmt: skip
        return rng.choice(shapes).format(inner, rng.choice(_WORDS).replace("'", ""))


def mutated(rng: random.Random, text: str, others: tuple[str, ...]) -> str:
    """Return a text with some things wrong."""
    for _ in range(rng.choice((1, 1, 2, 3, 8))):
        at = rng.randint(0, len(text))
        to = min(len(text), at + rng.choice((1, 1, 2, 4, 16, 64)))
        kind = rng.randrange(9)
        if kind == 0:
            text = text[:at] + text[to:]
        elif kind == 1:
            text = text[:at] + rng.choice(_PIECES) + text[at:]
        elif kind == 2:
            text = text[:at] + rng.choice(_PIECES) + text[to:]
        elif kind == 3:
            text = text[:at] + text[at:to] * rng.choice((2, 3, 10, 100)) + text[to:]
        elif kind == 4:
            other = rng.choice(others)
            from_ = rng.randint(0, len(other))
            text = text[:at] + other[from_ : from_ + rng.choice((5, 20, 200))] + text[to:]
        elif kind == 5:
            text = (
                text[:at] + chr(rng.choice((rng.randrange(128), rng.randrange(0x3000)))) + text[at:]
            )
        elif kind == 6:
            text = text[:at] + text[at:to][::-1] + text[to:]
        elif kind == 7:
            text = rng.choice(("sh -c ", "eval ", "node -e ", "python3 -c ", "awk ")) + repr(text)
        else:
            piece = text[at:to] or rng.choice(_PIECES)
            text = (
                text[:at]
                + piece * (rng.choice((1000, 10_000, MOST_BYTES)) // len(piece))
                + text[to:]
            )
        text = text[: MOST_BYTES * 2]
    return text


def shell_text(rng: random.Random) -> str:
    """Return a text for the reading."""
    kind = rng.randrange(10)
    if kind < 4:
        return Grammar(rng).text()
    if kind < 8:
        return mutated(rng, rng.choice(corpus()), corpus())
    if kind < 9:
        return mutated(rng, Grammar(rng).text(), corpus())
    return rng.randbytes(rng.choice((5, 50, 500))).decode(
        "utf-8", rng.choice(("replace", "surrogateescape"))
    )
