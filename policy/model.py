# SPDX-License-Identifier: Apache-2.0
"""The nouns of Lockgate: plans, rights, decisions, changes, judgements.

Only data lives here. Models that cross an edge (a socket, a file, an agent) are frozen pydantic
models; values that stay inside are frozen dataclasses. Nothing here decides anything.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    StringConstraints,
    model_serializer,
    model_validator,
)

from policy import hosts
from policy.agent_names import RULE, is_agent_path
from policy.credentials import Credential


class Verdict(str, Enum):
    """Gate 1's answer, from the mildest to the strictest."""

    ALLOW = "allow"
    REPORT = "report"
    ASK = "ask"
    DENY = "deny"


class Tier(str, Enum):
    """The four permission tiers of safety-guardrails.md."""

    SAFE = "safe"
    CAUTION = "caution"
    DANGER = "danger"
    FORBIDDEN = "forbidden"


class Access(str, Enum):
    """What the kernel lets a call do with the workspace."""

    NONE = "none"
    READ = "read"
    WRITE = "write"


class Landing(str, Enum):
    """How the changes of a call land, by how far its agent is trusted (orchestration.md)."""

    PROPOSAL = "proposal"
    """Never by themselves: the call runs in a layer of its own, and a person may land the diff."""
    APPROVED = "approved"
    """At once, since a person approved the call first."""
    DELAYED = "delayed"
    """After some seconds in which a person may object."""
    AT_ONCE = "at once"


_VERDICTS = list(Verdict)
_TIERS = list(Tier)
_ACCESSES = list(Access)


