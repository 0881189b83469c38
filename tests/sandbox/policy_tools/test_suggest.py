# SPDX-License-Identifier: Apache-2.0
"""Rules are proposed from repeated approvals alone, narrow and tried, and none that must not be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from policy.gate1.decide import Policy, decide
from policy.model import ActionPlan, Context, Params, Workspace
from policy.protected.paths import PathPolicy
from policy.sources.document import read_document
from policy.sources.examples import check
from policy.sources.precedence import Effective
from sandbox.audit.events.reading import record_of
from sandbox.audit.store import Store
from sandbox.policy_tools.suggest import Family, Suggestion, suggest, text_of
from tests.sandbox.shells import Shell

ROOT = "/home/user/project"
EFFECTIVE = Effective(Policy.default(), PathPolicy.default())


def asked(
    call: str,
    tool: str,
    said: str = "yes",
    *,
    by: str | None = "me",
    events: tuple[dict[str, Any], ...] = (),
    root: str = ROOT,
    **params: Any,
) -> Family:
    """Return the records of a call that was asked about, the newest first."""
    plan = ActionPlan(tool=tool, params=Params.model_validate(params), workspace=root)
    context = Context((Workspace(root),), home="/home/user")
    found = decide(plan, context, Policy.default())
    first = {
        "event": "decided",
        "call": call,
        "agent": "main",
        "user": "default",
        "tool": tool,
        "params": params,
        "workspace": root,
        "verdict": found.verdict.value,
        "rules": list(found.rules),
        "layers": [layer.model_dump(mode="json") for layer in found.layers],
    }
    answer = {"event": "answered", "call": call, "approved": said == "yes", "approved_by": by}
    return call, [record_of(one) for one in (*reversed(events), answer, first)]


def held(call: str, *paths: str, then: str = "landed", rule: str = "deletion") -> Family:
    """Return the records of a call whose deletions waited for a person, the newest first."""
    changes = [
        {"path": path, "kind": "deleted", "type": "file", "outcome": "hold", "rule": rule}
        for path in paths
    ]
    first = {"event": "decided", "call": call, "agent": "main", "user": "default", "tool": "Bash",
             "params": {"command": "make"}, "workspace": ROOT, "verdict": "allow"}  # fmt: skip
    end = {"event": "ended", "call": call, "judgement": "hold", "landed": False,
           "changes": changes, "changes_total": len(changes)}  # fmt: skip
    last = {"event": then, "call": call, "landed": then == "landed"}
    return call, [record_of(one) for one in (last, end, first)]


def found(*families: Family, least: int = 3) -> list[Suggestion]:
    """Return what is proposed under the built-in policy."""
    return suggest(families, lambda _: EFFECTIVE, least=least)


def several(make: Any, count: int = 3) -> list[Family]:
    """Return so many calls."""
    return [make(f"c{number}") for number in range(count)]


def test_a_tool_that_nobody_knows_is_proposed_by_its_name() -> None:
    calls = several(lambda name: asked(name, "mcp__docs__publish", id=name))
    [one] = found(*calls)
    assert one == Suggestion(
        "tool",
        "mcp__docs__publish",
        ("c0", "c1", "c2"),
        ("mcp__docs__publish, whatever its parameters",),
        ("mcp__docs__publish_other",),
    )
    assert found(*calls, least=4) == []
    assert found(*calls[:2]) == []


NOT = {
    "one was refused": asked("x", "mcp__docs__publish", "no"),
    "one was refused from elsewhere": asked(
        "x", "mcp__docs__publish", "no", by=None, events=({"event": "refused", "call": "x"},)
    ),
    "one was undone": asked(
        "x", "mcp__docs__publish", events=({"event": "undone", "call": "u", "undone": "x"},)
    ),
}


@pytest.mark.parametrize("last", NOT.values(), ids=NOT)
def test_one_no_is_enough_against_it(last: Family) -> None:
    calls = several(lambda name: asked(name, "mcp__docs__publish"), 10)
    assert found(*calls) != []
    assert found(*calls, last) == []


def test_nobodys_silence_is_no_answer() -> None:
    silent = several(lambda name: asked(name, "mcp__docs__publish", "no", by=None), 5)
    assert found(*silent) == []
    calls = several(lambda name: asked(name, "mcp__docs__publish"))
    assert [one.kind for one in found(*calls, *silent)] == ["tool"]


def test_tools_that_are_known_are_asked_about_for_another_reason() -> None:
    calls = several(lambda name: asked(name, "Write", file_path="/etc/hosts", content="x"), 5)
    assert [one.kind for one in found(*calls)] == []


def test_files_that_are_made_anew_are_proposed_beside_each_other() -> None:
    calls = [held(f"c{number}", f"out/page{number}.html") for number in range(3)]
    [one] = found(*calls)
    assert (one.kind, one.value) == ("deletions", "/out/*.html")
    assert one.match == ("out/page0.html", "out/page1.html", "out/page2.html")
    assert one.miss
    assert found(*calls, held("x", "out/page9.html", then="discarded")) == []
    assert [one.value for one in found(*calls, held("x", "src/a.py", then="discarded"))] == [
        "/out/*.html"
    ]


def test_other_reasons_to_hold_count_against_it() -> None:
    calls = [held(f"c{number}", "out/a.html") for number in range(3)]
    assert found(*calls) != []
    assert found(*calls, held("x", "out/a.html", rule="continuous-integration")) == []


HIDDEN = ("../a.html", "out/*.html", "out/a b.html", ".lockgate/x.html", ".git/hooks/x.sh",
          ".devkit-waiver.yml", ".env")  # fmt: skip


@pytest.mark.parametrize("path", HIDDEN)
def test_some_files_are_never_proposed(path: str) -> None:
    assert found(*(held(f"c{number}", path) for number in range(5))) == []


def test_a_program_that_nobody_knows_is_proposed_by_its_name() -> None:
    calls = several(lambda name: asked(name, "Bash", command=f"nginx -t -c {name}"))
    [one] = found(*calls)
    assert (one.kind, one.value, one.approvals) == ("program", "nginx", ("c0", "c1", "c2"))
    assert one.miss == ("nginx -t -c c0; git push",)
    document = read_document(text_of([one]), "p.yaml")
    check(document, Policy.default())
    assert document.content.programs[0].programs == ("nginx",)
    assert found(*calls, asked("x", "Bash", "no", command="nginx -s stop")) == []
    both = several(lambda name: asked(name, "Bash", command="nginx -t; git push"))
    assert [one.kind for one in found(*both)] == ["grant"]


def test_a_command_gets_a_grant_to_type_and_no_rule() -> None:
    calls = several(lambda name: asked(name, "Bash", command="rm build/a.o"))
    [one] = found(*calls)
    assert one.kind == "grant"
    assert one.value == "lockgate grant --scope program --uses 10 --for 8h -- 'rm build/a.o'"
    assert "rm build/a.o; rm -r other" in one.miss


NEVER = {
    "FORBIDDEN": {"command": "rm -rf /"},
    "a governance file": {"command": "touch .devkit-waiver.yml"},
    "a secret": {"command": "cat ~/.ssh/id_rsa"},
    "secrets of the project": {"command": "cat secrets.yaml"},
    "a folder outside": {"command": "touch /etc/x"},
    "another folder": {"command": "touch ../other/x"},
    "a file that the host runs": {"command": "echo x > .github/workflows/a.yml"},
    "a masked secret": {"command": "rm a; echo token=[masked]"},
}


@pytest.mark.parametrize("params", NEVER.values(), ids=NEVER)
def test_some_questions_are_never_proposed_away(params: dict[str, Any]) -> None:
    assert found(*several(lambda name: asked(name, "Bash", **params), 6)) == []


def test_the_proposal_is_a_policy_file_that_is_right(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    (tmp_path / "home").mkdir()
    shell.dirs.create()
    root = str(shell.workspace)
    families = [
        *several(lambda name: asked("t" + name, "mcp__docs__publish", root=root)),
        *(held(f"h{number}", f"out/page{number}.html") for number in range(3)),
        *several(lambda name: asked("g" + name, "Bash", root=root, command="rm a.o")),
    ]
    store = Store(shell.dirs)
    for _, records in families:
        for record in reversed(records):
            store.append(record, durable=False)
    status, out, err = shell("policy", "suggest")
    assert status == 0, err
    kinds = [one["kind"] for one in json.loads(shell("policy", "suggest", "--json")[1])]
    assert kinds == ["tool", "deletions", "grant"]
    draft = tmp_path / "draft.yaml"
    draft.write_text(out)
    status, said, _ = shell("policy", "validate", str(draft))
    assert (status, said) == (0, f"{draft}: ok\n")
    status, said, _ = shell("policy", "simulate", str(draft))
    assert status == 1
    assert "3 of" in said
    assert "3 ask -> report" in said
    assert not (shell.dirs.config / "policy.yaml").exists()
    assert shell("policy", "suggest", "--least", "4")[1] == ""


def test_text_of_agents_cannot_leave_its_comment() -> None:
    evil = Suggestion("grant", "x", ("c1",), ("rm a\ntools: {allow: ['*']}",), ("\x1b[2J",))
    assert all(line.startswith("#") or not line or line == "version: 1"
               for line in text_of([evil]).split("\n"))  # fmt: skip
    assert "\x1b" not in text_of([evil])
