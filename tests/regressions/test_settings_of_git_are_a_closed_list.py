# SPDX-License-Identifier: Apache-2.0
"""Settings that redirect a push, switch a check off or rename a person landed, and removals did."""

from __future__ import annotations

import pytest

from policy.gate2.git.changed_settings import held_settings
from policy.gate2.judge import judge
from policy.model import Access, Change, Decision, FileType, Kind, Rights, Tier, Verdict
from policy.protected.paths import PathPolicy

POLICY = PathPolicy.default()
DECISION = Decision(
    verdict=Verdict.REPORT,
    tier=Tier.CAUTION,
    rights=Rights(workspace=Access.WRITE),
    layers=(),
    message="",
    named_deletions=("**",),
)
BEFORE = """[core]
\trepositoryformatversion = 0
\thooksPath = /etc/hooks
[remote "origin"]
\turl = https://h.invalid/o
\tfetch = +refs/heads/*:refs/remotes/origin/*
[remote "fork"]
\turl = https://h.invalid/f
[branch "main"]
\tremote = origin
\tmerge = refs/heads/main
[user]
\temail = person@h.invalid
"""
NEW_REMOTE = '[remote "up"]\nurl = https://h.invalid/u\nfetch = +refs/heads/*:refs/remotes/up/*\n'


def outcome(
    after: str,
    path: str = ".git/config",
    before: str | None = BEFORE,
    *,
    branches: tuple[str, ...] = (),
    agents: frozenset[tuple[str, str]] | None = frozenset(),
) -> str:
    """Return what gate 2 says of a change of settings; `branches` are new, in the same call."""
    kind = Kind.MODIFIED if before is not None else Kind.CREATED
    config = Change(path, kind, FileType.FILE, before_text=before, after_text=after)
    made = [
        Change(f".git/refs/heads/{name}", Kind.CREATED, FileType.FILE, git_text="1" * 40,
               git_branches_new=(name,))
        for name in branches
    ]  # fmt: skip
    said = judge(DECISION, [config, *made], POLICY, workspace="/w", agents_remotes=agents)
    return said.outcome.value


HELD = {
    "pushes elsewhere by a refspec": '[remote "origin"]\npush = :refs/heads/main',
    "a mirror": '[remote "origin"]\nmirror = true',
    "another address to push to": '[remote "origin"]\npushurl = https://evil.invalid',
    "a second address": '[remote "origin"]\nurl = https://evil.invalid',
    "an address instead of another": '[url "https://evil.invalid"]\ninsteadOf = https://h.invalid',
    "a branch to a new remote": NEW_REMOTE + '[branch "topic"]\nremote = up\n',
    "a branch to an address": '[branch "topic"]\nremote = https://evil.invalid',
    "a branch to another remote": '[branch "main"]\nremote = fork',
    "a branch pushed elsewhere": '[branch "topic"]\npushRemote = fork',
    "a branch that rebases": '[branch "main"]\nrebase = true',
    "all pushes elsewhere": "[remote]\npushDefault = fork",
    "certificates": "[http]\nsslCAPath = x",
    "certificates of one host": '[http "https://h.invalid"]\nsslCAInfo = x',
    "a proxy": '[http "https://h.invalid"]\nproxy = x',
    "large files elsewhere": "[lfs]\nurl = https://evil.invalid",
    "who signs": '[gpg "ssh"]\nallowedSignersFile = x',
    "no signatures": "[commit]\ngpgsign = false",
    "another name": "[user]\nname = evil",
    "another address of the person": "[user]\nemail = evil@h.invalid",
    "no protection": "[core]\nprotectNTFS = false",
    "a bare one": "[core]\nbare = true",
    "case that is not told apart": "[core]\nignoreCase = true",
    "a value without a sign": "[core]\nsparseCheckoutX",
    "a format": "[core]\nrepositoryformatversion = 1\n[extensions]\nrefStorage = reftable",
    "an extension": "[extensions]\nworktreeConfig = yes-please",
    "files that are included": "[include]\npath = x",
    "on a condition": '[includeIf "gitdir:/w/"]\npath = x',
    "a remote that reads like an address": '[remote "https://h.invalid/o"]\nurl = https://e.invalid',
    "a remote that reads like a path": '[remote ".."]\nurl = https://e.invalid',
    "a remote that runs a program": '[remote "up"]\nurl = ext::sh -c x',
    "a remote that reads like an option": '[remote "up"]\nurl = -x',
    "a remote that fetches over branches": '[remote "up"]\nfetch = +refs/heads/*:refs/heads/*',
    "an alias": "[alias]\nst = status",
    "a default": "[push]\ndefault = matching",
    "old style": "[branch.topic]\nremote = up",
    "what a diff leaves out": "[diff]\nignoreSubmodules = all",
    "what a status leaves out": "[status]\nshowUntrackedFiles = no",
    "who pages colours": "[pager]\ndiff = x",
    "a key beside the colours": "[colors]\nui = auto",
    "an unknown one": "[x]\ny = z",
    "a line that git refuses": "[x",
}


