# SPDX-License-Identifier: Apache-2.0
"""The door for HTTP: who is let in, what is refused and how, and what comes back."""

from __future__ import annotations

import errno
import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx2
import pytest

from sandbox.agents.registering import register
from sandbox.agents.registry import Registry as Agents
from sandbox.approvals.pregrant import of_command
from sandbox.approvals.store.grants import Grants
from sandbox.audit.events.reading import record_of
from sandbox.audit.store import Store
from sandbox.errors import Busy
from sandbox.host.dirs import Dirs
from sandbox.host.latch import Latch
from sandbox.web import tokens
from sandbox.web.doorway import MOST_BODY_BYTES
from sandbox.web.serving import serve_http
from sandbox.web.visitors import Wayfarer
from sandbox.workspaces.registry import Registry
from tests.fakes import ANOTHER_DIGEST, FakeSupervisor, served, wait_for
from tests.http_served import HttpServed, http_served
from tests.sandbox.shells import ROOT


@pytest.fixture(scope="module")
def fake() -> FakeSupervisor:
    return FakeSupervisor()


@pytest.fixture(scope="module")
def http(fake: FakeSupervisor) -> Iterator[HttpServed]:
    with TemporaryDirectory(prefix="lg-") as folder:  # a short path: it holds a socket
        dirs = Dirs.under(Path(folder) / "own").create()
        (Path(folder) / "project").mkdir()
        Registry(dirs).add(Path(folder) / "project", approved=True)
        with served(dirs, fake), http_served(dirs) as one:
            yield one


def place(http: HttpServed) -> str:
    return Registry(http.dirs).list()[0].path


def note(http: HttpServed, call: str, agent: str = "main", **fields: str) -> None:
    """Put a call on record."""
    record = {"event": "decided", "call": call, "agent": agent, "tool": "Bash", **fields}
    Store(http.dirs).append(record_of({**record, "verdict": "allow", "plan": {}}), durable=False)


def kind_of(answer: httpx2.Response) -> tuple[int, str]:
    """Return status and kind of a refusal, which has one shape whatever it is."""
    said = answer.json()
    assert set(said) == {"kind", "message", "instead"}
    assert all("\n" not in value and value for value in said.values())
    return answer.status_code, said["kind"]


def test_the_socket_is_closed_to_others(http: HttpServed) -> None:
    assert stat.S_IMODE(http.dirs.web_socket.stat().st_mode) == 0o600
    assert stat.S_IMODE(tokens.token_digest(http.dirs).stat().st_mode) == 0o600


def test_the_token_itself_is_kept_nowhere(http: HttpServed) -> None:
    for path in http.dirs.state.rglob("*"):
        if path.is_file():
            assert http.token.encode() not in path.read_bytes(), path


def test_only_one_serves(http: HttpServed) -> None:
    import asyncio

    with pytest.raises(Busy, match="another `lockgate serve` serves this user"):
        asyncio.run(serve_http(http.dirs, port=None, say=lambda _: None))


@pytest.mark.parametrize("way", ["over loopback", "on the socket"])
def test_whoever_bears_the_token_is_let_in(http: HttpServed, way: str) -> None:
    made = http.over_loopback() if way == "over loopback" else http.on_socket()
    with made as client:
        assert [one["id"] for one in client.get("/v1/held").json()] == ["c1"]


def test_over_loopback_nobody_is_let_in_without_the_token(http: HttpServed) -> None:
    with httpx2.Client(base_url=http.url) as client:
        assert kind_of(client.get("/v1/held")) == (401, "NoToken")
        assert kind_of(client.get("/openapi.json")) == (401, "NoToken")
        wrong = client.get("/v1/held", headers={"authorization": "Bearer x"})
        assert kind_of(wrong) == (401, "NoToken")
        assert wrong.headers["www-authenticate"].startswith("Bearer")
        assert kind_of(client.get(f"/v1/held?token={http.token}")) == (401, "NoToken")


STRANGE = {
    "another host": ({"host": "lockgate.example"}, 421, "WrongHost"),
    "another port": ({"host": "127.0.0.1:1"}, 421, "WrongHost"),
    "a page elsewhere": ({"origin": "http://page.example"}, 403, "WrongOrigin"),
    "a page without a name": ({"origin": "null"}, 403, "WrongOrigin"),
    "a page on another port": ({"origin": "http://127.0.0.1:1"}, 403, "WrongOrigin"),
    "what a browser calls foreign": ({"sec-fetch-site": "cross-site"}, 403, "WrongOrigin"),
}


