# SPDX-License-Identifier: Apache-2.0
"""The file tools by themselves, on real files and without a cell."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from sandbox.cell.run import file_tools as tools


@pytest.fixture
def use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Any:
    """Return a function that runs a tool in a folder: (status, output, errors)."""
    monkeypatch.chdir(tmp_path)

    def run(tool: str, **params: Any) -> tuple[int, str, str]:
        status = tools.main(tool, params)
        out, err = capfd.readouterr()
        return status, out, err

    return run


def test_read_shows_numbers_parts_and_long_lines(use: Any) -> None:
    Path("f").write_text("a\n" + "x" * 3000 + "\nlast")
    assert use("Read", file_path="f") == (
        0, f"     1\ta\n     2\t{'x' * 2000} [line cut]\n     3\tlast\n", ""
    )  # fmt: skip
    assert use("Read", file_path="f", offset=3)[1] == "     3\tlast\n"
    assert use("Read", file_path="f", offset=9)[1] == ""
    assert use("Read", file_path="f", limit=1)[1] == "     1\ta\n[lines 1 to 1 of 3]\n"


def test_read_of_an_empty_and_of_a_binary_file(use: Any) -> None:
    Path("empty").write_text("")
    Path("binary").write_bytes(b"a\0b")
    assert use("Read", file_path="empty") == (0, "", "")
    assert use("Read", file_path="binary") == (0, "binary: binary file of 3 bytes\n", "")


def test_read_shows_two_thousand_lines_at_most(use: Any) -> None:
    Path("f").write_text("x\n" * 2500)
    assert use("Read", file_path="f")[1].endswith("  2000\tx\n[lines 1 to 2000 of 2500]\n")


def test_what_is_wrong_is_one_line_and_status_one(use: Any, tmp_path: Path) -> None:
    assert use("Read", file_path="none") == (1, "", "No such file or directory: none\n")
    assert use("Read") == (1, "", "parameter 'file_path' is missing\n")
    assert use("Write", file_path=str(tmp_path), content="x")[::2] == (
        1, f"Is a directory: {tmp_path}\n"
    )  # fmt: skip


def test_a_large_file_is_refused(use: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "FILE_BYTES", 10)
    Path("f").write_text("x" * 11)
    assert use("Read", file_path="f")[2] == "f: larger than 10 bytes; use Bash\n"


def test_edits_keep_bytes_that_are_not_text(use: Any) -> None:
    Path("f").write_bytes(b"a\xff\r\nb")
    assert use("Edit", file_path="f", old_string="b", new_string="c")[0] == 0
    assert Path("f").read_bytes() == b"a\xff\r\nc"


def test_several_lines_with_windows_ends_are_read_and_edited_as_they_are_shown(use: Any) -> None:
    Path("f").write_bytes(b"one\r\ntwo\r\nthree\r\n")
    assert use("Read", file_path="f")[1] == "     1\tone\n     2\ttwo\n     3\tthree\n"
    edited = use("Edit", file_path="f", old_string="one\ntwo", new_string="1\n2\n2b")
    assert edited[0] == 0
    assert Path("f").read_bytes() == b"1\r\n2\r\n2b\r\nthree\r\n"


def test_ends_of_lines_that_differ_are_kept_and_compared_as_they_are(use: Any) -> None:
    Path("f").write_bytes(b"one\r\ntwo\nthree\n")
    assert use("Edit", file_path="f", old_string="one\ntwo", new_string="x")[0] == 1
    assert use("Edit", file_path="f", old_string="two\nthree", new_string="x")[0] == 0
    assert Path("f").read_bytes() == b"one\r\nx\n"


def test_several_edits_are_all_or_nothing(use: Any) -> None:
    Path("f").write_text("one two")
    steps = [{"old_string": "one", "new_string": "1"}, {"old_string": "gone", "new_string": ""}]
    assert use("MultiEdit", file_path="f", edits=steps)[0] == 1
    assert Path("f").read_text() == "one two"
    assert use("MultiEdit", file_path="f", edits=[])[2] == "f: no edits are given\n"


GLOBS = {
    "any file below": ("**/*.py", ("a.py", "d/b.py", "d/e/c.py"), ("a.pyc", "d/py")),
    "one level": ("*.py", ("a.py", ".py"), ("d/a.py",)),
    "a folder": ("src/**", ("src/a", "src/b/c"), ("src", "lib/a")),
    "a question mark": ("?.py", ("a.py",), ("ab.py", "/.py")),
    "a set": ("[ab].py", ("a.py", "b.py"), ("c.py",)),
    "a set that excludes": ("[!ab].py", ("c.py",), ("a.py",)),
    "alternatives": ("*.{ts,tsx}", ("a.ts", "b.tsx"), ("a.t", "a.ts,tsx")),
    "alternatives with folders": ("{src,lib}/*.py", ("src/a.py", "lib/b.py"), ("bin/a.py",)),
    "special characters": ("a+b(c).txt", ("a+b(c).txt",), ("aab(c).txt",)),
    "an open bracket": ("[ab", ("[ab",), ("a",)),
    "an open brace": ("{ab", ("{ab",), ("ab",)),
}


@pytest.mark.parametrize(("pattern", "fits", "misses"), GLOBS.values(), ids=GLOBS)
def test_globs(pattern: str, fits: tuple[str, ...], misses: tuple[str, ...]) -> None:
    regex = tools._glob_regex(pattern)
    assert [name for name in fits if not regex.match(name)] == []
    assert [name for name in misses if regex.match(name)] == []


def test_a_glob_lists_the_newest_first_and_says_when_it_cuts(
    use: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        Path(f"f{number}").write_text("x")
        os.utime(f"f{number}", (number, number))
    assert use("Glob", pattern="f*")[1].split() == ["f4", "f3", "f2", "f1", "f0"]
    monkeypatch.setattr(tools, "MATCHES", 2)
    assert use("Glob", pattern="f*")[1] == "f4\nf3\n[2 of 5 shown]\n"


def test_a_bad_set_in_a_glob_is_one_line(use: Any) -> None:
    status, _, said = use("Glob", pattern="[z-a]")
    assert status == 1
    assert re.fullmatch(r"pattern `\[z-a\]`: bad character range z-a.*\n", said)


def test_a_listing_marks_folders_and_links(use: Any) -> None:
    Path("d").mkdir()
    Path("f").write_text("")
    Path("l").symlink_to("d")
    assert use("LS") == (0, "d/\nf\nl@\n", "")
    assert use("LS", ignore=["d", "l"])[1] == "f\n"
    assert use("LS", path="d")[1] == "empty directory\n"
