# SPDX-License-Identifier: Apache-2.0
"""What a process that carries bytes for a cell gives up before it begins."""

from __future__ import annotations

import ctypes
import os
import resource

NOBODY = 65_534
_NO_NEW_PRIVS, _DUMPABLE = 38, 4


def confine() -> None:
    """Give up another user's rights, writing files, new programs' rights, and that another process
    of its user could read its memory, where a secret may lie.

    What is imported later may not be readable any more.
    """
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    libc = ctypes.CDLL(None, use_errno=True)
    for option, value in ((_NO_NEW_PRIVS, 1), (_DUMPABLE, 0)):
        if libc.prctl(option, value, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "prctl")
