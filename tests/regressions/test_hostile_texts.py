# SPDX-License-Identifier: Apache-2.0
"""Texts that once ended gate 1, kept it busy for seconds, or hid a command from it."""

from __future__ import annotations

import time

import pytest

from policy.model import Verdict
from policy.shell.interpreter import MOST_TOUCHES
from policy.sources.document import read_document
from policy.values.strict_yaml import PolicyError
from tests.policy.asking import bash

MOST_SECONDS = 3.0
"""Of processor time; each takes some milliseconds, and took seconds. The machine may be slow."""
LONG = 60_000

BUSY = {
    "parentheses that close nothing": ")" * LONG,
    "redirections without a target": "<" * LONG,
    "pipes without an end": "a|" * (LONG // 2),
    "here-documents without an end": "<<a\n" * (LONG // 4),
    "here-documents without an end, each another": "".join(f"a <<x{n}\n" for n in range(6000)),
    "arrays that are not closed": "a=(b\n" * (LONG // 5),
    "functions without a body": "f() " * (LONG // 4),
    "a brace of many words": "ls {" + "a," * (LONG // 2),
    "a brace of many words that cannot be read": "if {" + "a," * LONG,
    "a long word in a program for node": f'node -e \'require("x").execSync("echo {"A" * LONG}',
    "a long word in a program for node, closed": (
        f'node -e \'require("child_process").execSync("echo {"A" * 30_000}; rm -rf lib")\''
    ),
    "a long word in a program for awk": f"awk '{'n' * LONG}'",
    "many words for awk": "awk '" + "rm y -r" * 8000 + "'",
    "commands that are evaluated again and again": "x='a'; " + 'eval "$x$x$x"; ' * 200,
    "expansions inside of expansions": "echo " + "${x:-" * 60 + "$(ls)" + "}" * 60,
    "loops inside of loops": "for i in {1..24}; do " * 6 + "ls $i" + "; done" * 6,
    "a line of a million characters": "echo " + "a" * 1_000_000,
    "ten thousand nested parentheses": "(" * 10_000 + "ls" + ")" * 10_000,
    "ten thousand nested substitutions": "echo " + "$(" * 10_000 + "ls" + ")" * 10_000,
    "a glob that is a program with many words": "bash -c '" + "* " * 3000 + "'",
    "a path of globs that is a program with many words": "ssh h '" + "/* " * 2000 + "'",
    "redirections in awk": "awk '" + "> a " * (LONG // 4) + "' x",
    "escaped quotes in awk": "awk '" + '\\"' * (LONG // 2) + "' x",
    "endless loops in node": "node -e '" + "while(1)" * (LONG // 8) + "'",
    "lines that are blank without their quotes": "{ tra<<-'E'\np '! \n" + "''\n" * 45_000,
    "blank lines for gdb": "gdb -ex '" + "\n" * LONG + "'",
    "redirections that cannot be read": "'" + "> x " * (LONG // 4),
    "brackets that the grammar takes for tests": "[] " * (LONG // 3),
    "empty braces": "{} " * (LONG // 3),
    "words that are evaluated again and again": "eval " * (LONG // 5),
    "a chain of one wrapper": "time " * (LONG // 5),
    "many files for one folder": "mv " + " ".join(f"a{n}" for n in range(10_000)),
    "five million private characters": "\ue00b" * 5_000_000,
    "five million operators": "a;" * 2_500_000,
    "a million lines without a word": "\n" * 1_000_000,
    "options that may have values": "gh " + " ".join(f"-a{n}" for n in range(2000)),
    "options that may have values, few": "git push " + "-a " * 60 + "; docker " + "-a b " * 60,
    "backticks in perl": "perl -e '" + "`a`;" * (LONG // 4) + "'",
    "backticks in ruby, few": "ruby -e '" + "`a`;" * 250 + "'",
    "assignments in Python": "python3 -c '" + "x=1\n" * (LONG // 4) + "'",
    "words for PowerShell": "powershell " + "../a/b.py " * (LONG // 10),
    "addresses": "wget " + " ".join(f"a{n}" for n in range(LONG // 7)),
    "every byte": bytes(range(256)).decode("latin-1") * 200,
    "surrogates": "ls " + "".join(map(chr, range(0xD800, 0xDC00))),
}


@pytest.mark.parametrize("text", BUSY.values(), ids=BUSY)
def test_the_answer_comes_soon(text: str) -> None:
    began = time.process_time()
    assert bash(text).verdict in Verdict
    assert time.process_time() - began < MOST_SECONDS


@pytest.mark.parametrize("text", BUSY.values(), ids=BUSY)
def test_a_forbidden_command_before_it_is_seen(text: str) -> None:
    assert bash(f"rm -rf src; {text}").verdict is Verdict.DENY


def test_the_end_of_a_text_far_too_long_is_seen() -> None:
    assert bash("true; " * 500_000 + "\nrm -rf src").verdict is Verdict.DENY
    assert bash("true; " * 500_000 + "\nls src").verdict is Verdict.ASK


@pytest.mark.parametrize("program", ["touch", "tee", "truncate -s 0", "sed -i s/a/b/"])
@pytest.mark.parametrize("count", [MOST_TOUCHES + more for more in (-2, -1, 0, 1, 2, 3, 20, 2000)])
def test_what_is_named_behind_more_paths_than_are_judged_is_asked_about(
    program: str, count: int
) -> None:
    many = " ".join(f"f{number}" for number in range(count))
    assert bash(f"{program} {many} .devkit-waiver.yml").verdict in (Verdict.ASK, Verdict.DENY)
    assert bash(f"{program} {many[:500]} .devkit-waiver.yml").verdict is Verdict.DENY
    assert bash(f"touch {many[:500]} other.yml").verdict is Verdict.REPORT


@pytest.mark.parametrize(
    "text",
    [
        "perl -e '" + "`ls`;" * 250 + 'system("rm -rf src")\'',
        "python3 -c '" + "x=1\n" * 10_000 + 'import shutil; shutil.rmtree("src")\'',
        "powershell " + "a " * 20_000 + "; Remove-Item -Recurse -Force src",
    ],
    ids=("perl", "python", "powershell"),
)
def test_what_is_behind_more_code_than_is_read_is_asked_about(text: str) -> None:
    assert bash(text).verdict in (Verdict.ASK, Verdict.DENY)


@pytest.mark.parametrize("blank", [" ", "\n", "\t \n"])
def test_blanks_hide_no_command_from_a_glance(blank: str) -> None:
    text = f"{'(' * 100} {blank * 70_000}\nrm -rf src\n{blank * 70_000}ls"
    assert bash(text).verdict is Verdict.DENY
    assert bash(text.replace("rm -rf", "ls -la")).verdict is Verdict.ASK


def test_nesting_that_no_stack_holds_is_asked_about() -> None:
    text = "ls"
    for _ in range(12):
        text = "bash -c '" + text.replace("'", "'\\''") + "'" if len(text) < 20_000 else text
    for _ in range(20):
        text = f"if ls; then {{ echo ${{x:-$(\n{text}\n)}}\n}}\nfi"
    assert bash(text).verdict is Verdict.ASK


HIDDEN = {
    "a lone dash before a here-document": "awk -f - <<E\nBEGIN{system(\"nmap h\")}\nE",
    "a makefile behind a lone dash": "make -f - all <<'E'\nall:\n\tnmap h\nE",
    "the standard input by its name": "python3 /dev/stdin <<< \"import os; os.system('nmap h')\"",
    "what a filter of known text hands to awk": "echo 'nmap h' | awk '{system($0)}'",
    "what awk prints into a shell": "mawk 'BEGIN{print \"nmap h\" | \"sh\"}'",
    "the format of a log": "git log -1 --format='nmap h' | sh",
    "an expression in a makefile's variable": "make 'X=$(shell nmap h)'",
    "numbered lines that lose their numbers": "echo nmap h | cat -n | cut -f2- | sh",
    "copies of a program by its content": "cat /usr/bin/nmap > n; chmod +x n; ./n h",
    "a command behind redirections alone": "2>&1 >a nmap <b h",
    "a command behind an assignment and a redirection, negated": "! A=b >/dev/null nmap h",
    "an argument of xargs behind a NUL": "printf '%s\\0' 'nmap h' | xargs -0 -n1 bash -c",
    "parentheses in what awk runs": "awk 'BEGIN { system(\"echo $(nmap h)\") }'",
    "a per cent sign that printf's escapes give": "printf '\\x6e\\x6d\\x61\\x70\\x20%%' | sh",
    "quotes in a substitution in a pattern": "x=1; : ${x#$(sh -c \"nmap h\")}",
    "a slash in a substitution in a replacement": "x=1; : ${x/$(/usr/bin/nmap h)/y}",
    "a quoted pattern": "x=zznmap; ${x#'zz'} h",
    "a parameter that letters follow": "set -- nm; $1ap h",
    "a descriptor's here-string": "exec 3<<< 'nmap h'; bash <&3",
}  # fmt: skip


@pytest.mark.parametrize("text", HIDDEN.values(), ids=HIDDEN)
def test_the_command_is_found(text: str) -> None:
    assert bash(text).verdict is Verdict.DENY


def test_the_same_texts_with_another_command_are_not_denied() -> None:
    """The control: it is the command that is found, not the way it is hidden."""
    harmless = [
        one.replace("nmap", "date").replace("nm", "da").replace("$1ap", "$1te")
        for one in HIDDEN.values()
        if "x6e" not in one
    ]
    assert [one for one in harmless if bash(one).verdict is Verdict.DENY] == []


RUNS_UNKNOWN = {
    "a command of node that is made elsewhere": "node -e 'require(\"child_process\").execSync(c)'",
    "a command of awk in a variable": "awk '{ $1 | getline }'",
}


@pytest.mark.parametrize("text", RUNS_UNKNOWN.values(), ids=RUNS_UNKNOWN)
def test_what_runs_an_unknown_command_is_asked_about(text: str) -> None:
    assert bash(text).verdict is Verdict.ASK


def test_a_policy_file_whose_key_is_a_mapping_is_refused_with_its_line() -> None:
    with pytest.raises(PolicyError) as refused:
        read_document("# a policy\n? {a: b}\n: c\n", "policy.yaml")
    assert str(refused.value) == "policy.yaml:2: a key is no text; write `key: value`"


EMPTY = {
    "a command in a makefile": "cat > Makefile <<'E'\nV := $(shell )\nE\nmake test",
    "a command in a setting of make": "make 'V=$(shell )'",
    "an alias of git": "git -c alias.x='!' x",
    "an editor of git": "git -c core.editor= commit",
    "a shell's line in SQL": "psql -c '\\!'",
    "a quoted shell's line in SQL": "sqlite3 x \".shell ''\"",
    "a file in SQL": "sqlite3 x \".read ''\"",
}


@pytest.mark.parametrize("text", EMPTY.values(), ids=EMPTY)
def test_where_a_command_should_stand_there_may_be_none(text: str) -> None:
    assert bash(text).verdict in Verdict
    assert bash(f"{text}; rm -rf src").verdict is Verdict.DENY