@pytest.mark.parametrize("added", HELD.values(), ids=HELD)
def test_a_setting_that_is_not_known_to_be_harmless_is_held(added: str) -> None:
    assert outcome(f"{BEFORE}{added}\n") == "hold"
    assert outcome(BEFORE + added, path=".git/config.worktree", before="") == "hold"
    assert outcome(BEFORE + "# a comment\n") == "land"


LANDS = {
    "a comment": "; nothing",
    "a branch that follows one": '[branch "new"]\nremote = origin\nmerge = refs/heads/main',
    "an old branch that follows its own": '[branch "x"]\nremote = origin\nmerge = refs/heads/x',
    "one of another remote of the person": '[branch "new"]\nremote = fork\nmerge = refs/heads/main',
    "a branch that follows a local one": '[branch "new"]\nremote = .\nmerge = refs/heads/main',
    "a description": '[branch "main"]\ndescription = what it is',
    "a further remote": NEW_REMOTE,
    "colours": "[color]\nui = auto",
    "colours of one kind": '[color "diff"]\nmeta = blue bold',
    "how conflicts look": "[merge]\nconflictStyle = zdiff3",
    "the name of first branches": "[init]\ndefaultBranch = main",
    "a sparse checkout": "[extensions]\nworktreeConfig = true\n[core]\nsparseCheckout = true",
}


@pytest.mark.parametrize("added", LANDS.values(), ids=LANDS)
def test_what_everyday_commands_set_lands(added: str) -> None:
    assert outcome(f"{BEFORE}{added}\n", branches=("new",)) == "land"


FOLLOWS = '[branch "{}"]\nremote = {}\nmerge = refs/heads/{}\n'


@pytest.mark.parametrize("branch, remote, merge, came", [
    ("topic", "fork", "topic", ""),  # its push went to `origin`, or nowhere
    ("topic", ".", "main", ""),
    ("topic", "origin", "main", ""),
    ("later", "fork", "later", "new"),
])  # fmt: skip
def test_no_push_of_a_branch_that_stood_goes_elsewhere(
    branch: str, remote: str, merge: str, came: str
) -> None:
    text = BEFORE + FOLLOWS.format(branch, remote, merge)
    assert outcome(text, branches=(came,) if came else ()) == "hold"
    assert outcome(text, branches=(branch,)) == "land"


def test_a_remote_that_an_agent_added_is_followed_by_a_persons_word_alone() -> None:
    text = BEFORE + FOLLOWS.format("new", "fork", "main")
    url = "https://h.invalid/f"
    for agents, said in (
        (frozenset({("fork", url)}), "hold"),
        (None, "hold"),  # what calls added cannot be read
        (frozenset({("fork", "https://h.invalid/x")}), "land"),
        (frozenset({("other", url)}), "land"),
    ):
        assert outcome(text, branches=("new",), agents=agents) == said
    origin = BEFORE + FOLLOWS.format("new", "origin", "main")
    assert outcome(origin, branches=("new",), agents=None) == "land"
    followed = BEFORE + FOLLOWS.format("mine", "fork", "main")  # a person let it be followed
    more = followed + FOLLOWS.format("new", "fork", "main")
    assert outcome(more, before=followed, branches=("new",), agents=None) == "land"


