# SPDX-License-Identifier: Apache-2.0
"""A layer that waits for a person is kept whole or not at all, however its end is cut short."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from sandbox.cell.journal import removal
from sandbox.cell.keeper import transactions
from sandbox.cell.keeper.placing import Placing
from sandbox.cell.keeper.transaction import Transaction
from sandbox.cell.keeper.transactions import Transactions
from sandbox.cell.keeper.workplace import Workplace
from sandbox.cell.landing.held import Waiting
from sandbox.cell.overlay.steps import Walk


class Cut(Exception):
    """Stands for `kill -9`."""


def _names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    held, beside = tmp_path / "held", tmp_path / "live"
    for index in ("0", "1"):
        (held / "c" / index / "upper" / "d" / "e").mkdir(parents=True)
        (held / "c" / index / "upper" / "d" / "e" / "f").touch()
        (held / "c" / f"{index}.since").write_text("5")
    beside.mkdir()
    return held, beside


def test_half_of_a_layer_is_never_left(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    held, beside = folders
    waiting = Waiting(str(held), str(beside))
    whole = _names(held)
    removed = removal._removed
    cut_at = 0
    while True:
        left = cut_at

        def cut(directory: int, name: str) -> bool:
            nonlocal left
            left -= 1
            if left < 0:
                raise Cut
            return removed(directory, name)

        with monkeypatch.context() as patch:
            patch.setattr(removal, "_removed", cut)
            try:
                waiting.remove("c")
                break
            except Cut:
                cut_at += 1
        assert _names(held) == (whole if waiting.there("c") else [])
    assert cut_at > 1
    assert _names(held) == []
    assert not waiting.remove("c")


def test_a_layer_can_be_removed_twice_under_one_name(folders: tuple[Path, Path]) -> None:
    held, beside = folders
    (beside / "c.gone" / "0").mkdir(parents=True)  # what a crash left
    assert Waiting(str(held), str(beside)).remove("c")
    assert _names(held) + _names(beside) == []


def test_a_full_disk_at_holding_spoils_no_later_holding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, cell = tmp_path / "held", tmp_path / "cell"
    held.mkdir()
    monkeypatch.setattr(transactions, "HELD", str(held))
    work = Workplace()
    work.cell = str(cell)
    placing = Placing(work)
    calls = Transactions(work, placing)
    rename = os.rename

    def full(source: str, target: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", target)

    for name, works in (("c1", False), ("c2", True)):
        (cell / name / "upper").mkdir(parents=True)
        transaction = Transaction(name, writes=True)
        transaction.placed = False
        transaction.layers, transaction.since = [str(cell / name)], [7]
        walked = Walk(str(cell / name / "upper"), {})
        walked.changes.append({"path": "x", "kind": "created", "conflict": False})
        transaction.walks = [walked]
        calls.open_now[name] = transaction
        monkeypatch.setattr("os.rename", rename if works else full)
        if works:
            assert calls.hold({"tx": name}) == {}
        else:
            with pytest.raises(OSError, match="No space"):
                calls.hold({"tx": name})
            calls.drop({"tx": name})
            while calls.prepare():
                pass
            assert not (cell / name).exists()
    assert _names(held) == ["c2", "c2/0", "c2/0.since", "c2/0/upper"]
    placing.watch.close()
