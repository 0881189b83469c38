# SPDX-License-Identifier: Apache-2.0
"""Check what this user has set up: settings, policy files, channels, the guard, agents."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from policy.autonomy.levels import Levels
from policy.sources.precedence import Layer
from policy.values.strict_yaml import PolicyError
from sandbox.config.settings import load_settings
from sandbox.doctor.check import CheckStatus, HostCheck
from sandbox.errors import BadInput, SandboxError
from sandbox.host.dirs import Dirs
from sandbox.operations.requests import PsRequest
from sandbox.text.terminal import safe_line

_MOST_NAMED = 5
"""Changed files of which a line names the path."""


def check_guard(dirs: Dirs) -> HostCheck:
    """Say whether protected files are guarded while the supervisor lives."""
    from sandbox.client.blocking import BlockingClient
    from sandbox.client.connect import connect as reached

    try:
        if not load_settings(dirs).guard.enabled:
            return HostCheck(
                "guard", CheckStatus.WARN, "off by the settings", "set `guard: {enabled: true}`"
            )
        line = reached(dirs)
        if line is None:
            return HostCheck("guard", CheckStatus.OK, "comes with the supervisor; none runs now")
        line.close()
        with BlockingClient(dirs) as client:
            client.keep_running()  # whatever its settings
            found = dict(client.ask(PsRequest()).get("guard") or {})
    except SandboxError as error:
        return HostCheck("guard", CheckStatus.WARN, str(error))
    said = found.get("failed") or ()
    if found.get("state") == "failed" or said:
        why = "; ".join([*([found["problem"]] if found.get("problem") else ()), *said])
        return HostCheck(
            "guard", CheckStatus.WARN, f"failed: {why}", "calls go on; see the supervisor's log"
        )
    count = found.get("guarded", 0)
    return HostCheck(
        "guard", CheckStatus.OK, f"{found.get('state', 'starting')}, {count} protected paths"
    )


def check_changes_around(dirs: Dirs) -> Iterator[HostCheck]:
    """Name what was changed around Lockgate and not acknowledged, if there is something."""
    from sandbox.audit.open_changes import OpenChanges

    try:
        changed = OpenChanges(dirs).read()
    except OSError as error:
        yield HostCheck(
            "protected files", CheckStatus.WARN, f"the log cannot be read: {error.strerror}"
        )
        return
    if changed:
        names = ", ".join(
            sorted({f"`{safe_line(record.path)}`" for record in changed})[:_MOST_NAMED]
        )
        count = len(changed)
        said = f"{count} change{'' if count == 1 else 's'} around Lockgate: {names}"
        advice = "`lockgate guard --once` lists them; `--acknowledge` once you have seen them"
        yield HostCheck("protected files", CheckStatus.WARN, said, advice)


def check_settings(dirs: Dirs) -> HostCheck:
    """Check that the settings can be read; no call runs otherwise."""
    try:
        load_settings(dirs)
    except BadInput as error:
        return HostCheck("settings", CheckStatus.FAIL, str(error), "mend the file, or remove it")
    where = str(dirs.settings) if dirs.settings.exists() else "none: the defaults count"
    return HostCheck("settings", CheckStatus.OK, where)


def check_policy_files(dirs: Dirs) -> Iterator[HostCheck]:
    """Check each policy file that counts for a workspace; a wrong one stops every call there."""
    from sandbox.gates.policy_files import Policies
    from sandbox.workspaces.registry import Registry

    known = Policies(dirs)
    try:
        workspaces = tuple(workspace.path for workspace in Registry(dirs).list())
        own = known.of(())  # the user's files on levels, modes, trust and roles
    except (BadInput, PolicyError) as error:
        yield HostCheck("policy", CheckStatus.FAIL, str(error), "mend the file, or remove it")
        return
    read, wrong = 0, False
    for layer, path in known.files(workspaces):
        try:
            read += known.document(layer, path) is not None
            if layer is Layer.WORKSPACE:
                known.of((str(path.parent.parent),))  # what the files amount to together
        except PolicyError as error:
            wrong = True
            yield HostCheck(
                "policy", CheckStatus.FAIL, str(error), "mend the file; no call runs there"
            )
    if wrong:
        return
    detail = f"{read} policy file{'s' if read != 1 else ''} besides the built-in rules"
    yield HostCheck("policy", CheckStatus.OK, detail)
    yield from check_channels(dirs, own.policy.autonomy.levels)


def check_channels(dirs: Dirs, levels: Levels) -> Iterator[HostCheck]:
    """Check that each escalation channel that a user names is there; else nobody is told."""
    named = levels.channels()
    try:
        configured = load_settings(dirs).channels
    except BadInput:  # said already
        return
    missing = [f"`{one}` of {who}" for who, one in named.items() if one not in configured]
    if missing:
        detail = f"{', '.join(missing)}: no such channel, so reports and questions go nowhere else"
        yield HostCheck(
            "channels", CheckStatus.WARN, detail, f"add it under `channels` in {dirs.settings}"
        )
    elif named:
        yield HostCheck("channels", CheckStatus.OK, ", ".join(sorted(set(named.values()))))


def check_agents(dirs: Dirs) -> Iterator[HostCheck]:
    """Try each connected agent: is it written, trusted, does it work, did it ever fire."""
    from sandbox.connect.health import standing
    from sandbox.host.relaunch import program
    from sandbox.workspaces.registry import Registry

    try:
        first = next(iter(Registry(dirs).list()), None)
    except BadInput as error:
        yield HostCheck("agents", CheckStatus.FAIL, str(error))
        return
    for name, status, detail, fix in standing(dirs, program(), Path(first.path) if first else None):
        yield HostCheck(name, CheckStatus(status), detail, fix)
