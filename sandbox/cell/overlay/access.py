# SPDX-License-Identifier: Apache-2.0
"""Whether an access list gives others more than they had (acl(5)).

Runs in the keeper: standard library only, Python 3.9. Reads values, touches no file.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

ACCESS, DEFAULT = "system.posix_acl_access", "system.posix_acl_default"
_VERSION = 2
_OWNER, _GROUP, _OTHER = 0x01, 0x04, 0x20
_NOBODY = 0xFFFFFFFF

Entries = dict[tuple[int, int], int]
"""(tag, id) -> permission bits; the owner's own are left out."""


def wider(before: Mapping[str, bytes], mode: int, after: Mapping[str, bytes]) -> bool:
    """Whether the lists in `after` give what neither those in `before` nor its mode gave.

    Both are extended attributes by name. A list that cannot be read counts as one that does.
    """
    return any(
        name in after
        and after[name] != before.get(name)
        and _gives(before.get(name), mode, after[name])
        for name in (ACCESS, DEFAULT)
    )


def inherited(parent: Mapping[str, bytes], after: Mapping[str, bytes], mode: int) -> bool:
    """Whether a new object's lists say no more than its folder's default list."""
    default = parent.get(DEFAULT)
    before = {} if default is None else {ACCESS: default, DEFAULT: default}
    return not wider(before, mode, after)


def _gives(before: bytes | None, mode: int, after: bytes) -> bool:
    new = _entries(after)
    old = _entries(before) if before is not None else _of_mode(mode)
    if new is None or old is None:
        return True
    return any(bits & ~old.get(who, 0) for who, bits in new.items())


def _of_mode(mode: int) -> Entries:
    return {(_GROUP, _NOBODY): mode >> 3 & 7, (_OTHER, _NOBODY): mode & 7}


def _entries(value: bytes) -> Entries | None:
    """Read the kernel's form of a list: a version, then (tag, bits, id) each."""
    if len(value) < 4 or len(value) % 8 != 4 or struct.unpack_from("<I", value)[0] != _VERSION:
        return None
    return {
        (tag, identity): bits
        for tag, bits, identity in struct.iter_unpack("<HHI", value[4:])
        if tag != _OWNER
    }