CHANGED = {
    "a removal": ("\thooksPath = /etc/hooks\n", "", "core.hookspath"),
    "a removed remote": ('[remote "fork"]\n\turl = https://h.invalid/f\n', "", "remote.fork.url"),
    "a removed name": ("\temail = person@h.invalid\n", "", "user.email"),
    "a branch without its remote": ("\tremote = origin\n", "", "branch.main.remote"),
    "a changed address": ("h.invalid/o", "evil.invalid/o", "remote.origin.url"),
    "a changed branch": ("refs/heads/main", "refs/heads/evil", "branch.main.merge"),
    "another case of a name": ('"fork"', '"Fork"', "remote.fork.url"),
    "a value that is none": ("hooksPath = /etc/hooks", "hooksPath", "core.hookspath"),
}


@pytest.mark.parametrize("old, new, key", CHANGED.values(), ids=CHANGED)
def test_a_setting_that_changes_or_goes_is_held(old: str, new: str, key: str) -> None:
    assert old in BEFORE
    assert key in held_settings(BEFORE, BEFORE.replace(old, new, 1))
    assert held_settings(BEFORE, BEFORE.replace("\t", "  ")) == []  # git reads the same


def test_the_order_counts_where_one_overrules_another() -> None:
    one, other = "[include]\npath = a\n", "[core]\npager = b\n"
    assert held_settings(one + other, other + one) != []
    assert held_settings("[a]\nb = 1\nb = 2\n", "[a]\nb = 2\nb = 1\n") == ["a.b"]
    assert held_settings(one + other, one + "\n" + other) == []


def test_a_branch_that_goes_takes_its_settings_along() -> None:
    after = BEFORE.replace("\tremote = origin\n\tmerge = refs/heads/main\n", "")
    config = Change(
        ".git/config", Kind.MODIFIED, FileType.FILE, before_text=BEFORE, after_text=after
    )
    loose = Change(
        ".git/refs/heads/main", Kind.DELETED, FileType.FILE, git_refs_gone=("refs/heads/main",)
    )
    packed = Change(
        ".git/packed-refs",
        Kind.MODIFIED,
        FileType.FILE,
        git_checked="packed-refs",
        git_refs_gone=("refs/heads/main",),
    )
    kept = Change(".git/refs/heads/main", Kind.DELETED, FileType.FILE)  # packed, it lives on
    for changes, said in (
        ([config], "hold"),
        ([config, kept], "hold"),
        ([config, loose], "land"),
        ([config, packed], "land"),
    ):
        assert judge(DECISION, changes, POLICY, workspace="/w").outcome.value == said


def test_the_first_remote_of_a_repository_is_where_a_push_goes() -> None:
    plain = "[core]\n\tbare = false\n"
    assert outcome(plain + NEW_REMOTE, before=plain) == "hold"
    assert held_settings(None, plain + NEW_REMOTE, new=True) == []  # nobody's yet
    assert held_settings(BEFORE + "[remote]\npushDefault = up\n",
                         BEFORE + "[remote]\npushDefault = up\n" + NEW_REMOTE) != []  # fmt: skip


def test_a_new_repository_has_what_git_writes() -> None:
    text = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n"
    own = text + "[user]\nname = me\nemail = me@h.invalid\n"
    cloned = own + '[remote "origin"]\nurl = /w\nfetch = +refs/heads/*:refs/remotes/origin/*\n'
    cloned += '[branch "main"]\nremote = origin\nmerge = refs/heads/main\n'
    assert held_settings(None, cloned, new=True) == []
    assert held_settings(None, cloned) != []
    for evil in ("[core]\nfsmonitor = x", '[remote "origin"]\nmirror = true', "[core]\npager = x"):
        assert held_settings(None, f"{cloned}{evil}\n", new=True) != [], evil


