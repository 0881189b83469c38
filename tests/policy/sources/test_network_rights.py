# SPDX-License-Identifier: Apache-2.0
"""Which hosts a call may reach: by a person's file or yes, never by what an agent wrote."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy import hosts
from policy.gate1.decide import Policy, decide, wanted
from policy.model import ActionPlan, Context, Decision, Host, Network, Params, Verdict, Workspace
from policy.protected.paths import PathPolicy
from policy.rules.reach import NetworkRules
from policy.shell.state import Seen
from policy.sources.document import read_document
from policy.sources.precedence import Layer, Source, combine
from policy.values.strict_yaml import PolicyError
from sandbox.present.card import card

CONTEXT = Context((Workspace("/w"),), home="/home/u")
POLICY = Policy.default()
RULES = NetworkRules.model_validate(
    {
        "allow": [
            {"hosts": ["code.example", "*.corp.example:8443"], "programs": ["git"],
             "because": "our code", "private": True},
            {"hosts": ["api.example"], "programs": ["pytest"], "roles": ["Coder"],
             "workspaces": ["/w"], "because": "tests of the interface"},
        ]
    }
)  # fmt: skip


def asked(command: str, policy: Policy = POLICY, **fields: Any) -> Decision:
    """Return gate 1's answer on a command."""
    own = {key: fields.pop(key) for key in list(fields) if key in Params.model_fields}
    fields = {"cwd": "/w", **fields}
    plan = ActionPlan(tool="Bash", params=Params(command=command, **own), workspace="/w", **fields)
    return decide(plan, CONTEXT, policy)


def reach(command: str, policy: Policy = POLICY, **fields: Any) -> str:
    """Return what a command may reach, in words."""
    return asked(command, policy, **fields).rights.network.words()


INSTALLS = {
    "pip install six": "pip",
    "pip3 install -r requirements.txt": "pip",
    "python3 -m pip install six": "pip",
    "python3 -m venv .venv && .venv/bin/pip install six": "pip",
    ". .venv/bin/activate && pip install -e .": "pip",
    "sh -c 'python3 -m venv .venv && .venv/bin/pip install six'": "pip",
    "npm ci": "npm",
    "cd web && npm install left-pad": "npm",
    "npm i --save-dev typescript": "npm",
    "npm --prefix web ci": "npm",
    "time npm ci": "npm",
    "nice -n 5 npm ci": "npm",
    "timeout -k 5 10m npm ci": "npm",
    "env CI=1 npm ci": "npm",
    "CI=1 npm ci": "npm",
}


@pytest.mark.parametrize("command, client", INSTALLS.items(), ids=INSTALLS)
def test_an_install_by_itself_reaches_the_index_of_its_client(command: str, client: str) -> None:
    decision = asked(command)
    assert decision.verdict is Verdict.REPORT
    assert decision.rights.network == Network(packages=(client,))


BESIDE = (
    "pip install six; python3 evil.py",
    "pip install six && pytest",
    "sh -c 'pip install six; python3 evil.py'",
    "bash -c 'pip install six && ./tool'",
    'bash -c "pip install six; $WORK"',
    "sh -c 'pip install six' && sh build.sh",
    "bash --rcfile x -c 'pip install six'",
    "./sh -c 'pip install six'",
    "npm ci && node server.js",
    "npm ci && npm run x",
    "npm install && npm test",
    "npm run install",
    "npm --prefix web run ci",
    "timeout 60 npm run build",
    "env npm test",
    "nice ./npm ci",
    "env -S 'npm ci'",
    "timeout 60 npm ci && time pytest",
    "env npm ci ./tool; env ./tool",
    "npm ci & ./tool",
    "pip download six | sh",
    "pip download six | sh -c sh",
    "pip list",
    "npm run build",
    "npm test",
    "npx tsc",
    "python3 evil.py",
    "make",
    "ls",
    "python3 -c 'import pip'",
)


@pytest.mark.parametrize("command", BESIDE)
def test_what_is_no_install_or_does_more_reaches_nothing_unasked(command: str) -> None:
    decision = asked(command)
    assert decision.verdict is Verdict.ASK or not decision.rights.network


