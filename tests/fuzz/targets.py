# SPDX-License-Identifier: Apache-2.0
"""What is fuzzed, and what must hold whatever it is given."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

import yaml

from policy.gate1.decide import Policy, decide
from policy.gate2.git.config import added
from policy.gate2.judge import judge
from policy.model import (
    ActionPlan,
    Change,
    Context,
    Decision,
    FileType,
    Kind,
    Outcome,
    Params,
    Rights,
    Verdict,
    Workspace,
)
from policy.protected.paths import PathPolicy
from policy.sources.document import read_document
from policy.sources.precedence import Layer, Source, combine
from policy.values.strict_yaml import PolicyError
from tests.fuzz.generate import mutated, shell_text

CONTEXT = Context(workspaces=(Workspace("/workspace"),), home="/home/me")


@dataclass(frozen=True)
class Target:
    """One reader: `make` gives an input, `run` reads it and fails where a promise is broken."""

    make: Callable[[random.Random], str]
    run: Callable[[str], object]


def _decide(text: str) -> object:
    plan = ActionPlan(tool="Bash", params=Params(command=text), workspace="/workspace")
    decision = decide(plan, CONTEXT, Policy.default())
    assert isinstance(decision.verdict, Verdict)
    assert "\n" not in decision.message
    if decision.verdict is Verdict.DENY:
        assert decision.rights == Rights()
    return decision


# -- policy files

_POLICIES = (
    "commands:\n- id: push\n  programs: [git push]\n  tier: danger\n  because: it leaves\n"
    "  match: [git push]\n  miss: [git status]\n",
    "governance:\n- id: g\n  name: G\n  because: b\n  paths: ['a/**']\n  match: [a/b]\n",
    "levels:\n  overrides:\n    git: green\nmodes:\n  mode: standard\n",
    "trust:\n  default: supervised\n",
    "rules:\n- id: r\n  name: R\n  because: b\n  triggers:\n    file_patterns: ['*.py']\n"
    "  enforcement:\n    checks:\n    - id: c\n      writes: ['*.py']\n      decision: deny\n",
    "secrets:\n  hide: ['*.pem']\n  because: keys\n  match: [a.pem]\nlimits:\n  changed_files: 5\n",
    "a: &a [x, *a]\n", "[[[[[[[[", "? {a: b}\n: c\n", "--- |\n  x\n...\n--- y\n",
    "%YAML 1.1\n---\n!!python/object:os.system []\n",
    "x: 0b1\ny: 1_000\nz: 12:30:45\nw: 2001-01-01\nv: .inf\nu: ~\n", "<<: {a: b}\n",
    "\ufeffcommands: []\n",
)  # fmt: skip


def _defaults() -> tuple[str, ...]:
    folder = resources.files("policy").joinpath("defaults")
    return tuple(
        one.read_text("utf-8")[:6000] for one in folder.iterdir() if one.name.endswith(".yaml")
    )


def _policy_text(rng: random.Random) -> str:
    seeds = (*_POLICIES, *_POLICIES, *_defaults())
    if rng.random() < 0.2:
        return yaml.safe_dump(_value(rng, 4), allow_unicode=True)
    text = rng.choice(seeds)
    return mutated(rng, text, seeds)[:32_000] if rng.random() < 0.9 else text


def _value(rng: random.Random, depth: int) -> Any:
    keys = ("rules", "commands", "governance", "levels", "id", "because", "match", "tier", "paths")
    kind = rng.randrange(9 if depth else 5)
    if kind < 5:
        return (None, True, rng.randrange(99), 0.5, rng.choice((*keys, "", "*", "\x00", "é")))[kind]
    if kind < 7:
        return [_value(rng, depth - 1) for _ in range(rng.randrange(4))]
    return {rng.choice(keys): _value(rng, depth - 1) for _ in range(rng.randrange(4))}


def _policy_file(text: str) -> object:
    try:
        document = read_document(text, "policy.yaml")
        source = Source(Layer.WORKSPACE, document, trusted=False)
        return combine(Policy.default(), PathPolicy.default(), (source,))
    except PolicyError as error:
        assert str(error)
        assert str(error).isprintable() or "\n" not in str(error)
        return error


# -- gate 2

_NAMES = (
    "a", "src", ".git", "config", "hooks", "pre-commit", "devkit.config.json", ".env", "é",
    "e\u0301", "DEVKIT.CONFIG.JSON", "devkit.config.json.", " ", "..", "", ".", "\udcff", "\x00",
    "\n", "a" * 300, ".lockgate", ".github", "workflows", "x::$DATA", "node_modules",
    ".devkit-waiver.yml ",
)  # fmt: skip


def _changes(rng: random.Random) -> str:
    def path() -> str:
        return "/".join(rng.choice(_NAMES) for _ in range(rng.randint(1, 5)))

    def one() -> dict[str, Any]:
        return {
            "path": path(),
            "kind": rng.choice(list(Kind)).value,
            "type": rng.choice(list(FileType)).value,
            "source": rng.choice((None, path())),
            "size": rng.choice((0, 1, 10**12, -1)),
            "mode": rng.choice((0, 0o644, 0o4755, 0o7777)),
            "target": rng.choice((None, path(), "/etc/passwd", "../" * 50 + "x")),
            "hidden": rng.random() < 0.1,
            "conflict": rng.random() < 0.1,
            "ignored": rng.random() < 0.3,
            "before_text": rng.choice((None, _gitconfig_text(rng)[:1000])),
            "after_text": rng.choice((None, _gitconfig_text(rng)[:1000])),
        }

    return json.dumps([one() for _ in range(rng.choice((0, 1, 3, 20, 300)))])


def _judge(text: str) -> object:
    changes = [
        Change(**{**one, "kind": Kind(one["kind"]), "type": FileType(one["type"])})
        for one in json.loads(text)
    ]
    plan = ActionPlan(tool="Bash", params=Params(command="touch a"), workspace="/workspace")
    decision = _writer() if changes else decide(plan, CONTEXT, Policy.default())
    found = judge(decision, changes, PathPolicy.default(), workspace="/workspace")
    assert isinstance(found.outcome, Outcome)
    assert "\n" not in found.message
    for change in changes:
        governed = change.path == "devkit.config.json"
        assert not governed or found.outcome is Outcome.DISCARD
    return found


def _writer() -> Decision:
    plan = ActionPlan(tool="Bash", params=Params(command="touch a"), workspace="/workspace")
    return decide(plan, CONTEXT, Policy.default())


# -- git's configuration

_GITCONFIGS = (
    "[core]\n\teditor = vim\n\tfsmonitor = true\n", '[remote "a b"]\n\turl = ext::sh -c id\n',
    "[alias]\n\tx = !rm -rf \\\n\t y ; c\n", '[include]\n path="a\\"b"\n',
    "[a.b]c=d\n[a \"\\\\\\\"\"]x\n", "# c\n; d\n[x]y=\"a;b\" ; c\n", "\ufeff[core]\r\n\tx = 1\r\n",
    "[core\n", "[core]\nx = \"a\n", "[core]\n1=2\n",
)  # fmt: skip


def _gitconfig_text(rng: random.Random) -> str:
    return mutated(rng, rng.choice(_GITCONFIGS), _GITCONFIGS)[:20_000]


def _gitconfig(text: str) -> object:
    assert added(text, text, ("*",)) == []
    return added(None, text, ("core.*", "alias.*", "remote.*.url", "include.path"))


TARGETS: Mapping[str, Target] = {
    "decide": Target(shell_text, _decide),
    "policy-file": Target(_policy_text, _policy_file),
    "judge": Target(_changes, _judge),
    "git-config": Target(_gitconfig_text, _gitconfig),
}
