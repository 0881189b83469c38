# SPDX-License-Identifier: Apache-2.0
"""The list of changes says what differs between two snapshots, and nothing else, whatever was done.

The model is plain: the workspace before, and what the call saw at its end, read file by file.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conftest import cannot_run
from tests.sandbox.overlays import Overlay, Tree, missing

PREPARE = """
mkdir -p d/e/f big many; echo a >a; echo same >b; echo same >d/a; echo deb >d/e/b; ln -s a d/link
ln -s a link; echo 1 >big/1; echo 2 >big/2; echo k >d/e/f/k; ln a twin; truncate -s 64K sparse
for i in $(seq 30); do echo $i >many/$i; done; touch $'\\xff'; chmod 600 big/2
"""
NAMES = st.sampled_from(
    ["a", "b", "d", "d/a", "d/e", "d/e/b", "d/e/f", "d/e/f/k", "d/link", "big", "big/1", "link",
     "many", "many/7", "twin", "sparse", "\udcff", "n", "n/m", "n/m/o", "\udcfe", "x y\n"]
)  # fmt: skip
OPERATIONS = st.one_of(
    st.tuples(st.sampled_from(["write", "append"]), NAMES, st.integers(0, 3)),
    st.tuples(
        st.sampled_from(
            ["mkdir", "rm", "anew", "chmod", "chown", "touch", "attribute", "sparse", "fifo"]
        ),
        NAMES,
        st.integers(0, 1),
    ),
    st.tuples(st.sampled_from(["mv", "mv", "exchange", "ln", "symlink"]), NAMES, NAMES),
)
_libc = ctypes.CDLL(None, use_errno=True)


def perform(root: Path, action: str, name: str, more: Any) -> None:
    """Do one thing as a call would; what the file system refuses is not done."""
    path = root / name
    try:
        match action:
            case "write":
                path.write_text(f"{more}\n")
            case "append":
                with path.open("a") as file:
                    file.write("+" * more)
            case "mkdir":
                path.mkdir()
            case "rm":
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
            case "anew":  # a folder takes the place, with another in it
                perform(root, "rm", name, 0)
                (path / ("e" if more else "n")).mkdir(parents=True)
            case "chmod":
                path.chmod(0o700 if more else 0o644)
            case "chown":
                os.chown(path, 7 * more, 7 * more, follow_symlinks=False)
            case "touch":
                os.utime(path, (1, 1), follow_symlinks=False)
            case "attribute":
                os.setxattr(path, "user.x", b"%d" % more, follow_symlinks=False)
            case "sparse":
                with path.open("ab") as file:
                    file.truncate(1 << 22)
                    file.seek(1 << (12 + more))
            case "fifo":
                os.mkfifo(path)
            case "mv":
                path.rename(root / more)
            case "exchange":
                _libc.renameat2(-100, os.fsencode(path), -100, os.fsencode(root / more), 2)
            case "ln":
                os.link(path, root / more, follow_symlinks=False)
            case "symlink":
                path.symlink_to(more)
    except OSError:
        return


Facts = dict[str, tuple[Any, ...]]
"""Path -> type, (content or target), (mode, owner, attributes)."""


def facts(tree: Tree) -> Facts:
    """Return what counts of a tree: no times; special files only as such."""
    found = {}
    for path, (mode, uid, gid, content, _, attributes) in tree.items():
        kind = stat.S_IFMT(int(str(mode)))
        bits = stat.S_IMODE(int(str(mode)))
        settings_ = (bits, uid, gid, tuple(sorted(dict(attributes).items())))  # type: ignore[call-overload]
        special = kind not in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK)
        found[path] = ("channel",) if special else (kind, content, settings_)
    return found


def wrong(changes: list[dict[str, Any]], before: Facts, after: Facts) -> list[str]:
    """Say what a list of changes leaves out, and what it says that is not so."""
    said: dict[str, list[dict[str, Any]]] = {}
    moved_away = {change["source"] for change in changes if change["kind"] == "renamed"}
    for change in changes:
        said.setdefault(change["path"], []).append(change)
    problems = []
    for path in before.keys() | after.keys():
        old, new = before.get(path), after.get(path)
        kinds = {change["kind"] for change in said.get(path, ())}
        came = kinds & {"created", "renamed"}
        went = "deleted" in kinds or path in moved_away
        if old is None and not came:
            problems.append(f"`{path}` is new and not told")
        elif new is None and not went:
            problems.append(f"`{path}` is gone and not told")
        elif new is not None and path in moved_away and not came:
            problems.append(f"`{path}` moved away, is there again, and not told")
        elif (
            old is not None
            and new is not None
            and old != new
            and not (kinds and (not came or went))
        ):
            problems.append(f"`{path}` differs and is not told")
    for change in changes:
        if not true(change, before, after, moved_away, said):
            problems.append(f"not so: {change}")
    return problems


def true(
    change: dict[str, Any],
    before: Facts,
    after: Facts,
    moved_away: set[str],
    said: dict[str, list[dict[str, Any]]],
) -> bool:
    """Whether one change is so."""
    path = change["path"]
    old, new = before.get(path), after.get(path)
    others = {other["kind"] for other in said[path]}
    if change["kind"] == "deleted":
        return old is not None and (new is None or bool(others & {"created", "renamed"}))
    if new is None:
        return False
    if change["type"] == "channel":
        return new == ("channel",)
    if change["kind"] == "created":
        return old is None or "deleted" in others or path in moved_away
    if change["kind"] == "renamed":
        was = before.get(change["source"])
        free = old is None or "deleted" in others or path in moved_away
        return was is not None and free and bool(change.get("modified")) == (was != new)
    if old is None or old[0] != new[0]:
        return False
    if change["kind"] == "modified":
        return bool(old[1] != new[1])
    return bool(old[1] == new[1] and old[2] != new[2])


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(OPERATIONS, max_size=14))
def test_the_changes_are_the_difference(operations: list[tuple[str, str, Any]]) -> None:
    if reason := missing():
        cannot_run(reason)
    with Overlay(prepare=PREPARE) as overlay:
        before = facts(overlay.real())
        for operation in operations:
            perform(overlay.merged, *operation)
        after = facts(overlay.seen())
        walked = overlay.walk()
        assert wrong(walked.changes, before, after) == []
        if before == after:
            assert walked.changes == []
        # the controls: a list that leaves one out, or says one more, is found wrong
        for left_out in walked.changes:
            if left_out["kind"] in ("created", "modified", "meta"):
                rest = [change for change in walked.changes if change is not left_out]
                assert wrong(rest, before, after) != []
        for path in before.keys() & after.keys():
            if not any(change["path"] == path for change in walked.changes):
                more = {"path": path, "kind": "meta", "type": "file", "conflict": False}
                if before[path] == after[path]:
                    assert wrong([*walked.changes, more], before, after) != []


@pytest.mark.parametrize("count", [1, 2_000])
def test_the_cost_follows_the_changes(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if reason := missing():
        cannot_run(reason)
    looked: list[str] = []
    with Overlay(prepare="mkdir many; for i in {1..3000}; do echo $i >many/$i; done") as overlay:
        for number in range(count):
            (overlay.merged / f"f{number}").write_text("x")
        original = os.stat

        def noting(path: Any, *args: Any, **more: Any) -> os.stat_result:
            looked.append(str(path))
            return original(path, *args, **more)

        monkeypatch.setattr("sandbox.cell.overlay.lower.os.stat", noting)
        walked = overlay.walk()
        monkeypatch.undo()
        assert len(walked.changes) == count
        assert len(looked) <= 2 * count + 10  # and not once for each of the 3000
