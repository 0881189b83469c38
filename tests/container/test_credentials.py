# SPDX-License-Identifier: Apache-2.0
"""A call works with a host that wants a login, and nothing of that login is ever in its cell."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from policy.credentials import Credential
from policy.model import Host, Network, Verdict
from sandbox.approvals.approver import yes
from sandbox.config.settings import Dirs
from sandbox.present import render
from sandbox.results import CallResult, Ending
from tests.container.code_host import CodeHost
from tests.container.lab import ME, REACHES, Lab, both_gates, git, remove_layers, repository
from tests.container.test_gateway import record
from tests.sandbox.network.tls_servers import TestAuthority

NAME, USER, SECRET = "code.example", "me", "s3cret-of-a-person"
CANARY = "a-word-that-is-in-a-file"
BASIC = base64.b64encode(f"{USER}:{SECRET}".encode()).decode()


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CodeHost]:
    """Return a code host with one repository, whose authority this host trusts."""
    authority = TestAuthority(tmp_path)
    monkeypatch.setattr("sandbox.network.trust.certificates", lambda: authority.certificate)
    made = CodeHost(tmp_path / "repositories", authority.context(NAME), USER, SECRET)
    git(tmp_path, "clone", "-q", "--bare", str(repository(tmp_path / "seed", ME)),
        str(made.root / "lib.git"))  # fmt: skip
    yield made
    made.close()


@pytest.fixture
def token(tmp_path: Path) -> Path:
    """Return the file of the secret, outside of every workspace."""
    place = tmp_path / "token"
    place.write_text(f"{SECRET}\n")
    place.chmod(0o600)
    return place


def right(host: CodeHost, token: Path, *credentials: dict[str, Any]) -> str:
    """Return what a plan is derived from that may reach the host, with credentials."""
    reached = Host(name=NAME, port=host.port, address="127.0.0.1")
    said = {"id": "code", "hosts": [f"{NAME}:{host.port}"], "secret": {"file": str(token)},
            "form": "basic", "user": USER, "push": ["agent/*"], "because": "ours"}  # fmt: skip
    added = tuple(Credential.model_validate({**said, **one}) for one in credentials)
    return REACHES + Network(hosts=(reached,), credentials=added).model_dump_json()


WORK = """
set -u
curl -sS -H 'Authorization: Bearer mine' $URL/api
git clone -q $URL/lib.git /tmp/lib && cd /tmp/lib && git log --oneline | wc -l
git commit -q --allow-empty -m x
git push -q origin HEAD:agent/x && echo pushed
git push -q origin HEAD:main 2>&1 | grep -c 'returned error: 403'
pip install -q --no-input --disable-pip-version-check --target /tmp/t -i $URL/simple/ demo-of-ours \
  && PYTHONPATH=/tmp/t python3 -c 'import demo_of_ours as d; print(d.WORD)'
rev <<<$CANARY >/tmp/canary
python3 - <<'END'
import glob, os
words = [os.environ[one][::-1].encode() for one in ("CANARY", "LOOK_FOR", "LOOK_TOO")]
found = dict.fromkeys(words, 0)
files = glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/cmdline")
for top in ("/home", "/tmp", "/run", os.getcwd()):
    for folder, _, names in os.walk(top):
        files += [os.path.join(folder, one) for one in names]
for path in files:
    try:
        with open(path, "rb") as file:
            text = file.read()
    except OSError:
        continue
    for word in words:
        found[word] += word in text
