# SPDX-License-Identifier: Apache-2.0
"""The policy that counts, as data and as text: its files, and each rule with its file and line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from policy.model import Tier
from policy.rules.matching import Rule
from policy.rules.tiers import VERDICTS
from policy.sources.precedence import Effective, Layer
from sandbox.policy_tools.rule_sources import built_in_place
from sandbox.present.tables import table
from sandbox.text.terminal import safe_line

MOST_NAMES = 3
"""Names of files or programs that a row shows."""


def view(
    effective: Effective,
    files: Sequence[tuple[Layer, Path]],
    parts: Sequence[tuple[Path, str]] = (),
) -> dict[str, Any]:
    """Return the policy as JSON has it; `files` are those that count where they exist, `parts` the
    user's files on levels, modes, trust and roles with their digests."""
    return {
        "digest": effective.policy.digest,
        "files": [
            *(_part(path, digest) for path, digest in parts),
            *(_file(effective, layer, path) for layer, path in files),
        ],
        "ignored": list(effective.ignored),
        "rules": list(_rules(effective)),
        "secrets": {
            "hide": [n for secret in _secrets(effective) for n in secret.hide],
            "show": [n for secret in _secrets(effective) for n in secret.show],
        },
        "limits": [limit.model_dump(exclude_none=True) for limit in effective.policy.limits],
        "mode": effective.policy.autonomy.modes.mode.value,
        "roles": list(effective.policy.autonomy.roles.names),
    }


def _part(path: Path, digest: str) -> dict[str, Any]:
    return {"layer": Layer.USER.value, "file": str(path), "state": "counts", "digest": digest}


def _secrets(effective: Effective) -> tuple[Any, ...]:
    secrets = effective.paths.secrets
    return (secrets, *secrets.later)


def _file(effective: Effective, layer: Layer, path: Path) -> dict[str, Any]:
    found = next(
        (source for source in effective.sources if source.document.name == str(path)), None
    )
    state = "absent"
    if found is not None:
        state = "counts" if found.trusted else "only tightens"
    return {
        "layer": layer.value,
        "file": str(path),
        "state": state,
        "digest": found.document.digest if found else None,
    }


def _rules(effective: Effective) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    from_files = {
        rule.id for source in effective.sources for rule in source.document.content.governance
    }
    for rule in effective.policy.rules:
        if rule.id not in from_files:  # shown below, as what the file says
            rows.append(
                _row(effective, "rule", rule.id, _triggers(rule), _decisions(rule), rule.because)
            )
    for command in effective.policy.commands:
        verdict = VERDICTS[Tier(command.tier)].value
        rows.append(
            _row(effective, "command", command.id, command.programs, verdict, command.because)
        )
    for governance_rule in effective.paths.governance:
        rows.append(
            _row(
                effective,
                "governance",
                governance_rule.id,
                governance_rule.paths,
                "discard",
                governance_rule.because or governance_rule.name,
            )
        )
    for obeyed in effective.paths.obeyed:
        rows.append(_row(effective, "obeyed", obeyed.id, obeyed.paths, "hold", obeyed.because))
    return rows


def _row(
    effective: Effective, kind: str, rule: str, names: Sequence[str], verdict: str, because: str
) -> dict[str, Any]:
    places = effective.places(rule)
    if not places:
        layer = "paths" if kind in ("governance", "obeyed") else "rules"
        places = (built_in_place(layer, rule, ""),)
    return {
        "id": rule,
        "kind": kind,
        "names": list(names),
        "verdict": verdict,
        "because": because,
        "places": list(places),
    }


def _triggers(rule: Rule) -> tuple[str, ...]:
    one = rule.triggers
    return (*one.file_patterns, *one.command_patterns, *one.keywords)


def _decisions(rule: Rule) -> str:
    return ", ".join(dict.fromkeys(check.decision for check in rule.enforcement.checks))


def show_text(said: dict[str, Any]) -> str:
    """Return the policy for a person."""
    files = table(
        ("layer", "state", "file"),
        [(one["layer"], one["state"], one["file"]) for one in said["files"]],
        styles={"counts": "green", "only tightens": "yellow"},
    )
    rules = table(
        ("rule", "kind", "verdict", "names", "where"),
        [
            (one["id"], one["kind"], one["verdict"], _brief(one["names"]), ", ".join(one["places"]))
            for one in said["rules"]
        ],
        styles={"deny": "red", "discard": "red", "ask": "magenta", "hold": "magenta"},
    )
    lines = [f"policy {said['digest'][:12]}, mode {said['mode']}", files]
    lines += [safe_line(f"ignored: {one}") for one in said["ignored"]]
    lines += [rules, *_limits(said["limits"])]
    count = len(said["secrets"]["hide"])
    lines.append(f"{count} patterns of files that cells do not see; `--json` lists them")
    return "\n".join(lines)


def _limits(limits: Sequence[dict[str, Any]]) -> list[str]:
    return [
        f"limits: {', '.join(f'{name} {value:g}' for name, value in limit.items())}"
        for limit in limits
    ]


def _brief(names: Sequence[str]) -> str:
    more = f" +{len(names) - MOST_NAMES}" if len(names) > MOST_NAMES else ""
    return " ".join(names[:MOST_NAMES]) + more
