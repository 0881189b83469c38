# SPDX-License-Identifier: Apache-2.0
"""Gate 1: decide whether a call may run, and with which rights. Pure.

INVARIANT (P7, never looser): the strictest answer of all layers wins, so that order does not
matter and another rule can only tighten.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

from policy.autonomy.authority import LAYERS, AutonomyLayers
from policy.facts import WRITES, Facts, How
from policy.gate1 import plain_scan
from policy.gate1.alternatives import advice
from policy.model import (
    Access,
    ActionPlan,
    Context,
    Decision,
    Landing,
    LayerAnswer,
    Network,
    Rights,
    Tier,
    Verdict,
    strictest,
)
from policy.programs import builtin_catalog as known_programs
from policy.programs.catalog import Catalog
from policy.programs.git.remotes import REMOTE
from policy.programs.installs import installers
from policy.rules import tiers
from policy.rules.locations import Places
from policy.rules.matching import (
    Bounds,
    CommandRule,
    PolicyCheck,
    PolicyCheckResult,
    PolicyFile,
    Rule,
    RuleIndex,
    Tools,
)
from policy.rules.reach import NetworkRules
from policy.shell.state import NOTHING_SEEN, Disk
from policy.tools import reading as tools
from policy.values import strict_yaml
from policy.values.partial import shown, unknown
from policy.values.paths import Where, below, where

_ORDER = tuple(Verdict)
_LAYERS = (*LAYERS, "tier", "workspace", "rules")
_UNNAMED = frozenset(("git-worktree", "patch"))
_SAYS = {
    Verdict.ALLOW: "allowed",
    Verdict.REPORT: "allowed and reported",
    Verdict.ASK: "a person must approve",
    Verdict.DENY: "denied",
}
_INSIDE = "every path that it names lies where it may"
_MOST_TEXT = 400
_GIT_ALONE = frozenset(("git-worktree", "git-branch", "program", "write", REMOTE))
_READS_FILES = frozenset(
    ("script", "packages", "delete", "git-worktree", "git-branch", "git-push", REMOTE)
)
"""Rules whose answer depends on what files of the project are."""


@dataclass(frozen=True)
class Policy:
    """Everything that gate 1 decides by; built once."""

    catalog: Catalog
    places: Places
    rules: tuple[Rule, ...]
    tools: Tools
    commands: tuple[CommandRule, ...] = ()
    autonomy: AutonomyLayers = field(default_factory=AutonomyLayers.default)
    limits: tuple[Bounds, ...] = ()
    """Bounds of every call beside those of its rights."""
    network: NetworkRules = field(default_factory=NetworkRules)
    """What calls may reach."""
    ignored_may_go: bool = False
    """Whether a call may delete files by name that git ignores, without a question."""
    digest: str = ""
    """Names exactly this policy, for the record."""

    @cached_property
    def index(self) -> RuleIndex:
        """The rules, looked up by what they name."""
        return RuleIndex(self.rules, self.commands)

    def limited(self, rights: Rights) -> Rights:
        """Return rights within the policy's limits."""
        for limit in self.limits:
            rights = rights.model_copy(update={"limits": limit.bound(rights.limits)})
        return rights

    @staticmethod
    @lru_cache(maxsize=1)
    def default() -> Policy:
        """Return the policy that comes with the package."""
        file = strict_yaml.default(PolicyFile, "policy.yaml")
        places = Places.default()
        catalog, digest = known_programs.default(), strict_yaml.digest()
        return Policy(catalog, places, file.rules, file.tools, file.commands, digest=digest)

    def tightened(self, file: PolicyFile) -> Policy:
        """Return the policy with more rules; nothing that it refuses becomes allowed."""
        return replace(
            self, rules=(*self.rules, *file.rules), commands=(*self.commands, *file.commands)
        )


