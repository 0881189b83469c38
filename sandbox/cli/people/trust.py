# SPDX-License-Identifier: Apache-2.0
"""`trust`: what agents have earned, and what a person sets in its place."""

from __future__ import annotations

from typing import Any

import click

from sandbox.cli import terminal
from sandbox.cli.options import JSON
from sandbox.errors import BadInput
from sandbox.text.terminal import safe_line

_LEVELS = click.Choice(["propose", "supervised", "semi-auto", "autonomous"])
_DOMAINS = click.Choice(["code_changes", "incident_rca", "decisions", "deployments"])


@click.group(short_help="See and set how far agents are trusted.")
def trust() -> None:
    """See what agents have earned per domain, and pin a level.

    \b
    Examples:
      lockgate trust show
      lockgate trust pin reviewer semi-auto --domain code_changes
      lockgate trust unpin reviewer
    """


@trust.command(short_help="Show what agents have earned.")
@click.argument("agent", required=False)
@JSON
def show(agent: str | None, **flags: bool) -> int:
    """Show level and score per domain, of AGENT or of all that did anything.

    \b
    Examples:
      lockgate trust show
      lockgate trust show reviewer --json
    """
    from sandbox.present.tables import table

    kept, policy = _kept(), _trust_file()
    agents = [agent] if agent else kept.agents() or ["main"]
    if flags["as_json"]:
        terminal.show_json(_status(agents))
        return 0
    states = {name: kept.states(name, policy) for name in agents}
    rows = [
        (
            safe_line(name),
            domain.value,
            policy.level(name, domain, dict(kept.earned(name, policy))).value,
            f"{state.score:.2f}",
            f"{state.successes}/{state.failures}/{state.reverts}/{state.violations}",
            "pinned" if state.pinned or policy.pinned(name) else "",
        )
        for name, found in states.items()
        for domain, state in found.items()
    ]
    heads = ("agent", "domain", "level", "score", "good/failed/undone/violations", "")
    terminal.show(table(heads, rows))
    for name in agents:
        for one, count in kept.violations_below(name).items():
            times = "once" if count == 1 else f"{count} times"
            terminal.show(
                f"{safe_line(one)}, which works for {safe_line(name)}, changed a protected path "
                f"{times}; that lowers its own level alone"
            )
    return 0


@trust.command(short_help="Set an agent's level, whatever it earns.")
@click.argument("agent")
@click.argument("level", type=_LEVELS)
@click.option("--domain", type=_DOMAINS, help="One domain; default: all.")
def pin(agent: str, level: str, domain: str | None) -> int:
    """Set the LEVEL of AGENT. Within the bounds of the policy file, which nothing goes beyond.

    \b
    Example:
      lockgate trust pin reviewer supervised
    """
    return _pin(agent, level, domain)


@trust.command(short_help="Let what an agent earns count again.")
@click.argument("agent")
@click.option("--domain", type=_DOMAINS, help="One domain; default: all.")
def unpin(agent: str, domain: str | None) -> int:
    """Take a pinned level away.

    \b
    Example:
      lockgate trust unpin reviewer
    """
    return _pin(agent, None, domain)


@trust.command(short_help="Say how an agent's action turned out.")
@click.argument("agent")
@click.argument("action")
@click.option("--success/--failure", required=True, help="How it turned out.")
@click.option("--confidence", type=click.FloatRange(0, 1), default=1.0, help="How sure you are.")
def record(agent: str, action: str, success: bool, confidence: float) -> int:
    """Note the outcome of ACTION (such as `edit_file`) for AGENT: a person's word.

    \b
    Example:
      lockgate trust record reviewer edit_file --success --confidence 0.8
    """
    from sandbox.agents.reputation import ReputationEvent, ReputationSource

    terminal.require_person("judging an agent")
    policy = _trust_file()
    event = ReputationEvent(
        policy.domain(action),
        success=success,
        confidence=confidence,
        source=ReputationSource.PERSON,
        what=action,
    )
    state = _kept().record(agent, event, policy)
    _note(agent, state, f"a person says that {action} {'went well' if success else 'failed'}")
    terminal.show(
        f"{safe_line(agent)}: {state.domain.value} {state.score:.2f}, {state.current.value}"
    )
    return 0


def _status(agents: list[str]) -> dict[str, Any]:
    """Return each agent's autonomy status, as it is told itself (orchestration.md)."""
    from sandbox.host.login import login
    from sandbox.mcp.governance.standpoint import Who
    from sandbox.mcp.governance.tools import Governance

    told = Governance(terminal.dirs())
    return {name: told.standing.autonomy_status(Who(agent=name, user=login())) for name in agents}


def _pin(agent: str, level: str | None, domain: str | None) -> int:
    from policy.autonomy.reputation import Domain, TrustLevel, rank

    terminal.require_person("trusting an agent")
    kept, policy = _kept(), _trust_file()
    if level is not None and policy.pinned(agent):
        raise BadInput(
            f"the policy pins `{safe_line(agent)}`; change `trust: pins:` in your policy file"
        )
    wanted = TrustLevel(level) if level else None
    for one in [Domain(domain)] if domain else list(Domain):
        state = kept.pin(agent, one, wanted, policy)
        _note(agent, state, f"a person pinned it to {level}" if level else "a person took the pin")
        counts = policy.level(agent, one, dict(kept.earned(agent, policy)))
        bounded = rank(counts) < rank(state.current)
        why = f" (not {state.current.value}: its parent, or the policy, goes no higher)"
        terminal.show(f"{safe_line(agent)}: {one.value} {counts.value}{why if bounded else ''}")
    return 0


def _note(agent: str, state: Any, because: str) -> None:
    from sandbox.audit.events.agents import ReputationRecord
    from sandbox.audit.store import Store

    Store(terminal.dirs()).append(
        ReputationRecord(
            agent=agent,
            domain=state.domain.value,
            because=because,
            score=state.score,
            level_after=state.current.value,
            by=terminal.user(),
        ),
        durable=True,
    )


def _kept() -> Any:
    from sandbox.agents.reputation import Reputations

    return Reputations(terminal.dirs().create())


def _trust_file() -> Any:
    from policy.values.strict_yaml import PolicyError
    from sandbox.gates.policy_files import Policies

    try:
        return Policies(terminal.dirs()).of(()).policy.autonomy.trust
    except PolicyError as error:
        raise BadInput(str(error)) from None
