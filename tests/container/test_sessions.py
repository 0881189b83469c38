# SPDX-License-Identifier: Apache-2.0
"""Honest work lands: the everyday sessions, in one cell, each in a repository of its own."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

from tests.container.conftest import MakeLab
from tests.container.lab import ME, Lab
from tests.container.sessions import REPOSITORY, SESSIONS, Session

NAMES = {
    f"GIT_{who}_{what}": "a@b.invalid"
    for who in ("AUTHOR", "COMMITTER")
    for what in ("NAME", "EMAIL")
}
EXPORTS = "".join(f"export {name}={value}; " for name, value in NAMES.items())


def _sh(folder: Path, script: str) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", **NAMES}
    subprocess.run(["bash", "-ec", script], cwd=folder, env=env, check=True, capture_output=True)


def _outcome(lab: Lab, name: str, session: Session) -> str:
    """Return what became of a session: nothing where all landed, else the rules that held it."""
    for number, call in enumerate(session.calls):
        command = f"set -e; {EXPORTS} cd {shlex.quote(name)}; {call}"
        done = lab.sh(command, derived_from="deletes")
        if done.exit_status:
            return f"call {number} failed: {done.stderr}"
        if not done.landed and done.judgement != "land":
            rules = sorted(set(re.findall(r"\(([a-z-]+)\)", done.message)))
            lab.run(lab.supervisor.discard(done.id))
            last = number == len(session.calls) - 1
            if last and session.rule in rules:
                return session.rule
            return f"call {number}: {done.message}"
    return ""


def test_everyday_sessions_land_as_they_did(make_lab: MakeLab, tmp_path: Path) -> None:
    ws = tmp_path / "work"
    made = tmp_path / "made"
    made.mkdir()
    _sh(made, REPOSITORY)
    for name, session in SESSIONS.items():
        shutil.copytree(made, ws / name, symlinks=True)
        if session.prepare:
            _sh(ws / name, session.prepare)
    lab = make_lab(ws)
    found = {name: _outcome(lab, name, session) for name, session in SESSIONS.items()}
    wanted = {name: session.rule for name, session in SESSIONS.items()}
    wrong = [f"{name}: {said}" for name, said in found.items() if said != wanted[name]]
    assert not wrong, "\n".join(wrong)
    assert sum(not session.rule for session in SESSIONS.values()) >= 60
    assert ws.stat().st_uid == ME
