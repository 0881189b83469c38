# SPDX-License-Identifier: Apache-2.0
"""The program `apply_patch` of a cell: what a patch makes of files, and patches that do not fit."""

from __future__ import annotations

from pathlib import Path

import pytest

from policy.values.patches import patched
from sandbox.cell.run.apply_patch import NoFit, planned

OLD = "def a():\n    return 1\n\n\ndef b():\n    return 1\n"


def patch(*lines: str) -> str:
    return "\n".join(("*** Begin Patch", *lines, "*** End Patch"))


CASES = {
    "a line": (("*** Update File: f", "@@", " def a():", "-    return 1", "+    return 2"),
               {"f": OLD.replace("1", "2", 1)}),
    "after an anchor": (("*** Update File: f", "@@ def b():", "-    return 1", "+    return 2"),
                        {"f": OLD[:-2] + "2\n"}),
    "blanks at the end of a line": (("*** Update File: f", "-def a():  ", "+def c():"),
                                    {"f": OLD.replace("a()", "c()")}),
    "another name": (("*** Update File: f", "*** Move to: g", "-def a():", "+def c():"),
                     {"f": None, "g": OLD.replace("a()", "c()")}),
    "the end": (("*** Update File: f", "@@", "-    return 1", "+    return 3", "*** End of File"),
                {"f": OLD[:-2] + "3\n"}),
    "a new file": (("*** Add File: n/x", "+one", "+"), {"n/x": "one\n\n"}),
    "no file any more": (("*** Delete File: f",), {"f": None}),
}  # fmt: skip


@pytest.mark.parametrize("lines, wanted", CASES.values(), ids=CASES)
def test_a_patch(
    lines: tuple[str, ...],
    wanted: dict[str, str | None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("f").write_text(OLD)
    assert planned(patch(*lines))[0] == wanted
    seen = patched(patch(*lines))  # gate 1 sees every file that is changed
    assert set(wanted) <= {*seen.written, *seen.deleted, *seen.moved}


EXACT = {
    "one place": (("-def a():", "+def c():"), OLD.replace("a()", "c()")),
    "two places": (("-    return 1", "+    return 2"), None),
    "two places, one behind an anchor": (
        ("@@ def b():", "-    return 1", "+    return 2"), None),
    "blanks that the file has not": (("-def a():  ", "+def c():"), None),
    "lines to add and none to find": (("+x",), None),
    "an empty line": (("-", "+x"), None),
    "two lines": ((" def b():", "-    return 1", "+    return 2"), OLD[:-2] + "2\n"),
    "out of order": (("-def b():", "+def d():", "@@", "-def a():", "+def c():"), None),
}  # fmt: skip


@pytest.mark.parametrize("lines, wanted", EXACT.values(), ids=EXACT)
def test_a_patch_that_every_program_reads_alike(lines: tuple[str, ...], wanted: str | None) -> None:
    text = patch("*** Update File: f", *lines)
    if wanted is None:
        with pytest.raises(NoFit):
            planned(text, lambda _: OLD, exact=True)
    else:
        assert planned(text, lambda _: OLD, exact=True)[0] == {"f": wanted}


ODD = {
    "no patch": "hello",
    "no end": "*** Begin Patch\n*** Delete File: f",
    "lines that are not there": patch("*** Update File: f", "-zzz", "+x"),
    "a line of no kind": patch("*** Update File: f", "zzz"),
    "nothing": patch("*** Update File: f"),
    "a head of no kind": patch("*** Rename File: f"),
    "a deleted file": patch("*** Delete File: f", "*** Update File: f", "-def a():", "+x"),
}


@pytest.mark.parametrize("text", ODD.values(), ids=ODD)
def test_a_patch_that_does_not_fit_changes_nothing(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("f").write_text(OLD)
    with pytest.raises(NoFit):
        planned(text)
    assert Path("f").read_text() == OLD
