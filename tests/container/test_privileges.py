# SPDX-License-Identifier: Apache-2.0
"""P5: what a cell may do to the kernel. Every probe has a control in an unprotected container."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from sandbox.cell.run.seccomp import _ABI, _COMMON, _KEPT
from sandbox.config.settings import CellSettings, Settings
from tests.container.conftest import MakeLab
from tests.container.lab import OWNERS, Lab


@pytest.fixture
def lab(shared_lab: Lab) -> Lab:
    """Return the lab of all tests here that need nothing special."""
    return shared_lab


Weak = Callable[[str], str]

STATUS = {
    "CapInh": "0" * 16,
    "CapPrm": "0" * 16,
    "CapEff": "0" * 16,
    "CapBnd": "0" * 16,
    "CapAmb": "0" * 16,
    "NoNewPrivs": "1",
    "Seccomp": "2",
}


def python(source: str) -> str:
    """Return a shell command that runs a Python program."""
    return f"python3 - <<'END'\n{source}\nEND\n"


@pytest.mark.parametrize("owner", OWNERS)
def test_a_command_has_no_capability_and_can_gain_none(lab: Lab, weak: Weak) -> None:
    wanted = "|".join(STATUS)
    look = f"grep -E '^({wanted}):' /proc/self/status"

    def parsed(text: str) -> dict[str, str]:
        return {k: v.strip() for k, _, v in (row.partition(":") for row in text.splitlines())}

    assert parsed(lab.read(look).stdout) == STATUS
    assert parsed(lab.sh(look).stdout) == STATUS
    control = parsed(weak(look))
    assert all(control[key] != value for key, value in STATUS.items() if key not in _NONE_AS_ROOT)


_NONE_AS_ROOT = ("CapInh", "CapAmb")
"""Sets that are empty even for root in a privileged container."""


@pytest.mark.parametrize("owner", OWNERS)
def test_a_command_is_not_root_and_cannot_become_root(lab: Lab, weak: Weak) -> None:
    source = """
import ctypes, json, os
libc = ctypes.CDLL(None, use_errno=True)
out = {"ids": 0 in (os.getuid(), os.geteuid(), os.getgid(), os.getegid(), *os.getgroups())}
libc.prctl(8, 1, 0, 0, 0)
for name, act in {
    "setuid": lambda: os.setresuid(0, 0, 0),
    "setgid": lambda: os.setresgid(0, 0, 0),
    "setgroups": lambda: os.setgroups([0]),
    "chown": lambda: (open("/tmp/mine", "w").close(), os.chown("/tmp/mine", 0, 0)),
}.items():
    try:
        act()
        out[name] = True
    except PermissionError:
        out[name] = False
print(json.dumps(out))
"""
    names = ("ids", "setuid", "setgid", "setgroups", "chown")
    assert json.loads(lab.sh(python(source)).stdout) == dict.fromkeys(names, False)
    assert json.loads(weak(python(source))) == dict.fromkeys(names, True)


SYSTEM_CALLS = """
import ctypes, errno, json, os, platform
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
out = {}
def probe(name, *arguments):
    pid_read, pid_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        ctypes.set_errno(0)
        result = libc.syscall(*arguments)
        code = ctypes.get_errno() if result < 0 else 0
        os.write(pid_write, (errno.errorcode.get(code, "done")).encode())
        os._exit(0)
    os.close(pid_write)
    text = os.read(pid_read, 100).decode()
    os.close(pid_read)
    os.waitpid(pid, 0)
    out[name] = text or "killed"
for name, number in TABLE.items():
    probe(name, number, *ARGUMENTS.get(name, (-1, -1, -1, -1, -1)))
for name, flag in NAMESPACES.items():
    probe("new " + name, UNSHARE, flag)
print(json.dumps(out))
"""
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "add_key": (b"user\0", b"lockgate-test\0", b"x", 1, -2),
    "bpf": (0, 0, 0),
    "fsopen": (b"tmpfs\0", 0),
    "io_uring_setup": (1, b"\0" * 120),
    "keyctl": (0, -2, 1),
    "mount": (b"none\0", b"/tmp\0", b"tmpfs\0", 0, None),
    "open_tree": (-100, b"/tmp\0", 1),
    "setns": (-1, 0),
    "umount2": (b"/nonexistent\0", 0),
    "unshare": (0x20000,),
    "userfaultfd": (1,),
}
NAMESPACES = {
    "mount namespace": 0x00020000,
    "control group namespace": 0x02000000,
    "host name namespace": 0x04000000,
    "ipc namespace": 0x08000000,
    "user namespace": 0x10000000,
    "pid namespace": 0x20000000,
    "network namespace": 0x40000000,
}


def system_calls(names: list[str], table: dict[str, int]) -> str:
    """Return a command that tries system calls, each in a process of its own."""
    arguments = {k: v for k, v in ARGUMENTS.items() if k in names}
    head = f"TABLE = { ({n: table[n] for n in names})!r}\nARGUMENTS = {arguments!r}\n"
    head += f"NAMESPACES = {NAMESPACES!r}\nUNSHARE = {table['unshare']}\n"
    return python(head + SYSTEM_CALLS)


@pytest.fixture
def table(lab: Lab) -> dict[str, int]:
    """Return the numbers of system calls on the cell's machine."""
    return {**_COMMON, **_ABI[lab.read("uname -m").stdout.strip()][2]}


