# SPDX-License-Identifier: Apache-2.0
"""Git's index against the installed git: reading, meaning, stat data after landings and undos."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox.cell.git import index as gitindex
from sandbox.cell.git.index import Index
from sandbox.cell.git.index_format import UNTRACKED as UNTR
from sandbox.cell.git.index_format import forgotten
from sandbox.cell.journal import format as journal
from sandbox.cell.landing import land as landing
from tests.conftest import cannot_run
from tests.sandbox.overlays import Overlay, missing

GIT = (
    "export HOME=/nonexistent GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b.invalid"
    " GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b.invalid; "
)
PREPARE = f"""{GIT}
git init -q -b main; mkdir -p src/deep; echo one >a; echo two >src/b; echo three >src/deep/c
ln -s a link; echo x >tool; chmod +x tool; git add -A; git commit -qm one
touch -h -d @1600000000 a src/b src/deep/c link tool; git update-index --refresh -q || true
"""


def sh(folder: Path, script: str) -> str:
    """Run a script with git as nobody in particular."""
    done = subprocess.run(
        ["bash", "-ec", GIT + script], cwd=folder, check=True, capture_output=True
    )
    return os.fsdecode(done.stdout)


def parsed(folder: Path) -> Index:
    """Return a repository's index."""
    index = gitindex.parse((folder / ".git/index").read_bytes())
    assert index is not None
    return index


# Reading

CONFLICT = """
git checkout -qb other; echo other >a; git commit -qam o; git checkout -q main; echo mine >a
git commit -qam m; git merge -q other || true
"""
FORMATS = ("sha1", "sha256")
CASES = {
    "plain": "",
    "intent to add": "echo n >n; git add -N n",
    "skip-worktree": "git update-index --skip-worktree a",
    "assume-valid": "git update-index --assume-unchanged a",
    "conflict": CONFLICT,
    "resolved": CONFLICT + "echo both >a; git add a",
    "odd names": r"""for n in $'\xff\xfe' $'a\nb' 'ü' '  '; do echo x >"./$n"; done; git add -A""",
    "long name": "p=$(printf 'd%.0s' {1..200}); p=$p/$p/$p; mkdir -p $p; echo x >$p/f; git add .",
    "very long name": "n=$(printf 'long/%.0s' {1..1000}); git update-index --add --cacheinfo "
    "100644,$(git hash-object a),${n}f",
    "empty": "git rm -qr --cached .",
    "untracked cache": "git update-index --untracked-cache; git status -s",
}