MODULES = '[submodule "a"]\n\tpath = a\n\turl = ../a\n'


@pytest.mark.parametrize(
    "path, before, after, said",
    [
        (".gitmodules", "", '[submodule "b"]\npath = b\nbranch = main\n', "land"),
        (".gitmodules", MODULES, MODULES + '[submodule "a"]\nignore = all\n', "hold"),
        (".gitmodules", MODULES, MODULES.replace("path = a", "path = b"), "hold"),
        (".gitmodules", MODULES, MODULES.replace("\turl = ../a\n", ""), "hold"),
        (".gitmodules", MODULES, MODULES + "# words\n", "land"),
        (".gitmodules", "", '[submodule "b"]\npath = -b\n', "hold"),
        (".lfsconfig", "", "[lfs]\nurl = https://evil.invalid\n", "hold"),
        ("sub/.lfsconfig", "[lfs]\nurl = https://h.invalid\n", "", "hold"),
        (".lfsconfig", "[lfs]\nurl = x\n", "[lfs]\n\turl = x\n", "land"),
        (".gitattributes", "", "*.py filter=clean\n", "hold"),
        (".gitattributes", "", "*.py text working-tree-encoding=UTF-7\n", "hold"),
        (".gitattributes", "*.c ident\n", "*.py ident\n", "hold"),
        (".gitattributes", "", "[attr]quiet ident -text\n*.py quiet\n", "hold"),
        (".gitattributes", "*.c ident\n", "*.h -ident\n*.c ident text\n", "land"),
        ("sub/.gitattributes", "", "[attr]x merge=theirs\n", "hold"),
        (".gitattributes", "", '"a b" diff=show\n', "hold"),
        (".gitattributes", "*.py diff=show\n", "*.py  diff=show\n*.c text eol=lf\n", "land"),
        (
            ".gitattributes",
            "",
            "*.psd filter=lfs diff=lfs merge=lfs -text\n*.py diff=python",
            "land",
        ),
        (".gitattributes", "", "# *.py filter=clean\n*.lock -diff\n", "land"),
        (".gitattributes", "", "*.py -diff\n", "hold"),
        (".gitattributes", "", "* binary\n", "hold"),
        (".gitattributes", "", "src/** linguist-generated=true\n", "hold"),
        (".gitattributes", "", "[attr]gen -diff\n*.py gen\n", "hold"),
        (".gitattributes", "*.py -diff\n", "*.py -diff\n*.png binary\n", "land"),
        (".gitattributes", "", "package-lock.json -diff\ndist/** linguist-generated\n", "land"),
        ("k8s/config", None, "apiVersion: v1\n", "land"),
    ],
)
def test_settings_that_lie_among_the_files(
    path: str, before: str | None, after: str, said: str
) -> None:
    assert outcome(after, path=path, before=before) == said


@pytest.mark.parametrize("name, said", [("notes", "hold"), ("old/.gitattributes", "land")])
def test_a_file_of_another_name_was_not_read_before(name: str, said: str) -> None:
    text = "*.py filter=clean\n"
    moved = Change(".gitattributes", Kind.RENAMED, FileType.FILE, source=name,
                   before_text=text, after_text=text)  # fmt: skip
    assert judge(DECISION, [moved], POLICY, workspace="/w").outcome.value == said


@pytest.mark.parametrize(
    "line", ["[]", '[a"b"]', "[a]\n\x1fb = 1", "[a]\n\x0bb = 1", "[a]\n\xa0b = 1", "[a\x0c]"]
)
def test_a_line_that_would_stop_git_is_held(line: str) -> None:
    assert outcome(f"{BEFORE}{line}\n") == "hold"
    assert outcome(f"{BEFORE}# {line[:2]}\n \t\n") == "land"
