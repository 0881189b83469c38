# SPDX-License-Identifier: Apache-2.0
"""Names that other programs take for something else than a name. Pure, for both gates.

`tar cf x.tar *` takes a file called `--checkpoint-action=exec=sh x` for an option, and a script
that reads a listing by lines takes one file for two.
"""

from __future__ import annotations

import re

_PACKAGES = frozenset(("node_modules", "site-packages", "dist-packages"))
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def why_odd(path: str) -> str:
    """Return what is odd about a path's names; empty where nothing is.

    Below folders of installed packages, where nobody works with `*`, a leading `-` is not.
    """
    if _CONTROL.search(path):
        return "a name in it holds a line's end or another control character"
    for name in path.split("/"):
        if name in _PACKAGES:
            return ""
        if name.startswith("-"):
            return "programs take a name that begins with `-` for an option"
    return ""
