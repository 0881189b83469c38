# SPDX-License-Identifier: Apache-2.0
"""Which hidden file a search of a folder would show, where an agent's own tool runs it.

Such tools look into hidden files too, and leave out what git ignores: so does this. Where a folder
holds more than is looked at, the search counts as showing something.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Sequence
from pathlib import Path

from policy.protected.paths import PathPolicy
from policy.tools.reading import parted, spelled_out
from sandbox.cell.overlay.masks import Patterns, TooLarge, find
from sandbox.workspaces.gitignore import Ignored
from sandbox.workspaces.ignore_ledger import Ledger

_RECORDS = ".lockgate"
_TYPES = {
    "c": ("*.[chH]", "*.cats", "*.[chH].in"),
    "cpp": ("*.[ChH]", "*.cc", "*.[ch]pp", "*.[ch]xx", "*.hh", "*.inl", "*.in"),
    "cs": ("*.cs",),
    "css": ("*.css", "*.scss"),
    "go": ("*.go",),
    "html": ("*.htm", "*.html", "*.ejs"),
    "java": ("*.java", "*.jsp", "*.jspx", "*.properties"),
    "js": ("*.js", "*.jsx", "*.vue", "*.cjs", "*.mjs"),
    "json": ("*.json", "*.sarif", "composer.lock"),
    "kotlin": ("*.kt", "*.kts"),
    "markdown": ("*.markdown", "*.md", "*.mdown", "*.mdwn", "*.mdx", "*.mkd", "*.mkdn"),
    "md": ("*.markdown", "*.md", "*.mdown", "*.mdwn", "*.mdx", "*.mkd", "*.mkdn"),
    "php": ("*.php*",),
    "py": ("*.py", "*.pyi"),
    "python": ("*.py", "*.pyi"),
    "rust": ("*.rs",),
    "sql": ("*.sql", "*.psql"),
    "swift": ("*.swift",),
    "toml": ("*.toml", "Cargo.lock"),
    "ts": ("*.ts", "*.tsx", "*.cts", "*.mts"),
    "typescript": ("*.ts", "*.tsx", "*.cts", "*.mts"),
    "yaml": ("*.yaml", "*.yml"),
}
"""What ripgrep takes for files of a type (`rg --type-list`), by the usual types. Of another type,
any file may be."""


def searched_secret(
    root: str,
    folder: str,
    paths: PathPolicy,
    globs: Sequence[str],
    ledger: Ledger | None,
    type_: str | None = None,
) -> str | None:
    """Return a hidden file, relative to the workspace, that a search of `folder` would show.

    `globs` are the tool's: names that are looked at, or, behind `!`, are not; of a `type_`, only
    such files are.
    """
    hide, show = paths.mask_expressions()
    start = os.path.relpath(folder, root)
    start = "" if start == "." else start
    try:
        hidden, _ = find(root, Patterns([*hide], [*show], []), start)
    except (TooLarge, OSError):
        return f"{start or '.'}/*"
    asked = [one for several in globs for one in parted(several)]
    of_type = _TYPES.get(type_ or "", ())
    found = [
        one
        for one in hidden
        if one != _RECORDS and _looked_at(root, one, asked) and _looked_at(root, one, of_type)
    ]
    if not found or ledger is None:
        return found[0] if found else None
    with Ignored(Path(root), ledger) as ignored:
        return next((one for one in found if one not in ignored), None)


def _looked_at(root: str, path: str, globs: Sequence[str]) -> bool:
    """Whether a file, or what a folder holds, may be among what globs name; by its name alone."""
    name = path.rpartition("/")[2]
    wanted = [glob for glob in globs if not glob.startswith("!")]
    if not wanted:
        left_out = (glob[1:] for glob in globs)
        return not any("/" not in one and fnmatch.fnmatchcase(name, one) for one in left_out)
    if Path(root, path).is_dir():
        return True
    return any(_may_name(name, plain) for one in wanted for plain in spelled_out(one))


def _may_name(name: str, pattern: str) -> bool:
    last = pattern.rstrip("/").rpartition("/")[2]
    return "**" in last or fnmatch.fnmatchcase(name, last.replace("[^", "[!"))
