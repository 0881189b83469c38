# SPDX-License-Identifier: Apache-2.0
"""What is read of a repository otherwise than git reads it is overlooked: words, and modes."""

from __future__ import annotations

from pathlib import Path

import pytest

from policy.model import Outcome
from sandbox.cell.git.config import settings
from sandbox.cell.git.objects import tree
from sandbox.cell.git.packs import Odd
from tests.gitchanges import REPOSITORY, copy, held_for, judged, sh

WORDS = {
    "a comment": "printf '# objectformat = sha256\\n' >> .git/config",
    "a comment behind a value": "printf '\\tx = y ; [extensions] objectformat = sha256\\n'"
    " >> .git/config",
    "a description": 'git config branch.main.description "objectformat sha256"',
    "a name": "git config extensions.objectformat.x sha256",
    "a continued line": 'printf \'[branch "b"]\\n\\tdescription = x\\\\\\n[extensions]\\\\\\n'
    "objectformat=sha256\\n' >> .git/config",
}
TREES = {
    "a file below a folder of another mode": ("40755 .github", "40755 workflows", "hold"),
    "one of a mode with leading zeros": ("040000 .github", "0040777 workflows", "hold"),
    "one whose number is too large": ("40000 .github", "10000040000 workflows", "hold"),
    "a mode that is no number to git": ("0o40000 .github", "40000 workflows", "hold"),
    "as git writes it": ("40000 .github", "40000 workflows", "hold"),
    "another folder of another mode": ("40755 src", "40755 workflows", "land"),
}
MADE = """
import hashlib, subprocess, sys
def put(kind, content, *words):
    return subprocess.run(["git", "hash-object", "-t", kind, "-w", "--stdin", *words],
        input=content, check=True, capture_output=True).stdout.decode().strip()
def entry(head, oid):
    return head.encode() + b"\\0" + bytes.fromhex(oid)
oid = entry("100644 x.yml", put("blob", b"evil"))
for head in sys.argv[2:0:-1]:
    oid = entry(head, put("tree", oid, "--literally"))
top = put("tree", oid, "--literally")
made = subprocess.run(["git", "commit-tree", "-m", "x", "-p", "HEAD", top], check=True,
    capture_output=True).stdout.decode().strip()
subprocess.run(["git", "update-ref", "refs/heads/feat", made], check=True)
"""


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    """Return a workspace that is a repository."""
    root = tmp_path / "ws"
    root.mkdir()
    sh(root, REPOSITORY)
    return root


@pytest.mark.parametrize("words", WORDS.values(), ids=WORDS)
def test_words_in_settings_do_not_blind_what_looks(ws: Path, tmp_path: Path, words: str) -> None:
    sh(ws, words)
    before = copy(ws, tmp_path / "before")
    sh(ws, "o=$(git rev-parse HEAD~1); rm -f .git/objects/${o:0:2}/${o:2}")
    assert held_for(judged(before, ws), "git-history")
    copy(before, ws)
    sh(ws, "echo x >> a; git commit -qam x")
    assert judged(before, ws).outcome is Outcome.LAND


def test_a_reference_that_cannot_be_read_holds_what_may_go(ws: Path, tmp_path: Path) -> None:
    (ws / ".git" / "refs" / "heads" / "odd").write_text("?\n")
    before = copy(ws, tmp_path / "before")
    sh(ws, "o=$(echo loose | git hash-object -w --stdin); echo $o > ../o")
    holding = copy(ws, tmp_path / "holding")
    assert judged(before, ws).outcome is Outcome.LAND
    sh(ws, "o=$(cat ../o); rm -f .git/objects/${o:0:2}/${o:2}")
    assert held_for(judged(holding, ws), "git-history")
    (holding / ".git" / "refs" / "heads" / "odd").unlink()
    (ws / ".git" / "refs" / "heads" / "odd").unlink()
    assert judged(holding, ws).outcome is Outcome.LAND


@pytest.mark.parametrize("outer, inner, outcome", TREES.values(), ids=TREES)
def test_a_folder_is_a_folder_whatever_its_mode(
    ws: Path, tmp_path: Path, outer: str, inner: str, outcome: str
) -> None:
    before = copy(ws, tmp_path / "before")
    script = tmp_path / "made.py"
    script.write_text(MADE)
    sh(ws, f"python3 {script} '{outer}' '{inner}'")
    found = judged(before, ws, named=("**",))
    rules = [one.path for one in found.reasons if one.rule in ("commit-content", "git-substitutes")]
    assert (found.outcome.value, bool(rules)) == (outcome, outcome == "hold")


def test_modes_are_those_that_git_takes_them_for() -> None:
    oid = bytes(20)
    read = tree(b"100664 a\0" + oid + b"40755 b\0" + oid + b"0 c\0" + oid, 20)
    assert [entry.mode for entry in read.values()] == [0o100644, 0o040000, 0o160000]
    for content in (b"100644 a\0" + oid + b"40000 a\0" + oid, b"+4 a\0" + oid, b" a\0" + oid):
        with pytest.raises(Odd):
            tree(content, 20)


def test_settings_are_read_to_what_git_would_refuse() -> None:
    text = b'\xef\xbb\xbf[Core] A=1 # [x]\n[s "N.\\"x"]k\n\tl = "a;b\\\n" c\\\r\n d ;e\n'
    found = [(b"core.a", b"1"), (b's.N."x.k', b""), (b's.N."x.l', b"a;b c d")]
    assert list(settings(text)) == found
    for odd in (b"[]\n", b"[a]\n1=2\n", b'[a]\nb="c\n', b"[a]\nb=\\q\n", b"[a\n]"):
        with pytest.raises(ValueError, match="cannot be read"):
            list(settings(odd))