@pytest.mark.parametrize("headers, status, kind", STRANGE.values(), ids=STRANGE)
def test_pages_and_names_of_elsewhere_are_refused(
    http: HttpServed, headers: dict[str, str], status: int, kind: str
) -> None:
    with http.over_loopback(**headers) as client:
        answer = client.get("/v1/held")
        assert kind_of(answer) == (status, kind)
        assert "access-control-allow-origin" not in answer.headers
    port = http.url.rpartition(":")[2]
    with http.over_loopback(origin=http.url, host=f"localhost:{port}") as client:
        assert client.get("/v1/held").status_code == 200


def test_a_preflight_permits_nothing(http: HttpServed) -> None:
    asks = {"origin": "http://page.example", "access-control-request-method": "POST"}
    with httpx2.Client(base_url=http.url, headers=asks) as client:
        answer = client.options("/v1/stop")
        assert answer.status_code == 403
        assert not [name for name in answer.headers if name.startswith("access-control")]


BAD = {
    "a field that is not known": ({"workspace": "/", "command": "ls", "frob": 1}, 400),
    "no workspace": ({"command": "ls"}, 400),
    "a folder that is relative": ({"command": "ls", "workspace": "src"}, 400),
    "neither command nor tool": ({"workspace": "/"}, 400),
    "both": ({"workspace": "/", "command": "ls", "tool": "Bash"}, 400),
    "a wait that is too long": ({"workspace": "/", "command": "ls", "wait": 1e9}, 400),
    "half a character": ({"workspace": "/", "command": "\udcff"}, 400),
    "no object": ([1], 400),
}


@pytest.mark.parametrize("body, status", BAD.values(), ids=BAD)
def test_what_cannot_be_read_is_refused(http: HttpServed, body: object, status: int) -> None:
    data = json.dumps(body).encode()
    with http.over_loopback() as client:
        said = {"content-type": "application/json"}
        answer = client.post("/v1/calls", content=data, headers=said)
    assert kind_of(answer) == (status, "BadInput")


def test_bodies_that_are_none_are_refused(http: HttpServed) -> None:
    with http.over_loopback() as client:
        post = client.post
        json_ = {"content-type": "application/json"}
        assert kind_of(post("/v1/stop", content=b"{", headers=json_)) == (400, "BadInput")
        deep = b'{"reason":' + b"[" * 100_000
        assert kind_of(post("/v1/stop", content=deep, headers=json_)) == (400, "BadInput")
        assert kind_of(post("/v1/stop", data={"reason": "x"})) == (415, "NotJson")
        much = b" " * (MOST_BODY_BYTES + 1)
        assert kind_of(post("/v1/stop", content=much, headers=json_)) == (413, "TooLarge")
        pieces = (b" " * 65_536 for _ in range(MOST_BODY_BYTES // 65_536 + 1))
        assert kind_of(post("/v1/stop", content=pieces, headers=json_)) == (413, "TooLarge")
        assert kind_of(client.get("/v1/held?frob=1")) == (400, "BadInput")
        assert kind_of(client.get("/v1/calls?limit=1&limit=2")) == (400, "BadInput")
        assert kind_of(client.get("/v1/calls?limit=0")) == (400, "BadInput")
        assert kind_of(client.get("/v1/nothing")) == (404, "NotFound")
        assert kind_of(client.get("/v1/calls/nosuch")) == (404, "NotFound")
        assert kind_of(client.delete("/v1/held")) == (405, "NoSuchMethod")


ENDS = {
    "deny x": (200, "denied"),
    "land": (200, "ran"),
    "stopped": (423, "Stopped"),
    "broken": (503, "NotEnforced"),
    "crash": (502, "SandboxError"),
}


@pytest.mark.parametrize("command", ENDS)
def test_what_becomes_of_a_call_is_said(http: HttpServed, command: str) -> None:
    answer = http.ask("POST", "/v1/calls", {"command": command, "workspace": place(http)})
    said = answer.json()
    assert (answer.status_code, said.get("ending") or said["kind"]) == ENDS[command]
    assert "Traceback" not in answer.text


def test_what_a_call_is_given_arrives(http: HttpServed, fake: FakeSupervisor) -> None:
    body = {
        "command": "cat", "workspace": place(http), "stdin": "é", "env": {"A": "1"},
        "agent": "a", "intent": "why", "timeout": 1.5, "derived_from": "t1",
    }  # fmt: skip
    assert http.ask("POST", "/v1/calls", body).json()["stdout"] == "2"
    plan = fake.plans[-1]
    assert (plan.agent, plan.intent, plan.derived_from) == ("a", "why", "t1")
    assert (plan.params.timeout, plan.workspace) == (1500, place(http))
    assert fake.environments[-1] == {"A": "1"}


def test_a_client_that_leaves_ends_its_call(http: HttpServed, fake: FakeSupervisor) -> None:
    fake.started.clear()
    body = json.dumps({"command": "wait", "workspace": place(http)})
    host, _, port = http.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port))) as line:
        head = (
            f"POST /v1/calls HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Length: {len(body)}\r\n"
            f"Content-Type: application/json\r\nAuthorization: Bearer {http.token}\r\n\r\n"
        )
        line.sendall((head + body).encode())
        assert fake.started.wait(60)
    wait_for(lambda: fake.cancelled, "the call is cancelled")


