# SPDX-License-Identifier: Apache-2.0
"""Read a plan of any tool into facts: command lines, file tools, web tools, patches.

What a tool does is the policy's word (`Tools`); a tool of which nothing is said is not known. The
names of parameters are those of `agent_tools`, and those that servers of files commonly use, so
that `tools: {write: [mcp__files__write_file]}` is enough. Each parameter that names a path counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from policy.facts import Facts, How, Touch
from policy.model import ActionPlan, Context, Tier
from policy.programs.catalog import Catalog
from policy.rules.matching import Tools
from policy.shell.held_scripts import why_lossless
from policy.shell.reading import read
from policy.shell.state import NOTHING_SEEN, Disk
from policy.tools.dialects import names_of
from policy.values.filenames import alternatives
from policy.values.partial import activate, clean, globbed, unknown
from policy.values.patches import patched
from policy.values.paths import absolute
from policy.values.urls import Web, carries_data, web

_PATHS = ("file_path", "notebook_path", "path", "paths", "filePath", "uri")
_ENDS = ("to", "destination", "new_path", "target")
_SOURCES = ("source", "old_path")
_URLS = ("url", "urls", "uri")
_VERDICTS = {
    "allow": (Tier.SAFE, "allows"),
    "report": (Tier.CAUTION, "reports"),
    "ask": (Tier.DANGER, "asks about"),
    "deny": (Tier.FORBIDDEN, "denies"),
}
BY_NAME = "tools"
"""The rule of a verdict on a tool whatever its parameters are; only policy files have them."""
_TAKES = frozenset((How.DELETE, How.EMPTY))
"""What may take away all that a file holds."""
_PARTS = re.compile(r"[\s,]+")
_LONGEST_GLOB, _LONGEST_NAME, _MOST_BRACES = 4096, 255, 32
_MOST_PATTERNS = 256
"""Patterns that one with braces may stand for; with more, it stands for every name."""


def facts(
    plan: ActionPlan,
    context: Context,
    catalog: Catalog,
    tools: Tools,
    disk: Disk = NOTHING_SEEN,
) -> Facts:
    """Return what a plan does; `disk` is what is known of the scripts that it runs."""
    place = absolute(clean(plan.cwd or plan.workspace), plan.workspace)
    found = _facts(plan, context, catalog, tools, disk, place)
    for touch in found.touches:
        if touch.how in _TAKES and not unknown(touch.path) and not globbed(touch.path):
            found.wanted[touch.path] = None
            seen = disk.get(touch.path)
            if why := why_lossless(seen, touch.how, touch.path, found):
                back = ", and `lockgate undo` brings it back" if tools.is_shell(plan.tool) else ""
                kept = seen is not None and (seen.own or seen.spare)
                found.lossless[touch] = why + (back if kept else "")
            if seen is not None and seen.absent:
                found.absent.add(touch.path)
    return found


def _facts(
    plan: ActionPlan,
    context: Context,
    catalog: Catalog,
    tools: Tools,
    disk: Disk,
    place: str,
) -> Facts:
    kinds = tools.kinds(plan.tool)
    kinds |= tools.named(names_of(str(_given(plan).get("tool") or plan.tool)))
    if kinds == _SHELL:
        return _shell(plan, context, catalog, place, disk)
    found = _shell(plan, context, catalog, place, disk) if "shell" in kinds else Facts()
    if not kinds:
        name = clean(plan.tool)
        found.find(Tier.DANGER, "unknown-tool", f"the tool `{name}` is not known to the policy")
        found.writes = True
        for path in [one for key in _PATHS for one in _list(plan, key) if "\n" not in one]:
            found.touch(Touch(How.READ, absolute(_tilde(clean(path), context.home), place), "tool"))
    call = _Call(plan, found, place, context.home)
    for kind in sorted(kinds):
        call.does(kind, catalog, context)
    asks = _list(plan, "asks") or (["it cannot be judged"] if "opaque" in kinds else [])
    for why in asks:
        found.find(Tier.DANGER, "tool", f"the tool `{_origin(plan)}`: {clean(why)}")
    return found


_SHELL = frozenset(("shell",))


def _given(plan: ActionPlan) -> Mapping[str, Any]:
    """Return what a plan says of the call as the agent made it."""
    given = (plan.params.model_extra or {}).get("given")
    return given if isinstance(given, Mapping) else {}


def _shell(
    plan: ActionPlan,
    context: Context,
    catalog: Catalog,
    place: str,
    disk: Disk = NOTHING_SEEN,
) -> Facts:
    if plan.params.command is None:
        found = Facts()
        found.find(Tier.DANGER, "bad-input", "a command is missing")
        return found
    roots = (plan.workspace, *(workspace.path for workspace in context.workspaces))
    found = read(catalog, plan.params.command, place, context.home, disk, roots)
    if place != plan.workspace:
        found.touch(Touch(How.LIST, place, "cwd"))  # whatever names no path works here
    if plan.params.model_extra:
        for why in _list(plan, "asks"):
            found.find(Tier.DANGER, "tool", f"the tool `{_origin(plan)}`: {clean(why)}")
    return found


class _Call:
    """One call of a tool that is no shell."""

    def __init__(self, plan: ActionPlan, found: Facts, place: str, home: str) -> None:
        self._plan = plan
        self._found = found
        self._place = place
        self._home = home

    def does(self, kind: str, catalog: Catalog, context: Context) -> None:
        """Add what a tool of a kind does."""
        plan, found = self._plan, self._found
        match kind:
            case "read":
                self._touch(How.READ, self._paths())
            case "read_many":
                self._globs(
                    How.READ, (*_list(plan, "paths"), *self._some(("include",))), required=True
                )
            case "list":
                self._touch(How.LIST, self._paths() or ["."])
                self._globs(How.LIST, self._some(("pattern",)))
            case "search":
                for path in self._paths() or ["."]:
                    self._touch(How.READ if _is_file(path) else How.SEARCH, [path])
                self._globs(How.READ, self._some(("glob", "globs")))
            case "write":
                self._touch(How.WRITE, self._paths())
            case "delete":
                self._touch(How.DELETE, self._paths())
            case "move":
                self._touch(How.MOVE, self._some((*_SOURCES, *_PATHS)))
                self._touch(How.WRITE, self._some(_ENDS))
            case "patch":
                self._patch()
            case "web":
                self._web()
            case "spawn":
                found.find(Tier.SAFE, "spawn", "it starts a sub-agent, whose own calls are judged")
            case "internal":
                found.find(Tier.SAFE, "internal", "it touches nothing outside the agent")
            case "powershell":
                self._powershell(catalog, context)
            case "opaque":
                found.writes = True
            case "allow" | "report" | "ask" | "deny":
                tier, says = _VERDICTS[kind]
                said = f"the policy {says} the tool `{clean(plan.tool)}`"
                found.find(tier, BY_NAME, said)
                found.writes = found.writes or tier is not Tier.SAFE

    def _powershell(self, catalog: Catalog, context: Context) -> None:
        """Read the text as a shell's, which finds what is forbidden; a person looks anyway."""
        seen = _shell(self._plan, context, catalog, self._place)
        for touch in seen.touches:
            self._found.touch(touch)
        for finding in seen.findings:
            self._found.find(finding.tier, finding.rule, finding.reason)
        self._found.programs |= seen.programs
        self._found.calls |= seen.calls
        self._found.writes = True
        why = "a command of PowerShell can only be read as far as it looks like a shell's"
        self._found.find(Tier.DANGER, "opaque", why)

    def _patch(self) -> None:
        text = self._plan.params.command or self._plan.params.content or ""
        files = patched(text)
        if files.empty:
            self._found.find(
                Tier.DANGER, "bad-input", "it is not known which files the patch changes"
            )
            self._found.writes = True
            return
        self._touch(How.WRITE, files.written, required=False)
        self._touch(How.DELETE, files.deleted, required=False)
        self._touch(How.MOVE, files.moved, required=False)

    def _web(self) -> None:
        reads = f"`{clean(self._plan.tool)}` reads public pages"
        self._found.find(Tier.SAFE, "web", f"{reads}; the cell itself gets no network right")
        for address in self._some(_URLS):
            what = web(address)
            shown = clean(address)[:200]
            if what is Web.FILE:
                path = address.partition(":")[2].lstrip("/")
                self._touch(How.READ, [f"/{path.removeprefix('localhost/')}"])
            elif what is Web.METADATA:
                self._found.find(Tier.FORBIDDEN, "secrets", f"`{shown}` hands out credentials")
            elif what is not Web.PUBLIC:
                self._found.find(Tier.DANGER, "network", f"`{shown}` is {what.value}")
            elif carries_data(address):
                reason = f"`{shown}` could hand data of this host to a site that nobody named"
                self._found.find(Tier.DANGER, "web-data", reason)

    def _paths(self) -> list[str]:
        return self._some(_PATHS)

    def _some(self, names: Iterable[str]) -> list[str]:
        """Return every text that parameters of these names hold, each once."""
        found: dict[str, None] = {}
        for name in names:
            found |= dict.fromkeys(_list(self._plan, name))
        return list(found)

    def _touch(self, how: How, paths: Iterable[str], *, required: bool = True) -> None:
        given = [one for one in paths if one]
        if not given and required:
            self._found.find(Tier.DANGER, "bad-input", "the path is missing")
        for path in given:
            if "\x00" in path or "\n" in path:
                self._found.find(Tier.FORBIDDEN, "bad-input", "the path holds a control character")
            writes = how in (How.WRITE, How.DELETE, How.MOVE)
            plain = clean(path).replace("\\", "/") if writes else clean(path)
            whole = absolute(_tilde(plain, self._home), self._place)
            self._found.touch(Touch(how, whole, "tool"))

    def _globs(self, how: How, patterns: Iterable[str], *, required: bool = False) -> None:
        """Take patterns of files, which stand in the folder that the call names."""
        given = [one for one in patterns if one]
        if any(_is_endless(one) for one in given):
            because = "its pattern of files is too long, or nests too deeply, to be read"
            self._found.find(Tier.FORBIDDEN, "bad-input", because)
            return
        if not given and required:
            self._found.find(Tier.DANGER, "bad-input", "the path is missing")
        base = (self._plan.params.path or ".") if how is not How.READ or not required else "."
        place = absolute(_tilde(clean(base), self._home), self._place)
        for pattern in (one for several in given for one in parted(several)):
            if pattern.startswith("!"):  # files that are left out
                continue
            for plain in spelled_out(pattern):
                text = activate(_tilde(clean(plain), self._home))
                outside = text.startswith("/") or ".." in text or "~" in plain
                if outside or how is How.READ:
                    self._found.touch(Touch(how, absolute(text, place), "tool"))


