# SPDX-License-Identifier: Apache-2.0
"""Judge the places that a call touches: secrets, other homes, the system, outside the workspace.

Rules of safety-guardrails.md, "Workspace Sandboxing" and tiers 3 and 4.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache

from policy.facts import DELETES, READS, WRITES, How, Touch
from policy.model import Context, Frozen, LayerAnswer, Verdict
from policy.protected.path_rules import ObeyedFile, ObeyedRule
from policy.rules.image_paths import MACHINE, absent, in_image
from policy.values import strict_yaml
from policy.values.comparison import normal
from policy.values.filenames import Anchors
from policy.values.odd_names import why_odd
from policy.values.partial import globbed, shown, unknown, weight
from policy.values.paths import Fit, Where, below, canonical, fits, where

_OBEYED = "other programs run or obey this file; a person looks first"
_LOOKS = frozenset((How.EXIST, How.LIST))
_PUTS = frozenset((How.WRITE, How.APPEND))


class Places(Frozen):
    """The file `defaults/places.yaml`."""

    secret_folders: tuple[str, ...]
    secret_files: tuple[str, ...]
    secret_home: tuple[str, ...]
    agent_home: tuple[str, ...]
    agent_files: tuple[str, ...] = ()
    """Below a home: what coding agents keep for themselves and read; `{workspace}` is the name that
    they make of a workspace's path, `**` whatever lies there."""
    agent_writes: tuple[str, ...] = ()
    """... and what they write."""
    own_home: tuple[str, ...] = ()
    environment_files: tuple[str, ...]
    environment_templates: tuple[str, ...]
    asked_files: tuple[str, ...]
    asked_endings: tuple[str, ...]
    unread_files: tuple[str, ...] = ()
    secret_absolute: tuple[str, ...]
    asked_writes: tuple[str, ...]
    obeyed: tuple[ObeyedRule, ...] = ()
    """Rows of the table that gate 2 goes by (`obeyed.yaml`)."""

    @classmethod
    def default(cls) -> Places:
        """Return the places that come with the package, and what both gates know as obeyed."""
        table = ObeyedFile.default().obeyed
        return strict_yaml.default(cls, "places.yaml").model_copy(update={"obeyed": table})

    @cached_property
    def _folders(self) -> frozenset[str]:
        return frozenset(self.secret_folders)

    @cached_property
    def _files(self) -> frozenset[str]:
        return frozenset(self.secret_files)

    @cached_property
    def _asked(self) -> tuple[tuple[str, ...], ...]:
        return tuple(tuple(pattern.split("/")) for pattern in self.asked_writes)

    @cached_property
    def _named(self) -> frozenset[str]:
        return frozenset(part for wanted in self._asked for part in wanted)

    @cached_property
    def _table(self) -> Anchors:
        return Anchors(pattern for rule in self.obeyed for pattern in rule.paths)

    def _obeyed(self, names: tuple[str, ...]) -> bool:
        """Whether a row without `format` names a path that is known; what rows with one hold is for
        gate 2 to say."""
        path = normal("/".join(names))
        if not self._table.may_name(path):
            return False
        return any(rule.format is None and rule.covers(path) for rule in self.obeyed)

    @cached_property
    def _remembered(self) -> Callable[[Touch, Context], LayerAnswer | None]:
        return lru_cache(maxsize=4096)(self._judged)  # the same few paths are named all day

    def judge(self, touch: Touch, context: Context) -> LayerAnswer | None:
        """Return what a touched path demands, or None if the place is fine."""
        return self._remembered(touch, context)

    def _judged(self, touch: Touch, context: Context) -> LayerAnswer | None:
        path = touch.path
        if touch.how in WRITES and self._lockgates(touch, context):
            why = "settings and state of Lockgate itself are for people alone"
            return _say(Verdict.DENY, "lockgate-own", touch, why)
        answer = self._secret(touch, context)
        if answer is not None:
            return answer
        place = where(path, context)
        if place is Where.INSIDE:
            return self._inside(touch, context)
        if place in (Where.DEVICE, Where.TEMPORARY):
            if touch.how is How.RUN and place is Where.TEMPORARY:
                return _say(Verdict.ASK, "outside", touch, "code from outside the workspace")
            return None
        if place is Where.OWN_HOME and (self._own(path, context) or self.keeps(touch, context)):
            return None
        return _outside(touch, place)

    def _lockgates(self, touch: Touch, context: Context) -> bool:
        """Whether a written path is Lockgate's own, or a folder that goes with all it holds."""
        wanted = (*context.own, *(f"{context.home.rstrip('/')}/{one}" for one in self.own_home))
        path = touch.path
        return any(
            below(path, one) or (touch.how in DELETES and below(one, path)) for one in wanted
        )

    def keeps(self, touch: Touch, context: Context) -> bool:
        """Return whether a path is one of those that a coding agent keeps for itself: written out,
        below the user's own home."""
        path = touch.path
        if unknown(path) or globbed(path) or not below(path, context.home):
            return False
        names = tuple(part for part in path[len(context.home) :].split("/") if part)
        allowed = self.agent_files if touch.how in READS else self.agent_writes
        slugs = tuple(_ODD.sub("-", workspace.path) for workspace in context.workspaces)
        return any(_kept(names, one.split("/"), slugs) for one in allowed)

    def _own(self, path: str, context: Context) -> bool:
        """Return whether a path belongs to the agent itself."""
        home = _home_rest(path, context)
        return home is not None and any(below("/" + home, "/" + one) for one in self.agent_home)

    def _secret(self, touch: Touch, context: Context) -> LayerAnswer | None:
        path = touch.path
        parts = path.split("/")
        home = _home_rest(path, context)
        if home is not None and any(below("/" + home, "/" + one) for one in self.agent_home):
            return None
        guessed: LayerAnswer | None = None
        for part in parts:
            if not part:
                continue
            if not globbed(part) and not unknown(part):
                name = canonical(part)
                if name in self._folders or (name in self._files and touch.how not in _LOOKS):
                    return _say(
                        Verdict.DENY, "secrets", touch, "keys and credentials are never touched"
                    )
            elif (found := self._guessed(part, touch.how)) is not None:
                if found is Fit.SURE:
                    return _say(
                        Verdict.DENY, "secrets", touch, "it can be a path of keys or credentials"
                    )
                inside = where(path, context) is Where.INSIDE
                bare = in_image(path) and not weight(part)
                if touch.how not in _LOOKS and not inside and not bare:
                    guessed = _say(
                        Verdict.ASK, "secrets", touch, "it can be a path of keys or credentials"
                    )
        if any(below(path, one) for one in self.secret_absolute):
            return _say(Verdict.DENY, "secrets", touch, "keys and credentials are never touched")
        if (
            len(parts) > 2
            and parts[1] == "proc"
            and parts[-1] in ("environ", "mem", "auxv", "maps", "cmdline")
            and touch.how not in _LOOKS
        ):
            verdict = Verdict.DENY if parts[-1] in ("environ", "mem") else Verdict.ASK
            return _say(verdict, "secrets", touch, "it shows what another process holds")
        if home is not None and not self.keeps(touch, context):
            for one in self.secret_home:
                folded = "/".join(canonical(part) for part in home.split("/"))
                if below("/" + folded, "/" + one) or any(
                    fits(home.split("/")[0], one.split("/")[0]) is Fit.SURE
                    for _ in (0,)
                    if "/" not in one
                ):
                    return _say(
                        Verdict.DENY,
                        "secrets",
                        touch,
                        "settings and tokens of the user are never touched",
                    )
        return self._environment(touch, parts[-1]) or guessed

    def _guessed(self, part: str, how: How) -> Fit | None:
        best: Fit | None = None
        files = () if how in _LOOKS else self.secret_files
        for name in (*self.secret_folders, *files):
            fit = fits(part, name)
            if fit is Fit.SURE:
                return fit
            if fit is Fit.MAYBE and unknown(part) is False:
                best = best or fit
        return best

    def _environment(self, touch: Touch, name: str) -> LayerAnswer | None:
        if touch.how in (How.EXIST, How.LIST, How.SEARCH, How.META):
            return None
        plain = canonical(name) if not globbed(name) and not unknown(name) else ""
        for wanted in self.environment_files:
            secret = plain == wanted or (
                plain.startswith(wanted + ".")
                and not any(
                    part.startswith(self.environment_templates)
                    for part in plain.removeprefix(wanted).split(".")
                    if part
                )
            )
            fit = fits(name, wanted) if not plain and name else Fit.NO
            secret = secret or fit is Fit.SURE
            if secret:
                verdict = (
                    Verdict.DENY if touch.how in READS or touch.how is How.MOVE else Verdict.ASK
                )
                return _say(
                    verdict,
                    "secrets",
                    touch,
                    "environment files hold secrets; use a template of it",
                )
            if fit is Fit.MAYBE and not unknown(name) and weight(name):
                return _say(Verdict.ASK, "secrets", touch, "environment files can be among these")
        if plain in self.unread_files and touch.how in READS:
            return _say(
                Verdict.DENY, "secrets", touch, "the name is one of a cloud's or a person's keys"
            )
        if plain in (*self.asked_files, *self.unread_files) or plain.endswith(self.asked_endings):
            return _say(Verdict.ASK, "secrets", touch, "the name is one of keys or credentials")
        return None

    def _inside(self, touch: Touch, context: Context) -> LayerAnswer | None:
        if touch.how not in WRITES:
            return None
        if (
            unknown(touch.path)
            and touch.path.rsplit("/", 1)[-1].strip("/") != ""
            and _vague(touch.path, context)
        ):
            return _say(Verdict.ASK, "unknown-path", touch, "the path cannot be known")
        root = next(
            (
                workspace.path
                for workspace in context.workspaces
                if below(touch.path, workspace.path)
            ),
            "",
        )
        relative = touch.path[len(root) :].strip("/")
        if not relative and touch.how in DELETES:
            return _say(Verdict.ASK, "workspace", touch, "it is the workspace itself")
        names = tuple(relative.split("/")) if relative else ()
        if touch.how in _PUTS and (why := _odd(names)):
            return _say(Verdict.ASK, "odd-name", touch, why)
        if (
            names
            and not any(globbed(name) or unknown(name) for name in names)
            and self._obeyed(names)
        ):
            return _say(Verdict.ASK, "executed-files", touch, _OBEYED)
        names = _in_work_tree(names)
        if not any(
            globbed(name) or unknown(name) or canonical(name) in self._named for name in names
        ):
            return None  # no part of the path is a part of any of those below
        for wanted in self._asked:
            if _contains(names, wanted) or _ancestor(names, wanted):
                return _say(Verdict.ASK, "executed-files", touch, _OBEYED)
        return None


