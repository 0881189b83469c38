# SPDX-License-Identifier: Apache-2.0
"""The trusted container beside a cell: mounts, lists, lands and undoes. Never runs agent code.

Speaks frames (see protocol) on its standard input and output, one request at a time. It shares the
cell's process namespace (PID 1 there is the runner), so that it ends when the cell ends. Who
handles which request: `requests`.

Layout inside the keeper: /lower/N the real workspaces, /tx/live/CELL/N layers of open transactions,
/tx/held/CALL/N layers that wait for a person, /mask mask layers.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from typing import Any

from .. import protocol
from ..landing import land as landing
from ..observer.client import OutOfWatchers
from ..overlay import masks
from . import dialling, listeners
from .answers import pack_answer
from .requests import Keeper
from .workplace import HELD, Refused, check_name

_ABOUT_HELD = ("setup", "hold", "land_held", "drop", "count")
"""Requests whose answer says how many transactions wait for a person."""


def serve() -> None:
    """Answer requests until standard input ends."""
    keeper = Keeper()
    inputs = {0: protocol.Decoder()}
    protocol.write_all(1, protocol.pack({"op": "hello"}))
    busy = False
    while True:
        for fd in select.select([*inputs, *keeper.watching], [], [], 0 if busy else None)[0]:
            if fd not in inputs:
                continue
            data = os.read(fd, 65536)
            if not data:
                return
            for _, request in inputs[fd].feed(data):
                protocol.write_all(fd or 1, pack_answer(answer_request(keeper, request)))
            direct_fd = keeper.sockets.direct_fd
            if direct_fd is not None and direct_fd not in inputs:
                inputs[direct_fd] = protocol.Decoder()
        for alarm in keeper.transactions.alarms():
            protocol.write_all(keeper.sockets.direct_fd or 1, protocol.pack(alarm))
        busy = keeper.transactions.prepare()


def answer_request(keeper: Keeper, request: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to a request: what it brought, or why nothing was done."""
    head = {"op": request["op"], "n": request["n"]}
    started = time.perf_counter()
    try:
        handle = keeper.requests.get(request["op"])
        if handle is None:
            raise Refused(f"unknown request `{request['op']}`")
        for key in ("tx", "call", "as", "cell"):
            check_name(request.get(key, "x"))
        if "fault" in request:
            keeper.work.fault.want(request["fault"])
        keeper.work.fault(f"{request['op']} asked")
        answer = handle(request)
        keeper.work.fault(f"{request['op']} done")
    except OutOfWatchers as error:
        return {**head, "error": f"it cannot be watched: {error}", "lacks": error.limit}
    except OSError as error:
        text = f"{error.strerror or error}: {error.filename}"
        return {**head, "error": text, "errno": error.errno}
    except (
        Refused,
        dialling.BadDial,
        listeners.BadListener,
        masks.TooLarge,
        landing.LandingError,
    ) as error:
        return {**head, "error": str(error)}
    except RecursionError:
        return {**head, "error": "folders are nested too deep"}
    except KeyError as error:
        return {**head, "error": f"unknown transaction or field {error}"}
    if request["op"] in _ABOUT_HELD:
        answer["held"] = len(os.listdir(HELD))
    return {**head, **answer, "ms": (time.perf_counter() - started) * 1000}


def main() -> None:
    """Run as the keeper's only program."""
    os.umask(0)
    signal.signal(signal.SIGIO, signal.SIG_IGN)  # see fs.being_written
    try:
        serve()
    except KeyboardInterrupt:
        sys.exit(0)
