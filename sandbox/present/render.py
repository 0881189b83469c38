# SPDX-License-Identifier: Apache-2.0
"""Render decisions, calls and lists for a person. Returns text; prints nothing.

Whatever an agent may have written is made safe here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sandbox.audit.call_entry import CallEntry, entry_of
from sandbox.cells.observation import lines
from sandbox.present.card import fields
from sandbox.text.terminal import safe_block, safe_line

SUBJECT_CHARS = 60
DIGEST_CHARS = 16
"""Of the SHA-256 of what counts, in a list."""
VERDICT_STYLE = {"allow": "green", "report": "yellow", "ask": "magenta", "deny": "red"}


def record(call: CallEntry, stdout: str, stderr: str, diff: str) -> str:
    """Return all that is recorded of one call; the output must be safe already."""
    params = call.params or {}
    rows = [
        ("call", f"{call.id}  {call.ts or ''}"),
        ("agent", f"{call.agent or ''} calls {call.tool or ''}"),
        *((key, str(value)) for key, value in params.items() if value not in (None, False, [], ())),
        ("workspace", str(call.workspace or "")),
        *((("session", str(call.session)),) if call.session else ()),
        *(
            (
                ("verdict", f"{call.verdict} ({call.tier or ''})"),
                ("rules", ", ".join(call.rules or ()) or "none"),
            )
            if call.verdict
            else (("of", str(call.of or call.undone or "")),)
        ),
        *(
            (f"by {layer.get('layer')}", f"{layer.get('verdict')}: {layer.get('reason')}")
            for layer in call.layers or ()
        ),
    ]
    if call.approved_by:
        grant = f", by grant {call.grant}" if call.grant else ""
        rows.append(("approved by", f"{call.approved_by}{grant}"))
    rows.append(("ended", f"{call.ending or 'not finished'}, {call.ms or 0:.0f} ms"))
    if call.exit_status is not None:
        rows.append(("status", str(call.exit_status)))
    rows += _reached(call)
    if call.judgement:
        landed = "landed" if call.landed else "not landed"
        landed = in_parts(call) if call.parts else landed
        rows.append(("judgement", f"{call.judgement}, {landed}"))
    by = call.grounds
    if call.landed and by.get("person"):
        grant = f", by grant {by['grant']}" if by.get("grant") else ""
        rows.append(("landed by", f"{by['person']}{grant}"))
    if call.outcome and call.outcome != call.message:
        rows.append(("outcome", str(call.outcome)))
    if call.parts:
        rows.append(("landed as", ", ".join(map(str, call.parts))))
    if call.is_held:
        rows.append(("waits", f"`lockgate land {call.id}` or `lockgate discard {call.id}`"))
    if call.undone_by:
        rows.append(("undone by", str(call.undone_by)))
    if call.message:
        rows.append(("message", str(call.message)))
    parts = [fields(rows, fold=sys.stdout.isatty())]
    if call.changes:
        total = call.changes_total
        parts.append("changes:\n" + changes(call.changes, total=total))
    if call.events:
        said = "\n".join(f"  {safe_line(line)}" for line in lines(call.events))
        parts.append("what led to the protected path:\n" + said)
    for name, text in (("stdout", stdout), ("stderr", stderr), ("diff", safe_block(diff))):
        if text.strip():
            parts.append(f"{name}:\n{text.rstrip()}")
    return "\n".join(parts)


def _reached(call: CallEntry) -> list[tuple[str, str]]:
    """Return rows about the network that a call had: each host with its bytes, and what it wanted
    in vain."""
    hosts: dict[str, list[int]] = {}
    for connection in call.connections or ():
        name = f"{connection.get('host') or 'nobody'}:{connection.get('port')}"
        count = hosts.setdefault(name, [0, 0, 0])
        for at, value in enumerate(
            (1, connection.get("sent") or 0, connection.get("received") or 0)
        ):
            count[at] += value
    rows = [
        ("reached", f"{name}, {count} connections, {sent} bytes sent, {received} received")
        for name, (count, sent, received) in hosts.items()
    ]
    rows += [
        ("credential", f"`{name}`, in {count} requests")
        for name, count in (call.credentials or {}).items()
    ]
    rows += [
        ("no credential", f"`{name}`: {safe_line(str(why))}")
        for name, why in (call.unread or {}).items()
    ]
    rows += [_host_row(host) for host in call.hosts or ()]
    if call.refused:
        rows.append(("not reached", ", ".join(map(str, call.refused))))
    for port in call.ports or ():
        closed = port.get("closed") or ("" if call.ending is None else "its call ended")
        rows.append(("port", f"{port_line(port)}; {closed or 'open'}"))
    return rows


def _host_row(one: Mapping[str, Any]) -> tuple[str, str]:
    """Return the row of a host beside a call's rights: by whose word it was opened, or not."""
    place = f"{one.get('host')}:{one.get('port')}"
    by = f" by {one['by']}" if one.get("by") else ""
    grant = f", grant {one['grant']}" if one.get("grant") else ""
    asked = f", asked as {one['question']}" if one.get("question") else ""
    because = f": {one['because']}" if one.get("because") else ""
    name = "opened" if one.get("state") == "opened" else "not opened"
    return name, f"{place}{by}{grant}{asked}{because}"


