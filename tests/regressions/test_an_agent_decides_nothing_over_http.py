# SPDX-License-Identifier: Apache-2.0
"""A token in the hands of an agent's process approves, lands and grants nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox.agents.registering import register
from sandbox.agents.registry import Registry
from sandbox.approvals.pregrant import of_command
from sandbox.approvals.store.grants import Grants
from sandbox.approvals.store.request import Request
from sandbox.audit.events.reading import record_of
from sandbox.audit.store import Store
from sandbox.host.dirs import Dirs
from sandbox.host.latch import Latch
from sandbox.workspaces.registry import Registry as Workspaces
from tests.fakes import FakeSupervisor, served
from tests.http_served import HttpServed, http_served
from tests.sandbox.shells import ROOT

CLIENT = """
import http.client, json, os, socket, sys

way, place, token, method, path, body = sys.argv[1:]
sys.stdin.readline()
if way == "socket":
    line = http.client.HTTPConnection("lockgate")
    line.sock = socket.socket(socket.AF_UNIX)
    line.sock.connect(place)
else:
    line = http.client.HTTPConnection(place)
    line.connect()
if way == "child":  # whoever holds the connection was started by the agent
    if os.fork():
        os.wait()
        os._exit(0)
head = {"Authorization": "Bearer " + token}
if method == "POST":
    head["Content-Type"] = "application/json"
line.request(method, path, body if method == "POST" else None, head)
said = line.getresponse()
print(json.dumps([said.status, said.read().decode()]), flush=True)
"""


@pytest.fixture
def dirs(tmp_path: Path) -> Dirs:
    return Dirs.under(tmp_path / "l").create()


@pytest.fixture
def fake(dirs: Dirs) -> FakeSupervisor:
    for call, agent in (("mine", "a"), ("its", "a:x"), ("another", "b")):
        record = {"event": "decided", "call": call, "agent": agent, "tool": "Bash"}
        Store(dirs).append(record_of({**record, "verdict": "allow", "plan": {}}), durable=False)
    return FakeSupervisor()


@pytest.fixture
def http(dirs: Dirs, fake: FakeSupervisor, tmp_path: Path) -> Iterator[HttpServed]:
    (tmp_path / "w").mkdir()
    Workspaces(dirs).add(tmp_path / "w", approved=True)
    with served(dirs, fake), http_served(dirs) as one:
        yield one


def said(
    http: HttpServed,
    request: tuple[str, str, Any],
    *,
    agent: str | None,
    way: str = "loopback",
    stopped: bool = False,
) -> tuple[int, Any]:
    """Return what a program with the token is answered that belongs to `agent`, or to nobody's."""
    method, path, body = request
    place = str(http.dirs.web_socket) if way == "socket" else http.url.removeprefix("http://")
    words = [sys.executable, "-c", CLIENT, way, place, http.token, method, path, json.dumps(body)]
    pipe = subprocess.PIPE
    env = {"PATH": os.environ["PATH"]}
    with subprocess.Popen(words, env=env, stdin=pipe, stdout=pipe, text=True, cwd=ROOT) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        with subprocess.Popen(["sleep", "60"]) as other:
            watched = process.pid if agent is not None else other.pid
            try:
                one = register(http.dirs, watched, name=agent or "other", source="test")
                if stopped:
                    Latch(http.dirs).set("a test")
                process.stdin.write("\n")
                process.stdin.flush()
                status, text = json.loads(process.stdout.readline())
                Registry(http.dirs).remove(one)
            finally:
                other.kill()
                process.kill()
    return status, json.loads(text)


def question(http: HttpServed) -> Request:
    place = Workspaces(http.dirs).list()[0].path
    return of_command(
        http.dirs, ["rm old"], workspace=place, agent="main", role=None, cwd=None, here=None
    )


WAYS = ("loopback", "socket", "child")


