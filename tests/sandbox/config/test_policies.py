# SPDX-License-Identifier: Apache-2.0
"""Which policy files count: in their order, as they are now, only tightening until trusted."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from policy.gate1.decide import decide
from policy.gate2.judge import judge
from policy.model import Access, Change, Context, FileType, Kind, Outcome, Verdict, Workspace
from policy.protected.paths import PathPolicy
from policy.values.comparison import normal
from policy.values.strict_yaml import PolicyError
from sandbox.cell.overlay.masks import Patterns
from sandbox.gates.policy_files import Policies
from sandbox.host.dirs import Dirs
from tests.policy.asking import plan

CONTEXT = Context(workspaces=(Workspace("/workspace"),), home="/home/me")
STASH = """\
commands:
  - {id: no-stash, programs: [git stash], tier: forbidden, because: x, match: [git stash]}
"""


class Place:
    """A user, a workspace and an administrator, in folders of a test."""

    def __init__(self, root: Path) -> None:
        self.dirs = Dirs.under(root / "l").create()
        self.dirs.config.mkdir()
        self.user = self.dirs.config / "policy.yaml"
        self.workspace = root / "w"
        (self.workspace / ".lockgate").mkdir(parents=True)
        self.own = self.workspace / ".lockgate" / "policy.yaml"
        self.admin = root / "etc" / "policy.yaml"
        self.admin.parent.mkdir()
        self.policies = Policies(self.dirs, administrator=self.admin)

    @property
    def here(self) -> tuple[str, ...]:
        return (str(self.workspace),)

    def verdict(self, command: str) -> Verdict:
        """Return what the policy says of a command."""
        policy = self.policies.of(self.here).policy
        return decide(plan("Bash", command=command), CONTEXT, policy).verdict

    def knows(self, tool: str) -> bool:
        """Whether the policy knows a tool."""
        policy = self.policies.of(self.here).policy
        return "unknown-tool" not in decide(plan(tool, file_path="a"), CONTEXT, policy).rules

    def hides(self, path: str) -> bool:
        """Whether a cell does not see a path: as gate 2 says, and as the cell's masks do."""
        paths = self.policies.of(self.here).paths
        hide, show = paths.mask_expressions()
        said = Patterns([*hide], [*show], []).hides(path)
        assert said is paths.secrets.covers(normal(path))
        return said

    def judged(self, path: str, command: str = "touch x", kind: Kind = Kind.MODIFIED) -> Outcome:
        """Return what gate 2 says of a changed file."""
        effective = self.policies.of(self.here)
        decision = decide(plan("Bash", command=command), CONTEXT, effective.policy)
        change = Change(path, kind, FileType.FILE)
        return judge(decision, [change], effective.paths).outcome

    def trust(self) -> None:
        """Trust the workspace's file."""
        effective = self.policies.of(self.here)
        self.policies.trusted.add(effective.sources[-1].document)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Return a user without policy files."""
    return Place(tmp_path)


def test_without_files_the_built_in_rules_count(place: Place) -> None:
    assert place.verdict("git stash") is Verdict.REPORT
    effective = place.policies.of(place.here)
    assert (effective.sources, effective.ignored) == ((), ())


@pytest.mark.parametrize("whose", ["user", "own", "admin"])
def test_a_rule_counts_whoever_says_it(place: Place, whose: str) -> None:
    file: Path = getattr(place, whose)
    file.write_text(STASH)
    assert place.verdict("git stash") is Verdict.DENY
    assert place.policies.of(place.here).places("no-stash") == (f"{file}:2",)
    file.unlink()
    assert place.verdict("git stash") is Verdict.REPORT


def test_a_changed_file_counts_for_the_next_call(place: Place) -> None:
    place.user.write_text(STASH)
    assert place.verdict("git stash") is Verdict.DENY
    place.user.write_text(STASH.replace("forbidden", "danger"))
    assert place.verdict("git stash") is Verdict.ASK


def test_an_unchanged_file_is_not_read_again(place: Place) -> None:
    place.user.write_text(STASH)
    assert place.policies.of(place.here) is place.policies.of(place.here)


def test_the_strictest_of_all_files_counts(place: Place) -> None:
    place.user.write_text(STASH.replace("forbidden", "danger"))
    place.own.write_text(STASH)
    place.admin.write_text(STASH.replace("forbidden", "caution"))
    assert place.verdict("git stash") is Verdict.DENY
    assert len(place.policies.of(place.here).places("no-stash")) == 3


def test_limits_count_by_their_minimum(place: Place) -> None:
    place.user.write_text("limits: {seconds: 50, changed_files: 7}\n")
    place.own.write_text("limits: {seconds: 5000, changed_files: 9}\n")
    place.admin.write_text("limits: {seconds: 40}\n")
    effective = place.policies.of(place.here)
    decision = decide(plan("Bash", command="touch a"), CONTEXT, effective.policy)
    assert decision.rights.limits.seconds == 40
    assert decision.rights.limits.changed_files == 7
    assert effective.paths.limits.changed_files == 7


# both gates


FINAL = """\
rules:
  - id: final
    name: Final
    because: x
    triggers: {file_patterns: ["db/*.sql"]}
    enforcement:
      checks:
        - {id: no-writes, writes: ["db/*.sql"], decision: deny, allowed_path: add another}
    match: [touch db/a.sql]
