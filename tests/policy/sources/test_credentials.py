# SPDX-License-Identifier: Apache-2.0
"""Which calls may use a credential, as a person's own file says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from policy.gate1.decide import Policy
from policy.model import Network, Verdict
from policy.protected.paths import PathPolicy
from policy.rules.reach import NetworkRules
from policy.sources.document import read_document
from policy.sources.precedence import Layer, Source, combine
from policy.values.strict_yaml import PolicyError
from sandbox.present.card import card
from tests.policy.sources.test_network_rights import asked

POLICY = Policy.default()
FETCHED = """
network:
  allow:
    - {hosts: [code.example], programs: [git], because: our code}
  credentials:
    - id: code
      hosts: [code.example]
      secret: {command: [gh, auth, token]}
      form: basic
      user: me
      push: [agent/*]
      because: private repositories
    - id: index
      hosts: [index.example]
      secret: {file: ~/token}
      form: bearer
      programs: [pip, npm]
      because: our packages
"""


def with_file(text: str, layer: Layer = Layer.USER, *, trusted: bool = True) -> Any:
    """Return what a policy file amounts to."""
    source = Source(layer, read_document(text, "policy.yaml"), trusted)
    return combine(POLICY, PathPolicy.default(), [source])


def added(command: str, text: str = FETCHED) -> list[str]:
    """Return what a command may use, in words."""
    network = asked(command, with_file(text).policy).rights.network
    return [one.words() for one in network.credentials]


READS = "`code` (GET, HEAD, git fetch)"
PUSHES = "`code` (GET, HEAD, git fetch; push to agent/*)"
INDEX = "`index` (GET, HEAD)"
USES = {
    "git clone https://code.example/team/lib.git": [READS],
    "git push https://code.example/team/lib.git x:agent/x": [PUSHES],
    "git fetch https://code.example/x; git push https://code.example/x": [PUSHES],
    "curl https://code.example/api": [READS],
    "curl https://other.example/api": [],
    "curl https://code.example:8443/api": [],
    "curl https://index.example/simple": [],
    "pip install six": [INDEX],
    "pip install -i https://index.example/simple six": [INDEX],
    "pip install six && pytest": [],
    "pytest": [],
}


@pytest.mark.parametrize("command, uses", USES.items(), ids=USES)
def test_a_call_uses_a_credential_for_hosts_that_it_may_reach(
    command: str, uses: list[str]
) -> None:
    assert added(command) == uses


def test_it_opens_no_host_and_lowers_no_verdict() -> None:
    only = "network:" + FETCHED[FETCHED.index("\n  credentials") :]
    for command in ("git push https://code.example/x", "curl https://code.example", "git status"):
        with_it, without = asked(command, with_file(only).policy), asked(command)
        assert with_it.verdict is without.verdict
        assert with_it.rights.network.hosts == without.rights.network.hosts
    assert asked("git push https://code.example/x", with_file(FETCHED).policy).verdict is (
        Verdict.ASK
    )


def test_a_person_is_shown_it() -> None:
    decision = asked("git push https://code.example/x", with_file(FETCHED).policy)
    shown = card({"params": {"command": "git push"}}, decision.model_dump(mode="json"))
    told = f"with {PUSHES} for code.example:443, from the command `gh auth token`"
    assert told in shown.replace("\n               | ", "")


@pytest.mark.parametrize("trusted", [True, False])
def test_no_file_of_a_workspace_brings_one(trusted: bool) -> None:
    effective = with_file(FETCHED, Layer.WORKSPACE, trusted=trusted)
    assert effective.policy.network.credentials == ()
    told = [one for one in effective.ignored if "network.credentials" in one]
    assert len(told) == 1
    assert "in a workspace's file, trusted or not; it counts in your own" in told[0]
    assert bool(effective.policy.network.allow) == trusted
    assert len(with_file(FETCHED).policy.network.credentials) == 2


def test_rights_hold_it_and_meet_in_what_is_alike() -> None:
    network = asked("git push https://code.example/x", with_file(FETCHED).policy).rights.network
    assert Network.model_validate(network.model_dump(mode="json")) == network
    assert network.meet(network) == network
    (one,) = network.credentials
    narrower = one.model_copy(update={"push": ()})
    other = network.model_copy(update={"credentials": (narrower,)})
    assert network.meet(other).credentials == ()
    assert "credentials" not in Network(packages=("pip",)).model_dump(mode="json")


WRONG: dict[str, dict[str, Any]] = {
    "no source": {"secret": {}},
    "two sources": {"secret": {"variable": "A", "file": "/a"}},
    "a path that is relative": {"secret": {"file": "token"}},
    "a pattern": {"hosts": ["*.code.example"]},
    "an address": {"hosts": ["10.0.0.1"]},
    "basic without a user": {"form": "basic"},
    "a user without basic": {"user": "me"},
    "git's helpers with another form": {"secret": {"git": True}},
    "a header that is none": {"form": "header", "header": "A: b"},
    "a header that frames": {"form": "header", "header": "Transfer-Encoding"},
    "no header": {"form": "header"},
    "a method that is none": {"methods": ["get it"]},
    "a path that goes up": {"paths": ["/team/../other"]},
    "a path that is encoded": {"paths": ["/team%2f"]},
    "a branch that is none": {"push": ["a b"]},
    "a word that nobody knows": {"token": "abc"},
    "an id that is none": {"id": "A B"},
}


def test_a_file_that_says_what_cannot_be_is_refused() -> None:
    right = {"id": "code", "hosts": ["code.example"], "secret": {"variable": "TOKEN"},
             "form": "bearer", "because": "x"}  # fmt: skip
    assert len(NetworkRules.model_validate({"credentials": [right]}).credentials) == 1
    for wrong in WRONG.values():
        with pytest.raises(ValueError, match=r"."):
            NetworkRules.model_validate({"credentials": [{**right, **wrong}]})
    with pytest.raises(ValueError, match="same `id`"):
        NetworkRules.model_validate({"credentials": [right, right]})
    twice = replace(with_file(FETCHED).policy)
    again = Source(Layer.ADMINISTRATOR, read_document(FETCHED, "admin.yaml"), True)
    with pytest.raises(PolicyError, match="same `id`"):
        combine(twice, PathPolicy.default(), [again])
