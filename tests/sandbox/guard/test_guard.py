# SPDX-License-Identifier: Apache-2.0
"""The guard on real files: what it notices between two looks, tells once, and puts back."""

from __future__ import annotations

import hashlib
import os
import stat
import threading
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from policy.protected.path_rules import GovernanceRule
from policy.protected.paths import PathPolicy
from sandbox.audit.events.reading import record_of
from sandbox.audit.store import Store
from sandbox.errors import BadInput
from sandbox.guard.guard import Guard, GuardSettings, Tampering
from sandbox.host.dirs import Dirs
from tests.fakes import lines_of

HOOK = ".git/hooks/pre-commit"


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class Guarded:
    """A workspace with a few protected files, and what a guard of it says."""

    def __init__(self, folder: Path) -> None:
        self.dirs = Dirs.under(folder / "lockgate")
        self.top = folder / "workspace"
        self.top.mkdir()
        self.store = Store(self.dirs)
        self.said: list[str] = []
        self.told: list[Tampering] = []
        self.calls = 0
        for path in (".envrc", HOOK, "sub/.devkit-waiver.yml", "src/app.py"):
            self.write(path, "old")

    def write(self, path: str, text: str) -> Path:
        file = self.top / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def guard(self, **settings: Any) -> Guard:
        return Guard(
            self.dirs,
            workspaces=[str(self.top)],
            settings=GuardSettings(**settings),
            say=self.said.append,
            tell=self.told.append,
        )

    def look(self, **settings: Any) -> list[tuple[str, str]]:
        """Look once; return (path, kind) of what no landing made."""
        return [(one.path, one.kind) for one in self.guard(**settings).look()]

    def landed(self, *changes: dict[str, Any], **fields: Any) -> str:
        """Record a call that landed changes just now."""
        self.calls += 1
        call = f"c{self.calls}"
        self.store.append(
            record_of({"event": "decided", "call": call, "workspace": str(self.top), "also": []}),
            durable=False,
        )
        ended = {"event": "ended", "call": call, "judgement": "land", "landed": True, "ms": 100.0}
        self.store.append(record_of({**ended, "changes": changes, **fields}), durable=False)
        return call

    def events(self) -> list[dict[str, Any]]:
        return [one for one in lines_of(self.store) if one["event"] == "tampered"][::-1]


@pytest.fixture
def guarded(tmp_path: Path) -> Guarded:
    return Guarded(tmp_path)


def change(path: str, kind: str = "modified", **more: Any) -> dict[str, Any]:
    return {"path": path, "kind": kind, "type": "file", **more}


def wait_for(condition: Callable[[], object], what: str, seconds: float = 120.0) -> None:
    waiting = threading.Event()
    for _ in range(int(seconds / 0.01)):
        if condition():
            return
        waiting.wait(0.01)
    raise AssertionError(f"{what}: not within {seconds} s")


@contextmanager
def running(guarded: Guarded, **settings: Any) -> Any:
    guard = guarded.guard(**settings)
    stopping = threading.Event()
    thread = threading.Thread(target=guard.run, args=(stopping,))
    thread.start()
    try:
        wait_for(guard.ready.is_set, "ready")
        yield guard
    finally:
        stopping.set()
        thread.join(120)
        assert not thread.is_alive()


def _relink(top: Path) -> None:
    (top / ".envrc").unlink()
    (top / ".envrc").symlink_to("/etc/passwd")


def _to_folder(top: Path) -> None:
    (top / ".envrc").unlink()
    (top / ".envrc").mkdir()


def _to_fifo(top: Path) -> None:
    (top / ".envrc").unlink()
    os.mkfifo(top / ".envrc")


def _ancestor_link(top: Path) -> None:
    (top / ".git/hooks").rename(top / "elsewhere")
    (top / ".git/hooks").symlink_to("../elsewhere")


def _unseen(top: Path) -> None:
    file = top / ".envrc"
    times = file.stat()
    file.write_text("new")  # as long as before
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


def _write(file: Path) -> None:
    file.parent.mkdir(parents=True)
    file.write_text("x")


