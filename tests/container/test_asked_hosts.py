# SPDX-License-Identifier: Apache-2.0
"""P4: a host without right is reached by a person's yes alone, while its connection waits."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from policy.model import ActionPlan, Host, Params, Workspace
from policy.people.approval import Scope, opening_now
from sandbox.approvals.answers import card_of
from sandbox.approvals.approver import nobody
from sandbox.approvals.desk import waiting
from sandbox.approvals.store.grants import Grants
from sandbox.approvals.store.request import Request, Terms
from sandbox.calls.supervisor import Supervisor
from sandbox.config.settings import AskHosts, Dirs, NetworkSettings, Settings
from sandbox.containers.images import Images
from sandbox.containers.plan import LABEL_TEST
from sandbox.errors import BadInput
from sandbox.network.book import ASKED_NAMES
from sandbox.present import render
from sandbox.results import CallResult, Ending
from tests.container.test_gateway import CANARY, Server

pytestmark = pytest.mark.docker
T = TypeVar("T")
WAIT_SECONDS = 120.0
NAME, OTHER = "api.lockgate.example", "other.lockgate.example"
FETCH = """
import sys, urllib.request
for name in sys.argv[1:]:
    try:
        print(name, urllib.request.urlopen(f"http://{name}:{PORT}/x", timeout=100).read().decode())
    except OSError as error:
        print(name, type(error).__name__)
"""

HOSTILE = """
import json, socket
out = {}
def tried(name, work):
    try:
        out[name] = work()
    except OSError as error:
        out[name] = type(error).__name__
def sent(address, host):
    with socket.create_connection(address, timeout=100) as s:
        s.sendall(f"GET /x HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n".encode())
        got = b""
        while more := s.recv(1000):
            got += more
        return got.decode().rsplit("\\r\\n", 1)[-1]
def resolved(name):
    try:
        return socket.gethostbyname(name)
    except OSError:
        return ""
place = resolved(NAME)
tried("a place that nobody asked for", lambda: sent(("127.1.0.2", PORT), "n1.lockgate.example"))
names = [resolved(f"n{number}.lockgate.example") for number in range(40)]
out["names"] = sum(map(bool, names))
out["odd names"] = [one for one in ODD if resolved(one)]
tried("another port", lambda: sent((place, 22), NAME))
tried("another Host", lambda: sent((place, PORT), OTHER))
tried("an address", lambda: sent((place, PORT), "127.0.0.1"))
tried("a Host with more", lambda: sent((place, PORT), NAME + ".evil.example"))
print(json.dumps(out), flush=True)
print(sent((place, PORT), NAME))
"""
ODD = ("6c65616b65642d6461746131." * 3 + "example", "printer.local", "db", "nosuch.invalid")


class House:
    """A supervisor that asks about hosts, its questions, and a server on this host's loopback."""

    def __init__(self, root: Path, run_id: str, server: Server) -> None:
        self.work = root / "work"
        self.work.mkdir()
        (self.work / "fetch.py").write_text(FETCH.replace("PORT", str(server.port)))
        self.dirs = Dirs.under(root / "lockgate").create()
        self.grants = Grants(self.dirs)
        self.server = server
        self._settings = Settings(network=NetworkSettings(ask=AskHosts.WAIT), call_seconds=60)
        self._labels = {LABEL_TEST: run_id}

    @contextlib.asynccontextmanager
    async def supervised(self) -> AsyncIterator[Supervisor]:
        """Start the supervisor."""
        made = Supervisor(
            self.dirs,
            workspaces=[Workspace(str(self.work))],
            settings=self._settings,
            labels=self._labels,
        )
        async with asyncio.timeout(WAIT_SECONDS), made as supervisor:
            yield supervisor

    def plan(self, *names: str) -> ActionPlan:
        """Return the plan of a script of the project that wants hosts."""
        params = Params(command=f"python3 fetch.py {' '.join(names)}")
        return ActionPlan(tool="Bash", params=params, workspace=str(self.work))

    async def questions(self, count: int = 1) -> list[Request]:
        """Return the questions, once so many wait."""
        while len(found := self.grants.open_questions(time.time())) < count:
            await asyncio.sleep(0.05)
        return [one.request for one in found]

    def approve(self, request: Request, terms: Terms | None = None, name: str = "") -> None:
        """Say yes, as a person whose service is on this host: outside of it there is none here."""
        assert request.reach is not None
        terms = terms or Terms()
        host = Host(name=name or request.reach.host.name, port=self.server.port,
                    address="127.0.0.1")  # fmt: skip
        call = request.reach.call if terms.scope is Scope.EXACT else ""
        opens = opening_now(request.plan, host, call)
        given = _Given(terms.scope, terms.uses, terms.seconds, opens=opens)
        self.grants.approve(request, given, by="me", reason="", now=time.time())

    def told(self, *events: str) -> list[dict[str, Any]]:
        """Return the records of these kinds."""
        lines = (self.dirs.state / "audit.jsonl").read_text().splitlines()
        return [one for one in map(json.loads, lines) if one["event"] in events]


