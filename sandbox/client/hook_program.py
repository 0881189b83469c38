# SPDX-License-Identifier: Apache-2.0
"""The hook program: hands what the agent said to the supervisor, and prints its answer.

It runs before every tool call, so it imports next to nothing, and decides nothing. INVARIANT
(closed): whatever goes wrong here ends with status 2 and a line on standard error, which every
agent takes for a block.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` without the enumerations
import _socket
import os
import sys
import time

from sandbox.host import xdg
from sandbox.processes.peer_process import peer_uid
from sandbox.text.json_text import dump_json, load_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DEADLINE_SECONDS = 1750.0
"""Below the time after which agents give a hook up (connect sets 1800 s), since two of three then
let the call run."""
_CONNECT_SECONDS = 5.0
_LOOK_SECONDS = 0.5
_SHELLS = ("sh", "bash", "dash", "zsh", "ksh", "ash")
_MOST_SHELLS = 8
_MOST_BYTES = 64 * 1024 * 1024
_REPLACED = ("UnknownRequest", "Outdated")
"""What a supervisor answers that is to be replaced: it knows no hooks, or runs other settings."""
_KEPT = ("CLAUDE_CODE_SESSION_ATTENDED", "CLAUDE_PID")


def main(arguments: list[str]) -> int:
    """Run `lockgate hook AGENT`; return the exit status."""
    try:
        if len(arguments) != 1 or arguments[0].startswith("-"):
            return _help(arguments)
        _end_after(DEADLINE_SECONDS)
        said = sys.stdin.buffer.read(_MOST_BYTES + 1)
        answer = _asked(arguments[0], said)
        out, err, status = str(answer["stdout"]), str(answer["stderr"]), int(answer["status"])
        if out and _is_null(1):  # also where it was closed: `sandbox.cli.entry` opened this instead
            raise ValueError("nobody reads the answer: standard output is closed")
        sys.stdout.write(out)
        sys.stdout.flush()
        sys.stderr.write(err)
        sys.stderr.flush()
        return status
    except BaseException as error:
        return _block(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)


class Deadline(BaseException):
    """The hook's own deadline; nothing on the way takes it for a failure to go on after."""


def _end_after(seconds: float) -> None:
    """Raise Deadline after so many seconds, whatever is waited for then: input that does not end,
    a supervisor that takes no connection, or one that goes on answering something else.

    Likewise when the process that started this one is gone, which may be all of the hook that the
    agent knows of and ends; or when the agent itself is, of which the shells between do not know.
    """
    line, until = _line(), time.monotonic() + seconds

    def look(*_: object) -> None:
        if any(_parent(child) != line[at] for at, child in enumerate(line[:-1], start=1)):
            raise Deadline("who asked is gone")
        if time.monotonic() >= until:
            raise Deadline(f"no decision within {seconds:g} s")

    _signal.signal(_signal.SIGALRM, look)
    _signal.pthread_sigmask(_signal.SIG_UNBLOCK, {_signal.SIGALRM})
    _signal.setitimer(_signal.ITIMER_REAL, _LOOK_SECONDS, _LOOK_SECONDS)


def _line() -> list[int]:
    """Return this process, the shells that it was started through, and what started those."""
    line = [os.getpid(), os.getppid()]
    while len(line) < _MOST_SHELLS and _stat(line[-1])[0] in _SHELLS:
        line.append(_parent(line[-1]))
    return line


def _parent(pid: int) -> int:
    """Return the parent of a process; 0 where the process is gone."""
    return os.getppid() if pid == os.getpid() else int(_stat(pid)[1])


