# SPDX-License-Identifier: Apache-2.0
"""Texts that readers of shell text are known to misread in silence, for both of our readings.

Bash runs `nmap` in each of them, which is refused. The first reading must find it (or, where the
text is opaque, see it in the text). The second reading misses it in many, as documented; that must
not matter, since it can only tighten.
"""

from __future__ import annotations

import json
from enum import Enum

import pytest

from policy.gate1.bashlex_worker import answer as second_answer
from policy.gate1.decide import Policy, apply_second_reading, decide
from policy.model import Verdict
from policy.programs.builtin_catalog import default
from policy.shell.reading import read
from tests.policy.asking import CONTEXT, plan


class Second(Enum):
    """What the second reading makes of a text."""

    SEES = "sees the command"
    MISSES = "misses it in silence"
    REFUSES = "cannot read the text"


PLACES = {
    "a default": "${x:-%s}",
    "an unset default": "${x-%s}",
    "an assigned default": "${x:=%s}",
    "an error message": "${x:?%s}",
    "an alternative": "${HOME:+%s}",
    "a shortest prefix": "${HOME#%s}",
    "a longest prefix": "${HOME##%s}",
    "a shortest suffix": "${HOME%%%s}",
    "a longest suffix": "${HOME%%%%%s}",
    "a replaced pattern": "${HOME/%s/x}",
    "a replacement": "${HOME/x/%s}",
    "a replacement everywhere": "${HOME//x/%s}",
    "a changed case": "${HOME^^%s}",
    "a nested default": "${x:-${y:-%s}}",
    "an indirect default": "${!x:-%s}",
    "a default among text": "${x:-a b%s c}",
    "a default after a separator": "${x:-a; b | c %s}",
    "a default after a hash": "${x:-a #%s}",
    "a quoted default": '"${x:-%s}"',
    "quotes in a default": '${x:-"%s"}',
    "quotes in a quoted default": '"${x:-"%s"}"',
}
"""Expansions; the mark stands for a substitution."""
FORMS = {
    "a substitution": "$(nmap h)",
    "a substitution with quotes": "$(nmap \"h\" 'i')",
    "backticks": "`nmap h`",
    "a process substitution": "<(nmap h)",
}
QUOTED = ("a quoted default", "quotes in a default", "quotes in a quoted default")
"""Where `<(` is text."""
INSIDE = {
    f"{form} in {place}": f"echo {before.replace('%%', chr(0)).replace('%s', inner)}".replace(
        chr(0), "%"
    )
    for place, before in PLACES.items()
    for form, inner in FORMS.items()
    if not (form == "a process substitution" and place in QUOTED)
}
OTHERS = {
    "a substitution as a slice's start": "x=abc; echo ${x:$(nmap h)}",
    "a substitution as a slice's length": "x=abc; echo ${x:0:$(nmap h)}",
    "a substitution as a slice of an array": "v=(a b); echo ${v[@]:$(nmap h)}",
    "a substitution as a subscript": "v=(a b); echo ${v[$(nmap h)]}",
    "backticks as a subscript": "v=(a b); echo ${v[`nmap h`]}",
    "an assignment to a subscript": "v[$(nmap h)]=1",
    "a substitution in a here-document": "cat <<E\n$(nmap h)\nE",
    "a substitution in an expansion in a here-document": "cat <<E\n${x:-$(nmap h)}\nE",
    "backticks in a here-document": "cat <<E\n`nmap h`\nE",
    "backticks in a here-document among quotes": 'cat <<E\nit\'s "`nmap "h"`\nE',
    "a here-document that is stripped": "cat <<-E\n\t$(nmap h)\n\tE",
    "a here-document that begins with a backslash": "bash <<'E'\n\\nmap h\nE",
    "a here-document behind a pipe that begins with a backslash": "cat <<E | sh\n\\\\nmap h\nE",
    "ANSI-C quotes": "$'nmap' h",
    "ANSI-C quotes with bytes": "$'\\x6e\\155ap' h",
    "ANSI-C quotes inside a word": "n$'m'ap h",
    "translated quotes": '$"nmap" h',
    "a tilde before a substitution": "echo ~$(nmap h)",
    "a comment with a parenthesis in a substitution": "echo $(ls # )\nnmap h)",
    "a comment with a quote in a substitution": "echo $(ls # it's\nnmap h)",
    "a comment that ends in a backslash": "ls #x \\\nnmap h",
    "an apostrophe in a comment": "ls # it's\nnmap h",
    "a hash inside a word": "echo a#b; nmap h",
    "a hash before a separator": "ls#;nmap h",
    "a backtick nested in backticks": "echo `echo \\`nmap h\\``",
    "a backtick nested twice": "echo `echo \\`echo \\\\\\`nmap h\\\\\\`\\``",
    "a substitution in backticks": "echo `echo $(nmap h)`",
    "what time starts": "time nmap h",
    "what time -p starts": "time -p nmap h",
    "a group that is timed": "time { nmap h; }",
    "a subshell that is timed": "time ( nmap h )",
    "a loop that is timed": "time for i in 1; do nmap h; done",
    "a negated group": "! { nmap h; }",
    "a group negated twice": "! ! { nmap h; }",
    "a timed negation": "time ! nmap h",
    "what a coprocess starts": "coproc nmap h",
    "a group in a coprocess": "coproc { nmap h; }",
    "a group in a named coprocess": "coproc N { nmap h; }",
    "a loop in a coprocess": "coproc while true; do nmap h; break; done",
    "a word continued on the next line": "nm\\\nap h",
    "an option continued on the next line": "bash -\\\nc 'nmap h'",
    "double parentheses that are no arithmetic": "( (nmap h) | cat)",
    "double parentheses without a blank": "((nmap h) | cat)",
    "a substitution in arithmetic": "echo $((1 + $(nmap h)))",
    "a second expansion in arithmetic": "x='a[$(nmap h)]'; echo $((x))",
    "an arithmetic command": "((x = $(nmap h)))",
    "a numeric test": "[[ 'a[$(nmap h)]' -eq 0 ]]",
    "a test of a variable": "test -v 'a[$(nmap h)]'",
    "an unset subscript": "unset 'a[$(nmap h)]'",
    "a read subscript": "read 'a[$(nmap h)]' <<< 1",
    "a prompt expansion": "x='$(nmap h)'; echo ${x@P}",
    "a prompt with an escape": "x='\\044(nmap h)'; echo ${x@P}",
    "a quoted here-document before": "cat <<'E'\n$(\nE\nnmap h",
    "a test before": "[[ a == b ]]; nmap h",
    "a pattern with a parenthesis before": "[[ a == @(b|c) ]]; nmap h",
    "a case item": "case a in b) nmap h;; esac",
    "a case item with a parenthesis": "case a in (b) nmap h;; esac",
    "a case in a substitution": "echo $(case a in b) nmap h;; esac)",
    "a loop as in C": "for ((i=0;i<1;i++)); do nmap h; done",
    "an array before": "a=(b c); nmap h",
    "an associative array before": "declare -A m=([a]=b); nmap h",
    "a substitution in an array": "a=($(nmap h))",
    "a menu": "select i in a; do nmap h; break; done",
    "a keyword as an argument": "echo if then; nmap h",
    "a script that begins with a comment": "# nothing\nnmap h",
    "a here-string behind a redirection": "bash >/dev/null <<< 'nmap h'",
    "a here-string for a descriptor": "bash /dev/fd/3 3<<< 'nmap h'",
    "an empty substitution inside a word": "n$()map h",
    "a parameter inside a word": "n$@map h",
    "a parameter that letters follow": "set -- nm; $1ap h",
    "a brace that is the whole command": "{nmap,h}",
    "a redirection before the command": ">/dev/null nmap h",
    "redirections around the command": "2>&1 >a nmap <b h",
    "an assignment before the command": "A=b nmap h",
    "a redirection's target": "ls > /tmp/$(nmap h)",
    "an output process substitution": "ls > >(nmap h)",
    "a function's body": "f() { nmap h; }; f",
    "a function's redirection": "f() { :; } > $(nmap h); f",
    "a carriage return": "nmap h\r\n",
}
TEXTS = {**INSIDE, **OTHERS}