NOTICED: dict[str, tuple[Callable[[Path], object], list[tuple[str, str]]]] = {
    "other content": (lambda top: (top / ".envrc").write_text("evil"), [(".envrc", "modified")]),
    "other content of the same size and time": (_unseen, [(".envrc", "modified")]),
    "a new file": (
        lambda top: (top / ".git/hooks/post-merge").write_text("x"),
        [(".git/hooks/post-merge", "created")],
    ),
    "a new file deep below": (
        lambda top: (top / "src/.mcp.json").write_text("x"),
        [("src/.mcp.json", "created")],
    ),
    "a deleted file": (lambda top: (top / HOOK).unlink(), [(HOOK, "deleted")]),
    "another mode": (lambda top: (top / HOOK).chmod(0o777), [(HOOK, "mode")]),
    "another mode of a folder": (
        lambda top: (top / ".git/hooks").chmod(0o777),
        [(".git/hooks", "mode")],
    ),
    "a hard link": (lambda top: os.link(top / ".envrc", top / "x"), [(".envrc", "linked")]),
    "a link in its place": (_relink, [(".envrc", "replaced")]),
    "a folder in its place": (_to_folder, [(".envrc", "replaced")]),
    "a pipe in its place": (_to_fifo, [(".envrc", "replaced")]),
    "a link in place of a folder above": (
        _ancestor_link,
        [(".git/hooks", "replaced"), (HOOK, "deleted")],
    ),
    "a folder above renamed": (
        lambda top: (top / "sub").rename(top / "bus"),
        [("bus/.devkit-waiver.yml", "created"), ("sub/.devkit-waiver.yml", "deleted")],
    ),
    "a link where a folder would hold protected files": (
        lambda top: (top / ".vscode").symlink_to("/tmp"),
        [(".vscode", "created")],
    ),
    "a key of git's settings": (
        lambda top: (top / ".git/config").write_text("[core]\n\thooksPath = /tmp\n"),
        [(".git/config", "created")],
    ),
    "a name that is not UTF-8": (
        lambda top: (top / os.fsdecode(b".aider\xff")).write_text("x"),
        [(".aider\\xff", "created")],
    ),
    "a policy in the folder of records": (
        lambda top: _write(top / ".lockgate/policy.yaml"),
        [(".lockgate/policy.yaml", "created")],
    ),
}


@pytest.mark.parametrize("restore", [False, True])
@pytest.mark.parametrize("act, wanted", NOTICED.values(), ids=NOTICED)
def test_noticed_told_once_and_put_back(
    guarded: Guarded,
    act: Callable[[Path], object],
    wanted: list[tuple[str, str]],
    restore: bool,
) -> None:
    before = _tree(guarded.top)
    assert guarded.look(restore=restore) == []
    act(guarded.top)
    assert guarded.look(restore=restore) == wanted
    events = guarded.events()
    assert [(one["path"], one["kind"], one["restored"]) for one in events] == [
        (path, kind, restore) for path, kind in wanted
    ]
    assert guarded.look(restore=restore) == []
    assert guarded.said == []
    if restore:
        after = _tree(guarded.top)
        assert {path: after.get(path) for path in before} == before
        assert not any(path in after for path, kind in wanted if kind == "created")
    assert guarded.store.verify() is None


def _tree(top: Path) -> dict[str, tuple[int, str]]:
    return {
        str(path.relative_to(top)): (
            stat.S_IMODE(path.lstat().st_mode),
            path.read_text() if path.is_file() else "",
        )
        for path in top.rglob("*")
        if "elsewhere" not in path.parts and path.name != "sub"
    }


HARMLESS: dict[str, Callable[[Path], object]] = {
    "the same content anew": lambda top: (
        (top / "x").write_text("old"),
        (top / "x").rename(top / ".envrc"),
    ),
    "another time": lambda top: os.utime(top / ".envrc", (1, 1)),
    "an ordinary file": lambda top: (top / "src/app.py").write_text("new"),
    "an empty folder that rules name": lambda top: (top / ".github/workflows").mkdir(parents=True),
    "an ordinary key of git's settings": lambda top: (top / ".git/config").write_text(
        "[user]\n\tname = A\n"
    ),
    "what landings write": lambda top: _write(top / ".lockgate/undo/c1/journal"),
    "what is kept of agents' own edits": lambda top: _write(top / ".lockgate/edits/c1/o0"),
    "a sample": lambda top: (top / ".git/hooks/x.sample").write_text("x"),
}