NAMED = {
    "curl https://api.example.com/v1": "api.example.com:443",
    "curl -sS http://api.example.com:8080/": "api.example.com:8080",
    "wget -q https://files.example.com/a.tgz": "files.example.com:443",
    "git clone https://me:secret@code.example.com/a/b.git": "code.example.com:443",
    "git fetch https://code.example.com/a/b.git main": "code.example.com:443",
    "git push git@code.example.com:a/b.git main": "code.example.com:22",
    "git push ssh://git@code.example.com:2222/a/b.git": "code.example.com:2222",
    "pip install -i https://other.example.com/simple six": "other.example.com:443",
    "pip install --index-url=http://other.example.com:8080/ six": "other.example.com:8080",
    "PIP_INDEX_URL=https://other.example.com/simple pip install six": "other.example.com:443",
    "env PIP_INDEX_URL=https://other.example.com/ pip install six": "other.example.com:443",
    "export PIP_INDEX_URL=https://other.example.com/; pip install six": "other.example.com:443",
    "pip install --no-index -f https://other.example.com/ six": "other.example.com:443",
    "npm ci --registry https://other.example.com": "other.example.com:443",
    "npm_config_registry=https://other.example.com/ npm ci": "other.example.com:443",
    "python3 -c \"import urllib.request as u; u.urlopen('https://a.example.com/v1')\"": (
        "a.example.com:443"
    ),
    "node -e \"fetch('https://api.example.com/v1').then(r => 1)\"": "api.example.com:443",
}


@pytest.mark.parametrize("command, words", NAMED.items(), ids=NAMED)
def test_a_person_is_asked_for_exactly_the_host_that_is_written_out(
    command: str, words: str
) -> None:
    decision = asked(command)
    assert decision.verdict is Verdict.ASK
    assert decision.rights.network.words() == words
    shown = card({"params": {"command": command}}, decision.model_dump(mode="json"))
    name, _, port = words.rpartition(":")
    assert f"may reach    | {name}, port {port}" in shown


def test_what_an_install_names_besides_is_opened_beside_the_index() -> None:
    index = "the package index of pip, other.example.com:443"
    for words in (
        "--extra-index-url https://other.example.com/simple six",
        "git+https://other.example.com/a/b.git",
        "'six @ https://other.example.com/six.whl'",
        "-r https://other.example.com/requirements.txt",
    ):
        assert reach(f"pip install {words}") == index
    assert asked("python3 -c \"print('https://api.example.com')\"").verdict is not Verdict.ASK


NAMELESS = (
    "pip install -i $INDEX six",
    "pip install -i https://127.0.0.1/ six",
    "npm ci --registry http://localhost:4873",
    "python3 -c \"import urllib.request as u; u.urlopen('http://127.0.0.1/')\"",
    'python3 -c "import urllib.request as u, sys; u.urlopen(sys.argv[1])" x',
    "curl http://127.0.0.1/",
    "curl http://2130706433/",
    "curl http://0x7f000001/",
    "curl http://0177.0.0.1/",
    "curl http://127.1/",
    "curl http://[::1]/",
    "curl http://localhost/",
    "curl http://x.localhost/",
    "curl http://169.254.169.254/",
    "curl https://$HOST/",
    "curl https://$(cat host)/",
    "curl 'https://a.example\\@b.example/'",
    "curl -x http://proxy.example https://a.example/",
    "curl --resolve a.example:443:127.0.0.1 https://a.example/",
    "git clone ext::id",
    "nc a.example 443",
)


@pytest.mark.parametrize("command", NAMELESS)
def test_what_has_no_plain_name_opens_nothing(command: str) -> None:
    decision = asked(command)
    assert not decision.rights.network
    shown = card({"params": {"command": command}}, decision.model_dump(mode="json"))
    assert "may reach" not in shown


CONFIG = """[core]
\tbare = false
[remote "origin"]
\turl = https://code.example.com/team/lib.git
\tfetch = +refs/heads/*:refs/remotes/origin/*
[remote "keys"]
\turl = git@code.example.com:team/lib.git
[remote "two"]
\turl = https://a.example.com/x
\turl = https://b.example.com/x
[remote "split"]
\turl = https://a.example.com/x
\tpushurl = https://push.example.com/x
[branch "main"]
\tremote = origin
"""


def followed(command: str, config: str = CONFIG, policy: Policy = POLICY) -> Decision:
    """Return gate 1's answer where the repository's settings are known."""
    disk = {"/w/.git/config": Seen(config)}
    plan = ActionPlan(tool="Bash", params=Params(command=command), workspace="/w", cwd="/w/sub")
    first = decide(plan, CONTEXT, policy)
    assert "/w/.git/config" in wanted(plan, first, CONTEXT, policy, {}) or first == decide(
        plan, CONTEXT, policy, disk
    )
    return decide(plan, CONTEXT, policy, disk)


