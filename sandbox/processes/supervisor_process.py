# SPDX-License-Identifier: Apache-2.0
"""Which process is the supervisor of a state folder: it is nobody's agent, whoever started it.

An agent's call may have started it, so that it is the agent's descendant. What it starts (the
second reading, the guard, a person's channel) is apart from the agent with it.
"""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path

from sandbox.host import files as own_files
from sandbox.processes.scarcity import refuse_scarcity
from sandbox.processes.table import Host, Known

_MODULE = "sandbox.server.server"


def supervisor(lock: Path, host: Host) -> Known | None:
    """Return the supervisor that holds a state folder's lock, or None where none runs."""
    try:
        fd = os.open(lock, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        refuse_scarcity(error)
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None  # nobody holds it
    except BlockingIOError:
        pass
    except OSError:
        return None
    finally:
        os.close(fd)
    try:
        pid = int(json.loads(own_files.read(lock))["pid"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    proc = host.process(pid)
    return proc.known if proc is not None and _MODULE in host.command(pid) else None
