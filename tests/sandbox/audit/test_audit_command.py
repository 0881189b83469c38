# SPDX-License-Identifier: Apache-2.0
"""What a person types to ask the record, to take it elsewhere, and to mend it."""

from __future__ import annotations

import json
import select
from pathlib import Path
from typing import Any

import pytest

from sandbox.audit.events.reading import record_of
from sandbox.audit.repair import repair
from sandbox.audit.store import Store
from sandbox.errors import BadInput
from tests.fakes import lines_of
from tests.sandbox.shells import Shell


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """Return a command line with a record of three calls."""
    shell = Shell(tmp_path)
    (tmp_path / "home").mkdir()
    shell.dirs.create()
    write(Store(shell.dirs))
    return shell


def decided(call: str, verdict: str, command: str, **more: Any) -> dict[str, Any]:
    """Return a decision as the supervisor writes it."""
    fixed = {"event": "decided", "call": call, "agent": "main", "tool": "Bash", "verdict": verdict}
    return {**fixed, "params": {"command": command}, "rules": ["r-" + verdict], "message": "m",
            **more}  # fmt: skip


def write(store: Store) -> None:
    """Write three calls."""
    for record in (
        decided("c1", "allow", "ls", ts="2026-02-11T09:50:00+00:00"),
        {"event": "ended", "call": "c1", "ending": "ran", "exit_status": 0},
        decided("c2", "deny", "rm -rf /", agent="coder"),
        {"event": "ended", "call": "c2", "ending": "denied"},
        decided("c3", "report", "git commit -m '\x1b[2Jx'"),
        {"event": "ended", "call": "c3", "ending": "ran", "exit_status": 3},
    ):
        store.append(record_of(record), durable=False)


def test_decisions_are_listed_and_filtered(shell: Shell) -> None:
    status, out, _ = shell("audit", "show")
    assert status == 0
    assert [line.split()[1] for line in out.splitlines()] == ["c1", "c2", "c3"]
    assert "\\x1b[2J" in out
    assert "exit 3" in out
    [line] = shell("audit", "show", "--decision", "DENY")[1].splitlines()
    assert "coder: rm -rf /  [r-deny]" in line
    [line] = shell("audit", "show", "--rule", "r-report", "--json")[1].splitlines()
    assert (json.loads(line)["id"], json.loads(line)["exit_status"]) == ("c3", 3)
    assert "c1" not in shell("audit", "show", "--since", "2h")[1]
    assert shell("audit", "show", "--agent", "nobody")[1] == (
        "no decision is recorded that matches\n"
    )


def test_bad_words_are_one_clear_line(shell: Shell) -> None:
    status, _, err = shell("audit", "show", "--decision", "MAYBE")
    assert (status, err.count("\n")) == (2, 1)
    assert "`MAYBE` is no decision" in err
    status, _, err = shell("audit", "stats", "--since", "soon")
    assert (status, err.count("\n")) == (2, 1)
    assert "`soon` is no instant" in err


def test_what_comes_is_followed(shell: Shell) -> None:
    with shell.start("audit", "show", "--follow", "--json", "--decision", "DENY") as process:
        assert process.stdout is not None
        try:
            first = json.loads(process.stdout.readline())
            store = Store(shell.dirs)
            seen = []
            for number in range(60):  # it may not follow yet when the first of them comes
                store.append(record_of(decided("x", "allow", "ls")), durable=False)
                store.append(record_of(decided(f"n{number}", "deny", "rm -rf /")), durable=False)
                if select.select([process.stdout], [], [], 1.0)[0]:
                    seen.append(json.loads(process.stdout.readline())["id"])
                    break
        finally:
            process.terminate()
    assert first["id"] == "c2"
    assert seen
    assert seen[0].startswith("n")


def test_decisions_are_exported(shell: Shell) -> None:
    lines = [json.loads(line) for line in shell("audit", "export")[1].splitlines()]
    assert [one["id"] for one in lines] == ["c1", "c2", "c3"]
    rows = shell("audit", "export", "--format", "csv")[1].splitlines()
    assert rows[0].startswith("ts,id,agent,tool,action,verdict")
    assert len(rows) == 4
    found = [json.loads(one) for one in shell("audit", "export", "--format", "autonomy")[1]
             .splitlines()]  # fmt: skip
    assert [(one["level"], one["approved"]) for one in found] == [("red", False), ("yellow", True)]
    newest = shell("audit", "export", "-n", "2")[1].splitlines()
    assert [json.loads(line)["id"] for line in newest] == ["c2", "c3"]


