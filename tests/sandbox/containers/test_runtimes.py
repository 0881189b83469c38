# SPDX-License-Identifier: Apache-2.0
"""What runtimes can do for cells, what is said of them, and how gVisor is registered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sandbox.cells.pool import _enforceable
from sandbox.config.settings import Lifetime, Settings
from sandbox.containers.progress import SilentProgress
from sandbox.containers.runtimes import missing, moves_mounts, unenforced
from sandbox.doctor.check import CheckStatus
from sandbox.doctor.engine import check_wanted_runtime
from sandbox.errors import NotEnforced, Unavailable
from sandbox.setup import gvisor


def info(*arguments: str, default: str = "runc", **more: Any) -> dict[str, Any]:
    """Return an engine's answer; it has runc, and gVisor called with these arguments."""
    gvisors = {"path": "/usr/bin/runsc", "runtimeArgs": list(arguments)}
    return {
        "DefaultRuntime": default,
        "Runtimes": {"io.containerd.runc.v2": {"path": "runc"}, "runc": {}, "runsc": gvisors},
        **more,
    }


DISPOSABLE = Settings(lifetime=Lifetime.DISPOSABLE)
GVISOR = Settings(lifetime=Lifetime.DISPOSABLE, runtime="runsc")
GOOD = ("--network=none", "--oci-seccomp")


def test_only_runtimes_on_the_hosts_kernel_see_mounts_that_are_moved_in() -> None:
    assert [moves_mounts(name) for name in ("runc", "crun", "runsc", "kata", "")] == [
        *(True, True),
        *(False, False, False),
    ]


def test_a_runtime_that_is_not_there_is_named_with_those_that_are() -> None:
    assert missing("runsc", info()) is None
    assert missing("kata", info()) == (
        "the engine has no runtime `kata` (it has `runc`, `runsc`): register it in the engine's "
        "daemon.json and reload the engine (docs/configuration.md)"
    )


LACKS = {
    "nothing": (GOOD, 0),
    "limits": (("--ignore-cgroups",), 1),
    "limits, spelled with one dash": (("-ignore-cgroups=true",), 1),
    "limits are on": (("--ignore-cgroups=false",), 0),
    "an overlay of everything": (("--overlay2=all:memory",), 1),
    "the old overlay": (("--overlay",), 1),
    "an overlay of the root alone": (("--overlay2=root:self",), 0),
    "no overlay": (("--overlay2=none",), 0),
    "both": (("--ignore-cgroups", "--overlay=true"), 2),
}


@pytest.mark.parametrize(("arguments", "count"), LACKS.values(), ids=LACKS)
def test_what_a_runtime_does_not_enforce_is_below_the_floor(
    arguments: tuple[str, ...], count: int
) -> None:
    seen = info(*arguments)
    assert len(unenforced("runsc", seen)) == count
    (check,) = check_wanted_runtime(info(*arguments, "--oci-seccomp"), GVISOR)
    assert check.status is (CheckStatus.FAIL if count else CheckStatus.OK)
    assert bool(check.fix) is bool(count)
    if count:
        with pytest.raises(NotEnforced, match="`runsc` does not enforce"):
            _enforceable(GVISOR, seen)
    else:
        assert _enforceable(GVISOR, seen) == GVISOR


def test_the_settings_name_a_runtime_only_where_the_engine_must_be_told() -> None:
    assert _enforceable(DISPOSABLE, info()).runtime is None
    assert _enforceable(DISPOSABLE, info(default="runsc")).runtime == "runsc"
    assert _enforceable(Settings(runtime="runc"), info()).runtime == "runc"
    with pytest.raises(NotEnforced, match="set `lifetime: disposable` too"):
        _enforceable(Settings(), info(default="runsc"))
    with pytest.raises(NotEnforced, match="no runtime `kata`"):
        _enforceable(Settings(runtime="kata"), info())


def test_the_doctor_says_what_the_settings_ask_for() -> None:
    def said(settings: Settings, seen: dict[str, Any]) -> list[tuple[str, str]]:
        return [(one.status.value, one.detail) for one in check_wanted_runtime(seen, settings)]

    assert said(Settings(), info()) == []
    assert said(DISPOSABLE, info()) == [("ok", "`runc`, disposable")]
    assert said(GVISOR, info(*GOOD)) == [("ok", "`runsc`, disposable")]
    assert said(Settings(runtime="runsc"), info(*GOOD)) == [
        ("fail", "`runsc` does not see mounts that are moved into a running cell")
    ]
    assert said(GVISOR, info("--network=none")) == [
        ("warn", "`runsc`: the engine's own filter of system calls is not used inside")
    ]
    assert said(Settings(runtime="kata"), info())[0][0] == "fail"


