# SPDX-License-Identifier: Apache-2.0
"""A second seccomp filter on top of the engine's: what build tools and tests never need.

Refused with EPERM: io_uring, the kernel's key rings, userfaultfd, perf, bpf, mount and namespace
calls, and packet, vsock and kernel-crypto sockets. Calls of a foreign ABI (32-bit, x32) are
refused as a whole, since their numbers differ. The filter is inherited and cannot be taken off.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct

_EPERM = 1
_RET_ALLOW, _RET_ERRNO = 0x7FFF0000, 0x00050000
_LD_W_ABS, _JEQ, _JGE, _RET = 0x20, 0x15, 0x35, 0x06
_NR, _ARCH, _ARG0 = 0, 4, 16

# Numbers from 424 on are the same on all architectures.
_COMMON = {
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "pidfd_getfd": 438,
    "process_madvise": 440,
    "mount_setattr": 442,
    "quotactl_fd": 443,
}
_ABI = {
    "x86_64": (
        0xC000003E,
        41,
        {
            "ptrace": 101,
            "mount": 165,
            "umount2": 166,
            "quotactl": 179,
            "add_key": 248,
            "request_key": 249,
            "keyctl": 250,
            "unshare": 272,
            "perf_event_open": 298,
            "setns": 308,
            "process_vm_readv": 310,
            "process_vm_writev": 311,
            "kcmp": 312,
            "finit_module": 313,
            "init_module": 175,
            "bpf": 321,
            "userfaultfd": 323,
        },
    ),
    "aarch64": (
        0xC00000B7,
        198,
        {
            "ptrace": 117,
            "mount": 40,
            "umount2": 39,
            "quotactl": 60,
            "add_key": 217,
            "request_key": 218,
            "keyctl": 219,
            "unshare": 97,
            "perf_event_open": 241,
            "setns": 268,
            "process_vm_readv": 270,
            "process_vm_writev": 271,
            "kcmp": 272,
            "finit_module": 273,
            "init_module": 105,
            "bpf": 280,
            "userfaultfd": 282,
        },
    ),
}
# Debuggers inside a cell are useful (gdb, strace) and reach only the cell's own processes.
_KEPT = ("ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "pidfd_getfd")
_FAMILIES = (17, 38, 40)  # AF_PACKET, AF_ALG, AF_VSOCK


def _op(code: int, value: int, true: int = 0, false: int = 0) -> bytes:
    return struct.pack("HBBI", code, true, false, value)


def program(machine: str) -> bytes:
    """Return the filter as BPF instructions. Raises OSError for a machine without a table."""
    if machine not in _ABI:
        raise OSError(f"no seccomp table for `{machine}`")
    arch, socket_number, table = _ABI[machine]
    refused = sorted(number for name, number in {**_COMMON, **table}.items() if name not in _KEPT)
    deny = _op(_RET, _RET_ERRNO | _EPERM)
    out = [_op(_LD_W_ABS, _ARCH), _op(_JEQ, arch, 1, 0), deny, _op(_LD_W_ABS, _NR)]
    if machine == "x86_64":
        out += [_op(_JGE, 0x40000000, 0, 1), deny]
    for number in refused:
        out += [_op(_JEQ, number, 0, 1), deny]
    out += [_op(_JEQ, socket_number, 1, 0), _op(_RET, _RET_ALLOW), _op(_LD_W_ABS, _ARG0)]
    for family in _FAMILIES:
        out += [_op(_JEQ, family, 0, 1), deny]
    out.append(_op(_RET, _RET_ALLOW))
    return b"".join(out)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def install() -> None:
    """Apply the filter to this process and all that it starts. Raises OSError."""
    code = program(platform.machine())
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(code, len(code))
    value = _Program(len(code) // 8, ctypes.cast(buffer, ctypes.c_void_p))
    no_new_privs, set_seccomp, mode_filter = 38, 22, 2
    if libc.prctl(no_new_privs, 1, 0, 0, 0) or libc.prctl(
        set_seccomp, mode_filter, ctypes.byref(value), 0, 0
    ):
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error), "seccomp")