def test_decisions_are_counted(shell: Shell) -> None:
    found = json.loads(shell("audit", "stats", "--json")[1])
    assert (found["decisions"], found["verdicts"]["deny"]) == (3, 1)
    assert found["denial_rate"] == pytest.approx(1 / 3)
    assert found["days"]["2026-02-11"] == {"allow": 1}
    assert found["agents"]["coder"] == {"deny": 1}
    out = shell("audit", "stats")[1]
    assert "3 decisions, 33.3 % denied" in out
    days = json.loads(shell("reports", "--counts", "--json")[1])
    assert days[0] == {"day": "2026-02-11", "green": 1, "yellow": 0, "red": 0, "denied": 0}
    assert shell("audit", "reindex")[0] == 0


def spoil(store: Store, how: str) -> None:
    """Damage a log."""
    whole = store.log.read_bytes()
    match how:
        case "half":
            store.log.write_bytes(whole + b'{"n":7,"ev')
        case "garbage":
            store.log.write_bytes(whole + b"\x00\x00\x00\n")
        case "cut":
            store.log.write_bytes(b"".join(whole.splitlines(keepends=True)[:4]))
        case "cut in a line":
            store.log.write_bytes(whole[:-40])
        case "head":
            store.head.unlink()
        case "gone":
            store.log.unlink()


@pytest.mark.parametrize("how", ["half", "garbage", "cut", "cut in a line", "head", "gone"])
def test_what_a_crash_can_leave_is_named_and_closed_with_a_record(shell: Shell, how: str) -> None:
    store = Store(shell.dirs)
    spoil(store, how)
    status, said, _ = shell("audit", "verify")
    assert status == 1
    status, _, err = shell("audit", "repair")
    assert status == 1
    assert "a repair needs your yes" in err
    assert shell("audit", "verify")[1] == said
    status, _, err = shell("audit", "repair", "--yes")
    assert status == 0, err
    assert shell("audit", "verify")[0] == 0
    [*_, record] = (one for one in lines_of(store) if one["event"] == "repaired")
    assert record["by"]
    before = len(list(lines_of(store)))
    assert "whole; nothing to repair" in shell("audit", "repair")[1]
    assert len(list(lines_of(store))) == before


def test_a_log_broken_in_its_middle_is_set_aside_alone(shell: Shell) -> None:
    store = Store(shell.dirs)
    broken = store.log.read_bytes().replace(b"rm -rf /", b"ls -la  ")
    store.log.write_bytes(broken)
    status, _, err = shell("audit", "repair", "--yes")
    assert status == 2
    assert "line 4 does not follow line 3; that cannot be mended" in err
    status, _, _ = shell("audit", "repair", "--set-aside", "--yes")
    assert status == 0
    [folder] = shell.dirs.state.glob("audit-aside-*")
    assert (folder / "audit.jsonl").read_bytes().startswith(broken)
    assert shell("audit", "verify")[0] == 0
    [record] = lines_of(store)
    assert "line 4 does not follow line 3" in record["outcome"]


def test_a_removed_file_is_not_mended(tmp_path: Path) -> None:
    from sandbox.audit.log import LogBounds
    from sandbox.config.settings import Dirs

    store = Store(Dirs.under(tmp_path).create(), bounds=LogBounds(500))
    for _ in range(4):
        write(store)
    assert len(store.segments.closed()) > 2
    store.segments.path(1).unlink()
    with pytest.raises(BadInput, match="no line says that they were removed; that cannot be"):
        repair(store, by="me")


def test_a_head_that_was_kept_elsewhere_shows_a_log_that_was_made_anew(shell: Shell) -> None:
    copy = shell.workspace / "head"
    copy.write_bytes(Store(shell.dirs).head.read_bytes())
    Store(shell.dirs).append(record_of(decided("c4", "allow", "ls")), durable=False)
    assert shell("audit", "verify", "--head", str(copy))[0] == 0
    for name in ("audit.jsonl", "audit.head"):
        (shell.dirs.state / name).unlink()
    for _ in range(2):
        write(Store(shell.dirs))
    assert shell("audit", "verify")[0] == 0  # the forger had all of the state folder
    status, out, _ = shell("audit", "verify", "--head", str(copy))
    assert (status, "line 6 was rewritten" in out) == (1, True)
    copy.write_text("x")
    status, _, err = shell("audit", "verify", "--head", str(copy))
    assert (status, err) == (2, f"lockgate: `{copy}` is no head of a log\n")
