# SPDX-License-Identifier: Apache-2.0
"""`for PATH in src; do git status; done` was read as `git status`: few ways of setting counted."""

from __future__ import annotations

import pytest

from policy.model import Verdict
from tests.policy.asking import bash

SETS = (
    "for PATH in src; do git status; done",
    "select PATH in src; do git status; done",
    "mapfile -t PATH < f; git status",
    "readarray PATH < f; git status",
    "read -a PATH < f; git status",
    "getopts a PATH; git status",
    "coproc PATH { true; }; git status",
    "let PATH=1; git status",
    "let PATH++; git status",
    "((PATH=1)); git status",
    "((i = 2, --PATH)); git status",
    "for ((i=0;i<1;PATH++)); do git status; done",
    ": $((PATH=1)); git status",
    ": ${a[PATH=1]}; git status",
    ": ${a:PATH=1}; git status",
    "[[ 1 -eq PATH=1 ]]; git status",
    "a[PATH=1]=x; git status",
    "PATH[0]=src; git status",
    f"((i = {'0' * 5000}, PATH[a[0]] = 1)); git status",
    "unset PATH; git status",
    "unset HOME; git status",
    "declare -n r=PATH; r=src; git status",
    "declare -n r=PATH; for r in src; do git status; done",
    "declare -n r; for r in PATH; do r=src; git status; done",
    "declare -n r; r=PATH; r=src; git status",
    "declare -n q=PATH; declare -n r=q; r=src; git status",
    "builtin declare -n r=PATH; r=src; git status",
    "export BASH_ENV; for BASH_ENV in src/x; do bash -c true; done",
    "for HOME in src; do git log; done",
    "for GIT_DIR in x; do git status; done",
    "exec {PATH}<f; git status",
    "wait -pPATH; git status",
    ": ${BASH_ENV:=src/x}; git status",
)
SETS_NOTHING = (
    "for path in src tests; do ls $path; done",
    "for i in 1 2; do git status; done",
    "mapfile -t files < <(git ls-files); echo ${#files[@]}",
    "while IFS= read -r line; do echo \"$line\"; done < a",
    "while getopts ab: opt; do echo $opt; done",
    "((i++)); if ((COLUMNS > 80)); then echo $i; fi",
    "for ((i=0;i<3;i++)); do echo $i; done",
    "declare -n ref=arr; ref=x; echo $arr",
    "unset IFS GIT_DIR; git status",
    "a=1; echo ${a:0:1} ${a[0]} \"PATH=${PATH}\"",
    "coproc { true; }; git status",
)  # fmt: skip


@pytest.mark.parametrize("command", SETS)
def test_a_variable_that_decides_what_runs_is_asked_about(command: str) -> None:
    assert bash(command).verdict in (Verdict.ASK, Verdict.DENY)


@pytest.mark.parametrize("command", SETS_NOTHING)
def test_other_variables_are_nobodys_matter(command: str) -> None:
    assert bash(command).verdict is Verdict.ALLOW
