# SPDX-License-Identifier: Apache-2.0
"""Readers for programs whose arguments are a language of their own.

Each reader records what one call does and returns what it prints, as far as that is known.
"""

from __future__ import annotations

from policy.programs.catalog import Reader
from policy.programs.files import archives, files, finding, media, patches, queries, text
from policy.programs.git import command as git
from policy.programs.hosts import launchers, network, packages, services, system, windows, wrappers
from policy.programs.languages import build_tools as testing
from policy.programs.languages import editors, interpreters, javascript, python, sed_awk, shells
from policy.programs.languages import sql as data

READERS: dict[str, Reader] = {
    **archives.READERS,
    **data.READERS,
    **media.READERS,
    **editors.READERS,
    **files.READERS,
    **finding.READERS,
    **git.READERS,
    **interpreters.READERS,
    **javascript.READERS,
    **launchers.READERS,
    **network.READERS,
    **packages.READERS,
    **patches.READERS,
    **python.READERS,
    **queries.READERS,
    **sed_awk.READERS,
    **services.READERS,
    **shells.READERS,
    **system.READERS,
    **testing.READERS,
    **text.READERS,
    **windows.READERS,
    **wrappers.READERS,
}
