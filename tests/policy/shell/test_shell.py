# SPDX-License-Identifier: Apache-2.0
"""Reading shell text: every command that the text can run is found, or the text is opaque."""

from __future__ import annotations

import pytest

from policy.facts import Facts, How
from policy.model import Verdict
from policy.programs.builtin_catalog import default
from policy.shell.reading import read
from policy.values.partial import shown
from tests.policy.asking import bash

FOUND = {
    "a substitution inside an expansion": "echo ${x:-$(nmap h)}",
    "a backtick inside an expansion": "echo ${x:-`nmap h`}",
    "a substitution in a pattern": "echo ${x%$(nmap h)}",
    "a substitution in a here-document": "cat <<E\n$(nmap h)\nE",
    "a backtick in a here-document": "cat <<E\n`nmap h`\nE",
    "a nested backtick": "echo `echo \\`nmap h\\``",
    "a process substitution": "cat <(nmap h)",
    "an output process substitution": "ls > >(nmap h)",
    "what time starts": "time nmap h",
    "what a coprocess starts": "coproc nmap h",
    "a word continued on the next line": "nm\\\nap h",
    "a comment that ends in a backslash": "ls # x \\\nnmap h",
    "an apostrophe in a comment": "ls # it's\nnmap h",
    "ANSI-C quotes": "$'\\x6emap' h",
    "a brace as the whole command": "{nmap,h}",
    "a test operand": "[[ 'a[$(nmap h)]' -eq 0 ]]",
    "an array subscript": "x[$(nmap h)]=1",
    "arithmetic": "echo $((a[$(nmap h)]))",
    "a redirection target": "ls > $(nmap h)",
    "an unused branch": "if false; then nmap h; fi",
    "a case item": "case a in b) nmap h;; esac",
    "a function that is called": "f() { nmap h; }; f",
    "a function that nobody calls": "f() { nmap h; }",
    "a trap": "trap 'nmap h' EXIT",
    "a variable": "c=nmap; $c h",
    "a variable set in a branch": "c=ls; if x; then c=nmap; fi; $c h",
    "a name joined from parts": "a=nm; b=ap; $a$b h",
    "an indirect variable": "n=c; c=nmap; ${!n} h",
    "a reference": "declare -n r=c; c=nmap; $r h",
    "the second of two values": "for c in ls nmap; do $c h; done",
    "text on a shell's input": "echo nmap h | sh",
    "a file that is written and run": "echo nmap h > t; sh t",
    "a decoded text": "base64 -d <<< bm1hcCBo | sh",
}


@pytest.mark.parametrize("command", FOUND.values(), ids=FOUND)
def test_the_command_is_found(command: str) -> None:
    assert bash(command).verdict is Verdict.DENY


OPAQUE = {
    "a control character": "ls \x01",
    "a carriage return": "ls\r\n",
    "a NUL": "ls \x00",
    "text that is not shell": "if then fi ((",
    "an odd here-document delimiter": "cat <<$(x)\na\n$(x)",
    "an old arithmetic expansion": "echo $[1]",
    "a hidden character": "ls \u200b",
    "a bidirectional override": "ls \u202e x",
    "a no-break space": "ls\u00a0-la",
    "more than 64 KiB": "ls " + "a" * 70_000,
    "deep nesting": "(" * 100 + "ls" + ")" * 100,
    "too many commands": "ls;" * 3_000,
    "an unknown program": "$X --help",
    "a forged mark": "ls \ue000",
}


@pytest.mark.parametrize("command", OPAQUE.values(), ids=OPAQUE)
def test_what_cannot_be_read_is_asked_about(command: str) -> None:
    assert bash(command).verdict is Verdict.ASK


@pytest.mark.parametrize("command", OPAQUE.values(), ids=OPAQUE)
def test_a_forbidden_command_is_seen_in_what_cannot_be_read(command: str) -> None:
    assert bash("rm -rf src; " + command).verdict is Verdict.DENY


def touched(command: str, how: How) -> list[str]:
    found: Facts = read(default(), command, "/workspace", "/home/me")
    return [shown(one.path) for one in found.touches if one.how is how]


PLACES = {
    "a relative path": ("touch a", ["/workspace/a"]),
    "after cd": ("cd src && touch a", ["/workspace/src/a"]),
    "after cd that may fail": ("cd src; touch a", ["/workspace/a", "/workspace/src/a"]),
    "after cd in a subshell": ("(cd src); touch a", ["/workspace/a"]),
    "after cd and back": ("cd src && cd .. && touch a", ["/workspace/a"]),
    "after cd and back in lines": ("cd src; cd ..; touch a", ["/workspace/src/a", "/workspace/a"]),
    "with env -C": ("env -C src touch a", ["/workspace/src/a"]),
    "through proc": ("touch /proc/self/cwd/a", ["/workspace/a"]),
    "through the root of proc": ("touch /proc/self/root/a", ["/a"]),
    "a tilde": ("touch ~/a", ["/home/me/a"]),
    "another user's tilde": ("touch ~bob/a", ["/home/bob/a"]),
    "a quoted tilde": ("touch '~/a'", ["/workspace/~/a"]),
    "HOME": ('touch "$HOME/a"', ["/home/me/a"]),
    "braces": (
        "touch {a,b}{1..2}",
        ["/workspace/a1", "/workspace/a2", "/workspace/b1", "/workspace/b2"],
    ),
    "quotes inside a word": ("touch a'b'\"c\"\\d", ["/workspace/abcd"]),
    "an array": ('x=(a "b c"); touch "${x[@]}"', ["/workspace/a", "/workspace/b c"]),
    "splitting": ("x='a b'; touch $x", ["/workspace/a", "/workspace/b"]),
    "no splitting in quotes": ("x='a b'; touch \"$x\"", ["/workspace/a b"]),
    "a default": ("touch ${x:-a}", ["/workspace/a"]),
    "a suffix removed": ("x=a.b.c; touch ${x%.*}", ["/workspace/a.b"]),
    "the longest prefix removed": ("x=a/b/c; touch ${x##*/}", ["/workspace/c"]),
    "a replacement": ("x=aXb; touch ${x/X/-}", ["/workspace/a-b"]),
    "a slice": ("x=abcdef; touch ${x:1:3}", ["/workspace/bcd"]),
    "a slice from the end": ("x=abcdef; touch ${x: -2}", ["/workspace/ef"]),
    "upper case": ("x=ab; touch ${x^^}", ["/workspace/AB"]),
    "arithmetic": ("touch f$((2 * 3 + 1))", ["/workspace/f7"]),
    "a loop": ("for i in 1 2; do touch f$i; done", ["/workspace/f1", "/workspace/f2"]),
    "printf": ("touch $(printf '%s-%03d' a 7)", ["/workspace/a-7"]),
    "a glob": ("touch *.txt", ["/workspace/*.txt"]),
}


@pytest.mark.parametrize("command, paths", PLACES.values(), ids=PLACES)
def test_words_become_paths(command: str, paths: list[str]) -> None:
    assert touched(command, How.WRITE) == paths
