# SPDX-License-Identifier: Apache-2.0
"""Whatever control flow decides about a variable, a function or a folder: what bash would run is
judged.

Random texts give `p` the words `push` and `status` in turn, under all that may keep an assignment
from happening; then `git $p` runs. Each is run by bash with a `git` that only writes down its word.
"""

from __future__ import annotations

import subprocess

from hypothesis import given
from hypothesis import strategies as st

from policy.gate1.decide import Policy, decide
from policy.model import ActionPlan, Context, Params, Verdict, Workspace
from policy.shell.compound import MOST_ROUNDS

POLICY = Policy.default()
CONTEXT = Context(workspaces=(Workspace("/workspace"),), home="/root")
STUB = 'git() { printf "%s " "${1-}" >&3; }\n'
QUIET = (Verdict.ALLOW, Verdict.REPORT)

SETS = st.sampled_from(["p=push", "p=status", "read -r p <<< status", "printf -v p %s status"])
"""What gives the variable a value."""
CONDITIONS = st.sampled_from(["true", "false", "[ -e /nowhere ]", "[[ -d / ]]", "((0))", "! true"])
FRAMES = st.sampled_from(
    [
        "{set}",
        "{condition} && {set}",
        "{condition} || {set}",
        "{condition} && {{ {set}; }}",
        "if {condition}; then {set}; fi",
        "if {condition}; then :; else {set}; fi",
        "({set})",
        "{set} | true",
        "{set} & wait",
        "for x in 1 2; do {condition} && break; {set}; done",
        "for x in $(printf ''); do {set}; done",
        "for x in 1; do {condition} && continue; {set}; done",
        "while {condition}; do {set}; break; done",
        "until {condition}; do {set}; break; done",
        "for ((i=0; i<0; i++)); do {set}; done",
        "f() {{ {condition} && return; {set}; }}; f",
        "f() {{ local p; {set}; }}; f",
        "f() {{ {set}; return; p=push; }}; f",
        "case a in b) {set};; esac",
        'eval "{condition} && {set}"',
        "{condition} && f() {{ {set}; }}; f 2>/dev/null",
        "f() {{ {set}; }}",
        "{condition} && eval '{set}'",
        ": $({set})",
    ]
)


@st.composite
def statements(draw: st.DrawFn) -> str:
    """Return a statement that perhaps gives the variable a value."""
    return draw(FRAMES).format(set=draw(SETS), condition=draw(CONDITIONS))


LASTS = st.sampled_from(
    ["git $p", 'git "$p"', 'bash -c "git $p"', 'eval "git $p"', "git $(echo $p)", "$q", "f; git $p"]
)


def ran(text: str) -> str:
    """Return the first words with which bash calls git."""
    inner = f"{STUB}export -f git\n{text}\n"
    with subprocess.Popen(
        ["bash", "-c", f"exec 3>&1 >/dev/null 2>&1\n{inner}"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    ) as process:
        return process.communicate(timeout=60)[0].decode()


def verdict_of(text: str) -> Verdict:
    """Return gate 1's verdict."""
    plan = ActionPlan(tool="Bash", params=Params(command=text), workspace="/workspace")
    return decide(plan, CONTEXT, POLICY).verdict


@given(first=SETS, middle=st.lists(statements(), min_size=1, max_size=3), last=LASTS)
def test_a_push_that_bash_would_make_is_asked_about(
    first: str, middle: list[str], last: str
) -> None:
    text = "\n".join((first, 'q="git $p"', *middle, last))
    if "push" in ran(text).split():
        assert verdict_of(text) not in QUIET, text


def test_a_loop_that_is_too_long_to_be_followed_may_be_left_as_others_may() -> None:
    many = " ".join(map(str, range(2 * MOST_ROUNDS)))
    text = f"for x in {many}; do p=push; break; p=status; done; git $p"
    assert ran(text) == "push "
    assert verdict_of(text) not in QUIET
    assert verdict_of(f"for x in {many}; do p=status; done; git $p") in QUIET


def test_the_stub_sees_a_push_and_a_plain_one_is_quiet() -> None:
    assert ran("p=push; false && p=status; git $p") == "push "
    assert verdict_of("p=status; p=status; git $p") in QUIET
    assert verdict_of("p=push; p=status; git $p") in QUIET  # it is certain
    assert verdict_of("p=push; git $p") not in QUIET
