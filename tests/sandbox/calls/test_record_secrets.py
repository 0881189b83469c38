# SPDX-License-Identifier: Apache-2.0
"""No secret of a command, its output or its diff reaches the state folder; with controls."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from policy.model import Verdict
from sandbox.audit.store import Store
from sandbox.calls.flow.output import Output
from sandbox.config.settings import Dirs
from tests.sandbox.calls.test_supervisor import Bench

WORD = "Zx8Kq2Lm9Pw4Rt7Vb3Nc"


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path, monkeypatch)


def everything(folder: Path) -> bytes:
    return b"\n".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("verdict", [Verdict.ALLOW, Verdict.DENY, Verdict.ASK])
def test_a_command_with_a_secret_leaves_none(
    bench: Bench, tmp_path: Path, verdict: Verdict
) -> None:
    bench.verdict = verdict
    bench.sh(f"echo shown DB_PASSWORD={WORD}")
    kept = everything(tmp_path / "lockgate" / "state")
    if verdict is Verdict.ASK:  # whoever is asked sees the exact command, until it is answered
        call = bench.supervisor._record.store.calls(limit=1)[0].id
        bench.supervisor._parts.desk._grants.close(call, "denied")
        kept = everything(tmp_path / "lockgate" / "state")
    assert WORD.encode() not in kept
    assert b"shown DB_PASSWORD=[masked]" in kept


async def _written(store: Store, channel: int, limit: int, data: bytes, size: int) -> None:
    """Write data in pieces as the output of a call, waiting for room as a cell does."""
    output = Output(store, "c1", limit, None)
    for at in range(0, len(data), size):
        output.take(channel, data[at : at + size])
        if (wait := output.room_wanted()) is not None:
            await wait
    await output.finish()


def test_output_that_is_kept_is_masked_across_pieces(tmp_path: Path) -> None:
    store = Store(Dirs.under(tmp_path).create())
    text = f"line\n-----BEGIN RSA PRIVATE KEY-----\n{WORD}\n-----END RSA PRIVATE KEY-----\n"
    data = (text + f"token={WORD}\n").encode() + b"x" * 700_000
    asyncio.run(_written(store, 1, 1_000_000, data * 3, 7919))
    kept = store.output("c1")[0]
    assert WORD.encode() not in kept
    assert kept.count(b"[masked]") == 6
    assert kept.count(b"x" * 700_000) == 3


def test_what_is_no_secret_is_kept_byte_for_byte(tmp_path: Path) -> None:
    store = Store(Dirs.under(tmp_path).create())
    data = bytes(range(256)) * 9000
    asyncio.run(_written(store, 2, 10, data, 4096))
    assert store.output("c1")[1] == data
