# SPDX-License-Identifier: Apache-2.0
"""The table of operations: every entry goes over the socket, and is carried out by whoever must."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import pytest

from policy.model import Workspace
from sandbox.agents.peer import Peer
from sandbox.agents.registry import Agent
from sandbox.audit.events.reading import record_of
from sandbox.audit.store import Store
from sandbox.calls.blocking import BlockingSupervisor
from sandbox.calls.supervisor import Supervisor
from sandbox.client.async_client import Client
from sandbox.client.blocking import BlockingClient
from sandbox.config.settings import Settings
from sandbox.errors import BadInput, SandboxError, UnknownRequest
from sandbox.host.dirs import Dirs
from sandbox.operations.methods import OF_SUPERVISOR
from sandbox.operations.reading import OF_PROCESS, REQUESTS, read_request
from sandbox.operations.requests import DiscardRequest, May, Request, ShutdownRequest
from sandbox.web.table import RESOURCES
from tests.fakes import FakeSupervisor, served
from tests.http_served import http_served
from tests.sandbox.fake_cell import FakeCell, FakePool

SAMPLES = {"str": "c1", "str | None": "a", "Sequence[str]": ("x", "y"), "int": 2, "bool": True,
           "int | None": 3, "float | None": 1.5, "Mapping[str, str]": {"A": "1"}}  # fmt: skip
OPERATIONS = pytest.mark.parametrize("op", sorted(REQUESTS))
SUPERVISORS = pytest.mark.parametrize("op", sorted(cast(Any, kind).op for kind in OF_SUPERVISOR))


def sample(op: str, *, whole: bool = False) -> Request[Any]:
    """Return a request with what it must have; `whole`: with all that it can have."""
    kind = REQUESTS[op]
    given = {
        each.name: SAMPLES[str(each.type)]
        for each in fields(kind)
        if whole or (each.default is MISSING and each.default_factory is MISSING)
    }
    return cast(Request[Any], kind(**given))


@pytest.fixture
def dirs() -> Iterator[Dirs]:
    with TemporaryDirectory(prefix="lg-") as folder:  # a short path: it holds a socket
        yield Dirs.under(Path(folder))


@OPERATIONS
@pytest.mark.parametrize("whole", [False, True])
def test_a_request_arrives_as_it_was_made(op: str, whole: bool) -> None:
    made = sample(op, whole=whole)
    message = json.loads(json.dumps(made.message()))
    assert read_request(op, {**message, "id": 1, "of a later version": None}) == made


@OPERATIONS
def test_a_request_without_what_it_must_have_is_refused(op: str) -> None:
    must = {
        each.name for each in fields(REQUESTS[op])
        if each.default is MISSING and each.default_factory is MISSING
    }  # fmt: skip
    for name in must:
        message = {**sample(op).message(), name: None}
        with pytest.raises(BadInput, match=f"`{name}` is not given as"):
            read_request(op, message)


@OPERATIONS
def test_the_server_carries_every_request_out(dirs: Dirs, op: str) -> None:
    made = sample(op)
    with served(dirs), BlockingClient(dirs) as client:
        try:
            value = client.ask(made)
        except SandboxError as error:
            assert not isinstance(error, UnknownRequest)
        else:
            made.read(value)


@SUPERVISORS
def test_supervisor_and_fake_know_every_request_of_a_supervisor(
    dirs: Dirs, op: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = FakePool(FakeCell([]))
    monkeypatch.setattr("sandbox.cells.pool.CellPool.connect", lambda *_: cast(Any, pool))
    monkeypatch.setattr("sandbox.calls.flow.live.stop_all", _refuse_to_stop)
    supervisor = Supervisor(dirs, workspaces=[Workspace("/w")], settings=Settings())
    for answers in (supervisor, FakeSupervisor()):
        try:
            asyncio.run(answers.request(sample(op)))
        except UnknownRequest:
            raise
        except (SandboxError, AttributeError):
            continue  # there is no such call, and the fake pool has no keeper


def _refuse_to_stop(*_: object, **__: object) -> None:
    raise BadInput("a test stops nothing")


def test_what_is_no_operation_is_refused() -> None:
    with pytest.raises(UnknownRequest):
        read_request("frob", {})
    with pytest.raises(UnknownRequest):
        asyncio.run(FakeSupervisor().request(ShutdownRequest()))


def test_every_client_and_supervisor_has_every_operation_as_a_method() -> None:
    names = {cast(Any, kind).op.replace("-", "_") for kind in OF_SUPERVISOR}
    for kind in (BlockingClient, Client, BlockingSupervisor, Supervisor):
        assert names <= set(dir(kind)), kind
    assert {cast(Any, kind).op for kind in (*OF_SUPERVISOR, *OF_PROCESS)} == set(REQUESTS)


def test_both_clients_give_what_the_supervisor_says(dirs: Dirs) -> None:
    async def ask(does: Callable[[Client], Any]) -> Any:
        async with Client(dirs) as client:
            return await does(client)

    with served(dirs), BlockingClient(dirs) as client:
        assert client.held() == asyncio.run(ask(lambda other: other.held()))
        assert client.undo_last(2) == asyncio.run(ask(lambda other: other.undo_last(2)))
        assert client.look_held("c1") == asyncio.run(ask(lambda other: other.look_held("c1")))


OVER_HTTP = {
    "peek": ("GET", "/v1/calls/{call}/output"),
    "end": ("POST", "/v1/calls/{call}/end"),
    "held": ("GET", "/v1/held"),
    "look-held": ("POST", "/v1/held/{call}/look"),
    "land": ("POST", "/v1/held/{call}/land"),
    "discard": ("POST", "/v1/held/{call}/discard"),
    "object": ("POST", "/v1/calls/{call}/object"),
    "undo": ("POST", "/v1/calls/{call}/undo"),
    "undo-last": ("POST", "/v1/undo-last"),
    "undo-chosen": ("POST", "/v1/undo-chosen"),
    "changed": ("GET", "/v1/changed"),
    "open-port": ("POST", "/v1/calls/{call}/ports/open"),
    "close-port": ("POST", "/v1/calls/{call}/ports/close"),
    "stop": ("POST", "/v1/stop"),
    "ps": ("GET", "/v1/agents"),
}
OF_OTHER_DOORS = {"warm", "ping", "hook", "shutdown"}
"""What prepares, or is about the process: of no use to who speaks HTTP."""
OF_ITS_OWN = {"peek", "stop", "ps"}
"""What HTTP answers with more than the supervisor says, or without one."""


def test_every_operation_is_reached_over_http_or_is_said_not_to_be() -> None:
    assert {*OVER_HTTP, *OF_OTHER_DOORS} == set(REQUESTS)
    assert set(OVER_HTTP.values()) <= {(one.method, one.path) for one in RESOURCES}


@pytest.mark.parametrize("op", sorted(set(OVER_HTTP) - OF_ITS_OWN))
def test_an_operation_over_http_is_the_same_request_with_the_same_result(
    dirs: Dirs, op: str
) -> None:
    seen: list[Request[Any]] = []

    class Noting(FakeSupervisor):
        async def request(self, request: Request[Any], *, by: str | None = None) -> Any:
            seen.append(request)
            return await super().request(request, by=by)

    record = {"event": "decided", "call": "c1", "agent": "main", "tool": "Bash", "verdict": "allow"}
    Store(dirs.create()).append(record_of({**record, "plan": {}}), durable=False)
    made = sample(op, whole=True)
    method, path = OVER_HTTP[op]
    said = {key: value for key, value in made.message().items() if f"{{{key}}}" not in path}
    said.pop("op")
    path = path.format(call=made.named_call())
    with served(dirs, Noting()), http_served(dirs) as http:
        if method == "GET":
            with http.over_loopback() as client:
                answer = client.get(path, params=said)
        else:
            answer = http.ask(method, path, said)
        assert answer.status_code == 200, answer.text
        with BlockingClient(dirs) as plain:
            assert answer.json() == plain.ask(made)
    assert seen == [made, made]


class AgentsPeer(Peer):
    """A connection of agent `a`."""

    def __init__(self) -> None:
        pass

    def agent(self) -> Agent | None:
        return cast(Agent, type("A", (), {"id": "a1", "path": "a"})())


@OPERATIONS
def test_an_agent_makes_the_requests_that_it_may(op: str) -> None:
    made, peer = sample(op, whole=True), AgentsPeer()
    if made.who_may() is May.ANYBODY:
        peer.check(made, lambda: None)
        return
    for owner in (None, "b", "a:x") if made.who_may() is May.PERSON else (None, "b"):
        with pytest.raises(BadInput):
            peer.check(made, lambda owner=owner: owner)  # type: ignore[misc]
    if made.who_may() is May.ITS_OWN:
        peer.check(made, lambda: "a:x")


def test_what_a_request_about_a_call_names_is_known() -> None:
    assert DiscardRequest("c1").named_call() == "c1"
    assert all(
        sample(op).named_call() is not None
        for op in REQUESTS
        if sample(op).who_may() is May.ITS_OWN
    )