REMOTES = {
    "git fetch": (Verdict.ASK, "code.example.com:443"),
    "git fetch origin main": (Verdict.ASK, "code.example.com:443"),
    "git pull --rebase origin main": (Verdict.ASK, "code.example.com:443"),
    "git push origin main": (Verdict.ASK, "code.example.com:443"),
    "git push split main": (Verdict.ASK, "push.example.com:443"),
    "git fetch split": (Verdict.ASK, "a.example.com:443"),
    "git push keys main": (Verdict.ASK, "code.example.com:22"),
    "git fetch keys": (Verdict.REPORT, "none"),  # no key is in a cell: a yes changes nothing
    "git fetch two": (Verdict.REPORT, "none"),
    "git fetch nobody": (Verdict.REPORT, "none"),
}


@pytest.mark.parametrize("command, found", REMOTES.items(), ids=REMOTES)
def test_the_host_of_a_remote_is_asked_for(command: str, found: tuple[Verdict, str]) -> None:
    decision = followed(command)
    assert (decision.verdict, decision.rights.network.words()) == found


@pytest.mark.parametrize(
    "more",
    ['[url "https://evil.example/"]\n\tinsteadOf = https://code.example.com/\n',
     "[include]\n\tpath = ../more\n", '[includeIf "gitdir:/w/"]\n\tpath = x\n'],
)  # fmt: skip
def test_settings_that_lead_elsewhere_are_not_followed(more: str) -> None:
    assert followed("git fetch", CONFIG + more) == asked("git fetch", cwd="/w/sub")


def test_what_a_rule_opens_is_not_asked_about() -> None:
    rule = {"hosts": ["code.example.com"], "programs": ["git"], "because": "ours"}
    policy = replace(POLICY, network=NetworkRules.model_validate({"allow": [rule]}))
    fetch = followed("git fetch", policy=policy)
    assert (fetch.verdict, fetch.rights.network.words()) == (
        Verdict.REPORT,
        "code.example.com:443",
    )
    assert followed("git push origin main", policy=policy).verdict is Verdict.ASK
    assert followed("git fetch split", policy=policy).verdict is Verdict.ASK


def test_a_rule_gives_its_hosts_to_its_programs_alone() -> None:
    policy = replace(POLICY, network=RULES)
    fetch = asked("git fetch", policy)
    assert fetch.verdict is asked("git fetch").verdict  # it lowers nothing
    assert fetch.rights.network.hosts == (
        Host(name="code.example", port=443, private=True),
        Host(name="*.corp.example", port=8443, private=True),
    )
    assert reach("git fetch && echo done", policy) == "code.example:443, *.corp.example:8443"
    assert reach("git fetch; python3 evil.py", policy) == "none"
    assert reach("python3 evil.py", policy) == "none"
    assert reach("git commit -m x", policy) == "none"  # its hooks may be anybody's
    assert reach("git commit -m x && git fetch", policy) == "none"
    assert reach("/usr/bin/git fetch", policy) != "none"
    for fake in ("node_modules/.bin/git", ".venv/bin/git", "./git"):
        assert reach(f"{fake} fetch", policy) == "none"
    assert reach("git fetch", policy, run_in_background=True) == "none"


def test_a_rule_may_be_for_roles_and_workspaces() -> None:
    policy = replace(POLICY, network=RULES)
    rule = RULES.allow[1]
    plan = ActionPlan(tool="Bash", workspace="/w", role="Coder")
    programs = frozenset(("pytest",))
    assert rule.of(plan, programs) == (Host(name="api.example", port=443),)
    assert rule.of(plan.model_copy(update={"role": None}), programs) == ()
    assert rule.of(plan.model_copy(update={"role": "Critic"}), programs) == ()
    assert rule.of(plan.model_copy(update={"workspace": "/x"}), programs) == ()
    assert reach("pip install six", policy, role="Researcher") == "none"


def test_an_agent_that_only_proposes_reaches_nothing() -> None:
    decision = asked("pip install six", agent="somebody-new")
    assert decision.landing.value == "proposal"
    assert not decision.rights.network


def document(text: str) -> Any:
    """Return a policy file."""
    return read_document(text, "policy.yaml")


FILE = """
network:
  allow:
    - hosts: [code.example]
      programs: [git]
      because: our code
"""


def test_a_file_that_nobody_trusts_opens_nothing() -> None:
    for layer, trusted, opened in (
        (Layer.USER, True, "code.example:443"),
        (Layer.WORKSPACE, True, "code.example:443"),
        (Layer.WORKSPACE, False, "none"),
    ):
        found = combine(POLICY, PathPolicy.default(), [Source(layer, document(FILE), trusted)])
        assert reach("git fetch", found.policy) == opened
        assert bool(found.ignored) is not trusted
        if found.ignored:
            assert "`network.allow` is ignored" in found.ignored[0]