def seen_by_second(text: str) -> tuple[Second, list[str]]:
    said = second_answer(json.dumps({"text": text}))
    if "refused" in said:
        return Second.REFUSES, []
    names = said["programs"]
    return (Second.SEES if "nmap" in names else Second.MISSES), names


MISSED = {
    **INSIDE,
    **{
        name: OTHERS[name]
        for name in (
            "a substitution in a here-document",
            "backticks in a here-document",
            "ANSI-C quotes",
            "a tilde before a substitution",
            "a comment with a parenthesis in a substitution",
        )
    },
}
"""Texts in which the second reading is known to overlook the command without a word."""


@pytest.mark.parametrize("text", MISSED.values(), ids=MISSED)
def test_the_second_reading_alone_would_miss_the_command(text: str) -> None:
    assert seen_by_second(text)[0] in (Second.MISSES, Second.REFUSES)


def test_the_second_reading_sees_a_plain_command() -> None:
    assert seen_by_second("ls; nmap h | cat")[0] is Second.SEES


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_the_first_reading_finds_the_command(text: str) -> None:
    found = read(default(), text, "/workspace", "/home/me")
    opaque = any(one.rule == "opaque" for one in found.findings)
    assert "nmap" in found.programs or opaque
    assert decide(plan("Bash", command=text), CONTEXT, Policy.default()).verdict is Verdict.DENY


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_what_the_second_reading_misses_loosens_nothing(text: str) -> None:
    policy = Policy.default()
    decision = decide(plan("Bash", command=text), CONTEXT, policy)
    assert apply_second_reading(decision, seen_by_second(text)[1], policy).verdict is Verdict.DENY
