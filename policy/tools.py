# SPDX-License-Identifier: Apache-2.0
"""Read a plan of any tool into facts: command lines, file tools, web tools."""

from __future__ import annotations

from policy.commands import Catalog
from policy.facts import Facts, How, Touch
from policy.marks import ONE, STAR, clean
from policy.model import ActionPlan, Context, Tier
from policy.paths import absolute
from policy.rules import Tools
from policy.shell import read


def facts(plan: ActionPlan, context: Context, catalog: Catalog, tools: Tools) -> Facts:
    """Return what a plan does."""
    place = absolute(clean(plan.cwd or plan.workspace), plan.workspace)
    if plan.tool in tools.shell:
        return _shell(plan, context, catalog, place)
    found = Facts()
    if plan.tool in tools.web:
        return found
    home = context.home
    if plan.tool in tools.read:
        _touch(found, How.READ, plan.params.file_path or _extra(plan, "notebook_path"), place, home)
    elif plan.tool in tools.list:
        path = plan.params.path or "."
        _touch(found, How.LIST, path, place, home)
        if plan.params.pattern:
            _glob(found, plan.params.pattern, absolute(_tilde(path, home), place), home)
    elif plan.tool in tools.search:
        _touch(
            found,
            How.SEARCH if not _is_file(plan.params.path) else How.READ,
            plan.params.path or ".",
            place,
            home,
        )
        if plan.params.glob:
            _glob(
                found,
                plan.params.glob,
                absolute(_tilde(plan.params.path or ".", home), place),
                home,
                how=How.SEARCH,
            )
    elif plan.tool in tools.write:
        target = plan.params.file_path or _extra(plan, "notebook_path") or plan.params.path
        _touch(found, How.WRITE, target, place, home)
    else:
        found.find(
            Tier.DANGER, "unknown-tool", f"the tool `{clean(plan.tool)}` is not known to the policy"
        )
        found.writes = True
    return found


def _shell(plan: ActionPlan, context: Context, catalog: Catalog, place: str) -> Facts:
    if plan.params.command is None:
        found = Facts()
        found.find(Tier.DANGER, "bad-input", "a command is missing")
        return found
    found = read(catalog, plan.params.command, place, context.home)
    if place != plan.workspace:
        found.touch(Touch(How.LIST, place, "cwd"))  # whatever names no path works here
    return found


def _extra(plan: ActionPlan, name: str) -> str | None:
    value = (plan.params.model_extra or {}).get(name)
    return value if isinstance(value, str) else None


def _is_file(path: str | None) -> bool:
    return bool(path) and "." in (path or "").rsplit("/", 1)[-1].lstrip(".")


def _tilde(path: str, home: str) -> str:
    if path == "~" or path.startswith("~/"):
        return home + path[1:]
    if path.startswith("~"):
        return "/home/" + path[1:]
    return path


def _touch(found: Facts, how: How, path: str | None, place: str, home: str) -> None:
    if not path:
        found.find(Tier.DANGER, "bad-input", "the path is missing")
        return
    if "\x00" in path or "\n" in path:
        found.find(Tier.FORBIDDEN, "bad-input", "the path holds a control character")
    plain = clean(path).replace("\\", "/") if how is How.WRITE else clean(path)
    found.touch(Touch(how, absolute(_tilde(plain, home), place), "tool"))


def _glob(found: Facts, pattern: str, place: str, home: str, *, how: How = How.LIST) -> None:
    text = _tilde(clean(pattern), home).replace("*", STAR).replace("?", ONE)
    if text.startswith("/") or ".." in text or "~" in pattern:
        found.touch(Touch(how, absolute(text, place), "tool"))
