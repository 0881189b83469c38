# SPDX-License-Identifier: Apache-2.0
"""Three ways to a protected file below any spelling, for every kind of cell.

A name that the file had before, a folder above it that is renamed, and a path that does not exist
yet. Each is run twice: at the protected path, and at a plain one, where it must work (the control).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

OLD = '{"strict": true}\n'
PROTECTED, PLAIN = "devkit.config.json", "plain.config.json"
WAIVER, NOTE = ".devkit-waiver.yml", ".devkit-note.yml"
MODULES = "node_modules/pkg"
"""Dependency folders are not searched for files to pin, so that here gate 2 stands alone."""


@dataclass(frozen=True, slots=True)
class Route:
    """`steps` are the calls; `{f}` is the name of the file."""

    steps: tuple[str, ...]
    where: str = ""
    """The folder that the file lies in, and that is prepared."""
    alias: str = ""
    """A second name that the file has before the first call."""
    exists: bool = True
    works: str = "changed\n"
    """What the control ends with; empty where the file is gone or elsewhere."""


ROUTES = {
    "an old name is written": Route(("echo changed > alias",), alias="alias"),
    "an old name is appended to": Route((": > alias; echo changed >> alias",), alias="alias"),
    "an old name is edited in place": Route(
        ('python3 -c \'f = open("alias", "r+"); f.truncate(0); f.write("changed\\n")\'',),
        alias="alias",
    ),
    "an old name in a dependency folder is written": Route(
        (f"echo changed > {MODULES}/alias",), alias=f"{MODULES}/alias"
    ),
    "an old name is moved over it": Route(
        ("echo changed > alias; mv -f alias {f}",), alias="alias"
    ),
    "an old name gets another mode": Route(("chmod 755 alias",), alias="alias", works=OLD),
    "a folder above is renamed": Route(("mv top other",), where="top/of", works=""),
    "a folder above is renamed in a dependency": Route(
        (f"mv {MODULES} {MODULES}2",), where=MODULES, works=""
    ),
    "a folder above is renamed, changed and renamed back": Route(
        (f"mv {MODULES} m; echo changed > m/{{n}}; mv m {MODULES}",), where=MODULES
    ),
    "a folder above is exchanged": Route(
        (f"mkdir m; echo changed > m/{{n}}; mv {MODULES} old; mv m {MODULES}; rm -r old",),
        where=MODULES,
    ),
    "a new path is written": Route(("echo changed > {f}",), exists=False),
    "a new path is moved to": Route(("echo changed > t", "mv t {f}"), exists=False),
    "a new path is linked to": Route(("echo changed > t; ln t {f}",), exists=False),
    "a new path comes with its folder": Route(
        ("mkdir d; echo changed > d/{n}; mv d {d}",), where="new/folder", exists=False
    ),
    "a new path is unnamed first": Route(
        (
            "python3 -c 'import os; f = os.open(\".\", os.O_TMPFILE | os.O_RDWR, 0o644); "
            "os.write(f, b\"changed\\n\"); "
            "os.link(\"/proc/self/fd/\" + str(f), \"{f}\", src_dir_fd=f)'",
        ),
        exists=False,
    ),
}  # fmt: skip


def prepare(root: Path, route: Route, name: str) -> Path:
    """Make what a route needs in a real workspace; return the file."""
    (root / MODULES).mkdir(parents=True, exist_ok=True)
    file = root / route.where / name
    (file.parent if route.exists else file.parent.parent).mkdir(parents=True, exist_ok=True)
    if route.exists:
        file.write_text(OLD)
        file.chmod(0o644)
    if route.alias:
        os.link(file, root / route.alias)
    owner = root.lstat()
    for path in (root, *root.rglob("*")):
        os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)
    return file


def commands(route: Route, name: str) -> list[str]:
    """Return the calls of a route."""
    path = str(Path(route.where) / name)
    return [
        step.replace("{f}", path).replace("{n}", name).replace("{d}", route.where)
        .replace("{{", "{").replace("}}", "}")
        for step in route.steps
    ]  # fmt: skip


def outcome(file: Path) -> tuple[str | None, int | None]:
    """Return the content and the mode of a file; None where it is not there."""
    if not file.exists():
        return None, None
    return file.read_text(), file.stat().st_mode & 0o777


def take(root: Path, route: Route, *, protected: bool, call: Callable[[str], object]) -> bool:
    """Take a route in a fresh workspace; return whether the file ended as it must.

    `call` carries out one command as a call of its own.
    """
    names = (PROTECTED, PLAIN) if route.exists else (WAIVER, NOTE)
    file = prepare(root, route, names[0] if protected else names[1])
    before = outcome(file)
    for command in commands(route, file.name):
        call(command)
    after = outcome(file)
    if protected:
        return after == before
    alias = root / route.alias if route.alias else file
    done = outcome(alias) if alias.exists() else after
    changed = after[0] != before[0] or done[0] != before[0] or done[1] != before[1]
    return changed and (not route.works or route.works in (after[0], done[0]))
