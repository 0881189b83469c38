# SPDX-License-Identifier: Apache-2.0
"""Options that say what a program runs were passed by: texts, abbreviations, keys of a policy."""

from __future__ import annotations

import pytest

from policy.gate1.decide import Policy, decide
from policy.model import ActionPlan, Context, Params, Workspace

CONTEXT = Context(workspaces=(Workspace("/workspace"),), home="/root")


def verdict(command: str) -> str:
    plan = ActionPlan(tool="Bash", params=Params(command=command), workspace="/workspace")
    return decide(plan, CONTEXT, Policy.default()).verdict.value


CASES = {
    "pylint --init-hook='import os; os.system(\"rm -rf src\")' a": ("deny",),
    "pylint --init-hook='import sys; sys.path.append(\"src\")' a": ("report",),
    "latexmk -pdflatex='rm -rf src; pdflatex' a.tex": ("deny",),
    "latexmk -e 'system(\"rm -rf src\")' a.tex": ("ask", "deny"),
    "latexmk --e 'system(\"rm -rf src\")' a.tex": ("ask", "deny"),
    "latexmk --r src/rc a.tex": ("report",),
    "latexmk -latexoption=-shell-escape a.tex": ("ask",),
    "latexmk -pdflatexoption=-halt-on-error a.tex": ("report",),
    "npm exec --no -- tsc": ("report",),
    "npm exec --nod x -- tsc": ("ask",),
    "latexmk -lualatex -outdir=build a.tex": ("report",),
    "java -XX:OnOutOfMemoryError='rm -rf src' -jar a.jar": ("deny",),
    "java -XX:+UseG1GC -Xmx2g -jar a.jar": ("report",),
    "npm --script-shel='x y' run test": ("ask",),
    "npm ci --prefer-offline --no-audit --ignore-scripts": ("report",),
    "less --lesskey-s=f a": ("ask",),
    "less --lesskey-content=x a": ("ask",),
    "less -RN a": ("allow",),
    "man --config-fi=f ls": ("ask",),
    "man -k printf": ("allow",),
    "go env -w GOFLAGS=-mod=mod": ("ask",),
    "go env GOPATH": ("report",),
}


@pytest.mark.parametrize("command", CASES)
def test_what_an_option_sets_counts(command: str) -> None:
    assert verdict(command) in CASES[command]