def _is_endless(pattern: str) -> bool:
    """Whether a pattern is none that names files: no name is that long."""
    names = pattern.split("/")
    long = len(pattern) > _LONGEST_GLOB or any(len(name.encode()) > _LONGEST_NAME for name in names)
    return long or pattern.count("{") > _MOST_BRACES


def parted(patterns: str) -> list[str]:
    """Return the patterns that a text may hold: tools part it at spaces, and some at commas."""
    parts = _PARTS.split(patterns) if "{" not in patterns else patterns.split()
    found = dict.fromkeys((patterns, *parts) if not patterns.startswith("!") else parts)
    return [one for one in found if one]


def spelled_out(pattern: str) -> list[str]:
    """Return the patterns that one with braces stands for, or a wider one where that is too many.

    A backslash only says that what follows is meant as it stands.
    """
    plain = pattern.replace("\\", "")
    try:
        found = [*islice(alternatives(plain), _MOST_PATTERNS + 1)]
    except ValueError:
        return ["*"]
    if len(found) > _MOST_PATTERNS or any("{" in one or "}" in one for one in found):
        return ["*"]
    return [*dict.fromkeys(found)]


def _list(plan: ActionPlan, name: str) -> list[str]:
    """Return the texts of a parameter, known or not."""
    value: Any = getattr(plan.params, name, None)
    if isinstance(value, str):
        return [value]
    return [one for one in value if isinstance(one, str)] if isinstance(value, list | tuple) else []


def _origin(plan: ActionPlan) -> str:
    """Return the tool as its agent calls it."""
    return clean((plan.derived_from or plan.tool).rpartition(":")[2])[:200]


def _is_file(path: str) -> bool:
    name = path.rstrip("/").rsplit("/", 1)[-1]
    return "." in name.lstrip(".") or name.startswith(".env")


def _tilde(path: str, home: str) -> str:
    if path == "~" or path.startswith("~/"):
        return home + path[1:]
    if path.startswith("~"):
        return "/home/" + path[1:]
    return path
