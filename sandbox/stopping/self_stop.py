# SPDX-License-Identifier: Apache-2.0
"""End, after a stop, the agent's processes that asked for it: once `lockgate stop` has answered.

An agent may run `lockgate stop` through a shell. Ending that shell at once would cut the answer
off, so it is ended last, by a process of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from sandbox.agents.registry import Registry, find_agent, with_children
from sandbox.host import relaunch as interpreter
from sandbox.host.dirs import Dirs
from sandbox.processes.sweep import sweep
from sandbox.processes.table import MARKER, Known


def end_when_gone(dirs: Dirs, agent: str | None) -> None:
    """End an agent's processes (None: everybody's) as soon as this process has ended."""
    env = {key: value for key, value in os.environ.items() if key != MARKER}
    where = [str(dirs.state), str(dirs.config), str(dirs.runtime)]
    one = subprocess.Popen(
        [sys.executable, "-P", "-m", "sandbox.stopping.self_stop", *where, agent or ""],
        stdin=subprocess.PIPE,  # whose end it waits for
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env=interpreter.environment(env),
        start_new_session=True,
    )
    one.returncode = 0  # nobody waits for it


def main() -> None:
    """Wait until standard input ends, then sweep: `python -m sandbox.stopping.self_stop S C R
    AGENT`.
    """
    dirs = Dirs(*(Path(argument) for argument in sys.argv[1:4]))
    registry = Registry(dirs)
    for one in registry.readable()[0]:
        if group := registry.group(one):
            group.leave(os.getpid())
    while os.read(0, 1):
        pass
    agents, _ = registry.readable()
    if name := sys.argv[4]:
        found = find_agent(agents, name)
        agents = with_children(agents, found) if found else []
    own = registry.host.process(os.getpid())
    spared = [own.known] if own else [Known(os.getpid(), 0)]
    groups = [group for agent in agents if (group := registry.group(agent))]
    inside = any(os.getpid() in group.members() for group in groups)  # it would freeze itself
    trees = registry.trees(agents)
    sweep(registry.host, trees, () if inside else groups, spared=spared)
    for one in agents:  # which may have been ended with the one that waited for it
        registry.let_go(one)
    registry.drop_ended()


if __name__ == "__main__":
    main()
