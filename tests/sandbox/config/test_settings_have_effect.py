# SPDX-License-Identifier: Apache-2.0
"""What validates in settings and policy files has an effect: each key of their models is read."""

from __future__ import annotations

import ast
import typing
from pathlib import Path

import pytest
from pydantic import BaseModel

from policy.autonomy.agent_globs import names_agent
from policy.autonomy.reputation import Domain, TrustLevel
from policy.autonomy.trust import TrustFile
from policy.sources.document import read_document
from policy.sources.schema import PolicyDocument
from policy.values.strict_yaml import PolicyError
from sandbox.agents.budgets import Budgets, BudgetUse
from sandbox.config.budgets import BudgetSettings
from sandbox.config.settings import Settings

ROOT = Path(__file__).parents[3]
ITERATED = {
    "Check.condition": "words for people, as its documentation says",
    "Tools": "its fields are gone through, and each is a case of `policy.tools.reading`",
    "UserLevels.green": "`listed` goes through the levels",
    "UserLevels.yellow": "the same",
    "UserLevels.red": "the same",
}
"""What is read in another way than by its name, and why that is an effect."""


def models_of(kind: object, found: dict[type[BaseModel], None]) -> dict[type[BaseModel], None]:
    """Return a model and all that it is made of."""
    if isinstance(kind, type) and issubclass(kind, BaseModel) and kind not in found:
        found[kind] = None
        for field in kind.model_fields.values():
            models_of(field.annotation, found)
    for part in typing.get_args(kind):
        models_of(part, found)
    return found


def read_names() -> set[str]:
    """Return the names of attributes that the product reads."""
    files = [*(ROOT / "policy").rglob("*.py"), *(ROOT / "sandbox").rglob("*.py")]
    nodes = (node for path in files for node in ast.walk(ast.parse(path.read_text("utf-8"))))
    return {
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    }


def test_each_key_is_read() -> None:
    models = models_of(Settings, models_of(PolicyDocument, {}))
    assert len(models) > 40
    read = read_names()
    unread = {
        f"{model.__name__}.{name}"
        for model in models
        for name in model.model_fields
        if name not in read and model.__name__ not in ITERATED
    }
    assert unread == {name for name in ITERATED if "." in name}


GLOBS = {
    "a sub-agent of the first agent": ("sub:*", "main:sub:7", True),
    "a sub-agent of a sub-agent": ("sub:9", "main:sub:7:sub:9", True),
    "a scheduled agent": ("cron:nightly", "main:cron:nightly", True),
    "a whole path": ("main:sub:*", "main:sub:7", True),
    "the agent above is none": ("sub:*", "main", False),
    "a longer name is none": ("sub:*", "main:subway:7", False),
    "another glob names no end of a path": ("s*", "main:sub:7", False),
}


@pytest.mark.parametrize("glob, agent, named", GLOBS.values(), ids=GLOBS)
def test_a_glob_names_agents(glob: str, agent: str, named: bool) -> None:
    assert names_agent(glob, agent) is named


def test_what_is_said_of_sub_agents_counts_wherever_agents_are_named() -> None:
    """`sub:*` validated, and named nobody: the agents of hooks are `main:sub:ID`."""
    agent, code = "main:sub:7", Domain.CODE_CHANGES
    trust = TrustFile(start=TrustLevel.SEMI_AUTO, agents={"sub:*": TrustLevel.SUPERVISED})
    assert trust.level(agent, code) is TrustLevel.SUPERVISED
    assert trust.level("main", code) is TrustLevel.SEMI_AUTO
    pins = TrustFile(start=TrustLevel.SEMI_AUTO, pins={"sub:*": TrustLevel.SUPERVISED})
    assert pins.pinned(agent) and not pins.pinned("main")
    assert pins.level(agent, code) is TrustLevel.SUPERVISED
    budgets = Budgets(
        BudgetSettings.model_validate({"agents": {"sub:*": {"failures_in_a_row": 1}}})
    )
    failed = BudgetUse(failed=True)
    over = [budgets.end(name, failed, now=1.0) for name in ("main", agent)]
    assert [one and one.agent for one in over] == [None, agent]


TOOLS = {
    "one that is judged": ("allow: ['claude-code:Task']", "`Task` of claude is known, and judged"),
    "the same by its other name": ("report: ['claude:Task']", "so `report` has no effect on it"),
    "one that is internal": ("deny: ['claude:TodoWrite']", "touches nothing outside the agent"),
}


@pytest.mark.parametrize("said, why", TOOLS.values(), ids=TOOLS)
def test_a_tool_about_which_a_file_has_no_say_is_refused(said: str, why: str) -> None:
    with pytest.raises(PolicyError, match=f"^p.yaml:1: .*{why}"):
        read_document("tools: {" + said + "}\n", "p.yaml")
    for good in ("deny: ['claude-code:Task']", "ask: ['claude:Bash']", "allow: ['claude:New']"):
        read_document("tools: {" + good + "}\n", "p.yaml")
