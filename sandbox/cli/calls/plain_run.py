# SPDX-License-Identifier: Apache-2.0
"""`lockgate run` where all is plain, by a program that starts in a third of the time.

It decides nothing and says nothing of its own: it reads the options that it knows, sends the call
to a supervisor of this very code, and shows what comes as `making` does for every call. Whatever
else there is (another option or spelling, no supervisor, another version, an agent's terminal) is
the whole program's, from the beginning: nothing was asked of a supervisor by then.
"""

from __future__ import annotations

import _socket
import os

from sandbox.cli.calls.making import HandOver, Person, fields_of, is_text, make_call
from sandbox.client.line import Line, Silent
from sandbox.errors import SandboxError
from sandbox.host import xdg
from sandbox.host.version import code_place, digest, settings_digest
from sandbox.processes.peer_process import peer_uid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from sandbox.client.wire import Message

_TEXTS = {
    "-w": "workspace",
    "--workspace": "workspace",
    "--agent": "agent",
    "--role": "role",
    "--user": "user",
    "--cwd": "cwd",
    "--intent": "intent",
    "--task": "task",
    "--ticket": "ticket",
}
_FLAGS = {
    "-i": "stdin",
    "--stdin": "stdin",
    "--raw": "raw",
    "--json": "as_json",
    "-q": "quiet",
    "--quiet": "quiet",
    "--background": "background",
}
_MARK = b"LOCKGATE_AGENT="
_COMPLETE = "_LOCKGATE_COMPLETE"


def try_run(arguments: Sequence[str]) -> int | None:
    """Run `lockgate run` with these arguments; None: it is the whole program's, from the start."""
    read = _read(arguments)
    if read is None or _COMPLETE in os.environ:
        return None
    said, on, command = read
    flags = {name: name in on for name in ("stdin", "raw", "as_json", "quiet")}
    try:
        if "ticket" in said:
            flags |= {"stdin": False, "no_input": True}
            fields: dict[str, Any] = {"ticket": said["ticket"], "text": flags["as_json"]}
            return make_call(lambda: _open_line(any_version=True), fields, None, flags)
        if not command or not is_text((*command, *said.values())):
            return None
        asking = None
        if os.isatty(0):
            if _may_be_an_agents():
                return None
            asking = Person()
        options: dict[str, Any] = {"agent": "main", **said}
        fields = fields_of(
            command,
            **options,
            background="background" in on,
            text=flags["as_json"],
        )
        return make_call(lambda: _open_line(any_version=False), fields, asking, flags)
    except HandOver:
        return None


def _read(arguments: Sequence[str]) -> tuple[dict[str, str], set[str], Sequence[str]] | None:
    """Return options with their texts, flags and the command; None where anything is not plain."""
    said: dict[str, str] = {}
    on: set[str] = set()
    at = 0
    while at < len(arguments) and arguments[at].startswith("-"):
        word = arguments[at]
        at += 1
        if word == "--":
            break
        if word in _FLAGS:
            on.add(_FLAGS[word])
            continue
        name, sign, value = word.partition("=")
        if not sign:
            if at == len(arguments):
                return None
            value = arguments[at]
            at += 1
        if name not in _TEXTS or (sign and not name.startswith("--")) or _TEXTS[name] in said:
            return None
        if not value.strip() or value.startswith("-"):
            return None
        said[_TEXTS[name]] = value
    return said, on, arguments[at:]


def _open_line(*, any_version: bool) -> Line:
    """Return a line to a supervisor of this very code; a ticket's is whichever gave it out.

    Raises HandOver; Silent where a supervisor does not greet.
    """
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        connection.connect(f"{xdg.runtime()}/{xdg.SOCKET}")
        if peer_uid(connection) == os.geteuid():
            line = Line(connection)
            if any_version or _is_of_this_code(line.hello):
                return line
    except Silent:
        connection.close()
        raise
    except (OSError, SandboxError):
        pass
    connection.close()
    raise HandOver


def _is_of_this_code(hello: Message) -> bool:
    """Whether a supervisor runs the code and the settings that this program would start it with."""
    config = xdg.config()
    if hello.get("code") == code_place():  # it heard of no change; comparing all takes longer
        return bool(hello.get("settings") == settings_digest(config))
    return bool(hello.get("digest") == digest(config))


def _may_be_an_agents() -> bool:
    """Whether this process may belong to an agent under watch: then the whole program looks.

    False is sure: nobody that it comes from shows a mark, and no agent is registered.
    """
    pid = os.getpid()
    try:
        while pid > 1:
            with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
                parent = int(file.read().rpartition(b")")[2].split(None, 2)[1])
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123
                    shown = file.read()
            except PermissionError:  # another user's: its marks are not seen by anybody here
                shown = b"\0"
            if not shown or shown.startswith(_MARK) or b"\0" + _MARK in shown:
                return True
            pid = parent
        return any(one.endswith(".json") for one in os.listdir(f"{xdg.state()}/agents"))  # noqa: PTH208
    except FileNotFoundError:
        return pid > 1  # somebody on the way has just ended; else there is no such folder
    except (OSError, ValueError, IndexError):
        return True