def strictest(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the strictest verdict; no verdict at all means ASK (never ALLOW)."""
    return max(verdicts, key=_VERDICTS.index, default=Verdict.ASK)


def worst(tiers: Iterable[Tier]) -> Tier:
    """Return the most dangerous tier; no tier at all means DANGER."""
    return max(tiers, key=_TIERS.index, default=Tier.DANGER)


class Frozen(BaseModel):
    """A frozen model that refuses what it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Limits(Frozen):
    """Bounds of one call."""

    seconds: Annotated[float, Field(gt=0, le=86_400)] = 3600.0
    """Most wall-clock time of a command, whatever it asks for."""
    answer_bytes: Annotated[int, Field(ge=0)] = 1_000_000
    """Output per stream that comes back in the answer; the whole goes to a file."""
    output_bytes: Annotated[int, Field(ge=0)] = 256_000_000
    """Output per stream that is kept at all; a call that writes more is ended."""
    changed_files: Annotated[int, Field(ge=0)] = 50_000
    changed_bytes: Annotated[int, Field(ge=0)] = 2_000_000_000

    def meet(self, other: Limits) -> Limits:
        """Return the narrower of both, field by field."""
        return Limits(
            **{k: min(getattr(self, k), getattr(other, k)) for k in type(self).model_fields}
        )


class Host(Frozen):
    """A host that a call may reach, by name."""

    name: str
    """Or a pattern, in which `*` stands for one label."""
    port: Annotated[int, Field(ge=1, le=65_535)]
    private: bool = False
    """A person said that it lies in a network of theirs."""
    address: str = ""
    """Where a person said that it is; empty: where its name leads."""

    def meet(self, other: Host) -> Host | None:
        """Return what both stand for; None where that is nothing."""
        name = hosts.common(self.name, other.name)
        if name is None or self.port != other.port or self.address != other.address:
            return None  # another address is another place, and the wider of both is neither's
        return Host(
            name=name,
            port=self.port,
            private=self.private and other.private,
            address=self.address,
        )

    def words(self) -> str:
        """Name it."""
        return f"{self.name}:{self.port}"


NO_NETWORK = "none"
"""How the network right of a call that has none is written."""


class Network(Frozen):
    """What the kernel lets a call reach. The default is nothing."""

    packages: tuple[str, ...] = ()
    """Package clients: the indexes that they are configured for on the host."""
    hosts: tuple[Host, ...] = ()
    credentials: tuple[Credential, ...] = ()
    """What the gateway adds to requests to them."""

    @model_validator(mode="before")
    @classmethod
    def _read(cls, said: Any) -> Any:
        return {} if said == NO_NETWORK else said

    @model_serializer(mode="wrap")
    def _written(self, write: SerializerFunctionWrapHandler) -> Any:
        if not self:
            return NO_NETWORK
        said = write(self)
        if not self.credentials:
            said.pop("credentials", None)
        return said

    def __bool__(self) -> bool:
        return bool(self.packages or self.hosts)

    def meet(self, other: Network) -> Network:
        """Return what both may reach."""
        both = (host.meet(two) for host in self.hosts for two in other.hosts)
        return Network(
            packages=tuple(package for package in self.packages if package in other.packages),
            hosts=tuple(dict.fromkeys(host for host in both if host is not None)),
            credentials=tuple(
                credential for credential in self.credentials if credential in other.credentials
            ),
        )

    def words(self) -> str:
        """Name all of it in one line."""
        indexes = [f"the package index of {package}" for package in self.packages]
        return ", ".join((*indexes, *(host.words() for host in self.hosts))) or NO_NETWORK


class Rights(Frozen):
    """What the kernel will let a call do. The default is nothing (absence means less)."""

    workspace: Access = Access.NONE
    network: Network = Network()
    limits: Limits = Limits()

    def meet(self, other: Rights) -> Rights:
        """Return the intersection: never wider than either."""
        return Rights(
            workspace=min(self.workspace, other.workspace, key=_ACCESSES.index),
            network=self.network.meet(other.network),
            limits=self.limits.meet(other.limits),
        )


class EditStep(BaseModel):
    """One replacement of MultiEdit."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    old_string: str
    new_string: str
    replace_all: bool = False


class Params(BaseModel):
    """Parameters of a tool call, under the names that coding agents use.

    Fields that Lockgate does not know are kept (they count for the digest) and have no effect.
    """

    model_config = ConfigDict(frozen=True, extra="allow", populate_by_name=True)

    command: str | None = None
    timeout: Annotated[float, Field(gt=0)] | None = None
    """Milliseconds, as coding agents send it."""
    run_in_background: bool = False
    file_path: str | None = None
    content: str | None = None
    old_string: str | None = None
    new_string: str | None = None
    replace_all: bool = False
    edits: tuple[EditStep, ...] = ()
    offset: Annotated[int, Field(ge=0)] | None = None
    limit: Annotated[int, Field(ge=0)] | None = None
    path: str | None = None
    pattern: str | None = None
    glob: str | None = None
    type: str | None = None
    output_mode: Literal["content", "files_with_matches", "count"] | None = None
    ignore_case: Annotated[bool, Field(alias="-i")] = False
    line_numbers: Annotated[bool, Field(alias="-n")] = False
    after: Annotated[int | None, Field(alias="-A", ge=0)] = None
    before: Annotated[int | None, Field(alias="-B", ge=0)] = None
    around: Annotated[int | None, Field(alias="-C", ge=0)] = None
    head_limit: Annotated[int, Field(ge=0)] | None = None
    multiline: bool = False
    ignore: tuple[str, ...] = ()


Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]


def _agent_path(text: str) -> str:
    if not is_agent_path(text):
        raise ValueError(f"it cannot name an agent: {RULE}")
    return text


AgentPath = Annotated[str, AfterValidator(_agent_path)]
"""An agent, perhaps with those above it: `main:sub:7`."""


class ActionPlan(Frozen):
    """What an agent wants to do: policy-check.md's ActionPlan, and who asks from where."""

    tool: Name
    params: Params = Params()
    intent: str = ""
    derived_from: str | None = None
    agent: AgentPath = "main"
    role: Name | None = None
    user: Name = "default"
    workspace: str
    """Absolute path of the registered workspace on the host."""
    also: tuple[str, ...] = ()
    """Further registered workspaces that the call may see."""
    cwd: str | None = None
    """Absolute path the call starts in; None is the workspace's root."""

    def digest(self) -> str:
        """Return the SHA-256 of the plan in canonical form (approvals are bound to it)."""
        text = json.dumps(
            self.model_dump(mode="json", by_alias=True), sort_keys=True, separators=(",", ":")
        )
        return hashlib.sha256(text.encode()).hexdigest()


class MatchedRule(Frozen):
    """A rule that matched, with what triggered it (policy-check.md, PolicyCheckResult)."""

    rule_id: str
    rule_name: str
    trigger_type: Literal["file_pattern", "command_pattern", "keyword"]
    trigger_match: str


class Enforcement(Frozen):
    """What a matched rule demands (policy-check.md, PolicyCheckResult.enforcement)."""

    decision: Literal["allow", "deny", "allow_with_constraints"]
    check_id: str | None = None
    denied_path: str = ""
    allowed_path: str = ""
    required_fields: tuple[str, ...] = ()
    next_action_template: dict[str, Any] | None = None


class LayerAnswer(Frozen):
    """One layer's verdict with its reason, for `explain`."""

    layer: str
    verdict: Verdict
    reason: str
    rule: str = ""
    program: str = ""
    """For `unknown-program`: the one that nobody knows."""


class Decision(Frozen):
    """Gate 1's answer."""

    verdict: Verdict
    tier: Tier
    rights: Rights
    landing: Landing = Landing.AT_ONCE
    objection_seconds: float = 0.0
    """For DELAYED: how long the changes wait for somebody to object."""
    layers: tuple[LayerAnswer, ...]
    matched_rules: tuple[MatchedRule, ...] = ()
    enforcement: Enforcement | None = None
    message: str
    """One line: what, why, which rule, and what to do instead."""
    named_deletions: tuple[str, ...] = ()
    """Paths (relative to the workspace) that the plan itself says it deletes; `**` is anything."""
    named_moves: tuple[str, ...] = ()
    """The same of paths that it says it moves: what they held must be there afterwards."""
    programs: tuple[str, ...] = ()
    """The programs that gate 1 read in a command line."""
    installers: tuple[str, ...] = ()
    """Those of them that it tells to install packages, or to build."""
    policy: str = ""
    """The digest of the policy that decided."""

    @property
    def allowed(self) -> bool:
        """Whether the call may run without asking a person."""
        return self.verdict in (Verdict.ALLOW, Verdict.REPORT)

    @property
    def rules(self) -> tuple[str, ...]:
        """Names of the rules that decided, the strictest layer's first."""
        said = [a.rule for a in self.layers if a.rule and a.verdict is self.verdict]
        rest = [a.rule for a in self.layers if a.rule and a.verdict is not self.verdict]
        ids = [m.rule_id for m in self.matched_rules]
        return tuple(dict.fromkeys([*said, *ids, *rest]))


@dataclass(frozen=True, slots=True)
class Workspace:
    """A registered workspace."""

    path: str
    """Absolute, resolved path on the host."""


@dataclass(frozen=True, slots=True)
class Context:
    """What gate 1 knows beside the plan. Facts only, gathered by the caller."""

    workspaces: tuple[Workspace, ...]
    home: str = "/nonexistent"
    """Home directory of the user on the host."""
    trust: tuple[tuple[str, str], ...] = ()
    """What the agent has earned: domain and level of trust. Empty: it starts where it starts."""
    own: tuple[str, ...] = ()
    """Absolute folders of Lockgate itself, besides the usual ones below the home directory."""


class Kind(str, Enum):
    """What happened to one path."""

    CREATED = "created"
    MODIFIED = "modified"
    DELETED = "deleted"
    RENAMED = "renamed"
    """The path is new, `source` is gone; given for a directory and for all that it holds."""
    META = "meta"
    """Only mode, owner or extended attributes changed."""


class FileType(str, Enum):
    """Type of a file system object."""

    FILE = "file"
    DIRECTORY = "directory"
    SYMLINK = "symlink"
    CHANNEL = "channel"
    """Socket or FIFO: processes meet there. It holds nothing, and is left out of what lands."""
    SPECIAL = "special"
    """Device node, or what no other name fits."""


@dataclass(frozen=True, slots=True)
class Change:
    """One path that a transaction changed. Paths are relative to the workspace's root, joined with
    `/`, and may hold surrogates where a name is not UTF-8 (as os.fsdecode gives them)."""

    path: str
    kind: Kind
    type: FileType
    """Type after the change; for a deletion, before it."""
    source: str | None = None
    """For RENAMED: the path before."""
    size: int = 0
    """Bytes after the change."""
    mode: int = 0
    """Permission bits (07777) after the change."""
    before_mode: int | None = None
    """Permission bits before, of what was there and has others now."""
    access_list: bool = False
    """An access list gives others more than they had."""
    target: str | None = None
    """For a symlink: what it points to after the change."""
    hidden: bool = False
    """The path was masked in the cell (a secret): the call could not see what it replaced."""
    conflict: bool = False
    """The real file changed while the call ran."""
    ignored: bool = False
    """Git ignores the path, so that it counts as rebuildable."""
    before_text: str | None = None
    """For the few files that gate 2 reads (git configuration): text before, None if absent."""
    after_text: str | None = None
    modified: bool = False
    """For RENAMED: content, mode or owner changed as well."""
    replaced: str = ""
    """`emptied`, or `replaced` where next to nothing is kept of what the file held; of files that
    the call's own agent did not make (see sandbox/cell/replaced)."""
    lives_on: bool = False
    """For a file that went away, or was replaced: another file that the call left holds it."""
    lives_in: str = ""
    """The path of that file."""
    lives_apart: int | None = None
    """The number of the workspace that it is in, where it is another one."""
    own: bool = False
    """For a file that moved or went away: the call's own agent made all that it held, ever."""
    disposable: bool = False
    """Moreover, no repository has the file: nobody but the agent ever had a part in it."""
    goes_ignored: bool = False
    """What a file held is, after the change, only where it may go as ignored, now or later."""
    shadows: str = ""
    """For compiled code: the source beside it in whose place Python would load it."""
    drops_hidden: tuple[str, ...] = ()
    """For git's index: files hidden from the cell that it lists before the change and not after."""
    commits: tuple[str, ...] = ()
    """For git's objects: paths that a new commit holds with a content which neither its parents nor
    the real files have; for an index, the same of what it lists."""
    commits_others: tuple[str, ...] = ()
    """The same of paths that no list names: a setting of git may make the host obey them."""
    commits_entries: tuple[Mapping[str, Any], ...] = ()
    """Of what new commits (for an index: its entries) hold otherwise than the files: links and
    submodules, and files that are judged by what they hold. `path`, `type`, `target`, `was` (a
    parent has it), `before_text`, `after_text`."""
    commits_cut: bool = False
    """There are more of these."""
    commits_odd: str = ""
    """For git's objects: why it cannot be found out what new commits hold."""
    loses: tuple[str, ...] = ()
    """For files of a git repository: what it would lose that it held before."""
    git_folders: tuple[str, ...] = ()
    """Git folders that it lies in, whatever their names, the outermost first (`.`: the root)."""
    git_sources: tuple[str, ...] = ()
    """For RENAMED: the same of the path before."""
    git_new: str = ""
    """`new` where the innermost git folder came into being in this call; `around` where it did so
    in a folder that held something before."""
    git_text: str | None = None
    """In a git folder: what a small file holds, and a file of git's own name outside of one."""
    git_checked: str = ""
    """In a git folder: the check that found the file's content to be such as git writes."""
    git_odd: str = ""
    """In a git folder: why a check did not."""
    git_refs: tuple[str, ...] = ()
    """References that it brings."""
    git_refs_gone: tuple[str, ...] = ()
    """References that go away with it, and stand nowhere else."""
    git_branches_new: tuple[str, ...] = ()
    """Branches that come with it (short names), and that stood neither here nor at `origin`."""
    copy_of: str = ""
    """For a file of a work tree or clone that the call makes: the file at the same path beside it,
    which stood before, stays, and holds the same."""
    git_tracked: tuple[tuple[str, str], ...] = ()
    """References that stand for another repository's branches, and come, move or go; each with the
    address of that repository, empty where there is none or several."""
    git_shadows: str = ""
    """An existing reference that one of these could be taken for."""
    unsigned: str = ""
    """For a reference: it leads to a new `commit` or `tag` without a signature."""


class Outcome(str, Enum):
    """What gate 2 says of a whole transaction, from the mildest to the strictest."""

    LAND = "land"
    HOLD = "hold"
    DISCARD = "discard"


@dataclass(frozen=True, slots=True)
class PathReason:
    """Why one path is held or refused."""

    path: str
    """Empty where it is about all changes together."""
    outcome: Outcome
    rule: str
    reason: str


@dataclass(frozen=True, slots=True)
class Judgement:
    """Gate 2's answer for one transaction."""

    outcome: Outcome
    reasons: tuple[PathReason, ...] = field(default=())
    message: str = ""
    """One short text for the agent: what was refused, and what to do instead. Empty for LAND."""
