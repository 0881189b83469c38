# SPDX-License-Identifier: Apache-2.0
"""`lockgate policy test` and `lockgate policy diff`: try a policy on calls. Nothing runs."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from sandbox.cli import terminal
from sandbox.cli.policy.policy_shared import (
    DEFAULTS,
    EFFECTIVE,
    JSON,
    WORKSPACE,
    cases_of,
    named,
    place_of,
    policies,
)
from sandbox.host import login as person
from sandbox.text.terminal import safe_line

if TYPE_CHECKING:
    from sandbox.policy_tools.cases import Case

DIFFERS = 1


@click.command(short_help="Run a file of cases: calls and the verdicts that they must get.")
@WORKSPACE
@JSON
@click.option("--policy", "draft", metavar="FILE", help="Try this policy file, on the defaults.")
@click.argument("file", metavar="FILE")
def test(file: str, workspace: str | None, draft: str | None, **flags: bool) -> int:
    """Ask gate 1 about each case of FILE: {command, verdict} or {tool, params, verdict}, with an
    optional rule, in YAML or JSON lines. The status is 1 when one gets another verdict.

    \b
    Examples:
      lockgate policy test cases.yaml
      lockgate policy test cases.jsonl --policy draft.yaml
    """
    from sandbox.policy_tools.cases import run

    known = policies()
    found = named(known, draft or EFFECTIVE, place_of(workspace)).policy
    cases = cases_of(file, found)
    began = time.perf_counter()
    outcomes = list(run(cases, found))
    seconds = time.perf_counter() - began
    failed = [outcome for outcome in outcomes if outcome.wrong]
    if flags["as_json"]:
        terminal.show_json(
            [
                {
                    "case": outcome.case.place,
                    "call": outcome.case.shown,
                    "verdict": outcome.decision.verdict.value,
                    "rules": list(outcome.decision.rules),
                    "passed": not outcome.wrong,
                    "wrong": outcome.wrong or None,
                }
                for outcome in outcomes
            ]
        )
        return terminal.REFUSED if failed else 0
    for one in failed:
        terminal.show(safe_line(f"FAILED {one.case.place}: `{one.case.shown}`: {one.wrong}"))
    parts = [f"{len(failed)} failed"] if failed else []
    parts += [f"{len(outcomes) - len(failed)} passed"] if len(failed) < len(outcomes) else []
    terminal.show(f"{', '.join(parts)} in {seconds:.2f}s")
    return terminal.REFUSED if failed else 0


@click.command(short_help="Say which calls two policies answer differently.")
@WORKSPACE
@JSON
@click.option("--cases", metavar="FILE", help="Compare on these; default: all examples.")
@click.option("--user", metavar="NAME", help="User whose levels count; default: you.")
@click.option("--exit-code", is_flag=True, help="End with 1 when a call gets another verdict.")
@click.argument("old", default=DEFAULTS)
@click.argument("new", default=EFFECTIVE)
def diff(
    old: str, new: str, workspace: str | None, cases: str | None, user: str | None, **flags: bool
) -> int:
    """Compare OLD (default: `defaults`) and NEW (default: `effective`, what counts in the
    workspace). Each is one of these words, or `user`, `workspace`, `administrator`: what counts up
    to that file; or a policy file, which is put on the defaults. They are compared on the built-in
    examples and those of the files themselves.

    The status is 0; with --exit-code, 1 when a case changes its verdict.

    \b
    Examples:
      lockgate policy diff
      lockgate policy diff user workspace
      lockgate policy diff defaults draft.yaml --cases cases.yaml
    """
    from sandbox.policy_tools.cases import examples, of_files, run

    known, place = policies(), place_of(workspace)
    before, after = named(known, old, place), named(known, new, place)
    own = {file.plan.digest(): file for both in (before, after) for file in of_files(both)}
    compared = cases_of(cases, before.policy) if cases else (*examples(), *own.values())
    compared = tuple(_asked_by(case, user or person.login()) for case in compared)
    pairs = zip(run(compared, before.policy), run(compared, after.policy), strict=True)
    changed = [(a, b) for a, b in pairs if a.decision.verdict is not b.decision.verdict]
    rows = []
    for a, b in changed:
        rule = b.decision.rules[0] if b.decision.rules else ""
        rows.append({"case": a.case.place, "call": a.case.shown,
                     "old": a.decision.verdict.value, "new": b.decision.verdict.value,
                     "rule": rule, "places": list(after.places(rule))})  # fmt: skip
    status = DIFFERS if rows and flags["exit_code"] else 0
    if flags["as_json"]:
        terminal.show_json({"compared": len(compared), "changed": rows})
        return status
    for row in rows:
        where = f", {', '.join(row['places'])}" if row["places"] else ""
        line = f"{row['old']} -> {row['new']}: `{row['call']}` (rule {row['rule']}{where})"
        terminal.show(safe_line(line))
    terminal.show(f"{len(rows)} of {len(compared)} calls get another verdict")
    return status


def _asked_by(case: Case, user: str) -> Case:
    """Return a case as one of a user, unless it says whose it is."""
    if case.plan.user != person.NOBODY:
        return case
    return replace(case, plan=case.plan.model_copy(update={"user": user}))
