# SPDX-License-Identifier: Apache-2.0
"""P4: no packet leaves a cell; listeners of this very host answer from outside only."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from tests.container.lab import WAIT_SECONDS, Lab, after
from tests.container.test_privileges import python


@pytest.fixture
def lab(shared_lab: Lab) -> Lab:
    """Return the lab of all tests here that need nothing special."""
    return shared_lab


CANARY = b"lockgate-canary"


class Listener:
    """Answers every connection with the canary and counts them."""

    def __init__(self, family: int, address: object) -> None:
        self.count = 0
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(address)  # type: ignore[arg-type]
        self._socket.listen()
        self.port: int = self._socket.getsockname()[1] if family != socket.AF_UNIX else 0
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.count += 1
            with connection:
                connection.sendall(CANARY)

    def close(self) -> None:
        """Stop listening."""
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


def own_address() -> str:
    """Return an address of this host that is not loopback, or loopback where there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


@pytest.fixture
def listeners() -> Iterator[dict[str, Listener]]:
    """Return listeners on loopback, on all interfaces and on an abstract socket."""
    made = {
        "loopback": Listener(socket.AF_INET, ("127.0.0.1", 0)),
        "all interfaces": Listener(socket.AF_INET, ("0.0.0.0", 0)),
        "abstract": Listener(socket.AF_UNIX, f"\0lockgate-test-{os.getpid()}"),
    }
    if socket.has_ipv6:
        with contextlib.suppress(OSError):
            made["six"] = Listener(socket.AF_INET6, ("::1", 0))
    yield made
    for one in made.values():
        one.close()


CONNECT = """
import json, socket
out = {}
for name, family, address in TARGETS:
    try:
        with socket.socket(family, socket.SOCK_STREAM) as s:
            s.settimeout(5)
            s.connect(tuple(address) if isinstance(address, list) else address)
            out[name] = s.recv(100).decode()
    except OSError as error:
        out[name] = type(error).__name__
print(json.dumps(out))
"""


def test_no_listener_of_the_host_can_be_reached(
    lab: Lab, listeners: dict[str, Listener], weak: Callable[[str], str]
) -> None:
    targets: list[tuple[str, int, object]] = [
        ("loopback", socket.AF_INET, ["127.0.0.1", listeners["loopback"].port]),
        ("own address", socket.AF_INET, [own_address(), listeners["all interfaces"].port]),
        ("any address", socket.AF_INET, ["0.0.0.0", listeners["all interfaces"].port]),
        ("abstract", socket.AF_UNIX, f"\0lockgate-test-{os.getpid()}"),
    ]
    if "six" in listeners:
        targets.append(("six", socket.AF_INET6, ["::1", listeners["six"].port]))
    probe = python(f"TARGETS = {[(n, int(f), a) for n, f, a in targets]!r}\n{CONNECT}")
    control = json.loads(weak(probe))
    assert control == {name: CANARY.decode() for name, _, _ in targets}
    heard = {name: one.count for name, one in listeners.items()}
    for found in (json.loads(lab.sh(probe).stdout), json.loads(lab.read(probe).stdout)):
        assert set(found) == set(control)
        assert set(found.values()) <= {"ConnectionRefusedError", "OSError", "FileNotFoundError"}
    assert {name: one.count for name, one in listeners.items()} == heard


FAR = """
import json, socket
out = {}
for address in ("192.0.2.1", "169.254.169.254", "172.17.0.1", "10.0.0.1", "192.168.65.7"):
    for kind, name in ((socket.SOCK_STREAM, "tcp"), (socket.SOCK_DGRAM, "udp")):
        s = socket.socket(socket.AF_INET, kind)
        s.settimeout(5)
        try:
            s.connect((address, 53))
            s.send(b"x")
            out[f"{name} {address}"] = "sent"
        except OSError as error:
            out[f"{name} {address}"] = error.strerror
for address in ("2001:db8::1", "fd00:ec2::254", "fe80::1"):
    s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    try:
        s.connect((address, 53, 0, 0))
        s.send(b"x")
        out[f"udp {address}"] = "sent"
    except OSError as error:
        out[f"udp {address}"] = error.strerror
print(json.dumps(out))
"""


def test_there_is_no_way_to_any_address(lab: Lab) -> None:
    found = json.loads(lab.sh(python(FAR)).stdout)
    assert len(found) == 13
    assert set(found.values()) <= {
        "Network is unreachable",
        "Cannot assign requested address",
        "Address family not supported by protocol",
        "Invalid argument",  # a link-local address without an interface
    }


def test_the_cell_has_loopback_and_nothing_else(lab: Lab, weak: Callable[[str], str]) -> None:
    look = "cat /proc/net/dev | tail -n +3 | cut -d: -f1 | sort"
    assert lab.sh(look).stdout.split() == ["lo"]
    assert set(weak(look).split()) > {"lo"}
    assert lab.sh("cat /proc/net/route | tail -n +2").stdout == ""


def test_loopback_inside_the_cell_works(lab: Lab) -> None:
    """Tests of servers are what agents run: the cell's own loopback must carry them."""
    found = lab.sh(
        "python3 -m http.server 8123 --bind 127.0.0.1 >/dev/null 2>&1 & "
        "for i in $(seq 1200); do curl -sf localhost:8123/README.md && break; sleep 0.05; done"
    )
    assert found.stdout == lab.text("README.md")


def test_names_are_not_resolved(lab: Lab) -> None:
    found = lab.sh("getent hosts localhost | grep -c localhost; getent hosts example.com; echo $?")
    assert found.stdout == "1\n2\n"


def test_raw_packet_vsock_and_crypto_sockets_are_refused(
    lab: Lab, weak: Callable[[str], str]
) -> None:
    source = """
import json, socket
out = {}
for name, family, kind in (("packet", 17, 3), ("raw", 2, 3), ("vsock", 40, 1), ("crypto", 38, 5)):
    try:
        socket.socket(family, kind, 255 if name == "raw" else 0).close()
        out[name] = "open"
    except PermissionError:
        out[name] = "refused"
    except OSError as error:
        out[name] = error.strerror
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close()
print(json.dumps(out))
"""
    found = json.loads(lab.sh(python(source)).stdout)
    assert found == dict.fromkeys(("packet", "raw", "vsock", "crypto"), "refused")
    control = json.loads(weak(python(source)))
    assert (control["packet"], control["raw"]) == ("open", "open")
    assert "refused" not in control.values()


def test_two_cells_share_no_loopback(make_lab: Callable[..., Lab]) -> None:
    lab = make_lab()

    async def both() -> tuple[str, str]:
        serves, over = asyncio.Event(), asyncio.Event()
        server = asyncio.ensure_future(
            lab.call(
                "python3 -m http.server 8124 >/dev/null 2>&1 & for i in $(seq 1200); do "
                "curl -sf localhost:8124/README.md && break; sleep 0.05; done; read x",
                "read",
                agent="one",
                stdin=after(over),
                on_output=lambda *_: serves.set(),
            )
        )
        await asyncio.wait_for(serves.wait(), WAIT_SECONDS)
        other = await lab.call("curl -s localhost:8124/README.md", "read", agent="two")
        over.set()
        return (await server).stdout, other.stdout

    assert lab.run(both()) == (lab.text("README.md"), "")