def _in_work_tree(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return a path as it is called in the work tree that holds it, where an agent keeps those."""
    known = not any(globbed(name) or unknown(name) or name == ".." for name in names[:3])
    if known and tuple(map(canonical, names[:2])) == _WORK_TREES and len(names) > 3:
        return names[3:]
    return names


def _odd(names: tuple[str, ...]) -> str:
    """Return what is odd about names that are known."""
    return "" if any(unknown(name) for name in names) else why_odd("/".join(names))


_WORK_TREES = (".claude", "worktrees")
"""Where Claude Code keeps work trees ("Run parallel sessions with git worktrees")."""
_ODD = re.compile(r"[^A-Za-z0-9]")


def _kept(names: tuple[str, ...], wanted: list[str], slugs: tuple[str, ...]) -> bool:
    deep = wanted[-1] == "**"
    wanted = wanted[:-1] if deep else wanted
    if len(names) < len(wanted) or (not deep and len(names) != len(wanted)):
        return False
    return all(
        name in slugs if pattern == "{workspace}" else fnmatchcase(name, pattern)
        for name, pattern in zip(names, wanted, strict=False)
    )


def _vague(path: str, context: Context) -> bool:
    """Return whether the unknown piece can make the path any path of the workspace."""
    root = next(
        (workspace.path for workspace in context.workspaces if below(path, workspace.path)), ""
    )
    first = path[len(root) :].lstrip("/").split("/")
    return unknown(first[0][:1]) or (len(first) > 1 and any(unknown(one[:1]) for one in first[1:]))


def _ancestor(names: tuple[str, ...], wanted: tuple[str, ...]) -> bool:
    """Return whether the last names are the folder in which `wanted` lies."""
    return any(
        len(names) >= size
        and all(
            fits(one, other) is Fit.SURE
            for one, other in zip(names[-size:], wanted[:size], strict=True)
        )
        for size in range(1, len(wanted))
    )


def _contains(names: tuple[str, ...], wanted: tuple[str, ...]) -> bool:
    for start in range(len(names)):
        part = names[start : start + len(wanted)]
        if len(part) < len(wanted):
            break
        if all(fits(one, other) is Fit.SURE for one, other in zip(part, wanted, strict=True)):
            return True
    return False


def _home_rest(path: str, context: Context) -> str | None:
    """Return the part of a path below any home directory."""
    parts = path.split("/")
    if below(path, context.home) and path != context.home:
        if any(below(path, workspace.path) for workspace in context.workspaces):
            return None
        return path[len(context.home.rstrip("/")) + 1 :]
    if len(parts) > 3 and parts[1] in ("home", "Users"):
        return "/".join(parts[3:])
    if len(parts) > 2 and parts[1] == "root":
        return "/".join(parts[2:])
    return None


def _outside(touch: Touch, place: Where) -> LayerAnswer | None:
    writes = touch.how in WRITES
    if writes and below(touch.path, "/var/log"):
        why = "logs of the machine are never changed; instead: write to a file of the workspace"
        return _say(Verdict.DENY, "security", touch, f"{why} or of /tmp")
    if writes and below(touch.path, "/var/spool"):
        return _say(Verdict.DENY, "system", touch, "files of the system are never changed")
    match place:
        case Where.OTHER_HOME:
            return _say(Verdict.DENY, "other-home", touch, "it is another user's home")
        case Where.SYSTEM if writes:
            wipes = below(touch.path, "/dev")
            why = "it overwrites a device" if wipes else "files of the system are never changed"
            return _say(Verdict.DENY, "wipe" if wipes else "system", touch, why)
        case Where.UNKNOWN:
            if touch.how is How.EXIST or (touch.how in READS and touch.program == "argument"):
                return None
            return _say(Verdict.ASK, "unknown-path", touch, "the path cannot be known")
        case _:
            return _cells_own(touch, place) or _say(
                Verdict.ASK, "outside", touch, "it lies outside the registered workspaces"
            )


def _cells_own(touch: Touch, place: Where) -> LayerAnswer | None:
    """Return the answer on what a command reads outside the workspaces: in a cell that is the
    image's own system, or it is not there; None where a person must be asked.

    An agent's own file tools may be those of the host, so for them all of it lies outside.
    """
    if touch.program == "tool" or touch.how not in READS:
        return None
    path = touch.path
    if touch.how is How.RUN:
        why = "it belongs to the image of the cell" if in_image(path) else ""
    elif place is Where.SYSTEM and not in_image(path):
        looks = (touch.how in _LOOKS and path != "/") or touch.how is How.EXIST
        why = MACHINE if looks else ""
    elif place in (Where.SYSTEM, Where.OUTSIDE):
        why = "it is the cell's own, not the host's" if in_image(path) else absent(path)
    elif place is Where.OWN_HOME:
        why = absent(path)
    else:
        why = ""
    return _say(Verdict.REPORT, "outside", touch, why) if why else None


def _say(verdict: Verdict, rule: str, touch: Touch, why: str) -> LayerAnswer:
    reason = f"{touch.how.value} `{shown(touch.path)}`: {why}"
    return LayerAnswer(layer="workspace", verdict=verdict, reason=reason, rule=rule)