def test_calls_are_paged_and_filtered(http: HttpServed) -> None:
    for number in range(5):
        note(http, f"p{number}", "paging")
    names: list[str] = []
    path = "/v1/calls?agent=paging&limit=2"
    page = http.ask("GET", path).json()
    while True:
        names += [one["id"] for one in page["calls"]]
        if page["next"] is None:
            break
        with http.over_loopback() as client:
            more = {"agent": "paging", "limit": 2, "before": page["next"]}
            page = client.get("/v1/calls", params=more).json()
    assert names == ["p4", "p3", "p2", "p1", "p0"]
    assert http.ask("GET", "/v1/calls?agent=nobody").json()["calls"] == []
    record = http.ask("GET", "/v1/record?event=decided&call=p3").json()["records"]
    assert [one["call"] for one in record] == ["p3"]


def test_a_search_finds_what_lies_far_back(http: HttpServed) -> None:
    for number in range(7):
        note(http, f"q{number}", "looking", session="q-session")
    answer = http.ask("GET", "/v1/calls?agent=looking&text=Q0&limit=2").json()
    assert ([one["id"] for one in answer["calls"]], answer["next"]) == (["q0"], None)
    page = http.ask("GET", "/v1/calls?session=q-session&limit=5").json()
    assert [one["id"] for one in page["calls"]] == [f"q{number}" for number in range(6, 1, -1)]
    rest = http.ask("GET", f"/v1/calls?session=q-session&before={page['next']}").json()
    assert [one["id"] for one in rest["calls"]] == ["q1", "q0"]
    (own,) = [
        one for one in http.ask("GET", "/v1/sessions").json()["sessions"]
        if one["session"] == "q-session"
    ]  # fmt: skip
    assert (own["calls"], own["agents"]) == (7, ["looking"])


SHOWN = {"digest": "1" * 64}


def test_a_held_call_lands_as_it_was_shown_alone(http: HttpServed, fake: FakeSupervisor) -> None:
    note(http, "held1")
    shown = http.ask("POST", "/v1/held/held1/look", {}).json()["digest"]
    path = "/v1/held/held1/land"
    for body in ({}, {"digest": None}):
        assert kind_of(http.ask("POST", path, body)) == (400, "BadInput")
    assert kind_of(http.ask("POST", path, {"digest": ANOTHER_DIGEST})) == (409, "NotShown")
    assert "land held1" not in fake.done
    assert http.ask("POST", path, {"digest": shown}).status_code == 200
    assert "land held1" in fake.done


def test_a_beginning_of_an_id_names_no_call(http: HttpServed) -> None:
    note(http, "whole1")
    assert http.ask("GET", "/v1/calls/whole1").json()["id"] == "whole1"
    for name in ("whole", "last"):
        assert kind_of(http.ask("GET", f"/v1/calls/{name}")) == (404, "NotFound")
        assert kind_of(http.ask("POST", f"/v1/held/{name}/land", SHOWN)) == (404, "NotFound")


