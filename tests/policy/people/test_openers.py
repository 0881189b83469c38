# SPDX-License-Identifier: Apache-2.0
"""A call that wanted a host in vain says which, and the words that open it."""

from __future__ import annotations

from typing import Any

import pytest

from policy.gate1.decide import Policy, decide
from policy.model import ActionPlan, Context, Host, Params, Workspace
from policy.people.approval import with_hosts
from policy.people.openers import names_wanted, say_opener
from policy.people.shortfall import explain_failure
from policy.protected.paths import PathPolicy
from policy.sources.document import read_document
from policy.sources.precedence import Layer, Source, combine

CONTEXT = Context((Workspace("/w"),), home="/home/u")

PRINTED = {
    "curl: (6) Could not resolve host: api.example.com": ("api.example.com",),
    "npm ERR! request failed, reason: getaddrinfo EAI_AGAIN registry.example.com": (
        "registry.example.com",
    ),
    "HTTPSConnectionPool(host='a.example.com', port=443): Max retries": ("a.example.com",),
    "dial tcp: lookup proxy.example.com: no such host": ("proxy.example.com",),
    "wget: unable to resolve host address \u2018w.example.com\u2019": ("w.example.com",),
    "E: Temporary failure resolving 'deb.example.com'": ("deb.example.com",),
    "curl: (6) Could not resolve host: x.example.com; rm": ("x.example.com",),
    "Could not resolve host: 127.0.0.1": (),
    "Could not resolve host: localhost": (),
    "read about host names": (),
}


@pytest.mark.parametrize("text, names", PRINTED.items(), ids=PRINTED)
def test_names_are_read_off_what_programs_print(text: str, names: tuple[str, ...]) -> None:
    assert names_wanted("", text) == names
    assert names_wanted(text, "") == names


def said(
    command: str,
    *,
    env: bool = False,
    background: bool = False,
    names: tuple[str, ...] = ("api.example",),
    **fields: Any,
) -> str:
    """Return what opens api.example for a call, about which was decided as about `main`'s."""
    params = Params(command=command, run_in_background=background)
    plan = ActionPlan(tool="Bash", params=params, workspace="/w")
    decision = decide(plan, CONTEXT, Policy.default())
    return say_opener(plan.model_copy(update=fields), decision, names, env=env)


def test_the_words_are_those_of_a_grant_for_exactly_this_call() -> None:
    grant = "`lockgate grant --host api.example -w /w"
    assert said("python3 fetch.py") == f"{grant} -- 'python3 fetch.py'` opens it for this command"
    assert said("python3 x.py", cwd="/w/sub", agent="two", role="Coder").startswith(
        f"{grant} --cwd /w/sub --agent two --role Coder -- 'python3 x.py'`"
    )
    assert said("python3 x.py; echo 'a b'").endswith(
        """'"'"'a b'"'"''` opens it for this command"""
    )
    assert said("python3 x.py " + "a" * 400).endswith("-- COMMAND` opens it for this command")


def test_a_host_that_no_program_named_is_left_to_be_filled_in() -> None:
    assert said("python3 fetch.py", names=()).startswith("`lockgate grant --host NAME -w ")


def test_where_no_grant_would_help_other_words_stand() -> None:
    asks = "write the host out in the command, and a person's yes opens it"
    assert said("curl $URL") == asks
    rest = "a command that names the host is asked about, and `network` in a policy file opens it"
    assert said("python3 fetch.py", env=True) == rest
    assert said("python3 fetch.py", background=True) == rest
    assert said("cat a.txt") == rest


def test_a_failure_names_the_host_and_its_grant() -> None:
    text = "curl: (6) Could not resolve host: api.example"
    told = explain_failure(6, "", text, opener=lambda names: f"open {names[0]}")
    assert told == "this call has no network, and wanted `api.example`: open api.example"
    text = "urlopen error [Errno -3] Temporary failure in name resolution"
    told = explain_failure(1, "", text, opener=lambda names: f"open {names}")
    assert told == "this call has no network, and does not say which host it wanted: open ()"
    assert explain_failure(0, "", text, opener=lambda names: "x") == ""


def test_hosts_are_opened_for_calls_that_run_unasked_in_a_layer() -> None:
    hosts = (Host(name="api.example", port=443),)

    def reach(command: str) -> str:
        plan = ActionPlan(tool="Bash", params=Params(command=command), workspace="/w")
        return with_hosts(decide(plan, CONTEXT, Policy.default()), hosts).rights.network.words()

    assert reach("python3 fetch.py") == "api.example:443"
    assert reach("pip install six") == "the package index of pip, api.example:443"
    for other in ("cat a.txt", "curl https://b.example/", "rm -rf /"):
        assert "api.example" not in reach(other)


def test_a_host_that_is_opened_later_gets_no_credential() -> None:
    """Neither does a card name hosts of a credential that its call cannot reach."""
    text = """
network:
  allow:
    - {hosts: [a.example], programs: [python3], because: our code}
  credentials:
    - id: code
      hosts: [a.example, b.example]
      secret: {variable: TOKEN}
      form: bearer
      because: ours
    - id: index
      hosts: [b.example, index.example]
      secret: {variable: TOKEN}
      form: bearer
      programs: [pip]
      because: ours
"""
    source = Source(Layer.USER, read_document(text, "policy.yaml"))
    policy = combine(Policy.default(), PathPolicy.default(), [source]).policy

    def hosts_of(command: str) -> list[tuple[str, tuple[str, ...]]]:
        plan = ActionPlan(tool="Bash", params=Params(command=command), workspace="/w")
        decision = decide(plan, CONTEXT, policy)
        opened = with_hosts(decision, (Host(name="b.example", port=443),))
        assert any(one.name == "b.example" for one in opened.rights.network.hosts)
        before, after = decision.rights.network, opened.rights.network
        return [
            *((one.id, one.hosts) for one in before.credentials),
            *((one.id, one.hosts) for one in after.credentials),
        ]

    assert hosts_of("python3 fetch.py") == [("code", ("a.example:443",))] * 2
    assert hosts_of("pip install six") == [
        ("index", ("b.example:443", "index.example:443")),
        ("index", ("index.example:443",)),
    ]