class _Given(Terms):
    """Terms whose opening says where the host is."""

    def _opens(self, request: Request) -> Any:
        return self.opens


@pytest.fixture
def server() -> Iterator[Server]:
    one = Server()
    yield one
    one.close()


@pytest.fixture
def house(
    images: Images, tmp_path: Path, run_id: str, server: Server, monkeypatch: pytest.MonkeyPatch
) -> House:
    monkeypatch.setattr("sandbox.network.gateway.ASKED_PORTS", (server.port,))

    return House(tmp_path, run_id, server)


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def test_a_connection_waits_for_a_persons_yes_which_opens_that_host_alone(house: House) -> None:
    async def go() -> tuple[CallResult, Request]:
        async with house.supervised() as supervisor:
            call = asyncio.create_task(
                supervisor.call(house.plan(NAME, NAME, OTHER), approver=waiting)
            )
            [first] = await house.questions()
            assert not house.server.heard
            house.approve(first)
            while len(house.server.heard) < 2:  # the second needs no word more
                await asyncio.sleep(0.05)
            [second] = await house.questions()
            house.approve(second, name=NAME)  # a yes that names another host opens nothing
            done = await call
            shown = render.record(supervisor._record.store.call(done.id), "", "", "")
            assert "opened       | " + f"{NAME}:{house.server.port} by me, grant g" in shown
            assert f"not opened   | {OTHER}:{house.server.port} by me" in shown
            return done, first

    done, first = run(go())
    assert done.ending is Ending.RAN
    lines = done.stdout.splitlines()
    assert lines[:2] == [f"{NAME} {CANARY}"] * 2
    assert lines[2].startswith(f"{OTHER} ")
    assert CANARY not in lines[2]
    assert house.server.heard == [f"{NAME}:{house.server.port} /x"] * 2
    assert f"`{OTHER}:{house.server.port}`" in done.message
    card = card_of(first)
    assert f"{NAME}, port {house.server.port}" in card
    assert f"{done.id}, which runs and waits" in card
    opened, refused = house.told("host-opened", "host-refused")
    assert (opened["call"], opened["host"], opened["by"]) == (done.id, NAME, "me")
    assert opened["question"] == first.call != done.id
    assert refused["hosts"][0]["grant"] == opened["grant"]
    asked = house.told("asked")
    assert [(one["of"], one["host"]) for one in asked] == [(done.id, NAME), (done.id, OTHER)]
    assert house.grants.open_questions(time.time()) == []


