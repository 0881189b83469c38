# SPDX-License-Identifier: Apache-2.0
"""The file tools act as coding agents expect, and through the same gates as commands."""

from __future__ import annotations

import pytest

from sandbox.errors import BadInput
from tests.container.lab import OWNERS, Lab


@pytest.fixture
def lab(shared_lab: Lab) -> Lab:
    """Return the lab of all tests here that need nothing special."""
    return shared_lab


@pytest.mark.parametrize("owner", OWNERS)
def test_read_numbers_lines_and_takes_a_part(lab: Lab) -> None:
    path = f"{lab.ws}/README.md"
    whole = lab.tool("Read", file_path=path)
    assert whole.stdout == "     1\tHello\n     2\tworld\n     3\tagain\n"
    assert (whole.exit_status, whole.judgement, whole.changes) == (0, None, ())
    part = lab.tool("Read", file_path="README.md", offset=2, limit=1)
    assert part.stdout == "     2\tworld\n[lines 2 to 2 of 3]\n"


def test_read_says_what_is_wrong_in_one_line(lab: Lab) -> None:
    problems = {
        "none.txt": f"No such file or directory: {lab.ws}/none.txt\n",
        "src": f"Is a directory: {lab.ws}/src\n",
        ".env": f"No such file or directory: {lab.ws}/.env\n",
        "/etc/shadow": "Permission denied: /etc/shadow\n",
    }
    for name, message in problems.items():
        done = lab.tool("Read", file_path=name)
        assert (done.exit_status, done.stdout, done.stderr) == (1, "", message)


def test_write_creates_with_its_folders_and_replaces(lab: Lab) -> None:
    path = f"{lab.ws}/new/deep/file.txt"
    made = lab.tool("Write", file_path=path, content="one\ntwo\n")
    assert (made.stdout, made.landed) == (f"created {path} (2 lines)\n", True)
    assert lab.text("new/deep/file.txt") == "one\ntwo\n"
    again = lab.tool("Write", file_path=path, content="")
    assert (again.stdout, lab.text("new/deep/file.txt")) == (f"replaced {path} (0 lines)\n", "")
    assert (lab.ws / "new/deep/file.txt").stat().st_uid == lab.ws.stat().st_uid


def test_write_keeps_the_mode_and_content_that_is_no_ascii(lab: Lab) -> None:
    lab.tool("Write", file_path="tool.sh", content="#!/bin/sh\necho 'ünï \U0001f600'\n")
    assert (lab.ws / "tool.sh").stat().st_mode & 0o7777 == 0o755
    assert (lab.ws / "tool.sh").read_bytes().decode() == "#!/bin/sh\necho 'ünï \U0001f600'\n"


def test_edit_replaces_what_is_there_once(lab: Lab) -> None:
    done = lab.tool("Edit", file_path="src/app.py", old_string="one", new_string="two")
    assert (done.landed, lab.text("src/app.py")) == (True, "print('two')\n")
    assert [(c.path, c.kind) for c in done.changes] == [("src/app.py", "modified")]


def test_edit_says_why_it_does_nothing(lab: Lab) -> None:
    (lab.ws / "twice.txt").write_text("a a\n")
    path = f"{lab.ws}/twice.txt"
    problems = {
        ("b", "c"): f"{path}: old_string was not found; read the file again\n",
        ("a", "b"): f"{path}: old_string is there 2 times; give more context or set replace_all\n",
        ("a", "a"): f"{path}: old_string and new_string are the same\n",
        ("", "x"): f"{path}: old_string is empty, but the file is not\n",
    }
    for (old, new), message in problems.items():
        done = lab.tool("Edit", file_path="twice.txt", old_string=old, new_string=new)
        assert (done.exit_status, done.stderr, done.changes) == (1, message, ())
    every = lab.tool(
        "Edit", file_path="twice.txt", old_string="a", new_string="b", replace_all=True
    )
    assert (every.exit_status, lab.text("twice.txt")) == (0, "b b\n")


def test_edit_with_an_empty_old_string_makes_a_file(lab: Lab) -> None:
    done = lab.tool("Edit", file_path="made.txt", old_string="", new_string="x\n")
    assert (done.landed, lab.text("made.txt")) == (True, "x\n")


def test_edit_keeps_line_ends_and_bytes_that_are_not_utf8(lab: Lab) -> None:
    (lab.ws / "raw").write_bytes(b"a\r\nb\xff\r\n")
    lab.tool("Edit", file_path="raw", old_string="a", new_string="c")
    assert (lab.ws / "raw").read_bytes() == b"c\r\nb\xff\r\n"


def test_multi_edit_does_all_in_order_or_nothing(lab: Lab) -> None:
    steps = [
        {"old_string": "Hello", "new_string": "Goodbye"},
        {"old_string": "Goodbye\nworld", "new_string": "Goodbye, world"},
    ]
    done = lab.tool("MultiEdit", file_path="README.md", edits=steps)
    assert (done.landed, lab.text("README.md")) == (True, "Goodbye, world\nagain\n")
    failed = lab.tool(
        "MultiEdit",
        file_path="README.md",
        edits=[
            *({"old_string": "again", "new_string": "x"},),
            {"old_string": "no", "new_string": ""},
        ],
    )
    assert (failed.exit_status, lab.text("README.md")) == (1, "Goodbye, world\nagain\n")