def question(http: HttpServed, word: str) -> str:
    """Put a question and return its call."""
    return of_command(
        http.dirs, [f"rm {word}"], workspace=place(http), agent="main", role=None, cwd=None,
        here=None,
    ).call  # fmt: skip


def test_a_question_is_seen_and_approved(http: HttpServed) -> None:
    before = http.ask("GET", "/v1/approvals-count").json()["waiting"]
    call = question(http, "seen")
    assert question(http, "seen") != call  # the same once more is no other question
    assert http.ask("GET", "/v1/approvals-count").json() == {"waiting": before + 1}
    assert call in [one["call"] for one in http.ask("GET", "/v1/approvals").json()]
    card = http.ask("GET", f"/v1/approvals/{call}").json()
    assert "rm seen" in card["card"]
    assert next(one["offer"] for one in card["offers"]) == "once"
    path = f"/v1/approvals/{call}/approve"
    other = {"digest": "0" * 64}
    assert kind_of(http.ask("POST", path, other)) == (409, "NotOpen")  # P8
    made = http.ask("POST", path, {"digest": card["question"]["digest"], "offer": "once"}).json()
    assert (made["open"], made["uses"]) == (True, 1)
    assert kind_of(http.ask("POST", path, {"digest": card["question"]["digest"]})) == (
        409,
        "NotOpen",
    )
    assert made["id"] in [one["id"] for one in http.ask("GET", "/v1/grants").json()]
    assert http.ask("DELETE", f"/v1/grants/{made['id']}").status_code == 200
    assert made["id"] not in [one["id"] for one in http.ask("GET", "/v1/grants").json()]
    events = [one.event for one in Store(http.dirs).records()]
    assert events[:2] == ["revoked", "granted"]


def test_a_question_is_denied(http: HttpServed) -> None:
    call = question(http, "denied")
    assert http.ask("POST", f"/v1/approvals/{call}/deny", {"reason": "no"}).status_code == 200
    asked = Grants(http.dirs).asked(call)
    assert (asked.state, asked.reason) == ("denied", "no")


def test_a_command_is_approved_beforehand(http: HttpServed) -> None:
    body = {"command": "rm before", "workspace": place(http), "uses": 2, "seconds": 60}
    made = http.ask("POST", "/v1/grants", body).json()
    assert (made["uses"], made["open"]) == (2, True)
    harmless = {**body, "command": "ls"}
    assert kind_of(http.ask("POST", "/v1/grants", harmless)) == (400, "BadInput")


def test_gate_1_is_asked(http: HttpServed) -> None:
    body = {"command": "rm -rf /", "workspace": place(http)}
    assert http.ask("POST", "/v1/check", body).json()["verdict"] == "deny"
    said = http.ask("POST", "/v1/explain", body).json()
    assert said["layers"]
    rules = http.ask("GET", f"/v1/policy?workspace={place(http)}").json()["rules"]
    assert rules


def test_a_stop_is_set_and_cleared(http: HttpServed) -> None:
    register = Latch(http.dirs)
    report = http.ask("POST", "/v1/stop", {"reason": "a test"}).json()
    assert report["reason"] == "a test"
    assert register.read() is not None
    assert any("a test" in one for one in http.ask("GET", "/v1/agents").json()["stopped"])
    assert http.ask("POST", "/v1/resume", {}).json() == {"resumed": True}
    assert register.read() is None


PERSONS = {
    "approve": ("POST", "/v1/approvals/c1/approve", {"digest": "0" * 64}),
    "grant": ("POST", "/v1/grants", {"command": "rm x", "workspace": "/w"}),
    "land": ("POST", "/v1/held/c1/land", SHOWN),
    "resume": ("POST", "/v1/resume", {}),
    "undo the last ones": ("POST", "/v1/undo-last", {"count": 1}),
}


@pytest.mark.parametrize("method, path, body", PERSONS.values(), ids=PERSONS)
def test_on_the_socket_what_a_person_decides_needs_the_token(
    http: HttpServed, method: str, path: str, body: object
) -> None:
    with http.on_socket(token=False) as client:
        answer = client.request(method, path, json=body)
        assert kind_of(answer) == (403, "PersonsDecision")
    with http.on_socket() as client:
        assert client.request(method, path, json=body).status_code != 403


