# SPDX-License-Identifier: Apache-2.0
"""`lockgate verify` on real repositories and real logs: what counts as approved, what is said."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from sandbox.audit.events.reading import record_of
from sandbox.audit.store import Store
from sandbox.cli.admin.verify import lines
from sandbox.errors import BadInput, Unavailable
from sandbox.guard.landings import Landings
from sandbox.guard.verify import Log, Report, verify
from sandbox.guard.vouch import to_vouch
from sandbox.host.dirs import Dirs
from tests.sandbox.shells import Shell

WORKFLOW = ".github/workflows/ci.yml"
GIT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    **{f"GIT_{who}_NAME": "A" for who in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{who}_EMAIL": "a@example.org" for who in ("AUTHOR", "COMMITTER")},
    "PATH": os.environ["PATH"],
}


def git(top: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(top), *words], env=GIT, capture_output=True, check=True, text=True
    )
    return done.stdout.strip()


class Project:
    """A repository with a branch, and the record of a Lockgate that works in it."""

    def __init__(self, place: Path) -> None:
        self.dirs = Dirs.under(place / "lockgate")
        self.top = place / "project"
        self.top.mkdir()
        git(self.top, "init", "-q", "-b", "main")
        self.write("README.md", "one")
        self.commit("first")
        git(self.top, "checkout", "-q", "-b", "work")
        self.store = Store(self.dirs)
        self.calls = 0
        self.record("decided", call="c0", workspace=str(self.top), also=[])

    def write(self, path: str, text: str) -> str:
        file = self.top / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return hashlib.sha256(text.encode()).hexdigest()

    def commit(self, message: str = "more") -> str:
        git(self.top, "add", "-A", "-f")
        git(self.top, "commit", "-q", "-m", message)
        return git(self.top, "rev-parse", "HEAD")

    def record(self, event: str, **fields: Any) -> None:
        self.store.append(record_of({"event": event, **fields}), durable=False)

    def landed(
        self,
        *changes: dict[str, Any],
        answered: bool | None = None,
        held: bool = False,
        by_person: bool = False,
        workspace: str | None = None,
    ) -> str:
        """Record a call that landed changes; return its id."""
        self.calls += 1
        call = f"c{self.calls}"
        self.record("decided", call=call, workspace=workspace or str(self.top), also=[])
        if answered is not None:
            self.record("answered", call=call, approved=answered, approved_by="alice")
        judgement = "hold" if held else "land"
        self.record(
            "ended", call=call, judgement=judgement, landed=not held, changes=changes, ms=1.0
        )
        if by_person:
            self.record("landed", call=call, landed=True, judgement="land")
        return call

    def undone(self, call: str, undone: str, *changes: dict[str, Any]) -> None:
        """Record that `call` took back `undone`."""
        fields = {"call": call, "undone": undone, "workspace": str(self.top), "also": []}
        self.record("undone", landed=True, changes=changes, **fields)

    def verify(self, **options: Any) -> Report:
        return verify(self.top, log=Log(self.store.log, own=True), **options)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def change(path: str, kind: str = "created", **more: Any) -> dict[str, Any]:
    return {"path": path, "kind": kind, "type": "file", **more}


def test_what_a_person_approved_is_fine(project: Project) -> None:
    digest = project.write(WORKFLOW, "on: push")
    project.commit()
    call = project.landed(change(WORKFLOW, sha256=digest), answered=True)
    report = project.verify()
    assert report.approved
    (one,) = report.paths
    assert (one.path, one.rule, one.change) == (WORKFLOW, "ci-workflows", "created")
    assert (one.by, one.call, one.content) == ("alice", call, "equal")


def test_what_a_person_landed_from_hold_is_fine(project: Project) -> None:
    project.write(WORKFLOW, "on: push")
    project.commit()
    project.landed(change(WORKFLOW), held=True, by_person=True)
    (one,) = project.verify().paths
    assert (one.approved, one.by, one.content) == (True, "a person", "not recorded")


NOT_APPROVED = {
    "no record": ({}, "no landing of it is recorded"),
    "nobody was asked": ({"answered": None}, "call c1 landed it, and no person approved that"),
    "a no": ({"answered": False}, "call c1 landed it, and no person approved that"),
    "held and not landed": ({"held": True}, "no landing of it is recorded"),
    "another workspace": (
        {"answered": True, "workspace": "/srv/other"},
        "no landing of it is recorded",
    ),
}


@pytest.mark.parametrize("options, reason", NOT_APPROVED.values(), ids=NOT_APPROVED)
def test_what_no_person_approved_is_missing(
    project: Project, options: dict[str, Any], reason: str
) -> None:
    project.write(".envrc", "x")
    project.commit()
    if options:
        project.landed(change(".envrc"), **options)
    report = project.verify()
    assert not report.approved
    assert [(one.approved, one.reason) for one in report.paths] == [(False, reason)]
    project.landed(change(".envrc"), answered=True)  # the control: approved, it passes
    assert project.verify().approved


def test_an_approval_of_other_content_does_not_count(project: Project) -> None:
    project.write(".envrc", "evil")
    project.commit()
    good = hashlib.sha256(b"good").hexdigest()
    call = project.landed(change(".envrc", sha256=good), answered=True)
    (one,) = project.verify().paths
    assert one.reason == f"alice approved call {call}, but not this content"
    project.write(".envrc", "good")
    project.commit()
    assert project.verify().approved


def test_a_landing_without_approval_ends_an_older_one(project: Project) -> None:
    project.write(".envrc", "x")
    project.commit()
    project.landed(change(".envrc"), answered=True)
    assert project.verify().approved
    later = project.landed(change(".envrc", "modified"))
    assert not project.verify().approved
    project.undone("u1", later, change(".envrc", "modified"))
    assert project.verify().approved


def test_an_undo_is_no_approval_and_takes_one_back(project: Project) -> None:
    project.write(".envrc", "x")
    project.commit()
    call = project.landed(change(".envrc"), answered=True)
    project.undone("u1", call, change(".envrc", "deleted"))
    assert not project.verify().approved
    project.undone("u2", "u1", change(".envrc"))
    assert project.verify().approved


def test_a_change_around_lockgate_ends_an_approval(project: Project) -> None:
    project.write(".envrc", "x")
    project.commit()
    project.landed(change(".envrc"), answered=True)
    tampered = {"workspace": str(project.top), "path": ".envrc", "after": "0" * 64}
    project.record("tampered", restored=True, **tampered)
    assert project.verify().approved
    project.record("tampered", restored=False, **tampered)
    (one,) = project.verify().paths
    assert one.reason.startswith("it was changed around Lockgate at 20")


def commit_a_deletion(project: Project) -> None:
    """Have a protected file on `main` that goes on `work`."""
    git(project.top, "checkout", "-q", "main")
    project.write("Jenkinsfile", "x")
    project.commit()
    git(project.top, "checkout", "-q", "-B", "work")
    git(project.top, "rm", "-q", "Jenkinsfile")
    project.commit()


def test_a_deletion_needs_an_approved_deletion(project: Project) -> None:
    commit_a_deletion(project)
    project.landed(change("Jenkinsfile", "modified"), answered=True)
    (one,) = project.verify().paths
    assert (one.change, one.approved) == ("deleted", False)
    project.landed(change("Jenkinsfile", "deleted"), answered=True)
    assert project.verify().approved


def test_a_rename_is_a_deletion_and_a_creation(project: Project) -> None:
    git(project.top, "checkout", "-q", "main")
    project.write("a/.envrc", "x" * 200)
    project.commit()
    git(project.top, "checkout", "-q", "-B", "work")
    git(project.top, "mv", "a", "b")
    project.commit()
    assert [(o.path, o.change) for o in project.verify().paths] == [
        ("a/.envrc", "deleted"),
        ("b/.envrc", "created"),
    ]
    project.landed(change("b/.envrc", "renamed", source="a/.envrc"), answered=True)
    assert project.verify().approved


COUNTS = {
    "a governance file in a folder": ("sub/.DevKit-Waiver.yml", True),
    "a record of landings": (".lockgate/undo/c1/journal", True),
    "an ordinary file": ("src/app.py", False),
    "a name that is not UTF-8": (".claude/\udcff", True),
    "a name with a newline": (".claude/a\nb", True),
    "a sample": ("a.git/hooks/x.sample", False),
}


@pytest.mark.parametrize("path, counts", COUNTS.values(), ids=COUNTS)
def test_which_paths_count(project: Project, path: str, counts: bool) -> None:
    project.write(path, "x")
    project.commit()
    assert bool(project.verify().paths) == counts


def test_a_link_in_place_of_a_folder_counts(project: Project) -> None:
    (project.top / ".vscode").symlink_to("elsewhere")
    project.commit()
    (one,) = project.verify().paths
    assert (one.path, one.rule) == (".vscode", "editor-tasks")


def test_gitmodules_counts_where_git_would_obey_it(project: Project) -> None:
    project.write(".gitmodules", '[submodule "a"]\n\tpath = a\n')
    project.commit()
    assert project.verify().paths == ()
    project.write(".gitmodules", '[submodule "a"]\n\tpath = a\n\turl = ../a\n')
    project.commit()
    assert [one.rule for one in project.verify().paths] == ["git-settings"]


def test_the_work_tree_is_looked_at_when_asked(project: Project) -> None:
    project.write("README.md", "two")
    project.commit()
    digest = project.write(".envrc", "x")
    assert project.verify().paths == ()
    (one,) = project.verify(worktree=True).paths
    assert (one.where, one.change, one.approved) == ("work tree", "created", False)
    project.landed(change(".envrc", sha256=digest), answered=True)
    assert project.verify(worktree=True).approved
    project.write(".envrc", "other")
    assert not project.verify(worktree=True).approved


def test_a_broken_log_fails_even_if_all_is_approved(project: Project) -> None:
    project.write(".envrc", "x")
    project.commit()
    project.landed(change(".envrc"), answered=True)
    assert project.verify().approved
    whole = project.store.log.read_bytes()
    project.store.log.write_bytes(whole.replace(b"alice", b"mallory"))
    report = project.verify()
    assert (report.approved, report.chain) == (False, "line 4 does not follow line 3")
    project.store.log.write_bytes(whole.rsplit(b"\n", 2)[0] + b"\n")
    assert project.verify().chain == "the log ends at line 3, but 4 lines were written"
    project.store.log.write_bytes(whole)
    project.store.head.unlink()
    assert project.verify().chain == "the kept head of the log is gone"


def test_a_log_from_elsewhere_names_its_workspace(project: Project, tmp_path: Path) -> None:
    project.write(".envrc", "x")
    project.commit()
    project.landed(change(".envrc"), answered=True)
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "-b", "work", str(project.top), str(clone))
    git(clone, "fetch", "-q", "origin", "main:main")
    git(clone, "remote", "set-head", "origin", "main")
    log = Log(project.store.log)
    assert verify(clone, log=log).approved  # one workspace: it must be this
    project.landed(change("x"), workspace="/srv/other")
    with pytest.raises(Unavailable, match="the log tells of 2 workspaces; name this one with"):
        verify(clone, log=log)
    assert verify(clone, log=log, workspace=str(project.top)).approved
    assert not verify(clone, log=log, workspace="/srv/other").approved
    with pytest.raises(Unavailable, match="the log knows no workspace `/srv/x`; it knows"):
        verify(clone, log=log, workspace="/srv/x")


def test_a_workspace_may_be_a_folder_of_the_repository(project: Project) -> None:
    project.write("sub/.envrc", "x")
    project.commit()
    project.landed(change(".envrc"), answered=True, workspace=str(project.top / "sub"))
    assert project.verify().approved


def test_the_base_is_where_the_default_branch_is_left(project: Project) -> None:
    left = git(project.top, "rev-parse", "main")
    project.write("a", "1")
    project.commit()
    git(project.top, "checkout", "-q", "main")
    project.write(".envrc", "of others")
    project.commit()
    git(project.top, "checkout", "-q", "work")
    report = project.verify()
    assert (report.base, report.branch, report.paths) == (left, "main", ())


CANNOT = {
    "no default branch": (["branch", "-m", "main", "trunk"], {}, "no default branch: looked for"),
    "an unknown revision": ([], {"base": "nosuch"}, "`nosuch` is no revision of"),
    "an option as a revision": ([], {"base": "--all"}, "`--all` is no revision of"),
    "no tip": ([], {"tip": "HEAD^{tree}"}, "is no revision of"),
}


@pytest.mark.parametrize("words, options, message", CANNOT.values(), ids=CANNOT)
def test_what_cannot_be_checked_is_said(
    project: Project, words: list[str], options: dict[str, str], message: str
) -> None:
    project.write("a", "1")
    project.commit()
    assert project.verify().approved  # the control
    if words:
        git(project.top, *words)
    with pytest.raises(Unavailable, match=message.replace("^", r"\^")):
        project.verify(**options)


def test_nothing_that_the_repository_holds_is_run(project: Project, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    script = tmp_path / "script"
    script.write_text(f"#!/bin/sh\necho $0 >> {ran}\ncat\n")
    script.chmod(0o755)
    settings = ("core.fsmonitor", "diff.external", "diff.x.textconv", "diff.x.command")
    for key in (*settings, "filter.x.clean", "core.pager", "core.sshCommand"):
        git(project.top, "config", key, str(script))
    project.write(".gitattributes", "* diff=x filter=x\n")
    git(project.top, "-c", "filter.x.clean=cat", "-c", "core.fsmonitor=false", "add", "-A")
    git(project.top, "-c", "filter.x.clean=cat", "-c", "core.fsmonitor=false", "commit", "-qm", "x")
    project.write(".envrc", "x")
    ran.unlink(missing_ok=True)
    assert [one.path for one in project.verify(worktree=True).paths] == [".envrc"]
    assert not ran.exists()
    subprocess.run(["git", "-C", str(project.top), "status"], env=GIT, capture_output=True)
    assert ran.exists()  # the control: git's own way of looking runs it


def test_a_replaced_object_hides_nothing(project: Project) -> None:
    base = git(project.top, "rev-parse", "HEAD")
    project.write(".envrc", "evil")
    tip = project.commit()
    git(
        project.top,
        "replace",
        git(project.top, "rev-parse", f"{tip}^{{tree}}"),
        git(project.top, "rev-parse", f"{base}^{{tree}}"),
    )
    assert git(project.top, "diff", "--name-only", base, tip) == ""  # the control: git is deceived
    assert [one.path for one in project.verify().paths] == [".envrc"]


# The command


@pytest.fixture
def inside() -> Iterator[tuple[Shell, Project]]:
    with TemporaryDirectory(prefix="lg-") as folder:
        shell = Shell(Path(folder))
        project = Project(Path(folder))
        project.dirs = shell.dirs
        project.store = Store(shell.dirs)
        project.record("decided", call="c0", workspace=str(project.top), also=[])
        yield shell, project


def test_the_report_reads_well(inside: tuple[Shell, Project]) -> None:
    shell, project = inside
    digest = project.write(WORKFLOW, "on: push")
    project.write(".envrc", "x")
    tip = project.commit()[:12]
    project.landed(change(WORKFLOW, sha256=digest), answered=True)
    status, out, err = shell("verify", str(project.top))
    when = json.loads(project.store.log.read_text().split("\n")[3])["ts"][:19].replace("T", " ")
    assert (status, err) == (1, "")
    assert out.split("\n") == [
        "MISSING  .envrc  (created; shell-environment): no landing of it is recorded",
        f"ok       {WORKFLOW}  (created; ci-workflows): approved by alice, {when}, call c1",
        f"lockgate verify: 1 of 2 changes of protected paths between main and {tip} not approved",
        "",
    ]
    project.landed(change(".envrc"), held=True, by_person=True)
    status, out, _ = shell("verify", str(project.top))
    assert status == 0
    assert out.split("\n")[0].endswith("; its content is not recorded")
    assert out.split("\n")[2].endswith(
        f"2 changes of protected paths between main and {tip}, approved"
    )


def test_json_is_the_whole_report(inside: tuple[Shell, Project]) -> None:
    shell, project = inside
    project.write(".envrc", "x")
    project.commit()
    project.landed(change("a"))
    status, out, _ = shell("verify", "--json", "--base", "main", str(project.top))
    found = json.loads(out)
    assert (status, found["approved"], found["chain"]) == (1, False, None)
    assert [one["path"] for one in found["paths"]] == [".envrc"]


def test_a_log_can_be_a_file(inside: tuple[Shell, Project], tmp_path: Path) -> None:
    shell, project = inside
    project.write(".envrc", "x")
    project.commit()
    project.landed(change(".envrc"), answered=True)
    log = tmp_path / "artifact.jsonl"
    log.write_bytes(project.store.log.read_bytes())
    status, out, _ = shell("verify", "--log", str(log), str(project.top))
    assert status == 0
    assert f"note     {log}: no head was kept of it, so a cut end does not show\n" in out
    log.with_suffix(".head").write_bytes(project.store.head.read_bytes())
    status, out, _ = shell("verify", "--log", str(log), str(project.top))
    assert (status, "note" in out) == (0, False)
    log.write_bytes(b"nonsense\n")
    status, out, _ = shell("verify", "--log", str(log), str(project.top))
    assert status == 1
    assert f"BROKEN   {log}: line 1 is not a record\n" in out


CANNOT_RUN = {
    "no folder": (["/nowhere"], "lockgate: `/nowhere` is not a folder\n"),
    "no repository": (["/"], "lockgate: `/` is in no git repository with a work tree\n"),
    "no log": (
        ["--log", "/nowhere", "TOP"],
        "lockgate: no audit log: `/nowhere`: no such file or directory\n",
    ),
    "no head": (
        ["--log", "LOG", "--head", "/nowhere", "TOP"],
        "lockgate: no head of the log: `/nowhere`\n",
    ),
    "a log that is a folder": (
        ["--log", "/", "TOP"],
        "lockgate: no audit log: `/`: is a directory\n",
    ),
}


@pytest.mark.parametrize("words, err", CANNOT_RUN.values(), ids=CANNOT_RUN)
def test_what_cannot_be_checked_is_status_125(
    inside: tuple[Shell, Project], words: list[str], err: str
) -> None:
    shell, project = inside
    project.write("a", "1")
    project.commit()
    project.landed(change("a"))
    known = {"TOP": str(project.top), "LOG": str(project.store.log)}
    assert shell("verify", *[known.get(word, word) for word in words]) == (125, "", err)


def vouch(project: Project, *names: str, **options: Any) -> None:
    """Record that a person vouches for paths, as `lockgate vouch` does."""
    top, changes = to_vouch(project.top, names, **options)
    rows = [one.as_record() for one in changes]
    project.record("vouched", workspace=top, changes=rows, by="alice")


def test_a_branch_level_with_its_base_is_nothing_to_check(project: Project) -> None:
    report = project.verify()
    assert (report.base, report.paths, report.approved) == (report.tip, (), True)
    assert lines(report) == [
        f"lockgate verify: nothing to check: main holds all of {report.tip[:12]} already"
    ]


def test_what_a_person_vouched_for_is_accepted_with_exactly_this_content(project: Project) -> None:
    project.write("devkit.config.json", "{}")
    project.write(".envrc", "x")
    project.commit()
    vouch(project, "devkit.config.json")
    (envrc, config) = project.verify().paths
    assert (config.approved, config.by, config.call) == (True, "alice", None)
    assert (envrc.approved, envrc.reason) == (False, "no landing of it is recorded")
    project.write("devkit.config.json", '{"a": 1}')
    project.commit()
    (_, config) = project.verify().paths
    assert (config.approved, config.reason) == (False, "alice vouched for other content than this")
    project.write("devkit.config.json", "{}")
    (project.top / "devkit.config.json").chmod(0o755)  # the mode belongs to it
    project.commit()
    assert not project.verify().paths[1].approved
    (project.top / "devkit.config.json").chmod(0o644)
    project.commit()
    assert project.verify().paths[1].approved
    project.record(
        "vouch-withdrawn", workspace=str(project.top), changes=[{"path": "devkit.config.json"}]
    )
    assert not project.verify().paths[1].approved


def test_a_deletion_and_the_work_tree_are_vouched_for_too(project: Project) -> None:
    commit_a_deletion(project)
    project.write(".envrc", "x")
    vouch(project, "Jenkinsfile")
    with pytest.raises(BadInput, match=r"`\.envrc` is no protected path that changed since"):
        vouch(project, ".envrc")
    vouch(project, ".envrc", worktree=True)
    assert [one.approved for one in project.verify(worktree=True).paths] == [True, True]
    project.write("Jenkinsfile", "x")
    project.write("Jenkinsfile", "y")
    project.commit()
    assert [one.approved for one in project.verify().paths] == [True, False]


def test_a_repository_in_which_somebody_vouched_is_no_further_workspace(
    project: Project, tmp_path: Path
) -> None:
    project.write(".envrc", "x")
    project.commit()
    vouch(project, ".envrc")
    project.record("vouched", workspace="/elsewhere", changes=[], by="alice")
    assert project.verify().approved
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(project.top), str(clone))
    report = verify(clone, log=Log(project.store.log, own=True), base="origin/main")
    assert report.approved


def test_the_guard_takes_no_vouching_for_a_landing(project: Project) -> None:
    project.write(".envrc", "x")
    project.commit()
    vouch(project, ".envrc")
    landings = Landings(project.store.log, lambda _: True)
    landings.refresh()
    assert landings.of(str(project.top), ".envrc") == []
    assert [one.path for one in landings.all_vouched()] == [".envrc"]


REFUSED = {
    "an ordinary file": ("a.txt", "`a.txt` is no protected path that changed since"),
    "a path outside": ("../x", "`../x` is no path in"),
    "a submodule": (".vscode", "`.vscode` is a submodule"),
}


@pytest.mark.parametrize("name, message", REFUSED.values(), ids=REFUSED)
def test_nobody_vouches_for_other_things(project: Project, name: str, message: str) -> None:
    project.write("a.txt", "x")
    project.write(".envrc", "x")
    head = git(project.top, "rev-parse", "HEAD")
    git(project.top, "update-index", "--add", "--cacheinfo", f"160000,{head},.vscode")
    git(project.top, "add", "a.txt", ".envrc")
    git(project.top, "commit", "-qm", "x")
    vouch(project, ".envrc")  # the control
    with pytest.raises(BadInput, match=message.replace(".", r"\.")):
        vouch(project, name)


def test_a_person_vouches_at_a_terminal(shell: Shell) -> None:
    git(shell.workspace, "init", "-q", "-b", "main")
    git(shell.workspace, "commit", "-q", "--allow-empty", "-m", "first")
    git(shell.workspace, "checkout", "-q", "-b", "work")
    (shell.workspace / ".envrc").write_text("export A=1\n")
    git(shell.workspace, "add", "-A")
    git(shell.workspace, "commit", "-qm", "second")
    shell.dirs.create()
    Store(shell.dirs).append(record_of({"event": "workspace", "path": "/x"}), durable=True)
    assert shell("verify")[0] == 1
    status, _, err = shell("vouch", ".envrc", "--yes")
    assert (status, "vouching is a person's decision" in err) == (126, True)
    status, shown = shell.at_terminal("vouch", ".envrc", typing=[(b"[yes/no]", b"no\n")])
    assert (status, "+export A=1" in shown) == (1, True)
    assert shell("verify")[0] == 1
    status, shown = shell.at_terminal("vouch", ".envrc", typing=[(b"[yes/no]", b"yes\n")])
    assert (status, "vouched for .envrc (SHA-256 " in shown) == (0, True)
    status, out, _ = shell("verify")
    assert (status, ".envrc  (created; shell-environment): vouched for by" in out) == (0, True)
    assert ".envrc" in shell("vouch")[1]
    assert shell.at_terminal("vouch", "--withdraw", ".envrc")[0] == 0
    assert shell("vouch")[1] == "nothing is vouched for\n"
    assert shell("verify")[0] == 1
    assert shell.at_terminal("vouch", "--withdraw", ".envrc")[0] == 2