def port_line(port: Mapping[str, Any]) -> str:
    """Say which port of this host leads to which port of a call's cell."""
    return f"{port.get('host')}:{port.get('host_port')} -> {port.get('port')}"


def sent(call: CallEntry) -> str:
    """Return how much a call sent, in KiB, and to how many hosts; empty where it sent nothing."""
    hosts = {
        connection.get("host") for connection in call.connections or () if connection.get("sent")
    }
    amount = -(-(call.sent or 0) // 1024)
    if not amount:
        return ""
    return f"{amount} KiB" + (f" to {len(hosts)} hosts" if len(hosts) > 1 else "")


REPLAY_COLUMNS = (("call", 46), ("verdict", 7), ("rule", 17), ("outcome", 14), ("changes", 28))
WHY_CHARS = 140


def replay_head() -> str:
    """Return the head of a replay's table."""
    names = "  ".join(name.ljust(width) for name, width in REPLAY_COLUMNS)
    return f"  {names}  {'ms':>7}"


def replay_row(outcome: Mapping[str, Any], *, wrong: bool = False) -> str:
    """Return one row of a replay's table, and below it how it differs from what was expected.

    Of a `wrong` line nothing was decided.
    """
    name = str(outcome["id"])
    entry = entry_of({**outcome, "id": name, "last": name})
    cells = (
        f"{entry.id} {subject(entry)}" if outcome["tool"] else str(entry.id),
        "-" if wrong else str(outcome["verdict"]),
        (outcome["rules"] or ["-"])[0],
        "wrong line" if wrong else ended(entry) if entry.ending else "failed",
        brief(outcome["changes"]),
    )
    fitted = [
        _fit(safe_line(cell), width) for cell, (_, width) in zip(cells, REPLAY_COLUMNS, strict=True)
    ]
    if sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
        colour = {"allow": 32, "report": 33, "ask": 35, "deny": 31}.get(cells[1], 0)
        fitted[1] = f"\x1b[{colour}m{fitted[1]}\x1b[0m"
    mark = "!" if outcome.get("expected") is False else " "
    lines = [f"{mark} {'  '.join(fitted)}  {outcome['ms']:>7.1f}"]
    lines.extend(f"    differs: {safe_line(one)}" for one in outcome.get("differences", ()))
    if outcome["ending"] != "ran" or outcome["judgement"] in ("hold", "discard"):
        lines.append(f"    {_fit(safe_line(outcome['message']), WHY_CHARS).rstrip()}")
    return "\n".join(lines)


def replay_sum(outcomes: Sequence[Mapping[str, Any]], *, failed: int, wrong: int = 0) -> str:
    """Return the last line of a replay."""
    compared = [outcome for outcome in outcomes if "expected" in outcome]
    differing = sum(1 for one in compared if not one["expected"])
    parts = [f"{len(outcomes) - wrong} calls"]
    if wrong:
        parts.append(f"{wrong} wrong line{'' if wrong == 1 else 's'}")
    if compared:
        parts.append(f"{differing} NOT as expected" if differing else "all as expected")
    if failed:
        parts.append(f"{failed} failed")
    return ", ".join(parts)


def _fit(text: str, width: int) -> str:
    return text.ljust(width) if len(text) <= width else text[: width - 1] + "…"


def subject(call: CallEntry) -> str:
    """Return in a few words what a call is about."""
    params = call.params or {}
    keys = ("command", "file_path", "pattern", "path", "url", "urls", "query")
    what = next((str(params[key]) for key in keys if params.get(key)), "") or call.of or ""
    text = what if call.tool == "Bash" else f"{call.tool} {what}".strip()
    return _fit(safe_line(text), SUBJECT_CHARS).rstrip()


def ended(call: CallEntry) -> str:
    """Return in a few words how a call ended."""
    ending = str(call.ending or "unfinished")
    if call.undone_by:
        return "undone"
    if ending == "outside" and call.landed:
        return "edited"
    if ending != "ran":
        return ending
    status = call.exit_status
    words = [f"exit {status}"] if status else []
    if call.parts:
        words.append(in_parts(call))
    elif call.landed:
        words.append("landed")
    elif call.judgement in ("hold", "discard"):
        words.append({"hold": "held", "discard": "discarded"}[call.judgement])
    return ", ".join(words) or "ok"


def in_parts(call: CallEntry) -> str:
    """Say what became of a call that a person landed in parts."""
    match call.judgement:
        case "hold":
            return "landed in part, the rest is held"
        case "discard":
            return "landed in part, the rest discarded"
    return "landed in parts"


def changes(
    items: Sequence[Mapping[str, Any]], *, limit: int = 20, total: int | None = None
) -> str:
    """Return changed paths, one a line; `total` is how many there are, if not all are given."""
    lines = []
    for item in items[:limit]:
        source = f" from {safe_line(item['source'])}" if item.get("source") else ""
        objection = ""
        if item.get("outcome"):
            objection = f"  ({item['outcome']}: {safe_line(item.get('reason') or '')})"
        digest = f"  sha256 {item['sha256'][:DIGEST_CHARS]}" if item.get("sha256") else ""
        leads = ", ".join(f"`{safe_line(lead)}`" for lead in item.get("leads_to") or ())
        led = f"; what counts by it: {leads}" if leads else ""
        path = safe_line(item["path"])
        lines.append(f"  {item['kind']:<9}{path}{source}{digest}{objection}{led}")
    count = max(total or 0, len(items))
    if count > limit:
        lines.append(f"  ... and {count - min(limit, len(items))} more, {count} in all")
    return "\n".join(lines)


def short_names(paths: Iterable[str]) -> dict[str, str]:
    """Return folders by their last names, as far as these tell them apart, for narrow tables."""
    every = set(paths)
    names = {path: path.rstrip("/").rsplit("/", 1)[-1] or path for path in every}
    return {
        path: name if sum(name == other for other in names.values()) == 1 else path
        for path, name in names.items()
    }


def brief(items: Sequence[Mapping[str, Any]], *, limit: int = 2, total: int | None = None) -> str:
    """Return changed paths in a few words; `total` is how many there are, if not all are given."""
    count = max(total or 0, len(items))
    marks = {"created": "+", "modified": "~", "deleted": "-", "renamed": ">", "meta": "~"}
    named = [f"{marks.get(i['kind'], '?')}{safe_line(i['path'])}" for i in items[:limit]]
    more = f" +{count - limit} more" if count > limit else ""
    return " ".join(named) + more
