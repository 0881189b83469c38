# SPDX-License-Identifier: Apache-2.0
"""`lockgate policy`: see, check, try and compare policy files, and trust a workspace's own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sandbox.cli import terminal
from sandbox.cli.policy.policy_learn import simulate, suggest
from sandbox.cli.policy.policy_shared import (
    JSON,
    WORKSPACE,
    chosen,
    effective_of,
    place_of,
    policies,
)
from sandbox.cli.policy.policy_try import diff, test
from sandbox.errors import BadInput
from sandbox.text.terminal import safe_line

if TYPE_CHECKING:
    from sandbox.gates.policy_files import Policies


@click.group(
    commands=[test, diff, simulate, suggest],
    short_help="Show, check, try, compare and trust policy files.",
)
def policy() -> None:
    """Work with policy files: yours, a workspace's `.lockgate/policy.yaml`, an administrator's.

    \b
    Examples:
      lockgate policy show
      lockgate policy validate draft.yaml
      lockgate policy test cases.yaml
    """


@policy.command(short_help="Show the policy that counts, and where each rule stands.")
@WORKSPACE
@JSON
def show(workspace: str | None, **flags: bool) -> int:
    """Show the files that count for the workspace, and each rule with its file and line.

    \b
    Examples:
      lockgate policy show
      lockgate policy show --json -w ~/project
    """
    from sandbox.policy_tools.view import show_text, view

    known, place = policies(), place_of(workspace)
    said = view(effective_of(known, place), known.files((place,)), known.parts())
    if flags["as_json"]:
        terminal.show_json(said)
    else:
        terminal.show(show_text(said))
    return 0


@policy.command(short_help="Say whether policy files are right.")
@WORKSPACE
@JSON
@click.argument("files", nargs=-1, metavar="[FILE]...")
def validate(files: tuple[str, ...], workspace: str | None, **flags: bool) -> int:
    """Read each FILE (default: all that count for the workspace) as a call would: keys, types,
    rules without effect, examples. The status is 1 when one is wrong, 2 when one is not there.

    \b
    Examples:
      lockgate policy validate
      lockgate policy validate .lockgate/policy.yaml
    """
    from policy.gate1.decide import Policy
    from policy.sources.examples import without_effect
    from policy.values.strict_yaml import PolicyError

    known, place = policies(), place_of(workspace)
    results: list[dict[str, Any]] = []
    documents: dict[str, Any] = {}
    for layer, path in chosen(known, place, files):
        problem, document = "", None
        try:
            document = known.document(layer, path)
            if document is None:
                if files:
                    raise BadInput(f"`{path}` is not there")
                continue
        except PolicyError as error:
            problem = str(error)
        digest = document.digest if document else None
        if document is not None:
            documents[str(path)] = document
        results.append(
            {"file": str(path), "valid": not problem, "problem": problem or None, "digest": digest}
        )
    if not files:
        results += _together(known, place, results)
    for one in results:
        one["warnings"] = _warnings(Path(one["file"])) if one["valid"] else []
        if document := documents.get(one["file"]):
            one["warnings"] += without_effect(document, Policy.default())
    wrong = any(not result["valid"] for result in results)
    if flags["as_json"]:
        terminal.show_json(results)
        return terminal.REFUSED if wrong else 0
    for one in results:
        for warning in one["warnings"]:
            terminal.show(safe_line(f"warning: {warning}"))
        terminal.show(safe_line(str(one["problem"] or f"{one['file']}: ok")))
    if not results:
        terminal.show("no policy file is there; the built-in rules count")
    return terminal.REFUSED if wrong else 0


def _warnings(path: Path) -> list[str]:
    """Return what a valid file says without effect, as the user's settings are."""
    from policy.values.strict_yaml import PolicyError
    from sandbox.config.settings import load_settings
    from sandbox.host.text_files import read_text
    from sandbox.reporting.channels import unknown

    dirs = terminal.dirs()
    try:
        text, known = read_text(path), load_settings(dirs).channels
        found = list(unknown(text, str(path), known)) if text else []
    except (PolicyError, BadInput):  # settings that cannot be read: every other command says so
        return []
    return [f"{one}; add it under `channels` in {dirs.settings}" for one in found]


def _together(known: Policies, place: str, read: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the results of the user's files on levels, modes, trust and roles, and mark in `read`
    what is wrong with what all files amount to together."""
    from policy.values.strict_yaml import PolicyError

    problem = ""
    try:
        known.of((place,))
    except PolicyError as error:
        problem = str(error)
    try:
        parts = [
            {"file": str(path), "valid": True, "problem": None, "digest": digest}
            for path, digest in known.parts()
        ]
    except PolicyError:  # it is the problem
        parts = []
    if problem and all(one["valid"] for one in read):
        file = next((one for one in (*read, *parts) if problem.startswith(one["file"])), None)
        if file is None:
            file = {"file": problem.split(":", 1)[0], "digest": None}
            parts.append(file)
        file |= {"valid": False, "problem": problem}
    return parts


@policy.command(short_help="Print the JSON schema of policy files, for editors.")
def schema() -> int:
    """Print the JSON schema of a policy file.

    \b
    Example:
      lockgate policy schema > lockgate-policy.schema.json
    """
    from policy.sources.schema import PolicyDocument

    terminal.show_json(PolicyDocument.model_json_schema())
    return 0


@policy.command(short_help="Trust a workspace's policy file as it is now.")
@WORKSPACE
@click.option("--yes", is_flag=True, help="Say yes without being asked.")
@click.option("--revoke", is_flag=True, help="Trust it no more.")
def trust(workspace: str | None, **flags: bool) -> int:
    """Let the workspace's `.lockgate/policy.yaml` loosen what the files before it say. Its digest
    is kept: any change of it ends the trust. The status is 1 for a no.

    \b
    Examples:
      lockgate policy trust
      lockgate policy trust -w ~/project --yes
    """
    from policy.sources.precedence import Layer
    from sandbox.gates.policy_files import workspace_file

    known, place = policies(), place_of(workspace)
    path = workspace_file(place)
    terminal.only_a_person("trusting a policy file")
    if flags["revoke"]:
        gone = known.trusted.remove(path)
        terminal.show(safe_line(f"{path}: {'trusted no more' if gone else 'was not trusted'}"))
        return 0
    effective = effective_of(known, place)
    document = next(
        (source.document for source in effective.sources if source.layer is Layer.WORKSPACE), None
    )
    if document is None:
        raise BadInput(f"`{path}` is not there; there is nothing to trust")
    for line in effective.ignored or ("it only tightens as it is",):
        terminal.say(line)
    if not flags["yes"] and not terminal.agree(
        f"Trust {safe_line(str(path))} as it is now?",
        alone="trust needs your yes; give it at a terminal or with `--yes`",
        no="not trusted",
    ):
        return terminal.REFUSED
    terminal.dirs().create()
    known.trusted.add(document)
    terminal.show(safe_line(f"{path}: trusted ({document.digest[:12]})"))
    return 0