def test_guessing_ends_and_locks_nobody_else_out(http: HttpServed) -> None:
    guess = (
        "import http.client, sys\n"
        "for _ in range(12):\n"
        "    line = http.client.HTTPConnection(sys.argv[1])\n"
        "    line.request('GET', '/v1/held', headers={'Authorization': 'Bearer ' + sys.argv[2]})\n"
        "    print(line.getresponse().status)\n"
        "line = http.client.HTTPConnection(sys.argv[1])\n"
        "line.request('GET', '/v1/held', headers={'Authorization': 'Bearer ' + sys.argv[3]})\n"
        "print(line.getresponse().status)\n"
    )
    where = http.url.removeprefix("http://")
    done = subprocess.run(
        [sys.executable, "-c", guess, where, "wrong", http.token], capture_output=True, text=True,
        check=True, cwd=ROOT,
    )  # fmt: skip
    assert done.stdout.split() == ["401"] * tokens.MOST_WRONG + ["429"] * 3
    assert http.ask("GET", "/v1/held").status_code == 200


def test_an_old_token_is_worth_nothing(tmp_path: Path) -> None:
    dirs = Dirs.under(tmp_path).create()
    assert not tokens.bears_token(dirs, b"")
    old = tokens.new_token(dirs).encode()
    assert tokens.bears_token(dirs, old)
    new = tokens.new_token(dirs).encode()
    assert (tokens.bears_token(dirs, old), tokens.bears_token(dirs, new)) == (False, True)


def test_a_connection_whose_process_is_gone_is_nobodys(tmp_path: Path) -> None:
    dirs = Dirs.under(tmp_path).create()
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        with server.accept()[0] as line:
            far = Wayfarer(dirs, line)
            assert far.visitor(anew=True).is_person
            client.close()
            assert not far.visitor(anew=True).known


def test_a_process_with_an_agents_mark_is_no_person(tmp_path: Path) -> None:
    dirs = Dirs.under(tmp_path).create()
    program = (
        "import socket, sys\n"
        "line = socket.create_connection(('127.0.0.1', int(sys.argv[1])))\n"
        "line.recv(1)\n"
    )
    with socket.create_server(("127.0.0.1", 0)) as server:
        words = [sys.executable, "-c", program, str(server.getsockname()[1])]
        for env, person in (({}, True), ({"LOCKGATE_AGENT": "a:0123"}, False)):
            with subprocess.Popen(words, env={**os.environ, **env}) as process:
                with server.accept()[0] as line:
                    visitor = Wayfarer(dirs, line).visitor(anew=True)
                    assert (visitor.is_person, visitor.known) == (person, person)
                process.wait(60)


def test_a_client_of_ipv6_is_known_where_it_speaks_ipv4(tmp_path: Path) -> None:
    dirs = Dirs.under(tmp_path).create()
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_INET6) as client,
    ):
        client.connect(("::ffff:127.0.0.1", server.getsockname()[1]))
        with server.accept()[0] as line:
            assert Wayfarer(dirs, line).visitor(anew=True).is_person


ERRORS = {
    "does not show its files": ("/proc/{}/fd", errno.EACCES, False),
    "has ended": ("/proc/{}/fd", errno.ENOENT, True),
}


@pytest.mark.parametrize("path, error, person", ERRORS.values(), ids=ERRORS)
def test_an_agents_process_that_is_not_seen_may_be_the_one_that_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, error: int, person: bool
) -> None:
    dirs = Dirs.under(tmp_path).create()
    with (
        subprocess.Popen(["sleep", "60"]) as process,
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()),
        server.accept()[0] as line,
    ):
        one = register(dirs, process.pid, name="a", source="test")
        try:
            fail_at(monkeypatch, path.format(process.pid), error)
            visitor = Wayfarer(dirs, line).visitor(anew=True)
            assert visitor.is_person is person
            hidden = f"process {process.pid} of agent `a`"
            assert visitor.unseen == ("" if person else hidden)
            Agents(dirs).remove(one)  # it is a process like any other now
            assert Wayfarer(dirs, line).visitor(anew=True).is_person
        finally:
            process.kill()


