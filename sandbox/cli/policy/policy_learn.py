# SPDX-License-Identifier: Apache-2.0
"""`lockgate policy simulate` and `lockgate policy suggest`: learn from the record. Nothing runs."""

from __future__ import annotations

import time
from pathlib import Path

import click

from sandbox.cli import terminal
from sandbox.cli.policy.policy_shared import JSON
from sandbox.errors import BadInput
from sandbox.text.terminal import safe_line

DIFFERS = 1
_SHOWN = 50


@click.command(short_help="Replay the record under another policy file.")
@click.option(
    "--layer",
    type=click.Choice(["user", "workspace", "administrator"]),
    default="user",
    help="In the place of which file it counts; default: user.",
)
@click.option("--since", metavar="TIME", help="Only decisions from then on: 2h, 3d, or ISO 8601.")
@click.option("--until", metavar="TIME", help="Only decisions before then.")
@click.option(
    "-n", "--limit", type=click.IntRange(min=1), default=10_000, help="At most so many, the newest."
)
@JSON
@click.argument("file", metavar="FILE")
def simulate(
    file: str, layer: str, since: str | None, until: str | None, limit: int, **flags: bool
) -> int:
    """Decide the calls of the record anew, as if FILE were your policy file, and show which get
    another verdict, and by which rule. The status is 1 when one does.

    \b
    Examples:
      lockgate policy simulate draft.yaml
      lockgate policy simulate draft.yaml --since 7d --json
      lockgate policy simulate team.yaml --layer administrator
    """
    from policy.sources.precedence import Layer
    from sandbox.audit.query import Query, instant
    from sandbox.audit.reader import Audit
    from sandbox.gates.policy_files import Policies
    from sandbox.gates.second_opinion import SecondOpinion
    from sandbox.policy_tools.simulate import Instead, Judge
    from sandbox.policy_tools.simulate import simulate as replay

    path = Path(file).absolute()
    if not path.is_file():
        raise BadInput(f"`{file}` is not there; name a policy file")
    dirs, now, opinion = terminal.dirs().create(), time.time(), SecondOpinion()
    query = Query(since=instant(since, now), until=instant(until, now), limit=limit)
    try:
        simulation = replay(
            Audit(dirs).decisions(query),
            Judge(dirs, Policies(dirs), opinion),
            Judge(dirs, Instead(dirs, Layer(layer), path), opinion),
        )
    finally:
        opinion.close()
    if flags["as_json"]:
        terminal.show_json(simulation.as_json())
        return DIFFERS if simulation.differs else 0
    for difference in simulation.differs[:_SHOWN]:
        times = f" ({difference.times} times)" if difference.times > 1 else ""
        masked = " (masked in the record: judged as it stands there)" if difference.masked else ""
        what = difference.action or difference.tool
        terminal.show(
            safe_line(
                f"{difference.before} -> {difference.after}: {difference.call}{times} "
                f"{difference.agent}: `{what}` (rule {difference.rule or 'none'}){masked}"
            )
        )
    if len(simulation.differs) > _SHOWN:
        terminal.show(f"... and {len(simulation.differs) - _SHOWN} more; `--json` shows all")
    changed = ", ".join(f"{count} {what}" for what, count in simulation.changes.items())
    terminal.show(
        f"{simulation.stricter + simulation.milder} of {simulation.decisions} decisions would "
        "differ" + (f": {changed}" if changed else "")
    )
    if simulation.drifted:
        terminal.show(
            f"{simulation.drifted} more get another verdict today than then, whatever "
            f"{safe_line(file)} says: policy files, trust or workspaces have changed"
        )
    if simulation.unreadable:
        terminal.show(f"{simulation.unreadable} could not be read from the record")
    return DIFFERS if simulation.differs else 0


@click.command(short_help="Propose narrow rules from what was approved again and again.")
@click.option("--since", metavar="TIME", help="Only what was asked from then on; default: 30d.")
@click.option(
    "--least", type=click.IntRange(min=2), default=3, help="Approvals that it takes; default: 3."
)
@JSON
def suggest(since: str | None, least: int, **flags: bool) -> int:
    """Print a policy file with rules for what people approved at least so often and never refused,
    each with calls that it lets pass and others that it does not. Nothing is applied.

    \b
    Examples:
      lockgate policy suggest
      lockgate policy suggest --since 7d --least 5 > draft.yaml
    """
    from policy.values.strict_yaml import PolicyError
    from sandbox.audit.query import Query, instant
    from sandbox.audit.reader import Audit
    from sandbox.gates.policy_files import Policies
    from sandbox.policy_tools.suggest import suggest as propose
    from sandbox.policy_tools.suggest import text_of

    dirs = terminal.dirs().create()
    query = Query(since=instant(since or "30d", time.time()))
    try:
        suggestions = propose(Audit(dirs).families(query), Policies(dirs).of, least=least)
    except PolicyError as error:
        raise BadInput(str(error)) from None
    if flags["as_json"]:
        terminal.show_json([suggestion.as_json() for suggestion in suggestions])
    elif suggestions:
        terminal.show(text_of(suggestions).rstrip("\n"))
    else:
        terminal.say(f"nothing was approved {least} times or more and never refused")
    return 0
