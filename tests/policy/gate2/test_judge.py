# SPDX-License-Identifier: Apache-2.0
"""Gate 2's answers, row by row, and that a further change can only tighten them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policy.gate2.judge import judge
from policy.gate2.link_targets import leaves
from policy.model import (
    Access,
    Change,
    Decision,
    FileType,
    Judgement,
    Kind,
    Limits,
    Outcome,
    Rights,
    Tier,
    Verdict,
)
from policy.protected.paths import PathPolicy

POLICY = PathPolicy.default()
ROOT = "/home/u/project"
FURTHER = "/home/u/further"
STRICTNESS = [Outcome.LAND, Outcome.HOLD, Outcome.DISCARD]


def decision(*named: str, access: Access = Access.WRITE, limits: Limits | None = None) -> Decision:
    return Decision(
        verdict=Verdict.ALLOW,
        tier=Tier.CAUTION,
        rights=Rights(workspace=access, limits=limits or Limits()),
        layers=(),
        message="",
        named_deletions=named,
    )


def created(path: str, **more: object) -> Change:
    return Change(path, Kind.CREATED, FileType.FILE, **more)  # type: ignore[arg-type]


def modified(path: str, **more: object) -> Change:
    return Change(path, Kind.MODIFIED, FileType.FILE, **more)  # type: ignore[arg-type]


def deleted(path: str, **more: object) -> Change:
    return Change(path, Kind.DELETED, FileType.FILE, **more)  # type: ignore[arg-type]


def renamed(path: str, source: str, **more: object) -> Change:
    return Change(path, Kind.RENAMED, FileType.FILE, source, **more)  # type: ignore[arg-type]


def folder(path: str, kind: Kind = Kind.CREATED, source: str | None = None) -> Change:
    return Change(path, kind, FileType.DIRECTORY, source)


def link(path: str, target: str, kind: Kind = Kind.CREATED, source: str | None = None) -> Change:
    return Change(path, kind, FileType.SYMLINK, source, target=target)


def config(after: str, before: str = "", path: str = ".git/config") -> Change:
    return modified(path, before_text=before, after_text=after)


ROWS: dict[str, tuple[list[Change], str]] = {
    # what lands
    "nothing": ([], "land"),
    "a new file": ([created("src/new.py")], "land"),
    "a changed file": ([modified("src/app.py")], "land"),
    "a changed mode": ([Change("tool.sh", Kind.META, FileType.FILE, mode=0o755)], "land"),
    "a new folder": ([folder("src/x"), created("src/x/y")], "land"),
    "an empty folder removed": ([folder("old", Kind.DELETED)], "land"),
    # governance: discarded whole
    "the waiver file is created": ([created(".devkit-waiver.yml")], "discard rule_006"),
    "the configuration is changed": ([modified("devkit.config.json")], "discard rule_006"),
    "the configuration is deleted": ([deleted("devkit.config.json")], "discard rule_006"),
    "its mode is changed": (
        [Change("devkit.config.json", Kind.META, FileType.FILE)],
        "discard rule_006",
    ),
    "it is renamed away": ([renamed("x", "devkit.config.json")], "discard rule_006"),
    "another file takes its name": ([renamed("devkit.config.json", "x")], "discard rule_006"),
    "its folder is renamed": (
        [folder("b", Kind.RENAMED, "a"), renamed("b/devkit.config.json", "a/devkit.config.json")],
        "discard rule_006",
    ),
    "a link takes its name": ([link("devkit.config.json", "x.json")], "discard rule_006"),
    "a folder takes its name": ([folder("devkit.config.json")], "discard rule_006"),
    "a copy in a second working tree": ([created("wt/devkit.config.json")], "discard rule_006"),
    "in other letters": ([created("DEVKIT.CONFIG.JSON")], "discard rule_006"),
    "as a stream": ([created("devkit.config.json::$DATA")], "discard rule_006"),
    "our records": ([created(".lockgate/undo/x", hidden=True)], "discard lockgate-records"),
    "a link in place of our records": ([link(".lockgate", "x")], "discard lockgate-records"),
    "a good change beside a bad one": (
        [created("a.py"), modified("devkit.config.json")],
        "discard rule_006",
    ),
    "a link that points at it": ([link("later.yml", ".devkit-waiver.yml")], "land"),
    "another configuration": ([modified("tsconfig.json")], "land"),
    # obeyed by the host
    "a hook is changed": ([modified(".git/hooks/pre-commit")], "hold git-hooks"),
    "a hook is made executable": (
        [Change(".git/hooks/pre-push", Kind.META, FileType.FILE, mode=0o755)],
        "hold git-hooks",
    ),
    "a hook is deleted": ([deleted(".git/hooks/pre-commit")], "hold git-hooks"),
    "a hook is renamed away": ([renamed("x", ".git/hooks/pre-commit")], "hold git-hooks"),
    "sample hooks of a new repository": (
        [
            folder("n/.git"),
            Change("n/.git/hooks", Kind.CREATED, FileType.DIRECTORY, git_new="new"),
            created("n/.git/hooks/pre-commit.sample", git_new="new"),
        ],
        "land",
    ),
    "a workflow is changed": ([modified(".github/workflows/ci.yml")], "hold ci-workflows"),
    "the workflows are renamed and others take the name": (
        [
            folder(".github/old", Kind.RENAMED, ".github/workflows"),
            renamed(".github/old/ci.yml", ".github/workflows/ci.yml", ignored=True),
            folder(".github/workflows"),
            created(".github/workflows/ci.yml"),
        ],
        "hold ci-workflows",
    ),
    "a link in place of their folder": ([link(".github", "fake")], "hold agent-configuration"),
    "a link in place of git's folder": ([link(".git", "fake")], "hold git-pointers"),
    "a link within git's folder": ([link(".git/refs/heads", "../../x")], "hold git-links"),
    "agent settings": ([created(".claude/settings.json")], "hold agent-configuration"),
    "instructions": ([modified("CLAUDE.md")], "land"),
    # git's settings
    "a harmless setting": ([config('[branch "a"]\nmerge = refs/heads/a')], "land"),
    "another name for all commits": ([config("[user]\nname = a")], "hold git-settings"),
    "a setting that runs a program": ([config("[core]\nfsmonitor = ./f.sh")], "hold git-settings"),
    "one that was there": ([config("[alias]\ns = x\n[branch]\n", "[alias]\ns = x")], "land"),
    "settings of a bare repository": (
        [config("[core]\nhooksPath = x", path="fake/config")],
        "hold git-settings",
    ),
    "another file named config": ([config("apiVersion: v1\nkind: X", path="k8s/config")], "land"),
    "settings too long to read": ([modified(".git/config")], "hold git-settings"),
    "a module's address": (
        [config('[submodule "a"]\nurl = https://h.invalid', path=".gitmodules")],
        "hold git-settings",
    ),
    "settings that move into place unread": (
        [renamed(".git/config", "fixture/config", ignored=True)],
        "hold git-settings",
    ),
    # deletions
    "a file is deleted": ([deleted("src/app.py")], "hold deletion"),
    "an ignored file is deleted": ([deleted("build/app.o", ignored=True)], "land"),
    "a file is renamed": ([renamed("b.py", "a.py")], "hold deletion"),
    "a file is replaced by a folder": ([deleted("a"), folder("a")], "hold deletion"),
    "git's own business": (
        [deleted(".git/index.lock"), deleted(".git/objects/ab/cd"), deleted(".git/refs/heads/x"),
         deleted(".git/ORIG_HEAD"), folder(".git/objects/ab", Kind.DELETED)],
        "land",
    ),
    "the whole repository is deleted": (
        [folder(".git", Kind.DELETED), deleted(".git/HEAD"), deleted(".git/config")],
        "hold repository",
    ),
    "git's objects are deleted": ([folder(".git/objects", Kind.DELETED)], "hold repository"),
    "the pointer of a working tree is deleted": ([deleted("wt/.git")], "hold deletion"),
    # links
    "a link inside": ([link("a", "src/app.py")], "land"),
    "a link up and inside": ([link("node_modules/a/x", "../x/cli.js")], "land"),
    "a link to an absolute path": ([link("a", "/etc/passwd")], "hold link-leaves"),
    "a link to the workspace's own path": ([link("a", f"{ROOT}/src")], "land"),
    "a link beside the workspace": ([link("a", f"{ROOT}-other/src")], "hold link-leaves"),
    "a link out by dots": ([link("a/b", "../../x")], "hold link-leaves"),
    "a link through another": ([link("a", "src/../../x")], "hold link-leaves"),
    "a retargeted link": ([link("a", "../x", Kind.MODIFIED)], "hold link-leaves"),
    "a deleted link": ([Change("a", Kind.DELETED, FileType.SYMLINK, ignored=True)], "land"),
    "an interpreter for a project": (
        [created(".venv/pyvenv.cfg"), link(".venv/bin/python", "/usr/bin/python3")],
        "land",
    ),
    "another interpreter": (
        [link(".venv/bin/python", "/usr/bin/python3")],
        "hold virtual-environment",
    ),
    # never landed
    "a device node": ([Change("p", Kind.CREATED, FileType.SPECIAL)], "hold special"),
    "a FIFO in place of a file": (
        [Change("p", Kind.DELETED, FileType.FILE), Change("p", Kind.CREATED, FileType.CHANNEL)],
        "hold deletion",
    ),
    "a set-user-id bit": ([created("x", mode=0o4755)], "hold set-id"),
    "a set-group-id bit of a folder": (
        [Change("x", Kind.CREATED, FileType.DIRECTORY, mode=0o2755)],
        "land",
    ),
    # secrets and conflicts
    "a hidden file": ([modified(".env", hidden=True)], "hold hidden"),
    "a conflict": ([modified("a", conflict=True)], "hold conflict"),
}  # fmt: skip


@pytest.mark.parametrize("changes, expected", ROWS.values(), ids=ROWS)
def test_rows(changes: list[Change], expected: str) -> None:
    found = judge(decision(), changes, POLICY, workspace=ROOT)
    rules = dict.fromkeys(r.rule for r in found.reasons if r.outcome is found.outcome)
    assert " ".join([found.outcome.value, *rules]) == expected


NAMED = {
    "by its name": (("a/b",), "a/b", True),
    "by its folder": (("a",), "a/b", True),
    "by a folder with a slash": (("./a/",), "a/b", True),
    "by a pattern": (("*.pyc",), "x.pyc", True),
    "a star stays in its folder": (("*.pyc",), "a/x.pyc", False),
    "two stars do not": (("a/**",), "a/b/c", True),
    "by everything": (("**",), "a/b", True),
    "by the workspace itself": ((".",), "a/b", True),
    "a longer name": (("a",), "ab", False),
    "another case": (("A",), "a", False),
    "not at all": ((), "a", False),
}


@pytest.mark.parametrize("named, path, lands", NAMED.values(), ids=NAMED)
def test_deletions_that_the_plan_names(named: tuple[str, ...], path: str, lands: bool) -> None:
    assert (judge(decision(*named), [deleted(path)], POLICY).outcome is Outcome.LAND) == lands
    moved = renamed("new", path)
    assert (judge(decision(*named), [moved], POLICY).outcome is Outcome.LAND) == lands


def test_naming_a_deletion_does_not_open_what_is_protected() -> None:
    named = decision("**")
    changes = [deleted(".devkit-waiver.yml"), deleted(".git/hooks/x"), deleted(".env", hidden=True)]
    found = [judge(named, [change], POLICY).outcome for change in changes]
    assert found == [Outcome.DISCARD, Outcome.HOLD, Outcome.HOLD]


@pytest.mark.parametrize("access", [Access.READ, Access.NONE])
def test_without_the_right_to_write_any_change_is_discarded(access: Access) -> None:
    found = judge(decision(access=access), [created("a")], POLICY)
    assert found.outcome is Outcome.DISCARD
    assert judge(decision(access=access), [], POLICY) == Judgement(Outcome.LAND)


def test_limits() -> None:
    limits = Limits(changed_files=2, changed_bytes=10)
    held = decision(limits=limits)
    assert judge(held, [created("a", size=5), created("b", size=5)], POLICY).outcome is Outcome.LAND
    many = judge(held, [created("a"), created("b"), created("c")], POLICY)
    assert [(r.rule, r.reason) for r in many.reasons] == [
        ("limit", "3 paths changed, 2 is the limit")
    ]
    large = judge(held, [created("a", size=11)], POLICY)
    assert [(r.rule, r.reason) for r in large.reasons] == [
        ("limit", "11 bytes changed, 10 is the limit")
    ]
    assert {reason.path for reason in (*many.reasons, *large.reasons)} == {""}  # of no one path
    assert many.message == (
        "held, nothing landed yet: 3 paths changed, 2 is the limit (limit); "
        "a person can land or discard it"
    )


MESSAGES = {
    "a governance file names the allowed way": (
        [modified("devkit.config.json"), created("x")],
        "discarded, nothing landed: `devkit.config.json`: it is protected by Layered Governance "
        "Constitution (rule_006); instead, open a PR with the change of devkit.config.json via "
        "gh pr create",
    ),
    "the waiver file has a way of its own": (
        [created(".devkit-waiver.yml")],
        "discarded, nothing landed: `.devkit-waiver.yml`: it is protected by Layered Governance "
        "Constitution (rule_006); instead, open a PR with the waiver entry via gh pr create",
    ),
    "many paths are counted": (
        [deleted(f"f{n}") for n in range(9)],
        "held, nothing landed yet: `f0`, `f1`, `f2` and 6 more: it existed before and is deleted "
        "without being named (deletion); a person can land or discard it",
    ),
    "names cannot redraw a terminal": (
        [deleted("a\x1b[2J`\n\udcff\u202e")],
        "held, nothing landed yet: `a\\x1b[2J\\x60\\n\\xff\\u202e`: it existed before and is "
        "deleted without being named (deletion); a person can land or discard it",
    ),
}  # fmt: skip


@pytest.mark.parametrize("changes, message", MESSAGES.values(), ids=MESSAGES)
def test_messages(changes: list[Change], message: str) -> None:
    assert judge(decision(), changes, POLICY).message == message


@pytest.mark.parametrize(
    "path, target, out",
    [
        ("a", "b", False),
        ("a", "./b/c", False),
        ("a", "..", True),
        ("d/a", "..", False),
        ("d/a", "../..", True),
        ("d/a", "../x/../y", True),
        ("a", "", False),
        ("a", "/", True),
        ("a", f"{ROOT}", False),
        ("a", f"{ROOT}/../x", True),
        ("a", f"{ROOT}//./x", False),
        ("a", f"../{ROOT.rsplit('/', 1)[-1]}/b", False),
        ("d/a", f"../../{ROOT.rsplit('/', 1)[-1]}", False),
        ("a", f"../{ROOT.rsplit('/', 1)[-1]}-other/b", True),
        ("a", f"../{ROOT.rsplit('/', 1)[-1]}/../b", True),
        ("a", "../../../../../../../../etc", True),
        ("a", "d/../b", True),
        ("a", f"{ROOT}-other/b", True),
        ("a", "../further/b", False),
        ("a", f"{FURTHER}/b", False),
        ("a", f"{FURTHER}", False),
        ("a", f"{FURTHER}-other", True),
        ("a", f"{FURTHER}/../x", True),
    ],
)
def test_where_links_lead(path: str, target: str, out: bool) -> None:
    assert leaves(path, target, ROOT, (FURTHER,)) == out


SAID = {
    "it leads out": ("../x", "it is a link to `../x`, outside of the workspace"),
    "it may lead out": (
        "src/../x",
        "it is a link to `src/../x`, which may lead out of the workspace: `..` stands after a "
        "name, which may become a link; write it without",
    ),
}


@pytest.mark.parametrize("target, because", SAID.values(), ids=SAID)
def test_what_is_said_of_a_link_that_is_held(target: str, because: str) -> None:
    (reason,) = judge(decision(), [link("a", target)], POLICY, workspace=ROOT).reasons
    assert reason.reason == because


# Properties

PATHS = st.one_of(
    st.sampled_from(
        ["a", "src/app.py", ".git/hooks/x", ".git/config", "devkit.config.json", ".git/HEAD",
         ".github", ".github/workflows/ci.yml", ".devkit-waiver.yml", ".env", "wt/.git", "d/e/f"]
    ),
    st.text(min_size=1, max_size=12),
)  # fmt: skip
CHANGES = st.builds(
    Change,
    path=PATHS,
    kind=st.sampled_from(Kind),
    type=st.sampled_from(FileType),
    source=st.none() | PATHS,
    size=st.integers(0, 10),
    mode=st.sampled_from([0o644, 0o4755]),
    target=st.none() | st.sampled_from(["a", "../a", "/etc", "x/../../y"]),
    hidden=st.booleans(),
    conflict=st.booleans(),
    ignored=st.booleans(),
    after_text=st.none() | st.sampled_from(["", "[core]\nfsmonitor = x"]),
    modified=st.booleans(),
)
DECISIONS = st.builds(
    decision,
    st.sampled_from(["a", "**", "src"]),
    access=st.sampled_from(Access),
    limits=st.just(Limits(changed_files=3, changed_bytes=15)),
)


@settings(deadline=None)  # the first judgement compiles the patterns
@given(DECISIONS, st.lists(CHANGES, max_size=4), CHANGES, st.integers(0, 4))
def test_a_further_change_never_loosens(
    plan: Decision, changes: list[Change], more: Change, at: int
) -> None:
    few = judge(plan, changes, POLICY, workspace=ROOT)
    many = judge(plan, [*changes[:at], more, *changes[at:]], POLICY, workspace=ROOT)
    assert STRICTNESS.index(many.outcome) >= STRICTNESS.index(few.outcome)


@given(DECISIONS, st.lists(CHANGES, max_size=5))
def test_the_outcome_is_that_of_the_strictest_reason(plan: Decision, changes: list[Change]) -> None:
    found = judge(plan, changes, POLICY)
    strictest = max((STRICTNESS.index(r.outcome) for r in found.reasons), default=0)
    assert found.outcome is STRICTNESS[strictest]
    left_out = any(change.type is FileType.CHANNEL for change in changes)  # told, also of a landing
    assert bool(found.message) == (found.outcome is not Outcome.LAND or left_out)
    assert "\n" not in found.message


@given(CHANGES)
def test_no_kind_of_change_touches_a_governance_file(change: Change) -> None:
    for moved in (
        replace(change, path="sub/DevKit.config.json."),
        replace(change, kind=Kind.RENAMED, source=".devkit-waiver.yml"),
    ):
        assert judge(decision("**"), [moved], POLICY).outcome is Outcome.DISCARD