def test_system_calls_that_no_build_needs_are_refused(
    lab: Lab, weak: Weak, table: dict[str, int]
) -> None:
    names = sorted(set(table) - set(_KEPT))
    found = json.loads(lab.sh(system_calls(names, table)).stdout)
    wanted = dict.fromkeys((*names, *(f"new {name}" for name in NAMESPACES)), "EPERM")
    assert found == wanted
    # The numbers and arguments are right: unprotected, none of them is refused as such.
    control = json.loads(weak(system_calls(names, table)))
    known = {name for name, result in control.items() if result not in ("EPERM", "ENOSYS")}
    needed = {f"new {name}" for name in NAMESPACES} | {"mount", "unshare", "bpf", "keyctl"}
    assert needed <= known


def test_a_new_namespace_cannot_be_had_through_clone(lab: Lab, weak: Weak) -> None:
    source = """
import ctypes, json, os, signal
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
out = {}
for name, flag in NAMESPACES.items():
    pid = libc.syscall(CLONE, flag | signal.SIGCHLD, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    out[name] = pid > 0
    if pid > 0:
        os.waitpid(pid, 0)
    arguments = (ctypes.c_uint64 * 8)(flag, 0, 0, 0, signal.SIGCHLD, 0, 0, 0)
    pid = libc.syscall(435, arguments, ctypes.sizeof(arguments))
    if pid == 0:
        os._exit(0)
    out["clone3: " + name] = pid > 0
    if pid > 0:
        os.waitpid(pid, 0)
print(json.dumps(out))
"""
    number = {"x86_64": 56, "aarch64": 220}[lab.read("uname -m").stdout.strip()]
    command = python(f"NAMESPACES = {NAMESPACES!r}\nCLONE = {number}\n{source}")
    names = [*NAMESPACES, *(f"clone3: {name}" for name in NAMESPACES)]
    assert json.loads(lab.sh(command).stdout) == dict.fromkeys(names, False)
    assert json.loads(weak(command)) == dict.fromkeys(names, True)


def test_calls_of_another_abi_are_refused(lab: Lab, weak: Weak) -> None:
    if lab.read("uname -m").stdout.strip() != "x86_64":
        pytest.skip("only x86_64 has two more")
    program = r"""
cat > /tmp/abi.c <<'END'
#include <errno.h>
#include <stdio.h>
#include <unistd.h>
#include <sys/syscall.h>
int main(void) {
    long pid = -1;
    __asm__ volatile("int $0x80" : "=a"(pid) : "a"(20L) : "memory");
    printf("i386 %ld\n", pid > 0 ? 1L : pid);
    errno = 0;
    pid = syscall(0x40000000L | SYS_getpid);
    printf("x32 %s\n", pid > 0 ? "1" : errno == EPERM ? "EPERM" : "other");
    return 0;
}
END
gcc -o /tmp/abi /tmp/abi.c && /tmp/abi
"""
    assert lab.sh(program).stdout == "i386 -1\nx32 EPERM\n"
    assert weak(program).startswith("i386 1\n")


def test_settings_of_the_machine_cannot_be_changed(lab: Lab, weak: Weak) -> None:
    source = """
import ctypes, json, os, time
libc = ctypes.CDLL(None, use_errno=True)
now = time.clock_gettime(time.CLOCK_REALTIME)
def errno_of(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")
name = os.uname().nodename.encode()
out = {}
for what, act in {
    "host name": lambda: errno_of(libc.sethostname(name, len(name))),
    "priority": lambda: os.setpriority(os.PRIO_PROCESS, 0, -5),
    "chroot": lambda: os.chroot("/"),
    "device node": lambda: os.mknod("/tmp/null", 0o020666, os.makedev(1, 3)),
    "kernel log": lambda: errno_of(libc.klogctl(3, ctypes.create_string_buffer(16), 16)),
}.items():
    try:
        act()
        out[what] = "done"
    except PermissionError:
        out[what] = "refused"
print(json.dumps(out))
"""
    names = ("host name", "priority", "chroot", "device node", "kernel log")
    assert json.loads(lab.sh(python(source)).stdout) == dict.fromkeys(names, "refused")
    assert json.loads(weak(python(source))) == dict.fromkeys(names, "done")


