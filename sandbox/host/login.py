# SPDX-License-Identifier: Apache-2.0
"""Who the person is on whose behalf calls are made: the name that `users` of policy files go by."""

from __future__ import annotations

import os
import pwd

NOBODY = "default"
"""The user whose levels count for everybody of whom a policy file says nothing."""
_MOST_NAME = 200


def login() -> str:
    """Return the login name of this process's user, or NOBODY where it has none."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name[:_MOST_NAME] or NOBODY
    except KeyError:
        return NOBODY
