# SPDX-License-Identifier: Apache-2.0
"""Mask the secrets in a diff, and say of each file in which that was done. Pure.

An agent could word what it wants a hook to do so that it is taken for a secret. A person must see
that something is not shown; what lands is bound to its SHA-256, never to the text (gates.bound).
"""

from __future__ import annotations

import re

from sandbox.text.redaction import mask

_HEAD = re.compile(r"(?m)^(?=diff --git )")
MASKED = "masked as secrets: {count} lines below are not shown as they are; read the file itself"


def masked_diff(diff: str) -> str:
    """Return a diff without its secrets; below the head of a file, how many lines hold some.

    Lines of content begin with a sign of the diff, so that no content passes for a head.
    """
    whole = mask(diff)
    if whole == diff:
        return diff
    parts = [_of_file(part) for part in _HEAD.split(diff)]
    return mask("".join(parts))  # what only the files beside it make a secret, too


def _of_file(part: str) -> str:
    masked = mask(part)
    if masked == part:
        return part
    before, after = part.split("\n"), masked.split("\n")
    same = len(before) == len(after)
    count = sum(one != other for one, other in zip(before, after, strict=True)) if same else "some"
    head, _, rest = masked.partition("\n")
    return f"{head}\n{MASKED.format(count=count)}\n{rest}"
