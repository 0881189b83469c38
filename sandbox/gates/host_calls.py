# SPDX-License-Identifier: Apache-2.0
"""Tools that an agent runs on the host itself (an editor's Write): judged by path and content.

There is no layer and no second look at such a call, so what gate 2 would hold is asked about before
it runs, and what it would throw away is denied. Links are followed as the agent's own process would
follow them. The guard watches what happens afterwards.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

from policy.facts import READS, WRITES, Facts, How
from policy.gate1.decide import Policy, decide
from policy.gate2.judge import judge
from policy.model import (
    ActionPlan,
    Change,
    Context,
    Decision,
    LayerAnswer,
    Outcome,
    Params,
    Rights,
    Verdict,
    strictest,
)
from policy.protected.paths import PathPolicy
from policy.tools import reading as tools
from sandbox.gates.edited_texts import EditedTexts
from sandbox.gates.gate1 import Gate1Answer
from sandbox.gates.host_edits import (
    COMMANDS,
    change_of,
    known_path,
    why_unkept,
    workspace_of,
    written_files,
)
from sandbox.workspaces.ignore_ledger import Ledger
from sandbox.workspaces.obeyed_links import obeyed_links
from sandbox.workspaces.searched import searched_secret

_SEARCH = "Grep"
_VERDICTS = {Outcome.HOLD: Verdict.ASK, Outcome.DISCARD: Verdict.DENY}


def tightened(
    answer: Gate1Answer, plan: ActionPlan, context: Context, ledger: Ledger | None = None
) -> Gate1Answer:
    """Return gate 1's answer to a call that runs on the host; it can only become stricter.

    It may look through a workspace: call it off the event loop. `ledger` is what agents' calls left
    in ignore rules; without it, nothing counts as ignored.
    """
    if answer.effective is None or answer.decision.verdict is Verdict.DENY:
        return answer
    policy = answer.effective.policy
    facts = tools.facts(plan, context, policy.catalog, policy.tools)
    files = written_files(plan, facts, context)
    answers = [
        *_outside(plan),
        *_not_private(facts, context, policy),
        *_real(plan, facts, context, policy),
        *_hidden(answer, facts, context),
        *_searched(answer, plan, facts, context, ledger),
        *_effects(answer, plan, facts, context),
        *_not_kept(files),
        *_several_names(files),
    ]
    strict = strictest(
        [answer.decision.verdict, *(layer_answer.verdict for layer_answer in answers)]
    )
    if strict is answer.decision.verdict:
        return answer
    return replace(answer, decision=_with(answer.decision, answers, strict))


def _outside(plan: ActionPlan) -> Iterable[LayerAnswer]:
    """Yield that a command would run on the host itself: no cell contains it."""
    if plan.tool in COMMANDS:
        yield LayerAnswer(
            layer="workspace",
            verdict=Verdict.ASK,
            reason="it would run on the host itself and not in a cell",
            rule="host-command",
        )


def _not_private(facts: Facts, context: Context, policy: Policy) -> Iterable[LayerAnswer]:
    """Yield that a path lies outside of every workspace. A cell's `/tmp` is its own; the host's is
    everybody's, and files there belong to other programs. What the agent keeps for itself does not
    count, where no link leads elsewhere."""
    for touch in known_path(facts):
        real = os.path.realpath(touch.path)
        inside = any(real == workspace.path for workspace in context.workspaces) or workspace_of(
            real, context
        )
        if all(
            policy.places.keeps(replace(touch, path=one), context) for one in (touch.path, real)
        ):
            continue
        if touch.how in (*READS, *WRITES) and not inside and real != os.devnull:
            yield LayerAnswer(
                layer="workspace",
                verdict=Verdict.ASK,
                reason=f"`{touch.path}` lies on the host, outside of every workspace",
                rule="host-path",
            )


def _with(decision: Decision, said: list[LayerAnswer], verdict: Verdict) -> Decision:
    first = next(answer for answer in said if answer.verdict is verdict)
    word = "denied" if verdict is Verdict.DENY else "a person must approve"
    return decision.model_copy(
        update={
            "verdict": verdict,
            "layers": (first, *(answer for answer in said if answer != first), *decision.layers)[
                :64
            ],
            "message": f"{word}: {first.reason} (rule `{first.rule}`)",
            "rights": Rights() if verdict is Verdict.DENY else decision.rights,
        }
    )


def _real(
    plan: ActionPlan, facts: Facts, context: Context, policy: Policy
) -> Iterable[LayerAnswer]:
    """Yield what gate 1 says of the places that links lead to."""
    for touch in known_path(facts):
        real = os.path.realpath(touch.path)
        if real == touch.path:
            continue
        tool = "Read" if touch.how in READS else "Write"
        there = plan.model_copy(update={"tool": tool, "params": Params(file_path=real)})
        decision = decide(there, context, policy)
        if decision.verdict in (Verdict.ASK, Verdict.DENY):
            yield LayerAnswer(
                layer="workspace",
                verdict=decision.verdict,
                reason=f"`{touch.path}` is really `{real}`: {decision.message}",
                rule=next(iter(decision.rules), "link"),
            )


def _hidden(answer: Gate1Answer, facts: Facts, context: Context) -> Iterable[LayerAnswer]:
    """Yield that a call would read what no cell sees."""
    for touch in known_path(facts):
        root = (
            workspace_of(os.path.realpath(touch.path), context) if touch.how is How.READ else None
        )
        if root is None:
            continue
        for path in {touch.path, os.path.realpath(touch.path)}:
            inside = (
                path[len(root) :].lstrip("/") if path.startswith(root.rstrip("/") + "/") else ""
            )
            if inside and answer.paths.is_secret(inside):
                yield LayerAnswer(
                    layer="secrets",
                    verdict=Verdict.ASK,
                    reason=f"`{inside}` is hidden from agents",
                    rule="secrets",
                )


def _searched(
    answer: Gate1Answer, plan: ActionPlan, facts: Facts, context: Context, ledger: Ledger | None
) -> Iterable[LayerAnswer]:
    """Yield that a search of a folder would show what is hidden from cells."""
    for touch in known_path(facts) if plan.tool == _SEARCH else ():
        real = os.path.realpath(touch.path)
        root = next(
            (workspace.path for workspace in context.workspaces if real == workspace.path), None
        )
        root = root or workspace_of(real, context)
        if touch.how not in (How.SEARCH, How.READ) or root is None or not Path(real).is_dir():
            continue
        secret = searched_secret(root, real, answer.paths, _globs(plan), ledger, plan.params.type)
        if secret is not None:
            yield LayerAnswer(
                layer="secrets",
                verdict=Verdict.DENY,
                reason=f"`{secret}` is hidden from agents, and the search would show it; search "
                f"with `rg` in the shell, or leave it out by the glob `!{Path(secret).name}`",
                rule="secrets",
            )


def _globs(plan: ActionPlan) -> list[str]:
    found = [getattr(plan.params, "glob", None), *(getattr(plan.params, "globs", None) or ())]
    return [one for one in found if isinstance(one, str) and one]


def _effects(
    answer: Gate1Answer, plan: ActionPlan, facts: Facts, context: Context
) -> Iterable[LayerAnswer]:
    """Yield what gate 2 would say of the changes that a call names."""
    roots: dict[str, list[Change]] = {}
    texts = EditedTexts(plan)
    for touch in known_path(facts):
        if touch.how not in WRITES:
            continue
        real = os.path.realpath(touch.path)
        root = workspace_of(real, context)
        if root is not None:
            change = change_of(touch, real, root)
            if answer.paths.reads(change.path):
                condenses = answer.paths.condenses(change.path)
                before, after = texts.read(real, change.kind, condenses=condenses)
                change = replace(change, before_text=before, after_text=after)
            roots.setdefault(root, []).append(change)
    for root, changes in roots.items():
        yield from _judged(answer.decision, changes, answer.paths, root)


def _not_kept(files: Mapping[str, Sequence[str]]) -> Iterable[LayerAnswer]:
    """Yield that a file would be written over of which no before-image can be kept.

    It may be a person's only copy, so it is theirs to say; nothing is lost without a word.
    """
    for root, paths in files.items():
        for path in paths:
            if why := why_unkept(Path(root, path)):
                yield LayerAnswer(
                    layer="workspace",
                    verdict=Verdict.ASK,
                    reason=f"`{path}`: {why}, so that no undo could bring it back",
                    rule="no-before-image",
                )


def _several_names(files: Mapping[str, Sequence[str]]) -> Iterable[LayerAnswer]:
    """Yield that a file has further names (hard links), whose content the tool would change too.

    They may be what the host obeys, or lie in a store outside of every workspace, and an undo gives
    back this name alone.
    """
    for root, paths in files.items():
        for path in paths:
            names = _count_names(Path(root, path))
            if names is None:
                yield LayerAnswer(
                    layer="workspace",
                    verdict=Verdict.ASK,
                    reason=f"`{path}` cannot be looked at, so that it may be one file with "
                    "several names, which an undo does not give back",
                    rule="several-names",
                )
            elif names > 1:
                yield LayerAnswer(
                    layer="workspace",
                    verdict=Verdict.ASK,
                    reason=f"`{path}` is one file with {names} names (hard links): what is "
                    "written here stands under the others too, wherever they are, and an undo "
                    "gives back this one alone; a command in a cell changes this one alone",
                    rule="several-names",
                )


def _count_names(path: Path) -> int | None:
    """Return how many names an ordinary file has; 0 where there is none, None if unknown."""
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return 0
    except OSError:  # a loop of links, a name that is too long, a folder of another's
        return None
    return status.st_nlink if stat.S_ISREG(status.st_mode) else 0


def _judged(
    decision: Decision, changes: list[Change], paths: PathPolicy, root: str
) -> Iterable[LayerAnswer]:
    named = decision.model_copy(update={"named_deletions": ("**",)})
    links = obeyed_links(root, paths)
    for reason in judge(named, changes, paths, workspace=root, linked=links).reasons:
        yield LayerAnswer(
            layer="rules",
            verdict=_VERDICTS[reason.outcome],
            reason=f"`{reason.path}`: {reason.reason}" if reason.path else reason.reason,
            rule=reason.rule,
        )
    for change in changes:
        if ".git" in PurePosixPath(change.path.lower()).parts:
            yield LayerAnswer(
                layer="rules",
                verdict=Verdict.ASK,
                reason=f"`{change.path}`: git obeys what stands there",
                rule="git-files",
            )