def test_glob_finds_the_newest_first_and_skips_dependencies(lab: Lab) -> None:
    lab.sh(
        "mkdir -p node_modules/x src/deep && touch -d @1000 a.py src/b.py && "
        "touch -d @2000 src/deep/c.py && touch -d @500 node_modules/x/d.py src/app.py"
    )
    found = lab.tool("Glob", pattern="**/*.py").stdout.split()
    assert (found[0], found[-1]) == ("src/deep/c.py", "src/app.py")
    assert sorted(found[1:3]) == ["a.py", "src/b.py"]
    absolute = lab.tool("Glob", pattern="**/c.py", path=str(lab.ws)).stdout
    assert absolute == f"{lab.ws}/src/deep/c.py\n"
    assert lab.tool("Glob", pattern="*.{py,md}").stdout.count("\n") == 2
    assert lab.tool("Glob", pattern="*.py", path="src").stdout.count("\n") == 2
    assert lab.tool("Glob", pattern="none*").stdout == "no files found\n"
    assert lab.tool("Glob", pattern=".env*").stdout == "no files found\n"
    missing = lab.tool("Glob", pattern="*", path="none")
    assert (missing.exit_status, missing.stderr) == (1, f"{lab.ws}/none: no such directory\n")


def test_grep_in_its_three_modes(lab: Lab) -> None:
    (lab.ws / "more.md").write_text("hello\nHello again\n")
    assert lab.tool("Grep", pattern="Hello").stdout == "README.md\nmore.md\n"
    assert lab.tool("Grep", pattern="Hello", output_mode="count").stdout == (
        "README.md:1\nmore.md:1\n"
    )
    content = {"pattern": "hello", "output_mode": "content", "-i": True, "-n": True}
    assert lab.tool("Grep", **content).stdout == (
        "README.md:1:Hello\nmore.md:1:hello\nmore.md:2:Hello again\n"
    )
    assert lab.tool("Grep", **content, head_limit=1).stdout == "README.md:1:Hello\n"
    assert lab.tool("Grep", **content, glob="m*").stdout.startswith("more.md")
    after = lab.tool("Grep", pattern="world", output_mode="content", path="README.md", **{"-A": 1})
    assert after.stdout == "world\nagain\n"
    many = lab.tool(
        "Grep", pattern="Hello.world", multiline=True, output_mode="content", path="README.md"
    )
    assert many.stdout == "Hello\nworld\n"


def test_grep_finds_no_secret_and_says_what_is_wrong(lab: Lab) -> None:
    assert "planted" in lab.text(".env")
    for pattern in ("planted", "TOKEN"):
        assert lab.tool("Grep", pattern=pattern).stdout == "no matches found\n"
    bad = lab.tool("Grep", pattern="(")
    assert (bad.exit_status, bad.stdout) == (1, "")
    assert "regex parse error" in bad.stderr
    option = lab.tool("Grep", pattern="--files", output_mode="content")
    assert option.stdout == "no matches found\n"


def test_ls_marks_folders_and_links_and_shows_no_secret(lab: Lab) -> None:
    (lab.ws / "link").symlink_to("src")
    done = lab.tool("LS", path=str(lab.ws), ignore=["*.json"])
    assert done.stdout == ".git/\n.gitignore\nREADME.md\nlink@\nsrc/\ntool.sh\n"
    assert lab.tool("LS", path="src/deep").stdout == "er/\n"


def test_tools_go_through_the_gates(lab: Lab) -> None:
    for name in (".devkit-waiver.yml", "sub/.devkit-waiver.yml"):
        done = lab.tool("Write", file_path=name, content="x")
        assert (done.judgement, done.landed) == ("discard", False)
    pinned = lab.tool("Edit", file_path="devkit.config.json", old_string="true", new_string="false")
    assert (pinned.exit_status, lab.text("devkit.config.json")) == (1, '{"strict": true}\n')
    assert "Read-only file system" in pinned.stderr
    held = lab.tool("Write", file_path=".git/hooks/post-merge", content="x")
    assert (held.judgement, held.landed) == ("hold", False)
    outside = lab.tool("Write", file_path="/etc/x", content="x")
    assert (outside.exit_status, outside.changes) == (1, ())


def test_a_tool_that_lacks_a_parameter_is_one_clear_line(lab: Lab) -> None:
    for tool, name in (("Read", "file_path"), ("Write", "file_path"), ("Glob", "pattern")):
        with pytest.raises(BadInput, match=f"^a {tool} call needs `{name}`$"):
            lab.tool(tool)
    with pytest.raises(BadInput, match="holds a NUL byte"):
        lab.tool("Read", file_path="a\0b")


def test_a_written_file_can_be_undone(lab: Lab) -> None:
    done = lab.tool("Write", file_path="a.txt", content="one")
    lab.run(lab.supervisor.undo(done.id))
    assert not (lab.ws / "a.txt").exists()


def test_calls_can_be_undone_one_after_the_other(lab: Lab) -> None:
    first = lab.tool("Write", file_path="a.txt", content="one")
    second = lab.tool("Edit", file_path="a.txt", old_string="one", new_string="two")
    lab.run(lab.supervisor.undo(second.id))
    assert lab.text("a.txt") == "one"
    lab.run(lab.supervisor.undo(first.id))
    assert not (lab.ws / "a.txt").exists()
