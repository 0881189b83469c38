# SPDX-License-Identifier: Apache-2.0
"""The runner's filter, run here by a small interpreter of its instructions."""

from __future__ import annotations

import struct

import pytest

from sandbox.cell.run.seccomp import _ABI, _COMMON, _KEPT, program

ALLOW, REFUSED = 0x7FFF0000, 0x00050000 | 1
MACHINES = tuple(_ABI)
READ = {"x86_64": 0, "aarch64": 63}
INET, UNIX, PACKET, ALG, VSOCK = 2, 1, 17, 38, 40


def answer(code: bytes, number: int, arch: int, first: int = 0) -> int:
    """Return what the filter says of one system call."""
    data = struct.pack("=IIQ6Q", number & 0xFFFFFFFF, arch, 0, first, 0, 0, 0, 0, 0)
    steps = [struct.unpack_from("=HBBI", code, at) for at in range(0, len(code), 8)]
    value, at = 0, 0
    while True:
        operation, true, false, operand = steps[at]
        at += 1
        match operation:
            case 0x20:
                value = struct.unpack_from("=I", data, operand)[0]
            case 0x15:
                at += true if value == operand else false
            case 0x35:
                at += true if value >= operand else false
            case 0x06:
                return int(operand)
            case _:
                raise AssertionError(f"instruction {operation:#x}")


@pytest.mark.parametrize("machine", MACHINES)
def test_what_no_build_needs_is_refused_and_the_rest_is_allowed(machine: str) -> None:
    code = program(machine)
    arch, socket, own = _ABI[machine]
    table = {**_COMMON, **own}
    said = {name: answer(code, number, arch) for name, number in table.items()}
    assert said == {name: ALLOW if name in _KEPT else REFUSED for name in table}
    assert answer(code, READ[machine], arch) == ALLOW
    known = set(table.values()) | {socket}
    others = [number for number in range(500) if number not in known]
    assert {answer(code, number, arch) for number in others} == {ALLOW}


@pytest.mark.parametrize("machine", MACHINES)
def test_sockets_are_told_apart_by_their_family(machine: str) -> None:
    code = program(machine)
    arch, socket, _ = _ABI[machine]
    assert [answer(code, socket, arch, family) for family in (UNIX, INET, 10)] == [ALLOW] * 3
    assert [answer(code, socket, arch, f) for f in (PACKET, ALG, VSOCK)] == [REFUSED] * 3


@pytest.mark.parametrize("machine", MACHINES)
def test_calls_of_another_abi_are_refused(machine: str) -> None:
    code = program(machine)
    for other in {0x40000003, *(arch for arch, _, _ in _ABI.values())} - {_ABI[machine][0]}:
        assert answer(code, READ[machine], other) == REFUSED


def test_calls_with_the_bit_of_x32_are_refused() -> None:
    code = program("x86_64")
    assert answer(code, 0x40000000, 0xC000003E) == REFUSED
    assert answer(code, 0xFFFFFFFF, 0xC000003E) == REFUSED


def test_a_machine_without_a_table_is_an_error() -> None:
    with pytest.raises(OSError, match="no seccomp table for `sparc`"):
        program("sparc")


@pytest.mark.parametrize("machine", MACHINES)
def test_the_filter_fits_into_what_the_kernel_takes(machine: str) -> None:
    code = program(machine)
    assert len(code) % 8 == 0
    assert len(code) // 8 < 256  # jumps are one byte wide
