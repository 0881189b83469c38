# SPDX-License-Identifier: Apache-2.0
"""`lockgate vouch`: a person vouches for changes of protected files that they made themselves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from sandbox.cli import terminal
from sandbox.cli.options import JSON
from sandbox.errors import BadInput
from sandbox.text.terminal import safe_line

if TYPE_CHECKING:
    from sandbox.guard.landings import Vouched
    from sandbox.guard.vouch import Change

HASH_CHARS = 12
_PLAIN, _LINK = "100644", "120000"
"""Modes, as git writes them."""


@click.command(short_help="Vouch for your own change of a protected file.")
@click.argument("names", nargs=-1, metavar="[PATH]...")
@click.option(
    "--base", metavar="REV", help="Since when; default: where the default branch is left."
)
@click.option("--tip", default="HEAD", show_default=True, metavar="REV", help="Up to which commit.")
@click.option("--worktree", is_flag=True, help="Also what is not committed yet.")
@click.option("--withdraw", is_flag=True, help="Take back what you vouched for at these paths.")
@click.option("--reason", default="", metavar="TEXT", help="Why, for the record.")
@click.option("--yes", is_flag=True, help="Do not show it and ask; needs a terminal all the same.")
@JSON
def vouch(names: tuple[str, ...], base: str | None, tip: str, reason: str, **flags: bool) -> int:
    """Show how each PATH changed and vouch for it: from then on `lockgate verify` accepts the path
    with exactly that content. Without a PATH, list what is vouched for.

    It is for what you changed yourself, in an editor or with git, and needs a terminal.

    \b
    Examples:
      lockgate vouch devkit.config.json .github/workflows/ci.yml
      lockgate vouch .envrc --base origin/main --reason 'new proxy'
      lockgate vouch
      lockgate vouch --withdraw .envrc
    """
    from sandbox.audit.events.protected import VouchRecord
    from sandbox.audit.store import Store
    from sandbox.gates.policy_files import Policies
    from sandbox.guard.vouch import to_vouch

    here = Path.cwd()
    if not names:
        if flags["withdraw"]:
            raise BadInput("name the paths that you vouched for; `lockgate vouch` lists them")
        return _list(as_json=flags["as_json"])
    terminal.require_person("vouching")
    if flags["withdraw"]:
        return _withdraw(here, names, reason)
    top, changes = to_vouch(
        here,
        names,
        base=base,
        tip=tip,
        worktree=flags["worktree"],
        paths=Policies(terminal.dirs()).paths((str(here),)),
    )
    if not flags["yes"]:
        for one in changes:
            click.echo(_shown(one), err=True)
        if not terminal.ask(f"Vouch for {_count(len(changes))}?"):
            terminal.say("not vouched for; nothing is recorded")
            return terminal.REFUSED
    record = VouchRecord(
        event="vouched",
        workspace=top,
        changes=[change.as_record() for change in changes],
        by=terminal.user(),
        answer_reason=reason,
    )
    Store(terminal.dirs().create()).append(record, durable=True)
    for one in changes:
        terminal.show(f"vouched for {safe_line(one.path)} ({_content(one.as_record()['sha256'])})")
    terminal.say("`lockgate vouch --withdraw PATH` takes it back; other content needs another word")
    return 0


def _list(*, as_json: bool) -> int:
    from dataclasses import asdict

    from sandbox.present.tables import table

    vouched_changes = _all()
    if as_json:
        terminal.show_json([asdict(vouched) for vouched in vouched_changes])
        return 0
    rows = [
        (
            safe_line(vouched.path),
            safe_line(vouched.workspace),
            vouched.kind,
            _content(vouched.sha256),
            safe_line(vouched.by),
            vouched.when[:19].replace("T", " "),
        )
        for vouched in vouched_changes
    ]
    heads = ("path", "repository", "change", "content", "by", "when")
    terminal.show(table(heads, rows) if rows else "nothing is vouched for")
    return 0


def _withdraw(here: Path, names: tuple[str, ...], reason: str) -> int:
    from sandbox.audit.events.protected import VouchRecord
    from sandbox.audit.store import Store
    from sandbox.guard.untrusted_repository import Repository
    from sandbox.guard.vouch import relative_name
    from sandbox.workspaces.protected_paths import printable

    top = Repository(here).top
    paths = [printable(relative_name(top, here, name)) for name in names]
    known = {vouched.path for vouched in _all() if vouched.workspace == str(top)}
    for path in paths:
        if path not in known:
            raise BadInput(
                f"nobody vouches for `{safe_line(path)}`; `lockgate vouch` lists what is"
            )
    record = VouchRecord(
        event="vouch-withdrawn",
        workspace=str(top),
        changes=[{"path": path} for path in paths],
        by=terminal.user(),
        answer_reason=reason,
    )
    Store(terminal.dirs()).append(record, durable=True)
    for path in paths:
        terminal.show(f"no longer vouched for: {safe_line(path)}")
    return 0


def _all() -> list[Vouched]:
    from sandbox.guard.landings import Landings

    landings = Landings(terminal.dirs().state / "audit.jsonl", lambda _: False)
    landings.refresh()
    return landings.all_vouched()


def _shown(change: Change) -> str:
    from sandbox.text.unified import unified

    lines = [f"{safe_line(change.path)}: {change.kind} ({change.rule})"]
    if change.mode_before != change.mode and change.mode_before and change.mode:
        lines.append(f"mode {change.mode_before} -> {change.mode}")
    elif change.mode not in (None, _PLAIN):
        lines.append(f"mode {change.mode}{' (a link)' if change.mode == _LINK else ''}")
    if any(b"\0" in (data or b"") for data in (change.before, change.after)):
        lines.append(f"binary content, {_content(change.as_record()['sha256'])}")
    elif change.before != change.after:
        lines.append(unified(change.path, change.before, change.after) or "an empty file")
    return "\n".join(lines)


def _content(sha256: str | None) -> str:
    return "deleted" if sha256 is None else f"SHA-256 {sha256[:HASH_CHARS]}…"


def _count(count: int) -> str:
    return "this change" if count == 1 else f"these {count} changes"
