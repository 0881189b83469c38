# SPDX-License-Identifier: Apache-2.0
"""What the keeper dials for an open port: listening sockets of its own cell's processes alone."""

from __future__ import annotations

import contextlib
import os
import socket
import sys

import pytest

from sandbox.cell.keeper import dialling
from sandbox.cell.keeper.dialling import BadDial, Listener, dial, find_places, read_table

TCP = """  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid timeout
   0: 0100007F:1FBB 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 51 1 0
   1: 00000000:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 52 1 0
   2: 0100007F:1FBB 0100007F:C350 01 00000000:00000000 00:00000000 00000000  1000        0 53 1 0
"""
NOWHERE = "0" * 32 + ":0000"
TCP6 = f"""  sl  local_address                         remote_address                        st
   0: 00000000000000000000000001000000:1F90 {NOWHERE} 0A 0:0 0:0 0 0 0 54
   1: 0000000000000000FFFF00000100007F:1F91 {NOWHERE} 0A 0:0 0:0 0 0 0 55
"""


@pytest.mark.skipif(sys.byteorder != "little", reason="the tables are of such a machine")
def test_the_kernels_tables_are_read() -> None:
    assert read_table(TCP.splitlines()) == [
        Listener("127.0.0.1", 8123, "51"),
        Listener("0.0.0.0", 80, "52"),
    ]
    assert read_table(TCP6.splitlines()) == [
        Listener("::1", 8080, "54"),
        Listener("::ffff:127.0.0.1", 8081, "55"),
    ]


def test_only_what_a_process_in_sight_listens_on_is_dialled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert find_places(port, os.getpid()) == ["127.0.0.1"]
        monkeypatch.setattr(dialling, "_open_files", lambda: iter(()))  # none holds it
        with pytest.raises(BadDial, match=f"nothing of it listens on port {port}"):
            find_places(port, os.getpid())
    monkeypatch.undo()
    with pytest.raises(BadDial, match=f"nothing of it listens on port {port}"):
        dial(port, os.getpid())


def test_a_cell_with_more_open_files_than_are_looked_through_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        monkeypatch.setattr(dialling, "_open_files", lambda: iter(["pipe:[1]"] * 5))
        monkeypatch.setattr(dialling, "MOST_FILES", 3)
        with pytest.raises(BadDial, match="too many files are open"):
            find_places(port, os.getpid())


def test_a_port_on_which_another_cell_listens_too_is_not_dialled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Cells of an agent share a network: one takes every address, the other only some."""
    own = Listener("::", 8000, "1")
    others = [Listener("127.0.0.1", 8000, "2")]
    monkeypatch.setattr(dialling, "listeners_of", lambda _pid: ([own], others))
    assert find_places(8000) == ["::1"]
    others.append(Listener("::", 8000, "3"))
    with pytest.raises(BadDial, match="another cell of this agent listens as well"):
        find_places(8000)
    others.clear()
    assert find_places(8000) == ["127.0.0.1", "::1"]


def test_who_listens_is_looked_at_again_once_it_is_dialled(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        own = [Listener("127.0.0.1", port, "1")]
        looks = [(own, []), (own, []), (own, [Listener("127.0.0.1", port, "2")])]
        monkeypatch.setattr(dialling, "listeners_of", lambda _pid: looks.pop(0))
        monkeypatch.setattr(dialling, "inside", lambda _pid: contextlib.nullcontext())
        with dial(port) as dialled:
            assert dialled.fileno() >= 0  # the control
        looks[:0] = [(own, [])]
        with pytest.raises(BadDial, match="changed meanwhile"):
            dial(port)
