# SPDX-License-Identifier: Apache-2.0
"""A script gave everybody a folder (`chmod 777`), or another user a file, and it landed."""

from __future__ import annotations

import os
import struct

import pytest

from policy.gate2.modes import mode_reasons
from policy.model import Change, FileType, Kind, Outcome
from sandbox.cell.overlay import access
from tests.container.lab import Lab

FILE, FOLDER = FileType.FILE, FileType.DIRECTORY
ROWS: dict[str, tuple[FileType, int | None, int, str]] = {
    # type, mode before (None: it is new), mode after, the rule that holds it
    "a folder for everybody": (FOLDER, 0o755, 0o777, "others-mode"),
    "a file for everybody": (FILE, 0o644, 0o666, "others-mode"),
    "a file for the group": (FILE, 0o644, 0o664, "others-mode"),
    "a private file that others may read": (FILE, 0o600, 0o644, "others-mode"),
    "a private file that the group may read": (FILE, 0o600, 0o640, "others-mode"),
    "a file of a group that all may read": (FILE, 0o640, 0o644, "others-mode"),
    "a private folder that others may enter": (FOLDER, 0o700, 0o711, "others-mode"),
    "a shared folder in which anybody removes": (FOLDER, 0o1777, 0o777, "others-mode"),
    "a folder that passes its group on": (FOLDER, 0o755, 0o2755, "others-mode"),
    "a new file for everybody": (FILE, None, 0o666, "others-mode"),
    "a new folder for everybody": (FOLDER, None, 0o1777, "others-mode"),
    "a file that its owner cannot read": (FILE, 0o644, 0o000, "owner-mode"),
    "a folder that its owner cannot enter": (FOLDER, 0o755, 0o655, "owner-mode"),
    "a program": (FILE, 0o644, 0o755, ""),
    "a file that nobody changes any more": (FILE, 0o644, 0o444, ""),
    "a file made private": (FILE, 0o644, 0o600, ""),
    "a file that everybody could write before": (FILE, 0o666, 0o777, ""),
    "a private program": (FILE, 0o600, 0o700, ""),
    "a new file": (FILE, None, 0o644, ""),
    "a new file of a group": (FILE, None, 0o664, ""),
    "a new private file": (FILE, None, 0o600, ""),
    "a new file that nobody can read": (FILE, None, 0o000, ""),
    "a new folder of a group's folder": (FOLDER, None, 0o2755, ""),
    "a folder that was shut already": (FOLDER, 0o000, 0o100, ""),
}


@pytest.mark.parametrize("kind, before, after, rule", ROWS.values(), ids=ROWS)
def test_rows(kind: FileType, before: int | None, after: int, rule: str) -> None:
    how = Kind.CREATED if before is None else Kind.META
    change = Change("a", how, kind, mode=after, before_mode=before)
    found = [(one.rule, one.outcome) for one in mode_reasons(change)]
    assert found == ([(rule, Outcome.HOLD)] if rule else [])


def _list(*entries: tuple[int, int, int]) -> bytes:
    """Return an access list as the kernel keeps it, of (tag, permission bits, id)."""
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *one) for one in entries)


OWNER, USER, GROUP, MASK, OTHER, NOBODY = 0x01, 0x02, 0x04, 0x10, 0x20, 0xFFFFFFFF
PLAIN = ((OWNER, 7, NOBODY), (GROUP, 5, NOBODY), (MASK, 5, NOBODY), (OTHER, 5, NOBODY))
SHARED = _list(PLAIN[0], (USER, 5, 1234), *PLAIN[1:])


def test_an_access_list_is_compared_with_what_was_there() -> None:
    after = {access.ACCESS: SHARED}
    assert access.wider({}, 0o755, after)
    assert not access.wider({access.ACCESS: SHARED}, 0o755, after)
    more = _list(PLAIN[0], (USER, 7, 1234), *PLAIN[1:])
    assert access.wider({access.ACCESS: SHARED}, 0o755, {access.ACCESS: more})
    assert not access.wider({access.ACCESS: more}, 0o755, after)
    assert access.wider({}, 0o755, {access.DEFAULT: SHARED})
    assert access.wider({}, 0o755, {access.ACCESS: b"?"})
    assert not access.wider({access.ACCESS: SHARED}, 0o755, {})
    assert access.inherited({access.DEFAULT: SHARED}, after, 0o755)
    assert not access.inherited({access.ACCESS: SHARED}, after, 0o755)
    assert not access.inherited({}, after, 0o755)


def test_in_a_cell(lab: Lab) -> None:
    os.setxattr(lab.ws / "src" / "deep", access.DEFAULT, SHARED)
    value = SHARED.hex()
    for command, rule in (
        ("chmod 777 src", "others-mode"),
        ("chmod -R a+w src", "others-mode"),
        ("cp README.md r && chmod 666 r && mv r README.md", "others-mode"),
        ("umask 0; echo x >new", "others-mode"),
        (_setting("README.md", access.ACCESS, value), "access-list"),
        (_setting("src", access.DEFAULT, value), "access-list"),
        ("mkdir n && " + _setting("n", access.DEFAULT, value), "access-list"),
        ("chmod 000 src", "owner-mode"),
    ):
        done = lab.sh(command)
        assert done.judgement == "hold", (command, done.message, done.stderr)
        assert f"({rule})" in done.message, (command, done.message)
        lab.run(lab.supervisor.discard(done.id))
    for command in (
        "chmod +x README.md && echo x >new && mkdir folder && umask 002 && echo y >newer",
        "mkdir src/deep/made && echo x >src/deep/made/x && echo y >src/deep/y",
        "chmod 600 new && chmod 444 newer",
        "sed -i s/x/y/ new",
    ):
        done = lab.sh(command)
        assert done.landed, (command, done.message, done.stderr)
    assert access.ACCESS in os.listxattr(lab.ws / "src" / "deep" / "y")


def test_a_folder_that_nobody_enters_stands_in_no_calls_way(lab: Lab) -> None:
    made = lab.sh("mkdir shut && echo x >shut/x && chmod 000 shut shut/x")
    assert made.landed, made.message
    held = lab.sh("chmod 000 src")
    assert held.judgement == "hold"
    assert lab.run(lab.supervisor.land(held.id)).landed
    done = lab.sh("echo y >beside")
    assert done.landed, done.message
    for one in (held, made):
        assert lab.run(lab.supervisor.undo(one.id)).changes
    assert not (lab.ws / "shut").exists()


def _setting(path: str, name: str, value: str) -> str:
    return f"python3 -c \"import os; os.setxattr('{path}', '{name}', bytes.fromhex('{value}'))\""