# -- gVisor


class Client:
    """An engine that reads its settings when it is told to."""

    def __init__(self, settings: Path, seen: dict[str, Any]) -> None:
        self.settings = settings
        self.seen = seen
        self.reloads: list[tuple[int, int]] = []

    def info(self) -> dict[str, Any]:
        """Answer."""
        return self.seen

    def kill(self, pid: int, number: int) -> None:
        """Take the signal."""
        self.reloads.append((pid, number))
        self.seen["Runtimes"] |= json.loads(self.settings.read_text())["runtimes"]


def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **more: Any) -> Client:
    """Return an engine without gVisor, on a host that has the program."""
    one = Client(tmp_path / "etc" / "daemon.json", info(**more))
    del one.seen["Runtimes"]["runsc"]
    monkeypatch.setattr("sandbox.setup.gvisor.os.kill", one.kill)
    monkeypatch.setattr("sandbox.setup.gvisor.shutil.which", lambda *_, **__: "/usr/bin/runsc")
    return one


def test_an_engine_of_ours_is_told_of_gvisor_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one: Any = client(tmp_path, monkeypatch)
    one.settings.parent.mkdir()
    one.settings.write_text('{"mtu": 1400, "runtimes": {"kata": {"path": "kata"}}}')
    one.settings.chmod(0o640)
    gvisor.ensure(one, 4242, SilentProgress(), one.settings)
    assert one.reloads == [(4242, 1)]
    assert json.loads(one.settings.read_text()) == {
        "mtu": 1400,
        "runtimes": {
            "kata": {"path": "kata"},
            "runsc": {"path": "/usr/bin/runsc", "runtimeArgs": [*GOOD]},
        },
    }
    assert one.settings.stat().st_mode & 0o777 == 0o640
    gvisor.ensure(one, 4242, SilentProgress(), one.settings)
    assert len(one.reloads) == 1  # it is there already


def test_an_engine_with_systemds_control_groups_gets_gvisor_with_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one: Any = client(tmp_path, monkeypatch, CgroupDriver="systemd")
    gvisor.ensure(one, 1, SilentProgress(), one.settings)
    assert one.seen["Runtimes"]["runsc"]["runtimeArgs"] == [*GOOD, "--systemd-cgroup"]


def test_a_runtime_of_ours_that_enforces_too_little_is_registered_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one: Any = client(tmp_path, monkeypatch)
    one.seen["Runtimes"]["runsc"] = {"path": "x", "runtimeArgs": ["--ignore-cgroups"]}
    gvisor.ensure(one, 1, SilentProgress(), one.settings)
    assert one.seen["Runtimes"]["runsc"]["runtimeArgs"] == [*GOOD]


def test_an_engine_of_somebody_else_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one: Any = client(tmp_path, monkeypatch)
    with pytest.raises(Unavailable, match=r"did not start it: have .*runsc.* in .*daemon\.json"):
        gvisor.ensure(one, None, SilentProgress(), one.settings)
    assert (one.reloads, one.settings.exists()) == ([], False)


@pytest.mark.parametrize("text", ["{", "[]", '{"runtimes": []}'])
def test_settings_that_cannot_be_read_are_not_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    one: Any = client(tmp_path, monkeypatch)
    one.settings.parent.mkdir()
    one.settings.write_text(text)
    with pytest.raises(Unavailable, match=r"the engine's settings .*daemon\.json"):
        gvisor.ensure(one, 1, SilentProgress(), one.settings)
    assert (one.reloads, one.settings.read_text()) == ([], text)


def test_a_host_without_gvisor_that_may_not_install_it_is_told_how(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one: Any = client(tmp_path, monkeypatch)
    monkeypatch.setattr("sandbox.setup.gvisor.shutil.which", lambda *_, **__: None)
    monkeypatch.setattr("sandbox.setup.gvisor.apt.can_install", lambda: False)
    with pytest.raises(Unavailable, match=r"^gVisor is missing: run `sudo apt-get install runsc`$"):
        gvisor.ensure(one, 1, SilentProgress(), one.settings)
