# SPDX-License-Identifier: Apache-2.0
"""Private layers are volatile where the kernel can that, and on disk before they are held."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from sandbox.cell import fs, mounts
from sandbox.cell.keeper import private
from tests.conftest import cannot_run
from tests.sandbox.overlays import missing


@pytest.fixture
def base(tmp_path: Path) -> Iterator[Path]:
    if reason := missing():
        cannot_run(reason)
    for name in ("lower", "one/upper", "one/work", "two/upper", "two/work"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "lower/old").write_text("old")
    yield tmp_path


def mount(layers: private.LayerMounts, base: Path, layer: str) -> int:
    """Mount a layer over the lower folder."""
    upper, work = base / layer / "upper", base / layer / "work"
    return layers.mount(str(base / "lower"), str(upper), str(work), mounts.NOSUID)


def is_volatile(base: Path, layer: str) -> bool:
    """Whether the kernel noted that what a layer holds may be lost."""
    return (base / layer / "work/work/incompat/volatile").is_dir()


def test_a_layer_is_volatile_and_takes_what_is_written(base: Path) -> None:
    descriptor = mount(private.LayerMounts(), base, "one")
    try:
        file = os.open("old", os.O_WRONLY | os.O_APPEND, dir_fd=descriptor)
        os.write(file, b", new")
        os.fsync(file)
        os.close(file)
    finally:
        os.close(descriptor)
    assert is_volatile(base, "one")
    assert (base / "one/upper/old").read_text() == "old, new"
    assert (base / "lower/old").read_text() == "old"


def test_what_a_crash_left_of_a_volatile_layer_is_never_mounted_again(base: Path) -> None:
    os.close(mount(private.LayerMounts(), base, "one"))
    with pytest.raises(OSError):
        mount(private.LayerMounts(), base, "one")
    os.close(mount(private.LayerMounts(), base, "two"))  # the control


def test_a_kernel_that_knows_no_volatile_is_asked_once(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really, asked = mounts.overlay, []

    def older(options: dict[str, str], attributes: int, flags: Sequence[str] = ()) -> int:
        asked.append(tuple(flags))
        if flags:
            raise OSError(errno.EINVAL, "no such option")
        return really(options, attributes)

    monkeypatch.setattr(mounts, "overlay", older)
    layers = private.LayerMounts()
    for layer in ("one", "two"):
        os.close(mount(layers, base, layer))
        assert not is_volatile(base, layer)
    assert asked == [("volatile",), (), ()]


def test_another_failure_is_no_sign_of_an_older_kernel(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layers = private.LayerMounts()
    with pytest.raises(OSError), monkeypatch.context() as patched:
        patched.setattr(mounts, "overlay", _full)
        mount(layers, base, "one")
    with pytest.raises(OSError):
        layers.mount(str(base / "nowhere"), str(base / "one/upper"), str(base / "one/work"), 0)
    os.close(mount(layers, base, "two"))
    assert is_volatile(base, "two")


def _full(*_: object) -> int:
    raise OSError(errno.ENOSPC, "full")


class Crash(Exception):
    """The machine goes down here."""


def crash(_: str) -> None:
    """Go down."""
    raise Crash


@pytest.mark.parametrize("crashes", [False, True], ids=["it goes well", "it crashes before"])
def test_a_layer_is_on_disk_before_it_is_among_the_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, crashes: bool
) -> None:
    layer, hold, held = tmp_path / "live/1.0", tmp_path / "live/hold", tmp_path / "held/c1"
    (layer / "upper").mkdir(parents=True)
    held.parent.mkdir()
    hold.mkdir()
    (hold / "rest").write_text("of one that failed")
    steps: list[tuple[str, list[str], bool]] = []

    def synced(kind: str, descriptor: int) -> None:
        place = Path(f"/proc/self/fd/{descriptor}").readlink()
        names = sorted(one.name for one in place.iterdir())
        steps.append((kind, names, held.exists()))

    monkeypatch.setattr(fs, "sync_all", lambda one: synced("all", one))
    monkeypatch.setattr(os, "fsync", lambda one: synced("folder", one))
    before = ("all", ["0", "0.since"], False)
    if crashes:
        with pytest.raises(Crash):
            private.keep({0: str(layer)}, {0: 7}, str(hold), str(held), crash)
        assert (steps, held.exists()) == ([before], False)
        return
    private.keep({0: str(layer)}, {0: 7}, str(hold), str(held), lambda _: None)
    assert steps == [before, ("folder", ["c1"], True)]
    assert (held / "0.since").read_text() == "7"
    assert (held / "0/upper").is_dir()


def test_what_cannot_be_put_on_disk_is_not_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "1.0").mkdir()

    def fails(_: int) -> None:
        raise OSError(errno.EIO, "the disk fails")

    monkeypatch.setattr(fs, "sync_all", fails)
    with pytest.raises(OSError):
        private.keep(
            {0: str(tmp_path / "1.0")}, {0: 7}, str(tmp_path / "h"), str(tmp_path / "c"), crash
        )
    assert not (tmp_path / "c").exists()