def decide(
    plan: ActionPlan,
    context: Context,
    policy: Policy,
    disk: Disk = NOTHING_SEEN,
    facts: Facts | None = None,
) -> Decision:
    """Return gate 1's answer for a plan; `disk` is what is known of the scripts that it runs,
    `facts` what the plan was read into, where it was."""
    facts = facts or tools.facts(plan, context, policy.catalog, policy.tools, disk)
    shell = policy.tools.is_shell(plan.tool)
    judged = tiers.answers(facts)
    if facts.hosts and policy.network.opens(plan, facts):
        judged = [layer_answer for layer_answer in judged if layer_answer.rule != REMOTE]
    placed = [policy.places.judge(touch, context) for touch in facts.touches]
    others = [layer_answer for layer_answer in placed if layer_answer is not None] or [
        _quiet("workspace", _INSIDE)
    ]
    checked = _checked(plan, context, policy, facts)
    others += checked.answers or [_quiet("rules", checked.message)]
    others += policy.index.commanded(facts)
    if shell and (missed := _overlooked(plan, facts, policy)):
        judged.append(plain_scan.answer(missed))
    said, landing = policy.autonomy.judge(plan, facts, judged, others, context)
    verdict = strictest(layer_answer.verdict for layer_answer in said)
    tier = tiers.tier([*judged, *others])
    layers = _ordered(said, verdict)
    rights = policy.autonomy.bounded(plan, _rights(facts, tiers.tier(judged), verdict))
    for constraint in checked.constraints:
        rights = constraint.bound(rights)
    if shell and rights.workspace is Access.WRITE and landing is not Landing.PROPOSAL:
        network = _network(plan, facts, policy, verdict)
        rights = rights.model_copy(update={"network": network}) if network else rights
    return Decision(
        verdict=verdict,
        tier=tier,
        rights=policy.limited(rights),
        landing=landing,
        objection_seconds=_wait(policy, landing),
        layers=layers,
        matched_rules=checked.matched_rules,
        enforcement=checked.demand,
        message=_message(verdict, layers, checked.blocked),
        named_deletions=named_deletions(facts, plan),
        named_moves=_named(facts, plan, (How.MOVE,)),
        programs=tuple(facts.programs),
        installers=installers(facts.calls),
        policy=policy.digest,
    )


def depends_on_files(decision: Decision) -> bool:
    """Whether a decision can change with what is known of files of the project."""
    return not _READS_FILES.isdisjoint(decision.rules)


def wanted(
    plan: ActionPlan, decision: Decision, context: Context, policy: Policy, disk: Disk
) -> tuple[str, ...]:
    """Return the files of which more should be known, once a decision says that there are any."""
    if not depends_on_files(decision):
        return ()
    found = tools.facts(plan, context, policy.catalog, policy.tools, disk).wanted
    return tuple(one for one in found if one not in disk)


def policy_check(plan: ActionPlan, context: Context, policy: Policy) -> PolicyCheckResult:
    """Return what the rules alone say of a plan (policy-check.md, `policy_check`).

    It is one layer of `decide`: a call that it allows may still be asked about or denied.
    """
    facts = tools.facts(plan, context, policy.catalog, policy.tools)
    return _checked(plan, context, policy, facts).result


def _checked(plan: ActionPlan, context: Context, policy: Policy, facts: Facts) -> PolicyCheck:
    """Return what rules with triggers and checks say; what is temporary lies beyond them."""
    lasting = [
        touch for touch in facts.touches if where(touch.path, context) is not Where.TEMPORARY
    ]
    return policy.index.check(plan, lasting, facts, shell=policy.tools.is_shell(plan.tool))


def _overlooked(plan: ActionPlan, facts: Facts, policy: Policy) -> str | None:
    seen = plain_scan.programs(plan.params.command or "")
    return plain_scan.overlooked(seen, facts.programs, policy.catalog) if seen else None


def wants_second_opinion(plan: ActionPlan, policy: Policy) -> bool:
    """Whether a second reading of a plan's text could see more than `decide` has looked at.

    A plain text was read twice already (`policy.gate1.plain_scan`), exactly.
    """
    text = plan.params.command
    return (
        text is not None and plain_scan.programs(text) is None and policy.tools.is_shell(plan.tool)
    )


def apply_second_reading(decision: Decision, seen: Iterable[str], policy: Policy) -> Decision:
    """Return the decision after a second reading of the command line, which can only tighten it.

    `seen` are the programs that the second reading found (`policy.gate1.bashlex_worker`). One that
    the first reading did not find means that a person must look; the rights stay what they were.
    """
    if not decision.allowed:
        return decision
    missed = plain_scan.overlooked(seen, decision.programs, policy.catalog)
    return decision if missed is None else _doubted(decision, plain_scan.answer(missed))


def lacking_second_reading(decision: Decision) -> Decision:
    """Return the decision on a text that wants a second reading where nobody could be asked."""
    return _doubted(decision, plain_scan.answer_unread()) if decision.allowed else decision


IN_ADDRESS = "secret-address"
"""The rule by which an address that holds a secret is denied."""


def denied_address(decision: Decision) -> Decision:
    """Return the denial of a call that would send a secret out in an address."""
    reason = "what it sends out holds what looks like a secret"
    answer = LayerAnswer(layer="tier", verdict=Verdict.DENY, reason=reason, rule=IN_ADDRESS)
    layers = (answer, *decision.layers)
    return decision.model_copy(
        update={
            "verdict": Verdict.DENY,
            "tier": Tier.FORBIDDEN,
            "rights": Rights(),
            "layers": layers,
            "message": _message(Verdict.DENY, layers),
        }
    )


