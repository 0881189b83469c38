# SPDX-License-Identifier: Apache-2.0
"""What an engine's runtimes can do for cells, and what they leave undone. Pure.

A runtime that starts containers on the host's kernel sees mounts that are moved into a running
container; one with a kernel of its own (gVisor, Kata) shows what was mounted when it started.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

SHARED_KERNEL = ("runc", "crun", "youki")
"""Runtimes whose containers share the host's kernel, by name."""
_IGNORES_LIMITS = ("--ignore-cgroups", "-ignore-cgroups")
_OVERLAYS = ("--overlay", "-overlay", "--overlay2", "-overlay2")
_HARMLESS_OVERLAYS = ("false", "none", "root:")
"""Overlays of a sandbox's own that leave the workspace alone."""


def moves_mounts(name: str) -> bool:
    """Whether a mount can be moved into a running container of a runtime."""
    return name in SHARED_KERNEL


def default_of(info: Mapping[str, Any]) -> str:
    """Return the name of the runtime that an engine uses unasked."""
    return str(info.get("DefaultRuntime") or "runc")


def missing(name: str, info: Mapping[str, Any]) -> str | None:
    """Return why an engine (its `info` answer) cannot use a runtime at all, or None."""
    found = info.get("Runtimes") or {}
    if name in found:
        return None
    others = ", ".join(f"`{one}`" for one in sorted(found) if not one.startswith("io."))
    return (
        f"the engine has no runtime `{name}` (it has {others or 'none'}): register it in the "
        "engine's daemon.json and reload the engine (docs/configuration.md)"
    )


def unenforced(name: str, info: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what a runtime, as it is registered, does not enforce. Each is below the floor."""
    arguments = _arguments((info.get("Runtimes") or {}).get(name))
    out = []
    if any(
        _option(argument) in _IGNORES_LIMITS and _value(argument) != "false"
        for argument in arguments
    ):
        out.append("limits on memory, processors and processes (`--ignore-cgroups`)")
    if any(
        _option(argument) in _OVERLAYS and not _value(argument).startswith(_HARMLESS_OVERLAYS)
        for argument in arguments
    ):
        out.append("writes to the workspace, which stay in the sandbox (`--overlay`)")
    return tuple(out)


def unfiltered(name: str, info: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return (what gVisor leaves out of the engine's filter of system calls, the remedy), or None.

    A layer of its own: the sandbox's kernel, not the host's, takes those calls. Lockgate's own
    filter holds there as everywhere.
    """
    entry = (info.get("Runtimes") or {}).get(name)
    program = str(entry.get("path", "")) if isinstance(entry, Mapping) else ""
    if not program.rpartition("/")[2].startswith("runsc"):
        return None
    if any(_option(argument).lstrip("-") == "oci-seccomp" for argument in _arguments(entry)):
        return None
    return (
        "the engine's own filter of system calls is not used inside",
        "add `--oci-seccomp` to its `runtimeArgs`",
    )


def _arguments(entry: Any) -> Sequence[str]:
    found = entry.get("runtimeArgs") if isinstance(entry, Mapping) else None
    return [str(one) for one in found or ()]


def _option(argument: str) -> str:
    return argument.partition("=")[0]


def _value(argument: str) -> str:
    return argument.partition("=")[2] or "true"
