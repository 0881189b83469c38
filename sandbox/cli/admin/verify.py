# SPDX-License-Identifier: Apache-2.0
"""`lockgate verify`: before a merge, every change of a protected path needs a person's approval."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from sandbox.cli import terminal
from sandbox.errors import SandboxError
from sandbox.text.terminal import safe_line

if TYPE_CHECKING:
    from sandbox.guard.verify import Checked, Report

HASH_CHARS = 12


@click.command(short_help="Check that changes of protected files were approved.")
@click.argument("path", required=False, default=".", metavar="[PATH]")
@click.option(
    "--base", metavar="REV", help="Since when; default: where the default branch is left."
)
@click.option("--tip", default="HEAD", show_default=True, metavar="REV", help="Up to which commit.")
@click.option("--worktree", is_flag=True, help="Check what is not committed yet as well.")
@click.option("--log", "log", metavar="FILE", help="Audit log; default: that of this user.")
@click.option(
    "--head", metavar="FILE", help="Kept head of the log; default: beside it, as `audit.head`."
)
@click.option(
    "--workspace", metavar="PATH", help="The repository's path in the log, if it is another."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def verify(
    path: str,
    base: str | None,
    tip: str,
    log: str | None,
    head: str | None,
    workspace: str | None,
    **flags: bool,
) -> int:
    """Check the repository at PATH (default: this folder): a person must have approved every
    change of a protected file, and the audit log must be whole.

    The status is 0 when all is approved, 1 when something is not or the log is broken, 125 when
    it cannot be checked.

    \b
    Examples:
      lockgate verify
      lockgate verify --base origin/main --json
      lockgate verify --log audit.jsonl --workspace /home/me/project
    """
    from sandbox.gates.policy_files import Policies
    from sandbox.guard.verify import Log, verify

    source = Log(
        terminal.dirs().state / "audit.jsonl" if log is None else Path(log),
        None if head is None else Path(head),
        own=log is None and head is None,
    )
    try:
        report = verify(
            Path(path),
            log=source,
            base=base,
            tip=tip,
            worktree=flags["worktree"],
            workspace=workspace,
            paths=Policies(terminal.dirs()).paths((str(Path(path).absolute()),)),
        )
    except SandboxError as error:
        terminal.refuse(error, terminal.FAILED)
    if flags["as_json"]:
        terminal.show_json(report.as_json())
    else:
        for text in lines(report):
            terminal.show(safe_line(text))
    return 0 if report.approved else terminal.REFUSED


def lines(report: Report) -> list[str]:
    """Return a report as it reads in the log of a CI service."""
    found = [_line(path) for path in report.paths]
    if report.chain is not None:
        found.append(f"BROKEN   {report.log}: {report.chain}")
    elif not report.head_kept:
        found.append(f"note     {report.log}: no head was kept of it, so a cut end does not show")
    missing = sum(not path.approved for path in report.paths)
    count = len(report.paths)
    base = report.branch or report.base[:HASH_CHARS]
    since = f"between {base} and {report.tip[:HASH_CHARS]}"
    if not count and report.base == report.tip:
        summary = f"nothing to check: {base} holds all of {report.tip[:HASH_CHARS]} already"
    elif not count:
        summary = f"no protected path changed {since}"
    elif missing:
        summary = f"{missing} of {count} changes of protected paths {since} not approved"
    else:
        summary = f"{count} change{'' if count == 1 else 's'} of protected paths {since}, approved"
    if report.chain is not None:
        summary += "; the audit log is broken"
    found.append(f"lockgate verify: {summary}")
    return found


def _line(checked: Checked) -> str:
    where = "" if checked.where == "committed" else f", {checked.where}"
    what = f"{checked.path}  ({checked.change}{where}; {checked.rule})"
    if not checked.approved:
        return f"MISSING  {what}: {checked.reason}"
    when = (checked.when or "")[:19].replace("T", " ")
    if checked.call is None:
        return f"ok       {what}: vouched for by {checked.by}, {when}"
    note = "" if checked.content == "equal" else "; its content is not recorded"
    return f"ok       {what}: approved by {checked.by}, {when}, call {checked.call}{note}"
