# SPDX-License-Identifier: Apache-2.0
"""`lockgate port`: open a port of a running call's cell on this host's loopback, list, close."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from sandbox.cli import terminal
from sandbox.cli.calls.choosing import everywhere, last_here
from sandbox.client.blocking import BlockingClient
from sandbox.client.connect import connect
from sandbox.errors import BadInput
from sandbox.operations.requests import ClosePortRequest, OpenPortRequest, PsRequest
from sandbox.text.terminal import safe_line

HIGHEST = 65_535


@click.command(short_help="Reach a server that a call runs from this host's loopback.")
@click.argument("call", metavar="[CALL]", required=False)
@click.argument("ports", metavar="[PORT]", required=False)
@click.option("--close", is_flag=True, help="Close CALL's port PORT, or all of its ports.")
@everywhere
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def port(call: str | None, ports: str | None, **flags: bool) -> int:
    """Make PORT, on which a server of CALL listens in its cell, reachable as 127.0.0.1:PORT.

    CALL is an id of `lockgate ps`, a beginning of one, or `last`: the last call that goes on in the
    workspace you are in. With HOST:PORT another port of this host leads to it. It is open until the
    call ends, or until --close; the cell gets no network by it. Without CALL the open ports are
    listed. To open one is a person's decision: it needs a terminal. Every user of this host can
    connect there, and a page from there runs in your browser.

    \b
    Examples:
      lockgate port last 8123
      lockgate port 4f1c 9000:8123
      lockgate port
      lockgate port --close 4f1c
    """
    if call is None:
        if flags["close"]:
            raise BadInput("say whose: `lockgate port --close CALL [PORT]`")
        return _list(as_json=flags["as_json"])
    if ports is None and not flags["close"]:
        raise BadInput("say which: `lockgate port CALL PORT`, or HOST:PORT")
    host_port, inner = _read(ports) if ports is not None else (None, None)
    if flags["close"]:
        terminal.only_a_person("closing a port")
    else:
        terminal.require_person("opening a port of a cell")
    name = _identity(call, everywhere=flags["all_workspaces"])
    with BlockingClient(terminal.dirs()) as client:
        client.keep_running()
        if flags["close"]:
            closed = client.ask(ClosePortRequest(name, inner))
            return _say_closed(closed, as_json=flags["as_json"])
        assert host_port is not None
        assert inner is not None
        opened = client.ask(OpenPortRequest(name, inner, host_port))
    if flags["as_json"]:
        terminal.show_json(opened)
    else:
        terminal.show(
            f"{opened['host']}:{opened['host_port']} leads to port {opened['port']} of "
            f"{opened['call']} until that ends; `lockgate port --close {opened['call']} "
            f"{opened['port']}` closes it"
        )
    return 0


def _read(text: str) -> tuple[int, int]:
    """Return the port of this host and that of the cell. Raises BadInput."""
    host, colon, inner = text.rpartition(":")
    numbers = [int(word) if word.isascii() and word.isdigit() else 0 for word in (host, inner)]
    if not colon:
        numbers[0] = numbers[1]
    if not all(0 < number <= HIGHEST for number in numbers):
        raise BadInput(
            f"`{safe_line(text)}` is no port: give PORT or HOST:PORT, numbers up to {HIGHEST}; it "
            "is always open on 127.0.0.1 alone"
        )
    return numbers[0], numbers[1]


def _identity(call: str, *, everywhere: bool) -> str:
    from sandbox.audit.store import Store

    if call != "last":
        return Store(terminal.dirs()).call(call).id
    return last_here(everywhere=everywhere, what="unfinished", fits=lambda one: one.ending is None)


def _list(*, as_json: bool) -> int:
    from sandbox.present.render import port_line
    from sandbox.present.tables import table

    dirs = terminal.dirs()
    running: Sequence[Mapping[str, Any]] = ()
    line = connect(dirs)
    if line is not None:
        line.close()
        with BlockingClient(dirs) as client:
            client.keep_running()
            running = client.ask(PsRequest())["running"]
    found = [(call, each) for call in running for each in call.get("ports") or ()]
    if as_json:
        terminal.show_json(
            [{"call": call["id"], "agent": call["agent"], **each} for call, each in found]
        )
        return 0
    if not found:
        terminal.show("no port is open")
        return 0
    rows = [
        (
            call["id"],
            port_line(each),
            call["agent"],
            each["by"],
            str(each.get("connections", 0)),
            str(each.get("received", 0)),
            call["command"],
        )
        for call, each in found
    ]
    heads = ("call", "port", "agent", "opened by", "connections", "bytes received", "command")
    terminal.show(table(heads, rows))
    return 0


def _say_closed(closed: Sequence[Mapping[str, Any]], *, as_json: bool) -> int:
    from sandbox.present.render import port_line

    if as_json:
        terminal.show_json(closed)
        return 0
    for each in closed:
        terminal.show(f"closed {port_line(each)} of {each['call']}")
    return 0
