# SPDX-License-Identifier: Apache-2.0
"""What a policy file says of the network: which programs may reach which hosts, and installs.

Pure. A rule gives a right to calls of the programs that it names, and to nobody else in the same
call; it lowers no verdict. INVARIANT (P4, rights): a right comes of a person's file, or of a
person's yes to a call that spells the host out; never of what an agent wrote anywhere else.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from typing import Annotated

from pydantic import Field, field_validator, model_validator

from policy import hosts as names
from policy.credentials import Credential
from policy.facts import Facts
from policy.model import ActionPlan, Frozen, Host, Network, Tier

MOST_HOSTS = 64
"""Hosts of one call."""
DEFAULT_PORT = 443
_PLAIN = frozenset(
    ("cd", "echo", "true", "false", "test", "[", ":", "ls", "pwd", "printf", "mkdir", "cat", "head",
     "tail", "set", "exit", "export", "sleep", "wc", "grep", "date", "tee")
)  # fmt: skip
"""Programs that may stand beside those that a right is for: none of them reaches a host."""
_WRAPPERS = frozenset(("time", "nice", "timeout", "env", "nohup", "stdbuf", "ionice"))
"""Programs that only start another, which stands among the programs of the call as well."""
_ENTRY = re.compile(r"([^:\s]+)(?::(\d{1,5}))?")
_INSTALL_RULES = frozenset(("packages", "code", "script"))
"""Rules of what an install is, and an environment that is made or chosen for it."""
_CLIENTS = frozenset(("pip", "pip3", "npm", "pnpm"))
_INSTALLS = frozenset(
    ("install", "i", "in", "ins", "inst", "add", "ci", "clean-install", "install-clean", "update",
     "up", "upgrade", "download", "wheel")
)  # fmt: skip
"""What a client is told to do, where it only installs."""
_RUNS = frozenset(
    ("run", "run-script", "rum", "urn", "test", "t", "tst", "exec", "x", "start", "stop", "restart",
     "init", "create", "innit", "explore", "publish", "pack", "version", "rebuild", "rb", "dlx",
     "login", "config", "cache")
)  # fmt: skip
"""... and where it runs what the project says, or does more."""
_GIT_REACHES = frozenset(
    f"git {verb}" for verb in ("clone", "fetch", "ls-remote", "pull", "push", "remote", "submodule")
)
_OF_IMAGE = ("/usr/bin/", "/bin/", "/usr/local/bin/")
_PYTHON = re.compile(r"python(?:3(?:\.\d{1,2})?)?")


class HostRule(Frozen):
    """Hosts that programs may reach."""

    hosts: Annotated[tuple[str, ...], Field(min_length=1, max_length=MOST_HOSTS)]
    """`NAME` (port 443) or `NAME:PORT`; `*` stands for one label."""
    programs: Annotated[tuple[str, ...], Field(min_length=1)]
    """For calls of these programs; a call of others besides gets nothing."""
    because: Annotated[str, Field(min_length=1)]
    private: bool = False
    """The names may lead into a private network (10.0.0.0/8, ...)."""
    address: str = ""
    """Where the one name is, whatever a resolver says; this host's own services too."""
    roles: tuple[str, ...] = ()
    """Only for agents of these roles."""
    workspaces: tuple[str, ...] = ()
    """Only in these workspaces (absolute paths)."""

    @field_validator("hosts")
    @classmethod
    def _plain(cls, said: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(_host(one) for one in said)

    @model_validator(mode="after")
    def _placed(self) -> HostRule:
        if not self.address:
            return self
        try:
            ipaddress.ip_address(self.address)
        except ValueError:
            raise ValueError(f"`{self.address}` is no address, such as `10.1.2.3`") from None
        if len({host.partition(":")[0] for host in self.hosts}) > 1 or "*" in self.hosts[0]:
            raise ValueError("`address` says where one name is; give the others rules of their own")
        return self

    def of(
        self, plan: ActionPlan, programs: frozenset[str], paths: frozenset[str] = frozenset()
    ) -> tuple[Host, ...]:
        """Return the hosts that a call of these programs may reach by this rule.

        `paths` are those that it calls by a path which is not the image's: whatever lies there may
        be an agent's, so that only a rule which says that path is about it.
        """
        if not _only(self.programs, programs, paths):
            return ()
        if self.roles and plan.role not in self.roles:
            return ()
        if self.workspaces and plan.workspace not in self.workspaces:
            return ()
        parts = (host.rpartition(":") for host in self.hosts)
        return tuple(
            Host(name=name, port=int(port), private=self.private, address=self.address)
            for name, _, port in parts
        )


def _only(
    wanted: Iterable[str], programs: frozenset[str], paths: frozenset[str] = frozenset()
) -> bool:
    """Whether a call is one of these programs, with nothing beside that reaches a host."""
    wanted = frozenset(wanted)
    if not paths <= wanted:
        return False
    if any(program.startswith("git ") and program not in _GIT_REACHES for program in programs):
        return False  # `git commit` reaches nobody, and what it runs may be anybody's
    own = {program for program in programs if {program, program.split(" ", 1)[0]} & wanted}
    return bool(own) and programs <= own | _PLAIN | _WRAPPERS


def _host(text: str) -> str:
    match = _ENTRY.fullmatch(text)
    name = names.host_pattern(match[1]) if match is not None else None
    port = int(match[2] or DEFAULT_PORT) if match is not None else 0
    if name is None or not 0 < port <= names.MOST_PORT:
        raise ValueError(
            f"`{text}` is no host: write `NAME`, `*.NAME.TLD` or `NAME:PORT`; an address gets a "
            "name and `address`"
        )
    return f"{name}:{port}"


def named_host(text: str) -> Host | None:
    """Return the host of `NAME` or `NAME:PORT`; None for what is no such thing."""
    match = _ENTRY.fullmatch(text)
    name = names.host_name(match[1]) if match is not None else None
    port = int(match[2] or DEFAULT_PORT) if match is not None else 0
    if name is None or not 0 < port <= names.MOST_PORT:
        return None
    return Host(name=name, port=port)


class NetworkRules(Frozen):
    """What calls may reach. Files add hosts; a file that says `packages: false` is heeded."""

    packages: bool = True
    """Whether installs reach the package indexes that this host's clients are configured for."""
    allow: Annotated[tuple[HostRule, ...], Field(max_length=1000)] = ()
    """Loosens: hosts, by program."""
    credentials: Annotated[tuple[Credential, ...], Field(max_length=64)] = ()
    """Loosens, and counts in the user's own file alone: what is added to requests to hosts that a
    call may reach; it opens none."""

    def joined(self, other: NetworkRules) -> NetworkRules:
        """Return the rules of both."""
        return NetworkRules(
            packages=self.packages and other.packages,
            allow=(*self.allow, *other.allow),
            credentials=(*self.credentials, *other.credentials),
        )

    @field_validator("credentials")
    @classmethod
    def _once(cls, said: tuple[Credential, ...]) -> tuple[Credential, ...]:
        ids = [credential.id for credential in said]
        if len(set(ids)) < len(ids):
            raise ValueError("two credentials have the same `id`")
        return said

    def opens(self, plan: ActionPlan, facts: Facts) -> bool:
        """Whether a call may reach every host that its commands ask for, without a question."""
        allowed = self._allowed(plan, facts)
        return all(
            any(port == host.port and names.covers(host.name, name) for host in allowed)
            for name, port in facts.hosts
        )

    def rights(self, plan: ActionPlan, facts: Facts, *, asked: bool) -> Network:
        """Return what a call may reach once it may run. `asked`: a person is asked about it first,
        and shown what that is."""
        allowed = self._allowed(plan, facts)
        if asked:
            allowed += [Host(name=name, port=port) for name, port in facts.hosts]
        indexes = tuple(facts.indexes) if self.packages and (asked or _installs(facts)) else ()
        hosts = _distinct(allowed)
        return Network(
            packages=indexes, hosts=hosts, credentials=self._added(facts, indexes, hosts)
        )

    def _added(
        self, facts: Facts, indexes: tuple[str, ...], hosts: tuple[Host, ...]
    ) -> tuple[Credential, ...]:
        """Return the credentials for hosts of a call, and for the indexes of its clients. A push
        with one is a right of `git push` alone."""
        programs, paths = frozenset(facts.programs), _own_paths(facts)
        out = []
        for credential in self.credentials:
            if credential.programs and not _only(credential.programs, programs, paths):
                continue
            named = credential.within((host.name, host.port) for host in hosts)
            if indexes and credential.programs:  # the host alone knows where its indexes are
                named = credential.hosts
            if named:
                push = credential.push if "git push" in programs else ()
                out.append(credential.model_copy(update={"push": push, "hosts": named}))
        return tuple(out)

    def _allowed(self, plan: ActionPlan, facts: Facts) -> list[Host]:
        programs, paths = frozenset(facts.programs), _own_paths(facts)
        return [host for rule in self.allow for host in rule.of(plan, programs, paths)]


def _own_paths(facts: Facts) -> frozenset[str]:
    """Return the paths by which a call starts programs that are not the image's."""
    called = {words[0] for words in facts.calls if words and "/" in words[0]}
    return frozenset(one for one in called if not one.startswith(_OF_IMAGE))


def _installs(facts: Facts) -> bool:
    """Whether a call does nothing but install packages of the usual index."""
    return (
        bool(facts.calls)
        and all(map(_is_of_install, facts.calls))
        and all(
            finding.tier is Tier.SAFE
            or (finding.tier is Tier.CAUTION and finding.rule in _INSTALL_RULES)
            for finding in facts.findings
        )
    )


def _is_of_install(words: tuple[str, ...]) -> bool:
    """Whether a command is an install, or one that may stand beside it."""
    if words[0] in _WRAPPERS:
        words = _started(words)
        if not words:
            return False
    name = words[0].rpartition("/")[2]
    if _PYTHON.fullmatch(name):
        told = next((word for word in words[3:] if word in _INSTALLS or word in _RUNS), "")
        return words[1:3] == ("-m", "venv") or (words[1:3] == ("-m", "pip") and told in _INSTALLS)
    if words[0] in ("sh", "bash"):  # what its text runs stands among the commands too
        return len(words) == 3 and words[1] == "-c"
    if name in (".", "source"):
        return len(words) == 2 and words[1].endswith("/bin/activate")
    if name in _CLIENTS:
        told = next((word for word in words[1:] if word in _INSTALLS or word in _RUNS), "")
        return told in _INSTALLS
    return words[0] in _PLAIN


_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)
_OPTION = re.compile(r"-[a-z0-9]*|--[a-z-]+(?:=[\w.+-]*)?")
_AMOUNT = re.compile(r"-?[0-9.]+[a-z]?")
_WITH_VALUE = frozenset(("-n", "-k", "-s", "-c", "-p", "-i", "-o", "-e", "-u"))


def _started(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command that a wrapper starts, where that is said in the usual way."""
    name, *rest = words
    takes = _WITH_VALUE if name != "time" else frozenset()
    while rest and (
        _OPTION.fullmatch(rest[0]) or (name == "env" and _ASSIGNMENT.fullmatch(rest[0]))
    ):
        rest = rest[2 if rest[0] in takes else 1 :]
    if name == "timeout" and rest and _AMOUNT.fullmatch(rest[0]):
        rest = rest[1:]
    return () if rest and rest[0] in _WRAPPERS else tuple(rest)


def _distinct(found: Iterable[Host]) -> tuple[Host, ...]:
    """Return each name and port once, as the first said that names it."""
    kept: dict[tuple[str, int], Host] = {}
    for host in found:
        kept.setdefault((host.name, host.port), host)
    return tuple(kept.values())[:MOST_HOSTS]