def _stat(pid: int) -> tuple[str, str]:
    """Return name and parent of a process, as the kernel tells them."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            start, _, rest = file.read().rpartition(")")
    except OSError:
        return "", "0"
    return start.partition("(")[2], rest.split(None, 2)[1]


def _is_null(fd: int) -> bool:
    """Whether what is written there goes nowhere."""
    return os.fstat(fd).st_rdev == os.stat(os.devnull).st_rdev  # noqa: PTH116


def _asked(agent: str, said: bytes) -> dict[str, str]:
    """Return what the supervisor answers. Raises whatever goes wrong."""
    if len(said) > _MOST_BYTES:
        raise ValueError("what the agent sent is too long to be judged")
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    request = {
        "id": 1,
        "op": "hook",
        "agent": agent,
        "said": said.decode("utf-8", "surrogateescape"),
        "environment": kept,
        "seconds": DEADLINE_SECONDS - 10,
    }
    for fresh in (False, True):
        line = _connected(fresh=fresh)
        try:
            line.settimeout(DEADLINE_SECONDS)
            line.sendall(_encoded(request))
            answer = _answer(line)
        finally:
            line.close()
        if answer is not None:
            return answer
    raise ConnectionError("the supervisor is of another version")


def _answer(line: _socket.socket) -> dict[str, str] | None:
    """Return the answer; None from a supervisor that is to be replaced."""
    rest = b""
    pieces: list[str] = []
    while True:
        data = line.recv(1 << 20)
        if not data:
            raise ConnectionError("the supervisor went away before it answered")
        rest += data
        *lines, rest = rest.split(b"\n")
        for one in lines:
            message = _message(one)
            if "piece" in message:
                pieces.append(message["piece"])
                if message["more"]:
                    continue
                message = _message("".join(pieces))
                pieces.clear()
            if message.get("id") != 1:
                continue
            if message.get("event") == "result":
                return dict(message["value"])
            if message.get("kind") in _REPLACED:
                return None
            raise ConnectionError(message.get("message") or "the supervisor gave no answer")


def _message(text: str | bytes) -> dict[str, Any]:
    said = load_json(text)
    if not isinstance(said, dict):
        raise ValueError("the supervisor's answer is no JSON object")
    return said


def _encoded(request: dict[str, object]) -> bytes:
    text = dump_json(request)
    size = 1 << 20
    if len(text) < size:
        return text.encode() + b"\n"
    starts = range(0, len(text), size)
    pieces = [{"piece": text[at : at + size], "more": at + size < len(text)} for at in starts]
    return b"".join(dump_json(piece).encode() + b"\n" for piece in pieces)


def _connected(*, fresh: bool) -> _socket.socket:
    """Return a connection to the supervisor, which is started where there is none, or where a
    `fresh` one is wanted in an older one's place. Raises ConnectionError, SandboxError."""
    if not fresh:
        line = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        try:
            line.settimeout(_CONNECT_SECONDS)
            line.connect(f"{xdg.runtime()}/{xdg.SOCKET}")
        except OSError:
            line.close()
        else:
            return _checked(line)
    from sandbox.host.relaunch import load_site

    load_site()
    from sandbox.client.connect import reach
    from sandbox.host.dirs import Dirs

    return reach(Dirs.default()).socket  # it checks whose it is


def _checked(line: _socket.socket) -> _socket.socket:
    """Return a connection whose other end is this user's."""
    if peer_uid(line) != os.geteuid():
        line.close()
        raise ConnectionError("the supervisor's socket is served by another user")
    return line


def _block(reason: str) -> int:
    _signal.setitimer(_signal.ITIMER_REAL, 0)
    line = " ".join(reason.split())[:500] or "the call could not be judged"
    try:
        sys.stderr.write(f"lockgate: the call was not let through: {line}\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        pass
    return 2


def _help(arguments: list[str]) -> int:
    if arguments and arguments[0] in ("-h", "--help"):
        sys.stdout.write(
            "Usage: lockgate hook AGENT\n\n"
            "  Judge one event of a coding agent: JSON on standard input, the agent's own answer\n"
            "  on standard output. Agents call it; `lockgate connect AGENT` sets it up.\n\n"
            "  AGENT is claude-code, codex, gemini, cursor or generic.\n\n"
            "  Example:\n"
            '    echo \'{"event":"before","tool":"Bash","params":{"command":"ls"}}\''
            " | lockgate hook generic\n"
        )
        sys.stdout.flush()
        return 0
    return _block("use it as `lockgate hook AGENT`")
