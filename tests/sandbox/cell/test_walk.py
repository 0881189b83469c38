# SPDX-License-Identifier: Apache-2.0
"""What a walk makes of a layer, on real overlay mounts."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox.cell import fs
from sandbox.cell.overlay import diffs
from sandbox.cell.overlay.layer import LayerError
from sandbox.cell.overlay.walk import walk
from tests.conftest import cannot_run
from tests.sandbox.overlays import Overlay, Tree, missing, tree

PREPARE = """
mkdir -p d/e big sub empty .git
echo a >a; echo b >b; echo da >d/a; echo deb >d/e/b; ln -s a d/link; ln -s a link
echo 1 >big/1; echo 2 >big/2; echo s >sub/s; echo secret >.env; echo k >sub/key
printf '[core]\\n\\tbare = false\\n' >.git/config
touch -d '2020-01-01' a b d/a d/e/b big/1 big/2 sub/s
"""
MASKS = (".env", ".lockgate", "sub/key")


@pytest.fixture
def overlay() -> Iterator[Overlay]:
    if reason := missing():
        cannot_run(reason)
    with Overlay(*MASKS, prepare=PREPARE) as opened:
        yield opened


def brief(changes: list[dict[str, Any]]) -> list[str]:
    """Return changes as short texts: kind path [< source] [flags]."""
    said = []
    for change in changes:
        text = f"{change['kind']} {change['path']}"
        if "source" in change:
            text += f" < {change['source']}"
        flags = [name for name in ("modified", "hidden", "conflict") if change.get(name)]
        said.append(" ".join([text, *flags]))
    return said


CASES = {
    "reading changes nothing": ("cat a d/a >/dev/null", []),
    "a bare copy-up is nothing": (": >>a", []),
    "the same content is nothing": ("echo a >tmp; cat tmp >a; rm tmp", []),
    "a new mtime is nothing": ("touch a", []),
    "a mode changed and changed back is nothing": ("chmod 600 a; chmod 644 a", []),
    "a file created and deleted is nothing": ("echo x >x; rm x", []),
    "a file is created": ("echo x >x", ["created x"]),
    "a file is modified": ("echo x >>a", ["modified a"]),
    "content of the same size and mtime is compared": (
        "echo z >a; touch -d 2020-01-01 a",
        ["modified a"],
    ),
    "a file is deleted": ("rm a", ["deleted a"]),
    "a mode is changed": ("chmod 600 a", ["meta a"]),
    "a folder's mode is changed": ("chmod 700 d", ["meta d"]),
    "the root's mode is changed": ("chmod 700 .", ["meta ."]),
    "a link is retargeted": ("ln -sfn b link", ["modified link"]),
    "a link is replaced by the same link": ("ln -sfn a link", []),
    "a file is renamed": ("mv a x", ["renamed x < a"]),
    "a file is renamed and changed": ("mv a x; echo x >>x", ["deleted a", "created x"]),
    "a file is renamed with an attribute": (
        "mv a x; python3 -c 'import os; os.setxattr(\"x\", \"user.x\", b\"1\")'",
        ["renamed x < a modified"],
    ),
    "a file is renamed with a new mode": ("mv a x; chmod 600 x", ["renamed x < a modified"]),
    "files trade places": ("mv a t; mv b a; mv t b", ["modified a", "modified b"]),
    "a folder is created with contents": (
        "mkdir -p n/m; echo x >n/m/x",
        ["created n", "created n/m", "created n/m/x"],
    ),
    "a folder is deleted with all it holds": (
        "rm -r d",
        ["deleted d", "deleted d/a", "deleted d/e", "deleted d/e/b", "deleted d/link"],
    ),
    "a folder is made anew with the same contents": (
        "rm -r big; mkdir big; echo 1 >big/1; echo 2 >big/2",
        [],
    ),
    "a folder is made anew with less": (
        "rm -r big; mkdir big; echo 1 >big/1",
        ["deleted big/2"],
    ),
    "folders in a folder that is made anew hold less": (
        "rm -r d; mkdir -p d/e; echo n >d/e/n",
        ["deleted d/a", "deleted d/e/b", "created d/e/n", "deleted d/link"],
    ),
    "a folder moves into one in a folder that is made anew": (
        "mv big t; rm -r d; mkdir -p d/e; mv t d/e/big",
        ["deleted d/a", "deleted d/e/b", "renamed d/e/big < big", "renamed d/e/big/1 < big/1",
         "renamed d/e/big/2 < big/2", "deleted d/link"],
    ),
    "a folder is renamed": (
        "mv d x",
        [
            "renamed x < d",
            "renamed x/a < d/a",
            "renamed x/e < d/e",
            "renamed x/e/b < d/e/b",
            "renamed x/link < d/link",
        ],
    ),
    "a folder is renamed and back": ("mv d x; mv x d", []),
    "a folder is renamed and changed inside": (
        "mv d x; echo x >>x/a; rm x/link; echo n >x/n; chmod 700 x/e",
        [
            "deleted d/link",
            "renamed x < d",
            "renamed x/a < d/a modified",
            "renamed x/e < d/e modified",
            "renamed x/e/b < d/e/b",
            "created x/n",
        ],
    ),
    "a folder leaves a renamed one": (
        "mv d x; mv x/e y",
        [
            "renamed x < d",
            "renamed x/a < d/a",
            "renamed x/link < d/link",
            "renamed y < d/e",
            "renamed y/b < d/e/b",
        ],
    ),
    "a folder leaves one that is deleted": (
        "mv d/e y; rm -r d",
        ["deleted d", "deleted d/a", "deleted d/link", "renamed y < d/e", "renamed y/b < d/e/b"],
    ),
    "a folder moves into a new one": (
        "mkdir n; mv big n/big",
        ["created n", "renamed n/big < big", "renamed n/big/1 < big/1", "renamed n/big/2 < big/2"],
    ),
    "a renamed folder is replaced by a new one": (
        "mv big x; mkdir big; echo 1 >big/1",
        [
            "created big",
            "created big/1",
            "renamed x < big",
            "renamed x/1 < big/1",
            "renamed x/2 < big/2",
        ],
    ),
    "a folder takes the place of a deleted one": (
        "rm -r big; mv d big",
        [
            "deleted big",
            "renamed big < d",
            "deleted big/1",
            "deleted big/2",
            "renamed big/a < d/a",
            "renamed big/e < d/e",
            "renamed big/e/b < d/e/b",
            "renamed big/link < d/link",
        ],
    ),
    "folders trade places": (
        "mv big t; mv empty big; mv t empty",
        [
            "renamed big < empty",
            "renamed empty < big",
            "renamed empty/1 < big/1",
            "renamed empty/2 < big/2",
        ],
    ),
    "a folder becomes a file": (
        "rm -r big; echo x >big",
        ["created big", "deleted big", "deleted big/1", "deleted big/2"],
    ),
    "a file becomes a folder": (
        "rm a; mkdir a; echo x >a/x",
        ["created a", "deleted a", "created a/x"],
    ),
    "a folder becomes a link": (
        "rm -r big; ln -s d big",
        ["created big", "deleted big", "deleted big/1", "deleted big/2"],
    ),
    "a file becomes a link": ("ln -sf b a", ["created a", "deleted a"]),
    "a hard link to a file of the workspace": ("ln a x", ["created x"]),
    "a FIFO is made": ("mkfifo x", ["created x"]),
    "a file becomes a FIFO": ("rm a; mkfifo a", ["created a", "deleted a"]),
    "a folder becomes a FIFO": (
        "rm -r d; mkfifo d",
        ["created d", "deleted d", "deleted d/a", "deleted d/e", "deleted d/e/b", "deleted d/link"],
    ),
    "a set-user-id bit is set": ("chmod u+s a", ["meta a"]),
    "a hidden file is written": ("echo x >.env", ["modified .env hidden"]),
    "the same is written to a hidden file": ("echo secret >.env", ["modified .env hidden"]),
    "a hidden file is written and removed": ("echo x >.env; rm .env", []),
    "a folder with a hidden file is removed": (
        "rm -r sub",
        ["deleted sub", "deleted sub/key hidden", "deleted sub/s"],
    ),
    "a folder with a hidden file is renamed": (
        "mv sub x",
        ["renamed x < sub", "renamed x/key < sub/key hidden", "renamed x/s < sub/s"],
    ),
    "a folder with a hidden file is made anew": (
        "rm -r sub; mkdir sub; echo s >sub/s",
        [],
    ),
    "records are made where they are hidden": (
        "mkdir .lockgate; echo x >.lockgate/x",
        ["created .lockgate hidden", "created .lockgate/x hidden"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("script, expected", CASES.values(), ids=CASES)
def test_changes(overlay: Overlay, script: str, expected: list[str]) -> None:
    overlay.call(script)
    assert brief(overlay.walk().changes) == expected


MEANWHILE = {
    "another file changed: no conflict": ("echo x >>a", "echo y >>b", ["modified a"]),
    "the file changed": ("echo x >>a", "echo y >>a", ["modified a conflict"]),
    "the file's mode changed": ("echo x >>a", "chmod 600 a", ["modified a conflict"]),
    "the file was deleted": ("echo x >>a", "rm a", ["created a conflict"]),
    "a deleted file changed": ("rm a", "echo y >>a", ["deleted a conflict"]),
    "a deleted file is gone": ("rm a", "rm a", ["deleted a conflict"]),
    "a new file appeared": ("echo x >x", "echo y >x", ["modified x conflict"]),
    "a folder changed into a file": (
        "echo x >>d/a",
        "rm -r d; echo y >d",
        ["created d", "deleted d conflict", "created d/a conflict"],
    ),
    "the folder of a changed file was deleted": (
        "echo x >>d/a",
        "rm -r d",
        ["created d conflict", "created d/a conflict"],
    ),
    "a deleted folder got a file": (
        "rm -r big",
        "echo y >big/y",
        ["deleted big", "deleted big/1", "deleted big/2", "deleted big/y conflict"],
    ),
    "a renamed folder got a file": (
        "mv big x",
        "echo y >big/y",
        [
            "renamed x < big",
            "renamed x/1 < big/1",
            "renamed x/2 < big/2",
            "renamed x/y < big/y conflict",
        ],
    ),
    "a folder was made where a file is": (
        "echo x >x",
        "mkdir x",
        ["created x", "deleted x conflict"],
    ),
    "a renamed folder is gone": ("mv big x", "rm -r big", ["created x conflict"]),
    "a folder within a folder made anew got a file": (
        "rm -r d; mkdir -p d/e; echo da >d/a; ln -s a d/link",
        "echo n >d/e/n",
        ["deleted d/e/b conflict", "deleted d/e/n conflict"],
    ),
    "a folder made anew got an older file": (
        "rm -r big; mkdir big; echo 1 >big/1; echo 2 >big/2",
        "mv a big/moved",
        ["deleted big/moved conflict"],
    ),
    "a renamed file is gone": ("mv a x", "rm a", ["deleted a conflict", "created x conflict"]),
}  # fmt: skip


@pytest.mark.parametrize("script, meanwhile, expected", MEANWHILE.values(), ids=MEANWHILE)
def test_conflicts(overlay: Overlay, script: str, meanwhile: str, expected: list[str]) -> None:
    overlay.call(script)
    overlay.close()
    overlay.edit(meanwhile)
    assert brief(overlay.walk().changes) == expected


def test_a_change_says_what_gate_2_asks_for(overlay: Overlay) -> None:
    overlay.call("printf x >x; chmod 751 x; ln -s ../out l; echo '[alias]' >>.git/config")
    overlay.call("echo '[alias]' >.gitmodules")
    changes = {change.pop("path"): change for change in overlay.walk().changes}
    plain = {"kind": "created", "type": "file", "conflict": False}
    before = "[core]\n\tbare = false\n"
    assert changes == {
        "x": {**plain, "size": 1, "mode": 0o751},
        "l": {**plain, "type": "symlink", "size": 6, "mode": 0o777, "target": "../out"},
        ".gitmodules": {**plain, "size": 8, "mode": 0o644, "after_text": "[alias]\n"},
        ".git/config": {
            **plain,
            "kind": "modified",
            "size": 29,
            "mode": 0o644,
            "before_text": before,
            "after_text": before + "[alias]\n",
        },
    }


def test_long_settings_are_not_passed_on(overlay: Overlay) -> None:
    overlay.call("head -c 65537 /dev/zero | tr '\\0' '#' >>.git/config")
    [change] = overlay.walk().changes
    assert "after_text" not in change
    assert change["before_text"] == "[core]\n\tbare = false\n"


def test_names_need_not_be_utf8(overlay: Overlay) -> None:
    overlay.call("echo x >$'\\xff'; ln -s $'\\xfe' l")
    changes = overlay.walk().changes
    again = json.loads(json.dumps(changes))
    assert [(c["path"], c.get("target")) for c in again] == [("l", "\udcfe"), ("\udcff", None)]
    assert os.fsencode(again[1]["path"]) == b"\xff"


def test_user_attributes_count(overlay: Overlay) -> None:
    os.setxattr(overlay.merged / "a", "user.x", b"1")
    assert brief(overlay.walk().changes) == ["meta a"]


def test_owners_are_mapped_back() -> None:
    if reason := missing():
        cannot_run(reason)
    with Overlay(prepare="echo a >a; echo b >b") as overlay:
        overlay.call("echo x >>a; chown 10000:10000 a; echo n >n; chown 10000:10000 n b")
        walked = overlay.walk(owners={10000: 0})
        assert brief(walked.changes) == ["modified a", "created n"]
        assert overlay.land(walked).state == "landed"
        assert {(facts[1], facts[2]) for facts in overlay.real().values()} == {(0, 0)}


def test_sparse_files_are_compared_without_reading_holes(overlay: Overlay) -> None:
    overlay.edit(
        "truncate -s 1T huge; echo end | dd of=huge bs=1 seek=1000000 conv=notrunc status=none"
    )
    overlay.close()
    fresh = overlay.upper / "huge"
    with fresh.open("wb") as file:
        file.truncate(1 << 40)
        file.seek(1_000_000)
        file.write(b"end\n")
    fresh.chmod(0o644)
    overlay.since = None
    assert brief(overlay.walk().changes) == []
    with fresh.open("r+b") as file:
        file.seek(1 << 39)
        file.write(b"x")
    assert brief(overlay.walk().changes) == ["modified huge"]


def test_the_workspace_is_looked_at_only_where_the_layer_touches_it(
    overlay: Overlay, monkeypatch: pytest.MonkeyPatch
) -> None:
    overlay.call("echo x >>d/e/b")
    overlay.close()
    opened: list[str] = []
    original = fs.open_beneath

    def noting(root: int, path: str, *flags: int) -> int:
        opened.append(path)
        return original(root, path, *flags)

    monkeypatch.setattr(fs, "open_beneath", noting)
    assert brief(overlay.walk().changes) == ["modified d/e/b"]
    assert set(opened) <= {"", "d", "d/e", "d/e/b"}


def test_a_layer_nested_too_deep_is_refused(overlay: Overlay) -> None:
    overlay.call("for i in $(seq 400); do mkdir x; cd x; done")
    with pytest.raises(LayerError, match="nested deeper than 300"):
        overlay.walk()


def test_a_forged_redirect_is_refused(overlay: Overlay) -> None:
    overlay.close()
    (overlay.upper / "x").mkdir()
    os.setxattr(overlay.upper / "x", "trusted.overlay.redirect", b"/../../etc")
    with pytest.raises(LayerError, match="is moved from"):
        overlay.walk()


def test_links_in_the_workspace_are_not_followed(overlay: Overlay) -> None:
    overlay.edit("mkdir -p ../outside; echo o >../outside/f; rm -r d; ln -s ../outside d")
    overlay.close()
    (overlay.upper / "d").mkdir()
    (overlay.upper / "d" / "f").write_text("o\n")
    overlay.since = None
    found = brief(overlay.walk().changes)
    assert found == ["created d", "deleted d", "created d/f"]


def test_special_files_and_bits_are_left_out(overlay: Overlay) -> None:
    overlay.call("mkfifo f; echo x >s; chmod 6755 s; mkdir g; chmod g+s g")
    walked = overlay.walk()
    assert sorted(walked.left_out) == ["f", "s"]
    overlay.land(walked)
    modes = {path: stat.S_IMODE(int(str(facts[0]))) for path, facts in overlay.real().items()}
    assert "f" not in modes
    assert (modes["s"], modes["g"]) == (0o755, 0o2755)


def test_an_old_set_user_id_bit_is_no_change() -> None:
    if reason := missing():
        cannot_run(reason)
    with Overlay(prepare="echo a >a; chmod 4755 a; echo b >b; chmod 4755 b") as overlay:
        overlay.call("touch a; chgrp 1 b; chmod 4755 b")
        walked = overlay.walk()
        assert (brief(walked.changes), walked.left_out) == (["meta b"], [])


def test_a_diff_shows_text_and_names_the_rest(overlay: Overlay) -> None:
    overlay.call(
        "echo x >>a; rm b; printf 'new' >n; printf '\\0' >bin; echo y >.env; mv big/1 one;"
        "chmod 600 sub/s; ln -s a l; head -c 70000 /dev/zero | tr '\\0' 'x' >long"
    )
    walked = overlay.walk()
    assert diffs.diff(walked, str(overlay.lower)) == (
        "diff --git a/.env b/.env\n"
        "Secret files a/.env and b/.env differ (7 bytes -> 2 bytes)\n"
        "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1,2 @@\n a\n+x\n"
        "diff --git a/b b/b\ndeleted file mode 100644\n"
        "--- a/b\n+++ /dev/null\n@@ -1 +0,0 @@\n-b\n"
        "diff --git a/bin b/bin\nnew file mode 100644\n"
        "Binary files /dev/null and b/bin differ (1 bytes)\n"
        "diff --git a/l b/l\nnew file mode 120000\n"
        "--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+a\n\\ No newline at end of file\n"
        "diff --git a/long b/long\nnew file mode 100644\n"
        "Large files /dev/null and b/long differ (70000 bytes)\n"
        "diff --git a/n b/n\nnew file mode 100644\n"
        "--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+new\n\\ No newline at end of file\n"
        "diff --git a/big/1 b/one\nsimilarity index 100%\nrename from big/1\nrename to one\n"
        "diff --git a/sub/s b/sub/s\nold mode 100644\nnew mode 100600\n"
    )


def test_git_applies_a_diff(overlay: Overlay, tmp_path: Path) -> None:
    overlay.edit("git init -q")
    copy = tmp_path / "copy"
    shutil.copytree(overlay.lower, copy, symlinks=True)
    overlay.call(
        "echo x >>a; rm b; printf new >n; mv big/1 one; ln -s a l; chmod 755 d/a; mv d other;"
        "echo q >'a \"name\" and\ttab'; echo more >>big/2; mv big/2 two"
    )
    seen = overlay.seen()
    text = diffs.diff(overlay.walk(), str(overlay.lower))
    patch = tmp_path / "patch"
    patch.write_text(text)
    subprocess.run(["git", "apply", str(patch)], cwd=copy, check=True)
    assert _as_git_sees(tree(copy)) == _as_git_sees(seen)


def _as_git_sees(found: Tree) -> dict[str, object]:
    """Return content and whether it can be run, of files and links outside of git's own folder."""
    return {
        path: (stat.S_IFMT(row[0]), row[0] & 0o100, row[3])
        for path, row in found.items()
        if isinstance(row[0], int)
        and not stat.S_ISDIR(row[0])
        and ".git/" not in path
        and path not in MASKS
    }


def test_a_name_forges_no_line_of_a_diff(overlay: Overlay) -> None:
    (overlay.merged / "n\n+++ b").mkdir()
    (overlay.merged / "n\n+++ b/evil").write_text("x\n")
    text = diffs.diff(overlay.walk(), str(overlay.lower))
    assert '+++ "b/n\\n+++ b/evil"\n' in text
    assert "\n+++ b/evil" not in text


def test_a_new_secret_is_not_shown(overlay: Overlay) -> None:
    overlay.call("echo planted >sub/.env.local; echo shown >sub/x")
    text = diffs.diff(overlay.walk(), str(overlay.lower), lambda path: path.endswith(".env.local"))
    assert "planted" not in text
    assert "Secret files /dev/null and b/sub/.env.local differ (8 bytes)\n" in text
    assert "+shown" in text  # the control


def test_a_diff_is_bounded(overlay: Overlay) -> None:
    overlay.call("for i in $(seq 300); do echo $i >n$i; done")
    text = diffs.diff(overlay.walk(), str(overlay.lower))
    assert text.endswith("... and 200 more changes\n")


def test_a_missing_layer_is_an_error() -> None:
    with pytest.raises(LayerError, match="cannot be opened"):
        walk("/nonexistent", "/nonexistent")