def test_no_program_in_the_cell_is_set_user_id(lab: Lab) -> None:
    found = lab.sh(
        "cp /bin/true /tmp/planted && chmod 6755 /tmp/planted; cp /bin/true s && chmod 4755 s;"
        "find / -xdev -type f -perm /6000 2>/dev/null; find /tmp -type f -perm /6000;"
        "find / -xdev -type f -exec getfattr -n security.capability {} + 2>/dev/null; echo END"
    )
    assert found.stdout == f"/tmp/planted\n{lab.ws}/s\nEND\n"  # what was planted is found
    assert [(one.path, one.outcome) for one in found.changes] == [("s", "hold")]
    assert not (lab.ws / "s").exists()


@pytest.mark.parametrize("owner", OWNERS)
def test_mounts_of_the_cell_give_no_set_id_and_no_devices(lab: Lab) -> None:
    rows = [row.split() for row in lab.sh("cat /proc/self/mountinfo").stdout.splitlines()]
    options = {row[4]: set(row[5].split(",")) for row in rows if row[3] != "/null"}
    writable = {place for place, said in options.items() if "rw" in said} - {"/sys/fs/cgroup"}
    private = {"/tmp", "/home/agent", "/dev/shm", "/dev/mqueue", "/dev", "/dev/pts", "/proc"}
    reading_home = "/home/reading"  # its folder is root's: `test_homes_of_calls`
    assert writable == {str(lab.ws), reading_home, *private}
    assert {"nosuid", "nodev"} <= options[str(lab.ws)]
    assert all("nosuid" in options[place] for place in writable)
    reading = lab.read("cat /proc/self/mountinfo").stdout
    assert re.search(rf" {re.escape(str(lab.ws))} ro,nosuid,nodev", reading)


def test_devices_are_those_of_every_container_and_no_more(lab: Lab, weak: Weak) -> None:
    look = "find /dev -type b -o -type c | grep -v /dev/pts/ | sort"
    harmless = ("full", "null", "random", "tty", "urandom", "zero")
    assert lab.sh(look).stdout.split() == [f"/dev/{name}" for name in harmless]
    assert "/dev/lockgate-test" in weak(look).split()


PROC_AND_SYS = {
    "a setting of the kernel": "echo core > /proc/sys/kernel/core_pattern",
    "the emergency key": "test -w /proc/sysrq-trigger",
    "interrupts": "test -w /proc/irq/default_smp_affinity",
    "memory of the kernel": "head -c 1 /proc/kcore | grep -q .",
    "keys": "grep -q . /proc/keys",
    "timers": "grep -q . /proc/timer_list",
    "a file in sys": "touch /sys/lockgate-test",
    "a module parameter": "find /sys/module -writable -name parameters | grep -q .",
    "a control group": "mkdir /sys/fs/cgroup/lockgate-test",
    "a release agent": "find /sys/fs/cgroup -name release_agent -writable | grep -q .",
    "other groups' processes": "find /sys/fs/cgroup -name cgroup.procs -writable | grep -q .",
    "firmware": "find /sys/firmware -type f | grep -q .",
    "debugging of the kernel": "ls /sys/kernel/debug | grep -q .",
}


def test_proc_and_sys_are_closed(lab: Lab, weak: Weak) -> None:
    def ran(probes: dict[str, str], run: Callable[[str], str]) -> dict[str, str]:
        lines = [
            f"( {probe} ) 2>/dev/null && echo open || echo closed" for probe in probes.values()
        ]
        return dict(zip(probes, run("\n".join(lines)).split(), strict=True))

    found = ran(PROC_AND_SYS, lambda script: lab.sh(script).stdout)
    assert found == dict.fromkeys(PROC_AND_SYS, "closed")
    # The control only looks, after mounting proc and sys anew: it must not change this machine.
    looks = {
        "a setting of the kernel": "test -w /proc/sys/kernel/core_pattern",
        "interrupts": "test -e /proc/irq",
        "timers": "grep -q . /proc/timer_list",
    }
    mounts = "mount -t proc proc /proc && mount -t sysfs sys /sys\n"
    assert ran(looks, lambda script: weak(mounts + script)) == dict.fromkeys(looks, "open")


def test_sys_is_mounted_read_only(lab: Lab) -> None:
    rows = [row.split() for row in lab.sh("cat /proc/self/mountinfo").stdout.splitlines()]
    kinds = ("sysfs", "cgroup", "cgroup2")
    options = {row[4]: row[5].split(",")[0] for row in rows if row[row.index("-") + 1] in kinds}
    assert set(options.values()) == {"ro"}
    assert "/sys" in options


