# SPDX-License-Identifier: Apache-2.0
"""What a person types about questions and grants, at a terminal and without one."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from policy.gate1.decide import Policy, decide
from policy.model import ActionPlan, Context, Params, Workspace
from policy.people.approval import Grant, Scope, covers, digest, wanted
from sandbox.approvals.approver import nobody
from sandbox.approvals.desk import waiting
from sandbox.approvals.store.grants import Grants
from sandbox.approvals.store.request import Request
from sandbox.results import CallResult
from sandbox.workspaces.registry import Registry
from tests.fakes import FakeSupervisor, served
from tests.sandbox.shells import Shell


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    shell = Shell(tmp_path)
    (tmp_path / "home").mkdir()
    shell.dirs.create()
    return shell


def ask(shell: Shell, command: str = "rm a.txt", call: str = "c1") -> Request:
    """Put a question, as a supervisor does."""
    root = str(shell.workspace)
    context = Context((Workspace(root),), home="/home/me")
    plan = ActionPlan(tool="Bash", params=Params(command=command), workspace=root)
    decision = decide(plan, context, Policy.default())
    now = time.time()
    request = Request(
        call=call,
        wanted=wanted(plan, decision, context, Policy.default()),
        plan=plan,
        decision=decision,
        asked=now,
        until=now + 1800,
    )
    Grants(shell.dirs).ask(request)
    return request


def test_questions_are_listed(shell: Shell) -> None:
    assert shell("approvals")[1] == "no call waits for a person\n"
    ask(shell)
    status, out, _ = shell("approvals")
    assert status == 0
    assert "c1" in out
    assert "rm a.txt" in out
    [one] = json.loads(shell("approvals", "--json")[1])
    assert (one["call"], one["action"], one["risk"]) == ("c1", "rm a.txt", "danger")


def test_a_list_says_where_and_with_what(shell: Shell) -> None:
    ask(shell)
    rows = [row.split() for row in shell("approvals")[1].splitlines()]
    assert rows[0] == ["call", "workspace", "agent", "tool", "risk", "wants", "waits"]
    assert rows[1][:6] == ["c1", "a", "workspace", "main", "Bash", "danger"]


def test_a_call_is_named_by_a_beginning_or_as_the_last(shell: Shell) -> None:
    for at, call in enumerate(("c1a", "c1b", "c2a", "c3a")):
        ask(shell, f"rm {at}.txt", call)
    status, shown = shell.at_terminal("deny", "c1")
    assert (status, shown) == (2, "lockgate: `c1` begins the ids of 2 calls; give more of it\n")
    assert shell.at_terminal("deny", "c2") == (0, "refused c2a: rm 2.txt\n")
    assert shell.at_terminal("deny", "last") == (0, "refused c3a: rm 3.txt\n")
    status, shown = shell.at_terminal("approve", "last", "--yes")
    assert (status, "needs the whole id" in shown) == (2, True)
    typing = [(b"[yes/no]", b"yes\n")]
    assert shell.at_terminal("approve", "last", typing=typing)[0] == 0
    assert shell.at_terminal("approve", "c1", "--yes")[0] == 2
    assert shell.at_terminal("approve", "c1a", "--yes")[0] == 0
    states = [Grants(shell.dirs).asked(call).state for call in ("c1a", "c1b", "c2a", "c3a")]
    assert states == ["approved", "approved", "denied", "denied"]
    assert shell.at_terminal("approve", "c2", "--yes")[0] == 2
    assert "no call waits" in shell.at_terminal("deny", "last")[1]
    assert "no question about a call `x`" in shell.at_terminal("deny", "x")[1]

    second = next(one for one in Grants(shell.dirs).all() if one.wanted.said == ("rm 0.txt",))
    status, shown = shell.at_terminal("revoke", "g")
    assert (status, "begins 2 grants" in shown) == (2, True)
    assert shell.at_terminal("revoke", "last") == (0, f"revoked {second.id}\n")
    status, shown = shell.at_terminal("revoke", "g")
    assert status == 0, shown
    assert "no grant `last`" in shell.at_terminal("revoke", "last")[1]


def test_a_grant_says_every_word_of_what_it_covers(shell: Shell) -> None:
    wanted = ask(shell, "git commit --quiet -m 'fix it'").wanted
    grant = Grant(id="g", wanted=wanted, issued=0, until=1, by="me")
    assert grant.words() == "exactly: git commit --quiet -m 'fix it'"
    wider = grant.model_copy(update={"scope": Scope.PROGRAM}).words()
    assert wider.startswith("only: git commit (shown: git commit --quiet -m 'fix it'; words of a")
    secret = "AKIA" + "IOSFODNN7" + "EXAMPLE"
    hidden = ask(shell, f"curl -H 'Authorization: {secret}' https://a.example").wanted
    assert secret not in hidden.model_dump_json()


def test_a_grant_for_a_task_covers_its_calls_and_no_others(shell: Shell) -> None:
    """Given in advance it covered none: the plan that it was bound to had no task."""
    shell("init", "--yes", str(shell.workspace))
    status, shown = shell.at_terminal("grant", "--task", "T1", "--", "rm", "a.txt")
    assert status == 0, shown
    [made] = Grants(shell.dirs).all()
    assert (made.task, made.wanted.task) == ("T1", "T1")
    for task, covered in (("T1", True), ("T2", False), (None, False)):
        root = str(shell.workspace)
        plan = ActionPlan(
            tool="Bash",
            params=Params(command="rm a.txt"),
            workspace=root,
            cwd=root,
            user=made.wanted.user,
            derived_from=task,
        )
        context = Context((Workspace(root),), home="/home/me")
        decision = decide(plan, context, Policy.default())
        decision = decision.model_copy(
            update={"rights": made.wanted.rights, "policy": made.wanted.policy}
        )
        what = wanted(plan, decision, context, Policy.default())
        what = what.model_copy(update={"digest": digest(plan, decision)})
        assert covers(made, what, time.time()) is covered


def test_exactly_this_call_is_of_no_other_task(shell: Shell) -> None:
    ask(shell)
    words = ("approve", "c1", "--yes", "--task", "T1")
    status, shown = shell.at_terminal(*words)
    assert status == 2
    assert "the call is not derived from task `T1`" in shown
    assert shell.at_terminal(*words, "--scope", "program")[0] == 0


def test_a_call_says_its_task(shell: Shell) -> None:
    shell("init", "--yes", str(shell.workspace))
    fake = FakeSupervisor()
    with served(shell.dirs, fake):
        shell("run", "--task", "T1", "exit 0")
        shell("run", "exit 0")
    assert [one.derived_from for one in fake.plans] == ["T1", None]


def test_what_was_asked_several_times_is_listed_once(shell: Shell) -> None:
    for call in ("c1", "c2"):
        ask(shell, call=call)
    [one] = json.loads(shell("approvals", "--json")[1])
    assert (one["call"], one["times"]) == ("c2", 2)


def test_options_stand_before_a_short_id(shell: Shell) -> None:
    name = ask(shell).wanted.action_id
    status, shown = shell.at_terminal("grant", name, "--for", "5s")
    assert status == 2
    assert "options come before the id: `--for` is not understood" in shown


def test_a_person_sees_the_card_and_approves(shell: Shell) -> None:
    request = ask(shell)
    status, shown = shell.at_terminal(
        "approve", "c1", "--uses", "2", "--for", "10m", typing=[(b"[yes/no]", b"yes\n")]
    )
    assert status == 0, shown
    for part in ("rm a.txt", "risk", "danger", "may change", "expected", "roll back"):
        assert part in shown
    [grant] = Grants(shell.dirs).all()
    assert (grant.uses, round(grant.until - grant.issued)) == (2, 600)
    assert Grants(shell.dirs).use("c2", request.wanted, time.time()) is not None
    [listed] = json.loads(shell("grants", "--json")[1])
    assert (listed["id"], listed["used"], listed["open"]) == (grant.id, 1, True)
    assert f'"grant":"{grant.id}"' in (shell.dirs.state / "audit.jsonl").read_text()


def test_a_no_at_the_card_leaves_the_question_open(shell: Shell) -> None:
    ask(shell)
    status, _ = shell.at_terminal("approve", "c1", typing=[(b"[yes/no]", b"no\n")])
    assert status == 1
    assert Grants(shell.dirs).asked("c1").state == "open"


@pytest.mark.parametrize(
    "words", [("approve", "c1", "--yes"), ("deny", "c1"), ("grant", "rm a.txt"), ("revoke", "g1")]
)
def test_without_a_terminal_nothing_is_answered(shell: Shell, words: tuple[str, ...]) -> None:
    ask(shell)
    status, _, err = shell(*words)
    assert status == 126
    assert "needs a terminal" in err
    assert Grants(shell.dirs).asked("c1").state == "open"


def test_a_person_refuses_with_a_reason(shell: Shell) -> None:
    ask(shell)
    status, shown = shell.at_terminal("deny", "c1", "--reason", "use staging")
    assert status == 0, shown
    assert Grants(shell.dirs).state("c1")[0::2] == ("denied", "use staging")
    status, shown = shell.at_terminal("approve", "c1", "--yes")
    assert status == 2
    assert "is denied" in shown


def test_a_command_is_granted_before_it_is_made(shell: Shell) -> None:
    Registry(shell.dirs, home=shell.workspace.parent).add(str(shell.workspace))
    status, shown = shell.at_terminal("grant", "--for", "60", "--", "rm", "a.txt")
    assert status == 0, shown
    [grant] = Grants(shell.dirs).all()
    assert grant.wanted.programs == ("rm",)
    status, shown = shell.at_terminal("revoke", grant.id)
    assert status == 0, shown
    assert "no grant can be used" in shell("grants")[1]


def test_a_grant_is_listed_in_words(shell: Shell) -> None:
    Registry(shell.dirs, home=shell.workspace.parent).add(str(shell.workspace))
    words = ("grant", "--scope", "program", "--", "git", "push", "origin", "main")
    status, shown = shell.at_terminal(*words)
    assert status == 0, shown
    assert "it covers only: git push origin main" in shown
    assert "only: git push origin main" in shell("grants")[1]
    [listed] = json.loads(shell("grants", "--json")[1])
    assert listed["covers"] == "only: git push origin main"


def test_what_is_forbidden_or_free_cannot_be_granted(shell: Shell) -> None:
    Registry(shell.dirs, home=shell.workspace.parent).add(str(shell.workspace))
    status, shown = shell.at_terminal("grant", "--", "rm", "-rf", "/")
    assert (status, "cannot be granted" in shown) == (2, True)
    status, shown = shell.at_terminal("grant", "--", "ls")
    assert (status, "nobody is asked" in shown) == (2, True)
    assert Grants(shell.dirs).all() == []


def test_the_short_id_names_a_question_and_never_stands_for_one(shell: Shell) -> None:
    request = ask(shell)
    status, shown = shell.at_terminal("grant", "Bash:00000000")
    assert (status, "nothing with the id" in shown) == (2, True)
    status, shown = shell.at_terminal("grant", "--reason", "x", request.wanted.action_id)
    assert status == 0, shown
    assert Grants(shell.dirs).all()[0].wanted == request.wanted


def test_a_bad_time_is_said(shell: Shell) -> None:
    status, _, err = shell("approve", "c1", "--for", "2 weeks")
    assert (status, "is not a time" in err) == (2, True)


class Noting(FakeSupervisor):
    """Notes who would be asked."""

    def __init__(self) -> None:
        super().__init__()
        self.approvers: list[object] = []

    async def call(self, plan: ActionPlan, *, approver: Any, **more: Any) -> CallResult:
        """Answer no, whoever would be asked."""
        self.approvers.append(approver)
        return await super().call(plan, approver=nobody, **more)


def test_a_call_that_is_to_wait_does(shell: Shell) -> None:
    """Without a terminal, `--wait` leaves the answer to a person elsewhere."""
    shell("init", "--yes", str(shell.workspace))
    noting = Noting()
    with served(shell.dirs, noting):
        assert shell("run", "--wait", "ask")[0] == 126
        assert shell("run", "ask")[0] == 126
    assert noting.approvers == [waiting, nobody]


def test_a_host_is_opened_for_one_command_in_advance(shell: Shell) -> None:
    Registry(shell.dirs, home=shell.workspace.parent).add(str(shell.workspace))
    words = ("grant", "--host", "api.example", "--uses", "3", "--", "python3 fetch.py")
    status, shown = shell.at_terminal(*words)
    assert status == 0, shown
    [grant] = Grants(shell.dirs).all()
    assert grant.words() == "to reach api.example:443: python3 fetch.py"
    assert '"hosts":["api.example:443"]' in (shell.dirs.state / "audit.jsonl").read_text()
    for host, command, why in (
        ("127.0.0.1", "python3 fetch.py", "is no host"),
        ("api.example:0", "python3 fetch.py", "is no host"),
        ("api.example", "ls", "only reads or proposes"),
        ("api.example", "curl https://b.example/", "a person is asked about it"),
    ):
        status, shown = shell.at_terminal("grant", "--host", host, "--", command)
        assert (status, why in shown) == (2, True), shown
    status, shown = shell.at_terminal(*words[:3], "--scope", "program", "--", "python3 fetch.py")
    assert (status, "leave `--scope` out" in shown) == (2, True), shown
    assert len(Grants(shell.dirs).all()) == 1
