# SPDX-License-Identifier: Apache-2.0
"""Three calls that wrote and rewrote large files drove out what a person had; and a call that
emptied every file landed where one that deletes them is held."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from policy.gate2.judge import judge
from policy.model import Access, Change, Decision, FileType, Kind, Outcome, Rights, Tier, Verdict
from policy.protected.paths import PathPolicy
from sandbox.cell.landing import land as landing
from sandbox.cell.landing import room
from sandbox.cell.overlay.replaced import is_kept, note_replaced
from sandbox.config.settings import Settings
from tests.conftest import cannot_run
from tests.container.conftest import MakeLab
from tests.sandbox.overlays import Overlay, missing

QUOTA = 10_000


class Workspace:
    """Lands scripts of agents, one after the other, with a small quota."""

    def __init__(self, base: Overlay) -> None:
        self.root = str(base.lower)
        self._base = base
        self._count = 0

    def __call__(self, agent: str, script: str, *, spare: bool = True) -> landing.Landing:
        self._count += 1
        with Overlay() as fresh:
            fresh.close()
            fresh.lower = self._base.lower
            fresh.open()
            fresh.call(script)
            walked = fresh.walk()
            name = f"c{self._count}"
            return landing.land(self.root, "", walked, name, agent=agent, quota=QUOTA, spare=spare)

    def calls(self) -> list[str]:
        """Return what can be undone."""
        return [entry["call"] for entry in landing.list_undo(self.root)]


@pytest.fixture
def workspace() -> Iterator[Workspace]:
    if reason := missing():
        cannot_run(reason)
    with Overlay(prepare="echo precious > notes; head -c 6000 /dev/zero > data") as base:
        yield Workspace(base)


def fill(size: int, name: str = "junk") -> str:
    return f"head -c {size} /dev/urandom > {name}"


def test_an_agents_own_content_drives_out_nothing_else(workspace: Workspace) -> None:
    assert workspace("a", "echo gone > notes").state == "landed"
    for _ in range(4):
        assert workspace("a", fill(9000)).state == "landed"
    assert "c1" in workspace.calls()
    assert landing.undo(workspace.root, "c1", "u1").state == "undone"
    assert Path(workspace.root, "notes").read_text() == "precious\n"


@pytest.mark.parametrize("edited", [False, True])
def test_writing_twice_makes_the_first_time_no_more_final(
    workspace: Workspace, edited: bool
) -> None:
    notes, root = Path(workspace.root, "notes"), workspace.root
    assert workspace("a", "echo gone > notes").state == "landed"
    assert workspace("a", "echo gone for good > notes").state == "landed"
    assert landing.undo(root, "c1", "u0").conflicts == ("notes",)  # `c2` can be undone before
    for _ in range(3):
        assert workspace("a", fill(9000)).state == "landed"
    assert "c2" not in workspace.calls()
    if edited:  # that is nobody's to overrule
        with notes.open("a") as file:
            file.write("a person's\n")
        assert landing.undo(root, "c1", "u1").conflicts == ("notes",)
        return
    assert landing.undo(root, "c1", "u1").state == "undone"
    assert notes.read_text() == "precious\n"
    assert landing.undo(root, "u1", "u2").state == "undone"
    assert notes.read_text() == "gone for good\n"
    assert landing.undo(root, "u2", "u3").state == "undone"
    assert notes.read_text() == "precious\n"


def test_what_would_drive_out_a_persons_last_copy_does_not_land(workspace: Workspace) -> None:
    assert workspace("a", "echo gone > notes; " + fill(6000, "data")).state == "landed"
    Path(workspace.root, "data").write_bytes(b"a person's own again" * 300)
    Path(workspace.root, "more").write_bytes(b"more" * 1500)
    refused = workspace("a", "rm more")
    assert (refused.state, "notes" in refused.conflicts) == ("crowded", True)
    assert Path(workspace.root, "more").exists()
    said = workspace("a", "rm more", spare=False)  # a person's word
    assert (said.state, said.lost) == ("landed", ("c1",))


def test_nor_another_agents_and_what_is_aged_goes_aloud(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert workspace("b", fill(6000, "work")).state == "landed"
    assert workspace("a", "echo gone > work").state == "landed"  # b's work is kept in a's record
    assert workspace("a", "rm data").state == "crowded"
    assert workspace("a", "echo more > new; echo n > notes").state == "landed"  # there is room
    monkeypatch.setattr(room, "AGED_SECONDS", -1.0)
    aged = workspace("a", "rm data")
    assert (aged.state, aged.lost) == ("landed", ("c2",))


def test_folders_of_ones_own_go_as_their_files_do(workspace: Workspace) -> None:
    assert workspace("a", "echo gone > notes").state == "landed"
    for _ in range(3):
        assert workspace("a", "mkdir -p d/e; " + fill(6000, "d/e/f")).state == "landed"
        assert workspace("a", "rm -r d").state == "landed"
    assert "c1" in workspace.calls()
    Path(workspace.root, "d").mkdir()
    Path(workspace.root, "d", "f").write_bytes(b"a person's" * 600)
    Path(workspace.root, "more").write_bytes(b"more" * 1500)
    assert workspace("a", "rm -r d").state == "landed"
    assert workspace("a", "rm more").state == "crowded"


def test_touching_ones_own_or_undoing_it_makes_it_nobody_elses(workspace: Workspace) -> None:
    assert workspace("a", fill(6000)).state == "landed"
    assert workspace("a", "touch -d @5 junk").state == "landed"
    assert workspace("a", fill(6000)).state == "landed"
    assert workspace("a", fill(6000)).lost in ((), ("c4",))  # its own go, and nobody else's
    junk = Path(workspace.root, "junk")
    inode = junk.stat().st_ino
    with junk.open("ab") as file:  # in place, by a person
        file.write(b"x")
    assert junk.stat().st_ino == inode
    assert workspace("a", "echo over > junk").state == "landed"
    assert workspace("a", "rm data").state == "crowded"


def test_editing_files_first_makes_them_nobodys_to_empty(workspace: Workspace) -> None:
    made = "for n in $(seq 9); do seq 1 40 > own$n; seq $n 90 > theirs$n; done"
    subprocess.run(["bash", "-c", made.replace("own", "wip")], cwd=workspace.root, check=True)
    assert workspace("a", made.replace("theirs", "own1")).state == "landed"
    edits = (
        "for f in theirs* own*; do echo more >> $f; done; for f in wip*; do cp $f t$f; "
        "echo more >> t$f; ln -f t$f $f; done"
    )
    assert workspace("a", edits).state == "landed"
    assert workspace("a", "touch -d @5 theirs* own* wip*").state == "landed"
    with Overlay() as fresh:
        fresh.close()
        fresh.lower = Path(workspace.root)
        fresh.open()
        fresh.call("for f in theirs* own* wip*; do : > $f; done")
        walked = fresh.walk()
        note_replaced(walked, workspace.root, "a")
        became = {one["path"] for one in walked.changes if one.get("replaced") == "emptied"}
    assert became == {f"{name}{n}" for name in ("theirs", "wip") for n in range(1, 10)}


# -- content that goes away where files stay

TEXT = "".join(f"def function_{n}(value):\n    return value + {n} * other\n\n" for n in range(40))
KEPT = {
    "a formatter breaks lines": TEXT.replace("(", "(\n        ").replace(" + ", "\n        + "),
    "minified": TEXT.replace("\n", " ").replace("    ", ""),
    "other quotes, indents and ends": TEXT.replace("    ", "\t").replace("\n", ";\r\n"),
    "sed -i over a name in every line": TEXT.replace("value", "item"),
    "upper case": TEXT.upper(),
    "sorted": "".join(sorted(TEXT.splitlines(keepends=True))),
    "a third of it": TEXT[: len(TEXT) // 3],
}
REPLACED = {
    "another text": "".join(f"Lorem ipsum dolor {n} sit amet, consectetur.\n" for n in range(90)),
    "one word for all": "wiped\n" * 200,
    "noise": os.urandom(3000).hex(),
    "a few words of it": "def return value other\n",
}


@pytest.mark.parametrize("after", KEPT.values(), ids=KEPT)
def test_enough_is_kept(after: str) -> None:
    assert is_kept(TEXT.encode(), after.encode())


@pytest.mark.parametrize("after", REPLACED.values(), ids=REPLACED)
def test_next_to_nothing_is_kept(after: str) -> None:
    assert not is_kept(TEXT.encode(), after.encode())


def test_binary_content_is_told_by_pieces() -> None:
    noise = os.urandom(4000).replace(b"a", b"\0")
    assert is_kept(noise, noise[:2000] + os.urandom(10))
    assert not is_kept(b"\xff\xfe\0\1" * 500, b"\xfd\xfc" * 500)


DECISION = Decision(
    verdict=Verdict.REPORT,
    tier=Tier.CAUTION,
    rights=Rights(workspace=Access.WRITE),
    layers=(),
    message="",
)


def outcome(count: int, *, named: tuple[str, ...] = (), **fields: object) -> Outcome:
    changes = [
        Change(f"src/{n}.py", Kind.MODIFIED, FileType.FILE, **{"replaced": "emptied", **fields})  # type: ignore[arg-type]
        for n in range(count)
    ]
    decision = DECISION.model_copy(update={"named_deletions": named})
    return judge(decision, changes, PathPolicy.default(), workspace="/w").outcome


def test_many_are_held_as_deletions_are() -> None:
    most = PathPolicy.default().limits.replaced_files
    assert outcome(most) is Outcome.LAND
    assert outcome(most + 1) is Outcome.HOLD
    assert outcome(most + 1, named=("src",)) is Outcome.LAND
    assert outcome(most + 1, ignored=True) is Outcome.LAND
    assert outcome(most + 1, replaced="") is Outcome.LAND


def test_in_a_cell(make_lab: MakeLab) -> None:
    lab = make_lab(settings=Settings(undo_mib=1))
    names = [f"src/m{n}.py" for n in range(14)]
    for name in names:
        (lab.ws / name).write_text(TEXT)
    script = "import pathlib; [p.write_text(T) for p in pathlib.Path('src').glob('m*.py')]"
    wipe = f'python3 -c "{script.replace("T)", "str())")}"'
    wiped = lab.sh(wipe)
    assert wiped.judgement == "hold"
    assert "emptied" in wiped.message
    sed = lab.sh("sed -i s/value/item/ src/m*.py")  # the same files, as a formatter does
    assert sed.landed
    assert lab.sh(wipe).judgement == "hold"  # they are no more its own for that
    assert lab.sh("for f in src/m*.py; do echo mine > $f; done", agent="other").judgement == "hold"
    mine = "for n in $(seq 14); do echo $1 > own$n; done"
    assert lab.sh(mine.replace("$1", "one")).landed
    assert lab.sh(mine.replace("$1", "another")).landed  # nobody else's
    (lab.ws / "big").write_bytes(os.urandom(900_000))
    first = lab.sh("echo gone > README.md; echo gone > big")
    assert first.landed
    for _ in range(3):
        assert lab.sh("head -c 900000 /dev/urandom > junk").landed
    (lab.ws / "second").write_bytes(os.urandom(900_000))
    held = lab.sh("rm second", derived_from="deletes")
    assert held.judgement == "hold"
    assert "would drive out the last before-image of `src/m0.py`" in held.message
    landed = lab.run(lab.supervisor.land(held.id))  # a person's word, and they hear what went
    assert f"no longer undoable: `{sed.id}`, `{first.id}`" in landed.message
    (lab.ws / "build").mkdir()
    (lab.ws / "build" / "out").write_bytes(os.urandom(1_100_000))
    built = lab.sh("echo rebuilt > build/out")  # a person's rules say that it can be made anew
    assert built.landed, built
    assert f"no longer undoable, since `undo_mib` is reached: `{built.id}`" in built.message