@pytest.fixture(params=FORMATS)
def repo(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a fresh repository with one commit."""
    sh(
        tmp_path,
        f"git init -q -b main --object-format={request.param}; mkdir d; echo 1 >a; echo 2 >d/b;"
        "echo 3 >d/c; git add -A; git commit -qm one",
    )
    return tmp_path


@pytest.mark.parametrize("version", [2, 3, 4])
@pytest.mark.parametrize("case", CASES)
def test_an_index_is_read_as_git_reads_it(repo: Path, case: str, version: int) -> None:
    sh(repo, f"git update-index --index-version {version}; {CASES[case]}")
    index = parsed(repo)
    assert gitindex.serialise(index, {}) == index.content
    listed = [
        f"{entry.mode:06o} {entry.oid.hex()} {entry.stage}\t".encode() + entry.path
        for entry in index.entries
    ]
    assert listed == os.fsencode(sh(repo, "git ls-files -sz")).split(b"\0")[:-1]
    if case in ("intent to add", "skip-worktree"):
        assert [entry.path for entry in index.entries if entry.more] == [
            b"n" if case == "intent to add" else b"a"
        ]


def test_a_changed_stat_is_what_git_shows_and_the_checksum_is_right(repo: Path) -> None:
    index = parsed(repo)
    first = index.entries[0]
    values = (*range(101, 107), first.mode, 107, 108, 109)
    (repo / ".git/index").write_bytes(gitindex.serialise(index, {first.at: values}))
    shown = sh(repo, "git ls-files --debug a; git fsck --strict 2>&1")
    assert re.findall(r"\d+", shown.partition("\n")[2])[:9] == [
        str(n) for n in (101, 102, 103, 104, 105, 106, 107, 108, 109)
    ]
    after = parsed(repo)
    assert after.entries[0].stat == values
    assert gitindex.meaning(after) == gitindex.meaning(index)


def test_a_checksum_of_zeros_stays(repo: Path) -> None:
    index = parsed(repo)
    path = repo / ".git/index"
    path.write_bytes(index.content[: -index.width] + bytes(index.width))
    again = parsed(repo)
    assert again.width == index.width
    first = again.entries[0]
    changed = gitindex.serialise(again, {first.at: (*first.stat[:-1], 77)})
    assert changed[-index.width :] == bytes(index.width)
    assert gitindex.parse(changed) is not None


def test_an_odd_index_is_not_understood(repo: Path) -> None:
    content = (repo / ".git/index").read_bytes()
    width = parsed(repo).width
    hashed = hashlib.sha1 if width == 20 else hashlib.sha256

    def signed(body: bytes) -> bytes:
        return body + hashed(body).digest()

    body = content[:-width]
    odd = {
        "empty": b"",
        "cut": content[:-1],
        "a wrong checksum": body + b"x" * width,
        "an unknown version": signed(body[:7] + b"\5" + body[8:]),
        "an unknown extension": signed(body + b"abcd\0\0\0\0"),
        "more entries than there are": signed(body[:11] + b"\x30" + body[12:]),
        "a cut extension": signed(body + b"ABCD\0\0\0\5"),
    }
    assert {name: gitindex.parse(text) for name, text in odd.items()} == dict.fromkeys(odd)
    assert gitindex.parse(signed(body + b"ABCD\0\0\0\0")) is not None
    sh(repo, "git update-index --split-index")
    assert gitindex.parse((repo / ".git/index").read_bytes()) is None


NAMES = st.lists(
    st.binary(min_size=1, max_size=12)
    .map(lambda name: re.sub(rb"[\0/.]", b"_", name))
    .filter(lambda name: name.lower() != b"git~1"),
    min_size=1,
    max_size=12,
    unique=True,
)


@pytest.fixture(scope="module")
def shared() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="lockgate-test-") as name:
        sh(Path(name), "git init -q -b main; git config core.protectNTFS false")
        yield Path(name)


@settings(max_examples=40, deadline=None)
@given(names=NAMES, version=st.sampled_from([2, 3, 4]), skipped=st.sets(st.integers(0, 11)))
def test_reading_and_writing_an_index_changes_no_byte(
    shared: Path, names: list[bytes], version: int, skipped: set[int]
) -> None:
    (shared / ".git/index").unlink(missing_ok=True)
    blob = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
    rows = b"".join(b"100644 %s\t%s\0" % (blob.encode(), name) for name in names)
    run = ["git", "update-index", "-z"]
    subprocess.run([*run, "--index-info"], input=rows, cwd=shared, check=True)
    subprocess.run(["git", "update-index", "--index-version", str(version)], cwd=shared, check=True)
    marked = b"\0".join(name for n, name in enumerate(names) if n in skipped)
    if marked:
        subprocess.run(
            [*run, "--skip-worktree", "--stdin"], input=marked + b"\0", cwd=shared, check=True
        )
    index = parsed(shared)
    assert gitindex.serialise(index, {}) == index.content
    assert [entry.path for entry in index.entries] == sorted(names)


def test_which_paths_are_indexes() -> None:
    yes = (".git/index", "sub/.git/index", ".git/worktrees/w/index", "s/.git/worktrees/w/index")
    no = ("index", "a.git/index", ".git/index.lock", ".git/x/index", ".git/worktrees/index")
    assert [gitindex.is_index(path) for path in yes + no] == [True] * 4 + [False] * 5
    assert [gitindex.work_tree(path) for path in yes] == ["", "sub/", None, None]


REFRESHES = ("git status", "touch a; git update-index --refresh", "git write-tree")
CHANGES = (
    "echo n >n; git add n",
    "echo n >a; git add a",
    "git rm -q --cached a",
    "git update-index --chmod=+x a",
    "git update-index --assume-unchanged a",
    "git update-index --skip-worktree a",
    "echo n >n; git add -N n",
)


@pytest.mark.parametrize("script", REFRESHES + CHANGES)
def test_the_meaning_is_all_but_stat_data_and_caches(repo: Path, script: str) -> None:
    before = gitindex.meaning(parsed(repo))
    sh(repo, "touch -d @1700000000 d/b;" + script)
    assert (gitindex.meaning(parsed(repo)) == before) == (script in REFRESHES)


# After landings and undos


@pytest.fixture
def _overlays() -> None:
    if reason := missing():
        cannot_run(reason)


needs_overlays = pytest.mark.usefixtures("_overlays")


def clean(folder: Path) -> None:
    """Assert that git finds nothing changed without refreshing, and that all is in order."""
    assert sh(folder, "git diff-files") == ""
    sh(folder, "git diff-index --quiet HEAD && git fsck --strict 2>&1")
    assert exact(folder) == []


def exact(folder: Path) -> list[str]:
    """Return the entries that remember something else than the real file."""
    out = []
    for entry in parsed(folder).entries:
        status = (folder / os.fsdecode(entry.path)).lstat()
        real = (
            *divmod(status.st_ctime_ns, 10**9),
            *divmod(status.st_mtime_ns, 10**9),
            *(status.st_dev, status.st_ino, entry.mode, status.st_uid, status.st_gid),
            status.st_size,
        )
        if tuple(value & 0xFFFFFFFF for value in real) != entry.stat:
            out.append(os.fsdecode(entry.path))
    return out


COMMITS = (
    "echo m >>a; git commit -qam m",
    "echo m >>a; echo n >src/n; git add -A; git commit -qm m",
    "git mv src far; git commit -qam m",
    "git rm -q a; git commit -qm m",
    "rm link; ln -s tool link; chmod -x tool; git commit -qam m",
    "git update-index --index-version 4; echo m >>a; git commit -qam m",
)


@needs_overlays
@pytest.mark.parametrize("command", COMMITS)
def test_a_commit_is_clean_on_the_host_and_can_be_undone(command: str) -> None:
    with Overlay(prepare=PREPARE) as overlay:
        before = overlay.real()
        overlay.call(GIT + command)
        assert overlay.land(overlay.walk()).state == "landed"
        clean(overlay.lower)
        after = sh(overlay.lower, "git rev-parse HEAD; git ls-files -s")
        index = parsed(overlay.lower)
        sh(overlay.lower, "touch .git/index; git status")  # stat data, and maybe a tree cache
        assert gitindex.meaning(parsed(overlay.lower)) == gitindex.meaning(index)
        for call, new in (("c1", "u1"), ("u1", "u2"), ("u2", "u3")):
            result = overlay.undo(call, new)
            assert (result.state, result.refused) == ("undone", ())
            clean(overlay.lower)
            if new == "u2":
                assert sh(overlay.lower, "git rev-parse HEAD; git ls-files -s") == after
            sh(overlay.lower, "git status")
        real = overlay.real()
        del real[".git/index"], before[".git/index"]
        assert real == before


@needs_overlays
def test_undo_of_undo_with_refreshes_between() -> None:
    with Overlay(prepare=PREPARE) as overlay:
        overlay.call(GIT + "echo m >>a; git commit -qam m")
        assert overlay.land(overlay.walk()).state == "landed"
        for call, new, text in (
            ("c1", "u1", "one\n"),
            ("u1", "u2", "one\nm\n"),
            ("u2", "u3", "one\n"),
        ):
            inode = (overlay.lower / ".git/index").stat().st_ino
            sh(overlay.lower, "touch src/b; git status")
            assert (overlay.lower / ".git/index").stat().st_ino != inode
            assert (overlay.undo(call, new).state, overlay.unfinished()) == ("undone", [])
            assert (overlay.lower / "a").read_text() == text
            assert sh(overlay.lower, "git diff-files a") == ""


@needs_overlays
@pytest.mark.parametrize("change", CHANGES[:4])
def test_a_later_change_of_the_index_still_refuses(change: str) -> None:
    with Overlay(prepare=PREPARE) as overlay:
        overlay.call(GIT + "echo m >>src/b; git commit -qam m")
        assert overlay.land(overlay.walk()).state == "landed"
        sh(overlay.lower, change)
        assert overlay.undo("c1", "u1").refused == (".git/index",)


@needs_overlays
def test_commits_are_undone_in_turn() -> None:
    with Overlay(prepare=PREPARE) as overlay:
        layers = []
        for text in ("x", "y"):
            layer = Overlay()
            layer.lower = overlay.lower
            layer.open()
            layer.call(GIT + f"echo {text} >>a; git commit -qam {text}")
            assert landing.land(str(overlay.lower), "", layer.walk(), text).state == "landed"
            clean(overlay.lower)
            layers.append(layer)
        for text in ("y", "x"):
            assert overlay.undo(text, f"u{text}").refused == ()
            clean(overlay.lower)
        for layer in layers:
            layer.close()


@needs_overlays
def test_a_new_repository_is_settled_and_undone() -> None:
    with Overlay(prepare="mkdir p; echo 1 >p/f") as overlay:
        overlay.call(GIT + "cd p; git init -q -b main; git add -A; git commit -qm m")
        assert overlay.land(overlay.walk()).state == "landed"
        clean(overlay.lower / "p")
        sh(overlay.lower / "p", "touch f; git status")
        assert overlay.undo("c1", "u1").state == "undone"
        assert not (overlay.lower / "p/.git").exists()


@needs_overlays
def test_a_file_that_was_changed_behind_its_entry_is_not_called_clean() -> None:
    with Overlay(prepare=PREPARE) as overlay:
        overlay.call(
            GIT + "echo new >a; touch -d @1600000009 a; git add a; echo BAD >a;"
            "touch -d @1600000009 a; echo m >>src/b; git add src/b"
        )
        assert overlay.land(overlay.walk()).state == "landed"
        assert sh(overlay.lower, "git diff --name-only") == "a\n"
        assert sh(overlay.lower, "git diff --cached --name-only") == "a\nsrc/b\n"


UNTRACKED = (
    "echo x >evil.py; echo y >nois.py; touch -d @1600000000 .;"
    " git update-index --untracked-cache; git status -s"
)
FORGE = """python3 - <<'EOF'
import hashlib
text = open(".git/index", "rb").read()[:-20]
at = text.index(b"UNTR")
text = text[:at] + text[at:].replace(b"evil.py", b"nois.py")
open(".git/index", "wb").write(text + hashlib.sha1(text).digest())
EOF
"""


def test_a_forgotten_untracked_cache_is_read_by_git_and_filled_anew(repo: Path) -> None:
    sh(repo, UNTRACKED)
    index = parsed(repo)
    held = dict(index.extensions)[UNTR]
    less = forgotten(held, index.width)
    (repo / ".git/index").write_bytes(gitindex.serialise(index, {}, less))
    assert dict(parsed(repo).extensions)[UNTR] == less
    assert gitindex.meaning(parsed(repo)) == gitindex.meaning(index)
    shown = sh(repo, "git status -s 2>&1; git fsck --strict 2>&1")
    assert shown == "?? evil.py\n?? nois.py\n"
    assert len(dict(parsed(repo).extensions)[UNTR]) > len(less)  # it is on, and filled again
    if index.width == 20:
        sh(repo, "git status -s;" + FORGE)
        assert sh(repo, "git status -s") == "?? nois.py\n"  # what a call could hide
    (repo / ".git/index").write_bytes(gitindex.serialise(index, {}, b""))
    assert UNTR not in dict(parsed(repo).extensions)
    assert forgotten(held[:50], index.width) == forgotten(b"", index.width) == b""


@needs_overlays
def test_no_call_says_which_files_are_untracked() -> None:
    with Overlay(prepare=PREPARE + UNTRACKED) as overlay:
        overlay.call(GIT + FORGE)
        assert overlay.land(overlay.walk()).state == "landed"
        index = parsed(overlay.lower)
        assert b"nois.py" not in dict(index.extensions)[UNTR]
        assert sh(overlay.lower, "git status -s") == "?? evil.py\n?? nois.py\n"


LIE = """python3 - "$(git rev-parse HEAD:a)" <<'EOF'
import hashlib, subprocess, sys
oid = subprocess.check_output(["git", "rev-parse", ":a"], text=True).strip()
text = open(".git/index", "rb").read()[:-20]
at = text.index(bytes.fromhex(oid))
text = text[:at] + bytes.fromhex(sys.argv[1]) + text[at + 20 :]
open(".git/index", "wb").write(text + hashlib.sha1(text).digest())
EOF
"""


@needs_overlays
def test_an_entry_does_not_say_of_an_edit_that_it_is_none() -> None:
    with Overlay(prepare=PREPARE + "echo evil >a; touch -d @1600000009 a") as overlay:
        shutil.copytree(overlay.lower, overlay.lower.parent / "control", symlinks=True)
        sh(overlay.lower.parent / "control", "git add a;" + LIE)
        assert sh(overlay.lower.parent / "control", "git diff --name-only") == ""  # it hides it
        overlay.call(GIT + "git add a;" + LIE)
        assert overlay.land(overlay.walk()).state == "landed"
        assert sh(overlay.lower, "git diff --name-only") == "a\n"
        assert sh(overlay.lower, "git status --porcelain") == " M a\n"


@needs_overlays
def test_nor_does_one_of_a_git_folder_by_another_name() -> None:
    apart = "mv .git store; echo 'gitdir: store' >.git; git config core.worktree ..;"
    edit = "echo evil >a; touch -d @1600000009 a; mkdir fixtures; cp store/index fixtures/"
    with Overlay(prepare=PREPARE + apart + edit) as overlay:
        kept = (overlay.lower / "fixtures" / "index").read_bytes()
        lie = LIE.replace(".git/index", "store/index")
        overlay.call(GIT + "git add a;" + lie + "cp store/index fixtures/index")
        landed = (overlay.upper / "fixtures" / "index").read_bytes()
        assert overlay.land(overlay.walk()).state == "landed"
        assert sh(overlay.lower, "git diff --name-only") == "a\n"
        assert (overlay.lower / "fixtures" / "index").read_bytes() == landed != kept


@needs_overlays
def test_nor_does_one_of_a_linked_work_tree() -> None:
    there = "git worktree add -q wt; echo evil >wt/a; touch -d @1600000009 wt/a"
    lie = LIE.replace(".git/index", "../.git/worktrees/wt/index")
    with Overlay(prepare=PREPARE + there) as overlay:
        paths = "export GIT_DIR=$PWD/.git/worktrees/wt GIT_WORK_TREE=$PWD/wt; cd wt; "
        overlay.call(GIT + paths + "git add a;" + lie)
        assert overlay.land(overlay.walk()).state == "landed"
        assert sh(overlay.lower / "wt", "git diff --name-only") == "a\n"
        assert sh(overlay.lower / "wt", "git status --porcelain") == " M a\n"


@needs_overlays
def test_a_racily_changed_file_keeps_being_looked_at() -> None:
    with Overlay(prepare=PREPARE) as overlay:
        overlay.call(
            GIT + "echo new >a; echo m >>src/b; touch -d @1700000009 a; git add a src/b;"
            "echo BAD >a; touch -d @1700000009 a; touch -d @1700000009 .git/index"
        )
        assert overlay.land(overlay.walk()).state == "landed"
        assert sh(overlay.lower, "git diff --name-only") == "a\n"


@needs_overlays
def test_a_locked_index_is_left_as_it_landed() -> None:
    with Overlay(prepare=PREPARE) as overlay:
        overlay.call(GIT + "echo m >>a; git commit -qam m")
        landed = (overlay.upper / ".git/index").read_bytes()
        walked = overlay.walk()
        (overlay.lower / ".git/index.lock").touch()
        assert overlay.land(walked).state == "landed"
        assert (overlay.lower / ".git/index").read_bytes() == landed
        assert overlay.undo("c1", "u1").state == "undone"


@needs_overlays
def test_owner_and_mode_of_the_index_stay() -> None:
    with Overlay(prepare=PREPARE) as overlay:
        overlay.call(
            GIT + "echo m >>a; git commit -qam m; chmod 640 .git/index; chown 7:8 .git/index a"
        )
        assert overlay.land(overlay.walk()).state == "landed"
        status = (overlay.lower / ".git/index").stat()
        assert (status.st_mode & 0o777, status.st_uid, status.st_gid) == (0o640, 7, 8)
        assert exact(overlay.lower) == []


@needs_overlays
@pytest.mark.parametrize("step", ["index", "settled", "finish"])
def test_a_crash_around_the_settling_leaves_an_undoable_commit(step: str) -> None:
    class Crash(BaseException):
        pass

    def fault(name: str) -> None:
        if name == step:
            raise Crash

    with Overlay(prepare=PREPARE) as overlay:
        before = overlay.real()
        overlay.call(GIT + "echo m >>a; git commit -qam m")
        walked = overlay.walk()
        with pytest.raises(Crash):
            overlay.land(walked, fault=fault)
        landing.recover(str(overlay.lower))
        assert overlay.unfinished() == []
        with pytest.raises(Crash):
            landing.undo(str(overlay.lower), "c1", "u1", fault=fault)
        landing.recover(str(overlay.lower))
        sh(overlay.lower, "git update-index --refresh; git diff-index --quiet HEAD; git fsck")
        real = overlay.real()
        del real[".git/index"], before[".git/index"]
        assert real == before
        assert overlay.undo("u1", "u2").state == "undone"
        sh(overlay.lower, "git update-index --refresh; git diff-index --quiet HEAD; git fsck")


@needs_overlays
@pytest.mark.parametrize("stop", range(40))
def test_a_crash_in_an_undo_after_a_refresh_is_finished(stop: int) -> None:
    class Crash(BaseException):
        pass

    count = 0

    def fault(_name: str) -> None:
        nonlocal count
        count += 1
        if count > stop:
            raise Crash

    with Overlay(prepare=PREPARE) as overlay:
        overlay.call(GIT + "echo m >>a; git commit -qam m")
        assert overlay.land(overlay.walk()).state == "landed"
        sh(overlay.lower, "touch src/b; git status")
        try:
            landing.undo(str(overlay.lower), "c1", "u1", fault=fault)
        except Crash:
            landing.recover(str(overlay.lower))
        assert overlay.unfinished() == []
        done = any(one["call"] == "u1" for one in landing.list_undo(str(overlay.lower)))
        assert (overlay.lower / "a").read_text() == ("one\n" if done else "one\nm\n")
        sh(overlay.lower, "git update-index --refresh; git diff-index --quiet HEAD; git fsck")
        assert overlay.undo("u1" if done else "c1", "u2").state == "undone"


def test_journals_without_meanings_are_read(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    try:
        ops = [journal.Op("swap", ".git/index", "s0", [1, 2, 3, 4, 5], [6, 7, 8, 9, 5])]
        journal.append(descriptor, journal.plan("c1", ops, 1.0), durable=False)
        journal.append(descriptor, journal.end([[1, 2, 3, 4, 5]], 7), durable=False)
        record = journal.read(descriptor)
        assert record is not None
        assert (record.ops, record.last.indexes) == (ops, None)
        line = journal.end([[9] * 5], 7, {".git/index": "d"}, [[0, "identity", None, [9] * 5]])
        journal.append(descriptor, line, durable=False)
        record = journal.read(descriptor)
        assert record is not None
        assert record.ops[0].identity == record.last.now[0] == [9] * 5  # type: ignore[index]
        assert record.last.indexes == {".git/index": "d"}
    finally:
        os.close(descriptor)


# Hidden files


@needs_overlays
@pytest.mark.parametrize(
    ("command", "dropped"),
    [
        ("echo m >>a; git commit -qam m", [".env", "keys/one"]),
        ("git add -A", [".env", "keys/one"]),
        ("git add .env", [".env"]),
        ("rm .git/index", [".env", "keys/one"]),
        ("mv .git/index x", [".env", "keys/one"]),
        ("echo junk >.git/index", [".env", "keys/one"]),
        ("git update-index --split-index; git update-index --force-remove a", [".env", "keys/one"]),
        ("echo m >>a; git commit -qm m a", None),
        ("echo m >>a; git add a src; git commit -qm m", None),
        ("touch a; git status", None),
    ],
)
def test_what_an_index_loses_only_because_it_is_hidden(
    command: str, dropped: list[str] | None
) -> None:
    secrets = "echo s >.env; mkdir keys; echo s >keys/one; git add -A; git commit -qm s;"
    with Overlay(".env", "keys", prepare=PREPARE + secrets) as overlay:
        overlay.call(GIT + command)
        walked = overlay.walk()
        gitindex.note_dropped(
            walked.changes, str(overlay.lower), str(overlay.upper), [".env", "keys"]
        )
        found = [change["drops_hidden"] for change in walked.changes if "drops_hidden" in change]
        assert found == ([] if dropped is None else [dropped])


def test_git_is_installed() -> None:
    assert shutil.which("git")
