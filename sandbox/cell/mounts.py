# SPDX-License-Identifier: Apache-2.0
"""Detached mounts by the kernel's mount API (fsopen, fsmount, open_tree, move_mount): thin calls.

Needs Linux 5.12 (mount_setattr); the numbers from 424 on are the same on all architectures.
"""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Sequence

AT_FDCWD, AT_EMPTY_PATH, AT_SYMLINK_NOFOLLOW = -100, 0x1000, 0x100
_OPEN_TREE, _MOVE_MOUNT, _FSOPEN, _FSCONFIG, _FSMOUNT, _MOUNT_SETATTR = 428, 429, 430, 431, 432, 442
_PIDFD_OPEN, _PIDFD_GETFD = 434, 438
_SETNS = {"x86_64": 308, "aarch64": 268}
_CLONE, _CLOEXEC = 1, os.O_CLOEXEC
_FLAG, _STRING, _CREATE = 0, 1, 6
RDONLY, NOSUID, NODEV = 1, 2, 4
_IDMAP = 0x100000
_NEWNS, _NEWUSER = 0x20000, 0x10000000
NEWNET = 0x40000000
_FROM_EMPTY, _TO_EMPTY = 4, 0x40
_DETACH = 2

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def _call(number: int, *arguments: object) -> int:
    words = [a.encode() if isinstance(a, str) else a for a in arguments]
    result = int(_libc.syscall(ctypes.c_long(number), *words))
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error), f"system call {number}")
    return result


def overlay(options: dict[str, str], attributes: int, flags: Sequence[str] = ()) -> int:
    """Return the descriptor of a new detached overlay mount; `flags` are options without a value.
    Raises OSError."""
    context = _call(_FSOPEN, "overlay", 1)
    try:
        _call(_FSCONFIG, context, _STRING, "source", "overlay", 0)
        for key, value in options.items():
            _call(_FSCONFIG, context, _STRING, key, value, 0)
        for flag in flags:
            _call(_FSCONFIG, context, _FLAG, flag, None, 0)
        _call(_FSCONFIG, context, _CREATE, None, None, 0)
        return _call(_FSMOUNT, context, 1, attributes)
    finally:
        os.close(context)


def clone(directory: int, path: str) -> int:
    """Return a detached copy of the mount of one path (a bind mount)."""
    flags = _CLONE | _CLOEXEC | AT_SYMLINK_NOFOLLOW | (0 if path else AT_EMPTY_PATH)
    return _call(_OPEN_TREE, directory, path, flags)


class _Attributes(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "userns"))


def set_attributes(mount: int, attributes: int, userns: int = 0) -> None:
    """Set attributes of a mount; with `userns`, map its owners as that user namespace says."""
    value = _Attributes(attributes | (_IDMAP if userns else 0), 0, 0, userns)
    size = ctypes.c_size_t(ctypes.sizeof(value))
    _call(_MOUNT_SETATTR, mount, "", AT_EMPTY_PATH, ctypes.byref(value), size)


def move(mount: int, directory: int, path: str = "") -> None:
    """Attach a detached mount at a path below a directory descriptor, or at the descriptor."""
    _call(_MOVE_MOUNT, mount, "", directory, path, _FROM_EMPTY | (0 if path else _TO_EMPTY))


def detach(path: str) -> None:
    """Take the topmost mount at a path, and all below it, out of this namespace."""
    if _libc.umount2(os.fsencode(path), _DETACH):
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error), path)


def enter_mount_namespace(pid: int) -> None:
    """Move this (single-threaded) process into another process's mount namespace."""
    _enter(f"/proc/{pid}/ns/mnt", _NEWNS)


def enter_network_namespace(pid: int) -> None:
    """Move this thread into another process's network namespace."""
    _enter(f"/proc/{pid}/ns/net", NEWNET)


def enter_namespace(descriptor: int, kind: int) -> None:
    """Move this thread into the namespace of that kind which a descriptor names."""
    number = _SETNS.get(platform.machine())
    if number is None:
        raise OSError(38, "setns: unknown architecture", platform.machine())
    _call(number, descriptor, kind)


def _enter(path: str, kind: int) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        enter_namespace(fd, kind)
    finally:
        os.close(fd)


def take_descriptor(pid: int, number: int) -> int:
    """Return a copy of another process's open file (pidfd_getfd; needs SYS_PTRACE)."""
    pidfd = _call(_PIDFD_OPEN, pid, 0)
    try:
        return _call(_PIDFD_GETFD, pidfd, number, 0)
    finally:
        os.close(pidfd)


def owner_map(pairs: dict[int, int]) -> int:
    """Return a user namespace that shows owner `key` as `value`, and all others below 65536 as is.

    Used for idmapped mounts only; no process stays in the namespace.
    """
    number = {"x86_64": 272, "aarch64": 97}[platform.machine()]
    ready, announce = os.pipe()
    leave, hold = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(hold)
            _call(number, _NEWUSER)
            os.write(announce, b"x")
            os.read(leave, 1)
        finally:
            os._exit(0)
    os.close(announce)
    os.close(leave)
    try:
        if not os.read(ready, 1):
            raise OSError(1, "user namespaces are not permitted", "unshare")
        text = _map_text(pairs)
        for name in ("uid_map", "gid_map"):
            with open(f"/proc/{pid}/{name}", "w", encoding="ascii") as file:
                file.write(text)
        return os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(ready)
        os.close(hold)
        os.waitpid(pid, 0)


def _map_text(pairs: dict[int, int]) -> str:
    """Return the lines of a uid_map: each pair, and the identity around what the pairs use."""
    lines = [f"{inside} {outside} 1" for inside, outside in pairs.items()]
    used = sorted(set(pairs) | set(pairs.values()))
    start = 0
    for stop in [*used, 65536]:
        if stop > start:
            lines.append(f"{start} {start} {stop - start}")
        start = stop + 1
    return "\n".join(lines) + "\n"