"""


def test_a_rule_on_files_holds_at_both_gates(place: Place) -> None:
    place.own.write_text(FINAL)
    assert place.verdict("touch db/a.sql") is Verdict.DENY
    assert place.judged("db/a.sql", "python3 -c 1") is Outcome.DISCARD
    assert place.judged("db/a.py", "python3 -c 1") is Outcome.LAND
    paths = place.policies.of(place.here).paths
    assert paths.pin_expressions()


def test_a_check_that_lets_pass_holds_before_the_denial(place: Place) -> None:
    mild = "- {id: new, writes: [db/new.sql], decision: allow}\n        - {id: no-writes"
    text = FINAL.replace("- {id: no-writes", mild)
    place.own.write_text(text.replace('["db/*.sql"]}', '["db/*.sql", db/new.sql]}', 1))
    assert place.verdict("touch db/new.sql") is Verdict.REPORT
    assert place.verdict("touch db/a.sql") is Verdict.DENY
    assert place.judged("db/new.sql") is Outcome.LAND


def test_governance_holds_at_both_gates(place: Place) -> None:
    place.user.write_text(
        "governance:\n"
        "  - {id: g, name: The licence, because: x, paths: [/LICENSE], allowed_path: ask,"
        " match: [LICENSE], miss: [a/LICENSE]}\n"
    )
    assert place.verdict("echo x > LICENSE") is Verdict.DENY
    assert place.verdict("echo x > a/LICENSE") is Verdict.REPORT
    assert place.judged("LICENSE") is Outcome.DISCARD
    assert place.judged("a/LICENSE") is Outcome.LAND


def test_what_must_not_be_read_is_hidden(place: Place) -> None:
    place.user.write_text(
        FINAL.replace("{id: no-writes, writes:", "{id: no-reads, reads:").replace(
            "touch db", "cat db"
        )
    )
    assert place.verdict("cat db/a.sql") is Verdict.DENY
    assert place.hides("db/a.sql")
    assert not place.hides("db/a.py")


def test_obeyed_files_wait_for_a_person(place: Place) -> None:
    place.user.write_text(
        "obeyed: [{id: o, because: x, paths: ['deploy/*.sh'], match: [deploy/a.sh]}]\n"
    )
    assert place.judged("deploy/a.sh") is Outcome.HOLD


# what gate 2 lets land


def test_files_that_may_go_without_being_named(place: Place) -> None:
    assert place.judged("dist/a.js", kind=Kind.DELETED) is Outcome.HOLD
    place.user.write_text("land_freely: {deletions: ['dist/**']}\n")
    assert place.judged("dist/a.js", kind=Kind.DELETED) is Outcome.LAND
    assert place.judged("src/dist.js", kind=Kind.DELETED) is Outcome.HOLD
    assert place.judged("dist/.devkit-waiver.yml", kind=Kind.DELETED) is Outcome.DISCARD


def test_obeyed_files_that_need_no_person(place: Place) -> None:
    assert place.judged(".github/workflows/ci.yml") is Outcome.HOLD
    place.user.write_text("land_freely: {obeyed: ['.github/workflows/**']}\n")
    assert place.judged(".github/workflows/ci.yml") is Outcome.LAND
    assert place.judged(".envrc") is Outcome.HOLD
    assert place.judged(".git/hooks/pre-commit") is Outcome.HOLD


def test_settings_of_git_that_a_file_adds_are_asked_about(place: Place) -> None:
    commands = "git -c Color.UI=always log", "git config color.ui always"
    assert [place.verdict(one) for one in commands] == [Verdict.ALLOW, Verdict.REPORT]
    place.user.write_text("git_keys: [color.*]\n")
    assert [place.verdict(one) for one in commands] == [Verdict.ASK, Verdict.ASK]
    assert place.verdict("git -c core.quotepath=off log") is Verdict.ALLOW


def test_nobody_frees_what_an_administrator_holds(place: Place) -> None:
    place.user.write_text("land_freely: {obeyed: ['deploy/**']}\n")
    place.admin.write_text(
        "obeyed: [{id: o, because: x, paths: ['deploy/*.sh'], match: [deploy/a.sh]}]\n"
    )
    assert place.judged("deploy/a.sh") is Outcome.HOLD


def test_a_file_takes_nothing_from_gate_2_that_it_does_not_name(place: Place) -> None:
    place.user.write_text("version: 1\n")
    assert place.policies.of(place.here).paths == PathPolicy.default()
    place.user.write_text("obeyed: [{id: o, because: x, paths: [a.sh], match: [a.sh]}]\n")
    paths = place.policies.of(place.here).paths
    for name, value in PathPolicy.default():
        if name != "obeyed":
            assert getattr(paths, name) == value, name


# secrets


def test_secrets_are_hidden_and_shown_in_the_order_of_the_files(place: Place) -> None:
    assert (place.hides("a.pem"), place.hides("a.vault")) == (True, False)
    place.user.write_text("secrets: {hide: ['*.vault'], show: ['*.pem'], match: [a.vault]}\n")
    assert (place.hides("a.pem"), place.hides("a.vault")) == (False, True)
    place.admin.write_text("secrets: {hide: ['b.pem'], match: [b.pem]}\n")
    assert (place.hides("a.pem"), place.hides("b.pem")) == (False, True)
    place.admin.write_text("secrets: {show: ['*.vault'], miss: [a.vault]}\n")
    assert not place.hides("a.vault")


def test_names_of_places_count_in_any_case(place: Place) -> None:
    place.own.write_text("places: {asked_writes: [Deploy], secret_files: [Prod.Token]}\n")
    assert place.verdict("touch deploy/x") is Verdict.ASK
    assert place.verdict("cat prod.token") is Verdict.DENY
    assert place.verdict("touch deployed/x") is Verdict.REPORT


# trust


LOOSENING = {
    "secrets.show": "secrets: {show: ['*.pem'], miss: [a.pem]}",
    "links": "links: [{path: x, target: /usr/bin/x}]",
    "land_freely.deletions": "land_freely: {deletions: [dist]}",
    "land_freely.obeyed": "land_freely: {obeyed: [.github]}",
    "tools.read": "tools: {read: [Peek]}",
    "places.agent_home": "places: {agent_home: [notes]}",
    "places.environment_templates": "places: {environment_templates: [prod]}",
    "levels.agent_types": "levels: {agent_types: {a: b}}",
    "roles.roles.boss": "roles: {roles: {boss: {read: yes, write: yes, execute: yes}}}",
}


@pytest.mark.parametrize("what", LOOSENING)
def test_what_would_loosen_is_ignored_until_it_is_trusted(place: Place, what: str) -> None:
    place.own.write_text(LOOSENING[what] + "\n")
    effective = place.policies.of(place.here)
    assert effective.ignored == (
        f"{place.own}:1: `{what}` is ignored, since it would loosen what counts; "
        "`lockgate policy trust` trusts the file",
    )
    place.trust()
    assert place.policies.of(place.here).ignored == ()


MILDER = {
    "levels.users.me.overrides": "levels: {users: {me: {overrides: {git: green}}}}",
    "modes.tools": "modes: {mode: autonomous, tools: {Write: file.read}}",
    "trust.agents": "trust: {agents: {helper: autonomous}}",
    "trust.pins": "trust: {pins: {helper: autonomous}}",
    "trust.start": "trust: {start: supervised}",
    "trust.objection_seconds": "trust: {objection_seconds: 0}",
    "trust.bounds": "trust: {bounds: {code_changes: {lowest: supervised}}}",
}


@pytest.mark.parametrize("what", MILDER)
def test_what_counts_only_as_far_as_it_tightens_is_said(place: Place, what: str) -> None:
    place.own.write_text(MILDER[what] + "\n")
    assert place.policies.of(place.here).ignored == (
        f"{place.own}:1: `{what}` is ignored where it would loosen what counts; "
        "`lockgate policy trust` trusts the file",
    )
    place.trust()
    assert place.policies.of(place.here).ignored == ()


def test_what_only_tightens_is_not_said_to_be_ignored(place: Place) -> None:
    place.own.write_text(
        "levels: {users: {me: {overrides: {git: red}}}, agent_overrides: {a: {git: red}}}\n"
        "modes: {mode: standard}\n"
        "trust: {agents: {helper: propose}, objection_seconds: 60}\n"
        "tools: {deny: [x]}\n"
    )
    assert place.policies.of(place.here).ignored == ()


def test_all_that_would_loosen_is_said_before_it_is_trusted(place: Place) -> None:
    place.own.write_text(
        "tools: {allow: [x], read: [y]}\nroles: {roles: {a: {read: yes}, b: {read: yes}}}\n"
    )
    said = " ".join(place.policies.of(place.here).ignored)
    assert all(f"`{one}`" in said for one in ("tools.allow", "tools.read"))
    assert all(f"`roles.roles.{one}`" in said for one in "ab")


BEFORE_AND_AFTER: dict[str, tuple[str, Callable[[Place], object], object, object]] = {
    "a secret": (LOOSENING["secrets.show"], lambda p: p.hides("a.pem"), True, False),
    "a tool": (LOOSENING["tools.read"], lambda p: p.knows("Peek"), False, True),
    "an environment file": (LOOSENING["places.environment_templates"],
                            lambda p: p.verdict("cat .env.prod"), Verdict.DENY, Verdict.ALLOW),
}  # fmt: skip


@pytest.mark.parametrize(
    "text, look, before, after", BEFORE_AND_AFTER.values(), ids=BEFORE_AND_AFTER
)
def test_trust_lets_a_file_loosen_and_a_change_ends_it(
    place: Place, text: str, look: Callable[[Place], object], before: object, after: object
) -> None:
    place.own.write_text(text + "\n")
    assert look(place) == before
    place.trust()
    assert look(place) == after
    place.own.write_text(text + " # changed\n")
    assert look(place) == before


def test_trust_can_be_taken_back(place: Place) -> None:
    place.own.write_text(LOOSENING["secrets.show"] + "\n")
    place.trust()
    assert not place.hides("a.pem")
    assert place.policies.trusted.remove(place.own)
    assert place.hides("a.pem")
    assert not place.policies.trusted.remove(place.own)


def test_trust_in_one_workspace_is_none_in_another(place: Place, tmp_path: Path) -> None:
    place.own.write_text(LOOSENING["secrets.show"] + "\n")
    place.trust()
    other = tmp_path / "other" / ".lockgate"
    other.mkdir(parents=True)
    (other / "policy.yaml").write_text(place.own.read_text())
    assert place.policies.of((str(tmp_path / "other"),)).ignored


def test_of_an_untrusted_file_all_that_tightens_counts(place: Place) -> None:
    place.own.write_text(STASH + LOOSENING["tools.read"] + "\nmodes: {mode: conservative}\n")
    assert place.verdict("git stash") is Verdict.DENY
    assert place.verdict("touch x") is Verdict.ASK


def test_a_call_over_two_workspaces_goes_by_both_files(place: Place, tmp_path: Path) -> None:
    other = tmp_path / "other" / ".lockgate"
    other.mkdir(parents=True)
    (other / "policy.yaml").write_text(STASH)
    both = place.policies.of((*place.here, str(tmp_path / "other")))
    assert decide(plan("Bash", command="git stash"), CONTEXT, both.policy).verdict is Verdict.DENY
    assert place.verdict("git stash") is Verdict.REPORT


# what is wrong stops everything


WRONG = {
    "text": "bogus: 1\n",
    "an example": STASH.replace("match: [git stash]", "match: [ls]"),
    "together": "levels: {users: {me: {green: [no such category]}}}\n",
}


@pytest.mark.parametrize("whose", ["user", "own", "admin"])
@pytest.mark.parametrize("text", WRONG.values(), ids=WRONG)
def test_a_wrong_file_stops_every_call(place: Place, whose: str, text: str) -> None:
    file: Path = getattr(place, whose)
    file.write_text(text)
    for _ in range(2):
        with pytest.raises(PolicyError, match=f"^{file}:"):
            place.policies.of(place.here)
    file.write_text(STASH)
    assert place.verdict("git stash") is Verdict.DENY


def link(path: Path) -> None:
    """Put a link to a real policy file at a path."""
    real = path.parent.parent / "real.yaml"
    real.write_text(STASH)
    path.symlink_to(real)


ODD: dict[str, tuple[Callable[[Path], object], str]] = {
    "a link": (link, "it cannot be read: it is a link; put the file itself there"),
    "a pipe": (os.mkfifo, "it is no file; put a file there or remove it"),
    "a folder": (Path.mkdir, "it is no file; put a file there or remove it"),
    "no text": (lambda path: path.write_bytes(b"a: 1\n\xff"), ":2: it is not UTF-8"),
}


@pytest.mark.parametrize("make, says", ODD.values(), ids=ODD)
def test_an_odd_thing_in_the_workspace_stops_every_call(
    place: Place, make: Callable[[Path], object], says: str
) -> None:
    make(place.own)
    with pytest.raises(PolicyError) as caught:
        place.policies.of(place.here)
    assert str(caught.value).startswith(str(place.own))
    assert str(caught.value).endswith(says)


def test_a_folder_that_is_a_link_stops_every_call(place: Place, tmp_path: Path) -> None:
    place.own.parent.rmdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "policy.yaml").write_text(STASH)
    place.own.parent.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PolicyError, match="it is a link; make it a folder"):
        place.policies.of(place.here)


def test_the_users_own_file_may_be_a_link(place: Place) -> None:
    link(place.user)
    assert place.verdict("git stash") is Verdict.DENY


def test_a_broken_list_of_trusted_files_stops_every_call(place: Place) -> None:
    place.policies.trusted.file.write_text("{")
    with pytest.raises(PolicyError, match=r"trusted\.json: it cannot be read; remove it"):
        place.policies.of(place.here)


# the digest


def test_the_digest_names_the_policy(place: Place) -> None:
    def digest() -> str:
        return place.policies.of(place.here).policy.digest

    seen = [digest()]
    place.user.write_text(STASH)
    seen.append(digest())
    place.own.write_text(LOOSENING["tools.read"] + "\n")
    seen.append(digest())
    place.trust()
    seen.append(digest())
    (place.dirs.config / "modes.yaml").write_text("mode: conservative\n")
    seen.append(digest())
    assert len(set(seen)) == len(seen)
    assert Policies(place.dirs, administrator=place.admin).of(place.here).policy.digest == seen[-1]


def test_a_decision_carries_the_digest(place: Place) -> None:
    place.user.write_text(STASH)
    policy = place.policies.of(place.here).policy
    assert decide(plan("Bash", command="ls"), CONTEXT, policy).policy == policy.digest


def test_the_users_files_on_standing_count(place: Place) -> None:
    (place.dirs.config / "modes.yaml").write_text("mode: conservative\n")
    assert place.verdict("touch x") is Verdict.ASK


def test_nothing_of_an_administrator_can_be_taken_back(place: Place) -> None:
    place.admin.write_text(
        dedent(
            """\
            modes: {mode: conservative}
            limits: {seconds: 10}
            secrets: {hide: ["*.vault"], match: [a.vault]}
            """
        )
    )
    place.user.write_text(
        dedent(
            """\
            modes: {mode: autonomous}
            limits: {seconds: 1000}
            secrets: {show: ["*.vault"], miss: [a.vault]}
            """
        )
    )
    place.own.write_text(place.user.read_text())
    place.trust()
    decision = decide(
        plan("Bash", command="touch a"), CONTEXT, place.policies.of(place.here).policy
    )
    assert decision.verdict is Verdict.ASK
    assert decision.rights.limits.seconds == 10
    assert decision.rights.workspace is Access.WRITE
    assert place.hides("a.vault")


def test_trusted_files_are_listed_by_path_and_digest(place: Place) -> None:
    place.own.write_text(LOOSENING["tools.read"] + "\n")
    place.trust()
    said = json.loads(place.policies.trusted.file.read_text())
    assert list(said["files"]) == [str(place.own)]
    assert place.policies.trusted.file.stat().st_mode & 0o077 == 0
