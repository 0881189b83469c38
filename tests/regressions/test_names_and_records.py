# SPDX-License-Identifier: Apache-2.0
"""Names that came from outside, logs that were replaced, texts that were slow to read."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from policy.gate1.decide import Policy, decide
from policy.model import ActionPlan, Context, Verdict, Workspace
from sandbox.audit.events.reading import record_of
from sandbox.audit.store import Store
from sandbox.cell.keeper.main import answer_request
from sandbox.cell.keeper.requests import Keeper
from sandbox.host.dirs import Dirs

CONTEXT = Context((Workspace("/w"),), home="/home/me")
SLOW = {
    "blank lines": ("\n" * 10_000 + "'", Verdict.ASK),
    "blank lines before a recursive delete": ("\n" * 50_000 + "'; rm -rf src", Verdict.DENY),
    "blanks": (" " * 60_000 + "'", Verdict.ASK),
    "a string that doubles": (
        "python3 -c \"a0='xy';" + "".join(f"a{n + 1}=a{n}+a{n};" for n in range(40)) + 'open(a40)"',
        Verdict.ASK,
    ),
    "an array that doubles": (
        "a=(x x); " + 'a=("${a[@]}" "${a[@]}"); ' * 20 + '"${a[@]}"',
        Verdict.ASK,
    ),
    "padding before a recursive delete": (
        "ls " + "a" * 70_000 + "; rm -rf src",
        Verdict.DENY,
    ),
}


@pytest.mark.parametrize("command, verdict", SLOW.values(), ids=SLOW)
def test_a_long_text_is_answered_soon(command: str, verdict: Verdict) -> None:
    plan = ActionPlan.model_validate(
        {"tool": "Bash", "params": {"command": command}, "workspace": "/w"}
    )
    policy = Policy.default()
    started = time.process_time()
    assert decide(plan, CONTEXT, policy).verdict is verdict
    assert time.process_time() - started < 2.0  # it was many seconds; noisy machines are slow


@pytest.mark.parametrize("name", ["../../lower/0", "a/b", "", ".", "..", "a b", "x" * 200])
def test_a_name_that_is_no_folders_name_reaches_no_path(name: str) -> None:
    for key in ("tx", "call", "as"):
        answer = answer_request(Keeper(), {"op": "drop", "n": 1, "tx": "c1", key: name})
        assert answer["error"] == "a name that cannot be the name of a folder"


def test_a_log_that_was_replaced_is_written_anew_and_noticed(tmp_path: Path) -> None:
    store = Store(Dirs.under(tmp_path).create())
    for number in range(3):
        store.append(record_of({"event": "x", "number": number}), durable=True)
    copy = tmp_path / "copy"
    copy.write_bytes(b"".join(store.log.read_bytes().splitlines(keepends=True)[:2]))
    copy.replace(store.log)
    store.append(record_of({"event": "x", "number": 3}), durable=True)
    assert b'"number":3' in store.log.read_bytes()
    assert store.verify() is None or "line" in str(store.verify())
