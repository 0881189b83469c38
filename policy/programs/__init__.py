# SPDX-License-Identifier: Apache-2.0
"""Readers for programs whose arguments are a language of their own.

Each reader records what one call does and returns what it prints, as far as that is known.
"""

from __future__ import annotations

from policy.commands import Reader
from policy.programs import (
    archives,
    data,
    documents,
    editors,
    files,
    finding,
    git,
    interpreters,
    javascript,
    launchers,
    network,
    packages,
    patches,
    python,
    queries,
    sed_awk,
    services,
    shells,
    system,
    testing,
    text,
    windows,
    wrappers,
)

READERS: dict[str, Reader] = {
    **archives.READERS,
    **data.READERS,
    **documents.READERS,
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