print(len(files) > 50, *found.values())
END
"""


def work(host: CodeHost) -> str:
    """Return the work; it has the words to look for backwards, so that it does not find itself."""
    words = {"CANARY": CANARY, "LOOK_FOR": SECRET, "LOOK_TOO": BASIC}
    given = {"URL": f"https://{NAME}:{host.port}", **{key: one[::-1] for key, one in words.items()}}
    return "\n".join([*(f"export {key}={one}" for key, one in given.items()), WORK])


def test_a_call_works_with_a_host_that_wants_a_login_and_never_sees_it(
    lab: Lab, host: CodeHost, token: Path
) -> None:
    without = lab.sh(f"curl -sSk https://{NAME}:{host.port}/api", derived_from=right(host, token))
    assert without.stdout == "who are you?"  # the control: it does want a login
    done = lab.sh(work(host), derived_from=right(host, token, {}))
    lines = done.stdout.splitlines()
    assert lines[0] == "hello, you sent Basic " + "*" * len(BASIC)
    assert lines[2] == "pushed"
    assert lines[3:] == ["1", "carried", "True 1 0 0"], done.stderr
    assert "`refs/heads/main`, for which the credential is not" in done.message
    assert "agent/x" in host.branches("lib.git")
    told = record(lab, done)
    assert told["credentials"]["code"] >= 8
    shown = render.record(lab.supervisor._record.store.call(done.id), "", "", "")
    assert f"credential   | `code`, in {told['credentials']['code']} requests" in shown
    files = [one for one in lab.dirs.state.rglob("*") if one.is_file()]
    assert any(b"code.example" in one.read_bytes() for one in files)
    for one in files:
        assert SECRET.encode() not in one.read_bytes()
        assert BASIC.encode() not in one.read_bytes()


def test_a_secret_that_cannot_be_read_is_said_and_nothing_goes_out(
    lab: Lab, host: CodeHost
) -> None:
    inside = lab.ws / "token"
    inside.write_text(SECRET)
    host.heard.clear()
    fetch = f"curl -sS https://{NAME}:{host.port}/api"
    done = lab.sh(fetch, derived_from=right(host, inside, {}))
    assert "the credential `code` cannot be read" in done.stdout
    assert "the credential `code` cannot be read" in done.message
    assert str(inside) not in done.stdout
    shown = render.record(lab.supervisor._record.store.call(done.id), "", "", "")
    assert f"`code`: `{inside}` lies in a workspace, where an agent could write it" in shown
    assert host.heard == []
    assert "credentials" not in record(lab, done)


POLICY = """
network:
  allow:
    - {{hosts: ["{name}:{port}"], programs: [git], address: 127.0.0.1, because: our code}}
  credentials:
    - id: code
      hosts: ["{name}:{port}"]
      secret: {{file: {token}}}
      form: basic
      user: me
      push: [agent/*]
      because: private repositories
"""


def test_a_push_is_asked_about_and_then_works_and_a_fetch_cannot_push(
    docker_client: Any, images: Any, run_id: str, tmp_path: Path, host: CodeHost, token: Path
) -> None:
    work = repository(tmp_path / "work", ME)
    git(work, "remote", "add", "origin", f"https://{NAME}:{host.port}/lib.git")
    dirs = Dirs.under(tmp_path / "lockgate").create()
    dirs.config.mkdir(parents=True, exist_ok=True)
    policy = POLICY.format(name=NAME, port=host.port, token=token)
    (dirs.config / "policy.yaml").write_text(policy)

    async def session() -> list[CallResult]:
        async with both_gates(dirs, work, run_id) as sh:
            push = "git push origin HEAD:refs/heads/agent/mine"
            asked = await sh(push)
            fetched = await sh("git fetch origin")
            done = await sh(push, yes)
            refused = await sh("git push origin HEAD:refs/heads/elsewhere", yes)
            return [asked, fetched, done, refused]

    asked, fetched, done, refused = asyncio.run(session())
    remove_layers(docker_client, dirs)
    assert (asked.verdict, asked.ending) == (Verdict.ASK, Ending.NOT_APPROVED)
    assert (fetched.verdict, fetched.exit_status) == (Verdict.REPORT, 0), fetched
    assert (done.verdict, done.exit_status) == (Verdict.ASK, 0), done
    assert refused.exit_status != 0
    assert "`refs/heads/elsewhere`, for which the credential is not" in refused.message
    assert [one for one in host.branches("lib.git") if one != "main"] == ["agent/mine"]
    lines = [json.loads(one) for one in (dirs.state / "audit.jsonl").read_text().splitlines()]
    used = {one["call"]: one.get("credentials") for one in lines if one["event"] == "network"}
    assert used[fetched.id] in ({"code": 2}, {"code": 4})  # whether there is anything to fetch
    assert used[refused.id] == {"code": 1}