@pytest.mark.parametrize("act", HARMLESS.values(), ids=HARMLESS)
def test_harmless(guarded: Guarded, act: Callable[[Path], object]) -> None:
    guarded.look()
    act(guarded.top)
    assert guarded.look() == []
    guarded.write(".envrc", "evil")  # the control
    assert guarded.look() == [(".envrc", "modified")]


def test_the_event_says_what_was_and_what_is_and_nothing_is_lost(guarded: Guarded) -> None:
    guarded.look(restore=True)
    guarded.write(".envrc", "evil")
    (one,) = guarded.guard(restore=True).look()
    event = guarded.events()[0]
    assert event == {**one.record().as_json(), "ts": event["ts"]}
    assert (event["before"], event["after"]) == (sha("old"), sha("evil"))
    assert event["workspace"] == str(guarded.top)
    assert Path(event["kept"]).read_text() == "evil"
    folder = guarded.dirs.state / "guard"
    assert all(
        stat.S_IMODE(path.lstat().st_mode) & 0o077 == 0
        for path in folder.rglob("*")
        if "tampered" not in path.parts
    )


def test_what_was_known_is_kept_where_it_is_not_restored(guarded: Guarded) -> None:
    guarded.look()
    guarded.write(".envrc", "evil")
    guarded.look()
    kept = next((guarded.dirs.state / "guard").rglob(f"tampered/{sha('old')}"))
    assert kept.read_text() == "old"


def test_ignored_patterns_leave_out_obeyed_files_only(guarded: Guarded) -> None:
    ignore = (".envrc", ".devkit-waiver*")
    guarded.look(ignore=ignore)
    guarded.write(".envrc", "new")
    guarded.write("sub/.devkit-waiver.yml", "new")
    assert guarded.look(ignore=ignore) == [("sub/.devkit-waiver.yml", "modified")]


def test_what_one_workspace_protects_is_no_business_of_another(tmp_path: Path) -> None:
    mine = GovernanceRule(id="licence", name="The licence", paths=("/LICENSE",), allowed_path="x")
    default = PathPolicy.default()
    strict = default.model_copy(update={"governance": (*default.governance, mine)})
    dirs = Dirs.under(tmp_path / "l").create()
    roots = [tmp_path / "a", tmp_path / "b"]
    for root in roots:
        root.mkdir()
        (root / "LICENSE").write_text("old")
    told: list[Tampering] = []

    def guard() -> Guard:
        return Guard(
            dirs,
            workspaces=[str(root) for root in roots],
            paths=lambda root: strict if root == str(roots[0]) else default,
            tell=told.append,
        )

    guard().look()
    for root in roots:
        (root / "LICENSE").write_text("new")
    guard().look()
    assert [(one.workspace, one.path, one.rule) for one in told] == [
        (str(roots[0]), "LICENSE", "licence")
    ]


def test_a_workspace_whose_policy_is_wrong_is_named_and_the_others_are_guarded(
    tmp_path: Path,
) -> None:
    dirs = Dirs.under(tmp_path / "l").create()
    roots = [tmp_path / "a", tmp_path / "b"]
    for root in roots:
        root.mkdir()
        (root / ".envrc").write_text("old")

    def paths(root: str) -> PathPolicy:
        if root == str(roots[0]):
            raise BadInput("policy.yaml:3: it is wrong")
        return PathPolicy.default()

    guard = Guard(dirs, workspaces=[str(root) for root in roots], paths=paths)
    guard.look()
    assert len(guard.failed) == 1
    assert "policy.yaml:3: it is wrong" in guard.failed[0]
    for root in roots:
        (root / ".envrc").write_text("new")
    assert [one.workspace for one in guard.look()] == [str(roots[1])]
