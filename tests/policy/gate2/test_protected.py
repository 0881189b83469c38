# SPDX-License-Identifier: Apache-2.0
"""Which names are protected, obeyed or secret, however they are spelt."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.protected.path_rules import ObeyedRule
from policy.protected.paths import PathPolicy
from policy.values import strict_yaml
from policy.values.comparison import normal
from policy.values.filenames import compiled
from policy.values.strict_yaml import PolicyError

POLICY = PathPolicy.default()

GOVERNANCE = {
    "the waiver file": (".devkit-waiver.yml", "rule_006"),
    "the waiver file by another ending": (".devkit-waiver.yaml", "rule_006"),
    "a saved copy of the waiver file": (".devkit-waiver.yml.bak", "rule_006"),
    "the configuration": ("devkit.config.json", "rule_006"),
    "in capitals": ("DevKit.Config.JSON", "rule_006"),
    "with a trailing dot": ("devkit.config.json.", "rule_006"),
    "with trailing spaces and dots": ("devkit.config.json . .", "rule_006"),
    "as a stream of NTFS": ("devkit.config.json::$DATA", "rule_006"),
    "as a named stream": ("devkit.config.json:x:$DATA", "rule_006"),
    "a folder as a stream": (".lockgate::$INDEX_ALLOCATION/x", "lockgate-records"),
    "with a zero-width joiner": ("devkit\u200d.config.json", "rule_006"),
    "with a soft hyphen": ("dev\u00adkit.config.json", "rule_006"),
    "with a byte order mark": ("\ufeffdevkit.config.json", "rule_006"),
    "with a Kelvin sign": ("dev\u212ait.config.json", "rule_006"),
    "with a long s": (".lockgate/\u017f", "lockgate-records"),
    "in a folder": ("sub/dir/devkit.config.json", "rule_006"),
    "below a folder of that name": (".lockgate/undo/c1/journal", "lockgate-records"),
    "the records themselves": (".lockgate", "lockgate-records"),
    "doubled slashes": ("sub//devkit.config.json", "rule_006"),
    "another file": ("devkit.config.js", None),
    "a longer name": ("my-devkit.config.json", None),
    "a name that starts like it": ("devkit.config.json5", None),
    "a mention in a folder's name": ("devkit.config.json.d/x", None),
    "a name of dots": ("...", None),
}


@pytest.mark.parametrize("path, rule", GOVERNANCE.values(), ids=GOVERNANCE)
def test_governance_names(path: str, rule: str | None) -> None:
    found = POLICY.governance_of(path)
    assert (None if found is None else found.id) == rule


OBEYED = {
    "a git hook": (".git/hooks/pre-commit", "git-hooks"),
    "a hook of any name": (".git/hooks/whatever", "git-hooks"),
    "a hook of a repository below": ("sub/.git/hooks/post-checkout", "git-hooks"),
    "a hook of a submodule": (".git/modules/a/modules/b/hooks/pre-push", "git-hooks"),
    "a hook of a bare repository": ("mirror.git/hooks/update", "git-hooks"),
    "a hook by its name alone": ("fake/hooks/pre-commit", "git-hooks"),
    "husky": (".husky/pre-commit", "git-hooks"),
    "a sample hook": (".git/hooks/pre-commit.sample", None),
    "React's hooks": ("src/hooks/useThing.ts", None),
    "a branch named hooks": (".git/refs/heads/hooks/fix", None),
    "git's index": (".git/index", None),
    "direnv": (".envrc", "shell-environment"),
    "editor tasks": (".vscode/tasks.json", "editor-tasks"),
    "editor settings in capitals": (".VSCode/Settings.json", "editor-tasks"),
    "editor snippets": (".vscode/x.code-snippets", None),
    "run configurations": (".idea/runConfigurations/All.xml", "editor-tasks"),
    "agent settings": (".claude/settings.local.json", "agent-configuration"),
    "agent settings of another": (".codex/config.toml", "agent-configuration"),
    "MCP servers": (".mcp.json", "agent-configuration"),
    "instructions to agents": ("CLAUDE.md", None),
    "instructions in a folder": ("sub/AGENTS.md", None),
    "a workflow": (".github/workflows/ci.yml", "ci-workflows"),
    "an issue template": (".github/ISSUE_TEMPLATE/bug.md", None),
    "GitLab's": (".gitlab-ci.yml", "ci-workflows"),
    "Jenkins'": ("ci/Jenkinsfile", "ci-workflows"),
    "Azure's": ("azure-pipelines.yml", "ci-workflows"),
    "CircleCI's": (".circleci/config.yml", "ci-workflows"),
    "pre-commit's": (".pre-commit-config.yaml", "commit-checks"),
    "source": ("src/app.py", None),
    "a package's description": ("package.json", None),
}


@pytest.mark.parametrize("path, rule", OBEYED.values(), ids=OBEYED)
def test_obeyed_files(path: str, rule: str | None) -> None:
    found = POLICY.obeyed_of(path)
    assert (None if found is None else found.id) == rule


ABOVE = {
    "git's folder": (".git", True),
    "the hooks' folder": (".git/hooks", True),
    "the workflows' parent": (".github", True),
    "the editor's": ("sub/.vscode", True),
    "any other": ("src", False),
}


@pytest.mark.parametrize("path, above", ABOVE.values(), ids=ABOVE)
def test_folders_above_obeyed_files(path: str, above: bool) -> None:
    assert (POLICY.obeyed_below(path) is not None or POLICY.obeyed_of(path) is not None) == above


SECRETS = {
    "an environment file": (".env", True),
    "in a folder": ("app/.env", True),
    "of a stage": (".env.production", True),
    "its example": (".env.example", False),
    "the example of a stage": (".env.local.sample", False),
    "a private key": ("id_ed25519", True),
    "its public half": ("id_ed25519.pub", False),
    "a key in PEM": ("tls/server.pem", True),
    "a bundle of authorities": ("cacert.pem", False),
    "a certificate's key": ("cert-key.pem", True),
    "credentials of a cloud": (".aws/credentials", True),
    "a password store": ("vault.kdbx", True),
    "passwords for hosts": (".netrc", True),
    "the records": (".lockgate/lock", True),
    "npm's settings of a project": (".npmrc", False),
    "source": ("src/environment.ts", False),
    "documentation": ("docs/credentials.md", False),
}


@pytest.mark.parametrize("path, secret", SECRETS.values(), ids=SECRETS)
def test_secrets(path: str, secret: bool) -> None:
    assert POLICY.is_secret(path) == secret
    hide, show = POLICY.mask_expressions()  # as a keeper uses them
    name = unicodedata.normalize("NFC", path).casefold()
    hidden = any(re.fullmatch(e, name, re.DOTALL) for e in hide)
    shown = any(re.fullmatch(e, name, re.DOTALL) for e in show)
    assert (hidden and not shown) == secret


PATTERNS = {
    "a name lies anywhere": ("a", ["a", "x/a"], ["b", "ab", "a/b"]),
    "a folder with it": ("a/b", ["a/b", "x/a/b"], ["b", "xa/b", "a/x/b"]),
    "the root only": ("/a", ["a"], ["x/a"]),
    "a star stays in its component": ("a/*.b", ["a/.b", "a/x.b"], ["a/x/y.b"]),
    "two stars do not": ("a/**/b", ["a/b", "a/x/b", "a/x/y/b"], ["a/xb", "b"]),
    "a folder and all it holds": ("a/**", ["a", "a/b", "x/a/b/c"], ["ab", "b/c"]),
    "alternatives": ("{a,b}.{c,d}", ["a.c", "b.d"], ["a.e", "ab.c"]),
    "a question mark": ("a?", ["ab"], ["a", "a/b", "abc"]),
    "other signs mean themselves": ("a.b+(c)", ["a.b+(c)"], ["axb+(c)", "a.bb(c)"]),
}


@pytest.mark.parametrize("pattern, match, miss", PATTERNS.values(), ids=PATTERNS)
def test_patterns(pattern: str, match: list[str], miss: list[str]) -> None:
    matcher = compiled([pattern])
    assert [path for path in match if not matcher.fullmatch(path)] == []
    assert [path for path in miss if matcher.fullmatch(path)] == []


def test_a_rule_that_misses_its_own_example_is_refused() -> None:
    data = {"id": "x", "because": "b", "paths": ["a"], "match": ["b"]}
    with pytest.raises(PolicyError, match="rule `x` does not match its example `b`"):
        strict_yaml.build(ObeyedRule, data, "paths.yaml")


def test_a_rule_that_matches_a_miss_is_refused() -> None:
    data = {"id": "x", "because": "b", "paths": ["a"], "miss": ["d/A"]}
    with pytest.raises(PolicyError, match="rule `x` matches `d/A`, which it says it does not"):
        strict_yaml.build(ObeyedRule, data, "paths.yaml")


def test_existing_governance_files_are_pinned() -> None:
    expressions = POLICY.pin_expressions()
    pinned = {
        path: any(re.fullmatch(e, path) for e in expressions)
        for path in ("devkit.config.json", "sub/.devkit-waiver.yml", ".github/workflows/ci.yml")
    }
    assert pinned == {
        "devkit.config.json": True,
        "sub/.devkit-waiver.yml": True,
        ".github/workflows/ci.yml": False,
    }


def test_only_an_interpreter_of_a_virtual_environment_may_be_linked_to() -> None:
    links = {
        (".venv/bin/python3", "/usr/bin/python3"): True,
        ("bin/python", "/usr/local/bin/python3.12"): True,
        (".venv/bin/python3", "/usr/bin/../../etc/python3"): False,
        (".venv/bin/python3", "/usr/bin/git"): False,
        ("data", "/usr/bin/python3"): False,
    }
    assert {k: POLICY.allows_link(*k) for k in links} == links


@given(st.text(max_size=40))
def test_normalising_is_idempotent_and_keeps_the_number_of_names(path: str) -> None:
    once = normal(path)
    assert normal(once) == once
    assert once.count("/") == max(0, len([p for p in path.split("/") if p]) - 1)


@given(
    st.sampled_from(["devkit.config.json", ".devkit-waiver.yml", ".lockgate"]),
    st.lists(st.sampled_from(["\u200b", "\u2060", "\ufeff", "\u00ad"]), max_size=4),
    st.sampled_from(["", ".", " ", ". .", "::$DATA", "::$data"]),
    st.booleans(),
    st.integers(0, 8),
)
def test_no_spelling_hides_a_governance_name(
    name: str, invisible: list[str], tail: str, upper: bool, at: int
) -> None:
    spelt = name[:at] + "".join(invisible) + name[at:]
    spelt = (spelt.upper() if upper else spelt) + tail
    assert POLICY.governance_of(f"x/{spelt}") is not None
