# SPDX-License-Identifier: Apache-2.0
"""The few ways in which the sandbox itself fails.

A refusal and a failed command are results, never exceptions. What is raised here means that
Lockgate could not do its own part; whoever catches it at the outermost edge refuses the call.
Messages are one line, lower case: what failed, on what, and what to do.
"""

from __future__ import annotations


def say_os_error(error: OSError) -> str:
    """Say what the system refused, on what, in the words of messages."""
    name = f"`{error.filename}`: " if error.filename else ""
    return f"{name}{(error.strerror or str(error)).lower()}"


class SandboxError(Exception):
    """Lockgate could not do its part; the call must not run or land."""


class Unavailable(SandboxError):
    """Something that this host must offer is missing: an engine, a package, a permission."""


class Busy(Unavailable):
    """Another process holds what is needed; later it can be had."""


class NotEnforced(SandboxError):
    """What exists differs from what was planned, so a promised limit would not hold."""


class Stopped(SandboxError):
    """The stop latch is set; only a person's `resume` clears it."""


class BadInput(SandboxError):
    """A caller passed something that cannot be carried out as asked."""


class NotShown(BadInput):
    """Something else stands there by now than what a person was shown."""


class UnknownRequest(BadInput):
    """A supervisor was asked for something that its version does not know."""


class Outdated(Unavailable):
    """A supervisor runs other code or settings than count now, and nothing keeps it: replace it."""


class ImageProblem(SandboxError):
    """An image is missing, of another version, or lacks what a cell or keeper needs."""