@pytest.mark.parametrize("way", WAYS)
def test_an_agent_approves_nothing(http: HttpServed, way: str) -> None:
    asked = question(http)
    request = ("POST", f"/v1/approvals/{asked.call}/approve", {"digest": asked.wanted.digest})
    status, answer = said(http, request, agent="a", way=way)
    assert (status, answer["kind"]) == (403, "PersonsDecision")
    assert "this is agent `a`" in answer["message"]
    assert Grants(http.dirs).asked(asked.call).state == "open"
    assert said(http, request, agent=None, way=way)[0] == 200
    assert Grants(http.dirs).asked(asked.call).state == "approved"


PERSONS = {
    "deny": ("POST", "/v1/approvals/c1/deny", {}),
    "see a card": ("GET", "/v1/approvals/c1", None),
    "grant": ("POST", "/v1/grants", {"command": "rm x", "workspace": "/w"}),
    "revoke": ("DELETE", "/v1/grants/g1", None),
    "count a report as told": ("POST", "/v1/reports/told", {"calls": ["c1"]}),
    "land": ("POST", "/v1/held/mine/land", {"digest": "1" * 64}),
    "be shown what is held": ("POST", "/v1/held/mine/look", {}),
    "object": ("POST", "/v1/calls/mine/object", {}),
    "undo the last ones": ("POST", "/v1/undo-last", {"count": 1}),
    "open a port": ("POST", "/v1/calls/mine/ports/open", {"port": 80, "host_port": 8080}),
    "undo several": ("POST", "/v1/undo-chosen", {"agent": "a"}),
}


@pytest.mark.parametrize("request_", PERSONS.values(), ids=PERSONS)
def test_what_is_a_persons_is_refused_to_an_agent(
    http: HttpServed, fake: FakeSupervisor, request_: tuple[str, str, Any]
) -> None:
    status, answer = said(http, request_, agent="a")
    assert (status, answer["kind"]) == (403, "PersonsDecision")
    assert not fake.done
    assert http.ask(*request_).status_code != 403


def test_an_agent_ends_no_stop(http: HttpServed) -> None:
    request: tuple[str, str, Any] = ("POST", "/v1/resume", {})
    status, answer = said(http, request, agent="a", stopped=True)
    assert (status, answer["kind"]) == (403, "PersonsDecision")
    assert Latch(http.dirs).read() is not None
    assert http.ask(*request).json() == {"resumed": True}


@pytest.mark.parametrize("what", ["calls/{}/undo", "held/{}/discard", "calls/{}/end"])
def test_an_agent_takes_back_its_own_calls_alone(
    http: HttpServed, fake: FakeSupervisor, what: str
) -> None:
    op = what.rpartition("/")[2]
    body: dict[str, Any] = {}
    for call in ("mine", "its"):
        request = ("POST", f"/v1/{what.format(call)}", body)
        assert said(http, request, agent="a")[0] == 200
        assert f"{op} {call}" in fake.done
    if op == "undo":
        assert fake.asked_by == "a"  # it is judged as an agent's undo
    fake.done.clear()
    status, answer = said(http, ("POST", f"/v1/{what.format('another')}", body), agent="a")
    assert status == 400
    assert "calls of its own alone" in answer["message"]
    assert not fake.done
    assert http.ask("POST", f"/v1/{what.format('another')}", body).status_code == 200
    assert fake.asked_by is None


def test_an_agents_call_is_that_agents(http: HttpServed, fake: FakeSupervisor) -> None:
    place = Workspaces(http.dirs).list()[0].path
    call = {"command": "land", "workspace": place}
    for name, wanted in (("main", "a"), ("x", "a:x")):
        assert said(http, ("POST", "/v1/calls", {**call, "agent": name}), agent="a")[0] == 200
        assert fake.plans[-1].agent == wanted
    assert said(http, ("POST", "/v1/calls", {**call, "agent": "x"}), agent=None)[0] == 200
    assert fake.plans[-1].agent == "x"