def test_what_names_no_host_to_ask_about_is_no_question(house: House) -> None:
    """The positive control is the last connection of the same program."""
    head = f"NAME, OTHER, PORT, ODD = {NAME!r}, {OTHER!r}, {house.server.port}, {ODD!r}\n"
    (house.work / "hostile.py").write_text(head + HOSTILE)
    plan = house.plan().model_copy(update={"params": Params(command="python3 hostile.py")})

    async def go() -> CallResult:
        async with house.supervised() as supervisor:
            call = asyncio.create_task(supervisor.call(plan, approver=waiting))
            [asked] = await house.questions()
            house.approve(asked)
            return await call

    first, last = run(go()).stdout.splitlines()
    found = json.loads(first)
    assert (found.pop("names"), found.pop("odd names")) == (ASKED_NAMES - 1, [])
    assert found.pop("another port") == "ConnectionRefusedError"
    assert len(found) == 4
    assert set(found.values()) <= {"", "ConnectionResetError"}
    assert last == CANARY
    assert house.server.heard == [f"{NAME} /x"]
    assert len(house.told("asked")) == 1


def test_a_no_is_said_and_counts_for_the_same_command_again(house: House) -> None:
    async def go() -> list[CallResult]:
        async with house.supervised() as supervisor:
            call = asyncio.create_task(supervisor.call(house.plan(NAME), approver=waiting))
            [asked] = await house.questions()
            house.grants.close(asked.call, "denied", by="her", reason="not there")
            return [await call, await supervisor.call(house.plan(NAME), approver=waiting)]

    for done in run(go()):
        assert f"a person refused `{NAME}:{house.server.port}`: not there" in done.message
        assert CANARY not in done.stdout
    assert house.server.heard == []
    assert len(house.told("asked")) == 1


def test_where_nobody_can_be_asked_the_name_does_not_exist(house: House) -> None:
    async def go() -> CallResult:
        async with house.supervised() as supervisor:
            return await supervisor.call(house.plan(NAME), approver=nobody)

    assert run(go()).stdout == f"{NAME} URLError\n"
    assert (house.told("asked"), house.server.heard) == ([], [])


def test_the_question_goes_away_with_its_call(house: House) -> None:
    async def go() -> None:
        async with house.supervised() as supervisor:
            call = asyncio.create_task(supervisor.call(house.plan(NAME), approver=waiting))
            [asked] = await house.questions()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert house.grants.asked(asked.call).state == "cancelled"
            with pytest.raises(BadInput, match="not open any more"):
                house.approve(asked)

    run(go())
    [told] = house.told("host-refused")
    assert told["because"] == "the call ended before anybody answered"
    assert house.grants.open_questions(time.time()) == []
    assert house.server.heard == []


def test_a_yes_for_the_command_counts_for_its_later_calls_and_is_on_record(house: House) -> None:
    async def go() -> tuple[CallResult, str]:
        async with house.supervised() as supervisor:
            call = asyncio.create_task(supervisor.call(house.plan(NAME), approver=waiting))
            [asked] = await house.questions()
            house.approve(asked, Terms(Scope.PROGRAM, 5, 600))
            assert CANARY in (await call).stdout
            again = await supervisor.call(house.plan(NAME), approver=nobody)
            return again, render.record(supervisor._record.store.call(again.id), "", "", "")

    again, shown = run(go())
    assert again.stdout == f"{NAME} {CANARY}\n"
    assert f"opened       | {NAME}:{house.server.port} by me, grant g" in shown
    assert len(house.told("asked")) == 1


def test_the_time_of_a_call_stands_still_while_a_person_is_asked(house: House) -> None:
    plan = house.plan(NAME)
    plan = plan.model_copy(update={"params": plan.params.model_copy(update={"timeout": 5000})})

    async def go() -> CallResult:
        async with house.supervised() as supervisor:
            call = asyncio.create_task(supervisor.call(plan, approver=waiting))
            [asked] = await house.questions()
            await asyncio.wait([call], timeout=5.5)
            assert not call.done()
            house.approve(asked)
            return await call

    assert CANARY in run(go()).stdout
