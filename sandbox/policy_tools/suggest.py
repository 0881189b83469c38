# SPDX-License-Identifier: Apache-2.0
"""Propose narrow rules from what people approved again and again. Applies nothing.

A proposal needs several approvals of one shape and not one refusal. Each is tried before it is
shown: the calls that were approved must pass with it, and others that look like them must not.
Only questions that were asked for a want of knowledge lead to a rule: a tool that nobody knows,
programs that nobody knows, files that are made anew. What is FORBIDDEN, a governance rule, a secret
or a folder outside is never proposed. No rule lets a program pass that the policy knows; for these
a grant is shown instead.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath
from typing import Any

from policy.gate1.decide import Policy, decide
from policy.gate2.judge import judge
from policy.model import (
    Access,
    ActionPlan,
    Change,
    Context,
    Decision,
    FileType,
    Kind,
    Outcome,
    Rights,
    Tier,
    Verdict,
)
from policy.people.approval import Grant, Scope, Wanted, covers, wanted
from policy.protected.paths import PathPolicy
from policy.sources.document import Document, read_document
from policy.sources.precedence import Effective, Layer, Source, combine
from policy.values.strict_yaml import PolicyError
from sandbox.audit.events.record import AuditRecord
from sandbox.policy_tools.evidence import Evidence, asked_calls, held_deletions
from sandbox.policy_tools.simulate import is_masked
from sandbox.questions.contexts import of_nothing

NAME = "suggestion"
LEAST = 3
"""Approvals that a proposal needs, if nobody says otherwise."""
_SHOWN = 3
"""Examples that are shown of each kind."""
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_TOOL = re.compile(r"[A-Za-z][A-Za-z0-9_:.-]{0,150}")
_UNKNOWN_TOOL = "unknown-tool"
_STANDING = frozenset(("level", "mode"))
_OF_PROGRAMS = _STANDING | {"tier"}
"""Layers that ask about what a program does; no other layer's question is ever proposed away."""
Family = tuple[str, Sequence[AuditRecord]]


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A proposal, with what speaks for it."""

    kind: str
    """`tool`, `program`, `deletions`, or `grant` (no rule, but a command for a person)."""
    value: str
    """The name of the tool, the pattern of paths, or the command to type."""
    approvals: tuple[str, ...]
    """The calls that were approved."""
    match: tuple[str, ...]
    """What would pass, as tried."""
    miss: tuple[str, ...]
    """What would still be asked about, as tried."""

    def as_json(self) -> dict[str, Any]:
        """Return it for `--json`."""
        return asdict(self)


def suggest(
    families: Iterable[Family], policy_of: Callable[[tuple[str, ...]], Effective], *, least: int
) -> list[Suggestion]:
    """Return what can be proposed, given each call with its records, the newest first.

    `policy_of` gives the policy that counts today for workspaces. Raises PolicyError.
    """
    asked: list[Evidence] = []
    held: list[Evidence] = []
    for name, records in families:
        asked += asked_calls(name, records)
        held += held_deletions(name, records)
    return [
        *_each(asked, _tool_key, lambda name, found: _tool(name, found, policy_of), least),
        *_each(asked, _own_key, lambda name, found: _own(name, found, policy_of), least),
        *_deletions(held, policy_of, least),
        *_each(asked, _program_key, lambda _, found: _grant(found, policy_of), least),
    ]


def text_of(found: Sequence[Suggestion]) -> str:
    """Return the proposals as a policy file, with what speaks for each in comments."""
    lines = ["# Proposed from repeated approvals; nothing of it counts until you put it into a"]
    lines += [
        "# policy file of yours. Try it first: `lockgate policy simulate FILE`.",
        "version: 1",
    ]
    sections = (("tool", "tools:\n  report:"), ("deletions", "land_freely:\n  deletions:"))
    for kind, head in sections:
        some = [suggestion for suggestion in found if suggestion.kind == kind]
        lines += ["", *head.split("\n")] if some else []
        for one in some:
            lines += [f"    {line}" for line in _comments(one)]
            lines.append(f'    - "{one.value}"')
    named = [suggestion for suggestion in found if suggestion.kind == "program"]
    lines += ["", "programs:"] if named else []
    for one in named:
        lines += [f"  {line}" for line in (*_comments(one), *_entry(one.value, one.match))]
    grants = [suggestion for suggestion in found if suggestion.kind == "grant"]
    if grants:
        lines += [
            "",
            "# No rule lets a known program pass. These were approved again and again; a grant",
        ]
        lines.append("# lets the same program do the same to the same paths, for a time:")
    for grant in grants:
        lines += ["#", f"#   {grant.value}", *_comments(grant)]
    return "\n".join(lines) + "\n"


def _comments(suggestion: Suggestion) -> list[str]:
    calls = ", ".join(suggestion.approvals[:_SHOWN])
    more = len(suggestion.approvals) - _SHOWN
    said = [f"# approved {len(suggestion.approvals)} times, never refused: {calls}"]
    said[0] += f" and {more} more" if more > 0 else ""
    said += [f"# passes: {_one_line(text)}" for text in suggestion.match]
    return said + [f"# is asked about: {_one_line(text)}" for text in suggestion.miss]


def _one_line(text: str) -> str:
    return text.encode("unicode_escape").decode("ascii")


# -- evidence


def _each(
    evidence: Sequence[Evidence],
    key: Callable[[Evidence], str | None],
    propose: Callable[[str, list[Evidence]], Suggestion | None],
    least: int,
) -> Iterator[Suggestion]:
    """Yield the proposals of the groups that were approved often enough and never refused."""
    groups: dict[str, list[Evidence]] = {}
    for one in evidence:
        name = key(one)
        if name is not None:
            groups.setdefault(name, []).append(one)
    for name in sorted(groups):
        evidence = groups[name]
        if len(evidence) >= least and all(one.approved for one in evidence):
            proposal = propose(name, evidence)
            if proposal is not None:
                yield proposal


# -- tools that nobody knows


def _rules(one: Evidence) -> list[tuple[str, str]]:
    layers = one.record.layers or ()
    return [(str(x["layer"]), str(x.get("rule") or "")) for x in layers if x["verdict"] == "ask"]


def _tool_key(one: Evidence) -> str | None:
    """Return the name of a tool that was asked about for want of knowledge alone."""
    asks = [(layer, rule) for layer, rule in _rules(one) if layer not in _STANDING]
    known = all(rule == _UNKNOWN_TOOL for _, rule in asks) and bool(asks)
    return one.plan.tool if known and _TOOL.fullmatch(one.plan.tool) else None


def _tool(
    name: str, found: list[Evidence], policy_of: Callable[[tuple[str, ...]], Effective]
) -> Suggestion | None:
    other = f"{name}_other"
    document = _document(f'version: 1\ntools:\n  report: ["{name}"]\n')
    for one in found:
        effective = policy_of((one.plan.workspace, *one.plan.also))
        after = combine(effective.policy, effective.paths, [Source(Layer.USER, document)])
        near = one.plan.model_copy(update={"tool": other})
        if _verdict(one.plan, effective.policy) is not Verdict.ASK:
            return None  # it passes already, or is denied by now
        if _verdict(one.plan, after.policy) is not Verdict.REPORT:
            return None
        if _verdict(near, after.policy) is not Verdict.ASK:
            return None
    calls = tuple(evidence.call for evidence in found)
    return Suggestion("tool", name, calls, (f"{name}, whatever its parameters",), (other,))


def _verdict(plan: ActionPlan, policy: Policy) -> Verdict:
    return decide(plan, _context(plan), policy).verdict


def _context(plan: ActionPlan) -> Context:
    return of_nothing((plan.workspace, *plan.also), "/home/user")


# -- programs that nobody knows

_PROGRAM = re.compile(r"[\w.+-]+")


def _own_key(one: Evidence) -> str | None:
    """Return the one program for want of whose knowledge alone a call was asked about."""
    if one.plan.params.command is None or is_masked(one.plan):
        return None
    asks = [x for x in one.record.layers or () if x["verdict"] == "ask"]
    asks = [x for x in asks if str(x["layer"]) not in _STANDING]
    names = {str(x.get("program") or "") for x in asks}
    name = names.pop() if len(names) == 1 else ""
    return name if _PROGRAM.fullmatch(name) else None


def _entry(name: str, commands: Sequence[str]) -> list[str]:
    match = json.dumps(list(commands))
    return [f"- id: own-{name}", f"  programs: [{name}]", "  tier: caution",
            "  because: a program of ours", f"  match: {match}"]  # fmt: skip


def _own(
    name: str, found: list[Evidence], policy_of: Callable[[tuple[str, ...]], Effective]
) -> Suggestion | None:
    commands = tuple(dict.fromkeys(evidence.plan.params.command or "" for evidence in found))[
        :_SHOWN
    ]
    document = _document("\n".join(["version: 1", "programs:", *_entry(name, commands)]))
    misses = tuple(f"{text}; git push" for text in commands[:1])
    for one in found:
        effective = policy_of((one.plan.workspace, *one.plan.also))
        after = combine(effective.policy, effective.paths, [Source(Layer.USER, document)])
        if _verdict(one.plan, effective.policy) is not Verdict.ASK:
            return None  # it passes already, or is denied by now
        if _verdict(one.plan, after.policy) is not Verdict.REPORT:
            return None
        for text in misses:
            params = one.plan.params.model_copy(update={"command": text})
            near = one.plan.model_copy(update={"params": params})
            if _verdict(near, after.policy) is not Verdict.ASK:
                return None
    return Suggestion("program", name, tuple(evidence.call for evidence in found), commands, misses)


# -- files that are made anew


def _deletions(
    held: Sequence[Evidence], policy_of: Callable[[tuple[str, ...]], Effective], least: int
) -> Iterator[Suggestion]:
    """Yield patterns of files that were deleted again and again, and each time landed."""
    spread = [
        Evidence(evidence.call, evidence.plan, evidence.record, evidence.approved, (path,))
        for evidence in held
        for path in dict.fromkeys(evidence.deleted)
    ]
    groups: dict[str, list[Evidence]] = {}
    for one in spread:
        if (name := _pattern(one.deleted[0])) is not None:
            groups.setdefault(name, []).append(one)
    for pattern, found in sorted(groups.items()):
        calls = tuple(dict.fromkeys(evidence.call for evidence in found))
        if len(calls) < least or not all(evidence.approved for evidence in found):
            continue
        paths = tuple(dict.fromkeys(evidence.deleted[0] for evidence in found))
        miss = _misses(pattern)
        if all(
            _lands(pattern, paths, miss, policy_of((evidence.plan.workspace,)))
            for evidence in found
        ):
            yield Suggestion("deletions", pattern, calls, paths[:_SHOWN], miss)


def _pattern(path: str) -> str | None:
    """Return the files beside a path that end alike; at the root the file alone."""
    pure = PurePosixPath(path)
    if path.startswith("/") or not all(_PLAIN.fullmatch(part) for part in pure.parts):
        return None
    if pure.parent == PurePosixPath() or not pure.suffix:
        return f"/{path}"
    return f"/{pure.parent}/*{pure.suffix}"


def _misses(pattern: str) -> tuple[str, ...]:
    folder, _, name = pattern.strip("/").rpartition("/")
    ending = name.lstrip("*")
    beside = f"{folder}/sub/{ending}" if folder else f"sub/{ending}"
    return (f"src/{'x' + ending if ending.startswith('.') else ending}", f"{beside}.txt")


def _lands(pattern: str, paths: Sequence[str], misses: Sequence[str], effective: Effective) -> bool:
    document = _document(f'version: 1\nland_freely:\n  deletions: ["{pattern}"]\n')
    after = combine(effective.policy, effective.paths, [Source(Layer.USER, document)]).paths
    return (
        all(_outcome(path, effective.paths) is Outcome.HOLD for path in paths)
        and all(_outcome(path, after) is Outcome.LAND for path in paths)
        and all(_outcome(path, after) is Outcome.HOLD for path in misses)
    )


def _outcome(path: str, paths: PathPolicy) -> Outcome:
    decision = Decision(
        verdict=Verdict.ALLOW,
        tier=Tier.CAUTION,
        rights=Rights(workspace=Access.WRITE),
        layers=(),
        message="",
    )
    return judge(decision, [Change(path, Kind.DELETED, FileType.FILE)], paths).outcome


# -- programs: a grant, not a rule


def _program_key(one: Evidence) -> str | None:
    """Return the command that was asked about, if a grant for it can be proposed at all."""
    command = one.plan.params.command
    layers = {layer for layer, _ in _rules(one)}
    if _own_key(one) is not None:
        return None  # a word under `programs` is proposed instead
    if command is None or is_masked(one.plan) or one.plan.role:
        return None
    if "tier" not in layers or not layers <= _OF_PROGRAMS:
        return None
    return f"{one.plan.agent}\0{one.plan.workspace}\0{command}"


def _grant(
    found: list[Evidence], policy_of: Callable[[tuple[str, ...]], Effective]
) -> Suggestion | None:
    plan = found[0].plan
    effective = policy_of((plan.workspace, *plan.also))
    what = _wanted(plan, effective.policy)
    command = plan.params.command or ""
    if what is None or what.paths is None or "\n" in command:
        return None
    grant = Grant(id="g", scope=Scope.PROGRAM, wanted=what, issued=0, until=10, by="a person")
    misses = []
    for text in (f"{command} /other", f"{command}; rm -r other", f"sh -c {shlex.quote(command)}"):
        params = plan.params.model_copy(update={"command": text})
        near = _wanted(plan.model_copy(update={"params": params}), effective.policy)
        if near is None or not covers(grant, near, 1):
            misses.append(text)
    if not misses or not covers(grant, what, 1):
        return None
    agent = "" if plan.agent == "main" else f" --agent {shlex.quote(plan.agent)}"
    typed = f"lockgate grant --scope program --uses 10 --for 8h{agent} -- {shlex.quote(command)}"
    calls = tuple(evidence.call for evidence in found)
    return Suggestion("grant", typed, calls, (command,), tuple(misses[:_SHOWN]))


def _wanted(plan: ActionPlan, policy: Policy) -> Wanted | None:
    """Return what a call wants where it is asked about, or None."""
    context = _context(plan)
    decision = decide(plan, context, policy)
    return wanted(plan, decision, context, policy) if decision.verdict is Verdict.ASK else None


def _document(text: str) -> Document:
    try:
        return read_document(text, NAME)
    except PolicyError as error:  # a name that no policy file can hold
        raise AssertionError(str(error)) from None
