# SPDX-License-Identifier: Apache-2.0
"""Put policy files on top of each other: built-in, the user's, the workspace's, an administrator's.

Pure. INVARIANT (P7, files): rules of all files count and the strictest wins, limits count by their
minimum, and of hidden files the last file that names one counts. A file that is not trusted has
those parts left out that could loosen anything; they are named in `ignored`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from pydantic import ValidationError

from policy.autonomy.authority import AutonomyLayers
from policy.gate1.decide import Policy
from policy.model import Decision, LayerAnswer, Rights, Tier, Verdict
from policy.protected.path_rules import GovernanceRule, PathLimits, SecretPaths
from policy.protected.paths import PathPolicy
from policy.rules.locations import Places
from policy.rules.matching import Check, Checks, PolicyFile, Rule, Tools, Triggers
from policy.sources.document import Document
from policy.sources.schema import IGNORED, PolicyDocument
from policy.sources.untrusted import tightening
from policy.values.strict_yaml import PolicyError, located

TRUST = "`lockgate policy trust` trusts the file"
_OWN_FILE = (
    "`network.credentials` is ignored in a workspace's file, trusted or not; it counts in your own"
)


class Layer(str, Enum):
    """Where a policy file comes from, from the weakest word to the strongest."""

    BUILT_IN = "built-in"
    USER = "user"
    WORKSPACE = "workspace"
    ADMINISTRATOR = "administrator"


@dataclass(frozen=True, eq=False)
class Source:
    """A policy file that counts."""

    layer: Layer
    document: Document
    trusted: bool = True
    """Whether it may loosen what files before it say."""


@dataclass(frozen=True, eq=False)
class Effective:
    """All that both gates decide by."""

    policy: Policy
    paths: PathPolicy
    sources: tuple[Source, ...] = ()
    ignored: tuple[str, ...] = ()
    """One line for each part of a file that is not trusted and would loosen something."""

    def places(self, rule: str) -> tuple[str, ...]:
        """Return `file:line` of a rule in each file, besides the built-in ones, that has it."""
        return tuple(
            source.document.place(rule) for source in self.sources if rule in source.document.lines
        )


def combine(policy: Policy, paths: PathPolicy, sources: Sequence[Source]) -> Effective:
    """Return what a policy and files on top of it amount to. Raises PolicyError."""
    ignored: list[str] = []
    digest = hashlib.sha256(policy.digest.encode())
    for source in sources:
        content = source.document.content
        if source.layer is Layer.WORKSPACE and content.network.credentials:
            network = content.network.model_copy(update={"credentials": ()})
            content = content.model_copy(update={"network": network})
            ignored.append(f"{source.document.place('network')}: {_OWN_FILE}")
        if not source.trusted:
            content, left_out = tightening(content, policy.autonomy)
            ignored += [f"{source.document.place(key)}: {why}; {TRUST}" for key, why in left_out]
        try:
            policy = decided(policy, content, source)
            paths = _judged(paths, content)
        except PolicyError as error:
            document = source.document
            raise PolicyError(located(document.name, document.text, str(error))) from None
        except ValidationError as error:
            message = error.errors()[0]["msg"].removeprefix("Value error, ")
            raise PolicyError(f"{source.document.name}: {message}") from None
        said = f"\n{source.layer.value} {source.document.digest} {source.trusted}"
        digest.update(said.encode())
    return Effective(
        replace(policy, digest=digest.hexdigest()), paths, tuple(sources), tuple(ignored)
    )


def extended_digest(digest: str, texts: Iterable[str | None]) -> str:
    """Return the digest of a policy on which further files have a say."""
    found = hashlib.sha256(digest.encode())
    for text in texts:
        found.update(f"\n{hashlib.sha256(text.encode()).hexdigest() if text else ''}".encode())
    return found.hexdigest()


def refused(problem: PolicyError) -> Decision:
    """Return the decision on every call while a policy file is wrong: no rule can be relied on."""
    reason = f"{problem}; no call runs until it is right, see `lockgate policy validate`"
    answer = LayerAnswer(layer="rules", verdict=Verdict.DENY, reason=reason, rule="policy-file")
    return Decision(
        verdict=Verdict.DENY,
        tier=Tier.FORBIDDEN,
        rights=Rights(),
        layers=(answer,),
        message=f"denied: {reason} (rule `policy-file`)",
    )


# -- what a file adds


def decided(policy: Policy, content: PolicyDocument, source: Source) -> Policy:
    """Return gate 1's part of a policy with a file on top of it."""
    added = PolicyFile(
        rules=(*content.rules, *(_as_rule(rule) for rule in content.governance)),
        commands=content.commands,
    )
    told = {"levels": content.levels, "modes": content.modes, "trust": content.trust,
            "roles": content.roles}  # fmt: skip
    autonomy: AutonomyLayers = policy.autonomy
    if any(one is not None for one in told.values()):
        whose = source.layer is not Layer.ADMINISTRATOR and source.trusted
        change = autonomy.extended if whose else autonomy.tightened
        autonomy = change(**told)  # type: ignore[arg-type]
    bounds = content.limits
    catalog = policy.catalog.with_own(content.programs) if content.programs else policy.catalog
    return replace(
        policy.tightened(added),
        catalog=catalog.with_git_keys(content.git_keys) if content.git_keys else catalog,
        tools=_joined(policy.tools, content.tools, Tools),
        places=_joined(policy.places, content.places, Places),
        limits=(*policy.limits, bounds) if bounds.model_fields_set else policy.limits,
        autonomy=autonomy,
        network=policy.network.joined(content.network),
        ignored_may_go=policy.ignored_may_go or IGNORED in content.land_freely.deletions,
    )


