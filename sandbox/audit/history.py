# SPDX-License-Identifier: Apache-2.0
"""What the records say of calls: each put together from its own, and which of them stand.

All functions take records newest first, and read only as far back as they must. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sandbox.audit.call_entry import FIELDS, CallEntry, entry_of
from sandbox.audit.events.calls import DecidedRecord, EditedRecord, EndedRecord
from sandbox.audit.events.follow_ups import (
    DiscardedRecord,
    FollowUpRecord,
    PartedRecord,
    UndoneRecord,
    is_entry,
)
from sandbox.audit.events.record import AuditRecord
from sandbox.errors import BadInput

_Gathered = dict[str, Any]
"""What records of a call say so far, by its name in them."""
_LANDED = (EndedRecord, EditedRecord, FollowUpRecord, PartedRecord)
"""Records that may say that changes landed."""


def calls(records: Iterable[AuditRecord], *, limit: int) -> list[CallEntry]:
    """Return the newest calls, undos and landings of parts, each with all that is known of it."""
    found: dict[str, _Gathered] = {}
    order: list[str] = []
    listed: set[str] = set()
    undone: dict[str, str] = {}
    for record in records:
        name = _gather(record, found, undone)
        if name is not None and (isinstance(record, DecidedRecord) or is_entry(record)):
            if name not in listed:  # a call may have been decided about anew
                order.append(name)
                listed.add(name)
            if len(order) >= limit:
                break
    return [_shape(found[name], undone) for name in order]


def call(records: Iterable[AuditRecord], asked: str, wanted: str) -> CallEntry:
    """Return one call by its id or a unique beginning of it (`wanted`). Raises BadInput."""
    found: dict[str, _Gathered] = {}
    undone: dict[str, str] = {}
    for record in records:
        name = _gather(record, found, undone, wanted)
        if name == wanted and (isinstance(record, DecidedRecord) or is_entry(record)):
            break
    families = [name for name in found if not _is_part(name, found)]
    if not wanted or not families:
        raise BadInput(f"no call `{asked}`; `lockgate log` lists them")
    if wanted not in found and len(families) > 1:
        raise BadInput(f"`{asked}` begins {len(families)} call ids; give more of it")
    return _shape(found[wanted if wanted in found else families[0]], undone)


def newest(records: Iterable[AuditRecord]) -> str:
    """Return the id of the newest call; empty when there is none."""
    return next((record.call for record in records if isinstance(record, DecidedRecord)), "")


def landed(
    records: Iterable[AuditRecord], count: int, workspace: str | None = None
) -> list[CallEntry]:
    """Return the newest calls, or parts of calls, whose changes stand (in a workspace); no undos.

    Reads on until so many are found and what was decided of each is read, and no further.
    """
    found: dict[str, _Gathered] = {}
    order: dict[str, None] = {}
    undone: dict[str, str] = {}
    open_: set[str] = set()
    """Those in order of which the decision is not read yet: it stands before the landing."""
    fitting = 0
    for record in records:
        name = _gather(record, found, undone)
        if name is None:
            continue
        new = name not in order and says_landed(record) and stands(name, undone)[0]
        if new and fitting < count:
            order[name] = None
            open_.add(name)
        if name in open_ and (found[name].get("dated") or is_entry(record)):
            open_.remove(name)
            fitting += _lies_in(found[name], workspace)
        if fitting >= count and not open_:
            break
    here = [found[name] for name in order if _lies_in(found[name], workspace)]
    return [_shape(entry, undone) for entry in here[:count]]


def says_landed(record: AuditRecord) -> bool:
    """Whether a record says that changes landed that an undo could take back.

    Not so where they landed in parts, which are calls of their own; what was discarded may have.
    """
    if not isinstance(record, _LANDED) or isinstance(record, UndoneRecord | DiscardedRecord):
        return False
    return bool(record.landed) and not (isinstance(record, PartedRecord) and record.parts)


def _lies_in(entry: Mapping[str, Any], workspace: str | None) -> bool:
    return workspace is None or workspace in (entry.get("workspace"), *(entry.get("also") or ()))


def held(records: Iterable[AuditRecord]) -> list[CallEntry]:
    """Return the calls that wait for a person to land or discard them."""
    found: dict[str, _Gathered] = {}
    undone: dict[str, str] = {}
    order = []
    for record in records:
        name = _gather(record, found, undone)
        if name is not None and isinstance(record, DecidedRecord):
            order.append(name)
    entries = (_shape(found[name], undone) for name in order)
    return [entry for entry in entries if entry.is_held]


def stands(name: str, undone: Mapping[str, str]) -> tuple[bool, str]:
    """Return whether what landed as `name` stands, and the last landing or undo of it.

    An undo that was undone in turn counts as none.
    """
    standing = True
    while name in undone:
        name, standing = undone[name], not standing
    return standing, name


def _gather(
    record: AuditRecord, found: dict[str, _Gathered], undone: dict[str, str], beginning: str = ""
) -> str | None:
    """Add what a record says of its call; return the call, None where it is none that is wanted."""
    name = record.call
    if isinstance(record, UndoneRecord) and name is not None:
        undone[record.undone] = name
    if name is None or not name.startswith(beginning):
        return None
    entry = found.setdefault(name, {})
    for key, value in record.as_json().items():
        entry.setdefault(key, value)
    if isinstance(record, DecidedRecord) and not entry.get("dated"):
        entry |= {"ts": record.ts, "dated": True}
    return name


def _is_part(name: str, found: Mapping[str, Any]) -> bool:
    whole = name.rpartition("-")[0]
    return bool(whole) and whole in found


def _shape(gathered: Mapping[str, Any], undone: Mapping[str, str]) -> CallEntry:
    """Return one call as readers get it."""
    name = gathered["call"]
    standing, last = stands(name, undone)
    fields = {key: value for key, value in gathered.items() if key in FIELDS}
    if gathered.get("undone") or gathered.get("of"):
        fields["ending"] = "ran"  # an undo, and the landing of a part, are over once recorded
    undone_by = None if standing else undone[name]
    return entry_of({**fields, "id": name, "undone_by": undone_by, "last": last})
