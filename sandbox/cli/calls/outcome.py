# SPDX-License-Identifier: Apache-2.0
"""What `lockgate run` prints of a call: its output, what became of it, and the status."""

from __future__ import annotations

import sys

from sandbox.cli import said
from sandbox.text.plain import PlainStream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


class CallOutput:
    """Passes the command's output on as it comes."""

    def __init__(self, *, raw: bool, silent: bool) -> None:
        self._silent = silent
        self._raw = raw
        self._safe = {"stdout": PlainStream(), "stderr": PlainStream()}
        self._altered = False

    def write(self, stream: str, data: bytes) -> None:
        """Show a piece of output."""
        if self._silent:
            return
        if self._raw:
            self._put(stream, data)
            return
        self._altered = self._altered or (stream == "stdout" and b"\0" in data)
        self._put(stream, self._safe[stream].feed(data))

    def close(self) -> None:
        """Show what was held back, and end colours that were left on."""
        if self._silent or self._raw:
            return
        for stream, safe in self._safe.items():
            self._put(stream, safe.close())
        if self._altered and not sys.stdout.isatty():
            said.say("the output is binary and was made safe to print; `--raw` passes it as it is")

    @staticmethod
    def _put(stream: str, data: bytes) -> None:
        if data:
            said.show_bytes(data, to_stderr=stream == "stderr")


def say_waiting(call: str, seconds: float) -> None:
    """Say that changes of a call wait to land."""
    from sandbox.text.durations import say_duration

    said.say(f"landing in {say_duration(seconds)}; `lockgate object {call}` prevents it")


def say_host_question(question: str, wants: str) -> None:
    """Say that a call waits for a person's word on a host."""
    said.say(
        f"it waits {wants}; in another terminal `lockgate approve {question}` lets it, `lockgate "
        f"deny {question}` does not"
    )


def conclude(result: Mapping[str, Any], *, quiet: bool) -> int:
    """Say in one line what is to be said of the outcome; return the status."""
    message = str(result.get("message", ""))
    call = result["id"]
    match result["ending"]:
        case "denied":
            said.say(_opening("denied", message))
        case "not-approved":
            said.say(f"not approved: {message}")
        case "timed-out":
            said.say(f"the command was ended: {message or 'the time limit is over'}")
            _say_rest(result)
        case "flooded":
            said.say(f"the command was ended: {message or 'it wrote too much'}")
            _say_rest(result)
        case "protected" | "unwatched":
            said.say(f"the command was ended: {message}")
            _say_rest(result)
        case "cancelled":
            said.say(f"the command was ended: {message or 'it was cancelled'}")
            _say_rest(result)
        case "running":
            said.show_line(call)
            if not quiet:
                said.say(f"runs in the background; `lockgate end {call}` ends and lands it")
            return 0
        case _ if result.get("judgement") in ("hold", "discard"):
            _say_kept_back(result, message)
        case _ if result.get("landed") and result.get("changes"):
            if not quiet:
                say_landed(result)
        case _ if message and not quiet:
            said.say(message)
    return status_of(result)


def _say_rest(result: Mapping[str, Any]) -> None:
    """Say what became of what an ended command had changed until then."""
    if result.get("landed") and result.get("changes"):
        say_landed({**result, "message": ""})
    elif result.get("judgement") == "land":
        said.say("it had changed nothing")


def _say_kept_back(result: Mapping[str, Any], message: str) -> None:
    if result["judgement"] == "discard":
        said.say(_opening("discarded", message))
        return
    call = result["id"]
    way = f"; `lockgate show {call}`, then `lockgate land {call}` or `lockgate discard {call}`"
    said.say(_opening("held", message) + ("" if "`lockgate show " in message else way))


def say_landed(result: Mapping[str, Any]) -> None:
    """Say how much landed, and how it is taken back."""
    count = max(len(result["changes"]), result.get("changes_total") or 0)  # not all are listed
    what, them = ("1 change", "it") if count == 1 else (f"{count} changes", "them")
    note = f"{result['message']}; " if result.get("message") else ""
    way = f"`lockgate undo {result['id']}` takes {them} back"
    if result.get("undoable") is False:
        way = "it cannot be undone"
    said.say(f"{note}landed {what}; {way}")


def _opening(word: str, message: str) -> str:
    return message if message.lower().startswith(word) else f"{word}: {message}"


def status_of(result: Mapping[str, Any]) -> int:
    """Return the status of a call."""
    status = result.get("exit_status")
    match result["ending"]:
        case "denied" | "not-approved":
            return said.NOT_PERMITTED
        case "timed-out":
            return said.TIMED_OUT
        case "protected" | "unwatched":
            return said.NOT_PERMITTED
        case "running":
            return 0
        case "cancelled" if status is None:
            return said.INTERRUPTED
    if status == 0 and result.get("judgement") in ("hold", "discard"):
        return said.NOT_PERMITTED  # what it did is not there: 0 would say that it is
    return int(status) if status is not None else said.FAILED