def _judged(paths: PathPolicy, content: PolicyDocument) -> PathPolicy:
    governed = [*content.governance, *(g for rule in content.rules for g in _as_governance(rule))]
    hidden = [*content.secrets.hide, *(name for rule in content.rules for name in _unread(rule))]
    secrets = paths.secrets
    if hidden or content.secrets.show:
        secrets = secrets.followed(SecretPaths(hide=tuple(hidden), show=content.secrets.show))
    obeyed, free = (*paths.obeyed, *content.obeyed), content.land_freely
    manifests = paths.manifests
    if free.obeyed:
        manifests = tuple(manifest.excepting(free.obeyed) for manifest in manifests)
        obeyed = tuple(obeyed_rule.excepting(free.obeyed) for obeyed_rule in obeyed)
    return PathPolicy(
        governance=(*paths.governance, *governed),
        obeyed=obeyed,
        manifests=manifests,
        git_keys=(*paths.git_keys, *content.git_keys),
        gitmodules_keys=paths.gitmodules_keys,
        git_remote_keys=paths.git_remote_keys,
        deletable=(*paths.deletable, *free.deletable),
        secrets=secrets,
        links=(*paths.links, *content.links),
        limits=PathLimits(
            changed_files=_least(paths.limits.changed_files, content.limits.changed_files),
            changed_bytes=_least(paths.limits.changed_bytes, content.limits.changed_bytes),
            replaced_files=paths.limits.replaced_files,
            replaced_a_day=paths.limits.replaced_a_day,
        ),
    )


def _least(one: int, other: int | None) -> int:
    return one if other is None else min(one, other)


def _joined(old: Any, new: Any, model: Any) -> Any:
    """Return a model whose lists hold those of both; the same model where nothing is added."""
    if not new.model_fields_set:
        return old
    own = {name: getattr(old, name) for name in model.model_fields}
    more = {name: tuple(dict.fromkeys((*own[name], *getattr(new, name)))) for name in own
            if hasattr(new, name)}  # fmt: skip
    return model(**{**own, **more})


# -- one rule, both gates


def _as_rule(rule: GovernanceRule) -> Rule:
    """Return gate 1's rule for a file that gate 2 protects, so that the call need not run."""
    check = Check(
        id=rule.check_id or "no-writes",
        writes=rule.paths,
        decision="deny",
        denied_path=rule.denied_path or rule.because,
        allowed_path=rule.allowed_path,
    )
    triggers = Triggers(file_patterns=rule.paths, behavior_triggers=(f"writes to {rule.name}",))
    return Rule(
        id=rule.id,
        name=rule.name,
        because=rule.because,
        triggers=triggers,
        enforcement=Checks(checks=(check,)),
    )


def _denials(rule: Rule) -> Iterator[Check]:
    """Yield the checks that deny whatever else the rule says: those before the first that does
    not."""
    for check in rule.enforcement.checks:
        if check.decision != "deny":
            return
        yield check


def _as_governance(rule: Rule) -> Iterator[GovernanceRule]:
    """Yield gate 2's rules for files that a rule lets nobody write, whatever way a call takes.

    Only for patterns that trigger the rule by themselves.
    """
    for check in _denials(rule):
        paths = tuple(pattern for pattern in check.writes if pattern in rule.triggers.file_patterns)
        if paths:
            yield GovernanceRule(
                id=rule.id,
                name=rule.name,
                because=rule.because,
                check_id=check.id,
                paths=tuple(_deep(path) for path in paths),
                denied_path=check.denied_path,
                allowed_path=check.allowed_path or "ask a person",
            )


def _unread(rule: Rule) -> Iterator[str]:
    """Yield the patterns of files that a rule lets nobody read: a cell does not see them."""
    for check in _denials(rule):
        yield from (read for read in check.reads if read in rule.triggers.file_patterns)


def _deep(pattern: str) -> str:
    return pattern if pattern.endswith("/**") else pattern.rstrip("/") + "/**"


def ids(sources: Iterable[Source]) -> tuple[str, ...]:
    """Return the ids of all rules in files, in their order."""
    return tuple(
        rule.id
        for source in sources
        for section in ("rules", "commands", "governance", "obeyed")
        for rule in getattr(source.document.content, section)
    )