def test_any_file_can_keep_installs_from_the_index() -> None:
    closed = Source(Layer.WORKSPACE, document("network: {packages: false}"), trusted=False)
    open_again = Source(Layer.USER, document("network: {packages: true}"))
    found = combine(POLICY, PathPolicy.default(), [closed, open_again])
    assert reach("pip install six", found.policy) == "none"
    assert reach("pip install six") != "none"


def test_the_example_of_the_page_is_a_policy_file() -> None:
    page = (Path(__file__).parents[3] / "docs/network.md").read_text()
    blocks = [text.split("```", 1)[0] for text in page.split("```yaml\n")[1:]]
    (example,) = (block for block in blocks if "  allow:" in block)
    rules = document(example).content.network
    assert [one.programs for one in rules.allow] == [("git",), ("pip", "npm"), ("pytest",)]


WRONG = {
    "an address": "hosts: [10.0.0.1]",
    "a number": "hosts: ['2130706433']",
    "this host": "hosts: [localhost]",
    "everything": "hosts: ['*']",
    "a whole domain": "hosts: ['*.com']",
    "a part of a label": "hosts: ['a*.example.com']",
    "a port that is none": "hosts: ['a.example:70000']",
    "an address of the web": "hosts: ['https://a.example/']",
    "no host": "hosts: []",
    "an address that is a name": "hosts: [a.example]\n      address: b.example",
    "one address for two names": "hosts: [a.example, b.example]\n      address: 10.0.0.1",
    "an address for a pattern": "hosts: ['*.a.example']\n      address: 10.0.0.1",
}


@pytest.mark.parametrize("text", WRONG.values(), ids=WRONG)
def test_a_rule_that_names_no_host_is_refused(text: str) -> None:
    with pytest.raises(PolicyError, match=r"policy\.yaml:\d+"):
        document(FILE.replace("hosts: [code.example]", text))


def test_a_rule_names_its_programs() -> None:
    with pytest.raises(PolicyError):
        document(FILE.replace("      programs: [git]\n", ""))


NAMES = {
    "a.example": "a.example",
    "A.Example.": "a.example",
    "a_b.example": "a_b.example",
    "xn--bcher-kva.example": "xn--bcher-kva.example",
    "wiki": "wiki",
    "localhost": None,
    "a.localhost": None,
    "": None,
    "-a.example": None,
    "a..example": None,
    "1.2.3.4": None,
    "0x7f.1": None,
    "a.1": None,
    "a example": None,
    "bücher.example": None,
    "a.example/": None,
    "a" * 64 + ".example": None,
}


@pytest.mark.parametrize("text, name", NAMES.items(), ids=NAMES)
def test_what_is_a_name(text: str, name: str | None) -> None:
    assert hosts.host_name(text) == name


labels = st.sampled_from(["a", "b", "*"])
patterns = st.lists(labels, min_size=1, max_size=3).map(lambda some: ".".join((*some, "x", "yz")))
concrete = st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=3).map(
    lambda some: ".".join((*some, "x", "yz"))
)


@given(patterns, patterns, concrete)
def test_what_two_patterns_have_in_common_is_what_both_cover(
    one: str, other: str, name: str
) -> None:
    both = hosts.common(one, other)
    covered = hosts.covers(one, name) and hosts.covers(other, name)
    assert covered == (both is not None and hosts.covers(both, name))


found_hosts = st.builds(
    Host,
    name=patterns,
    port=st.sampled_from([80, 443]),
    private=st.booleans(),
    address=st.sampled_from(["", "10.0.0.1", "10.0.0.2"]),
)
networks = st.builds(
    Network,
    packages=st.lists(st.sampled_from(["pip", "npm"]), unique=True).map(tuple),
    hosts=st.lists(found_hosts, max_size=3, unique=True).map(tuple),
)


def _within(one: Network, other: Network) -> bool:
    """Whether nothing can be reached by one that cannot be by the other."""
    return set(one.packages) <= set(other.packages) and all(
        any(
            hosts.common(host.name, wide.name) == host.name
            and host.port == wide.port
            and (wide.private or not host.private)
            and wide.address in ("", host.address)
            for wide in other.hosts
        )
        for host in one.hosts
    )


@given(networks, networks)
def test_what_two_rights_have_in_common_is_in_both(one: Network, other: Network) -> None:
    both = one.meet(other)
    assert _within(both, one)
    assert _within(both, other)
    assert one.meet(Network()) == Network()


@given(networks)
def test_a_right_is_written_and_read_again(one: Network) -> None:
    assert Network.model_validate_json(one.model_dump_json()) == one
    written: Any = one.model_dump(mode="json")
    assert bool(one) is (written != "none")
