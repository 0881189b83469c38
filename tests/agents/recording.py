# SPDX-License-Identifier: Apache-2.0
"""Record what an agent's hook is really told, and what it answered, for tests without the agent.

Only with LOCKGATE_RECORD=1. Paths, times and names of sessions are taken out.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.agents.drivers import Agent
from tests.container.served import LOCKGATE
from tests.sandbox.shells import ROOT, Shell

FOLDER = ROOT / "tests" / "sandbox" / "recordings"
_SCRIPT = """\
#!{python}
import json, subprocess, sys
said = sys.stdin.buffer.read()
done = subprocess.run([{lockgate!r}, *sys.argv[1:]], input=said, capture_output=True)
with open({log!r}, "a") as log:
    log.write(json.dumps({{"said": said.decode(), "status": done.returncode,
                          "out": done.stdout.decode(), "err": done.stderr.decode()}}) + "\\n")
sys.stdout.buffer.write(done.stdout)
sys.stderr.buffer.write(done.stderr)
sys.exit(done.returncode)
"""
_IDS = re.compile(r"^(session|prompt|turn|transcript|tool_use|conversation|generation).*(id|path)$")


@contextlib.contextmanager
def recorded(shell: Shell, agent: Agent) -> Iterator[None]:
    """Record the hooks of the agent that runs meanwhile."""
    if not os.environ.get("LOCKGATE_RECORD"):
        yield
        return
    folder = shell.workspace.parent / "recorder"
    folder.mkdir()
    program, log = folder / "lockgate", folder / "log"
    program.write_text(_SCRIPT.format(python=sys.executable, lockgate=str(LOCKGATE), log=str(log)))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    changed = {}
    for path in shell.workspace.rglob("*.json"):
        if str(LOCKGATE) in (text := path.read_text()):
            changed[path] = text
            path.write_text(text.replace(str(LOCKGATE), str(program)))
    yield
    for path, text in changed.items():
        path.write_text(text)
    FOLDER.mkdir(exist_ok=True)
    lines = [_scrubbed(json.loads(line), shell) for line in log.read_text().splitlines()]
    (FOLDER / f"{agent.name}.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in lines))


def _scrubbed(line: dict[str, Any], shell: Shell) -> dict[str, Any]:
    said = _without(json.loads(line["said"]))
    text = json.dumps({**line, "said": said})
    text = text.replace(str(shell.workspace), "/home/me/work")
    text = text.replace(str(shell.workspace.parent), "/home/me")
    text = text.replace(str(LOCKGATE), "/opt/lockgate").replace(str(Path(ROOT)), "/opt")
    text = re.sub(r"--ticket [\w-]+", "--ticket T", text)
    text = re.sub(r"\bc[0-9a-f]{10}\b", "c0000000000", text)
    return dict(json.loads(text))


def _without(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: "recorded" if _IDS.match(key) and isinstance(inner, str) else _without(inner)
            for key, inner in value.items()
            if key not in ("timestamp", "duration_ms", "effort", "model")
        }
    if isinstance(value, list):
        return [_without(one) for one in value]
    return value
