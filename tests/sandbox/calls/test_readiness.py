# SPDX-License-Identifier: Apache-2.0
"""Waiting for descriptors of any number, and a log that gives its own up."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.audit.events.reading import record_of
from sandbox.audit.log import AuditLog, LogBounds
from sandbox.host.poll import readable
from tests.conftest import opened_below


@pytest.fixture
def many() -> Iterator[None]:
    """Have more than 1,024 descriptors open, as many as `select` knows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    with contextlib.ExitStack() as stack:
        for _ in range(1100):
            stack.callback(os.close, os.open("/dev/null", os.O_RDONLY))
        yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_what_can_be_read_is_told(many: None, tmp_path: Path) -> None:
    reading, writing = os.pipe()
    assert reading > 1024
    with os.fdopen(reading, "rb") as pipe, os.fdopen(writing, "wb", buffering=0) as end:
        assert readable([pipe], 0) == []
        end.write(b"x")
        assert readable([pipe], 10) == [pipe]
        pipe.read(1)
        end.close()
        assert readable([pipe]) == [pipe]  # it has ended
        (tmp_path / "file").touch()
        with (tmp_path / "file").open() as file:
            assert readable([file], 10) == [file]


def test_a_log_that_nobody_has_any_more_is_closed(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.jsonl", tmp_path / "head", LogBounds(1 << 20, 0))
    log.append(record_of({"event": "e"}), durable=False)
    assert opened_below(tmp_path) == [str(tmp_path / "audit.jsonl")]
    del log
    assert opened_below(tmp_path) == []