def _doubted(decision: Decision, answer: LayerAnswer) -> Decision:
    layers = (answer, *decision.layers)
    return decision.model_copy(
        update={
            "verdict": Verdict.ASK,
            "tier": Tier.DANGER,
            "layers": layers,
            "message": _message(Verdict.ASK, layers),
        }
    )


def _wait(policy: Policy, landing: Landing) -> float:
    return policy.autonomy.objection_seconds if landing is Landing.DELAYED else 0.0


def _quiet(layer: str, reason: str) -> LayerAnswer:
    """Return the answer of a layer that has nothing against a call."""
    return LayerAnswer(layer=layer, verdict=Verdict.ALLOW, reason=reason)


_BEHIND = frozenset(("lockgate-own",))
"""Rules that a person thinks of last where another stops the call as well (`rm -rf /`)."""


def _ordered(said: list[LayerAnswer], verdict: Verdict) -> tuple[LayerAnswer, ...]:
    unique = dict.fromkeys(said)
    strict = sorted(
        unique,
        key=lambda one: (
            -_ORDER.index(one.verdict),
            not one.rule,
            one.rule in _BEHIND,
            -_LAYERS.index(one.layer),
            one.reason,
        ),
    )
    return tuple(strict[:64])


def _rights(facts: Facts, tier: Tier, verdict: Verdict) -> Rights:
    """Return the rights; whatever is not plainly a reader may write, and gate 2 judges that."""
    if verdict is Verdict.DENY:
        return Rights()
    writes = facts.writes or any(touch.how in WRITES for touch in facts.touches)
    if writes or tier is not Tier.SAFE:
        return Rights(workspace=Access.WRITE)
    return Rights(workspace=Access.READ)


def _network(plan: ActionPlan, facts: Facts, policy: Policy, verdict: Verdict) -> Network:
    """Return what a call that may write may reach. One in the background may reach nothing: its
    rights would last as long as it does."""
    if verdict is Verdict.DENY or plan.params.run_in_background:
        return Network()
    return policy.network.rights(plan, facts, asked=verdict is Verdict.ASK)


def _message(
    verdict: Verdict, layers: tuple[LayerAnswer, ...], blocked: Collection[LayerAnswer] = ()
) -> str:
    """Return what is said of a decision; answers that are `blocked` are whole sentences."""
    first = layers[0]
    text = first.reason
    if first not in blocked:
        text = f"{_SAYS[verdict]}: {text} (rule `{first.rule}`)"
        instead = advice(first) if verdict in (Verdict.ASK, Verdict.DENY) else ""
        text += f"; instead: {instead}" if instead else ""
    else:
        text += f" (rule `{first.rule}`)"
    line = " ".join(text.split())
    return line if len(line) <= _MOST_TEXT else line[: _MOST_TEXT - 1] + "…"


def _only_git(facts: Facts) -> bool:
    """Return whether nothing but git can delete files that the call does not name: it deletes only
    what another commit keeps."""
    return all(
        finding.tier is Tier.SAFE or finding.rule in _GIT_ALONE for finding in facts.findings
    )


def named_deletions(facts: Facts, plan: ActionPlan) -> tuple[str, ...]:
    """Return the paths, relative to the plan's workspace, that the call itself says it deletes."""
    named = _named(facts, plan, (How.DELETE, How.TREE))
    if any(finding.rule in _UNNAMED and (finding.tier is Tier.DANGER or _only_git(facts))
           for finding in facts.findings):  # fmt: skip
        named = (*named, "**")
    root = plan.workspace.rstrip("/") + "/"
    trees = [shown(one[len(root) :]) for one in facts.removed if one.startswith(root)]
    named = (*named, *trees, *(f"{tree}/**" for tree in trees))
    return tuple(dict.fromkeys(named))


def _named(facts: Facts, plan: ActionPlan, hows: tuple[How, ...]) -> tuple[str, ...]:
    """Return the paths to which a call says that it does this."""
    named: dict[str, None] = {}
    for touch in facts.touches:
        if touch.how not in hows or touch.path in facts.absent:
            continue  # what comes to stand there meanwhile is a person's
        root = plan.workspace
        if not below(touch.path, root):
            if unknown(touch.path[:1]):
                named["**"] = None
            continue
        relative = touch.path[len(root) :].strip("/")
        if not relative or unknown(relative):
            named["**"] = None
            continue
        path = shown(relative)
        named[path] = None
        if touch.how in (How.TREE, How.MOVE):
            named[f"{path}/**"] = None
    return tuple(named)
