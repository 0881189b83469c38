# SPDX-License-Identifier: Apache-2.0
"""P4: a person opens a port of a cell on the host's loopback; the cell gets no network by it."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import socket
from typing import Any

import psutil
import pytest

from sandbox.audit.store import Store
from sandbox.errors import BadInput
from sandbox.network.ports import MODULE
from sandbox.present import render
from tests.container.lab import READ, Lab, eventually
from tests.container.test_network import own_address
from tests.fakes import lines_of

SERVER = """
import socket, sys, threading
both = sys.argv[1] == "::"
family = socket.AF_INET6 if both else socket.AF_INET
place = (sys.argv[1], int(sys.argv[2]))
listener = socket.create_server(place, family=family, dualstack_ipv6=both)
def serve(one):
    said = one.makefile("rb")
    word = said.readline()
    if word == b"big\\n":
        one.sendall(bytes(range(256)) * 40_000)
    elif word == b"all\\n":
        one.sendall(str(len(said.read())).encode())
    elif word == b"hang\\n":
        said.read()
        threading.Event().wait()
    else:
        one.sendall(b"heard " + word)
    one.close()
print("ready", flush=True)
while True:
    threading.Thread(target=serve, args=listener.accept()[:1], daemon=True).start()
"""
RELAYED = bytes(range(256)) * 40_000


def free_port() -> int:
    """Return a port of this host on which nothing listens."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def serve(lab: Lab, port: int, address: str = "127.0.0.1", **fields: Any) -> str:
    """Start a server in the background, wait until it listens, and return its call."""
    script = f"exec python3 -c {shlex.quote(SERVER)} {address} {port}"

    async def begin() -> str:
        call = (await lab.call(script, READ, run_in_background=True, **fields)).id
        while "ready" not in (peeked := await lab.supervisor.peek(call))["stdout"]:
            assert peeked["running"], peeked
            await asyncio.sleep(0.02)
        return call

    return lab.run(begin())


def ask(lab: Lab, port: int, word: bytes = b"hello\n", *, at: str = "127.0.0.1") -> bytes:
    """Say something to a port of this host, as any program here can, and return the answer."""

    def talk() -> bytes:
        with socket.create_connection((at, port), timeout=60) as one:
            one.sendall(word)
            one.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: one.recv(1 << 16), b""))

    return lab.run(asyncio.to_thread(talk))


def is_closed(port: int) -> bool:
    """Whether nothing listens on a port of this host's loopback."""
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) != 0


def relays() -> list[psutil.Process]:
    """Return the relays that this process has started and that live."""
    return [one for one in psutil.Process().children() if MODULE in one.cmdline()]


def opened(lab: Lab, call: str, port: int, host_port: int | None = None) -> int:
    """Open a port by a person's word, and return that of this host."""
    host_port = host_port or free_port()
    lab.run(lab.supervisor.open_port(call, port, host_port))
    return host_port


def test_an_open_port_leads_to_the_server_of_its_call_and_is_closed_again(lab: Lab) -> None:
    call = serve(lab, 8123)
    port = free_port()
    assert is_closed(port)
    said = lab.run(lab.supervisor.open_port(call, 8123, port))
    assert (said["call"], said["host"], said["host_port"], said["port"]) == (
        call, "127.0.0.1", port, 8123,
    )  # fmt: skip
    assert ask(lab, port) == b"heard hello\n"
    assert ask(lab, port, b"big\n") == RELAYED
    assert ask(lab, port, b"all\n" + RELAYED) == str(len(RELAYED)).encode()
    with pytest.raises(OSError, match="refused"):
        ask(lab, port, at=own_address())
    (running,) = lab.supervisor.running()
    assert [(one["host_port"], one["port"]) for one in running["ports"]] == [(port, 8123)]
    assert "open" in render.record(Store(lab.dirs).call(call), "", "", "")
    (closed,) = lab.run(lab.supervisor.close_port(call, 8123))
    assert (closed["connections"], closed["received"] > len(RELAYED)) == (3, True)
    assert is_closed(port)
    assert relays() == []
    assert lab.run(lab.supervisor.peek(call))["running"]  # the server itself goes on
    lab.run(lab.supervisor.end(call))
    told = [one["event"] for one in lines_of(Store(lab.dirs)) if one.get("call") == call]
    assert told[::-1] == ["decided", "port-opened", "port-closed", "ended"]
    ports = Store(lab.dirs).call(call).ports
    assert ports is not None
    assert ports[0]["closed"].startswith("closed by ")


def test_a_port_ends_with_its_call_and_its_connections_with_it(lab: Lab) -> None:
    port = opened(lab, call := serve(lab, 8123), 8123)
    with socket.create_connection(("127.0.0.1", port)) as held:
        held.sendall(b"hang\n")
        assert ask(lab, port) == b"heard hello\n"  # one that hangs is in nobody's way
        lab.run(lab.supervisor.end(call))
        held.settimeout(60)
        with contextlib.suppress(ConnectionResetError):
            assert held.recv(1) == b""
    assert is_closed(port)
    assert relays() == []
    with pytest.raises(BadInput, match=f"no command of call `{call}` runs"):
        opened(lab, call, 8123)


def test_a_stop_closes_every_port(lab: Lab) -> None:
    port = opened(lab, serve(lab, 8123), 8123)
    assert ask(lab, port) == b"heard hello\n"
    lab.run(lab.supervisor.stop("a test"))
    lab.run(eventually(lambda: is_closed(port) and not relays(), "a port that is closed"))


def test_a_port_ends_with_its_relay_and_with_its_cell(lab: Lab) -> None:
    call = serve(lab, 8123, "::")  # as many development servers do
    port = opened(lab, call, 8123)
    (relay,) = relays()
    relay.kill()
    lab.run(eventually(lambda: not lab.supervisor.running()[0].get("ports"), "a closed port"))
    assert is_closed(port)
    port = opened(lab, call, 8123)
    assert ask(lab, port) == b"heard hello\n"
    for cell in lab.containers("cell"):
        cell.kill()
    lab.run(eventually(lambda: is_closed(port) and not relays(), "a closed port"))


REFUSED: dict[str, tuple[int, str]] = {
    "nothing listens there": (8124, "nothing of it listens on port 8124 (its ports: 8123)"),
    "another call of the same agent listens there": (8125, "nothing of it listens on port 8125"),
    "no port": (70_000, "70000 is no port"),
}


def test_what_cannot_be_reached_is_said_in_one_line(lab: Lab) -> None:
    call, other = serve(lab, 8123), serve(lab, 8125)
    for wanted, said in REFUSED.values():
        with pytest.raises(BadInput) as refused:
            opened(lab, call, wanted)
        assert said in str(refused.value)
        assert "\n" not in str(refused.value)
    port = opened(lab, other, 8125)  # by its own call's name it can be
    assert ask(lab, port) == b"heard hello\n"
    with pytest.raises(BadInput, match="something else listens there; choose another one"):
        opened(lab, call, 8123, port)
