# SPDX-License-Identifier: Apache-2.0
"""Does a toolchain of this host run in the cell's image? It may need libraries it lacks."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from policy.people.toolchains import Language, Toolchains
from policy.protected.paths import PathPolicy
from sandbox.config.settings import load_settings
from sandbox.containers.images import names
from sandbox.containers.plan import AGENT_ID, Bind
from sandbox.containers.trial import TryProgram, programs_in
from sandbox.host.dirs import Dirs
from sandbox.projects.toolchain_masks import MOST_HIDDEN, ToolchainMasks
from sandbox.projects.toolchains import Shown

_PARTS = """
import importlib, sys
lacks = []
for name in "ctypes ssl sqlite3 zlib bz2 lzma readline".split():
    try:
        importlib.import_module(name)
    except ImportError as error:
        if ".so" in str(error):
            lacks.append(str(error))
sys.exit("; ".join(lacks) or 0)
"""
_TRIALS: dict[Language, tuple[str, ...]] = {
    "python": ("-I", "-B", "-c", _PARTS),
    "node": ("--version",),
    "rust": ("--version",),
    "go": ("version",),
}


def try_toolchains(
    dirs: Dirs,
    home: str,
    shown: Sequence[Shown],
    find: Callable[[str], TryProgram | None] = programs_in,
) -> list[str]:
    """Return a line for each toolchain that does not run in the cell's image, or not wholly.

    Raises SandboxError where there is no engine; without the image, nothing is tried.
    """
    if not shown:
        return []
    run = find(load_settings(dirs).image or names().cell)
    if run is None:
        return []
    hide, show = PathPolicy.default().mask_expressions()
    masks = ToolchainMasks()
    unseen = {folder.source for folder in shown if masks.find(folder.source, hide, show) is None}
    binds = [Bind(folder.source, folder.path, read_only=True) for folder in shown]
    lines = []
    for folder in shown:
        kind = Toolchains.default().of(folder.path, home)
        if kind is None or any(folder.path == other.source != other.path for other in shown):
            continue  # the same by its other name
        if folder.source in unseen:
            lines.append(
                f"`{folder.path}` is not shown to cells: it holds more than {MOST_HIDDEN} files "
                "that are hidden from agents (keys, certificates), or cannot be looked through"
            )
            continue
        argv = (f"{folder.path}/{kind.program}", *_TRIALS[kind.language])
        if said := run(binds, argv, os.geteuid() or AGENT_ID):
            lines.append(
                f"`{folder.path}` does not work wholly in the cell's image: {said}; a Dockerfile "
                "that adds what is missing, `lockgate image build --from IMAGE --tag NAME`, and "
                "`image: NAME` in the settings mend that"
            )
    return lines