def test_the_cell_does_not_see_where_its_control_groups_lie(lab: Lab) -> None:
    look = "cut -d: -f3 /proc/self/cgroup | sort -u"
    assert lab.sh(look).stdout == "/\n"
    assert lab.look(look) == "/\n"


OUTSIDE = {
    "the root": "/lockgate-test",
    "programs": "/usr/bin/lockgate-test",
    "libraries": "/lib/lockgate-test",
    "settings": "/etc/lockgate-test",
    "the runner's code": "/cell/lockgate-test",
    "other homes": "/root/lockgate-test",
    "variable data": "/var/lockgate-test",
    "beside the workspace": "../lockgate-test",
}
WRITABLE = {"the workspace": "lockgate-test", "tmp": "/tmp/t", "home": "~/t", "shm": "/dev/shm/t"}


@pytest.mark.parametrize("owner", OWNERS)
def test_only_the_workspace_and_private_places_are_writable(lab: Lab) -> None:
    probes = {**OUTSIDE, **WRITABLE}
    script = "\n".join(
        f"(touch {path}) 2>/dev/null && echo yes || echo no" for path in probes.values()
    )
    found = dict(zip(probes, lab.sh(script).stdout.split(), strict=True))
    assert found == {**dict.fromkeys(OUTSIDE, "no"), **dict.fromkeys(WRITABLE, "yes")}


def test_neither_runner_nor_keeper_can_be_traced_or_read(lab: Lab) -> None:
    source = """
import ctypes, json, os, subprocess
libc = ctypes.CDLL(None, use_errno=True)
out = {}
child = subprocess.Popen(["sleep", "60"])
keeper = next(
    int(p) for p in sorted(os.listdir("/proc"))
    if p.isdigit() and b"cell.keeper" in open(f"/proc/{p}/cmdline", "rb").read()
    and p != str(os.getpid())
)
for name, pid in {"runner": 1, "keeper": keeper, "child": child.pid}.items():
    out[name + " traced"] = libc.ptrace(0x4206, pid, 0, 0) == 0
    for what in ("environ", "mem", "maps", "fd", "cwd", "root", "exe", "ns/mnt"):
        try:
            path = f"/proc/{pid}/{what}"
            if what in ("fd",):
                os.listdir(path)
            elif what in ("cwd", "root", "exe", "ns/mnt"):
                os.readlink(path)
            else:
                open(path, "rb").close()
            out[f"{name} {what}"] = True
        except PermissionError:
            out[f"{name} {what}"] = False
child.kill()
print(json.dumps(out))
"""
    kinds = ("traced", "environ", "mem", "maps", "fd", "cwd", "root", "exe", "ns/mnt")
    found = json.loads(lab.sh(python(source)).stdout)
    assert found == {
        **{f"{who} {kind}": False for who in ("runner", "keeper") for kind in kinds},
        **{f"child {kind}": True for kind in kinds},
    }


def test_no_descriptor_leads_out(lab: Lab) -> None:
    listing = "for f in /proc/self/fd/*; do readlink $f; done"
    for found in (lab.sh(listing), lab.read(listing)):
        kinds = {re.sub(r"[0-9]+", "N", line) for line in found.stdout.splitlines()}
        assert kinds <= {"/dev/null", "pipe:[N]", "/proc/N/fd", "/proc/self/fd"}
        assert "/dev/null" in kinds


def test_limits_of_the_cell_hold(lab: Lab) -> None:
    look = (
        "cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null;"
        "cat /sys/fs/cgroup/pids.max /sys/fs/cgroup/pids/pids.max 2>/dev/null;"
        "ulimit -Hn; ulimit -Hc; df --output=size -B1 /dev/shm | tail -1"
    )
    found = lab.sh(look).stdout.split()
    plan = next(iter(lab.supervisor._live.pool.living())).spec.cell().resources  # type: ignore[union-attr]
    assert found == [str(plan.memory), str(plan.pids), str(plan.files), "0", str(plan.shm)]


def test_shared_memory_and_tmp_are_bounded(lab: Lab) -> None:
    fill = "head -c 2200M /dev/zero > {0}/fill; echo $?; rm -f {0}/fill"
    found = lab.sh(f"{fill.format('/dev/shm')}; {fill.format('/tmp')}")
    assert found.stdout == "1\n1\n"
    assert found.stderr.count("No space left on device") == 2


def test_a_process_that_takes_too_much_memory_is_ended_and_the_call_says_so(
    make_lab: MakeLab,
) -> None:
    lab = make_lab(settings=Settings(cell=CellSettings(memory_mib=128)))
    found = lab.sh("python3 -c 'x = b\"x\" * (256 << 20)'; echo status $?")
    assert found.stdout == "status 137\n"
    assert found.message == "a process was ended for want of memory"
    assert lab.sh("echo alive").stdout == "alive\n"
