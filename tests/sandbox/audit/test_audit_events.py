# SPDX-License-Identifier: Apache-2.0
"""One class per kind of record: written from it, read into it, and nothing is dropped."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from sandbox.audit.events.calls import DecidedRecord
from sandbox.audit.events.follow_ups import GivenUpRecord, UndoneRecord
from sandbox.audit.events.people import RevokedRecord
from sandbox.audit.events.protected import TamperedRecord
from sandbox.audit.events.reading import RESERVED, kinds, read, record_of, unknown_part
from sandbox.audit.events.record import AuditRecord, UnknownRecord
from sandbox.audit.store import Store
from sandbox.config.settings import Dirs
from sandbox.errors import Unavailable
from tests.sandbox.shells import Shell

ROOT = Path(__file__).parents[3]
LINES: dict[str, tuple[dict[str, Any], type[AuditRecord], str]] = {
    "one of today": ({"event": "undone", "call": "u", "undone": "c"}, UndoneRecord, ""),
    "a field of another version": (
        {"event": "revoked", "grant": "g", "mood": 1},
        RevokedRecord,
        "fields of `revoked`: mood",
    ),
    "a kind of another version": (
        {"event": "pondered", "call": "c", "of": ["x"]},
        UnknownRecord,
        "records of the kind `pondered`",
    ),
    "a field of another shape": (
        {"event": "ended", "call": "c", "ending": 5},
        UnknownRecord,
        "records of the kind `ended`",
    ),
    "a field that is missing": (
        {"event": "decided", "tool": "Bash"},
        UnknownRecord,
        "records of the kind `decided`",
    ),
    "a name that is no text": (
        {"event": "tampered", "workspace": "/w", "path": "a\udc80"},
        TamperedRecord,
        "",
    ),
}


@pytest.mark.parametrize(("line", "kind", "unknown"), LINES.values(), ids=LINES)
def test_a_line_of_any_version_is_kept_whole(
    line: dict[str, Any], kind: type[AuditRecord], unknown: str
) -> None:
    raw = json.dumps({"n": 3, **line, "prev": "0"}).encode()
    record = read(raw)
    assert type(record) is kind
    assert (record.as_json(), record.n, record.prev) == (line, 3, "0")
    assert unknown_part(record) == unknown
    assert record_of(json.loads(raw)) == record


@pytest.mark.parametrize("line", [{}, {"event": 5}, {"event": ["x"], "n": "no"}])
def test_what_has_no_kind_is_kept_too(line: dict[str, Any]) -> None:
    assert isinstance(read(json.dumps(line).encode()), UnknownRecord)


@pytest.mark.parametrize("raw", [b"", b"[]", b"5", b'{"event": '])
def test_what_is_no_record_is_refused(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r"not a record|Expecting"):
        read(raw)


def test_only_what_was_given_stands_in_a_line() -> None:
    record = DecidedRecord(call="c", env=None, tool="Bash")
    assert list(record.as_json().items()) == [
        ("event", "decided"),
        ("call", "c"),
        ("tool", "Bash"),
        ("env", None),
    ]


def test_a_record_cannot_be_changed() -> None:
    record = GivenUpRecord(call="c")
    with pytest.raises(ValueError, match="frozen"):
        record.call = "d"


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """Return a command line that starts nothing."""
    return Shell(tmp_path)


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_nobody_else_writes_a_record_of_the_logs_own(tmp_path: Path, name: str) -> None:
    store = Store(Dirs.under(tmp_path).create())
    for record in (record_of({"event": name}), UnknownRecord(event=name)):
        with pytest.raises(Unavailable, match="of the log's own"):
            store.append(record, durable=False)
    store.append(GivenUpRecord(call="c"), durable=False)  # the control
    assert len(list(store.records())) == 1


def test_verify_tells_what_it_does_not_know(shell: Shell) -> None:
    store = Store(shell.dirs)
    store.append(GivenUpRecord(call="c"), durable=False)
    assert shell("audit", "verify") == (0, f"{store.log}: whole\n", "")
    for line in ({"event": "pondered"}, {"event": "pondered"}, {"event": "stop", "mood": 1}):
        store.append(record_of(line), durable=False)
    status, out, err = shell("audit", "verify")
    assert (status, out) == (0, f"{store.log}: whole\n")
    assert err.splitlines() == [
        "lockgate: this version does not know fields of `stop`: mood (1 line)",
        "lockgate: this version does not know records of the kind `pondered` (2 lines)",
    ]
    assert json.loads(shell("audit", "verify", "--json")[1])["unknown"] == {
        "fields of `stop`: mood": 1,
        "records of the kind `pondered`": 2,
    }


def test_no_module_builds_a_record_by_hand() -> None:
    """Whoever writes makes an object of its class: `record_of` is for what was read."""
    found = []
    for path in sorted((ROOT / "sandbox").rglob("*.py")):
        if path.is_relative_to(ROOT / "sandbox" / "audit"):
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Dict) and _kind(node) in kinds():
                found.append(f"{path}:{node.lineno}")
            if isinstance(node, ast.Name | ast.alias) and "record_of" in ast.dump(node):
                found.append(f"{path}: record_of")
    assert found == []


def _kind(node: ast.Dict) -> str:
    for key, value in zip(node.keys, node.values, strict=True):
        if isinstance(key, ast.Constant) and key.value == "event":
            return str(value.value) if isinstance(value, ast.Constant) else ""
    return ""


def test_a_record_by_hand_would_be_found() -> None:
    """The control of the test before."""
    node = ast.parse('{"call": "c", "event": "ended"}', mode="eval").body
    assert isinstance(node, ast.Dict)
    assert _kind(node) in kinds()


def test_the_documentation_has_a_row_for_each_kind() -> None:
    text = (ROOT / "docs" / "audit.md").read_text("utf-8")
    section = text.partition("\n## Records\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    expected = [
        f"| `{name}` | {str(kind.__doc__).splitlines()[0].removesuffix('.')} |"
        for name, kind in kinds().items()
    ]
    assert rows[1:] == expected
