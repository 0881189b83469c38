# SPDX-License-Identifier: Apache-2.0
"""How names of files are compared: one form for all that any file system takes for the same. Pure.

INVARIANT (P3, normal): two names that any common file system could take for the same one are
compared as equal: case, Unicode form, invisible characters, trailing dots and spaces and NTFS
stream suffixes do not count.

`sandbox/cell/overlay/comparison.py` is a link to this file: the images have no other code of the
policy, and what hides a file must know it by the same names as what judges it. So the standard
library only, and Python 3.9.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

_IGNORABLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff]"
)
_STREAM = re.compile(r":[^:]*:\$[a-z0-9_]+$|:\$[a-z0-9_]+$")


@lru_cache(maxsize=65_536)
def normal_name(name: str) -> str:
    """Return one name of a path in the form in which names are compared."""
    if not name.isascii():
        name = unicodedata.normalize("NFC", _IGNORABLE.sub("", name))
        name = unicodedata.normalize("NFC", name.casefold())
    folded = _STREAM.sub("", name.lower()).rstrip(". ")
    return folded or name


def normal(path: str) -> str:
    """Return a relative path in the form in which paths are compared."""
    return "/".join([normal_name(part) for part in path.split("/") if part])