def test_a_file_that_was_closed_hides_none_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dirs = Dirs.under(tmp_path).create()
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as client,
        server.accept()[0] as line,
    ):
        real, own = os.listdir, f"/proc/{os.getpid()}/fd"

        def listed(path: str) -> list[str]:
            return ["99999", *real(path)] if path == own else real(path)

        assert client.fileno() >= 0
        monkeypatch.setattr(os, "listdir", listed)
        assert Wayfarer(dirs, line).visitor(anew=True).is_person


def fail_at(monkeypatch: pytest.MonkeyPatch, wanted: str, error: int) -> None:
    """Let a folder not be listed."""
    real = os.listdir

    def listed(path: str = ".") -> list[str]:
        if path == wanted:
            raise OSError(error, os.strerror(error), path)
        return real(path)

    monkeypatch.setattr(os, "listdir", listed)


TWO_PARTS = """
import http.client, json, sys

place, token, path, body = sys.argv[1:]
line = http.client.HTTPConnection(place)
line.putrequest("POST", path)
for name, value in (("Authorization", "Bearer " + token), ("Content-Type", "application/json"),
                    ("Content-Length", str(len(body))), ("Expect", "100-continue")):
    line.putheader(name, value)
line.endheaders(body[:1].encode())
print(line.sock.recv(100_000).decode()[:12], flush=True)  # it waits for the rest
sys.stdin.readline()
line.sock.sendall(body[1:].encode())
print(line.sock.recv(100_000).decode().split()[1], flush=True)
"""


@pytest.mark.parametrize("agent", ["a", None])
def test_who_asks_is_looked_up_when_all_of_a_request_is_there(
    http: HttpServed, agent: str | None
) -> None:
    call = question(http, f"later-{agent}")
    digest = Grants(http.dirs).asked(call).request.wanted.digest
    body = json.dumps({"digest": digest})
    place, path = http.url.removeprefix("http://"), f"/v1/approvals/{call}/approve"
    words = [sys.executable, "-c", TWO_PARTS, place, http.token, path, body]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "HTTP/1.1 100"
        if agent is not None:  # as if the connection were an agent's from here on
            one = register(http.dirs, process.pid, name=agent, source="test")
        status = process.communicate("\n", 60)[0].strip()
        if agent is not None:
            Agents(http.dirs).remove(one)
    assert status == ("200" if agent is None else "403")
    assert Grants(http.dirs).asked(call).state == ("approved" if agent is None else "open")


NO_HTTP = {
    "no first line": b"frob\r\n\r\n",
    "two lengths": b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    "a head that is too long": b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 70_000,
}


@pytest.mark.parametrize("said", NO_HTTP.values(), ids=NO_HTTP)
def test_what_is_no_http_is_refused_as_everything_else(http: HttpServed, said: bytes) -> None:
    host, _, port = http.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), 60) as line:
        line.sendall(said)
        answer = b""
        while more := line.recv(65_536):
            answer += more
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"content-type: application/json" in head
    assert b"cache-control: no-store" in head
    assert json.loads(body)["kind"] == "BadInput"


def test_a_client_that_leaves_within_its_body_is_no_mistake_of_ours(
    http: HttpServed, capfd: pytest.CaptureFixture[str]
) -> None:
    host, _, port = http.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), 60) as line:
        line.sendall(
            f"POST /v1/stop HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Length: 5\r\n"
            f"Expect: 100-continue\r\nAuthorization: Bearer {http.token}\r\n\r\n".encode()
        )
        assert line.recv(12) == b"HTTP/1.1 100"
    with http.over_loopback() as client:
        for _ in range(20):  # by now it has been noticed
            assert client.get("/v1/held").status_code == 200
    assert "Traceback" not in capfd.readouterr().err


def test_the_clock_of_wrong_tries_goes_on() -> None:
    now = [0.0]
    wrong = tokens.WrongTries(clock=lambda: now[0])
    for _ in range(tokens.MOST_WRONG):
        assert not wrong.wait("a")
        wrong.note("a")
    assert wrong.wait("a") == tokens.WINDOW_SECONDS
    assert not wrong.wait("b")
    now[0] += tokens.WINDOW_SECONDS
    assert not wrong.wait("a")
